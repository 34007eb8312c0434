"""Names of memberships, wherever a membership can be named."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV, MembershipWeighted, files
from fuzzytwin.memberships import MEMBERSHIPS, EntropyMembership

PLAIN = ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")


@pytest.fixture(scope="module")
def rows():
    """One row in ten belongs to the rare class, and the classes overlap."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 10 == 0, "rare", "common")
    return rng.normal(size=(300, 3)) + 1.5 * (y == "rare")[:, None], y


def test_every_name_has_a_balanced_one():
    assert set(MEMBERSHIPS) == {*PLAIN, *(f"{name}_balanced" for name in PLAIN)}
    for name in PLAIN:
        balanced = MEMBERSHIPS[f"{name}_balanced"]()
        assert type(balanced) is type(MEMBERSHIPS[name]())
        assert balanced.imbalance
        assert not MEMBERSHIPS[name]().imbalance


@pytest.mark.parametrize("name", PLAIN)
def test_a_balanced_name_multiplies_degrees_by_the_size_of_classes(rows, name):
    X, y = rows
    plain = FuzzyTwinSVC(membership=name).fit(X, y).membership_
    balanced = FuzzyTwinSVC(membership=f"{name}_balanced").fit(X, y).membership_
    assert_allclose(balanced, plain * np.where(y == "rare", 1.0, 30 / 270), rtol=1e-12)


def test_balanced_entropy_finds_the_rare_class():
    rng = np.random.default_rng(0)
    rare = np.arange(1500) % 50 == 0
    X = rng.normal(size=(1500, 3)) + rare[:, None]
    found = {}
    for name in ("entropy", "entropy_balanced"):
        model = MembershipWeighted(estimator=FuzzyTwinSVC(), membership=name).fit(X, rare)
        found[name] = model.predict(X)[rare].mean()
    assert found["entropy"] < 0.05
    assert found["entropy_balanced"] > 0.6


def test_a_search_takes_balanced_names(rows):
    X, y = rows
    names = (None, "center_balanced", "entropy_balanced")
    search = FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=names, cv=3).fit(X, y)
    assert set(search.cv_results_["param_membership"]) == set(names)
    instance = EntropyMembership(imbalance=True)
    same = FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=(instance,), cv=3).fit(X, y)
    wanted = search.cv_results_["param_membership"] == "entropy_balanced"
    assert_array_equal(
        search.cv_results_["mean_test_score"][wanted], same.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("name", ["center_balanced", "hyperplane_balanced"])
def test_batches_take_balanced_names(rows, name, class_weight):
    X, y = rows
    model = FuzzyTwinSVC(membership=name, class_weight=class_weight)
    expected = FuzzyTwinSVC(membership=name, class_weight=class_weight).fit(X, y)
    files.fit(model, lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])]))
    assert_allclose(model.coef_, expected.coef_, rtol=1e-8)


def test_an_unknown_name_is_told_all_names():
    with pytest.raises(ValueError, match="'entropy_balanced'"):
        FuzzyTwinSVC(membership="entropy_balances").fit([[0.0], [1.0]], [0, 1])
