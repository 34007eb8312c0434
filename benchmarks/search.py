"""A whole search, as multiples of one fit and against refitting every point, on one thread."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks._measure import best_time, least_times, peak_beyond, verdict
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.datasets import make_ndc

CS = (2.0 ** np.arange(-8, 9, 2)).tolist()
ALPHAS = (10.0 ** np.arange(-3, 4)).tolist()
FOLDS = StratifiedKFold(5)
RIDGES = 10.0 ** np.arange(-3, 4)
LEAST_RATIO = 250.0  # GridSearchCV takes at least this many times as long
SIZES = (300, 2_000, 10**5)
MEMBERSHIPS = {
    "defaults": {},
    "without neighbours": {"memberships": (None, "center", "hyperplane")},
    "no membership": {"memberships": (None,)},
}
MOST_TIMES = 10.0  # a search takes at most this many times one fit
MOST_MEMORY = 512.0  # and fewer MiB beyond X than this


def run(arguments: list[str]) -> None:
    """`python -m benchmarks search [rows [rows]]`, by default 10,000 (grid) and a million (a fit).

    `python -m benchmarks search sizes`: only searches of several sizes, as multiples of one fit.
    `python -m benchmarks search large`: only a million rows.
    """
    parts = {"sizes": of_sizes, "large": lambda: against_one_fit(10**6)}
    if len(arguments) == 1 and arguments[0] in parts:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            parts[arguments[0]]()
        return
    small, large = ([int(float(size)) for size in arguments] + [10**4, 10**6][len(arguments) :])[:2]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # LogisticRegressionCV's coming defaults
        of_sizes()
        against_one_fit(large)
        against_refitting(small)


def of_sizes():
    """Searches of several sizes and memberships, as multiples of one fit at its defaults."""
    print("\nprocessor time of a whole search, in fits (points)")
    print(f"{'rows':>10s}{'one fit, ms':>14s}" + "".join(f"{name:>26s}" for name in MEMBERSHIPS))
    for n in SIZES:
        X, y = rows(n)
        one = FuzzyTwinSVC()
        fit = least_times({"fit": lambda: one.fit(X, y)}, 20, time.process_time)["fit"]  # noqa: B023
        print(f"{n:10,d}{1e3 * fit:14.2f}", end="")
        for given in MEMBERSHIPS.values():
            search = FuzzyTwinSVCCV(**given)
            times = {"search": lambda: search.fit(X, y)}  # noqa: B023
            spent = least_times(times, 5 if n < 10**4 else 1, time.process_time)["search"]
            cell = f"{spent / fit:,.0f} ({len(search.cv_results_['params']):,})"
            print(f"{cell:>26s}", end="", flush=True)
        print()


def against_one_fit(n):
    """9 x 9 x 7 points without membership: time as a multiple of one fit, and memory."""
    X, y = rows(n)
    search = FuzzyTwinSVCCV(
        Cs=CS, alphas=ALPHAS, memberships=(None,), rules=("distance",), cv=FOLDS
    )
    memory = memory_of(search, X, y)
    one = FuzzyTwinSVC(membership=None)
    both = {"fit": lambda: one.fit(X, y), "search": lambda: search.fit(X, y)}
    fit, whole = least_times(both, 5, time.process_time).values()
    print(
        f"\n{n:,} x {X.shape[1]}, 5 folds, {len(search.cv_results_['params'])} points, one thread"
    )
    print(f"{'':34s}{'seconds':>9s}{'times one fit':>15s}{'MiB beyond X':>14s}")
    line("one fit of FuzzyTwinSVC", fit, fit)
    line("FuzzyTwinSVCCV", whole, fit, memory, whole / fit <= MOST_TIMES and memory < MOST_MEMORY)
    ridge = RidgeClassifierCV(RIDGES)
    line("RidgeClassifierCV, 7 ridges", best_time(lambda: ridge.fit(X, y), 1), fit)
    folded = RidgeClassifierCV(RIDGES, cv=5)
    line("RidgeClassifierCV(cv=5), 7 ridges", best_time(lambda: folded.fit(X, y), 1), fit)
    m = min(n, 10**5)
    logistic = LogisticRegressionCV(cv=5)
    line(f"LogisticRegressionCV, {m:,} rows", best_time(lambda: logistic.fit(X[:m], y[:m]), 1), fit)
    accuracy = [model.score(X, y) for model in (search, ridge, folded, logistic)]
    print("accuracy on the rows themselves, in this order:", *(f"{a:.4f}" for a in accuracy))


def against_refitting(n):
    """9 x 9 x 7 points and two memberships: `GridSearchCV` over `FuzzyTwinSVC` beside it."""
    X, y = rows(n)
    ways = (None, "center")
    search = FuzzyTwinSVCCV(Cs=CS, alphas=ALPHAS, memberships=ways, rules=("distance",), cv=FOLDS)
    mine = best_time(lambda: search.fit(X, y), 5)
    points = {"membership": ways, "alpha": ALPHAS, "C": [(a, b) for a in CS for b in CS]}
    peer = GridSearchCV(FuzzyTwinSVC(rule="distance"), points, cv=FOLDS)
    start = time.perf_counter()
    peer.fit(X, y)
    theirs = time.perf_counter() - start
    mine = min(mine, best_time(lambda: search.fit(X, y), 5))
    # GridSearchCV goes through C, alpha and membership, the last one fastest.
    scores = peer.cv_results_["mean_test_score"].reshape(-1, len(ALPHAS), len(ways)).T.ravel()
    same = np.allclose(search.cv_results_["mean_test_score"], scores, rtol=0, atol=1e-9)
    ratio = theirs / mine
    print(
        f"\n{n:,} x {X.shape[1]}, 5 folds, {len(search.cv_results_['params'])} points, one thread"
    )
    print(f"FuzzyTwinSVCCV {mine:.3f} s, GridSearchCV over FuzzyTwinSVC {theirs:.1f} s")
    print(
        f"ratio {ratio:.0f} (at least {LEAST_RATIO:.0f}: {verdict(ratio >= LEAST_RATIO)})"
        f"; mean scores of all points are {'the same' if same else 'NOT the same'}"
    )


def rows(n):
    X, y = make_ndc(n, 32, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def line(name, seconds, fit, memory=None, good=None):
    print(
        f"{name:34s}{seconds:9.3f}{seconds / fit:15.1f}"
        + ("" if memory is None else f"{memory:14.0f}")
        + (
            ""
            if good is None
            else f"  (at most {MOST_TIMES:g} and {MOST_MEMORY:g}: {verdict(good)})"
        ),
        flush=True,
    )


def memory_of(model, X, y):
    """Measured in a process of its own, which has no freed memory to take from."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(memory_here, (model, Path(folder)))


def memory_here(model, folder):
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    with threadpool_limits(1):
        model.fit(X[:500], y[:500])  # imports and the like
        return peak_beyond(lambda: model.fit(X, y))
