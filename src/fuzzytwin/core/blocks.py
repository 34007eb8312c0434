"""Split rows and columns into blocks, and compute the moments of each class block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from fuzzytwin._utils.types import Array, Matrix
from fuzzytwin._utils.workers import map_threads

# Weight, mean in two parts (origin, offset) and covariance of rows of one class.
Part = tuple[float, Array, Array, Array]
# The same of all classes, stacked.
Sums = tuple[Array, Array, Array, Array]

# A block of rows that stays in the cache has at most this many numbers, but at least this many
# rows.
BLOCK_NUMBERS = 1 << 18
MIN_ROWS = 256
# Rows of one class that are multiplied at once: enough for BLAS to be efficient.
ROWS_AT_ONCE = 3072
# A thread sums a chunk of this many numbers, or as many rows of each class as above.
CHUNK_NUMBERS = 3 << 20
# Rows are centred about the mean of the first `FIRST_ROWS`, or about one of their values if the
# squared mean is `FAR_FROM_ZERO` times the variance, so that a constant column has a variance of 0.
FIRST_ROWS = 128
FAR_FROM_ZERO = 1e6
# Sums are taken about a point whose squared distance from the mean is at most this many times the
# variance. Centring after the sum then costs the variance at most log2(1 + MAX_SHIFT) bits.
MAX_SHIFT = 4.0
MAX_ATTEMPTS = 4
# Each thread keeps its own sums only if those of all classes have at most this many numbers.
MAX_SUMS = 1 << 20
# Up to this many classes are separated faster by comparison than by sorting.
MAX_COMPARED_CLASSES = 6


def block_slices(n: int, size: int, start: int = 0) -> list[slice]:
    """Split n rows, or those from `start` on, into blocks of at most this size."""
    return [slice(at, min(at + size, n)) for at in range(start, n, size)]


def row_slices(n: int, width: int, numbers: int | None = None) -> list[slice]:
    """Split n rows, with `width` numbers to read or compute in each, to fit the cache."""
    numbers = BLOCK_NUMBERS if numbers is None else numbers
    return block_slices(n, max(MIN_ROWS, numbers // max(width, 1)))


def dense_block(X: Matrix, span: slice | Array) -> Array:
    """Return a block of rows as a dense float64 array."""
    block = X[span].toarray() if sparse.issparse(X) else X[span]
    return np.asarray(block, dtype=np.float64)


def row_blocks(X: Matrix) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of X as dense float64 arrays, each with the slice of its rows."""
    for span in row_slices(*X.shape):
        yield span, dense_block(X, span)


