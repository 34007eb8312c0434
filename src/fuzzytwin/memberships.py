"""How much each training sample counts: one class per way to say so.

Every membership is a callable ``(X, y, sample_weight=None) -> degrees`` with degrees in
(0, 1], computed from training rows alone. Samples of weight zero move nothing, and an
integer weight is the same as repeating the row.

`MomentMembership` needs no more than the moments of each class and, at most, one number per
class beside; it can therefore run over data that never meet in memory. The others look at
neighbours and need all rows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from fuzzytwin import distances
from fuzzytwin._blocks import row_blocks
from fuzzytwin.moments import ClassMoments
from fuzzytwin.planes import crisp_planes

Array = NDArray[Any]


class Membership(BaseEstimator, ABC):
    """Base of all memberships.

    A subclass gives `degrees`, on rows that were validated already.
    """

    imbalance: bool
    # Whether degrees of a batch of rows are the same as among all rows.
    streams: bool = False

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Degrees of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n,)
            Degrees in (0, 1].
        """
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
        check_consistent_length(X, codes)
        s = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, float)
        moments = ClassMoments.from_rows(X, codes, s, n_classes=len(classes))
        return self.degrees(X, codes, s, moments)

    def degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array:
        """Degrees of validated rows with class numbers `codes`, weights `s` and their moments."""
        self.check()
        mu = self._degrees(X, codes, s, moments)
        if self.imbalance:
            mu = mu * balance(moments)[codes]
        return mu

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        _require(isinstance(self.imbalance, (bool, np.bool_)), self, "imbalance", "True or False")

    @abstractmethod
    def _degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array: ...


class MomentMembership(Membership):
    """A membership made of a row-wise `distance` and, perhaps, each class's greatest one.

    The three steps (`prepare` from moments, `distance` of rows, `from_distance`) can be run
    over batches: moments in a first pass, radii in a second, degrees in a third.
    """

    @property
    def needs_radii(self) -> bool:
        """Whether `from_distance` looks at the radii, and a pass has to find them."""
        return True

    @abstractmethod
    def prepare(self, moments: ClassMoments) -> Any:
        """What `distance` needs, from the moments of all rows."""

    @abstractmethod
    def distance(self, X: Any, codes: Array, prepared: Any) -> Array:
        """Distance of each row."""

    @abstractmethod
    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Degrees; `radii` holds the greatest distance in each class."""

    def _degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array:
        distance = self.distance(X, codes, self.prepare(moments))
        radii = class_radii(distance, codes, s, len(moments.weight))
        return self.from_distance(distance, codes, radii)


class CenterMembership(MomentMembership):
    r"""Degrees that fall with the distance from the centre of the own class.

    With d the distance to the weighted mean of the own class and r the greatest such d,

        linear:       mu = 1 - d / (r (1 + eps))
        exponential:  mu = 2 / (1 + exp(beta d))

    The paper prints the first without "1 -", which would favour outliers (MATHS, error 9).

    Parameters
    ----------
    decay : {"linear", "exponential"}, default="linear"
        Which of the two.
    beta : float, default=1.0
        Steepness of the exponential decay, above zero.
    eps : float, default=1e-6
        Keeps the farthest sample's degree above zero; relative to r.
    imbalance : bool, default=False
        Multiply by n_min / n_k, so that large classes count less.

    Examples
    --------
    >>> from fuzzytwin import CenterMembership
    >>> CenterMembership()([[0.0], [1.0], [5.0], [9.0]], [0, 0, 1, 1]).round(3)
    array([0., 0., 0., 0.])
    >>> CenterMembership()([[0.0], [1.0], [2.0], [9.0]], [0, 0, 0, 1]).round(3)
    array([0., 1., 0., 1.])
    """

    def __init__(
        self,
        decay: str = "linear",
        *,
        beta: float = 1.0,
        eps: float = 1e-6,
        imbalance: bool = False,
    ) -> None:
        self.decay = decay
        self.beta = beta
        self.eps = eps
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require(self.decay in ("linear", "exponential"), self, "decay", "'linear', 'exponential'")
        _require(self.beta > 0, self, "beta", "a number above 0")
        _require(self.eps > 0, self, "eps", "a number above 0")

    @property
    def needs_radii(self) -> bool:
        """Only the linear decay does."""
        return self.decay == "linear"

    def prepare(self, moments: ClassMoments) -> Any:
        """Centres of the classes."""
        return moments

    def distance(self, X: Any, codes: Array, prepared: ClassMoments) -> Array:
        """Euclidean distance of each row to the centre of its class."""
        out = np.empty(X.shape[0])
        centers = prepared.mean
        for here, block in row_blocks(X):
            Z = centers.take(codes[here], axis=0, mode="clip")
            np.subtract(block, Z, out=Z)
            out[here] = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        return out

    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Linear or exponential decay."""
        if self.decay == "exponential":
            return 2.0 / (1.0 + np.exp(np.minimum(self.beta * distance, 700.0)))
        return _linear_decay(distance, codes, radii, self.eps)


