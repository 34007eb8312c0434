r"""Many rows and many sparse columns: planes by conjugate gradients ("iterative").

Plane k is a weighted ridge regression with an intercept (`plane_rows`). The intercept is
eliminated exactly by centring, and what remains,

    (Xc' V Xc + alpha I) w = Xc' V (t - mean t),

is solved without forming Xc or any product of matrices: an iteration takes one product with X and
one with X', for all planes of a group at once. Columns are scaled by a diagonal preconditioner.

No eigenvalue of the system is below alpha, so with the gradient s the error of w is at most
|s| / alpha: iterations stop where that is `tol` times |w|. Without a ridge there is no such bound,
and they stop where the gradient, in the norm of the preconditioner, is `tol` / 100 of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS
from fuzzytwin.core.plane_rows import Group, PlaneRows, empty_plane
from fuzzytwin.core.planes import Planes, plane_classes

# Power of the columns' scatter in the preconditioner: with text-like columns 3/4 takes fewer
# iterations than 1/2 and 1 (python -m benchmarks wide --only preconditioner). Without a ridge it
# is 1, which makes the solution that of least norm with columns scaled to equal size.
POWER = 0.75
MOST_ITERATIONS = 2000
# Without a ridge, the gradient must fall by this much more than the error is to.
CAREFUL = 0.01
# A column whose squared mean is this many times its variance is copied and centred.
FAR = 1e4
# Sums of squares are rounded by so much, relatively.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Progress:
    """How far the iterations came: their number, and the greatest bound of a relative error."""

    iterations: int
    error: float


def crisp_planes(
    rows: PlaneRows,
    C: Array,
    alpha: float,
    *,
    multi_class: str = "ovr",
    tol: float = 1e-6,
    start: Array | None = None,
) -> tuple[Planes, Progress]:
    """Solve for the planes of model M1 by conjugate gradients.

    Parameters
    ----------
    rows : PlaneRows
        Rows and their weights.
    C : ndarray of shape (K,)
        Penalty of the slack of each class's planes.
    alpha : float
        Ridge on w. With zero the solution of least norm is approached, often slowly.
    multi_class : {"ovr", "ovo"}, default="ovr"
        Which planes: see `plane_classes`.
    tol : float, default=1e-6
        Relative error at which to stop.
    start : ndarray of shape (n_planes, d), default=None
        Coefficients to begin with; None: zero.

    Returns
    -------
    planes : Planes
        Not finite where X is not, or where its squares overflow. There is no rank.
    progress : Progress
        An error above `tol` says that the iterations did not converge.
    """
    classes = plane_classes(rows.n_classes, multi_class)
    d = rows.X.shape[1]
    coef, intercept = np.zeros((len(classes), d)), np.zeros(len(classes))
    progress = Progress(0, 0.0)
    for group in rows.groups(multi_class):
        problem = _Problem.of(rows.X, group, C[classes[group.planes, 0]], alpha)
        first = None if start is None else start[group.planes]
        w, b, its = problem.solve(tol, first)
        coef[group.planes], intercept[group.planes] = w, b
        progress = Progress(
            max(progress.iterations, its.iterations), max(progress.error, its.error)
        )
    return Planes(coef, intercept, classes, d if alpha > 0 else None), progress


@dataclass(frozen=True, eq=False)
class _Problem:
    """The regressions of the planes of a group; one column each.

    Two planes of the same weights are mirrored: the second is -1 minus the first. Then, and where
    all planes share their weights, these have a single column.
    """

    rows: _Rows
    V: Array
    T: Array
    ridge: Array
    empty: Array
    intercepts: Array
    mirrored: bool

    @classmethod
    def of(cls, X: Any, group: Group, C: Array, alpha: float) -> _Problem:
        """Set up the regressions; planes without own rows or rivals keep w = 0."""
        n = group.u.shape[1]
        parts = [group.regression(i, C[i], alpha) for i in range(len(C))]
        empty = group.empty()
        intercepts = np.array([empty_plane(group, i) for i in range(len(C))])
        V, T = (np.array([part[i] for part in parts]).T.reshape(n, -1) for i in (0, 1))
        ridge = np.array([part[2] for part in parts])
        mirrored = len(C) == 2 and np.array_equal(V[:, 0], V[:, 1])
        if mirrored:
            V, T, ridge = V[:, :1], T[:, :1], ridge[:1]
        elif len(C) > 1 and (V[:, :1] == V).all():
            V = V[:, :1]
        rows = _Rows.of(X if group.index is None else X[group.index])
        whole = np.ascontiguousarray(V), np.ascontiguousarray(T)
        return cls(rows, *whole, ridge, empty, intercepts, mirrored)

    def solve(self, tol: float, start: Array | None) -> tuple[Array, Array, Progress]:
        """Return w (n_planes, d), b (n_planes,) and the progress."""
        with np.errstate(over="ignore", invalid="ignore"):  # shows in the planes
            return self._solve(tol, start)

    def _solve(self, tol: float, start: Array | None) -> tuple[Array, Array, Progress]:
        rows, V, ridge = self.rows, self.V, self.ridge
        share = V / V.sum(axis=0)
        total, t_mean = V.sum(axis=0), (share * self.T).sum(axis=0)
        mean, squares = rows.transposed(share), rows.squares(V)  # of the rows, for each plane
        if not np.isfinite(squares).all():
            shape = self.T.shape[1], rows.X.shape[1]
            return self._planes(np.full(shape, np.nan), t_mean, Progress(0, 0.0))
        far = np.flatnonzero((mean**2 > FAR * np.abs(squares / total - mean**2)).any(axis=1))
        if len(far):
            rows = rows.centred(far, share.mean(axis=1))
            mean[far], squares[far] = rows.F.T @ share, (rows.F * rows.F).T @ V
        scale = _preconditioner(squares, total * mean**2, ridge)
        del squares

        def fitted(w: Array) -> Array:
            """Compute Xc w; centred twice, as what is left over is multiplied by means of X."""
            f = rows.times(w)
            f -= (share * f).sum(axis=0)
            f -= (share * f).sum(axis=0)
            return f

        def gradient(r: Array, w: Array) -> Array:
            s = rows.transposed(V * r)
            s -= ridge * w
            return s

        r, w = self.T - t_mean, np.zeros((rows.X.shape[1], self.T.shape[1]))
        s = gradient(r, w)
        begin = (s * s * scale).sum(axis=0)
        if start is not None:
            w += start[: w.shape[1]].T
            r -= fitted(w)
            s = gradient(r, w)
        p = scale * s
        g, i, error = (s * p).sum(axis=0), 0, np.zeros_like(begin)
        while i < MOST_ITERATIONS:
            i += 1
            q = fitted(p)
            curvature = (V * q * q).sum(axis=0) + ridge * (p * p).sum(axis=0)
            step = np.divide(g, curvature, out=np.zeros_like(g), where=curvature > 0)
            w += step * p
            q *= step
            r -= q
            s = gradient(r, w)
            z = scale * s
            g_next = (s * z).sum(axis=0)
            error = _error(s, w, ridge, g_next, begin)
            if not (error > tol).any():
                break
            p *= np.divide(g_next, g, out=np.zeros_like(g), where=g > 0)
            p += z
            g = g_next
        mean[rows.far] += rows.center[:, None]
        b = t_mean - (mean * w).sum(axis=0)
        return self._planes(w.T, b, Progress(i, float(error.max(initial=0.0))))

    def _planes(self, w: Array, b: Array, progress: Progress) -> tuple[Array, Array, Progress]:
        if self.mirrored:
            w, b = np.concatenate([w, -w]), np.concatenate([b, -1.0 - b])
        w = np.where(self.empty[:, None], 0.0, w)
        return w, np.where(self.empty, self.intercepts, b), progress


def _preconditioner(squares: Array, of_means: Array, ridge: Array) -> Array:
    """Compute what to multiply gradients by, from sums of squares about zero and of the means.

    A scatter that is rounding alone is taken for that of a constant column, which has no part in
    a plane without a ridge.
    """
    scatter = squares - of_means
    noise = ROUNDING * squares
    scatter = np.where(scatter > noise, scatter, np.where(ridge > 0, noise, 0.0)) + ridge
    return np.divide(
        1.0, scatter ** np.where(ridge > 0, POWER, 1.0), out=np.zeros_like(scatter),
        where=scatter > 0,
    )  # fmt: skip


def _error(s: Array, w: Array, ridge: Array, g: Array, begin: Array) -> Array:
    """Bound the relative error of w: see above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.sqrt((s * s).sum(axis=0) / (w * w).sum(axis=0)) / ridge
        fallen = np.sqrt(g / begin) / CAREFUL
    return np.where(g > 0, np.where(ridge > 0, bound, fallen), 0.0)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to multiply with. Columns far from zero are centred copies: products keep their digits.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    far : ndarray of shape (f,)
        Columns whose squared mean is many times their variance.
    F : ndarray of shape (n, f)
        These columns about `center`.
    center : ndarray of shape (f,)
        Their means.
    """

    X: Any
    far: Array
    F: Array
    center: Array

    @classmethod
    def of(cls, X: Any) -> _Rows:
        """Take rows as they are, sparse ones as float64: products would copy others each time."""
        X = X.astype(np.float64, copy=False) if sparse.issparse(X) else X
        return cls(X, np.empty(0, dtype=int), np.empty((X.shape[0], 0)), np.empty(0))

    def centred(self, far: Array, share: Array) -> _Rows:
        """Centre the columns `far` about their means, with weights that sum to 1."""
        X = self.X[:, far]
        F = X.toarray() if sparse.issparse(X) else np.array(X, dtype=np.float64)
        first = F[0].copy()
        F -= first
        rest = share @ F
        F -= rest
        return _Rows(self.X, far, F, first + rest)

    def times(self, W: Array) -> Array:
        """Compute ``X @ W``; columns far from zero are centred."""
        if not len(self.far):
            return self._times(W)
        near = W.copy()
        near[self.far] = 0.0
        return self._times(near) + self.F @ W[self.far]

    def transposed(self, R: Array) -> Array:
        """Compute ``X.T @ R``; columns far from zero are centred."""
        product = self._transposed(R)
        if len(self.far):
            product[self.far] = self.F.T @ R
        return product

    def squares(self, V: Array) -> Array:
        """Compute ``(X * X).T @ V``."""
        X = self.X
        if sparse.issparse(X):
            square = type(X)((X.data**2, X.indices, X.indptr), shape=X.shape)
            return _Rows.of(square).transposed(V)
        total = np.zeros((X.shape[1], V.shape[1]))
        for here, block in _row_blocks(X):
            total += (block * block).T @ V[here]
        return total

    def _times(self, W: Array) -> Array:
        X = self.X
        if not (sparse.issparse(X) or X.dtype == np.float64):
            return np.concatenate([block @ W for _, block in _row_blocks(X)])
        if W.shape[1] == 1:
            return np.asarray(X @ W[:, 0])[:, None]
        return np.asarray(X @ W)

    def _transposed(self, R: Array) -> Array:
        X = self.X
        if not (sparse.issparse(X) or X.dtype == np.float64):
            parts = [block.T @ R[here] for here, block in _row_blocks(X)]
            return np.asarray(np.sum(parts, axis=0))
        if R.shape[1] == 1:
            return np.asarray(X.T @ R[:, 0])[:, None]
        return np.asarray(X.T @ R)


def _row_blocks(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of dense rows as float64, each with the slice of its rows."""
    step = max(1, BLOCK_NUMBERS // max(X.shape[1], 1))
    for start in range(0, X.shape[0], step):
        here = slice(start, min(start + step, X.shape[0]))
        yield here, np.asarray(X[here], dtype=np.float64)
