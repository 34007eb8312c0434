"""Read rows in blocks, and compute the moments of each class's rows, block by block."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from fuzzytwin._utils.threads import each, multiplies_unpacked
from fuzzytwin._utils.types import Array, Matrix

# Of the rows of one class: weight, mean in two parts (origin, offset), covariance.
Part = tuple[float, Array, Array, Array]
# The same of every class, stacked.
Sums = tuple[Array, Array, Array, Array]

# A block holds about this many rows of each class (enough for BLAS to run at speed) and,
# unless the table is very wide, no more than this many numbers (so that it stays in cache).
ROWS_PER_CLASS = 1536
BLOCK_NUMBERS = 1 << 18
# With many classes a block may be some times larger, to hold an eighth of that of each.
# So many blocks make a chunk: one thread sums it up, and checks its sums.
STRETCH = 16
# Where a squared mean is this many times the variance, a column is centred about one of its
# values first: the mean keeps its digits, and a constant column has a variance of zero.
FAR = 1e6
# Where it is at most this many times the variance, the second moment can be centred afterwards:
# that costs the variance at most log2(1 + NEAR) bits.
NEAR = 4.0
# A mean of fewer rows than this is not used to centre the rows that follow.
FEW_ROWS = 16
# Sums of several classes may hold this many numbers together; more would cost more memory than
# they save time.
MOST_SUMS = 1 << 20
# Up to this many classes are separated faster by comparing than by sorting.
FEW_CLASSES = 6
# BLAS with kernels for small products (see `multiplies_unpacked`) uses them up to so many
# multiplications. With fewer rows than the second number at a time, they gain nothing.
SMALL_PRODUCT = 10**6
FEW_UNPACKED = 384


def block_rows(n_features: int, n_classes: int = 1) -> int:
    """Choose how many dense rows to read at once."""
    in_cache = BLOCK_NUMBERS // max(n_features, 1)
    many = min(ROWS_PER_CLASS * n_classes // 8, 4 * in_cache)
    return max(ROWS_PER_CLASS, many, min(ROWS_PER_CLASS * n_classes, in_cache))


def row_slices(n: int, n_features: int) -> list[slice]:
    """Cut n rows into blocks that fit the cache."""
    return _slices(0, n, block_rows(n_features))


def dense_block(X: Matrix, here: slice) -> Array:
    """Return a block of rows as a dense float64 array."""
    block = X[here].toarray() if sparse.issparse(X) else X[here]
    return np.asarray(block, dtype=np.float64)


def row_blocks(X: Matrix) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of X as dense float64 arrays, each with the slice of its rows."""
    for here in row_slices(*X.shape):
        yield here, dense_block(X, here)


def class_sums(
    X: Matrix, codes: Array | None, weight: Array | None, n_classes: int, absolute: bool
) -> Sums:
    """Compute weight, mean in two parts and covariance of the rows of every class.

    Chunks of rows are summed up one by one, by the threads of `fuzzytwin._utils.threads.working`,
    and their sums are added in the order of the rows. How rows are cut depends on the shape of
    the table alone, so the result does not depend on the number of threads. What overflows or
    is not finite comes out as such.
    """
    n, d = X.shape
    dense = not sparse.issparse(X)
    rows = STRETCH * block_rows(d, n_classes) if dense else max(ROWS_PER_CLASS * n_classes, 4 * d)
    parts_of = _dense_parts if dense else _sparse_parts

    def sum_up(here: slice, total: Sums | None = None) -> Sums:
        total = _no_sums(n_classes, d) if total is None else total
        with np.errstate(over="ignore", invalid="ignore"):
            for k, part in parts_of(X, here, codes, weight, n_classes, absolute):
                _absorb(total, k, *part)
        return total

    chunks = _slices(0, n, rows)
    if len(chunks) == 1:
        return sum_up(chunks[0])
    total = _no_sums(n_classes, d)
    if n_classes * d * d > MOST_SUMS:  # threads would need too much memory for their sums
        for here in chunks:
            sum_up(here, total)
        return total
    with np.errstate(over="ignore", invalid="ignore"):
        for sums in each(sum_up, chunks):
            for k in np.flatnonzero(sums[0]).tolist():
                _absorb(total, k, *(part[k] for part in sums))
    return total


