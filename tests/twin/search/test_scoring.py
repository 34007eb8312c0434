"""Scorers of FuzzyTwinSVCCV: named, callable, weighted, failing."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import get_scorer, make_scorer

from fuzzytwin import FuzzyTwinSVC
from tests.twin.search.helpers import (
    FOLDS,
    aligned,
    assert_same_scores,
    make,
    name_of,
    peer,
    sparsely,
    weights_for,
)


def hits_beyond(estimator, X, y, sample_weight=None):
    """A scorer with an eye for the size of decision values."""
    u = estimator.predict_proba(X)
    own = u[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
    return np.average(own > 0.6, weights=sample_weight)


@sparsely(
    ("either", "scoring", "weighted"),
    ("pair", "rows"),
    (None, "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc_ovr", hits_beyond),
    (False, True, True),
    ids=name_of,
)
def test_scoring(either, scoring, weighted):
    X, y = either
    if scoring == "roc_auc_ovr" and len(np.unique(y)) == 2:
        scoring = "roc_auc"
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], scoring=scoring, alphas=[1.0])
    if callable(scoring) and weighted:  # a plain function cannot ask for weights: do it here
        search.fit(X, y, **given)
        for i, (train, test) in enumerate(FOLDS.split(X, y)):
            for j in (0, 3, -1):
                model = FuzzyTwinSVC(**search.cv_results_["params"][j])
                model.fit(X[train], y[train], given["sample_weight"][train])
                score = hits_beyond(model, X[test], y[test], given["sample_weight"][test])
                assert search.cv_results_[f"split{i}_test_score"][j] == pytest.approx(score)
        return
    assert_same_scores(search, X, y, **given)


def test_two_class_scorers(pair):
    X, y = pair
    for scoring in ("neg_brier_score", make_scorer(hinge, response_method="decision_function")):
        if scoring == "neg_brier_score":
            search, _ = assert_same_scores(make(scoring=scoring, alphas=[1.0]), X, y == "yes")
        else:
            search, _ = assert_same_scores(make(scoring=scoring, alphas=[1.0]), X, y)
        assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@sparsely(
    ("scoring", "labels", "weighted"),
    ("f1", "precision", "recall", "roc_auc", "balanced_accuracy"),
    ((False, True), (1, 2)),
    (False, True, True),
)
def test_named_scores_of_two_classes(pair, scoring, labels, weighted, monkeypatch):
    X, y = pair
    y = np.array(labels)[(y == "yes").astype(int)]
    given = {"sample_weight": weights_for(y)} if weighted else {}
    X = np.repeat(X[:, :2], 2, axis=1).round(1)  # ties
    search = make(Cs=[0.25, 8.0], scoring=scoring, alphas=[1.0])
    monkeypatch.setattr("fuzzytwin.twin._grid.TABLE_ROWS", 7)
    if labels != (1, 2) or scoring in ("roc_auc", "balanced_accuracy"):
        # all at once, none by itself
        monkeypatch.setattr("fuzzytwin.twin._folds.score_predictions", None)
    search, _ = assert_same_scores(search, X, y, **given)
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1


def test_named_scores_where_a_test_fold_lacks_a_class(pair):
    X, y = pair
    one = np.flatnonzero(y == "yes")[:5]
    folds = [(np.setdiff1d(np.arange(len(y)), one), one)] * 2
    for scoring in ("balanced_accuracy", "roc_auc"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = make(scoring=scoring, cv=folds)
            other = peer(search, X, y)
            if np.isnan(other.cv_results_["mean_test_score"]).all():
                with pytest.raises(ValueError, match="NaN at every point"):
                    search.fit(X, y)
            else:
                assert_same_scores(search, X, y)


def test_many_distances_are_not_held_at_once(pair, monkeypatch):
    X, y = pair
    quick = make(scoring="roc_auc").fit(X, y)
    monkeypatch.setattr("fuzzytwin.twin._grid.MAX_DISTANCES", 10)
    slow = make(scoring="roc_auc").fit(X, y)
    for name in ("mean_test_score", "split0_test_score"):
        assert_allclose(quick.cv_results_[name], slow.cv_results_[name], rtol=1e-12)


def hinge(y, decision):
    return -np.maximum(0, 1 - np.where(y == "yes", 1, -1) * decision).mean()


def test_accuracy_by_any_road_is_the_same(either):
    X, y = either
    quick = make().fit(X, y)
    slow = make(scoring=get_scorer("accuracy")).fit(X, y)
    assert_allclose(quick.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"])
    assert quick.best_index_ == slow.best_index_


def fails_without_ridge(estimator, X, y):
    if estimator.alpha < 1:
        raise RuntimeError("too little ridge")
    return estimator.score(X, y)


@pytest.mark.parametrize("selection", ["one_standard_error", "score"])
def test_scorer_that_fails_here_and_there_gives_nan_and_a_warning(pair, selection):
    search = make(scoring=fails_without_ridge, selection=selection)
    with pytest.warns(UserWarning, match="too little ridge"):
        search.fit(*pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = peer(search, *pair)
    mine, theirs = aligned(search.cv_results_, 3), aligned(other.cv_results_, 3)
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores)
    bad = [params["alpha"] < 1 for params in search.cv_results_["params"]]
    assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), bad)
    ranks = search.cv_results_["rank_test_score"]
    assert ranks[bad].min() > ranks[~np.array(bad)].max()
    assert search.best_params_["alpha"] == 10.0
    assert np.isfinite(search.best_score_)


def fails(estimator, X, y):
    raise RuntimeError("never")


def two_numbers(estimator, X, y):
    return {"one": 1.0, "two": 2.0}


def test_scorers_that_never_give_a_number(pair):
    with (
        pytest.warns(UserWarning, match="never"),
        pytest.raises(ValueError, match=r"scoring=.*NaN at every point"),
    ):
        make(scoring=fails).fit(*pair)
    with pytest.raises(ValueError, match="scoring must return a number"):
        make(scoring=two_numbers).fit(*pair)
    with pytest.raises(ValueError, match="scoring"):
        make(scoring="no such scorer").fit(*pair)
