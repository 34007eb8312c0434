r"""Weighted ridge regression and its leave-one-out predictions, from one eigendecomposition.

One decomposition serves all ridges, all targets, and every row or group that is left out.

Symbols

    z, y, s     features (r,), targets (K,) and weight of a row
    W, m, c     sum of the weights, weighted means of z and of y
    S           sum s (z - m)(z - m)' = V diag(l) V', the scatter
    q           V'(z - m), the coordinates of a row
    alpha       ridge on w, none on the intercept

With b = sum s q (y - c)', the regression that minimises sum s (y_k - w.z - a)^2 + alpha |w|^2 is

    f_k(z) = c_k + sum_j q_j b_jk / (l_j + alpha).

Rows I that are left out together (one row, or a group) have the leave-one-out residuals

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
from fuzzytwin.core.blocks import merge_means
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.linalg import rank_tol

# Groups of equal size are left out in stacks of at most this many numbers.
STACK_NUMBERS = 1 << 22
# Leverages within this of 1 count as 1: the difference 1 - h would have no correct digit.
FULL_LEVERAGE = 1e-12
# A row is light if its weight is below this fraction of the largest: see `RidgePath.of_gram`.
LIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Sufficient statistics of a weighted ridge regression. Those of disjoint rows add up.

    They are W, the means m (r,) and c (K,), the scatter S (r, r) and sum s (z - m)(y - c)' (r, K).

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
        """Compute the sums of rows with features (n, r), targets (n, K) and weights (n,)."""
        total = float(s.sum())
        share = s / total if total > 0 else s
        center = share @ Z
        mean = share @ Y
        centred = Z - center
        targets = Y - mean
        if len(s) and (s == s[0]).all():
            scatter = float(s[0]) * (centred.T @ centred)
            return cls(total, center, mean, scatter, float(s[0]) * (centred.T @ targets))
        root = np.sqrt(s)[:, None]
        centred *= root
        return cls(total, center, mean, centred.T @ centred, centred.T @ (root * targets))

    def __add__(self, other: RidgeSums) -> RidgeSums:
        """Return the sums of both sets of rows."""
        total, center, between, z = merge_means(
            self.weight, self.center, other.weight, other.center
        )
        _, mean, _, y = merge_means(self.weight, self.mean, other.weight, other.mean)
        scatter = self.scatter + other.scatter + between * np.multiply.outer(z, z)
        cross = self.cross + other.cross + between * np.multiply.outer(z, y)
        return RidgeSums(total, center, mean, scatter, cross)


@dataclass(frozen=True, eq=False)
class RidgePath:
    """The eigendecomposition of the scatter, from which the regression at any ridge follows.

    The attributes are W, m, c, l, V and b of the module docstring. If the features are R'z, the
    vectors are R V.
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
        S = sums.scatter
        cross = sums.cross
        if root is not None:
            S = root.T @ S @ root
            cross = root.T @ cross
        sizes, vectors = linalg.eigh(S, check_finite=False, driver=_driver(S))
        products = vectors.T @ cross
        vectors = vectors if root is None else root @ vectors
        sizes = np.maximum(sizes, 0.0)
        return cls(sums.weight, sums.center, sums.mean, sizes, vectors, products)

    @classmethod
    def of_gram(cls, gram: Array, Y: Array, s: Array) -> tuple[RidgePath, Array]:
        """Decompose the scatter from a Gram or kernel matrix, whose rows are then the features.

        `gram` has the shape (n, n), and weights are positive. The coordinates (n, q) of the rows
        are returned too.
        """
        total = float(s.sum())
        share = s / total
        root = np.sqrt(s)
        center = share @ gram
        mean = share @ Y
        A = gram - center
        A -= (A @ share)[:, None]
        A *= root
        A *= root[:, None]
        # Centring gives the direction `root` an eigenvalue of 0. It is made the largest eigenvalue
        # and dropped, because rounding would mix it with the smallest of the others.
        largest = 2 * float(np.trace(A)) + 1.0
        A += np.multiply.outer(root, (largest / total) * root)
        sizes, U = linalg.eigh(A, check_finite=False, overwrite_a=True, driver=_driver(A))
        # Eigenvalues are negative if the kernel is not positive semi-definite. These, and those
        # that are 0 up to rounding, are set to 0.
        U = U[:, :-1]
        sizes = sizes[:-1]
        sizes = np.where(sizes > rank_tol(len(A)) * np.abs(sizes).max(initial=0.0), sizes, 0.0)
        length = np.sqrt(sizes)
        products = length[:, None] * (U.T @ (root[:, None] * (Y - mean)))
        inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        path = cls(total, center, mean, sizes, root[:, None] * (U * inverse), products)
        coordinates = (U * length) / root[:, None]
        # Division by the root of a tiny weight would leave only rounding errors.
        light = s < LIGHT * s.max()
        if light.any():
            coordinates[light] = path.coordinates(gram[light])
        return path, coordinates

    def coordinates(self, Z: Array) -> Array:
        """Compute the coordinates (n, q) of rows from their features (n, r)."""
        return np.asarray((Z - self.center) @ self.vectors)

    def planes(self, alpha: float) -> tuple[Array, Array]:
        """Return coefficients (r, K) and intercepts (K,) at a ridge."""
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
        """Compute the leave-one-out predictions (A, n, K) of rows.

        Parameters
        ----------
        Q : ndarray of shape (n, q)
            Coordinates of all rows or of a subset.
        Y : ndarray of shape (n, K)
            Their targets.
        s : ndarray of shape (n,)
            Their weights.
        alphas : ndarray of shape (A,)
            Ridges above zero.
        groups : ndarray of shape (n,), default=None
            Rows with the same number are left out together.
        in_sample : ndarray of shape (A, n, K), default=None
            Buffer for the in-sample predictions.
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
    """The inverse Hessian H^-1 of a regression at A ridges, for leaving rows out.

    For two rows with coordinates q_i and q_j (r,),

        z_i' H^-1 z_j = floor + sum_r inverse_r q_ir q_jr.

    Attributes
    ----------
    inverse : ndarray of shape (A, r)
        The diagonal of H^-1 in these coordinates, for each ridge.
    floor : float
        The part of the intercept.
    root : ndarray of shape (d + 1, r), default=None
        The coordinates of a row x are [x, 1] @ root. None: coefficients are in coordinates too.
    scale : ndarray of shape (d,), default=None
        Units of the columns. Of a system without full rank, the solution of least norm in these
        units is taken.
    """

    inverse: Array
    floor: float
    root: Array | None = None
    scale: Array | None = None

    def coordinates(self, X: Array) -> Array:
        """Compute coordinates (m, r) of rows (m, d)."""
        assert self.root is not None
        q = X @ self.root[:-1]
        q += self.root[-1]
        return np.asarray(q)

    def leave_out(
        self,
        q: Array,
        v: Array,
        t: Array,
        f: Array,
        starts: Array | None = None,
        *,
        coef: Array,
        norms: bool = False,
    ) -> tuple[Array, Array]:
        """Compute leave-one-out predictions and, if asked for, norms |w| of the regressions.

        Parameters
        ----------
        q : ndarray of shape (m, r)
            Coordinates of the rows.
        v : ndarray of shape (p, m) or (1, m)
            Weights of the rows in each of the p regressions, or one weight for all of them.
        t : ndarray of shape (p, m)
            Targets.
        f : ndarray of shape (A, p, m)
            In-sample predictions.
        starts : ndarray, default=None
            Positions where groups of rows begin. Whole groups are left out. None: single rows.
        coef : ndarray of shape (A, p, d)
            Coefficients of the regressions of all rows.
        norms : bool, default=False
            Whether to compute the norms. This needs a root, and one ridge.

        Returns
        -------
        values, norms : ndarrays of shape (A, p, m)
        """
        if starts is not None:
            return self._leave_groups(q, v, t, f, starts, coef, norms)
        squares = np.square(q).T
        one_minus_h = 1.0 - v * (self.inverse @ squares + self.floor)[:, None]
        full = np.zeros(0, dtype=np.intp)
        if one_minus_h.min(initial=1.0) <= FULL_LEVERAGE:
            is_full = (one_minus_h <= FULL_LEVERAGE) & (v > 0)
            one_minus_h[is_full] = 1.0
            full = np.flatnonzero(is_full.any(axis=(0, 1)))
        error = (t - f) / one_minus_h
        values = t - error
        lengths = self._lengths(q, v * error, coef) if norms else np.empty(0)
        if len(full):
            rows = q[full], v[:, full], t[:, full], f[..., full]
            singles = np.arange(len(full))
            values[..., full], full_lengths = self._leave_groups(*rows, singles, coef, norms)
            if norms:
                lengths[..., full] = full_lengths
        return values, lengths

    def _lengths(self, q: Array, step: Array, coef: Array) -> Array:
        """Compute |w - step S^-1 (x - m)| of planes (A, p, d) and steps (A, p, m)."""
        assert self.root is not None
        w_root = self.root[:-1]
        unit = plane_norms(coef)[..., None]
        unit[unit == 0] = 1.0  # so that no square overflows
        w = coef / unit
        step /= unit
        w_products = ((w @ w_root) * self.inverse[:, None]) @ q.T
        G = (q * self.inverse[0]) @ w_root.T
        lengths = np.einsum("ij,ij->i", G, G) * step
        lengths -= 2 * w_products
        lengths *= step
        lengths += (w * w).sum(axis=-1)[..., None]
        np.sqrt(np.maximum(lengths, 0.0, out=lengths), out=lengths)
        lengths *= unit
        return lengths

    def _leave_groups(
        self, q: Array, v: Array, t: Array, f: Array, starts: Array, coef: Array, norms: bool
    ) -> tuple[Array, Array]:
        """Compute what `leave_out` returns if whole groups are left out."""
        values = f.copy()
        lengths = np.empty(f.shape if norms else 0)
        error = np.broadcast_to(t - f, f.shape)
        for i, inverse in enumerate(np.sqrt(self.inverse)):
            qi = np.column_stack([q * inverse, np.full(len(q), np.sqrt(self.floor))])
            root = None if self.root is None else self.root[:-1] * inverse
            for rows in _same_size(starts, len(q), qi.shape[1]):
                for p, weight in enumerate(v):
                    at = slice(None) if len(v) == 1 else slice(p, p + 1)  # regressions of weight v
                    e = np.moveaxis(error[i, at][:, rows], 0, -1)  # (G, size, k)
                    c = self._moves(qi[rows], weight[rows], e, coef[i, at], inverse)
                    values[i][at, rows] -= np.moveaxis(qi[rows] @ c, -1, 0)
                    if norms:
                        assert root is not None
                        moved = coef[i, at] - np.moveaxis(c[:, :-1], -1, 1) @ root.T  # (G, k, d)
                        lengths[i][at, rows] = np.moveaxis(plane_norms(moved), -1, 0)[..., None]
        return values, lengths

    def _moves(self, q: Array, v: Array, e: Array, coef: Array, inverse: Array) -> Array:
        """Compute the moves u (G, r + 1, k) of k regressions if each of G groups is left out.

        ``q`` (G, size, r + 1) are coordinates in which H is the identity, ``v`` (G, size) weights,
        ``e`` (G, size, k) in-sample residuals and ``coef`` (k, d) coefficients.
        """
        A = np.sqrt(v)[..., None] * q
        At = A.swapaxes(1, 2)
        right = np.sqrt(v)[..., None] * e
        # The smaller of the two systems: of the rows of a group, or of the coordinates.
        by_rows = A.shape[1] <= A.shape[2]
        products = A @ At if by_rows else At @ A
        right = right if by_rows else At @ right
        c = _solve_complement(products, right)
        if c is not None:
            return np.asarray(At @ c if by_rows else c)
        L, U = np.linalg.eigh(products)
        full = L >= 1.0 - FULL_LEVERAGE
        one_minus_l = np.where(full, np.inf, 1.0 - L)
        c = U @ ((U.swapaxes(1, 2) @ right) / one_minus_l[..., None])
        c = At @ c if by_rows else c
        root = np.diag(inverse) if self.root is None else self.root[:-1] * inverse
        scale = np.ones(len(root)) if self.scale is None else self.scale
        for g in np.flatnonzero(full.any(axis=1)).tolist():
            # Directions that the remaining rows leave open: take the shortest w.
            free = U[g][:, full[g]]
            free = At[g] @ free if by_rows else free
            directions = scale[:, None] * (root @ free[:-1])
            moved_coef = scale[:, None] * (coef.T - root @ c[g, :-1])
            c[g] += free @ np.linalg.lstsq(directions, moved_coef, rcond=None)[0]
        return np.asarray(c)


def _solve_complement(products: Array, right: Array) -> Array | None:
    """Solve (I - products) c = right for a stack. Return None if a leverage is 1."""
    complement = np.eye(products.shape[1]) - products
    try:
        pivots = np.diagonal(np.linalg.cholesky(complement), axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        return None
    if pivots.min(initial=1.0) <= FULL_LEVERAGE:
        return None
    return np.asarray(np.linalg.solve(complement, right))


def _driver(A: Array) -> str:
    """Return LAPACK's fastest driver, which scipy 1.12 cannot call on a 1 x 1 matrix."""
    return "evd" if len(A) > 1 else "ev"


def _same_size(starts: Array, n: int, width: int) -> Iterator[Array]:
    """Yield row indices (n_groups, size) of groups of equal size.

    Groups begin at `starts`. A stack holds `width` numbers per row.
    """
    sizes = np.diff(np.append(starts, n))
    for size in np.unique(sizes).tolist():
        first = starts[sizes == size]
        step = max(1, STACK_NUMBERS // (size * width))
        for at in range(0, len(first), step):
            yield first[at : at + step, None] + np.arange(size)