def _no_sums(n_classes: int, n_features: int) -> Sums:
    K, d = n_classes, n_features
    return np.zeros(K), np.zeros((K, d)), np.zeros((K, d)), np.zeros((K, d, d))


def _absorb(
    total: Sums,
    k: int,
    part_weight: float,
    part_origin: Array,
    part_offset: Array,
    part_covariance: Array,
) -> None:
    """Add the moments of some rows of class k to the total (pairwise formula of Chan et al.)."""
    weight, origin, offset, covariance = total
    if weight[k] == 0:
        weight[k], origin[k], offset[k] = part_weight, part_origin, part_offset
        covariance[k] = part_covariance
        return
    weight[k] += part_weight
    share = part_weight / weight[k]
    gap = (part_origin - origin[k]) + (part_offset - offset[k])
    offset[k] += share * gap
    part_covariance += ((1 - share) * gap)[:, None] * gap
    part_covariance *= share
    running = covariance[k]
    running *= 1 - share
    running += part_covariance


def _sparse_parts(
    X: Any, here: slice, codes: Array | None, weight: Array | None, n_classes: int, absolute: bool
) -> Iterator[tuple[int, Part]]:
    """Yield the moments of the rows of each class among the given CSR rows."""
    block = X[here]
    for k, index, v in _members(here, codes, weight, n_classes):
        part = _sparse_block(block, index, v, absolute)
        if part is not None:
            yield k, part


def _dense_parts(
    X: Any, here: slice, codes: Array | None, weight: Array | None, n_classes: int, absolute: bool
) -> Iterator[tuple[int, Part]]:
    """Yield moments of disjoint sets of the given rows, each with its class.

    The rows of a class are summed up about the mean of its first block. A mean that is within a
    few deviations of the true one serves as well as the true one: what it is off by is taken out
    of the sums afterwards. Where it turns out to be farther off, the blocks are read again, each
    about its own mean.
    """
    d = X.shape[1]
    size = block_rows(d, n_classes)
    blocks = _slices(here.start, here.stop, size)
    reader = _Reader(X.dtype, min(size, here.stop - here.start), d, absolute)
    about: dict[int, Array] = {}
    product = np.empty((d, d))

    def carefully(k: int, block: Array, index: Array | None, v: Array | None) -> Part | None:
        part = _dense_block(reader, block, index, v)
        if part is not None and len(block if index is None else index) >= FEW_ROWS:
            about[k] = _about(part)
        return part

    sums: dict[int, _Sums] = {}
    for at in blocks:
        block = X[at]
        for k, index, v in _members(at, codes, weight, n_classes):
            room = (len(sums) + 1) * d * d <= MOST_SUMS
            if k not in sums and k in about and room and (v is None or v.max() > 0):
                sums[k] = _Sums(about[k], at.start, v)
            if k in sums:
                sums[k].add(reader.rows(block, index), v, product)
            elif (part := carefully(k, block, index, v)) is not None:
                yield k, part
    doubtful = {}
    for k in list(sums):
        summed = sums.pop(k)
        part = summed.part()
        if part is None:
            doubtful[k] = summed.start
        else:
            yield k, part
    for at in blocks if doubtful else ():
        block = X[at]
        for k, index, v in _members(at, codes, weight, n_classes):
            if at.start >= doubtful.get(k, here.stop):
                part = carefully(k, block, index, v)
                if part is not None:
                    yield k, part


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


