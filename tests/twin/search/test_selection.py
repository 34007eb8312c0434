"""The choice among grid points: the best score, the band, ties."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import StratifiedKFold

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.twin._grid import Grid, score_points
from tests.twin.search.helpers import FOLDS, assert_same_scores, make, sparsely, weights_for


@sparsely(
    ("either", "scoring", "weighted"),
    ("pair", "rows"), (None, "balanced_accuracy"), (False, True, True),
)  # fmt: skip
def test_selection_by_score(either, scoring, weighted):
    X, y = either
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(selection="score", memberships=(None, "center"), scoring=scoring)
    search, other = assert_same_scores(search, X, y, **given)
    assert search.best_score_ == pytest.approx(other.best_score_, abs=1e-12)
    mean = search.cv_results_["mean_test_score"]
    ties = [i for i in range(len(mean)) if mean[i] > mean.max() - 1e-12]
    assert search.best_index_ == min(ties, key=lambda i: price(search, i, -mean[i]))
    assert np.isfinite(search.cv_results_["mean_test_brier"]).all()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1


def price(search, i, loss):
    """What a tie is broken by: C alike, less loss, more ridge, C near 1, no membership, place."""
    params = search.cv_results_["params"][i]
    way, logs = params["membership"], [np.log(C) for C in np.ravel(params["C"])]
    place = -1 if way is None else search.memberships.index(way)
    apart, far = max(logs) - min(logs), sum(map(abs, logs))
    return round(apart, 9), round(loss, 12), -params["alpha"], round(far, 9), place, i


def naive_choice(search, X, y, s, splits, width, near):
    """Brier scores, and the choice by the rule as the docstring tells it, with loops."""
    points = search.cv_results_["params"]
    scores, briers = np.zeros((2, len(points), len(splits)))
    for j, params in enumerate(points):
        for i, (train, test) in enumerate(splits):
            model = FuzzyTwinSVC(**params).fit(X[train], y[train], s[train])
            for row, u, label in zip(
                test, model.predict_membership(X[test]), model.predict(X[test]), strict=True
            ):
                share = s[row] / s[test].sum()
                scores[j, i] += share * (label == y[row])
                for k, known in enumerate(model.classes_):
                    briers[j, i] += share * (u[k] - (y[row] == known)) ** 2
    root = np.sqrt(search.n_splits_)
    means = scores.mean(axis=1)
    best = means.argmax()
    limit = means[best] - width * scores[best].std(ddof=1) / root
    band = [j for j in range(len(points)) if means[j] >= limit - 1e-12]
    least = min(band, key=lambda j: briers[j].mean())
    equal = []
    for j in band:
        gap = briers[j] - briers[least]
        if gap.mean() <= near * gap.std(ddof=1) / root + 1e-12:
            equal.append(j)
    choice = min(equal, key=lambda j: price(search, j, briers[j].mean()))
    return briers.mean(axis=1), band, choice


@sparsely(
    ("either", "weighted", "limits"), ("pair", "rows"), (False, True), ((0.5, 0.0), (2.0, 0.5))
)
def test_selection_by_one_standard_error(monkeypatch, either, weighted, limits):
    width, near = limits
    monkeypatch.setattr("fuzzytwin.twin._selection.BAND", width)
    monkeypatch.setattr("fuzzytwin.twin._selection.SAME_LOSS", near)
    monkeypatch.setattr("fuzzytwin.twin._search.MAX_ROUNDS", 2)
    X, y = either
    weight = weights_for(y) if weighted else None
    s = np.ones(len(y)) if weight is None else weight
    again = StratifiedKFold(3, shuffle=True, random_state=1)
    for cv, rounds in ((FOLDS, [FOLDS]), (3, [StratifiedKFold(3), again])):
        search = make(memberships=("center", None), rules="residual", cv=cv)
        search.fit(X, y, weight)
        splits = [split for turn in rounds for split in turn.split(X, y)]
        briers, band, best = naive_choice(search, X, y, s, splits, width, near)
        assert_allclose(search.cv_results_["mean_test_brier"], briers, rtol=1e-9)
        assert width > 1 or len(band) < len(briers)
        assert search.best_index_ == best
        assert search.best_score_ == search.cv_results_["mean_test_score"][best]
        assert search.n_splits_ == 3


def test_one_split_selects_a_point_of_the_best_score(pair):
    X, y = pair
    order = np.random.default_rng(0).permutation(len(y))
    search = make(cv=[(order[:30], order[30:])]).fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def all_ones(X, y, sample_weight):
    return np.ones(len(y))


@pytest.mark.parametrize("selection", ["one_standard_error", "score"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_ties_go_to_the_simpler_point(selection, n_classes):
    y = np.arange(12) % n_classes
    X = np.zeros((12, 1))  # no point has a direction: all scores and Briers are equal
    search = FuzzyTwinSVCCV(
        Cs=[4.0, 1.0], alphas=[1.0, 100.0], memberships=(all_ones, "center", None),
        selection=selection, cv=2,
    ).fit(X, y)  # fmt: skip
    params = search.best_params_
    assert params["alpha"] == 100.0
    assert params["C"] == ((1.0, 1.0) if n_classes == 2 else 1.0)
    assert params["membership"] is None
    assert params["rule"] == "distance"
    search.set_params(memberships=(all_ones, "center"), rules="distance", alphas=[1]).fit(X, y)
    assert search.best_params_["membership"] is all_ones
    search.set_params(Cs=[0.125, 4.0]).fit(X, y)
    assert search.best_params_["C"] == ((4.0, 4.0) if n_classes == 2 else 4.0)


@pytest.mark.parametrize("weighted", [True, False])
def test_brier_of_rows_that_lie_on_both_planes(weighted):
    """They belong to both classes by a half, so they cost 2 (1/2)^2 each."""
    X = np.array([[-2.0], [0.0], [2.0], [0.0]] * 3)
    y = np.array([0, 0, 1, 1] * 3)
    grid = Grid(np.ones(1), ("distance",), np.ones(1), 2)
    planes = np.array([[[[1.0], [1.0]]]]), np.zeros((1, 1, 2))
    weight = np.arange(12.0) if weighted else np.ones(12)
    _, losses = score_points(grid, *planes, X, y, weight)
    assert losses.item() / (66 if weighted else 12) == pytest.approx(0.5)
