r"""Fewer rows than columns: planes from the Gram matrix of the rows ("gram").

Every plane is a combination of centred rows, w = Xc' a. With G = Xc Xc' (n x n), weights v and
targets t (`weights`), the plane's condition w = Xc' V (t - f) / alpha becomes

    (G + alpha V^-1) a + b 1 = t,    1'a = 0,

one symmetric system of size n, whatever the number of columns. All values of C and alpha, and both
planes of a pair of classes, share G. Columns so large that the ridge or other columns would be lost
in the rounding of G stay columns: with F = [1 X_large] and beta = (b, w_large), G of the others and
A = R G R + alpha I, R = V^1/2,

    a = R A^-1 R (t - F beta),    (F'R A^-1 R F + diag(0, 1, ..., 1)) beta = F'R A^-1 R t.

Without a ridge, or where it is lost in rounding, w is the solution of least norm with columns
scaled to equal size, as in `fuzzytwin.core.planes`.

`RowFeatures` gives features Z with Z Z' = G: rows turned into n dimensions or fewer, with all
distances and scalar products kept. Whatever holds for rows holds for Z: a search or a
leave-one-out works on Z in place of X.
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

# Rows of a sparse product that are made dense at once: numbers.
SPARSE_BLOCK = 1 << 22
# Where a squared mean is this many times the variance, columns are centred before any product.
FAR = 1e3
# Columns whose variance is this many times that of all smaller ones together, or this many times
# the ridge of a row, stay columns.
LARGE = 1e7


def crisp_planes(
    X: Any, weights: RowWeights, C: Array, alpha: float, *, multi_class: str = "ovr",
    tol: float = 0.0,
) -> tuple[Planes, float, int]:  # fmt: skip
    """Solve for the planes of model M1 as `fuzzytwin.core.planes.crisp_planes` does, from rows.

    They are not finite where X is not, or where its squares overflow. Error and number of
    iterations, which `fuzzytwin.core.iterative` has, are zero.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # shows in the planes
        found = GramGrid(X, weights, C[None], np.array([alpha]), multi_class=multi_class)
        coef, intercept, rank = found.planes()
    return Planes(coef[0, 0], intercept[0, 0], found.classes, rank, loss=found.loss), 0.0, 0


class GramGrid:
    """Planes of every alpha and each row of C (n_C, K): solved, each a combination of its rows.

    Combinations take far less memory than planes, of which some are computed at a time. Values of
    planes have the rounding errors of sum_i a_i G_ij: ``loss``; where a ridge is lost, all is.
    """

    def __init__(
        self, X: Any, weights: RowWeights, C: Array, alphas: Array, *,
        isotropic: bool = False, multi_class: str = "ovr",
    ) -> None:  # fmt: skip
        self.X, self.C, self.alphas, self.isotropic = X, C, alphas, isotropic
        self.classes = plane_classes(weights.n_classes, multi_class)
        self.groups = [
            _Solved.of(X, group, C[:, self.classes[group.planes, 0]], alphas)
            for group in weights.plane_groups(multi_class)
        ]
        self.loss = max(found.loss for found in self.groups)

    def planes(
        self, alphas: slice = slice(None), Cs: slice = slice(None)
    ) -> tuple[Array, Array, int]:
        """Compute coef and intercept of the planes of some alphas and C, and the least rank.

        They have the shapes of `fuzzytwin.core.planes.crisp_grid`.
        """
        rank, ridges, C = self.X.shape[1], self.alphas[alphas], self.C[Cs]
        shape = (len(ridges), len(C), len(self.classes))
        coef, intercept = np.empty((*shape, rank)), np.empty(shape)
        for found in self.groups:
            some = range(len(self.classes))[found.group.planes]
            coef[:, :, some], intercept[:, :, some] = found.planes(self.X, alphas, Cs)
            for k, j, i in np.argwhere(found.lost[alphas, Cs]).tolist():
                v, t, _ = found.group.regression(i, C[j, self.classes[some[i], 0]], ridges[k])
                w, b, rank_i = _least_norm(self.X, found.group, v, t, self.isotropic)
                coef[k, j, some[i]], intercept[k, j, some[i]] = w, b
                rank = min(rank, rank_i)
        return coef, intercept, rank


