"""Accuracy on the ten tables by nested cross-validation.

Outer 10 folds, two seeds. Everything is imputed, encoded, scaled and tuned (inner 5 folds) on
the outer training rows only, with clean labels and with 20% of the training labels flipped.
"""

from __future__ import annotations

import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks._tables import FLIPPED, outer_folds, tasks
from fuzzytwin import FuzzyTwinSVCCV
from reproduction.ranks import compare_ranks

SEEDS = (0, 1)


def models():
    return {
        "FuzzyTwinSVCCV": FuzzyTwinSVCCV(),
        "LST-SVM, tuned": FuzzyTwinSVCCV(
            alphas=(0.0,), memberships=(None,), rules=("distance",), selection="score"
        ),
        "RidgeClassifierCV": RidgeClassifierCV(alphas=np.logspace(-3, 4, 15)),
        "LinearSVC, tuned": GridSearchCV(LinearSVC(), {"C": np.logspace(-4, 3, 8)}, cv=5),
        "LogisticRegressionCV": LogisticRegressionCV(
            Cs=10, cv=5, max_iter=1000, scoring="accuracy"
        ),
        "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    }


def accuracies(name, X, y, seed, flip):
    """Accuracy of every model on one table, pooled over the outer folds."""
    hits = dict.fromkeys(models(), 0)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for A, labels, B, truth in outer_folds(name, X, y, seed=seed, flip=flip):
            for key, model in models().items():
                hits[key] += int((model.fit(A, labels).predict(B) == truth).sum())
    return [count / len(y) for count in hits.values()]


def run(arguments: list[str]) -> None:
    names = [name for name, _, _ in tasks()]
    for flip in (0.0, FLIPPED):
        jobs = [delayed(accuracies)(*task, seed, flip) for task in tasks() for seed in SEEDS]
        scores = np.array(Parallel(n_jobs=2)(jobs)).reshape(len(names), len(SEEDS), -1).mean(axis=1)
        report(f"{flip:.0%} of the training labels flipped", names, list(models()), scores)


def report(title, names, columns, scores):
    """Print a table of accuracies, mean accuracies and mean ranks."""
    print(f"\n{title}")
    print(f"{'':17s}" + "".join(f"{column[:14]:>16s}" for column in columns))
    for name, row in zip(names, scores, strict=True):
        print(f"{name:17s}" + "".join(f"{value:16.4f}" for value in row))
    print(f"{'mean accuracy':17s}" + "".join(f"{value:16.4f}" for value in scores.mean(axis=0)))
    result = compare_ranks(dict(zip(columns, scores.T, strict=True)))
    print(f"{'mean rank':17s}" + "".join(f"{rank:16.2f}" for rank in result.mean_ranks))
    print(f"critical difference (Nemenyi): {result.critical_difference:.2f}", flush=True)
