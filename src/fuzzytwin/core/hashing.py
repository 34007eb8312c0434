"""Keys of rows by their content, and copies of a row in one group.

A key depends on neither the order of rows, their weights, the names of labels and groups, nor how
rows are cut into chunks, unless rows are equal. Rows are sorted, sampled and dealt by their keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_slices

BLOCK_NUMBERS = 1 << 18  # numbers that are hashed at once


def row_hashes(X: Any, counts: Array | None = None) -> Array:
    """Hash rows: equal rows have equal keys, on any machine and in any chunk.

    Only the columns that count (d,) matter. None: all of them.
    """
    odd = np.random.RandomState(0).randint(1, 2**62, size=X.shape[1], dtype=np.int64) * 2 + 1
    odd, keys = odd.astype(np.uint64), np.zeros(X.shape[0], dtype=np.uint64)
    if counts is not None:
        odd[~counts] = 0
    width = X.nnz // max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
    for here in row_slices(X.shape[0], width, BLOCK_NUMBERS):
        block = X[here]
        if sparse.issparse(X):
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            np.add.at(keys[here], rows, _number_hashes(block.data, odd[block.indices]))
        else:
            keys[here] = _number_hashes(block, odd).sum(axis=1)
    return mixed(keys)


def content_order(X: Any, s: Array | None = None) -> Array:
    """Order rows by a hash of what they hold, and equal rows by weight, however they are given.

    Constant columns do not count, so that their value changes nothing.
    """
    keys = row_hashes(X, varying(X))
    return np.argsort(keys, kind="stable") if s is None else np.lexsort((s, keys))


def varying(X: Any) -> Array:
    """Return which columns have different values."""
    low, high = X.min(axis=0), X.max(axis=0)
    if sparse.issparse(X):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return np.asarray(low < high)


def _number_hashes(numbers: Any, odd: Array) -> Array:
    """Hash numbers by the factors of their columns; zeros, stored or not, are 0.

    Whole numbers differ in the highest bits alone, which a product would lose.
    """
    bits = (np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)
    hashes = (bits ^ (bits >> np.uint64(32))) * odd
    return np.asarray(hashes ^ (hashes >> np.uint64(29)))


def mixed(keys: Array) -> Array:
    """Scatter 64-bit numbers, so that each bit depends on all others."""
    keys = keys.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(33))


def unit_keys(X: Any, label: Array, weight: Array, groups: Array | None = None) -> Array:
    """Give each row a key of its own or, with groups, the key of its group.

    The key of a group follows from its different rows, so that copies of a row and the name of the
    group do not matter. Units whose rows are equal are told apart by ``label`` and ``weight``.
    """
    rows = row_hashes(X)
    if groups is None:
        return break_ties(rows, label, weight)
    keys = group_sums(rows, groups)
    least = np.full(len(keys), np.inf)
    np.minimum.at(least, groups, label)
    return break_ties(keys, least, np.bincount(groups, weight))[groups]


def group_sums(keys: Array, groups: Array) -> Array:
    """Add up the different keys of the rows of each group."""
    pairs = np.unique(np.column_stack([groups.astype(np.uint64), keys]), axis=0)
    sums = np.zeros(int(groups.max()) + 1, dtype=np.uint64)
    np.add.at(sums, pairs[:, 0].astype(np.intp), pairs[:, 1])
    return sums


def break_ties(keys: Array, label: Array, weight: Array) -> Array:
    """Give equal rows of a chunk different keys, or all of them would be sampled, or none.

    Which rows are equal matters, and what else is in the chunk, but not their order.
    """
    order = np.lexsort((weight, label, keys))
    first = np.concatenate([[True], keys[order][1:] != keys[order][:-1]])
    starts = np.flatnonzero(first)
    place = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    repeated = ~(first & np.append(first[1:], True))  # not alone
    number = np.empty(len(keys), dtype=np.uint64)
    number[order] = np.where(repeated, place + 1, 0)
    return np.where(number > 0, mixed(keys + mixed(number + keys.sum())), keys)


def copies_in_groups(
    X: Any, codes: Array, weight: Array | None, mu: Array | None, groups: Array
) -> tuple[Array, Array] | None:
    """Find one of the copies of each row in its group, and the place of each row among those found.

    Copies have the same group, numbers and label. Rows of weight 0 are no copies. None if no row
    has copies.
    """
    keys = row_hashes(X) + mixed(codes.astype(np.uint64))
    if mu is not None and mu.ndim == 2:
        keys = keys + mixed(row_hashes(mu))
    alone = np.zeros(len(codes), dtype=np.uint64)
    if weight is not None:
        absent = np.flatnonzero(weight == 0)
        alone[absent] = absent + 1
    table = np.column_stack([groups.astype(np.uint64), keys, alone])
    _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(codes):
        return None
    place = place.ravel()
    other = X[first[place]] != X  # rows of equal keys are equal, unless by a rare accident
    differ = other.nnz > 0 if sparse.issparse(X) else bool(other.any())
    return None if differ else (first, place)
