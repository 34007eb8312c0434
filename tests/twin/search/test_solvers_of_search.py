"""A search of wide tables in the space of their rows: the scores of GridSearchCV."""

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


def scores_of(search):
    results = search.cv_results_
    key = [
        repr((p["C"], float(p["alpha"]), p["rule"], str(p["membership"])))
        for p in results["params"]
    ]
    table = np.array([results[f"split{i}_test_score"] for i in range(3)])
    return {k: table[:, i] for i, k in enumerate(key)}


def assert_same_as_grid_search(X, y, memberships, rules, *, alphas=ALPHAS, scoring="accuracy"):
    ours = FuzzyTwinSVCCV(
        Cs=CS, alphas=alphas, memberships=memberships, rules=rules, cv=FOLDS, scoring=scoring,
        solver="gram",
    ).fit(X, y)  # fmt: skip
    pairs = [(a, b) for a in CS for b in CS] if len(np.unique(y)) == 2 else CS
    theirs = GridSearchCV(
        FuzzyTwinSVC(solver="gram"),
        {"C": pairs, "alpha": alphas, "membership": memberships, "rule": rules},
        cv=FOLDS, scoring=scoring, refit=False,
    ).fit(X, y)  # fmt: skip
    expected, found = scores_of(theirs), scores_of(ours)
    assert expected.keys() == found.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=1e-12, err_msg=key)
    return ours


@pytest.mark.parametrize(("n_classes", "is_sparse"), [(2, False), (3, True)])
def test_same_scores_as_grid_search(n_classes, is_sparse):
    X, y, _ = wide(n_classes, is_sparse=is_sparse)
    rules = ["distance"] if is_sparse else ["residual"]
    scoring = "balanced_accuracy" if is_sparse else "accuracy"
    memberships = [None, "center", "hyperplane", "neighbor"]
    ours = assert_same_as_grid_search(X, y, memberships, rules, scoring=scoring)
    assert ours.best_estimator_.solver_ == "gram"
    assert ours.n_features_in_ == X.shape[1] == ours.best_estimator_.coef_.shape[1]
    assert ours.predict(X).shape == y.shape


@pytest.mark.parametrize("d", [600, 39])
def test_memberships_that_need_the_columns_get_the_rows_as_given(d):
    """More columns than rows, and as many as the training rows have dimensions."""
    X, y, _ = wide(2, d=d)
    assert_same_as_grid_search(X, y, ["intuitionistic", "entropy"], ["distance"])


def test_same_scores_with_weights_and_degrees():
    X, y, s = wide(2)
    mu = np.linspace(0.1, 1.0, len(y))
    for degrees in (None, mu):
        searches = [
            FuzzyTwinSVCCV(
                Cs=CS, alphas=ALPHAS, memberships=[None, "center"], cv=FOLDS, solver=name,
                class_weight="balanced", scoring="balanced_accuracy",
            ).fit(X, y, s, degrees)
            for name in ("moments", "gram")
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


def test_no_ridge_in_the_space_of_rows():
    X, y, _ = wide(2)
    search = FuzzyTwinSVCCV(Cs=[1.0], alphas=[0.0, 1.0], memberships=None, solver="gram")
    with pytest.raises(ValueError, match=r"alphas=.* contains 0.*solver='moments'.*GridSearchCV"):
        search.fit(X, y)
    assert search.set_params(solver="auto").fit(X, y).best_estimator_.solver_ == "moments"


def test_default_search_of_a_wide_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3000))
    y = X[:, :20].sum(axis=1) > 0
    X[:, :20] *= 6.0
    search = FuzzyTwinSVCCV(memberships=(None, "neighbor"), cv=FOLDS).fit(X, y)
    assert search.best_estimator_.solver_ == "gram"
    assert search.best_score_ > 0.7
    assert search.score(X, y) > 0.9


def test_errors_name_the_solver_and_the_remedy():
    X, y, _ = wide(2)
    with pytest.raises(ValueError, match="solver='gram' works with kernel='linear' only"):
        FuzzyTwinSVCCV(kernels="rbf", solver="gram").fit(X, y)
    with pytest.raises(ValueError, match=r"solver='iterative' cannot be searched.*GridSearchCV"):
        FuzzyTwinSVCCV(solver="iterative").fit(X, y)
    with pytest.raises(ValueError, match="solver='best' is unknown"):
        FuzzyTwinSVCCV(solver="best").fit(X, y)
