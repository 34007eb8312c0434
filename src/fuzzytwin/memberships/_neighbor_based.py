"""Memberships that compare a row with its neighbours, and so need all rows at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from fuzzytwin._params import not_allowed, number
from fuzzytwin._utils.types import Array, Matrix
from fuzzytwin.core.solvers import ClassSummary
from fuzzytwin.memberships._base import Membership
from fuzzytwin.memberships._moment_based import CenterMembership, class_radii
from fuzzytwin.memberships._neighbor_search import neighbor_shares, rounding_bound, weights_within


class NeighborMembership(Membership):
    r"""Degrees by agreement with the labels of the neighbours, suited to flipped labels.

    mu is the weighted share of the row's label among its k nearest neighbours and the row
    itself: (1 + same) / (1 + k) if all weights are 1. Rows tied at the k-th distance count by
    a common fraction. A weight of w counts as w rows: divide weights that are large but not
    counts by their mean. A row of weight below 1 still counts as one neighbour.

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
    _constraints: ClassVar = {"k": number(above=0.0, whole=True)}

    def __init__(self, *, k: int = 10, imbalance: bool = False) -> None:
        self.k = k
        self.imbalance = imbalance

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        share = neighbor_shares(X, codes, s, self.k, len(moments.weight))
        own: Array = share[np.arange(len(codes)), codes]
        return own


class EntropyMembership(Membership):
    r"""Degrees by the entropy of the labels around a row (Fan et al. 2017).

    H is the entropy of the label shares among the k nearest neighbours and the row itself,
    counted as in `NeighborMembership`. In each class except the smallest, the range of H is
    split into `bins` equal parts, and rows in part l (from the least entropy) get the degree
    1 - beta (l - 1). The smallest class keeps the degree 1. If all classes have the same size,
    all are split.

    Parameters
    ----------
    k : int, default=10
        Number of neighbours.
    bins : int, default=10
        Number of parts m.
    beta : float, default=0.05
        Step between parts, above zero and below 1 / (m - 1).
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
    _constraints: ClassVar = {
        "k": number(above=0.0, whole=True),
        "bins": number(above=0.0, whole=True),
        "beta": number(above=0.0),
    }

    def __init__(
        self, *, k: int = 10, bins: int = 10, beta: float = 0.05, imbalance: bool = False
    ) -> None:
        self.k = k
        self.bins = bins
        self.beta = beta
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        if self.beta * (self.bins - 1) >= 1:
            remedy = "give a number above 0 and below 1 / (bins - 1)"
            raise not_allowed("EntropyMembership: beta", self.beta, remedy)

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        share = neighbor_shares(X, codes, s, self.k, len(moments.weight))
        logs = np.log(share, out=np.zeros_like(share), where=share > 0)
        # Rounded, so that rounding errors do not make entropies or class sizes differ.
        H = np.round(-np.einsum("ij,ij->i", share, logs), 12)
        mu = np.ones(len(codes))
        present = moments.weight[moments.weight > 0]
        least = present.min() * (1 + 1e-9)
        balanced = present.max() <= least
        for k, weight in enumerate(moments.weight):
            own = (codes == k) & (s > 0)
            if own.any() and (balanced or weight > least):
                low = H[own].min()
                width = max(H[own].max() - low, np.finfo(float).tiny)
                part = (H[own] - low) / width * self.bins
                part = np.floor(part + 1e-9)  # an entropy at an edge is in the upper part
                mu[own] = 1.0 - self.beta * np.minimum(part, self.bins - 1)
        return mu


class IntuitionisticMembership(Membership):
    r"""Intuitionistic fuzzy degrees, from membership and non-membership (Rezvani et al. 2019).

    With d the distance from the centre of the row's class, r the greatest such d, and rho the
    weighted share of rivals among the rows at most `radius` times r away,

        mu = 1 - d / (r (1 + eps)),   nu = (1 - mu) rho,
        degree = mu if nu = 0, eps if mu <= nu, else (1 - nu) / (2 - mu - nu).

    All pairs of rows are compared, block by block: the time is quadratic in n, the memory is
    not.

    Parameters
    ----------
    radius : float, default=0.5
        Radius of the neighbourhood, relative to r, above zero.
    eps : float, default=1e-6
        Least degree, relative to r in mu.
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
    _constraints: ClassVar = {"radius": number(above=0.0), "eps": number(above=0.0, below=1.0)}

    def __init__(self, *, radius: float = 0.5, eps: float = 1e-6, imbalance: bool = False) -> None:
        self.radius = radius
        self.eps = eps
        self.imbalance = imbalance

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        center = CenterMembership(eps=self.eps)
        K = len(moments.weight)
        d = center.distance(X, codes, moments)
        radii = class_radii(d, codes, s, K)
        mu = center.from_distance(d, codes, radii)
        farthest = [int(np.argmax(np.where((codes == k) & (s > 0), d, -1.0))) for k in range(K)]
        farthest_rows = X[farthest].toarray() if sparse.issparse(X) else X[farthest]
        error = self.radius**2 * rounding_bound(farthest_rows, moments.mean, np.finfo(X.dtype).eps)
        label_weight = np.zeros((len(codes), K))
        label_weight[np.arange(len(codes)), codes] = s / (s.max() or 1.0)
        nearby = weights_within(X, label_weight, self.radius * radii[codes], error[codes])
        total = nearby.sum(axis=1)
        rivals = np.maximum(total - nearby[np.arange(len(codes)), codes], 0.0)
        rho = np.divide(rivals, total, out=np.zeros_like(total), where=total > 0)
        nu = (1.0 - mu) * rho
        score = np.where(nu == 0, mu, (1.0 - nu) / (2.0 - mu - nu))
        return np.where((nu > 0) & (mu <= nu), self.eps, np.maximum(score, self.eps))
