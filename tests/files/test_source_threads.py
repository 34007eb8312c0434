"""Batches on threads: the same model, the same errors, BLAS on one thread and restored."""

import threading

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from fuzzytwin import FuzzyTwinSVC, ProximalSVC, files
from fuzzytwin.datasets import make_ndc
from fuzzytwin.twin import _fit as fitting

X, y = make_ndc(3000, 5, random_state=0)


def batches():
    return [(X[start : start + 200], y[start : start + 200]) for start in range(0, len(X), 200)]


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def used(monkeypatch):
    """Collect the threads that sum up batches, and the threads of BLAS meanwhile."""
    monkeypatch.setattr("fuzzytwin._params.cpu_count", lambda: 8)
    names, counts, moments = set(), set(), fitting.twin_moments

    def noted(*given):
        names.add(threading.current_thread().name)
        counts.update(blas_threads())
        return moments(*given)

    monkeypatch.setattr(fitting, "twin_moments", noted)
    return names, counts


@pytest.mark.parametrize("membership", [None, "center", "hyperplane"])
def test_models_do_not_depend_on_the_number_of_threads(membership, used):
    names, counts = used
    with threadpool_limits(2, user_api="blas"):
        one = files.fit(FuzzyTwinSVC(membership=membership, n_jobs=1), batches)
        assert names == {threading.current_thread().name}
        for n_jobs in (2, 3):
            names.clear()
            model = FuzzyTwinSVC(membership=membership, n_jobs=n_jobs)
            assert_array_equal(files.fit(model, batches).coef_, one.coef_)
            assert names
            assert threading.current_thread().name not in names
        assert counts == {1}
        assert blas_threads() == {2}


def test_classics_on_threads(used):
    one, two = (files.fit(ProximalSVC(n_jobs=n), batches) for n in (1, 2))
    assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_row_and_threads_end(n_jobs, used):
    bad = X.copy()
    bad[1234, 3] = np.nan
    with (
        threadpool_limits(2, user_api="blas"),
        pytest.raises(ValueError, match="batch 7, row 35: column 3"),
    ):
        files.fit(
            FuzzyTwinSVC(n_jobs=n_jobs),
            [(bad[i : i + 200], y[i : i + 200]) for i in range(0, 3000, 200)],
        )
    assert not [t for t in threading.enumerate() if t.name.startswith("fuzzytwin")]


def test_an_error_ends_the_thread_that_reads_ahead(tmp_path):
    """It ends before the error arrives, not when its batches are collected as garbage."""
    rows = np.random.default_rng(0).normal(size=(500, 2))
    table = pd.DataFrame(rows, columns=["a", "b"]).assign(y=np.arange(500) % 2, m=1.5)
    table.to_csv(tmp_path / "rows.csv", index=False)
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match=r"column 'm' of .* holds 1\.5 in row 2") as caught:
        files.fit(FuzzyTwinSVC(), tmp_path / "rows.csv", target="y", membership="m", batch_rows=10)
    assert set(threading.enumerate()) <= before, caught