@dataclass(frozen=True, eq=False)
class _Solved:
    """Planes of one group, of every alpha and C: w = Xc' a; beta are b and w of large columns."""

    group: PlaneGroup
    a: Array  # (n_alphas, n_C, n_planes, n_rows)
    beta: Array
    lost: Array  # where there is no ridge, or not enough
    mean: Array
    variance: float
    large: Array
    loss: float

    @classmethod
    def of(cls, X: Any, group: PlaneGroup, C: Array, alphas: Array) -> _Solved:
        """Solve for every alpha and each row of C (n_C, n_planes)."""
        share, loss = group.weight, 1.0
        heaviest = max(float(group.u.max()), float(C.max()) * float(group.q.max()))
        ridge = alphas[alphas > 0].min(initial=np.inf) / (heaviest or 1.0)
        gram, mean, variance, large = split_gram(X, group.index, share, LARGE * ridge / len(share))
        F = np.ones((len(gram), 1 + len(large)))
        F[:, 1:] = _columns(X, group.index, large) - mean[large]
        shape = (len(alphas), *C.shape)
        finite = bool(np.isfinite(np.trace(gram)))
        a, beta = (np.full((*shape, n), 0.0 if finite else np.nan) for n in F.shape)
        lost, v, ridge, factor = np.zeros(shape, dtype=bool), np.empty(0), 0.0, None
        for j, k, i in np.ndindex(len(C), len(alphas), C.shape[1]) if finite else ():
            here, flat, before = (k, j, i), group.flat(i), (v, ridge)
            if flat is not None:
                beta[here][0] = flat
                continue
            v, t, ridge = group.regression(i, C[j, i], alphas[k])
            if ridge != before[1] or not np.array_equal(v, before[0]):
                factor = _factored(gram, np.sqrt(v), ridge)
            solution = None if factor is None else _combination(factor, np.sqrt(v), t, F)
            if solution is None:
                lost[here] = True
                loss = np.inf if alphas[k] > 0 else loss
            else:
                a[here], beta[here] = solution
        if finite:
            loss = max(loss, float(np.abs(a).sum(axis=-1).max() * np.diag(gram).max()))
        return cls(group, a, beta, lost, mean, float(variance.sum()), large, loss)

    def planes(self, X: Any, alphas: slice, Cs: slice) -> tuple[Array, Array]:
        """Compute coef and intercept of the planes of some alphas and C."""
        a, beta = self.a[alphas, Cs], self.beta[alphas, Cs]
        flat = a.reshape(-1, a.shape[-1])
        w = _centred_products(X, self.group.index, flat, self.mean, self.variance)
        w = w.reshape(*a.shape[:-1], -1)
        w[..., self.large] = beta[..., 1:]
        return w, beta[..., 0] - w @ self.mean


def _factored(gram: Array, R: Array, ridge: float) -> Array | None:
    """Factorise A = R G R + ridge; None without enough ridge."""
    A = gram * R
    A *= R[:, None]
    if ridge <= rank_tol(len(A)) * max(float(np.trace(A)), 0.0):
        return None
    A[np.diag_indices(len(A))] += ridge
    factor, failed = lapack.dpotrf(A, lower=True, clean=False, overwrite_a=True)
    return None if failed else np.asarray(factor)


def _combination(factor: Array, R: Array, t: Array, F: Array) -> tuple[Array, Array] | None:
    """Return a and beta; None without enough ridge."""
    RF = R[:, None] * F
    x, _ = lapack.dpotrs(factor, np.column_stack([R * t, RF]), lower=True)
    S, right = RF.T @ x[:, 1:], RF.T @ x[:, 0]
    S[np.diag_indices(len(S))] += np.append(0.0, np.ones(len(S) - 1))
    size = np.diag(S).copy()
    L, beta, failed = lapack.dposv(S, right, lower=True)
    if failed or not (np.diag(L) ** 2 > rank_tol(len(S)) * size).all():
        return None
    return R * (x[:, 0] - x[:, 1:] @ beta), beta


