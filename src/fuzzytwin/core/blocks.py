"""Cut rows and columns into blocks, and compute the moments of each class, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from fuzzytwin._utils.threads import map_threads
from fuzzytwin._utils.types import Array, Matrix

# Of the rows of one class: weight, mean in two parts (origin, offset), covariance.
Part = tuple[float, Array, Array, Array]
# The same of every class, stacked.
Sums = tuple[Array, Array, Array, Array]

# A block of rows that stays in the cache has this many numbers, but at least this many rows.
BLOCK_NUMBERS = 1 << 18
LEAST_ROWS = 256
# Rows of one class that are multiplied at once: enough for BLAS to run at speed.
ROWS_AT_ONCE = 3072
# One thread sums up a chunk of this many numbers, or as many rows of each class as above.
CHUNK_NUMBERS = 3 << 20
# Rows are centred about the mean of this many first ones. Where its square is this many times the
# variance, about one of their values: so a constant column has a variance of zero.
FIRST_ROWS = 128
FAR = 1e6
# A point whose squared distance from the mean is at most this many times the variance serves as
# well: centring afterwards costs the variance at most log2(1 + NEAR) bits.
NEAR = 4.0
MOST_ATTEMPTS = 4
# Sums of several classes may hold this many numbers together; more would cost more memory than
# they save time.
MOST_SUMS = 1 << 20
# Up to this many classes are separated faster by comparing than by sorting.
FEW_CLASSES = 6


def cut(n: int, size: int, start: int = 0) -> list[slice]:
    """Cut n rows, or those from `start` on, into blocks of at most this size."""
    return [slice(at, min(at + size, n)) for at in range(start, n, size)]


def row_slices(n: int, width: int, numbers: int | None = None) -> list[slice]:
    """Cut n rows, of `width` numbers to read or compute, into blocks that fit the cache."""
    numbers = BLOCK_NUMBERS if numbers is None else numbers
    return cut(n, max(LEAST_ROWS, numbers // max(width, 1)))


def dense_block(X: Matrix, here: slice | Array) -> Array:
    """Return a block of rows as a dense float64 array."""
    block = X[here].toarray() if sparse.issparse(X) else X[here]
    return np.asarray(block, dtype=np.float64)


def row_blocks(X: Matrix) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of X as dense float64 arrays, each with the slice of its rows."""
    for here in row_slices(*X.shape):
        yield here, dense_block(X, here)


