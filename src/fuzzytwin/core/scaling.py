"""Clip outliers of columns that are separated from all other values by a wide gap.

A few outliers (a code such as -999 for missing values, a misplaced decimal point) make the standard
deviation of a column so large that all other values become nearly equal once they are scaled. Let q
and Q be the weighted quantiles that leave `TAIL` of the weight on either side, and x < x' two
consecutive values of the column with at most `MAX_OUTLIERS` of the weight from x' on. Values from
x' on are outliers if

    x' - x  >  MIN_GAP (x - q),

for the innermost such pair, and likewise on the other side. The long tail of a skewed column does
not count: the gap must be as wide as the range of all other values.

A column with outliers is clipped to x, and its mean and standard deviation are those of the clipped
values. Other columns are not changed. New rows are clipped too: to x if the column has outliers,
otherwise at the point from which a new value would be one. So the effect of a single value is
bounded, and a column that was constant is constant in new rows too.

If Q = q, nearly all values of a column are equal. Outliers are then not defined, and the
column is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, block_slices

TAIL = 0.05  # share of the weight on either side of the quantiles
MAX_OUTLIERS = 0.025  # share of the weight that may be outliers, on either side
# Least width of the gap, relative to the range of all other values. Chosen on one half of a
# collection of tables, confirmed on the other.
MIN_GAP = 1.0
# Relative rounding error of sums of weights.
ROUNDING = 1e-9


def column_limits(X: Any, weight: Array, low: Array, high: Array) -> Array:
    """Compute the limits (2, d) to which the values of each column are clipped.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows, or a sample of them.
    weight : ndarray of shape (n,)
        Their weights, above 0.
    low, high : ndarray of shape (d,)
        Minimum and maximum of each column over all rows.

    Returns
    -------
    ndarray of shape (2, d)
        For sparse rows, the limits include 0, so that zeros stay zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.scaling import column_limits
    >>> X = np.append(np.arange(100.0), -9999.0)[:, None]
    >>> column_limits(X, np.ones(101), X.min(axis=0), X.max(axis=0)).ravel()
    array([  0., 194.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low = low.astype(np.float64)
        high = high.astype(np.float64)
        limits = np.array([low - MIN_GAP * (high - low), high + MIN_GAP * (high - low)])
        for columns, values in _filled_columns(X, weight):
            limits[0, columns] = _lower_limits(values, weight, low[columns], high[columns])
            limits[1, columns] = -_lower_limits(-values, weight, -high[columns], -low[columns])
    if sparse.issparse(X):
        limits[0] = np.minimum(limits[0], 0.0)
        limits[1] = np.maximum(limits[1], 0.0)
    return limits


def _filled_columns(X: Any, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield dense blocks of columns, without columns of sparse rows that are nearly all zero."""
    n, d = X.shape
    columns = np.arange(d)
    if sparse.issparse(X):
        X = X.tocsc()
        filled = np.add.reduceat(np.append(weight[X.indices], 0.0), X.indptr[:-1])
        filled[np.diff(X.indptr) == 0] = 0.0
        columns = np.flatnonzero(filled >= TAIL * (1 - ROUNDING) * weight.sum())
    for part in block_slices(len(columns), max(1, 8 * BLOCK_NUMBERS // max(n, 1))):
        block = X[:, columns[part]]
        block = block.toarray() if sparse.issparse(block) else block
        yield columns[part], np.asarray(block, dtype=np.float64)


def _lower_limits(values: Array, weight: Array, low: Array, high: Array) -> Array:
    """Compute the lower limits of dense columns with the minimum `low` and maximum `high`.

    The upper limits are minus the lower limits of the negated columns.
    """
    # The minimum of all rows counts as a value, although it may not be in the sample. The limit is
    # a value of the sample.
    values = np.concatenate([low[None], values])
    weight = np.append(0.0, weight)
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    weight_up_to = np.cumsum(weight[order], axis=0)
    total = weight_up_to[-1]
    lower_quantile = _first_where(ordered, weight_up_to >= TAIL * (1 - ROUNDING) * total)
    weight_from = total - weight_up_to + weight[order]
    is_upper = weight_from >= TAIL * (1 - ROUNDING) * total
    upper_quantile = _first_where(ordered[::-1], is_upper[::-1])
    gaps = ordered[1:] - ordered[:-1]
    distance_inside = upper_quantile - ordered[1:]
    is_tail = weight_up_to[:-1] <= MAX_OUTLIERS * (1 + ROUNDING) * total
    is_outlier = is_tail & (gaps > MIN_GAP * distance_inside) & (upper_quantile > lower_quantile)
    innermost = len(is_outlier) - 1 - is_outlier[::-1].argmax(axis=0)
    nearest = np.take_along_axis(ordered, innermost[None] + 1, axis=0)[0]
    return np.where(is_outlier.any(axis=0), nearest, low - MIN_GAP * (upper_quantile - low))


def _first_where(values: Array, mask: Array) -> Array:
    """Find the first value of each column at which the mask is True."""
    return np.asarray(np.take_along_axis(values, mask.argmax(axis=0)[None], axis=0)[0])


def clipped(X: Any, limits: Array) -> Any:
    """Clip values to the limits. X itself is returned if no value is beyond them."""
    low, high = limits
    if sparse.issparse(X):
        data = np.clip(X.data, low[X.indices], high[X.indices])
        unchanged = np.array_equal(data, X.data)
        return X if unchanged else type(X)((data, X.indices, X.indptr), shape=X.shape)
    beyond = (low > X).any() or (high < X).any()
    return np.clip(X, low, high) if beyond else X
