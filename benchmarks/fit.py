"""One fit, as ratios of times within one run: against X.T @ X (the limit) and baselines.

Then predictions and threads.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from scipy import linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._measure import least_times, peak_beyond, verdict
from benchmarks._threads import numbers_of_threads, predictions
from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_ndc

OURS = {
    "FuzzyTwinSVC(None)": lambda: FuzzyTwinSVC(membership=None),
    "FuzzyTwinSVC(center)": lambda: FuzzyTwinSVC(membership="center"),
    "FuzzyTwinSVC(hyperplane)": lambda: FuzzyTwinSVC(membership="hyperplane"),
    "FuzzyTwinSVC(fuzzy planes)": lambda: FuzzyTwinSVC(planes="fuzzy"),
}


# For a million rows, as multiples of X.T @ X.
BARS = {"FuzzyTwinSVC(None)": 1.6, "FuzzyTwinSVC(center)": 4.5}


class TextbookLSTSVM:
    """eq6 and eq7 as they stand: stack, two Gram products, inverse."""

    def fit(self, X, y):
        A, B = (X[y == k] for k in np.unique(y))
        E = np.hstack([A, np.ones((len(A), 1))])
        F = np.hstack([B, np.ones((len(B), 1))])
        EE, FF = E.T @ E, F.T @ F
        self.z1 = -linalg.inv(FF + EE) @ F.sum(axis=0)
        self.z2 = linalg.inv(EE + FF) @ E.sum(axis=0)
        return self


BASELINES = {
    "textbook LST-SVM": TextbookLSTSVM,
    "RidgeClassifier(cholesky)": lambda: RidgeClassifier(solver="cholesky"),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis,
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "LinearSVC": lambda: LinearSVC(random_state=0),
}


def fit(make, X, y):
    make().fit(X, y)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks fit [--only table|predict|threads] [rows ...]`.

    By default 10,000, 100,000 and 1,000,000 rows of 32 columns. Other parts use the last.
    Times of one thread are seconds of the processor, so that other programs do not count.
    """
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else None
    sizes = [int(float(size)) for size in arguments if size not in ("--only", only)]
    sizes = sizes or [10**4, 10**5, 10**6]
    if only in (None, "table"):
        with threadpool_limits(1):
            for n in sizes:
                table(*make_ndc(n, 32, random_state=0))
    X, y = make_ndc(max(sizes), 32, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    parts = {"predict": predictions, "threads": numbers_of_threads}
    for name, part in parts.items():
        if only in (None, name):
            part(X, y)


def table(X, y):
    """Print one table for float64 and float32. Every time is a multiple of the float64 X.T @ X."""
    n = len(X)
    repeats = 20 if n <= 10**5 else 9
    narrow = X.astype(np.float32)
    ours = {
        (name, Z is X): partial(fit, make, Z, y) for name, make in OURS.items() for Z in (X, narrow)
    }
    times = least_times({"limit": lambda: X.T @ X} | ours, repeats, time.process_time)
    limit = times.pop("limit")
    print(f"\n{n:,} x {X.shape[1]}, one thread; X.T @ X takes {limit * 1e3:.2f} ms")
    print(f"{'':28s}{'float64':>9s}{'float32':>9s}   (times X.T @ X)   MiB beyond X (64, 32)")
    for name, make in (OURS | BASELINES).items():
        fits = [partial(fit, make, Z, y) for Z in (X, narrow)]
        memory = [peak_beyond(once) for once in fits]
        if name in BASELINES:
            runs = max(1, min(3, 10**6 // n))
            times |= {
                (name, Z is X): least_times({0: once}, runs, time.process_time)[0]
                for Z, once in zip((X, narrow), fits, strict=True)
            }
        wide, thin = times[name, True] / limit, times[name, False] / limit
        bar = ""
        if name in BARS and n >= 10**6:
            bar = f"  (at most {BARS[name]}: {verdict(max(wide, thin) <= BARS[name])})"
        print(
            f"{name:28s}{wide:9.2f}{thin:9.2f}{'':21s}{memory[0]:8.1f}{memory[1]:8.1f}{bar}",
            flush=True,
        )
