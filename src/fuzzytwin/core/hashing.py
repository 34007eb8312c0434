"""Hashes of rows: samples by content depend neither on the order of rows nor on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_slices


def content_keys(X: Any) -> Array:
    """Hash rows: equal rows have equal keys, on any machine and in any chunk."""
    return mixed(_sums(X))


def content_order(X: Any, s: Array | None = None) -> Array:
    """Order rows by a hash of what they hold, and equal rows by weight, however they are given.

    Constant columns do not count, so that their value changes nothing.
    """
    keys = mixed(_sums(X, varying(X)))
    return np.argsort(keys, kind="stable") if s is None else np.lexsort((s, keys))


def varying(X: Any) -> Array:
    """Return which columns have different values."""
    low, high = X.min(axis=0), X.max(axis=0)
    if sparse.issparse(X):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return np.asarray(low < high)


def _sums(X: Any, counts: Array | None = None) -> Array:
    """Add up the bits of each row, by columns, or by the columns that count."""
    odd = np.random.RandomState(0).randint(1, 2**62, size=X.shape[1], dtype=np.int64) * 2 + 1
    odd, keys = odd.astype(np.uint64), np.zeros(X.shape[0], dtype=np.uint64)
    if counts is not None:
        odd[~counts] = 0
    width = X.nnz // max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
    for here in row_slices(X.shape[0], width):
        block = X[here]
        if sparse.issparse(X):
            bits = (block.data.astype(np.float64) + 0.0).view(np.uint64) * odd[block.indices]
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            np.add.at(keys[here], rows, bits)
        else:
            bits = (np.asarray(block, dtype=np.float64) + 0.0).view(np.uint64)
            keys[here] = (bits * odd).sum(axis=1)
    return keys


def mixed(keys: Array) -> Array:
    """Scatter 64-bit numbers, so that each bit depends on all others."""
    keys = keys.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(33))
