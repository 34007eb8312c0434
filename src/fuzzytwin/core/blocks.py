"""Read rows in blocks, and compute the moments of each class's rows, block by block."""

from __future__ import annotations

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
# So many blocks make a chunk, or up to twice as many as long as it holds no more than the second
# number of numbers: one thread sums it up, and checks its sums.
STRETCH = 16
CHUNK_NUMBERS = 3 << 20
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
# multiplications.
SMALL_PRODUCT = 10**6
# Such a product is cut into strips of so many columns, so that it may have many rows.
STRIP = 8
# Sums of products of fewer numbers than this in all are added at the end, by one call.
FEW_SUMS = 1 << 16
# The mean of so many rows is what the others are centred about.
FIRST_ROWS = 128


def block_rows(n_features: int, n_classes: int = 1) -> int:
    """Choose how many dense rows to read at once."""
    in_cache = BLOCK_NUMBERS // max(n_features, 1)
    many = min(ROWS_PER_CLASS * n_classes // 8, 4 * in_cache)
    return max(ROWS_PER_CLASS, many, min(ROWS_PER_CLASS * n_classes, in_cache))


def _chunk_rows(n_features: int, n_classes: int) -> int:
    """Choose how many dense rows a thread sums up at a time."""
    least = STRETCH * block_rows(n_features, n_classes)
    return max(least, min(2 * least, CHUNK_NUMBERS // max(n_features, 1)))


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
    rows = _chunk_rows(d, n_classes) if dense else max(ROWS_PER_CLASS * n_classes, 4 * d)
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
    """Yield moments of disjoint sets of the given rows, each with its class."""
    reader = _Reader(X.dtype, X.shape[1], absolute)
    # Rows in memory are only looked at; others are computed as they are read, some at a time.
    size = len(X) if isinstance(X, np.ndarray) else 2 * block_rows(X.shape[1], n_classes)
    for at in _slices(here.start, here.stop, size):
        block = X[at]
        for k, index, v in _members(at, codes, weight, n_classes):
            for part in _class_parts(reader, block, index, v):
                yield k, part


def _class_parts(reader: _Reader, X: Array, index: Array | None, v: Array | None) -> Iterator[Part]:
    """Yield moments of disjoint sets of some rows, all of one class.

    The rows are summed up about the mean of the first few. A mean that is within a few
    deviations of the true one serves as well as the true one: what it is off by is taken out
    of the sums afterwards. Where it turns out to be farther off, the rows are read again, each
    block about its own mean.
    """
    m, d = len(X) if index is None else len(index), X.shape[1]
    size = _part_rows(d)

    def carefully(here: slice) -> Part | None:
        return _dense_block(reader, X, *_cut(here, index, v))

    at, about = 0, None
    while at < m and about is None:
        few = slice(at, min(at + (size if m - at <= size else FIRST_ROWS), m))
        part = carefully(few)
        at = few.stop
        if part is not None:
            about = _about(part) if at - few.start >= FEW_ROWS else None
            yield part
    if about is None or at == m:
        return
    blocks = _slices(at, m, size)
    if v is None or v[at:].max() > 0:
        sums = _Sums(about, size, 1.0 if v is None else float(v[at:].max()))
        for here in blocks:
            chosen, u = _cut(here, index, v)
            sums.add(reader.rows(X, chosen), u)
        part = sums.part()
        if part is not None:
            yield part
            return
    for here in blocks:
        part = carefully(here)
        if part is not None:
            yield part


def _cut(here: slice, index: Array | None, v: Array | None) -> tuple[slice | Array, Array | None]:
    """Return some of the rows that are chosen by `index` (None: all), and their weights."""
    return here if index is None else index[here], None if v is None else v[here]


def _part_rows(n_features: int) -> int:
    """Choose how many rows of a class to multiply at a time."""
    unpacked = SMALL_PRODUCT // (STRIP * n_features)
    return min(max(unpacked, ROWS_PER_CLASS), 2 * ROWS_PER_CLASS)


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


class _Sums:
    """Weighted sums of rows of one class, and of their products, about a given point.

    Threads run side by side only inside calls that release Python's global interpreter lock, and
    each call may have to wait for it afterwards. So calls are few and long: numpy's `dot`, and
    `matmul` of a stack of matrices, release it; `matmul` of two matrices, and scipy's BLAS, do not.
    """

    def __init__(self, about: Array, size: int, top: float) -> None:
        self.about, self.top = about, top
        self.shift = about.any()
        self.ones = np.ones(size)
        self.weight = 0.0
        self.first: list[Array] = []
        self.second: list[Array] = []

    def add(self, Z: Array, v: Array | None) -> None:
        """Add rows, at most `size` and overwritten, with their weights, at most `top`."""
        if self.shift:
            Z = _minus(Z, self.about)
        if v is None:
            root = self.ones[: len(Z)]
            self.weight += len(Z)
        else:
            root = np.sqrt(v / self.top)
            Z *= root[:, None]
            self.weight += float(np.dot(root, root))
        self.first.append(np.dot(Z.T, root))
        self.second.append(_squared(Z))
        if len(self.second) * self.second[0].size > FEW_SUMS:
            self.second = [sum(self.second[1:], self.second[0])]

    def part(self) -> Part | None:
        """Return the moments; None where the point is too far off or the sums are too great."""
        gap = np.sum(self.first, axis=0) / self.weight
        covariance = np.sum(self.second, axis=0)
        covariance /= self.weight
        square = np.diag(covariance)
        near = ((1 + NEAR) * gap * gap <= NEAR * square) & np.isfinite(NEAR * square)
        if not (near.all() and np.isfinite(self.weight)):
            return None
        covariance -= gap[:, None] * gap
        return self.top * self.weight, self.about, gap, covariance


def _squared(Z: Array) -> Array:
    """Compute Z' Z; by strips of columns where BLAS need not pack such products."""
    m, d = Z.shape
    whole = d - d % STRIP
    if not whole or m * STRIP * d > SMALL_PRODUCT or not multiplies_unpacked():
        return np.dot(Z.T, Z)
    product = np.empty((d, d))
    strips = Z[:, :whole].reshape(m, -1, STRIP).transpose(1, 2, 0)
    np.matmul(strips, Z, out=product[:whole].reshape(-1, STRIP, d))
    if whole < d:
        np.matmul(Z[None, :, whole:].transpose(0, 2, 1), Z, out=product[None, whole:])
    return product


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

    def __init__(self, dtype: np.dtype[Any], n_features: int, absolute: bool) -> None:
        self.absolute = absolute
        self.dtype = dtype
        self.buffer = np.empty((0, n_features))
        self.narrow = np.empty((0, n_features), dtype)

    def rows(self, X: Array, chosen: slice | Array) -> Array:
        """Return some rows of a block."""
        m = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        if m > len(self.buffer):
            self.buffer = np.empty((m, X.shape[1]))
        Z = self.buffer[:m]
        if isinstance(chosen, slice):
            Z[...] = X[chosen]
        elif self.dtype == np.float64:
            X.take(chosen, axis=0, out=Z, mode="clip")  # "clip" spares numpy a second buffer
        else:
            if m > len(self.narrow):
                self.narrow = np.empty((m, X.shape[1]), self.dtype)
            Z[...] = X.take(chosen, axis=0, out=self.narrow[:m], mode="clip")
        return np.abs(Z, out=Z) if self.absolute else Z

    def columns(self, X: Array, chosen: slice | Array, columns: Array) -> Array:
        """Return some columns of these rows, as an array of their own."""
        F = X[chosen, columns] if isinstance(chosen, slice) else X[chosen[:, None], columns]
        F = np.asarray(F, np.float64)
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


def _dense_block(reader: _Reader, X: Array, chosen: slice | Array, v: Array | None) -> Part | None:
    """Compute the moments of some rows of a dense block about their own mean."""
    Z = reader.rows(X, chosen)
    W, v = _unit_weights(len(Z), v)
    if W == 0:
        return _weightless(Z, Z.shape[1])
    mean = np.dot(Z.T, v)
    Z = _minus(Z, mean)
    root = np.sqrt(v)
    equal = bool(root[0] == root[-1] and (root == root[0]).all())
    if equal:
        covariance = np.dot(Z.T, Z)
        covariance *= v[0]
    else:
        Z *= root[:, None]
        covariance = np.dot(Z.T, Z)
    rest = np.zeros(len(mean))
    far = np.flatnonzero(mean * mean > FAR * np.diag(covariance))
    if len(far):
        mean[far], rest[far], F = _about_one(reader.columns(X, chosen, far), v)
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
