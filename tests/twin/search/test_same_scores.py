"""FuzzyTwinSVCCV gives the scores of GridSearchCV over FuzzyTwinSVC, point by point."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from fuzzytwin import NeighborMembership
from tests.twin.search.helpers import WAYS, assert_same_scores, make, name_of, sparsely, weights_for


@sparsely(("either", "way", "weighted"), ("pair", "rows"), WAYS, (False, True, True), ids=name_of)
def test_memberships(either, way, weighted):
    X, y = either
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], memberships=(way,))
    assert_same_scores(search, X, y, **given)


def test_many_memberships_at_once(either):
    ways = (None, "center", NeighborMembership(k=3), "hyperplane")
    assert_same_scores(make(memberships=ways, alphas=[1.0]), *either)


@sparsely(("either", "weighted"), ("pair", "rows"), (False, True))
def test_balanced_classes(either, weighted):
    X, y = either
    X, y = X[10:], y[10:]  # unbalanced
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], memberships=(None, "center"), class_weight="balanced")
    assert_same_scores(search, X, y, **given)


def test_class_weight_by_label(pair):
    X, y = pair
    for weight in ({"no": 3.0, "yes": 0.5}, {"yes": 2}):
        assert_same_scores(make(class_weight=weight), X, y)


@sparsely(("either", "soft"), ("pair", "rows"), (True, False))
def test_given_degrees_and_soft_labels(either, soft):
    X, y = either
    K = len(np.unique(y))
    rng = np.random.default_rng(2)
    degrees = rng.dirichlet(np.ones(K), size=len(y)) if soft else rng.random(len(y))
    search = make(Cs=[0.25, 8.0])
    search.set_params(memberships=("center", None))
    search.fit(X, y, membership=degrees)
    assert {params["membership"] for params in search.cv_results_["params"]} == {None}
    search, _ = assert_same_scores(
        search.set_params(memberships=(None,)), X, y, membership=degrees,
        sample_weight=weights_for(y) + 0.1,
    )  # fmt: skip
    assert_array_equal(search.best_estimator_.membership_, degrees)


@sparsely(("either", "kind"), ("pair", "rows"), (sparse.csr_matrix, sparse.csc_array), ids=name_of)
def test_sparse_rows(either, kind):
    X, y = either
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = make(Cs=[0.25, 8.0], memberships=(None, "center"))
    dense.set_params(rules="distance").fit(X, y)
    search, _ = assert_same_scores(clone(dense), kind(X), y)
    assert_allclose(search.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"])
    assert search.best_params_ == dense.best_params_


def test_float32(either):
    X, y = either
    search, _ = assert_same_scores(make(memberships=(None, "center")), X.astype(np.float32), y)
    assert search.best_estimator_.coef_.dtype == np.float64


def test_no_ridge_and_columns_that_depend_on_each_other(either):
    X, y = either
    X = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.ones(len(X)), np.zeros(len(X))])
    search = make(alphas=[0.0, 1e-3], selection="score")
    search, _ = assert_same_scores(search, X, y)
    model = search.set_params(alphas=[0.0]).fit(X, y).best_estimator_
    assert model.rank_ < X.shape[1]


def test_rows_far_from_zero(either):
    X, y = either
    near = make().fit(X, y)
    far, _ = assert_same_scores(make(), X + 1e7, y)
    assert_allclose(far.cv_results_["mean_test_score"], near.cv_results_["mean_test_score"])


def test_more_rows_than_one_block(monkeypatch, either):
    """Rows and alphas are scored block by block."""
    X, y = either
    whole = make().fit(X, y)
    monkeypatch.setattr("fuzzytwin.twin._grid.MAX_ROWS", 7)
    monkeypatch.setattr("fuzzytwin.twin._grid.BLOCK_NUMBERS", 1)
    parts = make().fit(X, y)
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(parts.cv_results_[name], whole.cv_results_[name])


def test_moments_split_by_split_give_the_same(monkeypatch, either):
    """Where parts of rows would be too many, each split's rows are met on their own."""
    X, y = either
    shared = make().fit(X, y)
    monkeypatch.setattr("fuzzytwin.twin._make_grid.MAX_NUMBERS", 0)
    alone = make().fit(X, y)
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(alone.cv_results_[name], shared.cv_results_[name])
    assert_allclose(alone.best_estimator_.coef_, shared.best_estimator_.coef_)


# Splitters


def splitters(n):
    order = np.random.default_rng(3).permutation(n)
    half = np.isin(np.arange(n), order[: n // 2])
    return {
        "int": 3,
        "KFold": KFold(3, shuffle=True, random_state=0),
        "RepeatedStratifiedKFold": RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0),
        "ShuffleSplit": ShuffleSplit(4, test_size=0.4, random_state=0),
        "many ShuffleSplits": ShuffleSplit(7, test_size=0.3, random_state=0),
        "TimeSeriesSplit": TimeSeriesSplit(3),
        "PredefinedSplit": PredefinedSplit(np.arange(n) % 4 - 1),
        "indices": [(order[:30], order[30:]), (order[10:], order[:10])],
        "masks": [(half, ~half), (~half, half)],
        "rows that stand twice": [(np.r_[order[:30], order[:30]], np.r_[order[30:], order[30:]])],
        "rows to train and test on": [(order[:40], order)],
        "one split": [(order[:35], order[35:])],
    }


@sparsely(("either", "name"), ("pair", "rows"), tuple(splitters(50)))
def test_splitters(either, name):
    X, y = either
    order = np.random.default_rng(4).permutation(len(y))
    X, y = X[order], y[order]
    search = make(
        cv=splitters(len(y))[name], Cs=[0.25, 8.0], alphas=[1.0], memberships=(None, "center")
    )
    assert_same_scores(search, X, y, sample_weight=weights_for(y) + 0.5)


@pytest.mark.slow
def test_more_than_sixty_two_splits(pair):
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=32, random_state=0)
    assert_same_scores(make(cv=cv, Cs=[1.0, 4.0], alphas=[1.0]), *pair)


def test_groups(either):
    X, y = either
    groups = np.random.default_rng(5).integers(6, size=len(y))
    search, _ = assert_same_scores(make(cv=GroupKFold(3)), X, y, groups=groups)
    assert search.n_splits_ == 3
    with pytest.raises(ValueError, match="groups"):
        make(cv=GroupKFold(3)).fit(X, y)


def test_folds_are_drawn_once(pair):
    """A splitter that shuffles anew in each call serves every point with the same folds."""
    calls = []

    class Counting(KFold):
        def split(self, X, y=None, groups=None):
            calls.append(len(X))
            return super().split(X, y, groups)

    X, y = pair
    search = make(cv=Counting(3, shuffle=True), memberships=(None, None)).fit(X, y)
    assert calls == [len(X)]
    scores = search.cv_results_["mean_test_score"].reshape(2, -1)
    assert_array_equal(scores[0], scores[1])


@pytest.mark.parametrize("rules", ["distance", "residual"])
def test_rows_that_are_as_near_to_either_plane(rules):
    """Classes that mirror each other: many ties, which the grid breaks as `predict` does."""
    for seed in range(3):
        A = np.random.default_rng(seed).integers(-2, 3, size=(12, 2)) * 0.3
        A = np.vstack([A, A[:, ::-1]])
        X, y = np.vstack([A, -A, np.zeros((6, 2))]), np.repeat([0, 1, 0, 1], [24, 24, 3, 3])
        search = make(Cs=[0.25, 4.0], alphas=[0.1, 3.0], rules=(rules,))
        every = np.arange(len(y))
        assert_same_scores(search.set_params(cv=[(every, every)]), X, y)
