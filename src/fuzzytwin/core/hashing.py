"""Hash rows by their content, and find duplicates of a row within its group.

Rows are sorted, sampled and assigned to folds by these keys. No key depends on the order or the
weights of rows, or on the names of labels and groups. Keys of single rows (`row_hashes`) do not
depend on the chunks either, except for duplicates, but on the order of the columns. Keys within a
whole table (`content_keys`, `rank_hashes`) do not depend on that order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_slices

BLOCK_NUMBERS = 1 << 16  # numbers that are hashed at once


def row_hashes(X: Any) -> Array:
    """Hash rows: equal rows have equal keys, on any machine and in any chunk."""
    factors = np.random.RandomState(0).randint(1, 2**62, size=X.shape[1], dtype=np.int64) * 2 + 1
    factors = factors.astype(np.uint64)
    keys = np.zeros(X.shape[0], dtype=np.uint64)
    for span in _blocks(X):
        block = X[span]
        if sparse.issparse(X):
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            np.add.at(keys[span], rows, _number_hashes(block.data, factors[block.indices]))
        else:
            keys[span] = _number_hashes(block, factors).sum(axis=1)
    return hash64(keys)


def content_keys(X: Any) -> Array:
    """Hash rows (n,) of a whole table by their numbers, whatever the order of rows and columns.

    Constant columns do not count, nor whether zeros are stored.
    """
    keep = varying(X)

    def codes(span: slice) -> Array:
        return _bits(np.where(keep, X[span], 0.0))

    keys = _sparse_hashes(X, keep) if sparse.issparse(X) else _table_hashes(codes, X)[0]
    # If columns can be exchanged without a change, different rows have equal keys. Their values in
    # this order of columns separate them, so that the order of rows never matters.
    _, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[number] > 1)
    values = row_hashes(X[shared][:, keep])
    distinct = np.unique(np.column_stack([number[shared].astype(np.uint64), values]), axis=0)
    n_distinct = np.bincount(distinct[:, 0].astype(np.intp), minlength=len(counts))
    differ = n_distinct[number[shared]] > 1
    keys[shared[differ]] = hash64(keys[shared] + values)[differ]
    return keys


def content_order(X: Any, s: Array | None = None) -> Array:
    """Order rows by a hash of their content (see `content_keys`), and duplicates by weight."""
    keys = content_keys(X)
    return np.argsort(keys, kind="stable") if s is None else np.lexsort((s, keys))


def varying(X: Any) -> Array:
    """Return the mask of columns that are not constant."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    if sparse.issparse(X):
        low = low.toarray().ravel()
        high = high.toarray().ravel()
    return np.asarray(low < high)


def _number_hashes(numbers: Any, factors: Array) -> Array:
    """Hash numbers with an odd factor per column. Zeros, stored or not, have the hash 0.

    The bits are folded first, because integers differ only in the highest bits of a float64.
    """
    bits = _bits(numbers)
    hashes = (bits ^ (bits >> np.uint64(32))) * factors
    return np.asarray(hashes ^ (hashes >> np.uint64(29)))


def _bits(numbers: Any) -> Array:
    """Return the bits of numbers as integers. Those of both zeros are 0."""
    return np.asarray((np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64))


def _blocks(X: Any) -> list[slice]:
    """Split rows into blocks that are hashed at once."""
    width = X.nnz // max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
    return row_slices(X.shape[0], width, BLOCK_NUMBERS)


def hash64(keys: Array) -> Array:
    """Hash 64-bit numbers, so that every bit depends on all (finaliser of MurmurHash3)."""
    keys = keys.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(33))


def unit_keys(X: Any, label: Array, weight: Array, groups: Array | None = None) -> Array:
    """Compute a unique key for each row or, with groups, for its group.

    The key of a group is computed from its distinct rows, so that duplicates in it and its name do
    not matter. Ties between rows or groups are broken by ``label``, the codes of labels or numbers
    that order soft labels, and by ``weight``.
    """
    rows = row_hashes(X)
    if label.dtype.kind in "iu":
        label = class_ranks(rows, label)[label]
    if groups is None:
        return break_ties(rows, label, weight)
    keys = group_sums(rows, groups)
    least = np.full(len(keys), np.inf)
    np.minimum.at(least, groups, label)
    return break_ties(keys, least, np.bincount(groups, weight))[groups]


def rank_hashes(X: Array) -> tuple[Array, Array]:
    """Hash rows and columns of a dense table by the ranks of the values in their columns.

    The keys (n,) of rows and (d,) of columns do not depend on the order of rows or columns, on
    increasing transformations of columns, or on constant columns.
    """
    ranks = np.empty(X.shape, dtype=np.uint64)
    for j in range(X.shape[1]):
        ranks[:, j] = np.unique(X[:, j], return_inverse=True)[1].ravel()
    return _table_hashes(ranks.__getitem__, X)


