r"""Many rows and many sparse columns: planes by conjugate gradients ("iterative").

Plane k is a weighted ridge regression with an intercept (`plane_rows`). The intercept is
eliminated exactly by centring, and what remains,

    (Xc' V Xc + alpha I) w = Xc' V (t - mean t),

is solved without forming Xc or any product of matrices: an iteration takes one product with X and
one with X'. Columns are scaled by a diagonal preconditioner. Planes are solved one after the other
(products with two vectors at once take more than twice the time of one); the second of a pair
begins as the first turned over, which it is where both have the same weights.

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
from fuzzytwin.core.plane_rows import PlaneRows, empty_plane
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
    iterations, error = 0, 0.0
    for group in rows.groups(multi_class):
        X = _Rows.of(rows.X if group.index is None else rows.X[group.index])
        solved: list[_Plane] = []
        for i, plane in enumerate(range(len(classes))[group.planes]):
            if group.empty()[i]:
                intercept[plane] = empty_plane(group, i)
                continue
            problem = _Plane(*group.regression(i, C[classes[plane, 0]], alpha))
            twin = next((other for other in solved if np.array_equal(other.v, problem.v)), None)
            if multi_class == "ovo" and twin is not None:
                # The same system with targets -1 - t.
                coef[plane], intercept[plane] = -coef[plane - 1], -1.0 - intercept[plane - 1]
                continue
            first = None if start is None else start[plane]
            if first is None and multi_class == "ovo" and solved and alpha > 0:
                first = -coef[plane - 1]  # the other plane of the pair is nearly parallel
            with np.errstate(over="ignore", invalid="ignore"):  # shows in the planes
                coef[plane], intercept[plane], took, left = problem.solve(X, tol, first)
            solved.append(problem)
            iterations, error = max(iterations, took), max(error, left)
    rank = d if alpha > 0 else None
    return Planes(coef, intercept, classes, rank), Progress(iterations, error)


@dataclass(frozen=True, eq=False)
class _Plane:
    """The regression of one plane: weights, targets, ridge."""

    v: Array
    t: Array
    ridge: float

    def solve(
        self, rows: _Rows, tol: float, start: Array | None
    ) -> tuple[Array, float, int, float]:
        """Return w, b, the number of iterations and a bound of the relative error."""
        v, ridge = self.v, self.ridge
        total = v.sum()
        share = v / total
        t_mean = float(share @ self.t)
        mean, squares = rows.transposed(share), rows.squares(v)
        if not np.isfinite(squares).all():
            return np.full(len(mean), np.nan), t_mean, 0, 0.0
        far = np.flatnonzero(mean**2 > FAR * np.abs(squares / total - mean**2))
        if len(far):
            rows = rows.centred(far, share)
            mean[far], squares[far] = share @ rows.F, v @ (rows.F * rows.F)
        scale = _preconditioner(squares, total * mean**2, ridge)
        del squares

        def fitted(w: Array) -> Array:
            """Compute Xc w; centred twice, as what is left over is multiplied by means of X."""
            f = rows.times(w)
            f -= share @ f
            f -= share @ f
            return f

        def gradient(r: Array, w: Array) -> Array:
            s = rows.transposed(v * r)
            s -= ridge * w
            return s

        r, w = self.t - t_mean, np.zeros(len(mean))
        s = gradient(r, w)
        begin = float(s @ (scale * s))
        if start is not None:
            w += start
            r -= fitted(w)
            s = gradient(r, w)
        p = scale * s
        g, i, error = float(s @ p), 0, 0.0
        while i < MOST_ITERATIONS and g > 0:
            i += 1
            q = fitted(p)
            step = g / (v @ (q * q) + ridge * (p @ p))
            w += step * p
            q *= step
            r -= q
            s = gradient(r, w)
            z = scale * s
            g_next = float(s @ z)
            error = _error(s, w, ridge, g_next, begin)
            if not error > tol:
                break
            p *= g_next / g
            p += z
            g = g_next
        mean[rows.far] += rows.center
        return w, t_mean - float(mean @ w), i, error


def _preconditioner(squares: Array, of_mean: Array, ridge: float) -> Array:
    """Compute what to multiply gradients by, from sums of squares about zero and of the means.

    A scatter that is rounding alone is taken for that of a constant column, which has no part in
    a plane without a ridge.
    """
    scatter, noise = squares - of_mean, ROUNDING * squares
    scatter = np.where(scatter > noise, scatter, noise if ridge > 0 else 0.0)
    scatter = (scatter + ridge) ** (POWER if ridge > 0 else 1.0)
    return np.divide(1.0, scatter, out=np.zeros_like(scatter), where=scatter > 0)


def _error(s: Array, w: Array, ridge: float, g: float, begin: float) -> float:
    """Bound the relative error of w: see above."""
    if not g > 0:
        return 0.0
    if ridge > 0:
        return float(np.sqrt((s @ s) / (w @ w)) / ridge)
    return float(np.sqrt(g / begin) / CAREFUL)


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

    def times(self, w: Array) -> Array:
        """Compute ``X @ w``; columns far from zero are centred."""
        if not len(self.far):
            return self._times(w)
        near = w.copy()
        near[self.far] = 0.0
        return self._times(near) + self.F @ w[self.far]

    def transposed(self, r: Array) -> Array:
        """Compute ``X.T @ r``; columns far from zero are centred."""
        product = self._transposed(r)
        if len(self.far):
            product[self.far] = r @ self.F
        return product

    def squares(self, v: Array) -> Array:
        """Compute ``(X * X).T @ v``."""
        X = self.X
        if sparse.issparse(X):
            return np.asarray(type(X)((X.data**2, X.indices, X.indptr), shape=X.shape).T @ v)
        return np.sum([v[here] @ (block * block) for here, block in _row_blocks(X)], axis=0)

    def _times(self, w: Array) -> Array:
        X = self.X
        if sparse.issparse(X) or X.dtype == np.float64:
            return np.asarray(X @ w)
        return np.concatenate([block @ w for _, block in _row_blocks(X)])

    def _transposed(self, r: Array) -> Array:
        X = self.X
        if sparse.issparse(X) or X.dtype == np.float64:
            return np.asarray(X.T @ r)
        return np.asarray(np.sum([r[here] @ block for here, block in _row_blocks(X)], axis=0))


def _row_blocks(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of dense rows as float64, each with the slice of its rows."""
    step = max(1, BLOCK_NUMBERS // max(X.shape[1], 1))
    for start in range(0, X.shape[0], step):
        here = slice(start, min(start + step, X.shape[0]))
        yield here, np.asarray(X[here], dtype=np.float64)
