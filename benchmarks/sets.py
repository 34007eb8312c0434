"""Conformal sets of `predict_set`: coverage and size, against split conformal on the same planes.

Two hundred random splits of three tables, of two, two and six classes: 60 % of the rows to learn
from, the rest to cover. Split conformal fits on half of the learning rows, with the same settings,
and takes the quantile of the same scores from the other half. The binomial error is that of the
mean over all splits, from the spread between splits.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._multiclass import MORE
from benchmarks._tables import tasks
from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.datasets import uci_preprocessor
from fuzzytwin.held_out import set_members

SPLITS = 200
COVERAGES = (0.8, 0.9, 0.95)


def tables():
    """Name, rows and labels of each table, encoded."""
    yield "breast_cancer", *load_breast_cancer(return_X_y=True)
    for name, X, y in tasks():
        if name == "pima":
            yield name, np.asarray(uci_preprocessor(name).fit_transform(X), float), y
    path = MORE / "satimage.csv"
    if path.exists():
        table = pd.read_csv(path)
        y = np.unique(table.pop("label"), return_inverse=True)[1]
        yield "satimage", table.to_numpy(float), y


def split_sets(A, a, B, coverage, class_conditional, seed):
    """Sets by split conformal: half of the rows for planes, half for scores."""
    order = np.random.default_rng(seed).permutation(len(a))
    learn, score = order[: len(a) // 2], order[len(a) // 2 :]
    model = FuzzyTwinSVC(calibration="loo").fit(A[learn], a[learn])
    P = model.predict_proba(A[score])
    own = np.searchsorted(model.classes_, a[score])
    scores = np.column_stack([1 - P[np.arange(len(own)), own], own, np.ones(len(own))])
    scores = scores[np.argsort(scores[:, 0], kind="stable")]
    return [
        set_members(scores, model.predict_proba(B), c, class_conditional=class_conditional)
        for c in coverage
    ]


def one_split(X, y, seed):
    """Coverage, least coverage of a class and mean size of every kind of set."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: 6 * len(y) // 10], order[6 * len(y) // 10 :]
    prepare = StandardScaler().fit(X[train])
    A, B, a, b = prepare.transform(X[train]), prepare.transform(X[test]), y[train], y[test]
    model = FuzzyTwinSVC(calibration="loo").fit(A, a)
    found = []
    for within in (False, True):
        ours = [model.predict_set(B, c, class_conditional=within) for c in COVERAGES]
        theirs = split_sets(A, a, B, COVERAGES, within, seed)
        for sets in (ours, theirs):
            hits = [s[np.arange(len(b)), b] for s in sets]
            by_class = [[h[b == k].mean() for k in range(y.max() + 1)] for h in hits]
            found.append(([h.mean() for h in hits], by_class, [s.sum(axis=1).mean() for s in sets]))
    return found


def run(arguments: list[str]) -> None:
    splits = int(arguments[0]) if arguments else SPLITS
    kinds = ("predict_set", "split", "predict_set, by class", "split, by class")
    for name, X, y in tables():
        with threadpool_limits(1):
            results = [one_split(X, y, seed) for seed in range(splits)]
        print(f"\n{name}: {len(y)} rows, {y.max() + 1} classes, {splits} splits")
        print(f"{'':24s}" + "".join(f"{c:>10.0%} (error) least class  size" for c in COVERAGES))
        for i, kind in enumerate(kinds):
            cover = np.array([r[i][0] for r in results])
            least = np.nanmean([r[i][1] for r in results], axis=0).min(axis=1)
            size = np.mean([r[i][2] for r in results], axis=0)
            error = cover.std(axis=0, ddof=1) / np.sqrt(splits)
            cells = zip(cover.mean(axis=0), error, least, size, strict=True)
            print(
                f"{kind:24s}"
                + "".join(f"{c:10.4f} ({e:.4f}) {k:11.3f} {s:5.3f}" for c, e, k, s in cells),
                flush=True,
            )
