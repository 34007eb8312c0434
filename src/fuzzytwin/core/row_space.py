r"""Solve for planes from the Gram matrix of the rows ("gram"), for fewer rows than columns.

Symbols

    Xc, G       centred rows (n, d), their Gram matrix Xc Xc' (n, n)
    v, V, R     weights (n,) of the rows (see `weights`), diag(v), V^1/2
    t, f        targets (n,), fitted values
    a, b        dual coefficients (n,), intercept

Every plane is a combination of centred rows, w = Xc' a, as in kernel ridge regression (Saunders,
Gammerman and Vovk, 1998). The condition w = Xc' V (t - f) / alpha becomes

    (G + alpha V^-1) a + b 1 = t,    1'a = 0,

one symmetric system of size n, whatever the number of columns. All values of C and alpha, and both
planes of a pair of classes, share G. Columns so large that the ridge or other columns would be lost
in the rounding of G are kept out of it: with F = [1 X_large], beta = (b, w_large), G of the other
columns and A = R G R + alpha I,

    a = R A^-1 R (t - F beta),    (F'R A^-1 R F + diag(0, 1, ..., 1)) beta = F'R A^-1 R t.

Without a ridge, or if it is lost in rounding, w is the solution of least norm with columns scaled
to equal size, as in `fuzzytwin.core.planes`.

`RowFeatures` are features Z with Z Z' = G: the rows rotated into at most n dimensions, which keeps
all distances and scalar products. A search or leave-one-out works on Z instead of X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas, lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import centre, column_blocks
from fuzzytwin.core.planes import Planes, plane_classes, rank_tol
from fuzzytwin.core.weights import PlaneGroup, RowWeights

# Numbers of a sparse product that are made dense at once.
SPARSE_BLOCK = 1 << 22
# If its squared mean is this many times the variance, a column is centred before any product.
FAR = 1e3
# A column is large if its variance is this many times that of all smaller ones together, or this
# many times the ridge of a row.
LARGE = 1e7


def crisp_planes(
    X: Any, weights: RowWeights, C: Array, alpha: float, *, multi_class: str = "ovr",
    tol: float = 0.0,
) -> tuple[Planes, float, int]:  # fmt: skip
    """Solve for the planes of model M1 as `fuzzytwin.core.planes.crisp_planes` does, from rows.

    They are not finite if X is not, or if its squares overflow. The error bound and the number of
    iterations are zero (see `fuzzytwin.core.iterative`).
    """
    with np.errstate(over="ignore", invalid="ignore"):  # planes that are not finite show it
        grid = GramGrid(X, weights, C[None], np.array([alpha]), multi_class=multi_class)
        coef, intercept, rank = grid.planes()
    return Planes(coef[0, 0], intercept[0, 0], grid.classes, rank, loss=grid.loss), 0.0, 0


class GramGrid:
    """Planes of every alpha and each row of C (n_C, K), stored as dual coefficients.

    Dual coefficients take far less memory than planes, which are computed for a part of the grid
    at a time. ``loss`` bounds the rounding errors of sum_i a_i G_ij. It is infinite if a ridge is
    lost in rounding.
    """

    def __init__(
        self, X: Any, weights: RowWeights, C: Array, alphas: Array, *,
        isotropic: bool = False, multi_class: str = "ovr",
    ) -> None:  # fmt: skip
        self.X = X
        self.C = C
        self.alphas = alphas
        self.isotropic = isotropic
        self.classes = plane_classes(weights.n_classes, multi_class)
        self.groups = [
            _SolvedGroup.of(X, group, C[:, self.classes[group.planes, 0]], alphas)
            for group in weights.plane_groups(multi_class)
        ]
        self.loss = max(solved.loss for solved in self.groups)

    def planes(
        self, alphas: slice = slice(None), Cs: slice = slice(None)
    ) -> tuple[Array, Array, int]:
        """Compute coef and intercept of the planes at slices of alphas and C, and the least rank.

        They have the shapes of `fuzzytwin.core.planes.crisp_grid`.
        """
        rank = self.X.shape[1]
        ridges = self.alphas[alphas]
        C = self.C[Cs]
        shape = (len(ridges), len(C), len(self.classes))
        coef = np.empty((*shape, rank))
        intercept = np.empty(shape)
        for solved in self.groups:
            group = solved.group
            planes = range(len(self.classes))[group.planes]
            coef[:, :, planes], intercept[:, :, planes] = solved.planes(self.X, alphas, Cs)
            for k, j, i in np.argwhere(solved.lost[alphas, Cs]).tolist():
                v, t, _ = group.regression(i, C[j, self.classes[planes[i], 0]], ridges[k])
                w, b, rank_i = _least_norm(self.X, group, v, t, self.isotropic)
                coef[k, j, planes[i]] = w
                intercept[k, j, planes[i]] = b
                rank = min(rank, rank_i)
        return coef, intercept, rank


@dataclass(frozen=True, eq=False)
class _SolvedGroup:
    """The dual solution of one group of planes, for every alpha and C."""

    group: PlaneGroup
    a: Array  # (n_alphas, n_C, n_planes, n_rows), with w = Xc' a
    beta: Array  # b, and w of the large columns
    lost: Array  # whether there is no ridge, or it is lost in rounding
    mean: Array
    variance: float
    large: Array
    loss: float

    @classmethod
    def of(cls, X: Any, group: PlaneGroup, C: Array, alphas: Array) -> _SolvedGroup:
        """Solve for every alpha and each row of C (n_C, n_planes)."""
        share = group.weight
        loss = 1.0
        heaviest = max(float(group.u.max()), float(C.max()) * float(group.q.max()))
        ridge = alphas[alphas > 0].min(initial=np.inf) / (heaviest or 1.0)
        gram, mean, variance, large = split_gram(X, group.index, share, LARGE * ridge / len(share))
        F = np.ones((len(gram), 1 + len(large)))
        F[:, 1:] = _columns(X, group.index, large) - mean[large]
        shape = (len(alphas), *C.shape)
        finite = bool(np.isfinite(np.trace(gram)))
        a, beta = (np.full((*shape, n), 0.0 if finite else np.nan) for n in F.shape)
        lost = np.zeros(shape, dtype=bool)
        v = np.empty(0)
        ridge = 0.0
        factor = None
        for j, k, i in np.ndindex(len(C), len(alphas), C.shape[1]) if finite else ():
            flat = group.flat(i)
            if flat is not None:
                beta[k, j, i][0] = flat
                continue
            previous = (v, ridge)
            v, t, ridge = group.regression(i, C[j, i], alphas[k])
            if ridge != previous[1] or not np.array_equal(v, previous[0]):
                factor = _factored(gram, np.sqrt(v), ridge)
            solution = None if factor is None else _dual_solution(factor, np.sqrt(v), t, F)
            if solution is None:
                lost[k, j, i] = True
                loss = np.inf if alphas[k] > 0 else loss
            else:
                a[k, j, i], beta[k, j, i] = solution
        if finite:
            loss = max(loss, float(np.abs(a).sum(axis=-1).max() * np.diag(gram).max()))
        return cls(group, a, beta, lost, mean, float(variance.sum()), large, loss)

    def planes(self, X: Any, alphas: slice, Cs: slice) -> tuple[Array, Array]:
        """Compute coef and intercept of the planes at slices of alphas and C."""
        a = self.a[alphas, Cs]
        beta = self.beta[alphas, Cs]
        flat = a.reshape(-1, a.shape[-1])
        w = _centred_products(X, self.group.index, flat, self.mean, self.variance)
        w = w.reshape(*a.shape[:-1], -1)
        w[..., self.large] = beta[..., 1:]
        return w, beta[..., 0] - w @ self.mean


def _factored(gram: Array, R: Array, ridge: float) -> Array | None:
    """Factorise A = R G R + ridge I. Return None if the ridge is lost in rounding."""
    A = gram * R
    A *= R[:, None]
    if ridge <= rank_tol(len(A)) * max(float(np.trace(A)), 0.0):
        return None
    A[np.diag_indices(len(A))] += ridge
    factor, failed = lapack.dpotrf(A, lower=True, clean=False, overwrite_a=True)
    return None if failed else np.asarray(factor)


def _dual_solution(factor: Array, R: Array, t: Array, F: Array) -> tuple[Array, Array] | None:
    """Return a and beta, or None if the ridge is lost in rounding."""
    RF = R[:, None] * F
    x, _ = lapack.dpotrs(factor, np.column_stack([R * t, RF]), lower=True)
    S = RF.T @ x[:, 1:]
    right = RF.T @ x[:, 0]
    S[np.diag_indices(len(S))] += np.append(0.0, np.ones(len(S) - 1))
    size = np.diag(S).copy()
    L, beta, failed = lapack.dposv(S, right, lower=True)
    if failed or not (np.diag(L) ** 2 > rank_tol(len(S)) * size).all():
        return None
    return R * (x[:, 0] - x[:, 1:] @ beta), beta


def _least_norm(
    X: Any, group: PlaneGroup, v: Array, t: Array, isotropic: bool
) -> tuple[Array, float, int]:
    """Solve for a plane without a ridge: coef and intercept of least norm, and rank.

    With S the sizes of the columns and R = V^1/2, the equations R Xc S^-1 (S w) = R (t - mean)
    have the least-norm solution S w = S^-1 Xc' R (R Xc S^-2 Xc' R)^+ R (t - mean).
    """
    share = v / v.sum()
    gram, mean, variance = centred_gram(X, group.index, share, scaled=not isotropic)
    R = np.sqrt(share)
    A = gram * R
    A *= R[:, None]
    values, vectors = linalg.eigh(A, lower=True, overwrite_a=True, check_finite=False)
    keep = values > rank_tol(X.shape[1]) * max(values[-1], 0.0)
    U = vectors[:, keep]
    t_mean = float(share @ t)
    a = R * (U @ ((U.T @ (R * (t - t_mean))) / values[keep]))
    size = np.ones_like(variance) if isotropic else np.where(variance > 0, variance, 1.0)
    w = _centred_products(X, group.index, a[None], mean, variance.sum())[0] / size
    w[variance == 0] = 0.0
    return w, t_mean - float(w @ mean), int(keep.sum())


def _centred_products(X: Any, index: Array | None, a: Array, mean: Array, variance: float) -> Array:
    """Compute ``a @ (X[index] - mean)`` of shape (m, d), from a of shape (m, n).

    Columns whose squared mean is far above the total variance are centred first.
    """
    if sparse.issparse(X):
        w = np.ascontiguousarray(((X if index is None else X[index]).T @ a.T).T)
    elif X.dtype == np.float64 and index is None and mean @ mean <= FAR * variance:
        w = np.asarray(a @ X)
    else:
        w = np.empty((len(a), X.shape[1]))
        for columns, block in column_blocks(X, index):
            block -= mean[columns]
            w[:, columns] = a @ block
        return w
    w -= np.multiply.outer(a.sum(axis=1), mean)
    far = np.flatnonzero(mean**2 > FAR * variance)
    if len(far):
        w[:, far] = a @ (_columns(X, index, far) - mean[far])
    return w


def split_gram(
    X: Any, index: Array | None, share: Array, enough: float = 0.0
) -> tuple[Array, Array, Array, Array]:
    """Compute `centred_gram` without columns so large that the others would be lost in rounding.

    More columns are excluded, if not too many, until the variance of the others is at most
    `enough`. Also returned are the excluded columns.
    """
    gram, mean, variance = centred_gram(X, index, share)
    order = np.argsort(-variance)
    sizes = variance[order]
    below = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0)  # variance of all smaller columns
    most = len(share) if len(sizes) <= len(share) else len(share) // 2
    gaps = np.flatnonzero(((sizes > LARGE * below) & (below > 0))[:most])
    count = gaps[-1] + 1 if len(gaps) else 0
    if sizes.sum() > enough and (below[:most] <= enough).any():
        count = max(count, int(np.argmax(below[:most] <= enough)) + 1)
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
    far = np.flatnonzero((mean**2 > FAR * variance) & (kept > 0))
    for start in range(0, len(far), 256):
        columns = far[start : start + 256]
        block = S[:, columns].toarray()
        mean[columns], variance[columns] = _centre(block, share, scaled=scaled)
        gram = _add_products(gram, block)
    variance *= kept
    kept[far] = 0.0
    if scaled:
        kept /= np.sqrt(np.where(variance > 0, variance, 1.0))
    if (kept != 1).any():
        S = sparse.csr_array(S @ sparse.diags(kept))
    middle = mean * kept
    along = S @ middle
    step = max(1, SPARSE_BLOCK // max(m, 1))
    for start in range(0, m, step):
        end = min(start + step, m)
        gram[start:end, :end] += (S[start:end] @ S[:end].T).toarray()
    gram -= along[:, None] + (along - middle @ middle)
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
    def of(cls, X: Any, *, centred: bool = True) -> RowFeatures:
        """Compute the features of all rows, about their mean or about zero."""
        n, d = X.shape
        share = np.full(n, 1.0 / n if centred else 0.0)
        no_pivots = np.zeros(0, dtype=np.intp)
        with np.errstate(over="ignore", invalid="ignore"):
            if d <= n:
                Z = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
                mean, variance = _centre(Z, share, scaled=False)
                Z += 0.0 if np.isfinite(variance).all() else np.nan
                large = np.flatnonzero(variance) if variance.any() else np.zeros(1, dtype=np.intp)
                return cls(Z[:, large], mean, no_pivots, large)
            gram, mean, _, large = split_gram(X, None, share)
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
        w = _centred_products(X, self.pivots, a, self.mean, (Z**2).sum() / len(Z))
        w[:, self.large] = large_coef
        return w, intercept - w @ self.mean
