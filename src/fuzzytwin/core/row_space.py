r"""Fewer rows than columns: planes from the Gram matrix of the rows ("rows").

Every plane is a combination of centred rows, w = Xc' a. With G = Xc Xc' (n x n), weights v and
targets t (`plane_rows`), the plane's condition w = Xc' V (t - f) / alpha becomes

    (G + alpha V^-1) a + b 1 = t,    1'a = 0,

one symmetric system of size n, whatever the number of columns. Factored with R = V^1/2 as
R G R + alpha I = L L', its solution is

    a = R (x_t - b x_1),    L L' x_t = R t,    L L' x_1 = R 1,    b = 1'R x_t / 1'R x_1.

Without a ridge, or where it is lost in rounding, w is the solution of least norm with columns
scaled to equal size, as in `fuzzytwin.core.planes`.

`row_features` gives features Z with Z Z' = G: rows turned into n dimensions or fewer, with all
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
from fuzzytwin.core.plane_rows import (
    Group,
    PlaneRows,
    column_blocks,
    dense_block,
    empty_plane,
    row_products,
)
from fuzzytwin.core.planes import Planes, cutoff, plane_classes

# Rows of a sparse product that are made dense at once: so many numbers.
SPARSE_BLOCK = 1 << 22
# Where a squared mean is this many times the variance, columns are centred before any product.
FAR = 1e3


def crisp_planes(rows: PlaneRows, C: Array, alpha: float, *, multi_class: str = "ovr") -> Planes:
    """Solve for the planes of model M1 in the space of the rows.

    Parameters
    ----------
    rows : PlaneRows
        Rows and their weights.
    C : ndarray of shape (K,)
        Penalty of the slack of each class's planes.
    alpha : float
        Ridge on w; zero is allowed.
    multi_class : {"ovr", "ovo"}, default="ovr"
        Which planes: see `plane_classes`.

    Returns
    -------
    Planes
        Not finite where X is not, or where its squares overflow.
    """
    classes, d = plane_classes(rows.n_classes, multi_class), rows.X.shape[1]
    coef, intercept, rank = np.empty((len(classes), d)), np.empty(len(classes)), d
    for group in rows.groups(multi_class):
        some = range(len(classes))[group.planes]
        gram, mean = centred_gram(rows.X, group.index, group.weight)
        if not np.isfinite(np.trace(gram)):
            coef[group.planes], intercept[group.planes] = np.nan, np.nan
            continue
        system, empty = _System(gram), group.empty()
        a, at_mean, singular = np.zeros((len(some), len(gram))), np.zeros(len(some)), []
        for i, plane in enumerate(some):
            if empty[i]:
                at_mean[i] = empty_plane(group, i)
                continue
            found = system.solve(*group.regression(i, C[classes[plane, 0]], alpha))
            if found is None:
                singular.append(i)
            else:
                a[i], at_mean[i] = found
        w = _centred_products(rows.X, group.index, a, mean, np.trace(gram) / len(gram))
        coef[group.planes], intercept[group.planes] = w, at_mean - w @ mean
        for i in singular:
            v, t, _ = group.regression(i, C[classes[some[i], 0]], alpha)
            coef[some[i]], intercept[some[i]], rank_i = _least_norm(rows.X, group, v, t)
            rank = min(rank, rank_i)
    return Planes(coef, intercept, classes, rank)


class _System:
    """R G R + alpha I, factored once for planes of the same weights and ridge."""

    def __init__(self, gram: Array) -> None:
        self.gram = gram
        self.v: Array | None = None
        self.ridge = -1.0
        self.factor: Array | None = None

    def solve(self, v: Array, t: Array, ridge: float) -> tuple[Array, float] | None:
        """Return a and the value of the plane at the mean; None without enough ridge."""
        if self.v is None or ridge != self.ridge or not np.array_equal(v, self.v):
            self.v, self.ridge, self.factor = v, ridge, self._factored(v, ridge)
        if self.factor is None:
            return None
        R = np.sqrt(v)
        x, _ = lapack.dpotrs(self.factor, np.column_stack([R * t, R]), lower=True)
        b = float((R @ x[:, 0]) / (R @ x[:, 1]))
        return R * (x[:, 0] - b * x[:, 1]), b

    def _factored(self, v: Array, ridge: float) -> Array | None:
        if ridge == 0:
            return None
        R = np.sqrt(v)
        A = self.gram * R
        A *= R[:, None]
        size = np.diag(A) + ridge
        A[np.diag_indices(len(A))] = size
        factor, failed = lapack.dpotrf(A, lower=True, clean=False, overwrite_a=True)
        if failed or not (np.diag(factor) ** 2 > cutoff(len(A)) * size).all():
            return None
        return np.asarray(factor)


def _least_norm(X: Any, group: Group, v: Array, t: Array) -> tuple[Array, float, int]:
    """Solve a plane without a ridge: coef, intercept and rank, columns scaled to equal size.

    With S the sizes of the columns and R = V^1/2, the equations R Xc S^-1 (S w) = R (t - mean)
    have the least-norm solution S w = S^-1 Xc' R (R Xc S^-2 Xc' R)^+ R (t - mean).
    """
    share = v / v.sum()
    gram, mean, variance = scaled_gram(X, group.index, share)
    R = np.sqrt(share)
    A = gram * R
    A *= R[:, None]
    values, vectors = linalg.eigh(A, lower=True, overwrite_a=True, check_finite=False)
    keep = values > cutoff(X.shape[1]) * max(values[-1], 0.0)
    U = vectors[:, keep]
    t_mean = float(share @ t)
    a = R * (U @ ((U.T @ (R * (t - t_mean))) / values[keep]))
    size = np.where(variance > 0, variance, 1.0)
    w = _centred_products(X, group.index, a[None], mean, variance.sum())[0] / size
    w[variance == 0] = 0.0
    return w, t_mean - float(w @ mean), int(keep.sum())


def _centred_products(X: Any, index: Array | None, a: Array, mean: Array, variance: float) -> Array:
    """Compute ``a @ (X[index] - mean)`` of shape (m, d), from a of shape (m, n).

    Where the squared mean is far above the mean squared distance `variance`, rows are centred
    first.
    """
    if sparse.issparse(X) or mean @ mean <= FAR * variance:
        w = row_products(X, index, a)
        w -= np.multiply.outer(a.sum(axis=1), mean)
        far = np.flatnonzero(mean**2 > FAR * variance)
        if len(far):
            block = (X if index is None else X[index])[:, far].toarray() - mean[far]
            w[:, far] = a @ block
        return w
    w = np.empty((len(a), X.shape[1]))
    for columns in column_blocks(a.shape[1], X.shape[1]):
        block = dense_block(X, index, columns)
        block -= mean[columns]
        w[:, columns] = a @ block
    return w


def centred_gram(X: Any, index: Array | None, share: Array) -> tuple[Array, Array]:
    """Compute G = Xc Xc' of some rows about their weighted mean, and that mean.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows; read in blocks of columns, never made dense as a whole.
    index : ndarray of shape (m,) or None
        Which rows; None: all.
    share : ndarray of shape (m,)
        Weights that sum to 1.

    Returns
    -------
    gram : ndarray of shape (m, m)
        In Fortran's order, with the lower triangle alone filled.
    mean : ndarray of shape (d,)
    """
    if sparse.issparse(X):
        gram, mean, _ = _sparse_gram(X, index, share, scaled=False)
        return gram, mean
    gram, mean = np.zeros((len(share), len(share)), order="F"), np.empty(X.shape[1])
    for columns in column_blocks(len(share), X.shape[1]):
        block = dense_block(X, index, columns)
        mean[columns] = share @ block
        block -= mean[columns]
        gram = _add_products(gram, block)
    return gram, mean


def scaled_gram(X: Any, index: Array | None, share: Array) -> tuple[Array, Array, Array]:
    """Compute the centred Gram matrix of columns divided by their deviations.

    Constant columns are left out. Returned are gram, mean and variance, as in `centred_gram`.
    """
    if sparse.issparse(X):
        return _sparse_gram(X, index, share, scaled=True)
    gram = np.zeros((len(share), len(share)), order="F")
    mean, variance = np.empty(X.shape[1]), np.empty(X.shape[1])
    for columns in column_blocks(len(share), X.shape[1]):
        block = dense_block(X, index, columns)
        mean[columns], variance[columns] = _scale(block, share)
        gram = _add_products(gram, block)
    return gram, mean, variance


def _scale(block: Array, share: Array, *, scaled: bool = True) -> tuple[Array, Array]:
    """Centre columns, and divide them by their deviations; constant ones become exactly zero.

    The row of greatest weight is subtracted first, so that no digits are lost far from zero.
    """
    first = block[share.argmax()].copy()
    block -= first
    rest = share @ block
    block -= rest
    constant = ~block.any(axis=0) if len(block) else np.ones(len(rest), dtype=bool)
    variance = share @ (block * block)
    variance[constant] = 0.0
    if scaled:
        block /= np.sqrt(np.where(variance > 0, variance, 1.0))
    return first + rest, variance


def _add_products(gram: Array, block: Array) -> Array:
    """Add ``block @ block.T`` to the lower triangle of a matrix, in place."""
    total: Array = blas.dsyrk(
        1.0, block.T, beta=1.0, c=gram, trans=True, lower=True, overwrite_c=True
    )
    return total


def _sparse_gram(
    X: Any, index: Array | None, share: Array, *, scaled: bool
) -> tuple[Array, Array, Array]:
    """Compute the centred Gram matrix of sparse rows, with columns scaled if asked for.

    A column whose mean is far above its deviation is filled almost everywhere: it is made dense
    and centred. All others are centred afterwards, which costs them few digits.
    """
    S = sparse.csr_array(X if index is None else X[index], dtype=np.float64)
    mean = S.T @ share
    square = sparse.csr_array((S.data**2, S.indices, S.indptr), shape=S.shape)
    variance = np.maximum(square.T @ share - mean**2, 0.0)
    far = np.flatnonzero(mean**2 > FAR * variance)
    m = len(share)
    gram = np.zeros((m, m), order="F")
    for start in range(0, len(far), 256):
        some = far[start : start + 256]
        block = S[:, some].toarray()
        mean[some], variance[some] = _scale(block, share, scaled=scaled)
        gram = _add_products(gram, block)
    kept = np.ones(S.shape[1])
    kept[far] = 0.0
    if scaled:
        kept /= np.sqrt(np.where(variance > 0, variance, 1.0))
    if scaled or len(far):
        S = sparse.csr_array(S @ sparse.diags(kept))
    middle = mean * kept
    along = S @ middle
    step = max(1, SPARSE_BLOCK // max(m, 1))
    for start in range(0, m, step):
        end = min(start + step, m)
        gram[start:end, :end] += (S[start:end] @ S[:end].T).toarray()
    gram -= along[:, None] + (along - middle @ middle)
    return gram, mean, variance


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Rows turned into as few dimensions as they span: Z Z' = Xc Xc'.

    Z is a pivoted Cholesky factor of the Gram matrix. With P the r pivot rows and L their part of
    Z (lower triangular), the directions are the rows of Q = L^-1 Xc_P: orthonormal, Z = Xc Q'.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Features; r is the numerical rank of the centred rows.
    mean : ndarray of shape (d,)
        What was subtracted.
    pivots : ndarray of shape (r,)
        The rows that span all others.
    """

    Z: Array
    mean: Array
    pivots: Array

    @classmethod
    def of(cls, X: Any, *, centred: bool = True) -> RowFeatures:
        """Compute the features of all rows, about their mean or about zero."""
        n = X.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            gram, mean = centred_gram(X, None, np.full(n, 1.0 / n if centred else 0.0))
        if not np.isfinite(np.trace(gram)):
            return cls(np.full((n, 1), np.nan), mean, np.zeros(1, dtype=int))
        top = float(np.diag(gram).max(initial=0.0))
        factor, pivots, rank, _ = lapack.dpstrf(
            gram, tol=cutoff(n) * top, lower=True, overwrite_a=True
        )
        L = np.tril(factor)[:, :rank]
        Z = np.empty((n, rank))
        Z[pivots - 1] = L
        return cls(Z, mean, pivots[:rank] - 1)

    def columns(self, X: Any, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Turn planes in the features into planes in the columns of the same rows X.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d)
            The rows that the features are of.
        coef : ndarray of shape (n_planes, r)
        intercept : ndarray of shape (n_planes,)

        Returns
        -------
        coef : ndarray of shape (n_planes, d)
        intercept : ndarray of shape (n_planes,)
        """
        L = self.Z[self.pivots]
        a = linalg.solve_triangular(L, coef.T, lower=True, trans=1, check_finite=False).T
        w = _centred_products(X, self.pivots, a, self.mean, (self.Z**2).sum() / len(self.Z))
        return w, intercept - w @ self.mean
