r"""Many rows and many sparse columns: planes by conjugate gradients ("iterative").

Plane k is a weighted ridge regression with an intercept (`weights`). The intercept is
eliminated exactly by centring, and what remains,

    (Xc' V Xc + alpha I) w = Xc' V (t - mean t),

is solved without forming Xc or any product of matrices: an iteration takes one product with X and
one with X'. Columns are scaled by a diagonal preconditioner. Planes are solved one after the other
(products with two vectors at once take more than twice the time of one); the second of a pair
begins as the first turned over, which it is where both have the same weights.

No eigenvalue of the system is below alpha, so with the gradient s the error of w is at most
|s| / alpha: iterations stop where that is `tol` times |w|. Without a ridge there is no such bound,
and they stop where the gradient, in the norm of the preconditioner, is `tol` / 100 of the first.
Rounding sets a floor to the gradient, below which iterations would diverge: they stop where it has
not fallen for some time, or has grown far above its least, and w of the least error is returned.
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

# Power of the columns' scatter in the preconditioner: with text-like columns 3/4 takes fewer
# iterations than 1/2 and 1 (python -m benchmarks wide --only preconditioner). Without a ridge it
# is 1, which makes the solution that of least norm with columns scaled to equal size.
POWER = 0.75
MOST_ITERATIONS = 2000
# Without a ridge, the gradient must fall by this much more than the error is to.
CAREFUL = 0.01
# A column whose squared mean is this many times its variance is copied and centred.
FAR = 1e4
# Sums of squares are rounded by this, relatively.
ROUNDING = 1e-13
# Iterations stop where the error has not fallen for this many, or is this many times the least.
PATIENCE = 200
DIVERGED = 1e4


def crisp_planes(
    X: Any, weights: RowWeights, C: Array, alpha: float, *, multi_class: str = "ovr",
    tol: float = 1e-6,
) -> tuple[Planes, float, int]:  # fmt: skip
    """Solve for the planes of model M1 by conjugate gradients, to a relative error of `tol`.

    Without a ridge the solution of least norm is approached, often slowly. Planes are not finite
    where X is not, or where its squares overflow, and have no rank. Also returned are the greatest
    bound of a relative error (above `tol`: not converged) and number of iterations.
    """
    classes = plane_classes(weights.n_classes, multi_class)
    coef, intercept = np.zeros((len(classes), X.shape[1])), np.zeros(len(classes))
    error, iterations, pairs = 0.0, 0, multi_class == "ovo"
    for group in weights.plane_groups(multi_class):
        rows = _Rows.of(X if group.index is None else X[group.index])
        before: Array | None = None  # weights of the other plane of a pair
        for i, plane in enumerate(range(len(classes))[group.planes]):
            flat = group.flat(i)
            if flat is not None:
                intercept[plane] = flat
                continue
            v, t, ridge = group.regression(i, C[classes[plane, 0]], alpha)
            if before is not None and np.array_equal(before, v):
                # The same system with targets -1 - t.
                coef[plane], intercept[plane] = -coef[plane - 1], -1.0 - intercept[plane - 1]
                continue
            nearly = None if before is None or alpha == 0 else -coef[plane - 1]
            with np.errstate(over="ignore", invalid="ignore"):  # shows in the planes
                coef[plane], intercept[plane], left, took = _solve(rows, v, t, ridge, tol, nearly)
            before = v if pairs else None
            error, iterations = max(error, left), max(iterations, took)
    rank = X.shape[1] if alpha > 0 else None
    return Planes(coef, intercept, classes, rank), error, iterations


def _solve(
    rows: _Rows, v: Array, t: Array, ridge: float, tol: float, start: Array | None
) -> tuple[Array, float, float, int]:
    """Return w, b, a bound of the relative error and the number of iterations of one plane."""
    total = v.sum()
    share = v / total
    t_mean = float(share @ t)
    mean, squares = rows.transposed(share), rows.squares(v)
    if not np.isfinite(squares).all():
        return np.full(len(mean), np.nan), t_mean, 0.0, 0
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

    r, w = t - t_mean, np.zeros(len(mean))
    s = gradient(r, w)
    begin = float(s @ (scale * s))
    if start is not None:
        w += start
        r -= fitted(w)
        s = gradient(r, w)
    p = scale * s
    g, i = float(s @ p), 0
    best, error, at = w, 0.0 if not g > 0 else np.inf, 0
    while i < MOST_ITERATIONS and g > 0:
        i += 1
        q = fitted(p)
        curve = v @ (q * q) + ridge * (p @ p)
        if not curve > 0:
            break
        step = g / curve
        w = w + step * p
        q *= step
        r -= q
        s = gradient(r, w)
        z = scale * s
        g_next = float(s @ z)
        # The relative error of w, bounded as said above.
        square = (s @ s) / (w @ w) if ridge > 0 else g_next / begin
        now = float(np.sqrt(square)) / (ridge or CAREFUL) if g_next > 0 else 0.0
        if now < error or not np.isfinite(now):
            best, error, at = w, now, i
        if not error > tol or i - at > PATIENCE or now > DIVERGED * error:
            break
        p *= g_next / g
        p += z
        g = g_next
    mean[rows.far] += rows.center
    return best, t_mean - float(mean @ best), error, i


def _preconditioner(squares: Array, of_mean: Array, ridge: float) -> Array:
    """Compute what to multiply gradients by, from sums of squares about zero and of the means.

    A scatter that is rounding alone is that of a constant column: no part without a ridge.
    """
    scatter, noise = squares - of_mean, ROUNDING * squares
    scatter = np.where(scatter > noise, scatter, noise if ridge > 0 else 0.0)
    scatter = (scatter + ridge) ** (POWER if ridge > 0 else 1.0)
    return np.divide(1.0, scatter, out=np.zeros_like(scatter), where=scatter > 0)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to multiply with; columns ``far`` from zero as copies ``F`` about ``center``.

    So products keep their digits.
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
        first, rest = centre(F, share)
        return _Rows(self.X, far, F, first + rest)

    def blocks(self) -> Iterable[tuple[slice, Any]]:
        """Return all rows at once, or copies in float64, made block by block."""
        direct = sparse.issparse(self.X) or self.X.dtype == np.float64
        return [(slice(None), self.X)] if direct else row_blocks(self.X)

    def times(self, w: Array) -> Array:
        """Compute ``X @ w``; columns far from zero are centred."""
        near = w
        if len(self.far):
            near = w.copy()
            near[self.far] = 0.0
        products = [block @ near for _, block in self.blocks()]
        f = products[0] if len(products) == 1 else np.concatenate(products)
        return f + self.F @ w[self.far] if len(self.far) else f

    def transposed(self, r: Array) -> Array:
        """Compute ``X.T @ r``; columns far from zero are centred."""
        product: Array = reduce(np.add, (r[here] @ block for here, block in self.blocks()))
        product[self.far] = r @ self.F
        return product

    def squares(self, v: Array) -> Array:
        """Compute ``(X * X).T @ v``."""
        X = self.X
        if sparse.issparse(X):
            return np.asarray(type(X)((X.data**2, X.indices, X.indptr), shape=X.shape).T @ v)
        return np.sum([v[here] @ (block * block) for here, block in row_blocks(X)], axis=0)
