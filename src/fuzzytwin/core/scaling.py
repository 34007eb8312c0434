"""Limits of columns: values that lie far off all others are taken as the nearest of the others.

A few values far off (a mark such as -999 for a missing value, a slip of the decimal point) make the
deviation of a column so large that all other values become nearly equal once they are scaled. Let q
and Q be the weighted quantiles that leave `TAIL` of the weight on either side, and x < x' two
neighbouring values of the column with at most `FEW` of the weight from x' on. Values from x' on are
far off if

    x' - x  >  FAR (x - q),

for the innermost such pair, and likewise on the other side. So values that thin out, as those of
skewed columns do, are not far off; it takes a gap that is wide beside the range of all others.

A column that has such values is clipped to x, and its mean and deviation are those of the clipped
values. Any other column is left as it is. New rows are clipped too: to x if a column has values far
off, else to where a new value would be far off. So no single value moves a row without bounds, and
a column that was constant is constant in new rows, too.

If Q = q, a column has one value nearly everywhere, which does not tell what is far off. It is left
as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, cut

TAIL = 0.05  # of the weight on either side of the quantiles
FEW = 0.025  # of the weight may be far off on either side
# How wide a gap is, beside the range of all others; chosen on one half of some tables, confirmed on
# the other.
FAR = 1.0
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
    array([  0., 194.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = low.astype(np.float64), high.astype(np.float64)
        limits = np.array([low - FAR * (high - low), high + FAR * (high - low)])
        for columns, values in _filled_columns(X, weight):
            ends = low[columns], high[columns]
            lower = _lower_limits(values, weight, *ends)
            upper = -_lower_limits(-values, weight, *(-end for end in reversed(ends)))
            limits[:, columns] = lower, upper
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


def _lower_limits(values: Array, weight: Array, low: Array, high: Array) -> Array:
    """Compute the lower limits of dense columns whose values of all rows lie in [low, high].

    The upper ones are those of the reflected columns.
    """
    # The least of all rows counts as a value, though it may not be in the sample; the limit is that
    # of the sample.
    values = np.concatenate([low[None], values])
    weight = np.append(0.0, weight)
    order = np.argsort(values, axis=0, kind="stable")
    ordered, upto = np.take_along_axis(values, order, axis=0), np.cumsum(weight[order], axis=0)
    total = upto[-1]
    quantile = _first(ordered, upto >= TAIL * (1 - ROUNDING) * total)
    onwards = total - upto + weight[order]
    opposite = _first(ordered[::-1], (onwards >= TAIL * (1 - ROUNDING) * total)[::-1])
    gaps, inside = ordered[1:] - ordered[:-1], opposite - ordered[1:]
    few = upto[:-1] <= FEW * (1 + ROUNDING) * total
    is_far = few & (gaps > FAR * inside) & (opposite > quantile)
    innermost = len(is_far) - 1 - is_far[::-1].argmax(axis=0)
    nearest = np.take_along_axis(ordered, innermost[None] + 1, axis=0)[0]
    return np.where(is_far.any(axis=0), nearest, low - FAR * (opposite - low))


def _first(values: Array, is_so: Array) -> Array:
    """Find the first value of each column for which something is so."""
    return np.asarray(np.take_along_axis(values, is_so.argmax(axis=0)[None], axis=0)[0])


def clipped(X: Any, limits: Array) -> Any:
    """Put values beyond the limits on them; rows of which none is are returned as they are."""
    low, high = limits
    if sparse.issparse(X):
        data = np.clip(X.data, low[X.indices], high[X.indices])
        same = np.array_equal(data, X.data)
        return X if same else type(X)((data, X.indices, X.indptr), shape=X.shape)
    beyond = (low > X).any() or (high < X).any()
    return np.clip(X, low, high) if beyond else X
