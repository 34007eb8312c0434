"""Two protocols, kept apart with care.

honest
    Outer folds. On the training rows of each, and on nothing else, everything is learnt:
    imputing, encoding, scaling, and the best point of the grid by inner folds. The outer test
    rows are used once, by the finished model.

optimistic
    What the paper appears to have done: one run of ten folds for every point of the grid, and
    the best mean is reported. The test rows choose the point that they then praise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from fuzzytwin._utils.types import Array
from fuzzytwin.datasets import load_uci
from reproduction.cache import Records
from reproduction.methods import Method


def load_task(name: str) -> tuple[Array, Array]:
    """Load the rows of a UCI table and binary labels 0 / 1 (cmc: no use against use)."""
    X, y = load_uci(name, return_X_y=True)
    if name == "cmc":
        y = y != 1
    return X, np.unique(y, return_inverse=True)[1]


def outer_fold(y: Array, folds: int, seed: int, fold: int) -> tuple[Array, Array]:
    """Split off the training and test rows of one stratified fold."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))[fold]


def prepared(prepare: Any, X: Array, train: Array, test: Array) -> tuple[Array, Array]:
    """Encode training and test rows by the training rows only."""
    if prepare is None:
        return X[train], X[test]
    A = np.asarray(prepare.fit_transform(X[train]), dtype=np.float64)
    return A, np.asarray(prepare.transform(X[test]), dtype=np.float64)


def honest_fold(
    method: Method,
    X: Array,
    y: Array,
    train: Array,
    test: Array,
    *,
    prepare: Any = None,
    inner: int = 5,
    seed: int = 0,
    spoil: Callable[[Array, Array], tuple[Array, Array]] | None = None,
    degrees: Array | None = None,
) -> dict[str, Any]:
    """Tune and fit on the training rows; count the test rows that come out right.

    Parameters
    ----------
    method : Method
        The method.
    X, y : ndarray
        All rows and labels 0 / 1.
    train, test : ndarray of int
        Rows of the outer fold.
    prepare : transformer, default=None
        Fitted on the training rows.
    inner, seed : int
        Inner folds that tune, and their seed.
    spoil : callable, default=None
        Noise for the prepared training rows and labels; test rows never get any.
    degrees : ndarray of shape (n,), default=None
        Given degrees.

    Returns
    -------
    dict
        "hits", "rows" and "chosen".
    """
    A, B = prepared(prepare, X, train, test)
    a = y[train]
    if spoil is not None:
        A, a = spoil(A, a)
    given = None if degrees is None else degrees[train]
    model, chosen = method.tune(A, a, inner, seed, given)
    hits = int((model.predict(B) == y[test]).sum())
    return {"hits": hits, "rows": len(test), "chosen": chosen}


def optimistic_fold(
    method: Method,
    X: Array,
    y: Array,
    train: Array,
    test: Array,
    *,
    prepare: Any = None,
    degrees: Array | None = None,
) -> dict[str, Any]:
    """Count the hits of every grid point on one fold; `best_point` picks among them."""
    A, B = prepared(prepare, X, train, test)
    given = None if degrees is None else degrees[train]
    hits = method.hits(A, y[train], B, y[test], given)
    return {"hits": [int(h) for h in hits], "rows": len(test)}


def best_point(folds: Records) -> list[float]:
    """Return the accuracies, by fold, of the point whose mean over these very folds is best."""
    table = np.array([fold["hits"] for fold in folds]) / [[fold["rows"]] for fold in folds]
    return [float(v) for v in table[:, int(np.argmax(table.mean(axis=0)))]]
