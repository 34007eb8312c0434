"""One fit, as ratios of times within one run: against X.T @ X (the limit) and against peers."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._measure import best_time, peak_beyond
from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import make_ndc

OURS = {
    "FuzzyTwinSVC(None)": lambda: FuzzyTwinSVC(membership=None),
    "FuzzyTwinSVC(center)": lambda: FuzzyTwinSVC(membership="center"),
    "FuzzyTwinSVC(hyperplane)": lambda: FuzzyTwinSVC(membership="hyperplane"),
    "FuzzyTwinSVC(fuzzy planes)": lambda: FuzzyTwinSVC(planes="fuzzy"),
}


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


PEERS = {
    "textbook LST-SVM": TextbookLSTSVM,
    "RidgeClassifier(cholesky)": lambda: RidgeClassifier(solver="cholesky"),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis,
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "LinearSVC": lambda: LinearSVC(random_state=0),
}


def fit(make, X, y):
    make().fit(X, y)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks fit [rows ...]`; by default 10^4, 10^5 and 10^6 rows of 32 columns."""
    sizes = [int(float(size)) for size in arguments] or [10**4, 10**5, 10**6]
    with threadpool_limits(1):
        for n in sizes:
            X, y = make_ndc(n, 32, random_state=0)
            table(X, y)


def table(X, y):
    """Print one table for float64 and float32; every time is a multiple of the float64 X.T @ X."""
    n = len(X)
    repeats = 20 if n <= 10**5 else 7
    narrow = X.astype(np.float32)
    limit = best_time(lambda: X.T @ X, repeats)
    # Met turn by turn, so that a slow moment of the machine does not meet one of them alone.
    limit = min(limit, best_time(lambda: X.T @ X, repeats))
    print(f"\n{n:,} x {X.shape[1]}, one thread; X.T @ X takes {limit * 1e3:.2f} ms")
    print(f"{'':28s}{'float64':>9s}{'float32':>9s}   (times X.T @ X)   MiB beyond X (64, 32)")
    for name, make in (OURS | PEERS).items():
        runs = repeats if name in OURS else max(1, min(3, 10**6 // n))
        fits = [partial(fit, make, Z, y) for Z in (X, narrow)]
        memory = [peak_beyond(once) for once in fits]
        times = [best_time(once, runs) / limit for once in fits]
        print(
            f"{name:28s}{times[0]:9.1f}{times[1]:9.1f}{'':21s}{memory[0]:8.1f}{memory[1]:8.1f}",
            flush=True,
        )
