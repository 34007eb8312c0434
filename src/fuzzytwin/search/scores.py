"""Scores of all points of a grid at once, from tables of distances.

What scikit-learn's scorers of the same names give for each point, at a fraction of the cost of
a prediction for each.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.search import grid as two_classes
from fuzzytwin.search import many_classes
from fuzzytwin.search.grid import Grid, GridPlanes, TestRows, blocks, over_parts

# Distances of all test rows to all planes are held for areas: at most this many.
MOST_DISTANCES = 1 << 25


def grid_scores(
    name: str, grid: Grid, found: GridPlanes, rows: TestRows, classes: Array
) -> Array | None:
    """Compute the scores of all points; None if only scikit-learn's scorer can compute them.

    That is for other names, and where test rows or labels are such that it would warn or fail.
    """

    def count_hits() -> Array:
        counted = two_classes.count_hits if grid.n_classes == 2 else many_classes.count_hits
        return over_parts(counted, grid, found, rows)

    labels = rows.codes[rows.index]
    v = None if rows.weight is None else rows.weight[rows.index]
    total = np.bincount(labels, v, minlength=grid.n_classes)
    if name == "accuracy":
        return np.asarray(count_hits().sum(axis=0) / total.sum())
    if not total.all():
        return None
    if name == "balanced_accuracy":
        hits = count_hits()
        return np.asarray(np.mean([h / t for h, t in zip(hits, total, strict=True)], axis=0))
    if grid.n_classes != 2:
        return None
    if name in ("precision", "recall", "f1") and classes[1] == 1:  # 1 is the positive label
        hits = count_hits()
        true_positives, false_positives = hits[1], total[0] - hits[0]
        shares = {
            "recall": (true_positives, total[1]),
            "precision": (true_positives, true_positives + false_positives),
            "f1": (2 * true_positives, true_positives + false_positives + total[1]),
        }
        part, whole = np.broadcast_arrays(*shares[name])
        return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)
    planes = int(np.prod(found.intercept.shape)) * len(grid.kinds) * len(grid.rules)
    if name == "roc_auc" and planes * len(labels) <= MOST_DISTANCES:
        return _roc_aucs(grid, found, rows)
    return None


def _roc_aucs(grid: Grid, found: GridPlanes, rows: TestRows) -> Array:
    """Compute the areas under the ROC curves of the share u_2, for two classes."""
    areas = np.zeros(grid.shape)
    kept: dict[Any, list[list[tuple[Array, ...]]]] = {}
    everything = np.ones(grid.shape, dtype=bool)
    for table in chain.from_iterable(blocks(grid, found, rows, everything)):
        # Tables are buffers: what is kept is copied.
        first, second = (part.copy() for part in table.near)
        weight = np.ones(first.shape[1]) if table.weight is None else table.weight
        kept.setdefault(table.place, [[], []])[table.label].append((first, second, weight))
    for index, of_label in kept.items():
        (f, g, v), (F, G, V) = (
            [np.concatenate(part, axis=-1) for part in zip(*label, strict=True)]
            for label in of_label
        )
        for i, j in np.ndindex(areas[index].shape):
            areas[index][i, j] = _roc_auc(_share(f[i], g[j]), v, _share(F[i], G[j]), V)
    return areas


def _share(first: Array, second: Array) -> Array:
    """Compute the membership in the second class from distances to the planes of both."""
    share = first + second
    with np.errstate(invalid="ignore"):
        np.divide(first, share, out=share)
    share[np.isnan(share)] = 0.5  # on both planes
    return share


def _roc_auc(low: Array, v: Array, high: Array, w: Array) -> float:
    """Compute the share, by weight, of the pairs in the right order; a tie is half a pair."""
    order = low.argsort()
    low, upto = low[order], np.concatenate([[0.0], np.cumsum(v[order])])
    below = upto[np.searchsorted(low, high)] + upto[np.searchsorted(low, high, side="right")]
    return float(below @ w / (2 * upto[-1] * w.sum()))
