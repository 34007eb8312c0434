"""Tables with many columns: time, memory and accuracy against linear baselines.

Dense tables are like gene expressions: correlated columns, of which few matter. Sparse ones are
like texts: words by Zipf's law, weighted by tf-idf, rows of length 1. A tenth of the labels is
wrong, in training rows and in test rows.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._measure import peak_beyond
from fuzzytwin import FuzzyTwinSVC

DENSE = [(500, 3000), (200, 20_000), (1000, 50_000)]
SPARSE = [(2000, 20_000), (20_000, 100_000), (100_000, 1_000_000)]
PARTS = ("time", "accuracy")
NOISE = 0.1
ALPHAS = 10.0 ** np.arange(-1, 4)
RIDGE_SOLVERS = {False: ("cholesky", "svd", "lsqr"), True: ("sparse_cg", "lsqr", "sag")}


def make_genes(n, d, random_state=0):
    """Rows of n samples: 50 common factors, each of a tenth of the columns, and own noise."""
    rng = np.random.default_rng(random_state)
    fixed = np.random.default_rng(d)  # the same columns whatever the sample
    loads = sparse.random(50, d, 0.1, "csr", rng=fixed, data_rvs=fixed.standard_normal)
    factors = rng.normal(size=(n, 50))
    X = rng.normal(size=(n, d))
    for start in range(0, n, 500):
        X[start : start + 500] += factors[start : start + 500] @ loads
    y = (factors[:, :3].sum(axis=1) + 0.5 * rng.normal(size=n) > 0).astype(int)
    return X, flipped(y, rng)


def make_text(n, d, random_state=0, length=80):
    """Rows of n texts of about so many words; a tenth of the words is more frequent in a class."""
    rng = np.random.default_rng(random_state)
    fixed = np.random.default_rng(d)
    frequency = 1.0 / (np.arange(d) + 2.7)
    lean = fixed.normal(size=d) * (fixed.random(d) < 0.1)
    y = rng.integers(0, 2, n)
    counts = np.maximum(rng.lognormal(np.log(length), 0.5, n).astype(int), 5)
    row = np.repeat(np.arange(n, dtype=np.int32), counts)
    word = np.empty(len(row), dtype=np.int32)
    for label in (0, 1):
        here = np.flatnonzero(y[row] == label)
        upto = np.cumsum(frequency * np.exp((label - 0.5) * lean))
        word[here] = np.searchsorted(upto, upto[-1] * rng.random(len(here)))
    X = sparse.csr_matrix((np.ones(len(row)), (row, np.minimum(word, d - 1))), shape=(n, d))
    X.sum_duplicates()
    rarity = 1.0 - np.log(frequency / frequency.sum())
    X.data = (1.0 + np.log(X.data)) * rarity[X.indices]
    X.data /= np.repeat(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), np.diff(X.indptr))
    return X, flipped(y, rng)


def flipped(y, rng):
    """Give a tenth of the rows the wrong label."""
    return np.where(rng.random(len(y)) < NOISE, 1 - y, y)


def run(arguments: list[str]) -> None:
    """`python -m benchmarks wide [--only PART] [--shapes N]`; N: the smallest N of each kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks wide")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--shapes", type=int, default=3)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)  # LinearSVC on the largest tables
    parts = {"time": times, "accuracy": accuracies}
    with threadpool_limits(1):
        for name, part in parts.items():
            if given.only == name or (given.only is None and name != "preconditioner"):
                part(given.shapes)


def tables(shapes):
    for make, sizes in ((make_genes, DENSE), (make_text, SPARSE)):
        for n, d in sizes[:shapes]:
            gc.collect()
            yield make, n, d


def cpu_time(function, repeats):
    """Least CPU time of several runs. Other programs hardly change it."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def times(shapes):
    """CPU time and memory beyond X of one fit, as multiples of RidgeClassifier's."""
    print("One fit: CPU time and memory beyond X, as multiples of RidgeClassifier with its best")
    print("solver for the shape and the same ridge. 'C' is C=0.5: two systems in place of one.")
    print(
        f"{'':34s}{'Ridge':>18s} |{'time':>12s}{'C':>6s}{'center':>8s} |{'memory':>9s}{'ours':>6s}"
    )
    for make, n, d in tables(shapes):
        X, y = make(n, d)
        for alpha in (1.0, 10.0):
            repeats = 5 if X.size < 10**7 else 2
            ridges = {
                name: cpu_time(partial(ridge(alpha, name).fit, X, y), repeats)
                for name in RIDGE_SOLVERS[sparse.issparse(X)]
                if not (name in ("svd", "sag") and X.size > 10**6)
            }
            best = min(ridges, key=ridges.get)
            ours = {
                "": FuzzyTwinSVC(alpha=alpha),
                "C": FuzzyTwinSVC(alpha=alpha, C=0.5),
                "center": FuzzyTwinSVC(alpha=alpha, membership="center"),
            }
            ratios = [cpu_time(partial(m.fit, X, y), repeats) / ridges[best] for m in ours.values()]
            memory = peak_beyond(partial(ridge(alpha, best).fit, X, y))
            mine = peak_beyond(partial(ours[""].fit, X, y))
            print(
                f"{n:8,} x {d:9,} alpha {alpha:4g} {best:>10s}{ridges[best]:9.3f} s |"
                f"{ratios[0]:12.2f}{ratios[1]:6.2f}{ratios[2]:8.2f} |"
                f"{memory:6.0f} MiB{mine / max(memory, 0.1):6.2f}",
                flush=True,
            )


def ridge(alpha, solver):
    return RidgeClassifier(alpha=alpha, solver=solver)


def accuracies(shapes):
    """Accuracy on test rows, each baseline tuned over five values."""
    print("\nAccuracy on test rows (a tenth of their labels is wrong), tuned on the training rows")
    print("over five values each; se is the standard error of an accuracy.")
    peers = {
        "FuzzyTwinSVC": (FuzzyTwinSVC(), {"alpha": ALPHAS}),
        "Ridge": (RidgeClassifier(), {"alpha": ALPHAS}),
        "LinearSVC": (LinearSVC(random_state=0), {"C": 10.0 ** np.arange(-3, 2)}),
        "ComplementNB": (ComplementNB(), {"alpha": 10.0 ** np.arange(-2, 3)}),
    }
    print(f"{'':21s}{''.join(f'{name:>14s}' for name in peers)}{'se':>8s}   below by more than se")
    for make, n, d in tables(shapes):
        X, y = make(n, d)
        X_test, y_test = make(2000 if make is make_genes else min(n, 20_000), d, 1)
        folds = StratifiedKFold(3) if X.shape[0] <= 20_000 else ShuffleSplit(1, random_state=0)
        scores = {}
        for name, (model, grid) in peers.items():
            if name == "ComplementNB" and not sparse.issparse(X):
                continue  # it counts words
            found = GridSearchCV(model, grid, cv=folds).fit(X, y)
            scores[name] = found.score(X_test, y_test)
        first = scores["FuzzyTwinSVC"]
        se = np.sqrt(first * (1 - first) / len(y_test))
        cells = "".join(f"{scores[n_]:14.4f}" if n_ in scores else f"{'-':>14s}" for n_ in peers)
        worse = [n_ for n_, score in scores.items() if score > first + se]
        print(f"{n:8,} x {d:9,}  {cells}{se:8.4f}   {', '.join(worse) or '-'}", flush=True)
