"""Limits of columns: values that lie far off all others are taken as the nearest of the others.

A few values far off (a mark such as -999 for a missing value, a slip of the decimal point) make the
deviation of a column so large that all other values become nearly equal once they are scaled. With
the weighted quantiles q and Q that leave `TAIL` of the weight on either side, a value is far off
outside of

    [q - FAR (Q - q),  Q + FAR (Q - q)].

A column that has such values is clipped to the range of its others, and its mean and deviation are
those of the clipped values. Any other column is left as it is. Rows to predict are clipped too: to
the range of the others if a column has values far off, else to the interval above. So no single
value of a new row moves it without bounds.

A column that has one value nearly everywhere (Q = q) says nothing about what is far off. Its limits
are `FAR` times its range beyond its range, so a constant column is constant in new rows, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, cut

TAIL = 0.05  # of the weight on either side of the quantiles
# Distances between the quantiles; chosen on one half of some tables, confirmed on the other.
FAR = 2.0
# What a sum of weights may be off by, relative.
ROUNDING = 1e-9


def column_limits(X: Any, weight: Array, low: Array, high: Array) -> Array:
    """Compute between which limits (2, d) the values of each column lie, or are put.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows, or a sample of them.
    weight : ndarray of shape (n,)
        Their weights, above 0.
    low, high : ndarray of shape (d,)
        Least and greatest value of each column of all rows.

    Returns
    -------
    ndarray of shape (2, d)
        Sparse rows keep their zeros: 0 is within the limits.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.scaling import column_limits
    >>> X = np.append(np.arange(100.0), -9999.0)[:, None]
    >>> column_limits(X, np.ones(101), X.min(axis=0), X.max(axis=0)).ravel()
    array([  0., 274.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = low.astype(np.float64), high.astype(np.float64)
        limits = np.array([low - FAR * (high - low), high + FAR * (high - low)])
        for columns, values in _filled_columns(X, weight):
            ends = low[columns], high[columns]
            limits[:, columns] = _limits(values, weight, limits[:, columns], *ends)
    if sparse.issparse(X):
        limits[0], limits[1] = np.minimum(limits[0], 0.0), np.maximum(limits[1], 0.0)
    return limits


def _filled_columns(X: Any, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of columns, dense; of sparse rows those that are not zero nearly everywhere."""
    n, d = X.shape
    columns = np.arange(d)
    if sparse.issparse(X):
        X = X.tocsc()
        filled = np.add.reduceat(np.append(weight[X.indices], 0.0), X.indptr[:-1])
        filled[np.diff(X.indptr) == 0] = 0.0
        columns = np.flatnonzero(filled >= TAIL * (1 - ROUNDING) * weight.sum())
    for here in cut(len(columns), max(1, 8 * BLOCK_NUMBERS // max(n, 1))):
        block = X[:, columns[here]]
        block = block.toarray() if sparse.issparse(block) else block
        yield columns[here], np.asarray(block, dtype=np.float64)


def _limits(values: Array, weight: Array, wide: Array, low: Array, high: Array) -> Array:
    """Compute limits of dense columns; `wide` are those of columns of one value."""
    lower, upper = tail_quantiles(values, weight, TAIL)
    apart = upper - lower
    fence_low, fence_high = lower - FAR * apart, upper + FAR * apart
    is_far = (values < fence_low) | (values > fence_high)
    least = np.where(is_far, np.inf, values).min(axis=0)
    greatest = np.where(is_far, -np.inf, values).max(axis=0)
    inner = [
        np.where(low < fence_low, least, fence_low),
        np.where(high > fence_high, greatest, fence_high),
    ]
    return np.where(apart > 0, inner, wide)


def tail_quantiles(values: Array, weight: Array, tail: float) -> tuple[Array, Array]:
    """Find the outermost values of each column with at least this share of the weight up to them.

    Neither the order of rows nor a factor on all weights matters, and a weight of 2 is the same as
    two equal rows.
    """
    least = tail * (1 - ROUNDING) * weight.sum()
    order = np.argsort(values, axis=0)
    upto = np.cumsum(weight[order], axis=0)
    before = upto[-1] - upto + weight[order]  # from each value on
    first = (upto >= least).argmax(axis=0)
    last = len(values) - 1 - (before >= least)[::-1].argmax(axis=0)
    columns = np.arange(values.shape[1])
    return values[order[first, columns], columns], values[order[last, columns], columns]


def clipped(X: Any, limits: Array) -> Any:
    """Put values beyond the limits on them; rows of which none is are returned as they are."""
    low, high = limits
    if sparse.issparse(X):
        data = np.clip(X.data, low[X.indices], high[X.indices])
        same = np.array_equal(data, X.data)
        return X if same else type(X)((data, X.indices, X.indptr), shape=X.shape)
    beyond = (low > X).any() or (high < X).any()
    return np.clip(X, low, high) if beyond else X