def column_blocks(X: Array, index: Array | None) -> Iterator[tuple[slice, Array]]:
    """Yield float64 copies of blocks of columns, at least 256, of some rows (None: all)."""
    n = X.shape[0] if index is None else len(index)
    for columns in cut(X.shape[1], max(256, 8 * BLOCK_NUMBERS // max(n, 1))):
        block = X[:, columns] if index is None else X[index, columns]
        yield columns, np.array(block, dtype=np.float64, order="C")


def column_means(X: Array) -> Array:
    """Compute the mean of each column of rows, of which there is at least one.

    It is taken from the first row on: so the mean of a constant column is its value, to the bit.
    """
    first = np.asarray(X[0], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(first + (X - first).mean(axis=0))


def centre(block: Array, share: Array) -> tuple[Array, Array]:
    """Centre columns in place, by weights that sum to 1; return their mean in two parts.

    About the heaviest row first: so constant columns become exactly zero.
    """
    first = block[share.argmax()].copy()
    block -= first
    rest = share @ block
    block -= rest
    return first, rest


def class_sums(
    X: Matrix, codes: Array | None, weight: Array | None, n_classes: int, absolute: bool
) -> Sums:
    """Compute weight, mean in two parts and covariance of the rows of every class.

    Chunks of rows are summed up one by one, by the threads of `thread_pool`, and their sums are
    added in the order of the rows. How rows are cut depends on the shape of the table alone, so
    the result does not depend on the number of threads. What overflows or is not finite comes out
    as such.
    """
    (n, d), dense = X.shape, not sparse.issparse(X)
    rows = max(ROWS_AT_ONCE * n_classes, CHUNK_NUMBERS // max(d, 1) if dense else 4 * d)
    part_of = _dense_part if dense else _sparse_part
    # Rows in memory are only looked at; others are computed as they are read, some at a time.
    size = rows if isinstance(X, np.ndarray) or not dense else 2 * ROWS_AT_ONCE

    def sum_up(here: slice, total: Sums) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):
            for at in cut(here.stop, size, here.start):
                block = X[at]
                for k, index, v in _members(at, codes, weight, n_classes):
                    part = part_of(block, index, v, absolute)
                    if part is not None:
                        _absorb(total, k, *part)
        return total

    chunks, total = cut(n, rows), no_sums(n_classes, d)
    # Threads have nothing to share, or would need too much memory for their sums.
    if len(chunks) == 1 or n_classes * d * d > MOST_SUMS:
        for here in chunks:
            sum_up(here, total)
        return total
    with np.errstate(over="ignore", invalid="ignore"):
        for sums in map_threads(lambda here: sum_up(here, no_sums(n_classes, d)), chunks):
            for k in np.flatnonzero(sums[0]).tolist():
                _absorb(total, k, *(part[k] for part in sums))
    return total


def no_sums(n_classes: int, n_features: int) -> Sums:
    """Return the sums of no rows."""
    K, d = n_classes, n_features
    return np.zeros(K), np.zeros((K, d)), np.zeros((K, d)), np.zeros((K, d, d))


def _absorb(
    total: Sums, k: int, part_weight: float, part_origin: Array, part_offset: Array, part: Array
) -> None:
    """Add moments of rows of class k to the total (pairwise formula of Chan et al.)."""
    weight, origin, offset, covariance = total
    if weight[k] == 0:
        weight[k], origin[k], offset[k] = part_weight, part_origin, part_offset
        covariance[k] = part
        return
    weight[k] += part_weight
    share = part_weight / weight[k]
    gap = (part_origin - origin[k]) + (part_offset - offset[k])
    offset[k] += share * gap
    part += ((1 - share) * gap)[:, None] * gap
    part *= share
    running = covariance[k]
    running *= 1 - share
    running += part


def _members(
    here: slice, codes: Array | None, weight: Array | None, n_classes: int
) -> Iterator[tuple[int, Array | None, Array | None]]:
    """Yield for each class in a block its number, its rows (None: all) and their weights."""
    if codes is None:
        assert weight is not None
        yield from ((k, None, weight[here, k]) for k in range(n_classes))
        return
    label = codes[here]
    if n_classes <= FEW_CLASSES:
        rows = ((label == k).nonzero()[0] for k in range(n_classes))
    else:
        order = np.argsort(label, kind="stable")  # a radix sort for narrow integers
        ends = np.searchsorted(label[order], np.arange(n_classes + 1))
        rows = (order[ends[k] : ends[k + 1]] for k in range(n_classes))
    for k, index in enumerate(rows):
        if len(index):
            yield k, index, None if weight is None else weight[here][index]


def _dense_part(X: Array, index: Array | None, v: Array | None, absolute: bool) -> Part | None:
    """Compute the moments of some rows (None: all) of one class.

    They are summed up about a point near the mean of the first few, and what it is off by is taken
    out of the sums. Where it turns out to be too far off, they are summed up again about the mean
    that was found.
    """
    m, d = len(X) if index is None else len(index), X.shape[1]
    top = 1.0 if v is None else float(v.max())
    root = np.ones(m) if v is None else np.sqrt(v / (top or 1.0))
    buffer = np.empty((min(m, ROWS_AT_ONCE), d))

    def read(here: slice) -> Array:
        Z = buffer[: here.stop - here.start]
        if index is None:
            Z[...] = X[here]
        elif X.dtype == np.float64:
            X.take(index[here], axis=0, out=Z, mode="clip")  # "clip" spares numpy a second buffer
        else:
            Z[...] = X.take(index[here], axis=0)
        return np.abs(Z, out=Z) if absolute else Z

    few = slice(0, min(m, FIRST_ROWS, len(buffer)))
    about = _near_mean(read(few), root[few] ** 2)
    gap = np.zeros(d)
    for _ in range(MOST_ATTEMPTS):
        about = about + gap
        weight, gap, covariance = 0.0, np.zeros(d), np.zeros((d, d))
        for here in cut(m, len(buffer)):
            Z, part = read(here), root[here]
            if about.any():  # BLAS subtracts in half numpy's time on narrow rows
                Z = blas.dger(-1.0, about, np.ones(len(Z)), a=Z.T, overwrite_a=True).T
            if v is not None:
                Z *= part[:, None]
            # numpy's `dot` lets other threads run; `matmul`, and scipy's BLAS, do not.
            weight += float(np.dot(part, part))
            gap += np.dot(part, Z)
            covariance += np.dot(Z.T, Z)
        if weight == 0:
            return _weightless(np.diag(covariance))
        gap /= weight
        covariance /= weight
        square = np.diag(covariance).copy()
        covariance -= gap[:, None] * gap
        if ((1 + NEAR) * gap * gap <= NEAR * square).all():
            break
    return top * weight, about, gap, covariance


def _near_mean(Z: Array, v: Array) -> Array:
    """Choose a point near the mean: a value where it is far from zero, zero where that is near."""
    share = v / (v.sum() or 1.0)
    mean = share @ Z
    variance = share @ (Z - mean) ** 2
    mean = np.where(mean * mean > FAR * variance, Z[share.argmax()], mean)
    mean[(mean * mean <= NEAR * variance) | ~np.isfinite(mean)] = 0.0
    return np.asarray(mean)


def _weightless(sums: Array) -> Part | None:
    """Return no moments of rows without weight, or nan where one of them is not finite."""
    bad = np.full((len(sums), len(sums)), np.nan)
    return None if np.isfinite(sums).all() else (np.nan, bad[0], bad[0], bad)


def _sparse_part(X: Any, index: Array | None, v: Array | None, absolute: bool) -> Part | None:
    """Compute the moments of some rows of a CSR block, without making it dense.

    A column that is zero for at least half the weight has a variance of at least half its
    raw second moment, so the raw moment can be centred afterwards without losing digits.
    Only the fuller columns are made dense and centred first, about the row of greatest weight,
    then about what is left of their means.
    """
    S = sparse.csr_array(X if index is None else X[index], dtype=np.float64)
    S = abs(S) if absolute else S
    m, d = S.shape
    v = np.ones(m) if v is None else v
    top = float(v.max())
    if top == 0:
        return _weightless(v @ S)
    total = float((v / top).sum())
    v = v / top / total
    mean, rest = v @ S, np.zeros(d)
    T = S.multiply(np.sqrt(v)[:, None]).tocsr()
    covariance = (T.T @ T).toarray()
    covariance -= mean[:, None] * mean
    filled = np.bincount(S.indices, np.repeat(v, np.diff(S.indptr)), minlength=d)
    full = np.flatnonzero(filled > 0.5)
    if len(full):
        F = S[:, full].toarray()
        mean[full], rest[full] = centre(F, v)
        F *= np.sqrt(v)[:, None]
        covariance[:, full] = T.T @ F
        covariance[full, :] = covariance[:, full].T
        covariance[np.ix_(full, full)] = F.T @ F
    return top * total, mean, rest, covariance
