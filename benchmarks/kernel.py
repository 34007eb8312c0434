"""Curved planes: accuracy on the ten tables against curved peers, and one large fit against SVC.

Accuracy: outer 10 folds, everything imputed, encoded, scaled and tuned (inner 5 folds) on the
outer training rows alone; clean, and with 20 % of the training labels flipped. Training rows
are shuffled first: tables such as sonar are sorted, and inner folds that are cut from sorted rows
mislead whoever is tuned by them alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks._measure import peak_beyond
from benchmarks._tables import FLIPPED, outer_folds, tasks
from benchmarks.quality import report
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.datasets import make_ndc

COLUMNS, LANDMARKS = 32, 300
LARGE, SMALLER = 10**5, (3_000, 10_000)
LEAST_RATIO = 20.0
ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0)


def models(seed):
    return {
        "FuzzyTwinSVCCV": FuzzyTwinSVCCV(
            kernels=("linear", "rbf"), n_landmarks=150, random_state=0,
            memberships=(None, "neighbor"),
        ),
        "SVC, tuned": GridSearchCV(
            SVC(), {"C": np.logspace(-1, 3, 5), "gamma": ["scale", *np.logspace(-3, 0, 4)]}, cv=5
        ),
        "LogisticRegressionCV": LogisticRegressionCV(
            Cs=10, cv=5, max_iter=1000, scoring="accuracy"
        ),
        "KNeighbors, tuned": GridSearchCV(
            KNeighborsClassifier(),
            {"n_neighbors": [1, 3, 5, 9, 15, 25, 41], "weights": ["uniform", "distance"]},
            cv=5,
        ),
        "RandomForest": RandomForestClassifier(random_state=seed),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=seed),
    }  # fmt: skip


def hits(seed, fold):
    """How many test rows of one outer fold every model labels right."""
    A, labels, B, truth = fold
    order = np.random.default_rng(seed).permutation(len(labels))
    A, labels = A[order], labels[order]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return [
            int((model.fit(A, labels).predict(B) == truth).sum()) for model in models(seed).values()
        ]


def accuracy(seeds, names):
    """Tables of accuracies and mean ranks."""
    chosen = [task for task in tasks() if not names or task[0] in names]
    for flip in (0.0, FLIPPED):
        start = time.perf_counter()
        parts = [
            (table, seed, fold)
            for table, task in enumerate(chosen)
            for seed in range(seeds)
            for fold in outer_folds(*task, seed=seed, flip=flip)
        ]
        # One job a fold, or the largest table would end long after all others.
        found = Parallel(n_jobs=2)(delayed(hits)(seed, fold) for _, seed, fold in parts)
        scores = np.zeros((len(chosen), len(models(0))))
        for (table, _, _), counts in zip(parts, found, strict=True):
            scores[table] += counts
        scores /= seeds * np.array([[len(task[2])] for task in chosen])
        title = f"{flip:.0%} of the training labels flipped, {seeds} seed(s)"
        report(title, [task[0] for task in chosen], list(models(0)), scores)
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)


def first_alphas():
    """Accuracies of curved planes when nobody tunes, beside `SVC`'s, as `defaults` measures."""
    settings = [FuzzyTwinSVC(kernel="rbf", alpha=alpha, random_state=0) for alpha in ALPHAS]
    columns = [f"alpha = {alpha:g}" for alpha in ALPHAS] + ["SVC"]
    chosen = list(tasks())
    for flip in (0.0, FLIPPED):
        jobs = [(task, fold) for task in chosen for fold in outer_folds(*task, seed=0, flip=flip)]
        found = Parallel(n_jobs=2)(delayed(_hits_of)([*settings, SVC()], fold) for _, fold in jobs)
        scores = {task[0]: np.zeros(len(columns)) for task in chosen}
        for (task, _), counts in zip(jobs, found, strict=True):
            scores[task[0]] += np.array(counts) / len(task[2])
        title = f"not tuned, {flip:.0%} of the training labels flipped"
        report(title, list(scores), columns, np.array(list(scores.values())))


def _hits_of(some, fold):
    A, labels, B, truth = fold
    with threadpool_limits(1):
        return [int((model.fit(A, labels).predict(B) == truth).sum()) for model in some]


def rows(n):
    X, y = make_ndc(n, COLUMNS, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def seconds(model, X, y, repeats):
    """Least processor time of some fits, on one thread: what others do meanwhile is no part."""
    times = []
    with threadpool_limits(1):
        for _ in range(repeats):
            start = time.process_time()
            model.fit(X, y)
            times.append(time.process_time() - start)
    return min(times)


def curved():
    return FuzzyTwinSVC(kernel="rbf", n_landmarks=LANDMARKS, random_state=0)


def memory_of_fit(n):
    """MiB beyond X, in a process of its own, which has no freed memory to take from."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory_here, (n,))


def _memory_here(n):
    X, y = rows(n)
    with threadpool_limits(1):
        curved().fit(X[:1000], y[:1000])  # imports and the like
        return peak_beyond(lambda: curved().fit(X, y))


def speed(large):
    """One large fit against SVC, which is measured where it ends and extrapolated."""
    X_test, y_test = (part[large:] for part in rows(large + 20_000))
    X, y = (part[:large] for part in rows(large + 20_000))
    model = curved()
    mine = seconds(model, X, y, 3)
    print(
        f"\nFuzzyTwinSVC, rbf, {LANDMARKS} landmarks, {large:,} x {COLUMNS}: {mine:.2f} s, "
        f"accuracy on new rows {model.score(X_test, y_test):.4f}",
        flush=True,
    )
    times = []
    for n in SMALLER:
        peer = SVC()
        times.append(seconds(peer, X[:n], y[:n], 3 if n < 5_000 else 1))
        print(
            f"SVC, rbf, {n:,} rows: {times[-1]:.2f} s, accuracy on new rows "
            f"{peer.score(X_test, y_test):.4f}",
            flush=True,
        )
    growth = np.log(times[1] / times[0]) / np.log(SMALLER[1] / SMALLER[0])
    theirs = times[1] * (large / SMALLER[1]) ** growth
    verdict = "kept" if theirs >= LEAST_RATIO * mine else "MISSED"
    print(
        f"SVC grows as n^{growth:.2f}: at {large:,} rows {theirs:.0f} s, that is "
        f"{theirs / mine:.0f} times as long; at least {LEAST_RATIO:g}: {verdict}"
    )
    whole = large * LANDMARKS * 8 / 2**20
    memory = memory_of_fit(large)
    print(
        f"memory beyond X: {memory:.0f} MiB (X: {large * COLUMNS * 8 / 2**20:.0f}; all features "
        f"at once would be {whole:.0f})",
        flush=True,
    )


def run(arguments: list[str]) -> None:
    """`python -m benchmarks kernel [--seeds N] [--tables NAME ...] [--only PART]`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kernel")
    parser.add_argument("--seeds", type=int, default=1, help="outer cross-validations to average")
    parser.add_argument("--tables", nargs="*", default=(), help="these tables only")
    parser.add_argument("--only", choices=["accuracy", "speed", "alpha"], help="one part only")
    parser.add_argument("--rows", type=float, default=LARGE, help="rows of the large fit")
    given = parser.parse_args(arguments)
    if given.only in (None, "speed"):
        speed(int(given.rows))
    if given.only in (None, "alpha"):
        first_alphas()
    if given.only in (None, "accuracy"):
        accuracy(given.seeds, given.tables)
