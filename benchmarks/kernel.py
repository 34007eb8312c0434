"""Nonlinear planes: accuracy on many tables against a tuned SVC, and one large fit.

Accuracy: outer 5 folds of 51 tables of at most 600 rows. Everything is imputed, encoded, scaled and
tuned (inner folds) on the outer training rows only, with clean labels and with 20% of the training
labels flipped. Tables come in two halves, reported separately: choices of grids and rules were made
on the first (see `benchmarks._collection`).
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks._cache import Cache, key_of
from benchmarks._collection import collection
from benchmarks._measure import peak_beyond
from benchmarks._significance import print_p_values
from benchmarks._tables import FLIPPED
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.datasets import make_ndc

COLUMNS, LANDMARKS = 32, 300
LARGE, SMALLER = 10**5, (3_000, 10_000)
LEAST_RATIO = 40.0
MOST_SEARCH = 1.5  # times GridSearchCV over SVC
PARTS = ("speed", "search", "alpha", "accuracy")
ALPHAS = (10.0, "auto")
UNTUNED = {
    "linear": {}, "rbf": {"kernel": "rbf"},
    "laplacian": {"kernel": "laplacian"}, "poly": {"kernel": "poly"},
}  # fmt: skip


def models():
    """Our search, as a user would write it, and a tuned SVC."""
    grid = {"C": np.logspace(-1, 3, 5), "gamma": ["scale", *np.logspace(-3, 0, 4)]}
    return {
        "FuzzyTwinSVCCV": FuzzyTwinSVCCV(kernels=("linear", "rbf"), random_state=0),
        "SVC, tuned": GridSearchCV(SVC(), grid, cv=5),
    }


def measure(cache, table, flip, folds):
    """Fit and score both models on outer folds of a table, unless the cache has the result."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes in inner folds
        parts = itertools.islice(table.folds(flip=flip), folds)
        for fold, (A, labels, B, truth) in enumerate(parts):
            for name, model in models().items():
                key = key_of(table.name, flip, fold, name)
                if key not in cache.results:
                    start = time.process_time()
                    hits = int((model.fit(A, labels).predict(B) == truth).sum())
                    cache[key] = hits, len(truth), round(time.process_time() - start, 3)


def accuracy(cache, tables, folds):
    """Measure both models, table by table; print accuracies and a test for each half."""
    for flip in (0.0, FLIPPED):
        for table in tables:
            measure(cache, table, flip, folds)
    for flip in (0.0, FLIPPED):
        for half in ("choose", "confirm"):
            chosen = [table for table in tables if table.half == half]
            print(f"\n{half}, {flip:.0%} of the training labels flipped, {folds} outer folds")
            scores = {
                name: np.array([_share(cache, table, flip, folds, name) for table in chosen])
                for name in models()
            }
            for i, table in enumerate(chosen):
                print(
                    f"{table.name:22s}" + "".join(f"{found[i]:10.4f}" for found in scores.values())
                )
            for name, found in scores.items():
                _print_means(name, found, chosen)
            ours, svc = scores.values()
            print(f"better on {(ours > svc).sum()}, worse on {(ours < svc).sum()}")
            print_p_values("accuracy", ours, {"SVC, tuned": svc})


def _print_means(name, found, tables):
    """Print mean accuracies: of all tables, of those of two classes, and of the others."""
    many = np.array([table.y.max() > 1 for table in tables], dtype=bool)
    parts = {"all": np.ones_like(many), "two classes": ~many, "more classes": many}
    cells = [f"{what} {found[some].mean():.4f}" for what, some in parts.items() if some.any()]
    print(f"{name:22s}{', '.join(cells)}")


def _share(cache, table, flip, folds, name):
    """Accuracy of a model, pooled over all outer folds."""
    found = [cache.results[key_of(table.name, flip, fold, name)] for fold in range(folds)]
    return sum(part[0] for part in found) / sum(part[1] for part in found)


def first_alphas(tables, folds, kernels):
    """Accuracy and balanced accuracy without tuning, by kernel, ridge and half.

    Means are over tables, and so are standard errors of the difference of "auto" and 10.
    """
    for flip in (0.0, FLIPPED):
        for half in ("choose", "confirm"):
            some = [table for table in tables if table.half == half]
            jobs = [
                part for table in some for part in itertools.islice(table.folds(flip=flip), folds)
            ]
            found = np.array(Parallel(n_jobs=2)(delayed(_untuned)(kernels, *part) for part in jobs))
            if not len(found):
                continue
            scores = found.reshape(len(some), folds, -1, 2).mean(axis=1)  # table, model, measure
            print(
                f"\nnot tuned, {flip:.0%} of the "
                f"training labels flipped, {len(some)} tables to {half} on, {len(jobs)} fits each"
            )
            for i, measure in enumerate(("accuracy", "balanced accuracy")):
                _print_alphas(measure, kernels, scores[:, :, i])