def _least_norm(
    X: Any, group: PlaneGroup, v: Array, t: Array, isotropic: bool
) -> tuple[Array, float, int]:
    """Solve a plane without a ridge: coef, intercept and rank, columns scaled to equal size.

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

    Columns whose squared mean is far above the mean squared distance `variance` are centred first.
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
    """Compute `centred_gram` without columns so large that the others would be lost in it.

    So many, if not too many, are left out that the variance of the others is at most `enough`.
    """
    gram, mean, variance = centred_gram(X, index, share)
    order = np.argsort(-variance)
    sizes = variance[order]
    below = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0)  # that of all smaller ones
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
    """Compute G = Xc Xc' of some rows (None: all), and mean and variance of the columns.

    ``share`` are weights that sum to 1, or all zero: then nothing is subtracted. ``scaled`` columns
    are divided by their deviations; ``skip`` are columns to leave out, whose variance is then zero.
    G is in Fortran's order, with the lower triangle alone filled.
    """
    d = X.shape[1]
    gram, kept = np.zeros((len(share), len(share)), order="F"), np.ones(d)
    if skip is not None:
        kept[skip] = 0.0
    if sparse.issparse(X):
        return _sparse_gram(X, index, share, scaled, gram, kept)
    mean, variance = np.empty(d), np.empty(d)
    for columns, block in column_blocks(X, index):
        mean[columns], variance[columns] = _centre(block, share, scaled=scaled)
        if skip is not None:
            block *= kept[columns]
        gram = _add_products(gram, block)
    return gram, mean, variance * kept


def _centre(block: Array, share: Array, *, scaled: bool) -> tuple[Array, Array]:
    """Centre columns, if any row has weight; constant ones have a variance of exactly zero."""
    mean = sum(centre(block, share)) if share.any() else np.zeros(block.shape[1])
    variance = (share if share.any() else np.full(len(block), 1 / len(block))) @ (block * block)
    if scaled:
        block /= np.sqrt(np.where(variance > 0, variance, 1.0))
    return np.asarray(mean), variance


def _add_products(gram: Array, block: Array) -> Array:
    """Add ``block @ block.T`` to the lower triangle of a matrix, in place."""
    same: Any = {"beta": 1.0, "c": gram, "trans": True, "lower": True, "overwrite_c": True}
    return np.asarray(blas.dsyrk(1.0, block.T, **same))


def _sparse_gram(
    X: Any, index: Array | None, share: Array, scaled: bool, gram: Array, kept: Array
) -> tuple[Array, Array, Array]:
    """Compute `centred_gram` of sparse rows.

    A column whose mean is far above its deviation is filled almost everywhere: it is made dense
    and centred. All others are centred afterwards, which costs them few digits.
    """
    S = sparse.csr_array(X if index is None else X[index], dtype=np.float64)
    m = len(share)
    mean = S.T @ share
    square = sparse.csr_array((S.data**2, S.indices, S.indptr), shape=S.shape)
    weight = share if share.any() else np.full(m, 1 / m)
    variance = np.maximum(square.T @ weight - mean**2, 0.0)
    far = np.flatnonzero((mean**2 > FAR * variance) & (kept > 0))
    for start in range(0, len(far), 256):
        some = far[start : start + 256]
        block = S[:, some].toarray()
        mean[some], variance[some] = _centre(block, share, scaled=scaled)
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
    """Copy some columns of some rows, as float64."""
    block = X[:, columns] if index is None else X[index][:, columns]
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Rows turned into as few dimensions as they span: Z Z' = Xc Xc'.

    Z (n, l + r) holds the large columns (see `split_gram`; all, if they are no more than the rows),
    then a pivoted Cholesky factor of the Gram matrix of the others, of rank r. With P the r pivot
    rows and L their part of that factor, the directions are the rows of Q = L^-1 Xc_P:
    orthonormal, Z = Xc Q'.
    """

    Z: Array
    mean: Array  # what was subtracted
    pivots: Array  # the rows that span all others
    large: Array  # columns that stay columns

    @classmethod
    def of(cls, X: Any, *, centred: bool = True) -> RowFeatures:
        """Compute the features of all rows, about their mean or about zero."""
        n, d = X.shape
        share, none = np.full(n, 1.0 / n if centred else 0.0), np.zeros(0, dtype=np.intp)
        with np.errstate(over="ignore", invalid="ignore"):
            if d <= n:
                Z = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
                mean, variance = _centre(Z, share, scaled=False)
                Z += 0.0 if np.isfinite(variance).all() else np.nan
                large = np.flatnonzero(variance) if variance.any() else np.zeros(1, dtype=np.intp)
                return cls(Z[:, large], mean, none, large)
            gram, mean, _, large = split_gram(X, None, share)
        if not np.isfinite(np.trace(gram)):
            return cls(np.full((n, 1), np.nan), mean, none, large)
        least = rank_tol(n) * float(np.diag(gram).max(initial=0.0))
        factor, pivots, rank, _ = lapack.dpstrf(gram, tol=least, lower=True, overwrite_a=True)
        if not rank and not len(large):  # equal rows: one column of zeros
            large = np.zeros(1, dtype=np.intp)
        Z = np.empty((n, len(large) + rank))
        Z[:, : len(large)] = _columns(X, None, large) - mean[large]
        Z[pivots - 1, len(large) :] = np.tril(factor)[:, :rank]
        return cls(Z, mean, pivots[:rank] - 1, large)

    def columns(self, X: Any, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Turn planes in the features into planes in the columns of the same rows X."""
        large, rest = np.split(coef, [len(self.large)], axis=1)
        Z = self.Z[:, len(self.large) :]
        a = rest  # none, where all columns are large
        if len(self.pivots):
            a = linalg.solve_triangular(Z[self.pivots].T, rest.T, check_finite=False).T
        w = _centred_products(X, self.pivots, a, self.mean, (Z**2).sum() / len(Z))
        w[:, self.large] = large
        return w, intercept - w @ self.mean
