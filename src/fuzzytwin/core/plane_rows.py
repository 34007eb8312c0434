r"""Planes as weighted ridge regressions on rows: what the solvers "rows" and "iterative" share.

With weights u of the own-class term and q of the slack term, plane k of model M1 minimises

    1/2 sum u f^2 + C/2 sum q (1 + f)^2 + alpha/2 |w|^2,        f = w.x + b,

which is, up to a constant, ridge regression with an intercept, of weights v and targets t:

    1/2 sum v (f - t)^2 + alpha/2 |w|^2,        v = u + C q,   t = -C q / v.

The two planes of a pair of classes use the rows of these two alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS
from fuzzytwin.core.planes import plane_classes


@dataclass(frozen=True, eq=False)
class PlaneRows:
    """Rows with their weights in the two terms of every plane.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    codes : ndarray of shape (n,) or None
        Class of each row; None where weights are tables.
    own, slack : ndarray of shape (n,) or (n, K), or None
        Weights s and s mu; a table gives every row a weight in every class. None is 1.
    n_classes : int
        Number of classes K.
    """

    X: Any
    codes: Array | None
    own: Array | None
    slack: Array | None
    n_classes: int

    @property
    def shared(self) -> bool:
        """Return whether both terms have the same weights."""
        return self.slack is self.own

    def scaled(self, factor: Array) -> PlaneRows:
        """Multiply every weight of class k by ``factor[k]``."""

        def times(weight: Array | None) -> Array:
            if self.codes is None:
                assert weight is not None
                return weight * factor
            of_row: Array = factor[self.codes]
            return of_row if weight is None else weight * of_row

        own = times(self.own)
        slack = own if self.shared else times(self.slack)
        return PlaneRows(self.X, self.codes, own, slack, self.n_classes)

    def class_weights(self, weight: Array | None) -> Array:
        """Add up the weights of each class."""
        if self.codes is None:
            assert weight is not None
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, self.n_classes).astype(np.float64)

    def groups(self, multi_class: str) -> Iterator[Group]:
        """Yield the planes that use the same rows: those of a pair, or all of them ("ovr")."""
        classes = plane_classes(self.n_classes, multi_class)
        step = 2 if multi_class == "ovo" else len(classes)
        for first in range(0, len(classes), step):
            planes = slice(first, first + step)
            u = np.array([self._weights(self.own, k) for k in classes[planes, 0]])
            q = np.array([self._weights(self.slack, j, k) for k, j in classes[planes]])
            index = np.flatnonzero((u + q).any(axis=0))
            if len(index) < self.X.shape[0]:
                yield Group(planes, index, u[:, index], q[:, index])
            else:
                yield Group(planes, None, u, q)

    def _weights(self, weight: Array | None, k: int, rest: int = -1) -> Array:
        """Return the weights of the rows of class k, or of all but `rest` where k is -1."""
        if self.codes is None:
            assert weight is not None
            return weight[:, k] if k >= 0 else np.delete(weight, rest, axis=1).sum(axis=1)
        chosen = self.codes == k if k >= 0 else self.codes != rest
        return np.where(chosen, 1.0 if weight is None else weight, 0.0)


@dataclass(frozen=True, eq=False)
class Group:
    """Planes that use the same rows.

    Parameters
    ----------
    planes : slice
        Their places among all planes.
    index : ndarray or None
        The rows; None: all.
    u, q : ndarray of shape (n_planes, n_rows)
        Weights of the own-class and of the slack term.
    """

    planes: slice
    index: Array | None
    u: Array
    q: Array

    @property
    def weight(self) -> Array:
        """Return the mean weight of each row over all planes; it sums to 1."""
        total = (self.u + self.q).sum(axis=0)
        total /= total.max() or 1.0
        return np.asarray(total / (total.sum() or 1.0))

    def empty(self) -> Array:
        """Return which planes have no own rows or no rivals."""
        return np.asarray(~(self.u.any(axis=1) & self.q.any(axis=1)))

    def regression(self, i: int, C: Any, alpha: Any) -> tuple[Array, Array, float]:
        """Return weights, targets and ridge of a plane, over the greatest of them: no overflow."""
        u, q = self.u[i], self.q[i]
        top = max(u.max(), q.max(), alpha) or 1.0
        u, q = u / top, C * (q / top)
        v = u + q
        most = max(v.max(), alpha / top) or 1.0
        t = -np.divide(q, v, out=np.zeros_like(v), where=v > 0)
        return v / most, t, alpha / top / most


def empty_plane(group: Group, i: int) -> float:
    """Return the intercept of a plane without own rows (-1) or without rivals (0); w is zero."""
    return 0.0 if group.u[i].any() else -1.0


def column_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut columns so that a dense block of all rows stays small; at least 256 at a time."""
    step = max(256, 8 * BLOCK_NUMBERS // max(n_rows, 1))
    for start in range(0, n_columns, step):
        yield slice(start, min(start + step, n_columns))


def dense_block(X: Any, index: Array | None, columns: slice) -> Array:
    """Copy some columns of some rows of a dense table, as float64."""
    block = X[:, columns] if index is None else X[index, columns]
    return np.array(block, dtype=np.float64, order="C")


def row_products(X: Any, index: Array | None, a: Array) -> Array:
    """Compute ``a @ X[index]`` of shape (m, d) in float64, from a of shape (m, n)."""
    if sparse.issparse(X):
        some = X if index is None else X[index]
        return np.ascontiguousarray((some.T @ a.T).T)
    if X.dtype == np.float64 and index is None:
        return np.asarray(a @ X)
    out = np.empty((len(a), X.shape[1]))
    for columns in column_blocks(a.shape[1], X.shape[1]):
        block = X[:, columns] if index is None else X[index, columns]
        out[:, columns] = a @ np.asarray(block, dtype=np.float64)
    return out