def _print_alphas(measure, kernels, scores):
    """Means of scores (n_tables, n_models) and how "auto" compares with 10."""
    print(f"{measure}, SVC {scores[:, -1].mean():.4f}")
    heads = "".join(f"{alpha!s:>9s}" for alpha in ALPHAS)
    print(f"{'alpha':>12s}{heads}   auto - 10 (standard error; better, worse)")
    by_kernel = scores[:, :-1].reshape(len(scores), len(kernels), -1)
    for k, kernel in enumerate(kernels):
        values = "".join(f"{value:9.4f}" for value in by_kernel[:, k].mean(axis=0))
        gain = by_kernel[:, k, ALPHAS.index("auto")] - by_kernel[:, k, ALPHAS.index(10.0)]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        wins = f"{(gain > 1e-9).sum()}, {(gain < -1e-9).sum()}"
        print(f"{kernel:>12s}{values}   {gain.mean():+.4f} ({error:.4f}; {wins})", flush=True)
        automatic = by_kernel[:, k, ALPHAS.index("auto")]
        print_p_values(f"{measure}, {kernel}, auto", automatic, {"SVC": scores[:, -1]})


def _untuned(kernels, A, labels, B, truth):
    settings = [
        FuzzyTwinSVC(alpha=alpha, random_state=0, **UNTUNED[kernel])
        for kernel in kernels
        for alpha in ALPHAS
    ]
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (*settings, SVC()):
            labelled = model.fit(A, labels).predict(B)
            scores = accuracy_score(truth, labelled), balanced_accuracy_score(truth, labelled)
            found.append(scores)
    return found


def rows(n):
    X, y = make_ndc(n, COLUMNS, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def seconds(model, X, y, repeats):
    """Least processor time of several fits on one thread. Other programs do not count."""
    times = []
    with threadpool_limits(1):
        for _ in range(repeats):
            start = time.process_time()
            model.fit(X, y)
            times.append(time.process_time() - start)
    return min(times)


def uses_kernel():
    return FuzzyTwinSVC(kernel="rbf", n_landmarks=LANDMARKS, random_state=0)


def memory_of_fit(n):
    """MiB beyond X, in a new process, which has no freed memory to reuse."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory_here, (n,))


def _memory_here(n):
    X, y = rows(n)
    with threadpool_limits(1):
        uses_kernel().fit(X[:1000], y[:1000])  # imports and the like
        return peak_beyond(lambda: uses_kernel().fit(X, y))


def speed(large):
    """One large fit against SVC, which is measured on fewer rows and extrapolated."""
    X_test, y_test = (part[large:] for part in rows(large + 20_000))
    X, y = (part[:large] for part in rows(large + 20_000))
    model = uses_kernel()
    ours_seconds = seconds(model, X, y, 3)
    print(
        f"\nFuzzyTwinSVC, rbf, {LANDMARKS} landmarks, {large:,} x {COLUMNS}: {ours_seconds:.2f} s, "
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
    svc_seconds = times[1] * (large / SMALLER[1]) ** growth
    verdict = "kept" if svc_seconds >= LEAST_RATIO * ours_seconds else "MISSED"
    print(
        f"SVC grows as n^{growth:.2f}: at {large:,} rows {svc_seconds:.0f} s, that is "
        f"{svc_seconds / ours_seconds:.0f} times as long; at least {LEAST_RATIO:g}: {verdict}"
    )
    whole = large * LANDMARKS * 8 / 2**20
    memory = memory_of_fit(large)
    print(
        f"memory beyond X: {memory:.0f} MiB (X: {large * COLUMNS * 8 / 2**20:.0f}; all features "
        f"at once would be {whole:.0f})",
        flush=True,
    )


def searches():
    """A search at its defaults against `GridSearchCV` over 25 points of `SVC`, and on digits."""
    tables = {
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
        "generated": make_ndc(5_000, COLUMNS, random_state=0),
    }
    points = {"C": np.logspace(-1, 3, 5), "gamma": ["scale", *np.logspace(-3, 0, 4)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (X, y) in tables.items():
            X, repeats = scale(X), 3 if len(y) < 1_000 else 1
            search = FuzzyTwinSVCCV(kernels=("linear", "rbf"), random_state=0)
            ours_seconds = seconds(search, X, y, repeats)
            grid = GridSearchCV(SVC(), points, cv=5)
            svc_seconds = seconds(grid, X, y, repeats)
            verdict = "kept" if ours_seconds <= MOST_SEARCH * svc_seconds else "MISSED"
            print(
                f"{name}, {len(y):,} x {X.shape[1]}: search {ours_seconds:.2f} s, accuracy "
                f"{search.best_score_:.4f}; GridSearchCV over SVC {svc_seconds:.2f} s, accuracy "
                f"{grid.best_score_:.4f}: {ours_seconds / svc_seconds:.2f} times "
                f"(at most {MOST_SEARCH:g}: {verdict})",
                flush=True,
            )


def run(arguments: list[str]) -> None:
    """`python -m benchmarks kernel [--tables A,B] [--folds N] [--cache FILE] [--only PART]`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kernel")
    parser.add_argument("--tables", help="names with commas between; all by default")
    parser.add_argument("--folds", type=int, default=5, help="how many of the 5 outer folds")
    parser.add_argument("--cache", type=Path, help="file of results, which are not measured again")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    parser.add_argument("--rows", type=float, default=LARGE, help="rows of the large fit")
    parser.add_argument(
        "--kernels", default=",".join(UNTUNED), help="of the part alpha; all by default"
    )
    options = parser.parse_args(arguments)
    if options.only in (None, "speed"):
        speed(int(options.rows))
    if options.only in (None, "search"):
        searches()
    names = options.tables.split(",") if options.tables else None
    tables = [table for table in collection() if names is None or table.name in names]
    if options.only in (None, "alpha"):
        first_alphas(tables, options.folds, options.kernels.split(","))
    if options.only in (None, "accuracy"):
        accuracy(Cache(options.cache), tables, options.folds)