class _Sums:
    """Weighted sums of rows of one class, and of their products, about a given point."""

    def __init__(self, about: Array, start: int, v: Array | None) -> None:
        self.about, self.start = about, start
        self.shift = about.any()
        self.top = 1.0 if v is None else float(v.max())
        self.weight = 0.0
        self.first = np.zeros(len(about))
        self.second = np.zeros((len(about), len(about)))

    def add(self, Z: Array, v: Array | None, product: Array) -> None:
        """Add rows, which are overwritten, with their weights; `product` is a buffer."""
        if self.shift:
            Z = _minus(Z, self.about)
        if v is None:
            self.first += np.ones(len(Z)) @ Z
            self.weight += len(Z)
        else:
            root = np.sqrt(v / self.top)
            Z *= root[:, None]
            self.first += root @ Z
            self.weight += float(root @ root)
        rows = _unpacked_rows(Z.shape[1])
        if rows == 0:
            self.second += np.matmul(Z.T, Z, out=product)
        for part in _slices(0, len(Z) if rows else 0, max(rows, 1)):
            T = Z[part].T
            blas.dgemm(1.0, T, T, beta=1.0, c=self.second.T, trans_b=True, overwrite_c=True)

    def part(self) -> Part | None:
        """Return the moments; None where the point is too far off or the sums are too great."""
        gap = self.first / self.weight
        covariance = self.second
        covariance /= self.weight
        square = np.diag(covariance)
        near = ((1 + NEAR) * gap * gap <= NEAR * square) & np.isfinite(NEAR * square)
        if not (near.all() and np.isfinite(self.weight)):
            return None
        covariance -= gap[:, None] * gap
        return self.top * self.weight, self.about, gap, covariance


@functools.cache
def _unpacked_rows(n_features: int) -> int:
    """Return how many rows make a product that BLAS need not pack; 0 where it packs all."""
    rows = SMALL_PRODUCT // n_features**2
    return rows if rows >= FEW_UNPACKED and multiplies_unpacked() else 0


def _about(part: Part) -> Array:
    """Choose the point to centre further rows about: the mean, or zero where that is near."""
    _, origin, offset, covariance = part
    mean = origin + offset
    mean[mean * mean <= NEAR * np.diag(covariance)] = 0.0
    return mean


def _minus(Z: Array, point: Array) -> Array:
    """Subtract a point from rows, in place; BLAS does it in half numpy's time on narrow rows."""
    lessened: Array = blas.dger(-1.0, point, np.ones(len(Z)), a=Z.T, overwrite_a=True).T
    return lessened


class _Reader:
    """Reader of rows of a block, as float64, into one buffer, which the next call overwrites."""

    def __init__(self, dtype: np.dtype[Any], size: int, n_features: int, absolute: bool) -> None:
        self.absolute = absolute
        self.buffer = np.empty((size, n_features))
        self.narrow = None if dtype == np.float64 else np.empty((size, n_features), dtype)

    def rows(self, X: Array, index: Array | None) -> Array:
        """Return some rows of a block (None: all)."""
        m = len(X) if index is None else len(index)
        Z = self.buffer[:m]
        if index is None:
            Z[...] = X
        elif self.narrow is None:
            X.take(index, axis=0, out=Z, mode="clip")  # "clip" spares numpy a second buffer
        else:
            Z[...] = X.take(index, axis=0, out=self.narrow[:m], mode="clip")
        return np.abs(Z, out=Z) if self.absolute else Z

    def columns(self, X: Array, index: Array | None, columns: Array) -> Array:
        """Return some columns of these rows, as an array of their own."""
        F = np.asarray(X[:, columns] if index is None else X[index[:, None], columns], np.float64)
        return np.abs(F) if self.absolute else F


def _members(
    here: slice, codes: Array | None, weight: Array | None, n_classes: int
) -> Iterator[tuple[int, Array | None, Array | None]]:
    """Yield for each class in a block its number, its rows (None: all) and their weights."""
    if codes is None:
        assert weight is not None
        for k in range(n_classes):
            yield k, None, weight[here, k]
        return
    label = codes[here]
    if n_classes <= FEW_CLASSES:
        for k in range(n_classes):
            (index,) = (label == k).nonzero()
            if len(index):
                yield k, index, None if weight is None else weight[here][index]
        return
    order = np.argsort(label, kind="stable")  # a radix sort for narrow integers
    ends = np.searchsorted(label[order], np.arange(n_classes + 1))
    for k in range(n_classes):
        index = order[ends[k] : ends[k + 1]]
        if len(index):
            yield k, index, None if weight is None else weight[here][index]


