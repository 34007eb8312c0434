"""Threads of a search: the same scores whatever `n_jobs`, shared by rows or by splits."""

import threading

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from fuzzytwin import FuzzyTwinSVCCV
from fuzzytwin._utils import threads
from fuzzytwin.twin import _folds as folds
from fuzzytwin.twin import _grid as grid
from fuzzytwin.twin import _stages as stages

SCORES = ("split0_test_score", "split2_test_score", "mean_test_score", "mean_test_brier")


@pytest.fixture(params=["rows", "splits"])
def shared(request, monkeypatch):
    """Pretend that there are enough cores; share rows or splits among threads."""
    monkeypatch.setattr("fuzzytwin._params.cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "MIN_BLAS_NUMBERS", 0)
    monkeypatch.setattr(threads, "MIN_THREAD_NUMBERS", 0)
    monkeypatch.setattr(stages, "MIN_SHARED_ROWS", 0 if request.param == "rows" else 10**9)
    monkeypatch.setattr(grid, "MAX_ROWS", 40)
    return request.param


@pytest.fixture
def used(monkeypatch):
    """Collect the threads that solve for planes and that compute tables of distances."""
    names = {"solve": set(), "tables": set()}
    solve = folds._solver

    def note(kind, function):
        def noted(*given, **named):
            names[kind].add(threading.current_thread().name)
            return function(*given, **named)

        return noted

    for name in ("_score_pairs", "_score_classes"):
        monkeypatch.setattr(grid, name, note("tables", getattr(grid, name)))
    monkeypatch.setattr(folds, "_solver", note("solve", solve))
    return names


def make(K):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 400)
    return rng.standard_normal((400, 3)) + rng.standard_normal((K, 3))[y], y, rng.random(400)


@pytest.mark.parametrize(("K", "weighted"), [(2, False), (3, True)])
def test_scores_do_not_depend_on_the_number_of_threads(K, weighted, shared, used):
    X, y, s = make(K)
    s = s if weighted else None
    search = FuzzyTwinSVCCV(Cs=[0.5, 2.0], alphas=[0.1, 1.0], memberships=(None, "center"), cv=3)
    one = search.set_params(n_jobs=1).fit(X, y, s)
    wanted, point = [one.cv_results_[name] for name in SCORES], one.best_index_
    main = threading.current_thread().name
    for n_jobs in (2, None):
        used["solve"].clear()
        used["tables"].clear()
        with joblib.parallel_config(n_jobs=2):
            found = search.set_params(n_jobs=n_jobs).fit(X, y, s)
        for name, value in zip(SCORES, wanted, strict=True):
            assert_array_equal(found.cv_results_[name], value)
        assert found.best_index_ == point
        assert found.best_estimator_.n_jobs == n_jobs
        assert (main in used["solve"]) == (shared == "rows")
        assert K > 2 or main not in used["tables"] or shared == "splits"


def test_blas_is_restored_after_a_search():
    X, y, _ = make(2)
    with threadpool_limits(2, user_api="blas"):
        FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=(None,), n_jobs=2).fit(X, y)
        with pytest.raises(ValueError, match="n_jobs=0"):
            FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], n_jobs=0).fit(X, y)
        pools = [info for info in threadpool_info() if info["user_api"] == "blas"]
        assert {info["num_threads"] for info in pools} == {2}
