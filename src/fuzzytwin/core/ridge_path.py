r"""Ridge regression by one decomposition: every ridge, every target, every row left out.

Rows z with weights s have targets y (one column for each class). With W = sum s, the weighted
means m of z and c of y, and S = sum s (z - m)(z - m)' = V diag(l) V', let

    q = V'(z - m),    b = sum s q (y - c)',    f_k(z) = c_k + sum_j q_j b_jk / (l_j + alpha),

which minimises sum s (y_k - w.z - a)^2 + alpha |w|^2. If row i is left out, with all of its weight,
the same regression on the other rows has the value f_(-i) at that row:

    y_ik - f_(-i)k = (y_ik - f_ik) / (1 - h_i),   h_i = s_i (1 / W + sum_j q_ij^2 / (l_j + alpha)).

Rows I that are left out together have the residuals

    Y_I - F_I = (1 - A diag(s_I))^-1 (Y_I - f_I),    A = 1 / W + Q_I diag(1 / (l + alpha)) Q_I'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.planes import cutoff

# Stacks of groups that are left out together hold at most this many numbers.
STACK_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """W, means of features (r,) and targets (K,), S (r, r), sum s (z - m)(y - c)'; they add up.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.ridge_path import RidgeSums
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
        sizes = np.where(sizes > cutoff(len(A)) * np.abs(sizes).max(initial=0.0), sizes, 0.0)
        length = np.sqrt(sizes)
        products = length[:, None] * (U.T @ (root[:, None] * (Y - mean)))
        inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        path = cls(total, center, mean, sizes, root[:, None] * (U * inverse), products)
        return path, (U * length) / root[:, None]

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
        taking_part: Array | None = None,
    ) -> Array:
        """Compute the value at each row of the planes learned without it.

        Q (n, q) are coordinates of all or some of the rows, Y (n, K) their targets, s (n,) their
        weights, alphas (A,) ridges above zero. Rows of the same number in `groups` are left out
        together. `taking_part` (A, n, K) is filled with the values of the planes of all rows.
        Return an array of shape (A, n, K).
        """
        out = np.empty((len(alphas), *Y.shape))
        together = [] if groups is None else list(_same_size(groups, Q.shape[1] + 1))
        shrinking = 1.0 / (self.sizes[:, None] + alphas)
        leverage = s[:, None] * (1 / self.weight + (Q * Q) @ shrinking)
        stays = np.maximum(1.0 - leverage, np.finfo(float).eps)
        for a, shrunk in enumerate(shrinking.T):
            rest = Y - self.mean - Q @ (shrunk[:, None] * self.products)
            alone = rest / stays[:, a, None]
            for rows in together:
                R = np.concatenate([Q[rows], np.ones((*rows.shape, 1))], axis=2)  # (G, g, q + 1)
                A, v = R * np.append(shrunk, 1 / self.weight), s[rows][:, :, None]
                if rows.shape[1] <= R.shape[2]:
                    system = np.eye(rows.shape[1]) - A @ (R * v).transpose(0, 2, 1)
                    alone[rows] = np.linalg.solve(system, rest[rows])
                    continue
                # (I - A B')^-1 e = e + A (I - B' A)^-1 B' e, with fewer columns than rows.
                B = (R * v).transpose(0, 2, 1)
                inner = np.linalg.solve(np.eye(R.shape[2]) - B @ A, B @ rest[rows])
                alone[rows] = rest[rows] + A @ inner
            out[a] = Y - alone
            if taking_part is not None:
                taking_part[a] = Y - rest
        return out


def _driver(A: Array) -> str:
    """Return LAPACK's fastest driver; scipy 1.12 cannot call it on a single number."""
    return "evd" if len(A) > 1 else "ev"


def _same_size(groups: Array, width: int) -> Iterator[Array]:
    """Yield tables of rows, one line for each group of several rows, of one size at a time.

    `width` numbers of each row are held for all of them.
    """
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(counts) - counts
    for size in np.unique(counts[counts > 1]).tolist():
        some = starts[counts == size]
        step = max(1, STACK_NUMBERS // (size * width))
        for first in range(0, len(some), step):
            yield order[some[first : first + step, None] + np.arange(size)]