def _dense_block(reader: _Reader, X: Array, index: Array | None, v: Array | None) -> Part | None:
    """Compute the moments of some rows of a dense block about their own mean."""
    Z = reader.rows(X, index)
    W, v = _unit_weights(len(Z), v)
    if W == 0:
        return _weightless(Z, Z.shape[1])
    mean = v @ Z
    Z = _minus(Z, mean)
    root = np.sqrt(v)
    equal = bool(root[0] == root[-1] and (root == root[0]).all())
    if equal:
        covariance = Z.T @ Z
        covariance *= v[0]
    else:
        Z *= root[:, None]
        covariance = Z.T @ Z
    rest = np.zeros(len(mean))
    far = np.flatnonzero(mean * mean > FAR * np.diag(covariance))
    if len(far):
        mean[far], rest[far], F = _about_one(reader.columns(X, index, far), v)
        F *= v[:, None] if equal else root[:, None]
        covariance[:, far] = Z.T @ F
        covariance[far, :] = covariance[:, far].T
        if equal:
            F /= root[:, None]
        covariance[np.ix_(far, far)] = F.T @ F
    return W, mean, rest, covariance


def _sparse_block(X: Any, index: Array | None, v: Array | None, absolute: bool) -> Part | None:
    """Compute the moments of some rows of a CSR block, without making it dense.

    A column that is zero for at least half the weight has a variance of at least half its
    raw second moment, so the raw moment can be centred afterwards without losing digits.
    Only the fuller columns are made dense and centred first.
    """
    S = sparse.csr_array(X if index is None else X[index], dtype=np.float64)
    if absolute:
        S = abs(S)
    m = S.shape[0]
    W, v = _unit_weights(m, v)
    if W == 0:
        return _weightless(S.data, S.shape[1])
    mean = v @ S
    rest = np.zeros_like(mean)
    T = S.multiply(np.sqrt(v)[:, None]).tocsr()
    covariance = (T.T @ T).toarray()
    covariance -= mean[:, None] * mean
    filled = np.bincount(S.indices, np.repeat(v, np.diff(S.indptr)), minlength=S.shape[1])
    full = np.flatnonzero(filled > 0.5)
    if len(full):
        mean[full], rest[full], D = _about_one(S[:, full].toarray(), v)
        D *= np.sqrt(v)[:, None]
        covariance[:, full] = T.T @ D
        covariance[full, :] = covariance[:, full].T
        covariance[np.ix_(full, full)] = D.T @ D
    return W, mean, rest, covariance


def _about_one(F: Array, v: Array) -> tuple[Array, Array, Array]:
    """Centre columns about the row of greatest weight, then about what is left of their means.

    That row lies within sqrt(m) deviations of the mean, so it serves as a first guess. Returned
    are the row, the rest of the mean and the centred columns.
    """
    first = F[v.argmax()].copy()
    F = F - first
    rest = v @ F
    return first, rest, F - rest


def _weightless(values: Array, n_features: int) -> Part | None:
    """Return no moments for rows without weight, or nan where one of them is not finite."""
    if np.isfinite(values).all():
        return None
    d = n_features
    return np.nan, np.full(d, np.nan), np.full(d, np.nan), np.full((d, d), np.nan)


def _unit_weights(m: int, v: Array | None) -> tuple[float, Array]:
    """Return the total weight, and the weights divided by it without overflow."""
    if v is None:
        return float(m), np.full(m, 1.0 / m)
    top = v.max()
    if top == 0:
        return 0.0, v
    v = v / top
    total = v.sum()
    return float(top * total), v / total