def _table_hashes(codes: Callable[[slice], Array], X: Array) -> tuple[Array, Array]:
    """Hash rows (n,) and columns (d,) of a dense table, from codes of its numbers by blocks.

    Rows are first hashed without regard to columns, then columns by these rows, then rows again.
    """
    rows = np.zeros(X.shape[0], dtype=np.uint64)
    columns = np.zeros(X.shape[1], dtype=np.uint64)
    for span in _blocks(X):
        block = codes(span)
        rows[span] = hash64(hash64(block).sum(axis=1))
        columns += hash64(block + rows[span, None]).sum(axis=0)
    factors = columns | np.uint64(1)
    for span in _blocks(X):
        rows[span] = hash64(hash64(codes(span) * factors).sum(axis=1))
    return rows, columns


def _sparse_hashes(X: Any, keep: Array) -> Array:
    """Compute `content_keys` of sparse rows. Zeros have the code 0, whose hash is 0."""
    rows = np.zeros(X.shape[0], dtype=np.uint64)
    columns = np.zeros(X.shape[1], dtype=np.uint64)

    def entries(span: slice) -> tuple[Array, Array, Array]:
        block = X[span].tocoo()
        kept = keep[block.col]
        return block.row[kept] + span.start, block.col[kept], _bits(block.data[kept])

    for span in _blocks(X):
        i, j, codes = entries(span)
        np.add.at(rows, i, hash64(codes))
        rows[span] = hash64(rows[span])
        np.add.at(columns, j, hash64(codes + rows[i]) - hash64(rows[i]))
    factors = (columns + hash64(rows).sum()) | np.uint64(1)
    rows[:] = 0
    for span in _blocks(X):
        i, j, codes = entries(span)
        np.add.at(rows, i, hash64(codes * factors[j]))
    return hash64(rows)


def class_ranks(keys: Array, codes: Array) -> Array:
    """Rank the classes of rows by the content of these rows, not by their names."""
    sums = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint64)
    np.add.at(sums, codes, hash64(keys))
    return np.argsort(np.argsort(sums, kind="stable"))


def group_sums(keys: Array, groups: Array) -> Array:
    """Sum the distinct keys of the rows of each group."""
    pairs = np.unique(np.column_stack([groups.astype(np.uint64), keys]), axis=0)
    sums = np.zeros(int(groups.max()) + 1, dtype=np.uint64)
    np.add.at(sums, pairs[:, 0].astype(np.intp), pairs[:, 1])
    return sums


def assign_folds(keys: Array, n_folds: int, codes: Array | None = None) -> Array:
    """Assign rows to folds, in turn by ascending key. Rows with equal keys stay together.

    With `codes`, the rows of each class are assigned separately.
    """
    rank = np.unique(keys, return_inverse=True)[1].ravel()
    if codes is None:
        return np.asarray(rank % n_folds)
    pairs = np.column_stack([codes.astype(np.intp), rank])
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    rank_in_class = np.arange(len(distinct)) - np.searchsorted(distinct[:, 0], distinct[:, 0])
    return np.asarray(rank_in_class % n_folds)[inverse.ravel()]


def break_ties(keys: Array, label: Array, weight: Array) -> Array:
    """Give duplicates in a chunk different keys, so that they are sampled independently.

    The new keys depend on the content of the chunk, but not on the order of its rows.
    """
    order = np.lexsort((weight, label, keys))
    first = np.concatenate([[True], keys[order][1:] != keys[order][:-1]])
    starts = np.flatnonzero(first)
    rank = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    is_duplicate = ~(first & np.append(first[1:], True))
    number = np.empty(len(keys), dtype=np.uint64)
    number[order] = np.where(is_duplicate, rank + 1, 0)
    return np.where(number > 0, hash64(keys + hash64(number + keys.sum())), keys)


def copies_in_groups(
    X: Any, codes: Array, weight: Array | None, mu: Array | None, groups: Array
) -> tuple[Array, Array] | None:
    """Find the distinct rows within groups.

    Duplicates have the same group, values and label. Rows of weight 0 are not duplicates. Returned
    are the first row of each set of duplicates, and for every row the number of its set, or None
    if there are no duplicates.
    """
    keys = row_hashes(X) + hash64(codes.astype(np.uint64))
    if mu is not None and mu.ndim == 2:
        keys = keys + hash64(row_hashes(mu))
    weightless = np.zeros(len(codes), dtype=np.uint64)  # a different number for each such row
    if weight is not None:
        index = np.flatnonzero(weight == 0)
        weightless[index] = index + 1
    table = np.column_stack([groups.astype(np.uint64), keys, weightless])
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(codes):
        return None
    inverse = inverse.ravel()
    unequal = X[first[inverse]] != X  # a collision of hashes, which is very rare
    collided = unequal.nnz > 0 if sparse.issparse(X) else bool(unequal.any())
    return None if collided else (first, inverse)
