"""Threads: the same results whatever `n_jobs`, and BLAS on one thread inside the library."""

import threading

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from fuzzytwin import (
    GEPSVC,
    CenterMembership,
    FuzzyTwinSVC,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
)
from fuzzytwin._params import count_threads
from fuzzytwin._utils import threads, workers
from fuzzytwin.core import blocks, distances


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def many_cores(monkeypatch):
    """Pretend that there are enough cores, and make chunks and blocks small."""
    monkeypatch.setattr("fuzzytwin._params.cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "MIN_BLAS_NUMBERS", 0)
    monkeypatch.setattr(threads, "MIN_THREAD_NUMBERS", 0)
    monkeypatch.setattr(blocks, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(blocks, "FIRST_ROWS", 20)
    monkeypatch.setattr(blocks, "CHUNK_NUMBERS", 1)
    monkeypatch.setattr(blocks, "BLOCK_NUMBERS", 1)
    monkeypatch.setattr("fuzzytwin.core.distances.IN_CACHE", 1)


@pytest.fixture
def used(monkeypatch):
    """Collect the names of the threads that sum up chunks of rows."""
    names = set()
    members = blocks._class_rows

    def noted(*given):
        names.add(threading.current_thread().name)
        return members(*given)

    monkeypatch.setattr(blocks, "_class_rows", noted)
    return names


def make(n=1500, d=5, K=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    return rng.standard_normal((n, d)) + rng.standard_normal((K, d))[y], y, rng.random(n)


MODELS = {
    "none": FuzzyTwinSVC(),
    "center": FuzzyTwinSVC(membership="center"),
    "hyperplane": FuzzyTwinSVC(membership="hyperplane"),
    "fuzzy": FuzzyTwinSVC(planes="fuzzy"),
    "rbf": FuzzyTwinSVC(kernel="rbf", n_landmarks=20, random_state=0),
    "lst": LeastSquaresTwinSVC(),
    "ls": LeastSquaresSVC(),
    "proximal": ProximalSVC(),
    "gep": GEPSVC(),
}


@pytest.mark.parametrize(
    ("name", "K"), [*((name, K) for name in MODELS for K in (2, 3)), ("none", 13)]
)
def test_results_do_not_depend_on_the_number_of_threads(name, K, many_cores, used):
    X, y, _ = make(K=K)
    model = MODELS[name]
    one = joblib.hash(outcome(model.set_params(n_jobs=1), X, y))
    assert used == {threading.current_thread().name}
    for n_jobs in (2, 3, -1, 2):
        used.clear()
        assert joblib.hash(outcome(model.set_params(n_jobs=n_jobs), X, y)) == one
        assert threading.current_thread().name not in used
    model.set_params(n_jobs=None)
    used.clear()
    with joblib.parallel_config(n_jobs=2):
        assert joblib.hash(outcome(model, X, y)) == one
    assert used
    assert threading.current_thread().name not in used


def outcome(model, X, y):
    model.fit(X, y)
    found = [model.coef_, model.intercept_, model.predict(X), *model.plane_values(X)]
    if hasattr(model, "predict_membership"):
        found += [model.predict_membership(X), model.decision_function(X)]
    return found


@pytest.mark.parametrize("form", [np.float32, sparse.csr_array, np.float64])
@pytest.mark.parametrize("membership", [None, "center"])
def test_forms_and_weights_on_threads(form, membership, many_cores, used):
    X, y, s = make(K=3)
    X = form(X)
    one, two = (
        FuzzyTwinSVC(membership=membership, n_jobs=n_jobs).fit(X, y, sample_weight=s)
        for n_jobs in (1, 2)
    )
    assert len(used) > 1
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.predict_membership(X), two.predict_membership(X))
    soft = np.random.default_rng(1).random((len(y), 3))
    one, two = (FuzzyTwinSVC(n_jobs=n).fit(X, y, s, membership=soft) for n in (1, 2))
    assert_array_equal(one.coef_, two.coef_)
    halves = FuzzyTwinSVC(n_jobs=2).partial_fit(X[:700], y[:700], np.unique(y), s[:700])
    halves.partial_fit(X[700:], y[700:], sample_weight=s[700:])
    assert_allclose(halves.coef_, FuzzyTwinSVC().fit(X, y, s).coef_, rtol=1e-9)


def test_many_numbers_of_columns_go_to_blas_itself(monkeypatch):
    """Sums of wide rows are large: no thread holds some of its own, BLAS has the threads."""
    monkeypatch.setattr("fuzzytwin._params.cpu_count", lambda: 2)
    monkeypatch.setattr(threads, "MIN_BLAS_COLUMNS", 5)
    seen = []
    sums = blocks.class_sums
    monkeypatch.setattr(
        "fuzzytwin.core.moments.class_sums", lambda *a: seen.append(blas_threads()) or sums(*a)
    )
    X, y, _ = make(n=20_000)
    for n_jobs in (None, 2):
        with threadpool_limits(1, user_api="blas"):
            FuzzyTwinSVC(n_jobs=n_jobs).fit(X, y)
    assert seen == [{1}, {2}]


class Watch(CenterMembership):
    """Note the threads of BLAS in the middle of a fit, and fail if asked to."""

    def prepare(self, moments):
        seen.append(blas_threads())
        if self.beta == 13:
            raise RuntimeError("as asked")
        return super().prepare(moments)


seen = []


def test_blas_runs_on_one_thread_and_is_restored():
    X, y, _ = make(n=3000)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        FuzzyTwinSVC(membership=Watch()).fit(X, y)
        assert seen.pop() == {1}
        assert blas_threads() == before
        with pytest.raises(RuntimeError, match="as asked"):
            FuzzyTwinSVC(membership=Watch(beta=13), n_jobs=2).fit(X, y)
        assert seen.pop() == {1}
        assert blas_threads() == before
    assert not [t for t in threading.enumerate() if t.name.startswith("fuzzytwin")]


@pytest.mark.parametrize("method", ["predict", "predict_membership", "plane_values"])
def test_blas_runs_on_one_thread_in_predictions(method, monkeypatch):
    X, y, _ = make(n=3000)
    model, found = FuzzyTwinSVC().fit(X, y), []
    where = "plane_values" if method == "plane_values" else "plane_distances"
    real = getattr(distances, where)
    monkeypatch.setattr(
        distances, where, lambda *a, **k: found.append(blas_threads()) or real(*a, **k)
    )
    with threadpool_limits(2, user_api="blas"):
        getattr(model, method)(X)
        assert found
        assert all(one == {1} for one in found)
        assert blas_threads() == {2}
        X[7, 2] = np.nan
        with pytest.raises(ValueError, match="column 2"):
            getattr(model, method)(X)
        assert blas_threads() == {2}


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_do_not_start_threads(backend):
    with joblib.parallel_config(backend=backend):
        found = joblib.Parallel(n_jobs=2)(joblib.delayed(count_threads)(n) for n in (None, -1, 4))
    assert found == [1, 1, 1]


def count_running(model, X, y):
    """Score by the number of threads that this model starts."""
    started = []
    start = threading.Thread.start

    def noted(thread):
        started.append(thread)
        start(thread)

    threading.Thread.start = noted
    try:
        model.fit(X, y).predict(X)
    finally:
        threading.Thread.start = start
    return sum(thread.name.startswith("fuzzytwin") for thread in started)


def test_grid_search_does_not_oversubscribe(monkeypatch):
    X, y, _ = make(n=60_000)
    monkeypatch.setattr("fuzzytwin._params.cpu_count", lambda: 2)
    assert count_running(FuzzyTwinSVC(n_jobs=2), X, y) > 0
    search = GridSearchCV(
        FuzzyTwinSVC(n_jobs=-1), {"alpha": [1.0, 2.0]}, scoring=count_running, cv=2, n_jobs=2
    )
    search.fit(X, y)
    assert_array_equal(search.cv_results_["mean_test_score"], 0)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
def test_bad_numbers_of_threads(n_jobs):
    X, y, _ = make(n=50)
    with pytest.raises(ValueError, match="n_jobs="):
        FuzzyTwinSVC(n_jobs=n_jobs).fit(X, y)


def test_errors_of_blocks_reach_the_caller(many_cores):
    def fails(item):
        if item == 3:
            raise KeyError(item)
        return item

    with threads.thread_pool(2, 10**6), pytest.raises(KeyError):
        list(workers.map_threads(fails, range(100)))
    with threads.thread_pool(2, 10**6):
        assert list(
            workers.map_threads(lambda i: list(workers.map_threads(abs, [-i])), range(9))
        ) == [[i] for i in range(9)]
