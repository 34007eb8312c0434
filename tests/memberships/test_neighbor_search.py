"""A search finds the neighbours that GridSearchCV finds, on a table full of ties."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.datasets import load_uci
from reproduction.preprocessing import uci_preprocessor
from tests.pairs import every_pair

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def cmc():
    X, y = load_uci("cmc", return_X_y=True)
    return np.asarray(uci_preprocessor("cmc").fit_transform(X), dtype=float), y


def split_scores(results):
    return np.array([results[f"split{i}_test_score"] for i in range(5)])


@pytest.mark.parametrize(
    ("membership", "class_weight"),
    [("neighbor", "balanced"), pytest.param("entropy", None, marks=pytest.mark.slow)],
)
def test_a_search_on_cmc_equals_gridsearchcv(cmc, membership, class_weight):
    X, y = cmc
    ours = FuzzyTwinSVCCV(
        Cs=[0.25, 1.0, 4.0], alphas=[0.1, 10.0], memberships=(membership,), rules=("distance",),
        class_weight=class_weight, cv=FOLDS,
    ).fit(X, y)  # fmt: skip
    theirs = GridSearchCV(
        FuzzyTwinSVC(membership=membership, class_weight=class_weight),
        {"C": [0.25, 1.0, 4.0], "alpha": [0.1, 10.0]}, cv=FOLDS,
    ).fit(X, y)  # fmt: skip
    place = {(p["C"], p["alpha"]): i for i, p in enumerate(theirs.cv_results_["params"])}
    order = [place[np.ravel(p["C"])[0], p["alpha"]] for p in ours.cv_results_["params"]]
    assert_allclose(
        split_scores(ours.cv_results_), split_scores(theirs.cv_results_)[:, order], rtol=1e-12
    )


@every_pair(
    kernel=["linear", "rbf"],
    class_weight=["balanced", {"no": 7.0, "yes": 0.3}],
    imbalance=["", "_balanced"],
    name=["center", "neighbor", "entropy", "intuitionistic"],
)
def test_class_weight_is_no_repetition(name, imbalance, class_weight, kernel):
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes"], [90, 30])
    X = rng.normal(size=(120, 3)) + (y == "yes")[:, None]
    s = rng.integers(1, 4, size=120)
    model = FuzzyTwinSVC(membership=name + imbalance, kernel=kernel, n_landmarks=X[::5], gamma=0.3)
    expected = model.fit(X, y, sample_weight=s).membership_
    got = model.set_params(class_weight=class_weight).fit(X, y, sample_weight=s).membership_
    assert_allclose(got, expected, rtol=1e-12)


def test_class_weight_moves_first_planes_as_weights_do():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [90, 30])
    X = rng.normal(size=(120, 3)) + y[:, None]
    factor = {0: 0.5, 1: 3.0}
    model = FuzzyTwinSVC(membership="hyperplane", class_weight=factor).fit(X, y)
    weight = np.where(y == 0, 0.5, 3.0)
    weighed = FuzzyTwinSVC(membership="hyperplane").fit(X, y, sample_weight=weight)
    assert_allclose(model.membership_, weighed.membership_, rtol=1e-9)
    assert not np.allclose(
        model.membership_, FuzzyTwinSVC(membership="hyperplane").fit(X, y).membership_
    )


def test_a_callable_gets_the_weights_as_given():
    def degrees(X, y, sample_weight):
        given.append(sample_weight)
        return np.ones(len(y))

    given = []
    X, y, s = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 2, np.arange(9) + 1.0
    FuzzyTwinSVC(membership=degrees, class_weight={0: 2.0, 1: 5.0}).fit(X, y, sample_weight=s)
    np.testing.assert_array_equal(given[0], s)