def column_blocks(X: Array, index: Array | None) -> Iterator[tuple[slice, Array]]:
    """Yield float64 copies of blocks of at least 256 columns, of rows `index` (None: all)."""
    n = X.shape[0] if index is None else len(index)
    for columns in block_slices(X.shape[1], max(256, 8 * BLOCK_NUMBERS // max(n, 1))):
        block = X[:, columns] if index is None else X[index, columns]
        yield columns, np.array(block, dtype=np.float64, order="C")


def column_means(X: Array) -> Array:
    """Compute the mean of each column of at least one row.

    It is computed relative to the first row, so that the mean of a constant column is exact.
    """
    first = np.asarray(X[0], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(first + (X - first).mean(axis=0))


def centre(block: Array, share: Array) -> tuple[Array, Array]:
    """Centre columns in place, by weights that sum to 1, and return their mean in two parts.

    The row of greatest weight is subtracted first, so that constant columns become exactly zero.
    """
    origin = block[share.argmax()].copy()
    block -= origin
    offset = share @ block
    block -= offset
    return origin, offset


def class_sums(
    X: Matrix, codes: Array | None, weight: Array | None, n_classes: int, absolute: bool
) -> Sums:
    """Compute weight, mean in two parts and covariance of the rows of every class.

    Chunks of rows are summed by the threads of `thread_pool`, and their sums are added in the
    order of the rows. Chunks depend only on the shape of X, so the result does not depend on the
    number of threads. It is not finite if X is not, or if its squares overflow.
    """
    n, d = X.shape
    dense = not sparse.issparse(X)
    rows = max(ROWS_AT_ONCE * n_classes, CHUNK_NUMBERS // max(d, 1) if dense else 4 * d)
    part_of = _dense_part if dense else _sparse_part
    # Slices of arrays are views. Features of a kernel are computed when sliced, so in small blocks.
    size = rows if isinstance(X, np.ndarray) or not dense else 2 * ROWS_AT_ONCE

    def sum_up(chunk: slice, total: Sums) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):
            for at in block_slices(chunk.stop, size, chunk.start):
                block = X[at]
                for k, index, v in _class_rows(at, codes, weight, n_classes):
                    part = part_of(block, index, v, absolute)
                    if part is not None:
                        add_part(total, k, part)
        return total

    chunks = block_slices(n, rows)
    total = empty_sums(n_classes, d)
    # Threads have nothing to share, or would need too much memory for their sums.
    if len(chunks) == 1 or n_classes * d * d > MAX_SUMS:
        for chunk in chunks:
            sum_up(chunk, total)
        return total
    with np.errstate(over="ignore", invalid="ignore"):
        for sums in map_threads(lambda chunk: sum_up(chunk, empty_sums(n_classes, d)), chunks):
            for k in np.flatnonzero(sums[0]).tolist():
                add_part(total, k, (sums[0][k], sums[1][k], sums[2][k], sums[3][k]))
    return total


def empty_sums(n_classes: int, n_features: int) -> Sums:
    """Return the sums of no rows."""
    shape = (n_classes, n_features)
    return np.zeros(n_classes), np.zeros(shape), np.zeros(shape), np.zeros((*shape, n_features))


def add_part(total: Sums, k: int, part: Part) -> None:
    """Add the moments of rows of class k to the total, in place. The part is overwritten.

    The covariance of both is (W V + W' V' + b g g') / (W + W'), with b and g of `merge_means`.
    """
    weight, origin, offset, covariance = total
    part_weight, part_origin, part_offset, part_covariance = part
    if weight[k] == 0:
        weight[k] = part_weight
        origin[k] = part_origin
        offset[k] = part_offset
        covariance[k] = part_covariance
        return
    shifted = (part_origin - origin[k]) + part_offset
    weight[k], offset[k], _, gap = merge_means(weight[k], offset[k], part_weight, shifted)
    share = part_weight / weight[k]
    part_covariance += ((1 - share) * gap)[:, None] * gap
    part_covariance *= share
    running = covariance[k]
    running *= 1 - share
    running += part_covariance


def merge_means(
    weight: float, mean: Array, other_weight: float, other_mean: Array
) -> tuple[float, Array, float, Array]:
    """Merge the means of two sets of rows (pairwise formula of Chan, Golub and LeVeque, 1983).

    Return the total weight, the mean of both, a weight b and the gap g of the means. The scatter of
    both is the sum of the scatters plus b g g'.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.blocks import merge_means
    >>> merge_means(1.0, np.array([0.0]), 3.0, np.array([4.0]))
    (4.0, array([3.]), 0.75, array([4.]))
    """
    total = weight + other_weight
    share = other_weight / total if total > 0 else 0.0
    gap = other_mean - mean
    return total, mean + share * gap, weight * share, gap


def _class_rows(
    block: slice, codes: Array | None, weight: Array | None, n_classes: int
) -> Iterator[tuple[int, Array | None, Array | None]]:
    """Yield for each class in a block its number, its rows (None: all) and their weights."""
    if codes is None:
        assert weight is not None
        yield from ((k, None, weight[block, k]) for k in range(n_classes))
        return
    label = codes[block]
    if n_classes <= MAX_COMPARED_CLASSES:
        rows = ((label == k).nonzero()[0] for k in range(n_classes))
    else:
        order = np.argsort(label, kind="stable")  # a radix sort for narrow integers
        ends = np.searchsorted(label[order], np.arange(n_classes + 1))
        rows = (order[ends[k] : ends[k + 1]] for k in range(n_classes))
    for k, index in enumerate(rows):
        if len(index):
            yield k, index, None if weight is None else weight[block][index]


def _dense_part(X: Array, index: Array | None, v: Array | None, absolute: bool) -> Part | None:
    """Compute the moments of rows `index` (None: all) of one class.

    Sums are taken about a point near the mean of the first rows, and corrected for its distance
    from the mean of all. If that distance is too large, the sums are repeated about the new mean.
    """
    m = len(X) if index is None else len(index)
    d = X.shape[1]
    top = 1.0 if v is None else float(v.max())
    root = np.ones(m) if v is None else np.sqrt(v / (top or 1.0))
    buffer = np.empty((min(m, ROWS_AT_ONCE), d))

    def read(span: slice) -> Array:
        Z = buffer[: span.stop - span.start]
        if index is None:
            Z[...] = X[span]
        elif X.dtype == np.float64:
            X.take(index[span], axis=0, out=Z, mode="clip")  # "clip" spares numpy a second buffer
        else:
            Z[...] = X.take(index[span], axis=0)
        return np.abs(Z, out=Z) if absolute else Z

    first_rows = slice(0, min(m, FIRST_ROWS, len(buffer)))
    center = _near_mean(read(first_rows), root[first_rows] ** 2)
    gap = np.zeros(d)
    for _ in range(MAX_ATTEMPTS):
        center = center + gap
        weight = 0.0
        gap = np.zeros(d)
        covariance = np.zeros((d, d))
        for span in block_slices(m, len(buffer)):
            Z = read(span)
            part = root[span]
            if center.any():  # BLAS subtracts in half numpy's time on narrow rows
                Z = blas.dger(-1.0, center, np.ones(len(Z)), a=Z.T, overwrite_a=True).T
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
        if ((1 + MAX_SHIFT) * gap * gap <= MAX_SHIFT * square).all():
            break
    return top * weight, center, gap, covariance


def _near_mean(Z: Array, v: Array) -> Array:
    """Choose a point near the mean: a row's value if the mean is far from zero, zero if near."""
    share = v / (v.sum() or 1.0)
    mean = share @ Z
    variance = share @ (Z - mean) ** 2
    mean = np.where(mean * mean > FAR_FROM_ZERO * variance, Z[share.argmax()], mean)
    mean[(mean * mean <= MAX_SHIFT * variance) | ~np.isfinite(mean)] = 0.0
    return np.asarray(mean)


def _weightless(sums: Array) -> Part | None:
    """Return None for rows without weight, or moments of nan if one of them is not finite."""
    bad = np.full((len(sums), len(sums)), np.nan)
    return None if np.isfinite(sums).all() else (np.nan, bad[0], bad[0], bad)


def _sparse_part(X: Any, index: Array | None, v: Array | None, absolute: bool) -> Part | None:
    """Compute the moments of rows `index` (None: all) of a CSR block, without making it dense.

    A column that is zero for at least half of the weight has a variance of at least half its raw
    second moment, so the raw moment can be centred afterwards without losing digits. Only the
    other columns are made dense and centred first (see `centre`).
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
    origin = v @ S
    offset = np.zeros(d)
    T = S.multiply(np.sqrt(v)[:, None]).tocsr()
    covariance = (T.T @ T).toarray()
    covariance -= origin[:, None] * origin
    filled = np.bincount(S.indices, np.repeat(v, np.diff(S.indptr)), minlength=d)
    full = np.flatnonzero(filled > 0.5)
    if len(full):
        F = S[:, full].toarray()
        origin[full], offset[full] = centre(F, v)
        F *= np.sqrt(v)[:, None]
        covariance[:, full] = T.T @ F
        covariance[full, :] = covariance[:, full].T
        covariance[np.ix_(full, full)] = F.T @ F
    return top * total, origin, offset, covariance
