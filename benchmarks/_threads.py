"""Predictions on one thread, and several numbers of threads."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise

import numpy as np
from joblib import cpu_count
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks._measure import least_times, verdict
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

CS = (2.0 ** np.arange(-8, 9, 2)).tolist()
ALPHAS = (10.0 ** np.arange(-3, 4)).tolist()
MOST_PREDICT = 1.5  # times LogisticRegression
MOST_LATENCY = 2.0
LEAST_GAIN = 1.7  # two threads against one
CALLS = 500  # of one row


def predictions(X, y):
    """`predict` of all rows and of one row, against LogisticRegression."""
    ours, peer = (
        FuzzyTwinSVC().fit(X, y),
        LogisticRegression(max_iter=20).fit(X[:10_000], y[:10_000]),
    )
    one = X[:1]

    def calls(model):
        for _ in range(CALLS):
            model.predict(one)

    with threadpool_limits(1):
        rows = least_times(
            {"ours": lambda: ours.predict(X), "peer": lambda: peer.predict(X)}, 9, time.process_time
        )
        single = least_times(
            {"ours": partial(calls, ours), "peer": partial(calls, peer)}, 9, time.process_time
        )
    print(f"\npredict, one thread{'':16s}{'ours':>10s}{'LogisticRegression':>20s}{'ratio':>7s}")
    for name, found, unit, most in (
        (f"{len(X):,} x {X.shape[1]}, ms", rows, 1e3, MOST_PREDICT),
        ("one row, microseconds", single, 1e6 / CALLS, MOST_LATENCY),
    ):
        ratio = found["ours"] / found["peer"]
        print(
            f"{name:35s}{found['ours'] * unit:10.1f}{found['peer'] * unit:20.1f}{ratio:7.2f}"
            f"  (at most {most:g}: {verdict(ratio <= most)})",
            flush=True,
        )


def tasks(X, y, n_jobs):
    """The work that threads share, each as a function."""
    model = FuzzyTwinSVC(n_jobs=n_jobs).fit(X, y)
    search = FuzzyTwinSVCCV(
        Cs=CS, alphas=ALPHAS, memberships=(None,), rules=("distance",), cv=StratifiedKFold(5),
        n_jobs=n_jobs,
    )  # fmt: skip
    return {
        "fit": lambda: FuzzyTwinSVC(n_jobs=n_jobs).fit(X, y),
        "fit, center": lambda: FuzzyTwinSVC(membership="center", n_jobs=n_jobs).fit(X, y),
        "predict": lambda: model.predict(X),
        "predict_membership": lambda: model.predict_membership(X),
        "search": lambda: search.fit(X, y),
    }


def numbers_of_threads(X, y):
    """A row for each number of threads: seconds by the clock, and times faster than one."""
    numbers = sorted({1, 2, *(2**k for k in range(2, 7) if 2**k <= cpu_count()), cpu_count()})
    all_tasks = {n: tasks(X, y, n) for n in numbers}
    names = list(all_tasks[1])
    least = {}
    for name in names:
        repeats = 3 if name == "search" else 9
        least[name] = least_times({n: all_tasks[n][name] for n in numbers}, repeats)
    print(f"\n{len(X):,} x {X.shape[1]}, seconds by the clock (times faster than one thread)")
    print(f"{'threads':8s}" + "".join(f"{name:>22s}" for name in names))
    for n in numbers:
        cells = (f"{least[name][n]:.3f} ({least[name][1] / least[name][n]:.2f})" for name in names)
        print(f"{n:<8d}" + "".join(f"{cell:>22s}" for cell in cells), flush=True)
    if cpu_count() < 2:
        print("one core: nothing to share")
        return
    for name in ("fit", "predict", "search"):
        gain = least[name][1] / least[name][2]
        slower = max(least[name][b] / least[name][a] for a, b in pairwise(numbers))
        for what, value, bar, good in (
            ("two threads against one", gain, f"at least {LEAST_GAIN}", gain >= LEAST_GAIN),
            ("time with more threads against fewer", slower, "at most 1.05", slower <= 1.05),
        ):
            print(f"{name}, {what}: {value:.2f} ({bar}: {verdict(good)})")
