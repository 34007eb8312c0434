"""Memberships that compare a sample with its neighbours, and so need all rows at once."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array, Matrix
from fuzzytwin.core.solvers import ClassSummary
from fuzzytwin.memberships._from_moments import CenterMembership, Membership, class_radii, require
from fuzzytwin.memberships._neighbors import neighbor_shares, rounding, weights_within


class NeighborMembership(Membership):
    r"""Degrees by agreement with the neighbours' labels: strong where labels were flipped.

    mu is the share, by weight, of the own label among the k nearest neighbours and the
    sample itself: (1 + same) / (1 + k) where weights are one. Rows that are equally far at
    the last distance share the places that are left. Weights count as repetitions: divide
    weights that are large but not counts by their mean. Weights below one take a whole place.

    Parameters
    ----------
    k : int, default=10
        Number of neighbours.
    imbalance : bool, default=False
        Multiply by n_min / n_k, so that large classes count less.

    Examples
    --------
    >>> from fuzzytwin import NeighborMembership
    >>> X, y = [[0.0], [1.0], [2.0], [8.0], [9.0], [9.5]], [0, 0, 0, 1, 1, 0]
    >>> NeighborMembership(k=2)(X, y).round(2)
    array([1.  , 1.  , 1.  , 0.67, 0.67, 0.33])
    """

    name = "neighbor"

    def __init__(self, k: int = 10, *, imbalance: bool = False) -> None:
        self.k = k
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require_count(self, "k")

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        share = neighbor_shares(X, codes, s, self.k, len(moments.weight))
        own: Array = share[np.arange(len(codes)), codes]
        return own


class EntropyMembership(Membership):
    r"""Degrees by the entropy of the labels around a sample (Fan et al. 2017).

    H is the entropy of the label shares among the k nearest neighbours and the sample
    itself, counted as by `NeighborMembership`. The range of H in each class that is not the
    smallest is cut into `bins` equal parts, and part l (from the least entropy) gets
    1 - beta (l - 1); the smallest class keeps degree 1. Where all classes are of one size, all
    are cut.

    Parameters
    ----------
    k : int, default=10
        Number of neighbours.
    bins : int, default=10
        Number of parts m.
    beta : float, default=0.05
        Step between parts; above zero and such that 1 - beta (m - 1) stays above zero.
    imbalance : bool, default=False
        Multiply by n_min / n_k, so that large classes count less.

    Examples
    --------
    >>> from fuzzytwin import EntropyMembership
    >>> X, y = [[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], [0, 0, 0, 0, 1, 1]
    >>> EntropyMembership(k=2)(X, y)
    array([1.  , 1.  , 1.  , 0.55, 1.  , 1.  ])
    """

    name = "entropy"

    def __init__(
        self, k: int = 10, *, bins: int = 10, beta: float = 0.05, imbalance: bool = False
    ) -> None:
        self.k = k
        self.bins = bins
        self.beta = beta
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require_count(self, "k")
        _require_count(self, "bins")
        require(
            self.beta > 0 and self.beta * (self.bins - 1) < 1,
            self, "beta", "a number above 0 and below 1 / (bins - 1)",
        )  # fmt: skip

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        share = neighbor_shares(X, codes, s, self.k, len(moments.weight))
        logs = np.log(share, out=np.zeros_like(share), where=share > 0)
        # Neither entropies nor class sizes are to differ by rounding alone.
        H = np.round(-np.einsum("ij,ij->i", share, logs), 12)
        mu = np.ones(len(codes))
        present = moments.weight[moments.weight > 0]
        least = present.min() * (1 + 1e-9)
        balanced = present.max() <= least
        for k, weight in enumerate(moments.weight):
            own = (codes == k) & (s > 0)
            if own.any() and (balanced or weight > least):
                low, high = H[own].min(), H[own].max()
                part = (H[own] - low) / max(high - low, np.finfo(float).tiny) * self.bins
                part = np.floor(part + 1e-9)  # an entropy at an edge is in the upper part
                mu[own] = 1.0 - self.beta * np.minimum(part, self.bins - 1)
        return mu


class IntuitionisticMembership(Membership):
    r"""Degrees from belonging and not belonging (Rezvani et al. 2019).

    With d the distance to the own centre, r the greatest such d, and rho the share of
    rivals, by weight, among the samples at most `radius` times r away:

        mu = 1 - d / (r (1 + eps)),   nu = (1 - mu) rho,
        degree = mu where nu = 0, eps where mu <= nu, else (1 - nu) / (2 - mu - nu).

    Every pair of rows is looked at, a slice at a time: the time is quadratic in n, the
    memory is not.

    Parameters
    ----------
    radius : float, default=0.5
        How far to look for rivals, relative to r; above zero.
    eps : float, default=1e-6
        Least degree; relative to r in mu.
    imbalance : bool, default=False
        Multiply by n_min / n_k, so that large classes count less.

    Examples
    --------
    >>> from fuzzytwin import IntuitionisticMembership
    >>> X, y = [[0.0], [1.0], [2.0], [9.0], [8.0], [9.0]], [0, 0, 0, 0, 1, 1]
    >>> IntuitionisticMembership()(X, y).round(2)
    array([0.5 , 0.67, 0.83, 0.  , 0.  , 0.  ])
    """

    name = "intuitionistic"

    def __init__(self, radius: float = 0.5, *, eps: float = 1e-6, imbalance: bool = False) -> None:
        self.radius = radius
        self.eps = eps
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        require(self.radius > 0, self, "radius", "a number above 0")
        require(0 < self.eps < 1, self, "eps", "a number between 0 and 1")

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        center = CenterMembership(eps=self.eps)
        K = len(moments.weight)
        d = center.distance(X, codes, moments)
        radii = class_radii(d, codes, s, K)
        mu = center.from_distance(d, codes, radii)
        far = np.array([np.argmax(np.where((codes == k) & (s > 0), d, -1.0)) for k in range(K)])
        ends = X[far].toarray() if sparse.issparse(X) else X[far]
        slack = self.radius**2 * rounding(ends, moments.mean, np.finfo(X.dtype).eps)
        table = np.zeros((len(codes), K))
        table[np.arange(len(codes)), codes] = s / (s.max() or 1.0)
        near = weights_within(X, table, self.radius * radii[codes], slack[codes])
        total = near.sum(axis=1)
        rivals = np.maximum(total - near[np.arange(len(codes)), codes], 0.0)
        rho = np.divide(rivals, total, out=np.zeros_like(total), where=total > 0)
        nu = (1.0 - mu) * rho
        score = np.where(nu == 0, mu, (1.0 - nu) / (2.0 - mu - nu))
        return np.where((nu > 0) & (mu <= nu), self.eps, np.maximum(score, self.eps))


def _require_count(owner: Membership, name: str) -> None:
    """Raise a ValueError unless a parameter is a whole number of at least 1."""
    value = getattr(owner, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and value >= 1, owner, name, "a whole number of at least 1")
