"""FuzzyTwinSVCCV over kernels and gammas gives the scores of GridSearchCV."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV


def points(Cs, K):
    return [(a, b) for a in Cs for b in Cs] if K == 2 else list(Cs)


def split_scores(results, n_splits):
    names = ("kernel", "gamma", "membership", "alpha", "rule", "C")
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(n_splits)])
    keys = [
        tuple(repr(point.get(name)) for name in names if (name, point["kernel"]) != LINEAR_GAMMA)
        for point in results["params"]
    ]
    return dict(zip(keys, scores, strict=True))


LINEAR_GAMMA = ("gamma", "linear")


@pytest.mark.parametrize("n_landmarks", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_search_gives_the_scores_of_grid_search(either, n_landmarks):
    """With 15 landmarks out of some 17 or 25 training rows, the sample matters."""
    X, y = either
    Cs, alphas, gammas = (0.25, 4.0), (0.0, 0.5), (0.05, 0.8)
    if n_landmarks > 15:
        alphas = (0.5,)
    memberships = (None, "center") if n_landmarks > 15 else (None, "neighbor")
    rules = ("distance", "residual")
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    search = FuzzyTwinSVCCV(
        Cs=Cs, alphas=alphas, memberships=memberships, rules=rules, cv=folds,
        kernels=("linear", "rbf"), gammas=gammas, n_landmarks=n_landmarks, random_state=0,
    ).fit(X, y)  # fmt: skip
    rest = {
        "membership": memberships, "alpha": alphas, "rule": rules,
        "C": points(Cs, len(np.unique(y))),
    }  # fmt: skip
    grid = [{"kernel": ["linear"], **rest}, {"kernel": ["rbf"], "gamma": gammas, **rest}]
    peer = GridSearchCV(
        FuzzyTwinSVC(n_landmarks=n_landmarks, random_state=0), grid, cv=folds, refit=False
    ).fit(X, y)
    mine, theirs = split_scores(search.cv_results_, 2), split_scores(peer.cv_results_, 2)
    assert mine.keys() == theirs.keys()
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores, atol=1e-12, err_msg=str(point))
    assert np.ptp(list(theirs.values())) > 0.1
    best = FuzzyTwinSVC(n_landmarks=n_landmarks, random_state=0, **search.best_params_).fit(X, y)
    assert_allclose(search.predict_membership(X), best.predict_membership(X), atol=1e-9)


@pytest.mark.parametrize(
    "scoring", [pytest.param(None, marks=pytest.mark.slow), "balanced_accuracy"]
)
def test_search_with_weights_and_other_kernels(two, scoring):
    X, y = two
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    folds = PredefinedSplit(np.arange(len(y)) % 3)
    Cs, alphas, gammas = (0.5, 2.0), (1.0,), (0.1, 0.5)
    search = FuzzyTwinSVCCV(
        Cs=Cs, alphas=alphas, memberships=(None,), cv=folds, scoring=scoring, gammas=gammas,
        kernels=("laplacian", "poly"), degree=2, coef0=1.0, class_weight="balanced",
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    with sklearn.config_context(enable_metadata_routing=True):
        model = FuzzyTwinSVC(degree=2, coef0=1.0, class_weight="balanced")
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scorer = None
        if scoring is not None:
            scorer = sklearn.metrics.get_scorer(scoring).set_score_request(sample_weight=True)
        peer = GridSearchCV(
            model,
            {
                "kernel": ["laplacian", "poly"], "gamma": gammas, "alpha": alphas,
                "C": points(Cs, 2), "rule": ["distance", "residual"],
                "membership": [None],
            },
            cv=folds, refit=False, scoring=scorer,
        ).fit(X, y, sample_weight=weight)  # fmt: skip
    mine, theirs = split_scores(search.cv_results_, 3), split_scores(peer.cv_results_, 3)
    assert mine.keys() == theirs.keys()
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores, rtol=1e-7, err_msg=str(point))


def test_search_over_features_that_are_not_kept(either, monkeypatch):
    X, y = either
    given = {"Cs": (0.5, 2.0), "kernels": "rbf", "memberships": (None, "center"), "cv": 3}
    given |= {"alphas": (0.1, 10.0)}
    kept = FuzzyTwinSVCCV(**given).fit(X, y)
    monkeypatch.setattr("fuzzytwin.twin._folds.MAX_FEATURES", 0)
    lazy = FuzzyTwinSVCCV(**given).fit(X, y)
    assert kept.best_params_ == lazy.best_params_
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(kept.cv_results_[name], lazy.cv_results_[name], atol=1e-9)


def test_search_of_sparse_rows(two):
    X, y = two
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    search = FuzzyTwinSVCCV(
        Cs=(0.5, 2.0), kernels=("linear", "rbf"), memberships=(None, "neighbor"), cv=3,
        alphas=(0.1, 10.0),
    )  # fmt: skip
    dense, rows = clone(search).fit(X, y), clone(search).fit(sparse.csr_array(X), y)
    assert_allclose(
        dense.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"], atol=1e-12
    )
    assert_array_equal(dense.predict(X), rows.predict(sparse.csr_array(X)))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"kernels": ()}, r"kernels=\(\) is empty"),
        ({"kernels": ("linear", "gauss")}, "kernels='gauss' is unknown"),
        ({"kernels": 3}, "kernels=3 is not a sequence"),
        ({"kernels": "rbf", "gammas": ()}, "gammas=.* is empty"),
        ({"kernels": "rbf", "gammas": (0.0,)}, "gammas=0.0 is not allowed"),
        ({"kernels": "rbf", "n_landmarks": 0}, "n_landmarks=0 is not allowed"),
        ({"kernels": "poly", "degree": 0.5}, "degree=0.5 is not allowed"),
    ],
)
def test_bad_values_of_a_search(two, given, match):
    X, y = two
    search = FuzzyTwinSVCCV(Cs=(1.0,), memberships=(None,)).fit(X, y)
    before = search.predict_membership(X)
    with pytest.raises(ValueError, match=match):
        search.set_params(**given).fit(X, y)
    assert_array_equal(search.predict_membership(X), before)


def test_picture_of_curved_planes(two):
    plot = pytest.importorskip("fuzzytwin.plot")
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = two
    X = X[:, :2]
    model = FuzzyTwinSVC(planes="fuzzy", kernel="rbf").fit(X, y)
    display = plot.PlanesDisplay.from_estimator(model, X, y, grid_resolution=20)
    plt.close(display.figure_)
    rows = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    f = model.plane_values(rows)[0]
    assert_allclose(display.centers.reshape(2, -1).T, f)
    assert_array_equal(model.classes_[display.winner.ravel()], model.predict(rows))