class HyperplaneMembership(MomentMembership):
    r"""Degrees from the planes of a first LST-SVM on the same rows.

    With a_k the distance to plane k,

        relative:  mu = the eq29 membership of the own label, (1/a_own) / sum_k (1/a_k);
                   for two classes a_rival / (a_own + a_rival)
        distance:  mu = 1 - a_own / (max a_own (1 + eps))

    Parameters
    ----------
    kind : {"relative", "distance"}, default="relative"
        Which of the two; the second is the paper's.
    C : float, default=1.0
        Penalty of the first machine, above zero.
    alpha : float, default=1.0
        Ridge of the first machine, at least zero.
    eps : float, default=1e-6
        Least degree.
    imbalance : bool, default=False
        Multiply by n_min / n_k, so that large classes count less.

    Examples
    --------
    >>> from fuzzytwin import HyperplaneMembership
    >>> X, y = [[0.0], [1.0], [4.0], [5.0], [5.0]], [0, 0, 1, 1, 0]
    >>> HyperplaneMembership()(X, y).round(2)  # the last label looks wrong
    array([0.99, 0.86, 0.53, 0.66, 0.34])
    """

    def __init__(
        self,
        kind: str = "relative",
        *,
        C: float = 1.0,
        alpha: float = 1.0,
        eps: float = 1e-6,
        imbalance: bool = False,
    ) -> None:
        self.kind = kind
        self.C = C
        self.alpha = alpha
        self.eps = eps
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require(self.kind in ("relative", "distance"), self, "kind", "'relative', 'distance'")
        _require(self.C > 0, self, "C", "a number above 0")
        _require(self.alpha >= 0, self, "alpha", "a number of at least 0")
        _require(0 < self.eps < 1, self, "eps", "a number between 0 and 1")

    @property
    def needs_radii(self) -> bool:
        """Only the linear decay with the distance does."""
        return self.kind == "distance"

    def prepare(self, moments: ClassMoments) -> Any:
        """Planes of a machine without memberships."""
        C = np.full(len(moments.weight), float(self.C))
        return crisp_planes(moments, moments, C, self.alpha)

    def distance(self, X: Any, codes: Array, prepared: Any) -> Array:
        """Distance to the own plane or, for "relative", the own label's eq29 membership."""
        out = np.empty(X.shape[0])
        norms = distances.plane_norms(prepared.coef)
        for here, block in row_blocks(X):
            f = block @ prepared.coef.T + prepared.intercept
            delta, _ = distances.fuzzy_distances(f, None, norms)
            if self.kind == "relative":
                delta = distances.memberships(delta)
            out[here] = delta[np.arange(len(delta)), codes[here]]
        return out

    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """The relative membership as it is, or a linear decay with the distance."""
        if self.kind == "relative":
            return np.maximum(distance, self.eps)
        # A plane without direction is infinitely far from all its samples: none stands out.
        finite = np.isfinite(radii)
        distance = np.where(finite[codes], distance, 0.0)
        return _linear_decay(distance, codes, np.where(finite, radii, 0.0), self.eps)


class NeighborMembership(Membership):
    r"""Degrees by agreement with the neighbours' labels: strong where labels were flipped.

    mu is the share, by weight, of the own label among the k nearest neighbours and the
    sample itself: (1 + same) / (1 + k) where weights are one. Weights count as repetitions,
    up to k + 1 of them: divide weights that are large, but no counts, by their mean.

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

    def __init__(self, k: int = 10, *, imbalance: bool = False) -> None:
        self.k = k
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require_count(self, "k")

    def _degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array:
        share = _neighbor_shares(_about_mean(X, moments), codes, s, self.k, len(moments.weight))
        own: Array = share[np.arange(len(codes)), codes]
        # A sample of weight zero is not its own neighbour; its degree weighs nothing.
        return np.where(s > 0, own, 1.0)


class EntropyMembership(Membership):
    r"""Degrees by the entropy of the labels around a sample (Fan et al. 2017).

    H is the entropy of the label shares among the k nearest neighbours and the sample
    itself. The range of H in each class that is not the smallest is cut into `bins` equal
    parts, and part l (from the least entropy) gets 1 - beta (l - 1); the smallest class
    keeps degree 1. Where all classes are of one size, all are cut.

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
        _require(
            self.beta > 0 and self.beta * (self.bins - 1) < 1,
            self, "beta", "a number above 0 and below 1 / (bins - 1)",
        )  # fmt: skip

    def _degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array:
        share = _neighbor_shares(_about_mean(X, moments), codes, s, self.k, len(moments.weight))
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
                part = np.floor((H[own] - low) / max(high - low, np.finfo(float).tiny) * self.bins)
                mu[own] = 1.0 - self.beta * np.minimum(part, self.bins - 1)
        return mu


