"""More than two classes: accuracy under nested cross-validation against peers, and speed.

Accuracy: 5 outer folds of iris, wine, digits, cmc and the multi-class KEEL tables; everything is
encoded, scaled and tuned (inner folds) on the outer training rows alone; clean, and with 20 % of
the training labels replaced by another class. Speed: ratios of processor times within one run, on
one BLAS thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._multiclass import KEEL, SHIPPED, load, names, outer_folds, say_which
from benchmarks._tables import FLIPPED
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV

TABLES = [name for name in names() if name in (*SHIPPED, *KEEL, "cmc")]
SHRINKAGES = [None, "auto", 0.01, 0.03, 0.1, 0.3]
ROWS, COLUMNS = 10**6, 32
MOST_FIT = {10: 2.0, 100: 4.0}  # times a fit of two classes
MOST_PREDICT = 5.0  # times LinearDiscriminantAnalysis
MOST_SEARCH = 10.0  # times GridSearchCV over SVC


def linear():
    """Tuned linear models, ours first, then two that are not tuned."""
    return {
        "FuzzyTwinSVCCV": FuzzyTwinSVCCV(),
        "LogisticRegrCV": LogisticRegressionCV(Cs=10, cv=5, max_iter=1000, scoring="accuracy"),
        "LDA, tuned": GridSearchCV(
            LinearDiscriminantAnalysis(solver="lsqr"), {"shrinkage": SHRINKAGES}, cv=5
        ),
        "RidgeClassifCV": RidgeClassifierCV(alphas=np.logspace(-3, 4, 15)),
        "LinearSVC": GridSearchCV(LinearSVC(), {"C": np.logspace(-4, 2, 7)}, cv=5),
        "SVC(linear)": GridSearchCV(SVC(kernel="linear"), {"C": np.logspace(-3, 2, 6)}, cv=5),
        "FuzzyTwinSVC": FuzzyTwinSVC(),
        "LogisticRegr": LogisticRegression(),
    }


def rbf():
    """Curved models, ours first."""
    return {
        "curved FuzzyTwinSVCCV": FuzzyTwinSVCCV(kernels=("linear", "rbf"), random_state=0),
        "SVC(rbf)": GridSearchCV(
            SVC(), {"C": np.logspace(-1, 3, 5), "gamma": ["scale", *np.logspace(-3, 0, 4)]}, cv=5
        ),
        "RandomForest": RandomForestClassifier(random_state=0),
        "HistGradBoosting": HistGradientBoostingClassifier(random_state=0),
    }


UNTUNED = 2  # how many at the end of `linear` are not tuned, and compared among themselves


class Cache:
    """Hits and processor seconds by table, seed, share of flipped labels, fold and model."""

    def __init__(self, path):
        self.path = path
        self.found = json.loads(path.read_text()) if path and path.exists() else {}

    def __setitem__(self, key, value):
        self.found[key] = value
        if self.path:
            new = self.path.with_name(self.path.name + ".new")
            new.write_text(json.dumps(self.found, indent=0))
            os.replace(new, self.path)


def key_of(*parts):
    return "|".join(map(str, parts))


def measure(cache, models, table, seed, flip):
    """Fit and score every model on every outer fold of a table, unless the cache holds it."""
    folds = outer_folds(table, seed=seed, flip=flip)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, of rare classes in inner folds
        for fold, (A, labels, B, truth) in enumerate(folds):
            for name, model in models().items():
                key = key_of(table, seed, flip, fold, name)
                if key not in cache.found:
                    start = time.process_time()
                    hits = int((model.fit(A, labels).predict(B) == truth).sum())
                    cache[key] = hits, round(time.process_time() - start, 3)


def accuracy(title, models, cache, tables, seeds):
    """Measure every model, table by table, and print accuracies, mean ranks and times."""
    for flip in (0.0, FLIPPED):
        columns = list(models())
        print(f"\n{title}, {flip:.0%} of the training labels flipped, {seeds} seed(s)")
        print(f"{'':12s}" + "".join(f"{name[-16:]:>17s}" for name in columns), flush=True)
        scores, seconds = [], np.zeros(len(columns))
        for table in tables:
            found = np.zeros((len(columns), 2))
            for seed in range(seeds):
                measure(cache, models, table, seed, flip)
                found += [
                    np.sum([cache.found[key_of(table, seed, flip, f, m)] for f in range(5)], axis=0)
                    for m in columns
                ]
            scores.append(found[:, 0] / (seeds * len(load(table)[1])))
            seconds += found[:, 1]
            line(table, scores[-1], ".4f")
        line("mean", np.mean(scores, axis=0), ".4f")
        tuned = columns[: len(columns) - UNTUNED] if models is linear else columns
        parts = [tuned, columns[len(tuned) :]]
        ranks = [_ranks(np.array(scores)[:, [columns.index(m) for m in part]]) for part in parts]
        line("mean rank", np.concatenate(ranks), ".2f")
        line("seconds", seconds, ".0f")


def _ranks(scores):
    """Mean ranks, 1 for the best; nothing for no models."""
    return rankdata(-scores.round(9), axis=1).mean(axis=0) if scores.size else np.empty(0)


def line(name, values, form):
    print(f"{name:12s}" + "".join(f"{value:17{form}}" for value in values), flush=True)


def least_seconds(functions, repeats):
    """Least processor time of each; they take turns, so that a slow spell meets all of them."""
    best = np.full(len(functions), np.inf)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def verdict(ratio, most):
    return f"{ratio:6.2f} times (at most {most:g}: {'met' if ratio <= most else 'MISSED'})"


def gaussians(n, n_classes):
    """Rows of Gaussian classes with centres drawn at random."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n, COLUMNS))
    X += rng.standard_normal((n_classes, COLUMNS))[y]
    return X, y


