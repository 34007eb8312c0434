r"""Solve for planes by conjugate gradients ("iterative"), for many rows and many sparse columns.

Symbols

    Xc          centred rows
    v, V, t     weights of the rows (see `weights`), diag(v), targets
    w, alpha    coefficients, ridge on w
    s           gradient of w

Plane k is a weighted ridge regression with an intercept. Centring eliminates the intercept exactly.
The system

    (Xc' V Xc + alpha I) w = Xc' V (t - mean t)

is solved by preconditioned conjugate gradients (Hestenes and Stiefel, 1952) without forming Xc or
any matrix product: an iteration takes one product with X and one with X'. The preconditioner is
diagonal. Planes are solved one by one, because products with two vectors at once take more than
twice the time of one. The second plane of a pair starts from minus the first, which is its solution
if both have the same weights.

No eigenvalue of the system is below alpha, so the error of w is at most |s| / alpha. Iterations
stop when that is at most `tol` |w|. Without a ridge there is no such bound, and they stop when the
gradient, in the norm of the preconditioner, has fallen to `tol` / 100 of the first. Rounding limits
how small the gradient can get, and iterations would then diverge. So they also stop if the gradient
has not fallen for many iterations or is far above its minimum. The w of the least error is
returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import centre, row_blocks
from fuzzytwin.core.planes import Planes, plane_classes
from fuzzytwin.core.weights import RowWeights

# Power of the columns' scatter in the preconditioner. With text-like columns 3/4 takes fewer
# iterations than 1/2 and 1. Without a ridge it is 1, which gives the solution of least norm with
# columns scaled to equal size.
POWER = 0.75
MAX_ITERATIONS = 2000
# Without a ridge, the gradient must fall to this fraction of `tol`.
NO_RIDGE_FACTOR = 0.01
# A column whose squared mean is this many times its variance is copied and centred.
FAR_MEAN = 1e4
# Relative rounding error of sums of squares.
ROUNDING = 1e-13
# Iterations stop if the error has not fallen for `PATIENCE` of them, or is `DIVERGED` times the
# least.
PATIENCE = 200
DIVERGED = 1e4


def crisp_planes(
    X: Any,
    weights: RowWeights,
    C: Array,
    alpha: float,
    *,
    tol: float = 1e-6,
) -> tuple[Planes, float, int]:
    """Solve for the planes of model M1 by conjugate gradients, to a relative error of `tol`.

    Without a ridge, iterations converge to the solution of least norm, often slowly, and the rank
    is None. Planes are not finite if X is not, or if its squares overflow. Also returned are the
    greatest bound of a relative error (above `tol` if not converged) and the greatest number of
    iterations.
    """
    classes = plane_classes(weights.n_classes)
    coef = np.zeros((len(classes), X.shape[1]))
    intercept = np.zeros(len(classes))
    error = 0.0
    iterations = 0
    for group in weights.plane_groups():
        rows = _RowProducts.of(X if group.index is None else X[group.index])
        first_weight: Array | None = None  # of the first plane of a pair
        for i, plane in enumerate(range(len(classes))[group.planes]):
            constant = group.constant_value(i)
            if constant is not None:
                intercept[plane] = constant
                continue
            v, t, ridge = group.regression(i, C[classes[plane, 0]], alpha)
            if first_weight is not None and np.array_equal(first_weight, v):
                # The same system with targets -1 - t.
                coef[plane] = -coef[plane - 1]
                intercept[plane] = -1.0 - intercept[plane - 1]
                continue
            start = None if first_weight is None or alpha == 0 else -coef[plane - 1]
            with np.errstate(over="ignore", invalid="ignore"):  # such planes are not finite
                w, b, plane_error, plane_iterations = _solve(rows, v, t, ridge, tol, start)
            coef[plane] = w
            intercept[plane] = b
            first_weight = v
            error = max(error, plane_error)
            iterations = max(iterations, plane_iterations)
    rank = X.shape[1] if alpha > 0 else None
    return Planes(coef, intercept, classes, rank, alpha=alpha), error, iterations


def _solve(
    rows: _RowProducts, v: Array, t: Array, ridge: float, tol: float, start: Array | None
) -> tuple[Array, float, float, int]:
    """Return w, b, a bound of the relative error and the number of iterations of one plane."""
    total = v.sum()
    share = v / total
    t_mean = float(share @ t)
    mean = rows.transposed(share)
    squares = rows.squares(v)
    if not np.isfinite(squares).all():
        return np.full(len(mean), np.nan), t_mean, 0.0, 0
    far = np.flatnonzero(mean**2 > FAR_MEAN * np.abs(squares / total - mean**2))
    if len(far):
        rows = rows.centred(far, share)
        mean[far] = share @ rows.F
        squares[far] = v @ (rows.F * rows.F)
    scale = _preconditioner(squares, total * mean**2, ridge)
    del squares

    def fitted(w: Array) -> Array:
        """Compute Xc w, centred twice because its mean would be multiplied by the means of X."""
        f = rows.times(w)
        f -= share @ f
        f -= share @ f
        return f

    def gradient(r: Array, w: Array) -> Array:
        s = rows.transposed(v * r)
        s -= ridge * w
        return s

    r = t - t_mean
    w = np.zeros(len(mean))
    s = gradient(r, w)
    first_g = float(s @ (scale * s))
    if start is not None:
        w += start
        r -= fitted(w)
        s = gradient(r, w)
    p = scale * s
    g = float(s @ p)
    i = 0
    best = w
    error = 0.0 if not g > 0 else np.inf
    best_i = 0
    while i < MAX_ITERATIONS and g > 0:
        i += 1
        q = fitted(p)
        curvature = v @ (q * q) + ridge * (p @ p)
        if not curvature > 0:
            break
        step = g / curvature
        w = w + step * p
        q *= step
        r -= q
        s = gradient(r, w)
        z = scale * s
        g_next = float(s @ z)
        # The bound of the relative error of w (see the module docstring).
        square = (s @ s) / (w @ w) if ridge > 0 else g_next / first_g
        bound = float(np.sqrt(square)) / (ridge or NO_RIDGE_FACTOR) if g_next > 0 else 0.0
        if bound < error or not np.isfinite(bound):
            best = w
            error = bound
            best_i = i
        if not error > tol or i - best_i > PATIENCE or bound > DIVERGED * error:
            break
        p *= g_next / g
        p += z
        g = g_next
    mean[rows.far] += rows.center
    return best, t_mean - float(mean @ best), error, i


def _preconditioner(squares: Array, mean_squares: Array, ridge: float) -> Array:
    """Compute the diagonal of the preconditioner from sums of squares of columns and their means.

    A column whose scatter is only rounding error is constant. Without a ridge it is not used.
    """
    scatter = squares - mean_squares
    noise = ROUNDING * squares
    scatter = np.where(scatter > noise, scatter, noise if ridge > 0 else 0.0)
    scatter = (scatter + ridge) ** (POWER if ridge > 0 else 1.0)
    return np.divide(1.0, scatter, out=np.zeros_like(scatter), where=scatter > 0)


@dataclass(frozen=True, eq=False)
class _RowProducts:
    """Rows to multiply with. Columns ``far`` from zero are copied to ``F``, about ``center``.

    The copies avoid cancellation in products.
    """

    X: Any
    far: Array
    F: Array
    center: Array

    @classmethod
    def of(cls, X: Any) -> _RowProducts:
        """Wrap rows. Sparse rows become float64, because each product would convert them again."""
        X = X.astype(np.float64, copy=False) if sparse.issparse(X) else X
        return cls(X, np.empty(0, dtype=int), np.empty((X.shape[0], 0)), np.empty(0))

    def centred(self, far: Array, share: Array) -> _RowProducts:
        """Centre the columns `far` about their means, with weights that sum to 1."""
        X = self.X[:, far]
        F = X.toarray() if sparse.issparse(X) else np.array(X, dtype=np.float64)
        origin, offset = centre(F, share)
        return _RowProducts(self.X, far, F, origin + offset)

    def blocks(self) -> Iterable[tuple[slice, Any]]:
        """Return all rows as one block, or blocks converted to float64."""
        direct = sparse.issparse(self.X) or self.X.dtype == np.float64
        return [(slice(None), self.X)] if direct else row_blocks(self.X)

    def times(self, w: Array) -> Array:
        """Compute ``X @ w``, with columns far from zero centred."""
        w_near = w
        if len(self.far):
            w_near = w.copy()
            w_near[self.far] = 0.0
        products = [block @ w_near for _, block in self.blocks()]
        f = products[0] if len(products) == 1 else np.concatenate(products)
        return f + self.F @ w[self.far] if len(self.far) else f

    def transposed(self, r: Array) -> Array:
        """Compute ``X.T @ r``, with columns far from zero centred."""
        product: Array = reduce(np.add, (r[rows] @ block for rows, block in self.blocks()))
        product[self.far] = r @ self.F
        return product

    def squares(self, v: Array) -> Array:
        """Compute ``(X * X).T @ v``."""
        X = self.X
        if sparse.issparse(X):
            return np.asarray(type(X)((X.data**2, X.indices, X.indptr), shape=X.shape).T @ v)
        return np.sum([v[rows] @ (block * block) for rows, block in row_blocks(X)], axis=0)
