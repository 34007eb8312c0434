"""Curved planes are searched in stages; what is listed was scored, as GridSearchCV scores it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_val_score

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.kernels._bandwidths import default_gammas
from fuzzytwin.twin._folds import score_split
from fuzzytwin.twin._loo import row_spaces
from tests.twin.search.helpers import FOLDS, weights_for


def in_stages(**changes):
    given = {"kernels": ("linear", "rbf"), "cv": FOLDS, "n_landmarks": 20, "random_state": 0}
    return FuzzyTwinSVCCV(**{**given, **changes})


def test_every_listed_point_has_the_scores_of_a_refit(either):
    X, y = either
    search = in_stages(memberships=(None, "center"), alphas=(0.01, 0.1, 1.0))
    search.fit(X, y)
    results = search.cv_results_
    points = [repr(sorted(point.items(), key=str)) for point in results["params"]]
    assert len(set(points)) == len(points)
    uses_kernel = [i for i, point in enumerate(results["params"]) if point["kernel"] == "rbf"]
    chosen = np.random.default_rng(0).permutation(uses_kernel)[:25]
    listed = np.array([results[f"split{i}_test_score"] for i in range(3)])
    for i in [*chosen, search.best_index_]:
        model = FuzzyTwinSVC(n_landmarks=20, random_state=0, **results["params"][i])
        assert_allclose(listed[:, i], cross_val_score(model, X, y, cv=FOLDS), atol=1e-12)
    stages = {
        (point["C"], point["membership"]) for point in np.array(results["params"])[uses_kernel]
    }
    assert len(stages) > 2  # C and memberships were tried as well


def test_values_that_are_given_make_a_whole_grid(pair):
    X, y = pair
    search = in_stages(
        kernels="rbf", Cs=(0.5, 2.0), alphas=(0.1, 1.0), gammas=(0.1, 0.5, 2.0),
        memberships=(None, "center"), rules="distance",
    ).fit(X, y)  # fmt: skip
    assert len(search.cv_results_["params"]) == 4 * 2 * 3 * 2
    given = in_stages(kernels="rbf", gammas=(0.1, 0.5)).fit(X, y)
    assert {point["gamma"] for point in given.cv_results_["params"]} == {0.1, 0.5}


def test_gammas_go_on_while_the_best_lies_at_an_end():
    """Squares of a board ask for sharp planes, two clouds do not."""
    rng = np.random.default_rng(0)
    board = rng.uniform(0, 4, size=(400, 2))
    y = np.floor(board).sum(axis=1).astype(int) % 2
    clouds = rng.normal(size=(400, 2)) + 1.5 * y[:, None]
    farthest = {}
    for name, X in (("board", board), ("clouds", clouds)):
        search = in_stages(kernels="rbf", n_landmarks=100, memberships=None).fit(X, y)
        middle = np.median(default_gammas(X, None))
        tried = {point["gamma"] for point in search.cv_results_["params"]}
        steps = np.log(np.sort(list(tried)) / middle) / np.log(4.0)
        assert_allclose(steps, np.arange(steps[0].round(), steps[-1].round() + 1), atol=1e-9)
        best = search.best_params_["gamma"] / middle
        farthest[name] = best
        assert min(tried) <= middle / 4
        assert max(tried) >= middle * 4
    assert farthest["board"] > farthest["clouds"]


@pytest.mark.parametrize(("tested", "n_rounds"), [(50, 1), (51, 2), (10**6, 4)])
def test_rounds_of_folds_go_by_the_rows_that_are_tested(monkeypatch, pair, tested, n_rounds):
    """Two rounds of 25 rows of each label test 100 rows; `cv_results_` lists the first."""
    X, y = pair
    assert len(y) == 50
    drawn = []

    def counted(search, grid, split, own):
        drawn.append(len(split[1]))
        return score_split(search, grid, split, own)

    monkeypatch.setattr("fuzzytwin.twin._stages.score_split", counted)
    monkeypatch.setattr("fuzzytwin.twin._search.SMALL_KERNEL_DATA", tested)
    search = FuzzyTwinSVCCV(
        kernels="rbf", gammas=[0.1], alphas=[1.0], memberships=None, cv=3, random_state=0
    ).fit(X, y)
    assert len(drawn) == 2 * 3 * n_rounds  # two stages
    assert search.n_splits_ == 3


def test_auto_is_linear_or_rbf(pair):
    X, y = pair
    given = {"memberships": None, "alphas": (0.1, 1.0)}
    auto = in_stages(kernels="auto", **given).fit(X, y)
    both = in_stages(kernels=("linear", "rbf"), **given).fit(X, y)
    assert auto.best_params_ == both.best_params_
    assert {point["kernel"] for point in auto.cv_results_["params"]} == {"linear", "rbf"}
    with pytest.raises(ValueError, match="kernels='auto' is unknown"):
        in_stages(kernels=("auto", "rbf")).fit(X, y)


@pytest.mark.parametrize("changes", [{}, {"class_weight": "balanced"}])
def test_pairs_of_few_rows_are_solved_in_the_space_of_their_rows(monkeypatch, rows, changes):
    X, y = rows
    solved = []

    def counted(*given, **options):
        solved.append(given)
        return row_spaces(*given, **options)

    weight = weights_for(y) + 0.1
    few = in_stages(n_landmarks=300, **changes)
    monkeypatch.setattr("fuzzytwin.twin._folds.row_spaces", counted)
    here = few.fit(X, y, weight).cv_results_
    assert solved
    solved.clear()
    monkeypatch.setattr("fuzzytwin.twin._make_grid.MAX_PAIR_ROWS_PER_COLUMN", 0.0)
    there = few.fit(X, y, weight).cv_results_
    assert not solved
    assert len(here["params"]) == len(there["params"])
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(here[name], there[name], atol=1e-9)


@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_equal_rows(n_classes):
    """One row again and again, or a few of them: no warning, no failure, nothing to separate."""
    y = np.arange(80) % n_classes
    few = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 20, axis=0)
    for X in (np.ones((80, 3)), few):
        search = FuzzyTwinSVCCV(kernels="auto", cv=4, random_state=0).fit(X, y)
        assert np.isfinite(search.predict_membership(X)).all()
        assert search.best_score_ == pytest.approx(1 / n_classes, abs=0.1)


def test_a_number_of_landmarks_may_be_one_of_numpy(pair):
    X, y = pair
    same = {"kernels": "rbf", "memberships": (None,), "alphas": (0.1,)}
    one, other = (in_stages(n_landmarks=m, **same).fit(X, y) for m in (20, np.int64(20)))
    assert one.best_score_ == other.best_score_
