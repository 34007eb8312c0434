"""A search without moments: the same scores as GridSearchCV, by every solver."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

CS, ALPHAS = [0.25, 1.0], [0.5, 50.0]
FOLDS = StratifiedKFold(3)


def wide(n_classes, *, is_sparse=False, n=60, d=90):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 2.0
    if is_sparse:
        X[rng.random(X.shape) < 0.6] = 0.0
        X = sparse.csr_matrix(X)
    return X, np.array(["a", "b", "c"])[y], rng.integers(0, 3, n).astype(float)


def grid_of(n_classes):
    if n_classes > 2:
        return {"C": CS, "alpha": ALPHAS}
    return {"C": [(a, b) for a in CS for b in CS], "alpha": ALPHAS}


def scores_of(search):
    results = search.cv_results_
    key = [
        repr((p["C"], float(p["alpha"]), p["rule"], str(p["membership"])))
        for p in results["params"]
    ]
    table = np.array([results[f"split{i}_test_score"] for i in range(3)])
    return {k: table[:, i] for i, k in enumerate(key)}


@pytest.mark.parametrize("solver", ["rows", "iterative"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_same_scores_as_grid_search(is_sparse, n_classes, solver):
    X, y, _ = wide(n_classes, is_sparse=is_sparse)
    memberships = [None, "center", "hyperplane", "neighbor"]
    rules = ["distance"] if is_sparse else ["residual"]
    scoring = "balanced_accuracy" if is_sparse else "accuracy"
    ours = FuzzyTwinSVCCV(
        CS, alphas=ALPHAS, memberships=memberships, rules=rules, cv=FOLDS, scoring=scoring,
        solver=solver, tol=1e-9,
    ).fit(X, y)  # fmt: skip
    theirs = GridSearchCV(
        FuzzyTwinSVC(solver=solver, tol=1e-9),
        {**grid_of(n_classes), "membership": memberships, "rule": rules},
        cv=FOLDS, scoring=scoring,
    ).fit(X, y)  # fmt: skip
    expected, found = scores_of(theirs), scores_of(ours)
    assert expected.keys() == found.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=1e-12, err_msg=key)
    assert ours.best_estimator_.solver_ == solver
    assert ours.n_features_in_ == X.shape[1] == ours.best_estimator_.coef_.shape[1]
    assert ours.predict(X).shape == y.shape


@pytest.mark.parametrize("solver", ["rows", "iterative"])
def test_same_scores_with_weights_and_degrees(solver):
    X, y, s = wide(2)
    mu = np.linspace(0.1, 1.0, len(y))
    for degrees in (None, mu):
        searches = [
            FuzzyTwinSVCCV(
                CS, alphas=ALPHAS, memberships=[None, "center"], cv=FOLDS, solver=name, tol=1e-9,
                class_weight="balanced", scoring="roc_auc",
            ).fit(X, y, s, degrees)
            for name in ("moments", solver)
        ]  # fmt: skip
        expected, found = (scores_of(search) for search in searches)
        for key, values in expected.items():
            np.testing.assert_allclose(found[key], values, atol=1e-9, err_msg=key)
        np.testing.assert_allclose(
            searches[1].cv_results_["mean_test_brier"],
            searches[0].cv_results_["mean_test_brier"],
            rtol=1e-5,
        )
        assert searches[0].best_params_ == searches[1].best_params_


@pytest.mark.parametrize("solver", ["rows", "iterative"])
def test_other_scores_and_no_ridge(solver):
    """Points that cannot be scored at once are fitted one by one."""
    X, y, _ = wide(2)
    for scoring, alphas in (("average_precision", [1.0, 10.0]), ("accuracy", [0.0, 1.0])):
        y_ = (y == "b").astype(int)
        ours = FuzzyTwinSVCCV(
            [0.5, 1.0], alphas=alphas, memberships=None, rules="distance", cv=FOLDS,
            scoring=scoring, solver=solver, tol=1e-9,
        ).fit(X, y_)  # fmt: skip
        theirs = GridSearchCV(
            FuzzyTwinSVC(solver="moments"),
            {"C": [(a, b) for a in (0.5, 1.0) for b in (0.5, 1.0)], "alpha": alphas,
             "membership": [None], "rule": ["distance"]},
            cv=FOLDS, scoring=scoring,
        ).fit(X, y_)  # fmt: skip
        expected, found = scores_of(theirs), scores_of(ours)
        for key, values in expected.items():
            np.testing.assert_allclose(found[key], values, atol=1e-12, err_msg=key)


def test_default_search_of_a_wide_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3000))
    y = X[:, :10].sum(axis=1) + X[:, 10:20].sum(axis=1) > 0
    X[:, :20] *= 6.0
    search = FuzzyTwinSVCCV(memberships=(None, "neighbor"), cv=FOLDS).fit(X, y)
    assert search.best_estimator_.solver_ == "rows"
    assert search.best_score_ > 0.7
    assert search.score(X, y) > 0.9


def test_errors_name_the_solver():
    X, y, _ = wide(2)
    with pytest.raises(ValueError, match="solver='rows' works with kernel='linear' only"):
        FuzzyTwinSVCCV(kernels="rbf", solver="rows").fit(X, y)
    with pytest.raises(ValueError, match="solver='iterative' has no widths"):
        FuzzyTwinSVCCV(planes=("crisp", "fuzzy"), solver="iterative").fit(X, y)
    with pytest.raises(ValueError, match="solver='best' is unknown"):
        FuzzyTwinSVCCV(solver="best").fit(X, y)
