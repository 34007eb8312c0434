r"""Solve for planes from the Gram matrix of the rows ("gram"), for fewer rows than columns.

Symbols

    Xc, G       centred rows (n, d), their Gram matrix Xc Xc' (n, n)
    Z           row features (n, r), with Z Z' = G
    v, t, f     weights (n,) of the rows (see `weights`), targets, fitted values

Every plane is a combination of centred rows, w = Xc' a, as in kernel ridge regression (Saunders,
Gammerman and Vovk, 1998). `RowFeatures` are the rows rotated into at most n dimensions, which keeps
all distances and scalar products, so that a weighted ridge regression of t on Z, a system of size
r <= n, gives the planes, whatever the number of columns. A search or leave-one-out works on Z
instead of X, too. Columns so large that the ridge or other columns would be lost in the rounding of
G are kept out of it, as columns of Z.

Without a ridge, or if it is lost in rounding, w is the solution of least norm with columns scaled
to equal size, as in `fuzzytwin.core.planes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas, lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import centre, column_blocks
from fuzzytwin.core.linalg import rank_tol
from fuzzytwin.core.planes import Planes, plane_classes
from fuzzytwin.core.weights import PlaneGroup, RowWeights

# Numbers of a sparse product that are made dense at once.
SPARSE_BLOCK = 1 << 22
# If its squared mean is this many times the variance, a column is centred before any product.
FAR_COLUMN = 1e3
# A column is large if its variance is this many times that of all smaller ones together, or this
# many times the ridge of a row.
LARGE = 1e7


def crisp_planes(
    X: Any,
    weights: RowWeights,
    C: Array,
    alpha: float,
    *,
    tol: float = 0.0,
) -> tuple[Planes, float, int]:
    """Solve for the planes of model M1 as `fuzzytwin.core.planes.crisp_planes` does, from rows.

    They are not finite if X is not, or if its squares overflow. The error bound and the number of
    iterations are zero (see `fuzzytwin.core.iterative`).
    """
    classes = plane_classes(weights.n_classes)
    coef = np.empty((len(classes), X.shape[1]))
    intercept = np.empty(len(classes))
    rank = X.shape[1]
    loss = 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # planes that are not finite show it
        for group in weights.plane_groups():
            group_C = C[classes[group.planes, 0]]
            w, b, group_rank, group_loss = _solve_group(X, group, group_C, alpha)
            coef[group.planes] = w
            intercept[group.planes] = b
            rank = min(rank, group_rank)
            loss = max(loss, group_loss)
    return Planes(coef, intercept, classes, rank, loss=loss, alpha=alpha), 0.0, 0


def _solve_group(
    X: Any, group: PlaneGroup, C: Array, alpha: float
) -> tuple[Array, Array, int, float]:
    """Solve for the planes that use the same rows: w, b, the least rank, and the loss.

    The loss bounds the factor on rounding errors of f = sum_j a_j G_ij. It is infinite if the ridge
    is lost in rounding.
    """
    rows = X if group.index is None else X[group.index]
    heaviest = max(float(group.u.max()), float(C.max()) * float(group.q.max())) or 1.0
    features = RowFeatures.of(rows, share=group.weight, ridge=alpha / heaviest)
    Z = features.Z
    rank = X.shape[1]
    loss = 1.0
    w = np.zeros((len(C), Z.shape[1]))
    b = np.zeros(len(C))
    least_norm: dict[int, tuple[Array, float, int]] = {}
    if not np.isfinite(Z).all():
        return np.full((len(C), rank), np.nan), b, rank, loss
    rotated_squares = np.square(Z[:, len(features.large) :]).sum(axis=1)
    system = None
    for i in range(len(C)):
        constant = group.constant_value(i)
        if constant is not None:
            b[i] = constant
            continue
        v, t, ridge = group.regression(i, C[i], alpha)
        if system is None or ridge != system.ridge or not np.array_equal(v, system.v):
            system = _RowSystem.of(Z, v, ridge, float(v @ rotated_squares))
        if system.factor is None:
            least_norm[i] = _least_norm(X, group, v, t)
            rank = min(rank, least_norm[i][2])
            loss = np.inf if alpha > 0 else loss
            continue
        w[i], b[i] = system.solve(t)
        a = v * (t - Z @ w[i] - b[i]) / ridge
        loss = max(loss, float(np.abs(a).sum() * rotated_squares.max(initial=0.0)))
    coef, intercept = features.columns(rows, w, b)
    for i, (plane, constant, _) in least_norm.items():
        coef[i] = plane
        intercept[i] = constant
    return coef, intercept, rank, loss


@dataclass(frozen=True, eq=False)
class _RowSystem:
    """The factorised system of a weighted ridge regression on features Z."""

    v: Array
    ridge: float
    center: Array
    A: Array  # centred features times the roots of the weights
    factor: Array | None  # None if the ridge is lost in rounding

    @classmethod
    def of(cls, Z: Array, v: Array, ridge: float, trace: float) -> _RowSystem:
        """Factorise the system. `trace` is that of the weighted Gram matrix."""
        center = (v / v.sum()) @ Z
        A = np.sqrt(v)[:, None] * (Z - center)
        if ridge <= rank_tol(len(Z)) * trace:
            return cls(v, ridge, center, A, None)
        S = A.T @ A
        S[np.diag_indices(len(S))] += ridge
        factor, failed = lapack.dpotrf(S, lower=True, overwrite_a=True)
        return cls(v, ridge, center, A, None if failed else factor)

    def solve(self, t: Array) -> tuple[Array, float]:
        """Return w and b for targets t."""
        t_mean = float(self.v @ t / self.v.sum())
        right = self.A.T @ (np.sqrt(self.v) * (t - t_mean))
        w, _ = lapack.dpotrs(self.factor, right, lower=True)
        return w, t_mean - float(self.center @ w)


def _least_norm(X: Any, group: PlaneGroup, v: Array, t: Array) -> tuple[Array, float, int]:
    """Solve for a plane without a ridge: coef and intercept of least norm, and rank.

    With S the sizes of the columns and R = V^1/2, the equations R Xc S^-1 (S w) = R (t - mean)
    have the least-norm solution S w = S^-1 Xc' R (R Xc S^-2 Xc' R)^+ R (t - mean).
    """
    share = v / v.sum()
    gram, mean, variance = centred_gram(X, group.index, share, scaled=True)
    R = np.sqrt(share)
    A = gram * R
    A *= R[:, None]
    values, vectors = linalg.eigh(A, lower=True, overwrite_a=True, check_finite=False)
    keep = values > rank_tol(X.shape[1]) * max(values[-1], 0.0)
    U = vectors[:, keep]
    t_mean = float(share @ t)
    a = R * (U @ ((U.T @ (R * (t - t_mean))) / values[keep]))
    size = np.where(variance > 0, variance, 1.0)
    w = _centred_products(X, group.index, a[None], mean, variance.sum())[0] / size
    w[variance == 0] = 0.0
    return w, t_mean - float(w @ mean), int(keep.sum())


def _centred_products(X: Any, index: Array | None, a: Array, mean: Array, variance: float) -> Array:
    """Compute ``a @ (X[index] - mean)`` of shape (m, d), from a of shape (m, n).

    Columns whose squared mean is far above the total variance are centred first.
    """
    if sparse.issparse(X):
        w = np.ascontiguousarray(((X if index is None else X[index]).T @ a.T).T)
    elif X.dtype == np.float64 and index is None and mean @ mean <= FAR_COLUMN * variance:
        w = np.asarray(a @ X)
    else:
        w = np.empty((len(a), X.shape[1]))
        for columns, block in column_blocks(X, index):
            block -= mean[columns]
            w[:, columns] = a @ block
        return w
    w -= np.multiply.outer(a.sum(axis=1), mean)
    far = np.flatnonzero(mean**2 > FAR_COLUMN * variance)
    if len(far):
        w[:, far] = a @ (_columns(X, index, far) - mean[far])
    return w


def split_gram(
    X: Any, index: Array | None, share: Array, max_variance: float = 0.0
) -> tuple[Array, Array, Array, Array]:
    """Compute `centred_gram` without columns so large that the others would be lost in rounding.

    Further columns are excluded, unless they are too many, until the variance of the others is at
    most `max_variance`. Also returned are the excluded columns.
    """
    gram, mean, variance = centred_gram(X, index, share)
    order = np.argsort(-variance)
    sizes = variance[order]
    smaller_variance = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0)
    max_count = len(share) if len(sizes) <= len(share) else len(share) // 2
    gaps = np.flatnonzero(((sizes > LARGE * smaller_variance) & (smaller_variance > 0))[:max_count])
    count = gaps[-1] + 1 if len(gaps) else 0
    if sizes.sum() > max_variance and (smaller_variance[:max_count] <= max_variance).any():
        count = max(count, int(np.argmax(smaller_variance[:max_count] <= max_variance)) + 1)
    if not count or not np.isfinite(np.trace(gram)):
        return gram, mean, variance, np.empty(0, dtype=np.intp)
    large = np.sort(order[:count])
    gram, _, variance = centred_gram(X, index, share, skip=large)
    return gram, mean, variance, large


def centred_gram(
    X: Any, index: Array | None, share: Array, *, scaled: bool = False, skip: Array | None = None
) -> tuple[Array, Array, Array]:
    """Compute G = Xc Xc' of rows `index` (None: all), and mean and variance of the columns.

    ``share`` are weights that sum to 1, or all zero, and then nothing is subtracted. ``scaled``
    columns are divided by their standard deviations. ``skip`` are columns to exclude, whose
    variance is returned as zero. G is in Fortran order, with only the lower triangle filled.
    """
    d = X.shape[1]
    gram = np.zeros((len(share), len(share)), order="F")
    kept = np.ones(d)
    if skip is not None:
        kept[skip] = 0.0
    if sparse.issparse(X):
        return _sparse_gram(X, index, share, scaled, gram, kept)
    mean = np.empty(d)
    variance = np.empty(d)
    for columns, block in column_blocks(X, index):
        mean[columns], variance[columns] = _centre(block, share, scaled=scaled)
        if skip is not None:
            block *= kept[columns]
        gram = _add_products(gram, block)
    return gram, mean, variance * kept


def _centre(block: Array, share: Array, *, scaled: bool) -> tuple[Array, Array]:
    """Centre columns in place, if any row has weight, and return their mean and variance.

    The variance of a constant column is exactly zero.
    """
    mean = sum(centre(block, share)) if share.any() else np.zeros(block.shape[1])
    variance = (share if share.any() else np.full(len(block), 1 / len(block))) @ (block * block)
    if scaled:
        block /= np.sqrt(np.where(variance > 0, variance, 1.0))
    return np.asarray(mean), variance


def _add_products(gram: Array, block: Array) -> Array:
    """Add ``block @ block.T`` to the lower triangle of a matrix, in place."""
    options: Any = {"beta": 1.0, "c": gram, "trans": True, "lower": True, "overwrite_c": True}
    return np.asarray(blas.dsyrk(1.0, block.T, **options))


def _sparse_gram(
    X: Any, index: Array | None, share: Array, scaled: bool, gram: Array, kept: Array
) -> tuple[Array, Array, Array]:
    """Compute `centred_gram` of sparse rows.

    A column whose mean is far above its standard deviation has few zeros: it is made dense and
    centred. All others are centred after the product, which loses few digits.
    """
    S = sparse.csr_array(X if index is None else X[index], dtype=np.float64)
    m = len(share)
    mean = S.T @ share
    square = sparse.csr_array((S.data**2, S.indices, S.indptr), shape=S.shape)
    weight = share if share.any() else np.full(m, 1 / m)
    variance = np.maximum(square.T @ weight - mean**2, 0.0)
    far_columns = np.flatnonzero((mean**2 > FAR_COLUMN * variance) & (kept > 0))
    for start in range(0, len(far_columns), 256):
        columns = far_columns[start : start + 256]
        block = S[:, columns].toarray()
        mean[columns], variance[columns] = _centre(block, share, scaled=scaled)
        gram = _add_products(gram, block)
    variance *= kept
    kept[far_columns] = 0.0
    if scaled:
        kept /= np.sqrt(np.where(variance > 0, variance, 1.0))
    if (kept != 1).any():
        S = sparse.csr_array(S @ sparse.diags(kept))
    scaled_mean = mean * kept
    mean_products = S @ scaled_mean
    step = max(1, SPARSE_BLOCK // max(m, 1))
    for start in range(0, m, step):
        end = min(start + step, m)
        gram[start:end, :end] += (S[start:end] @ S[:end].T).toarray()
    gram -= mean_products[:, None] + (mean_products - scaled_mean @ scaled_mean)
    return gram, mean, variance


def _columns(X: Any, index: Array | None, columns: Array) -> Array:
    """Copy columns of rows `index` (None: all) as float64."""
    block = X[:, columns] if index is None else X[index][:, columns]
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Rows rotated into as few dimensions as they span: Z Z' = Xc Xc'.

    Z (n, l + r) holds the large columns (see `split_gram`, or all columns if there are no more than
    rows), then a pivoted Cholesky factor of the Gram matrix of the others, of rank r. With P the r
    pivot rows and L their part of that factor, the directions are the rows of Q = L^-1 Xc_P, which
    are orthonormal, and Z = Xc Q'.
    """

    Z: Array
    mean: Array  # subtracted from the rows
    pivots: Array  # rows that span all others
    large: Array  # columns of X that are columns of Z

    @classmethod
    def of(
        cls, X: Any, *, centred: bool = True, share: Array | None = None, ridge: float = 0.0
    ) -> RowFeatures:
        """Compute the features of all rows, about their mean or about zero.

        ``share`` are weights of the mean that sum to 1 (None: equal ones). ``ridge`` is that of a
        row of unit weight: columns so large that it would be lost in rounding become features.
        """
        n, d = X.shape
        if share is None:
            share = np.full(n, 1.0 / n if centred else 0.0)
        no_pivots = np.zeros(0, dtype=np.intp)
        with np.errstate(over="ignore", invalid="ignore"):
            if d <= n:
                Z = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
                mean, variance = _centre(Z, share, scaled=False)
                Z += 0.0 if np.isfinite(variance).all() else np.nan
                large = np.flatnonzero(variance) if variance.any() else np.zeros(1, dtype=np.intp)
                return cls(Z[:, large], mean, no_pivots, large)
            gram, mean, _, large = split_gram(X, None, share, LARGE * ridge / n)
        if not np.isfinite(np.trace(gram)):
            return cls(np.full((n, 1), np.nan), mean, no_pivots, large)
        least = rank_tol(n) * float(np.diag(gram).max(initial=0.0))
        factor, pivots, rank, _ = lapack.dpstrf(gram, tol=least, lower=True, overwrite_a=True)
        if not rank and not len(large):  # equal rows: one column of zeros
            large = np.zeros(1, dtype=np.intp)
        Z = np.empty((n, len(large) + rank))
        Z[:, : len(large)] = _columns(X, None, large) - mean[large]
        Z[pivots - 1, len(large) :] = np.tril(factor)[:, :rank]
        return cls(Z, mean, pivots[:rank] - 1, large)

    def columns(self, X: Any, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Turn planes in the features Z into planes in the columns of the same rows X."""
        large_coef, rotated_coef = np.split(coef, [len(self.large)], axis=1)
        Z = self.Z[:, len(self.large) :]
        a = rotated_coef  # empty if all columns are large
        if len(self.pivots):
            a = linalg.solve_triangular(Z[self.pivots].T, rotated_coef.T, check_finite=False).T
        pivots: Array | None = self.pivots
        if 2 * len(self.pivots) > len(Z):  # products with all rows copy none of them
            all_rows = np.zeros((len(a), len(Z)))
            all_rows[:, self.pivots] = a
            a = all_rows
            pivots = None
        w = _centred_products(X, pivots, a, self.mean, (Z**2).sum() / len(Z))
        w[:, self.large] = large_coef
        return w, intercept - w @ self.mean
