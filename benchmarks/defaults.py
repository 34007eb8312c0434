"""Which membership, rule and alpha to use without tuning (C = 1).

Outer 10-fold cross-validation, two seeds, clean and with 20% of the training labels flipped.
A setting is scored by its mean rank over the ten tables (each table's accuracies ranked among
all settings). The choice itself is nested: for each table the setting is selected on the other
nine and scored on the tenth.
"""

from __future__ import annotations

import itertools

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from benchmarks._tables import FLIPPED, outer_folds, tasks
from fuzzytwin import FuzzyTwinSVC

MEMBERSHIPS = (None, "center", "hyperplane", "neighbor", "entropy", "intuitionistic")
RULES = ("distance", "residual")
ALPHAS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
SETTINGS = list(itertools.product(MEMBERSHIPS, RULES, ALPHAS))


def accuracies(name, X, y, seed, flip):
    """Mean accuracy of every setting on one table."""
    hits = np.zeros(len(SETTINGS))
    with threadpool_limits(1):
        for A, labels, B, truth in outer_folds(name, X, y, seed=seed, flip=flip):
            for i, (membership, rule, alpha) in enumerate(SETTINGS):
                model = FuzzyTwinSVC(membership=membership, rule=rule, alpha=alpha)
                hits[i] += (model.fit(A, labels).predict(B) == truth).sum()
    return hits / len(y)


def run(arguments: list[str]) -> None:
    names = [name for name, _, _ in tasks()]
    jobs = [
        delayed(accuracies)(name, X, y, seed, flip)
        for flip in (0.0, FLIPPED)
        for name, X, y in tasks()
        for seed in (0, 1)
    ]
    scores = np.array(Parallel(n_jobs=2)(jobs)).reshape(2, len(names), 2, -1).mean(axis=2)
    both = scores.transpose(1, 0, 2)  # table, noise, setting
    ranks = rankdata(-both, axis=-1).mean(axis=1)  # table, setting
    order = ranks.mean(axis=0).argsort()
    print("mean rank, accuracy clean, accuracy with 20% flipped; best 15 and the paper's")
    paper = [i for i, s in enumerate(SETTINGS) if s[1:] == ("distance", 0.0)]
    for i in [*order[:15], *paper]:
        membership, rule, alpha = SETTINGS[i]
        print(
            f"{ranks.mean(axis=0)[i]:6.1f}  {both[:, 0, i].mean():.4f}  {both[:, 1, i].mean():.4f}"
            f"  membership={membership!r}, rule={rule!r}, alpha={alpha:g}"
        )
    for what, axis in (("membership", 0), ("rule", 1), ("alpha", 2)):
        print(f"mean rank by {what}, at the best of the others:")
        for value in dict.fromkeys(s[axis] for s in SETTINGS):
            best = min(ranks.mean(axis=0)[i] for i, s in enumerate(SETTINGS) if s[axis] == value)
            print(f"  {value!s:15s} {best:6.1f}")
    print("nested: the setting selected on the other nine tables, and its accuracies on the tenth")
    nested = np.zeros((len(names), 2))
    for t, name in enumerate(names):
        pick = np.delete(ranks, t, axis=0).mean(axis=0).argmin()
        nested[t] = both[t, :, pick]
        print(f"  {name:16s} {SETTINGS[pick]}  {nested[t, 0]:.4f}  {nested[t, 1]:.4f}")
    print(f"  mean accuracy clean {nested[:, 0].mean():.4f}, flipped {nested[:, 1].mean():.4f}")
