r"""Weighted ridge regression by one decomposition: every ridge, every target, every row left out.

Symbols

    z, y, s     features (r,), targets (K,) and weight of a row
    W, m, c     sum of the weights, weighted means of z and of y
    S           sum s (z - m)(z - m)' = V diag(l) V', the scatter
    q           V'(z - m), the coordinates of a row
    alpha       ridge on w, none on the intercept

With b = sum s q (y - c)', the regression that minimises sum s (y_k - w.z - a)^2 + alpha |w|^2 is

    f_k(z) = c_k + sum_j q_j b_jk / (l_j + alpha).

Rows I that are left out together, one row or a group, have the residuals

    Y_I - F_I = (1 - K_II diag(s_I))^-1 (Y_I - f_I),
    K_II = 1 / W + Q_I diag(1 / (l + alpha)) Q_I',

which for one row is (y - f) / (1 - h) with the leverage h = s K. (Cook and Weisberg: Residuals and
influence in regression, 1982.) The regression without them moves by u = K_.I diag(s_I) (Y_I - F_I).

If an eigenvalue of diag(s_I)^1/2 K_II diag(s_I)^1/2 is 1, the regression goes through the rows I
whatever their targets are. Without them, the other rows leave a direction open, and the shortest w
is taken, as a fit does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.planes import rank_tol

# Stacks of groups that are left out together hold at most this many numbers.
STACK_NUMBERS = 1 << 22
# Leverages nearer to 1 than this are 1: of their difference no digit would be right.
FULL_LEVERAGE = 1e-12
# Rows of weights below this share of the greatest are light: see `RidgePath.of_gram`.
LIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """W, means of features (r,) and targets (K,), S (r, r), sum s (z - m)(y - c)'; they add up.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.ridge import RidgeSums
    >>> Z, Y = np.arange(8.0).reshape(4, 2) ** 2, np.eye(2)[[0, 0, 1, 1]]
    >>> whole = RidgeSums.of(Z, Y, np.ones(4))
    >>> parts = RidgeSums.of(Z[:1], Y[:1], np.ones(1)) + RidgeSums.of(Z[1:], Y[1:], np.ones(3))
    >>> np.allclose(whole.scatter, parts.scatter), np.allclose(whole.cross, parts.cross)
    (True, True)
    """

    weight: float
    center: Array
    mean: Array
    scatter: Array
    cross: Array

    @classmethod
    def of(cls, Z: Array, Y: Array, s: Array) -> RidgeSums:
        """Sum up rows: features (n, r), targets (n, K) and weights (n,)."""
        total = float(s.sum())
        share = s / total if total > 0 else s
        center, mean = share @ Z, share @ Y
        moved, targets = Z - center, Y - mean
        if len(s) and (s == s[0]).all():
            one = float(s[0])
            return cls(total, center, mean, one * (moved.T @ moved), one * (moved.T @ targets))
        root = np.sqrt(s)[:, None]
        moved *= root
        return cls(total, center, mean, moved.T @ moved, moved.T @ (root * targets))

    def __add__(self, other: RidgeSums) -> RidgeSums:
        """Return the sums of both sets of rows (pairwise formula of Chan et al.)."""
        total = self.weight + other.weight
        share = other.weight / total if total > 0 else 0.0
        both = self.weight * share
        z, y = other.center - self.center, other.mean - self.mean
        return RidgeSums(
            total,
            self.center + share * z,
            self.mean + share * y,
            self.scatter + other.scatter + both * np.multiply.outer(z, z),
            self.cross + other.cross + both * np.multiply.outer(z, y),
        )


@dataclass(frozen=True, eq=False)
class RidgePath:
    """A decomposition of the scatter: all that follows is a product.

    The letters are W, m, c, l, V and b above. Vectors are R V where features are R'z.
    """

    weight: float
    center: Array
    mean: Array
    sizes: Array
    vectors: Array
    products: Array

    @classmethod
    def of(cls, sums: RidgeSums, root: Array | None = None) -> RidgePath:
        """Decompose the scatter of features z or, with a root R of shape (r, p), of R'z."""
        S, cross = sums.scatter, sums.cross
        if root is not None:
            S, cross = root.T @ S @ root, root.T @ cross
        sizes, vectors = linalg.eigh(S, check_finite=False, driver=_driver(S))
        products = vectors.T @ cross
        vectors = vectors if root is None else root @ vectors
        sizes = np.maximum(sizes, 0.0)
        return cls(sums.weight, sums.center, sums.mean, sizes, vectors, products)

    @classmethod
    def of_gram(cls, gram: Array, Y: Array, s: Array) -> tuple[RidgePath, Array]:
        """Decompose in the space of the rows: features of a row are its products with all rows.

        `gram` (n, n) holds these, or values of a kernel; weights are above zero. Also return the
        coordinates (n, q) of the rows themselves.
        """
        total = float(s.sum())
        share, root = s / total, np.sqrt(s)
        center, mean = share @ gram, share @ Y
        A = gram - center
        A -= (A @ share)[:, None]
        A *= root
        A *= root[:, None]
        # Centring leaves the direction `root` empty. It is moved to the top, or rounding would
        # mix it with the smallest of the others, and left out there.
        apart = 2 * float(np.trace(A)) + 1.0
        A += np.multiply.outer(root, (apart / total) * root)
        sizes, U = linalg.eigh(A, check_finite=False, overwrite_a=True, driver=_driver(A))
        # Sizes below 0 are those of a kernel that is not positive semi-definite. Those that are 0
        # up to rounding are left out, or the sign of rounding errors would decide on planes.
        U, sizes = U[:, :-1], sizes[:-1]
        sizes = np.where(sizes > rank_tol(len(A)) * np.abs(sizes).max(initial=0.0), sizes, 0.0)
        length = np.sqrt(sizes)
        products = length[:, None] * (U.T @ (root[:, None] * (Y - mean)))
        inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        path = cls(total, center, mean, sizes, root[:, None] * (U * inverse), products)
        coordinates = (U * length) / root[:, None]
        # Divided by the root of a weight that is nearly none, rounding errors would be all.
        light = s < LIGHT * s.max()
        if light.any():
            coordinates[light] = path.coordinates(gram[light])
        return path, coordinates

    def coordinates(self, Z: Array) -> Array:
        """Compute q of each row, of shape (n, q), from its features."""
        return np.asarray((Z - self.center) @ self.vectors)

    def planes(self, alpha: float) -> tuple[Array, Array]:
        """Return coefficients (r, K) and intercepts (K,) at one ridge."""
        w = self.vectors @ (self.products / (self.sizes + alpha)[:, None])
        return w, self.mean - self.center @ w

    def left_out(
        self,
        Q: Array,
        Y: Array,
        s: Array,
        alphas: Array,
        groups: Array | None = None,
        in_sample: Array | None = None,
    ) -> Array:
        """Compute the value at each row of the regression without it.

        Q (n, q) are coordinates of all or some of the rows, Y (n, K) their targets, s (n,) their
        weights, alphas (A,) ridges above zero. Rows of the same number in `groups` are left out
        together. `in_sample` (A, n, K) is filled with the values of the regression of all rows.
        Return an array of shape (A, n, K).
        """
        inverse = 1.0 / (self.sizes + alphas[:, None])
        w = self.products.T * inverse[:, None]  # (A, K, q)
        f = w @ Q.T + self.mean[:, None]
        if in_sample is not None:
            in_sample[:] = f.swapaxes(1, 2)
        order: Array | slice = slice(None)
        starts = None
        if groups is not None:
            order = np.argsort(groups, kind="stable")
            starts = np.flatnonzero(np.append(True, np.diff(groups[order]) != 0))
        values = np.empty((len(alphas), *Y.shape))
        factor = LooFactor(inverse, 1 / self.weight)
        rows = Q[order], s[None, order], Y[order].T, f[..., order]
        values[:, order] = factor.leave_out(*rows, starts, coef=w)[0].swapaxes(1, 2)
        return values