class IntuitionisticMembership(Membership):
    r"""Degrees from belonging and not belonging (Rezvani et al. 2019).

    With d the distance to the own centre, r the greatest such d, and rho the share of
    rivals, by weight, among the samples within `radius` times r:

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

    def __init__(self, radius: float = 0.5, *, eps: float = 1e-6, imbalance: bool = False) -> None:
        self.radius = radius
        self.eps = eps
        self.imbalance = imbalance

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        super().check()
        _require(self.radius > 0, self, "radius", "a number above 0")
        _require(0 < self.eps < 1, self, "eps", "a number between 0 and 1")

    def _degrees(self, X: Any, codes: Array, s: Array, moments: ClassMoments) -> Array:
        center = CenterMembership(eps=self.eps)
        K = len(moments.weight)
        d = center.distance(X, codes, moments)
        radii = class_radii(d, codes, s, K)
        mu = center.from_distance(d, codes, radii)
        reach = self.radius * radii[codes]
        table = np.zeros((len(codes), K))
        table[np.arange(len(codes)), codes] = s / (s.max() or 1.0)

        def rival_share(D: Array, start: int) -> Array:
            rows = np.arange(start, start + len(D))
            D[np.arange(len(D)), rows] = 0.0
            near = (reach[rows, None] >= D) @ table
            total = near.sum(axis=1)
            own = near[np.arange(len(D)), codes[rows]]
            rivals = np.maximum(total - own, 0.0)
            return np.divide(rivals, total, out=np.zeros_like(total), where=total > 0)

        Z = _about_mean(X, moments)
        rho = np.concatenate(list(pairwise_distances_chunked(Z, reduce_func=rival_share)))
        nu = (1.0 - mu) * rho
        score = np.where(nu == 0, mu, (1.0 - nu) / (2.0 - mu - nu))
        return np.where((nu > 0) & (mu <= nu), self.eps, np.maximum(score, self.eps))


MEMBERSHIPS: dict[str, type[Membership]] = {
    "center": CenterMembership,
    "hyperplane": HyperplaneMembership,
    "neighbor": NeighborMembership,
    "entropy": EntropyMembership,
    "intuitionistic": IntuitionisticMembership,
}


def class_radii(distance: Array, codes: Array, s: Array, n_classes: int) -> Array:
    """Greatest distance in each class among samples that weigh something."""
    radii = np.zeros(n_classes)
    weighing = s > 0
    if not weighing.all():
        distance = np.where(weighing, distance, 0.0)
    np.maximum.at(radii, codes, distance)
    return radii


def balance(moments: ClassMoments) -> Array:
    """n_min / n_k of each class, by weight: 1 for the smallest class."""
    present = moments.weight > 0
    least = moments.weight[present].min()
    return np.divide(least, moments.weight, out=np.ones_like(moments.weight), where=present)


def _linear_decay(distance: Array, codes: Array, radii: Array, eps: float) -> Array:
    """1 - d / (r (1 + eps)), and 1 where the class has no extent."""
    slope = np.divide(1.0, radii * (1.0 + eps), out=np.zeros_like(radii), where=radii > 0)
    mu: Array = slope.take(codes)
    mu *= distance
    np.subtract(1.0, mu, out=mu)
    # A sample of weight zero may lie beyond the radius.
    return np.maximum(mu, eps / (1.0 + eps), out=mu)


def _about_mean(X: Any, moments: ClassMoments) -> Any:
    """Dense X about its mean: scikit-learn's distances lose their digits far from zero."""
    if sparse.issparse(X):
        return X
    return X - np.average(moments.mean, axis=0, weights=moments.weight / moments.weight.max())


def _neighbor_shares(X: Any, codes: Array, s: Array, k: int, n_classes: int) -> Array:
    """Share of each label, by weight, among a sample's k nearest neighbours and itself.

    Weights are counted, nearest first, up to a total of k + 1: so a row of weight 3 is three
    rows, and weights below one only shift the shares.
    """
    index = np.flatnonzero(s > 0)
    search = NearestNeighbors(n_neighbors=min(k + 1, len(index))).fit(X[index])
    near = index[search.kneighbors(X, return_distance=False)]
    # Among equals in place a sample comes first itself.
    here = np.flatnonzero(s > 0)
    at = near[here] == here[:, None]
    missing = ~at.any(axis=1)
    place = np.where(missing, near.shape[1] - 1, at.argmax(axis=1))
    near[here, place] = near[here, 0]
    near[here, 0] = here
    counted = np.cumsum(s[near], axis=1)
    np.minimum(counted, k + 1, out=counted)
    weights = np.diff(counted, axis=1, prepend=0.0)
    share = np.zeros((len(codes), n_classes))
    for column in range(near.shape[1]):
        share[np.arange(len(codes)), codes[near[:, column]]] += weights[:, column]
    return share / share.sum(axis=1, keepdims=True)


def _require(ok: bool, owner: Any, name: str, remedy: str) -> None:
    if not ok:
        raise ValueError(
            f"{type(owner).__name__}: {name}={getattr(owner, name)!r} is not allowed; "
            f"give {remedy}."
        )


def _require_count(owner: Any, name: str) -> None:
    value = getattr(owner, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    _require(whole and value >= 1, owner, name, "a whole number of at least 1")