def speed(rows):
    """Print the times of a fit, a prediction and a search, each beside what it is held against."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two = gaussians(rows, 2)
        for n_classes, most in MOST_FIT.items():
            more = gaussians(rows, n_classes)
            base, mine = least_seconds(
                [partial(FuzzyTwinSVC().fit, *two), partial(FuzzyTwinSVC().fit, *more)], 7
            )
            print(
                f"fit {rows:,} x {COLUMNS}, K = {n_classes}: {mine:.3f} s; K = 2: {base:.3f} s: "
                + verdict(mine / base, most),
                flush=True,
            )
        X, y = gaussians(rows // 10, 100)
        ours, peer = FuzzyTwinSVC().fit(X, y), LinearDiscriminantAnalysis().fit(X, y)
        mine, theirs = least_seconds([partial(ours.predict, X), partial(peer.predict, X)], 5)
        print(
            f"predict {len(X):,} x {COLUMNS}, K = 100: {mine:.3f} s; LDA: {theirs:.3f} s: "
            + verdict(mine / theirs, MOST_PREDICT),
            flush=True,
        )
        X, y = load_digits(return_X_y=True)
        X = scale(X)
        grid = GridSearchCV(SVC(kernel="linear"), {"C": np.logspace(-2, 2, 5)}, cv=5)
        search = FuzzyTwinSVCCV()
        mine, theirs = least_seconds([partial(search.fit, X, y), partial(grid.fit, X, y)], 2)
        print(
            f"FuzzyTwinSVCCV() on digits: {mine:.2f} s; GridSearchCV over SVC(linear): "
            f"{theirs:.2f} s: " + verdict(mine / theirs, MOST_SEARCH),
            flush=True,
        )


PARTS = ("linear", "rbf", "speed")


def run(arguments: list[str]) -> None:
    """`python -m benchmarks multiclass [linear|rbf|speed ...] [--tables A,B] [--seeds N] ...`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks multiclass")
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="all by default")
    parser.add_argument("--tables", help="names with commas between; all by default")
    parser.add_argument("--seeds", type=int, default=1, help="outer cross-validations to average")
    parser.add_argument("--cache", type=Path, help="file of results: what it holds is not measured")
    parser.add_argument("--rows", type=float, default=ROWS, help="rows of the fits of `speed`")
    given = parser.parse_args(arguments)
    parts = given.parts or PARTS
    chosen = given.tables.split(",") if given.tables else TABLES
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part called {unknown[0]!r}; there are {', '.join(PARTS)}.")
    if unknown := [name for name in chosen if name not in names()]:
        parser.error(f"no table called {unknown[0]!r}; there are {', '.join(names())}.")
    say_which(chosen)
    if "speed" in parts:
        speed(int(given.rows))
    tables = sorted(chosen, key=lambda name: _work(*load(name)))
    cache = Cache(given.cache)
    if "linear" in parts:
        accuracy("linear", linear, cache, tables, given.seeds)
    if "rbf" in parts:
        accuracy("rbf", rbf, cache, tables, given.seeds)


def _work(X, y):
    """Guess which table takes longer."""
    return X.size * (y.max() + 1)
