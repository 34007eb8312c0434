"""Searches at the same time, random states, tables without a direction."""

import threading

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_info, threadpool_limits

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)[:200, :8]
y = y[:200]


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_threads_of_blas_after_concurrent_searches():
    """One search enters while another is inside, and leaves after it."""
    from fuzzytwin._utils.threads import limited_threads

    entered, leave = threading.Event(), threading.Event()

    def second():
        with limited_threads():
            entered.set()
            leave.wait(10)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        other = threading.Thread(target=second)
        with limited_threads():
            other.start()
            entered.wait(10)
            assert set(blas_threads()) == {1}
        leave.set()
        other.join()
        assert blas_threads() == before

        searches = [
            threading.Thread(target=FuzzyTwinSVCCV(memberships=(None,), cv=3).fit, args=(X, y))
            for _ in range(4)
        ]
        for search in searches:
            search.start()
        for search in searches:
            search.join()
        assert blas_threads() == before


@pytest.mark.parametrize("seed", [0, RandomState(0)], ids=["int", "RandomState"])
def test_random_states_draw_as_in_grid_search(seed):
    fixed = {"kernel": "rbf", "n_landmarks": 30, "random_state": seed}
    grid = {"C": [(1.0, 1.0), (1.0, 4.0), (4.0, 1.0), (4.0, 4.0)], "gamma": [0.05, 0.2]}
    wanted = GridSearchCV(FuzzyTwinSVC(**fixed, alpha=1.0), grid, cv=3).fit(X, y)
    search = FuzzyTwinSVCCV(
        Cs=[1.0, 4.0], alphas=[1.0], memberships=(None,), rules=("distance",), kernels="rbf",
        gammas=[0.05, 0.2], n_landmarks=30, random_state=seed, cv=3, selection="score",
    ).fit(X, y)  # fmt: skip
    results = wanted.cv_results_
    theirs = {
        (params["C"], params["gamma"]): [results[f"split{i}_test_score"][p] for i in range(3)]
        for p, params in enumerate(results["params"])
    }
    for p, params in enumerate(search.cv_results_["params"]):
        mine = [search.cv_results_[f"split{i}_test_score"][p] for i in range(3)]
        assert_array_equal(mine, theirs[params["C"], params["gamma"]])
    again = wanted.best_estimator_.landmark_map_.landmarks
    assert_array_equal(search.best_estimator_.landmark_map_.landmarks, again)


@pytest.mark.parametrize("kernels", ["linear", "rbf"])
def test_constant_tables(kernels):
    rows, labels = np.full((20, 3), 0.7), np.repeat([0, 1], 10)
    search = FuzzyTwinSVCCV(Cs=[0.5, 2.0], alphas=[1.0, 10.0], kernels=kernels, cv=2)
    slow = GridSearchCV(
        FuzzyTwinSVC(kernel=kernels),
        {"C": [(0.5, 0.5), (0.5, 2.0), (2.0, 0.5), (2.0, 2.0)], "alpha": [1.0, 10.0]},
        cv=2,
    ).fit(rows, labels)
    search.fit(rows, labels)
    assert_allclose(search.cv_results_["mean_test_score"].max(), slow.best_score_)
