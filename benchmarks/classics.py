"""One fit of TwinSVC as ratios to LinearSVC(loss="hinge") in the same run, on one thread."""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._measure import best_time, peak_beyond
from fuzzytwin import TwinSVC
from fuzzytwin.datasets import make_ndc

# LinearSVC converges within its 1000 passes for the least of these only.
PENALTIES = (1e-5, 0.1, 1.0)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks classics [rows ...]`; by default 10^4 and 10^5 rows of 32 columns."""
    sizes = [int(float(size)) for size in arguments] or [10**4, 10**5]
    print("seconds and MiB beyond X of one fit; * stopped at max_iter")
    print(f"{'':>10s}{'C':>8s}{'TwinSVC':>10s}{'LinearSVC':>12s}{'ratio':>8s}{'MiB beyond X':>22s}")
    for n in sizes:
        X, y = make_ndc(n, 32, random_state=0)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        for C in PENALTIES:
            models = TwinSVC(C=C), LinearSVC(loss="hinge", C=C, random_state=0)
            times = [_seconds(model, X, y) for model in models]
            memory = [_memory(model, X, y) for model in models]
            mine, theirs = ("* "[int(np.max(m.n_iter_) < m.max_iter)] for m in models)
            print(
                f"{n:10,d}{C:8g}{times[0]:9.3f}{mine}{times[1]:11.3f}{theirs}"
                f"{times[0] / times[1]:8.2f}{memory[0]:10.0f} and {memory[1]:.0f} (X: "
                f"{X.nbytes / 2**20:.0f})",
                flush=True,
            )


def _seconds(model, X, y):
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return best_time(lambda: model.fit(X, y), 3)


def _memory(model, X, y):
    """Measured in a process of its own, which has no freed memory to take from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=X, y=y)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(_memory_here, (model, path))


def _memory_here(model, path):
    with np.load(path) as held, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        X, y = held["X"], held["y"]
        model.fit(X[:500], y[:500])  # imports and the like
        return peak_beyond(lambda: model.fit(X, y))


if __name__ == "__main__":
    import sys

    run(sys.argv[1:])