@dataclass(frozen=True, eq=False)
class LooFactor:
    """The inverse Hessian of a regression at some ridges, from which rows are left out.

    The product z_i' H^-1 z_j of two rows with coordinates y is ``floor`` plus the sum of y_i y_j
    times ``inverse`` (A, r). Coordinates of a row x are [x, 1] @ ``root``, whose rows are those of
    w and one for the intercept. Without a root, planes are in coordinates too. ``scale`` are the
    units of the columns in which |w| is least if the rank is not full. ``alphas`` are the places
    of the ridges among all.
    """

    inverse: Array
    floor: float
    root: Array | None = None
    scale: Array | None = None
    alphas: Array | slice | None = None

    def coordinates(self, X: Array) -> Array:
        """Compute coordinates (m, r) of rows (m, d)."""
        assert self.root is not None
        y = X @ self.root[:-1]
        y += self.root[-1]
        return np.asarray(y)

    def mean_leverage(self, mean: Array, covariance: Array) -> float:
        """Compute the mean of the products z' H^-1 z over rows of this mean and covariance."""
        assert self.root is not None
        w_root = self.root[:-1]
        y = np.append(mean, 1.0) @ self.root
        return float(self.floor + (w_root * (covariance @ w_root)).sum() + y @ y)

    def leave_out(
        self, y: Array, v: Array, t: Array, f: Array, starts: Array | None = None,
        *, coef: Array, norms: bool = False,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Compute values and, if asked for, norms |w| of regressions without the row itself.

        Parameters
        ----------
        y : ndarray of shape (m, r)
            Coordinates of the rows.
        v : ndarray of shape (p, m) or (1, m)
            Weights of the rows in each of the p regressions, or in all of them.
        t : ndarray of shape (p, m)
            Targets.
        f : ndarray of shape (A, p, m)
            Values of the regressions of all rows.
        starts : ndarray, default=None
            If given, groups of rows begin there, and whole groups are left out.
        coef : ndarray of shape (A, p, d)
            Coefficients of the regressions of all rows.
        norms : bool, default=False
            Whether to compute the norms.

        Returns
        -------
        values, norms : ndarrays of shape (A, p, m)
        """
        if starts is not None:
            return self._leave_groups(y, v, t, f, starts, coef, norms)
        squares = np.square(y).T
        rest = 1.0 - v * (self.inverse @ squares + self.floor)[:, None]
        full = np.zeros(0, dtype=np.intp)
        if rest.min(initial=1.0) <= FULL_LEVERAGE:
            wrong = (rest <= FULL_LEVERAGE) & (v > 0)
            rest[wrong] = 1.0
            full = np.flatnonzero(wrong.any(axis=(0, 1)))
        error = (t - f) / rest
        values = t - error
        lengths = self._lengths(y, squares, v * error, coef) if norms else np.empty(0)
        if len(full):
            rows = y[full], v[:, full], t[:, full], f[..., full]
            values[..., full], again = self._leave_groups(*rows, np.arange(len(full)), coef, norms)
            if norms:
                lengths[..., full] = again
        return values, lengths

    def _lengths(self, y: Array, squares: Array, step: Array, coef: Array) -> Array:
        """Compute |w - step S^-1 (x - m)| of planes (A, p, d) and steps (A, p, m)."""
        assert self.root is not None
        w_root = self.root[:-1]
        unit = plane_norms(coef)[..., None]
        unit[unit == 0] = 1.0  # so that no square overflows
        w = coef / unit
        step /= unit
        along = ((w @ w_root) * self.inverse[:, None]) @ y.T
        if len(self.inverse) > 1:  # the root is orthogonal
            own = self.inverse**2 @ squares
        else:
            G = (y * self.inverse[0]) @ w_root.T
            own = np.einsum("ij,ij->i", G, G)[None]
        lengths = own[:, None] * step
        lengths -= 2 * along
        lengths *= step
        lengths += (w * w).sum(axis=-1)[..., None]
        np.sqrt(np.maximum(lengths, 0.0, out=lengths), out=lengths)
        lengths *= unit
        return lengths

    def _leave_groups(
        self, y: Array, v: Array, t: Array, f: Array, starts: Array, coef: Array, norms: bool
    ) -> tuple[Array, Array]:
        """Compute what `leave_out` does without the whole group."""
        values, lengths = f.copy(), np.empty(f.shape if norms else 0)
        error = np.broadcast_to(t - f, f.shape)
        for i, inverse in enumerate(np.sqrt(self.inverse)):
            yi = np.column_stack([y * inverse, np.full(len(y), np.sqrt(self.floor))])
            root = None if self.root is None else self.root[:-1] * inverse
            for rows in _same_size(starts, len(y), yi.shape[1]):
                for p, weight in enumerate(v):
                    at = slice(None) if len(v) == 1 else slice(p, p + 1)  # regressions of weight v
                    e = np.moveaxis(error[i, at][:, rows], 0, -1)  # (G, size, k)
                    c = self._moves(yi[rows], weight[rows], e, coef[i, at], inverse)
                    values[i][at, rows] -= np.moveaxis(yi[rows] @ c, -1, 0)
                    if norms:
                        assert root is not None
                        moved = coef[i, at] - np.moveaxis(c[:, :-1], -1, 1) @ root.T  # (G, k, d)
                        lengths[i][at, rows] = np.moveaxis(plane_norms(moved), -1, 0)[..., None]
        return values, lengths

    def _moves(self, y: Array, v: Array, e: Array, coef: Array, inverse: Array) -> Array:
        """Compute u (G, r + 1, k), by which k regressions move without each of G groups.

        ``y`` (G, size, r + 1) are coordinates in which H is the identity, ``v`` (G, size) weights,
        ``e`` (G, size, k) errors and ``coef`` (k, d) coefficients.
        """
        A = np.sqrt(v)[..., None] * y
        At = A.swapaxes(1, 2)
        right = np.sqrt(v)[..., None] * e
        few = A.shape[1] <= A.shape[2]
        products = A @ At if few else At @ A
        right = right if few else At @ right
        c = _solve_rest(products, right)
        if c is not None:
            return np.asarray(At @ c if few else c)
        L, U = np.linalg.eigh(products)
        full = L >= 1.0 - FULL_LEVERAGE
        stays = np.where(full, np.inf, 1.0 - L)
        c = U @ ((U.swapaxes(1, 2) @ right) / stays[..., None])
        c = At @ c if few else c
        root = np.diag(inverse) if self.root is None else self.root[:-1] * inverse
        scale = np.ones(len(root)) if self.scale is None else self.scale
        for g in np.flatnonzero(full.any(axis=1)).tolist():
            free = U[g][:, full[g]]
            free = At[g] @ free if few else free
            ways = scale[:, None] * (root @ free[:-1])
            shortest = scale[:, None] * (coef.T - root @ c[g, :-1])
            c[g] += free @ np.linalg.lstsq(ways, shortest, rcond=None)[0]
        return np.asarray(c)


def _solve_rest(products: Array, right: Array) -> Array | None:
    """Solve (1 - products) c = right for a stack; None if some leverage is full."""
    rest = np.eye(products.shape[1]) - products
    try:
        pivots = np.diagonal(np.linalg.cholesky(rest), axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        return None
    if pivots.min(initial=1.0) <= FULL_LEVERAGE:
        return None
    return np.asarray(np.linalg.solve(rest, right))


def _driver(A: Array) -> str:
    """Return LAPACK's fastest driver; scipy 1.12 cannot call it on a single number."""
    return "evd" if len(A) > 1 else "ev"


def _same_size(starts: Array, n: int, width: int) -> Iterator[Array]:
    """Yield tables of rows, one line for each group, of one size at a time.

    Groups begin at `starts`, and `width` numbers of each row are held for all of them.
    """
    sizes = np.diff(np.append(starts, n))
    for size in np.unique(sizes).tolist():
        first = starts[sizes == size]
        step = max(1, STACK_NUMBERS // (size * width))
        for at in range(0, len(first), step):
            yield first[at : at + step, None] + np.arange(size)
