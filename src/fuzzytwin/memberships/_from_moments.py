"""The base of all memberships, and those that follow from moments of the classes.

The latter can run over data that do not fit in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from fuzzytwin._params import check_weights
from fuzzytwin._utils.threads import map_threads, run_blocks
from fuzzytwin._utils.types import Array, Matrix, canonical
from fuzzytwin.core import distances
from fuzzytwin.core.blocks import BLOCK_NUMBERS, cut, row_slices
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, crisp_planes
from fuzzytwin.core.solvers import ClassMeans, ClassSummary, ProblemSize, choose_solver

# Degrees that are computed at a time: they stay in the cache.
DEGREES = 1 << 15


class Membership(BaseEstimator, ABC):
    """Base of all memberships.

    A subclass computes `_degrees` of rows that are validated already.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import CenterMembership, Membership
    >>> issubclass(CenterMembership, Membership)
    True
    >>> CenterMembership()(np.array([[0.0], [1.0], [5.0]]), ["a", "a", "a"]).round(2)
    array([0.33, 0.67, 0.  ])
    """

    imbalance: bool
    # What `MEMBERSHIPS` calls it.
    name: str = ""
    # Whether degrees of a batch of rows are the same as among all rows, and whether they can be
    # computed in passes over batches.
    streams: bool = False
    in_passes: bool = False

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Compute the degrees of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            Finite, at least 0, and above 0 for some row; others get a ValueError.

        Returns
        -------
        ndarray of shape (n,)
            Degrees in (0, 1].
        """
        X = canonical(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
        check_consistent_length(X, codes)
        given = check_weights(sample_weight, len(codes))
        s = np.ones(len(codes)) if given is None else given
        return self.degrees(X, codes, s, class_summary(X, codes, s, len(classes)))

    def degrees(
        self,
        X: Matrix,
        codes: Array,
        s: Array,
        moments: ClassSummary,
        class_factors: Array | None = None,
    ) -> Array:
        """Compute the degrees of validated rows.

        Parameters
        ----------
        X : ndarray or canonical CSR matrix of shape (n, d)
        codes : ndarray of shape (n,)
            Class numbers.
        s : ndarray of shape (n,)
            Sample weights, without `class_weight`: they count as repetitions.
        moments : ClassMoments or ClassMeans
            Of these rows with these weights.
        class_factors : ndarray of shape (K,), default=None
            The factors of `class_weight`. Only first planes (`HyperplaneMembership`) are
            fitted with them; centres, neighbours and `imbalance` go by the rows as given.

        Returns
        -------
        ndarray of shape (n,)
        """
        self.check()
        mu = self._degrees(X, codes, s, moments, class_factors)
        if self.imbalance:
            mu = mu * balance(moments)[codes]
        return mu

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        require(isinstance(self.imbalance, (bool, np.bool_)), self, "imbalance", "True or False")

    @abstractmethod
    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array: ...


class MomentMembership(Membership):
    """Base of memberships from a distance of each row and the greatest one in its class.

    The three steps (`prepare` from moments, `distance` of rows, `from_distance`) can be run
    over batches: moments in a first pass, radii in a second, degrees in a third.
    """

    in_passes = True

    @property
    def needs_radii(self) -> bool:
        """Return whether `from_distance` needs the radii, which take a pass over the rows."""
        return True

    @abstractmethod
    def prepare(self, moments: ClassSummary) -> Any:
        """Compute what `distance` needs, from the moments of all rows, class factors included."""

    @abstractmethod
    def distance(self, X: Matrix, codes: Array, prepared: Any) -> Array:
        """Compute the distance of each row."""

    @abstractmethod
    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Compute degrees; `radii` holds the greatest distance in each class."""

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        weighed = moments if class_factors is None else moments.scaled(class_factors)
        distance = self.distance(X, codes, self.prepare(weighed))
        K, n = len(moments.weight), len(codes)
        blocks = cut(n, DEGREES)
        found = map_threads(lambda at: class_radii(distance[at], codes[at], s[at], K), blocks)
        radii = np.max(list(found), axis=0, initial=0.0)
        mu = np.empty(n)

        def fill(at: slice) -> None:
            mu[at] = self.from_distance(distance[at], codes[at], radii)

        run_blocks(fill, blocks)
        return mu


class CenterMembership(MomentMembership):
    r"""Degrees that fall with the distance from the centre of the own class.

    With d the distance to the weighted mean of the own class and r the greatest such d,

        linear:       mu = 1 - d / (r (1 + eps))
        exponential:  mu = 2 / (1 + exp(beta d))

    The paper prints the first without "1 -", which would favour outliers.

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

    name = "center"

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
        require(self.decay in ("linear", "exponential"), self, "decay", "'linear', 'exponential'")
        require(self.beta > 0, self, "beta", "a number above 0")
        require(self.eps > 0, self, "eps", "a number above 0")

    @property
    def needs_radii(self) -> bool:
        """Return whether radii are needed: for the linear decay only."""
        return self.decay == "linear"

    def prepare(self, moments: ClassSummary) -> ClassSummary:
        """Return the moments, whose means are the centres."""
        return moments

    def distance(self, X: Matrix, codes: Array, prepared: ClassSummary) -> Array:
        """Compute the Euclidean distance of each row from the centre of its class."""
        centers, (n, d) = prepared.mean, X.shape
        if sparse.issparse(X):
            return _sparse_distances(X, codes, centers)
        out = np.empty(n)

        def measure(here: slice) -> None:
            Z = centers.take(codes[here], axis=0, mode="clip")
            np.subtract(X[here], Z, out=Z)
            out[here] = np.sqrt(np.einsum("ij,ij->i", Z, Z))

        run_blocks(measure, row_slices(n, d))
        return out

    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Apply the linear or the exponential decay."""
        if self.decay == "exponential":
            return 2.0 / (1.0 + np.exp(np.minimum(self.beta * distance, 700.0)))
        return _linear_decay(distance, codes, radii, self.eps)


class HyperplaneMembership(MomentMembership):
    r"""Degrees from the planes of a first LST-SVM on the same rows.

    With a_k the distance to plane k,

        relative:  mu = the membership of the own label, (1/a_own) / sum_k (1/a_k);
                   for two classes a_rival / (a_own + a_rival)
        distance:  mu = 1 - a_own / (max a_own (1 + eps))

    Parameters
    ----------
    kind : {"relative", "distance"}, default="relative"
        Which of the two; the second is the paper's.
    C : float, default=1.0
        Penalty of the first LST-SVM, above zero.
    alpha : float, default=1.0
        Ridge of the first LST-SVM, at least zero.
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

    name = "hyperplane"

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
        require(self.kind in ("relative", "distance"), self, "kind", "'relative', 'distance'")
        require(self.C > 0, self, "C", "a number above 0")
        require(self.alpha >= 0, self, "alpha", "a number of at least 0")
        require(0 < self.eps < 1, self, "eps", "a number between 0 and 1")

    @property
    def needs_radii(self) -> bool:
        """Return whether radii are needed: for the kind "distance" only."""
        return self.kind == "distance"

    def prepare(self, moments: ClassSummary) -> Planes:
        """Solve for the planes of an LST-SVM without memberships."""
        C = np.full(len(moments.weight), float(self.C))
        multi_class = "ovo" if self.kind == "relative" else "ovr"
        if isinstance(moments, ClassMeans):
            return moments.crisp_planes(C, self.alpha, multi_class)
        return crisp_planes(moments, moments, C, self.alpha, multi_class=multi_class)

    def distance(self, X: Matrix, codes: Array, prepared: Planes) -> Array:
        """Compute the distance to the own plane or, for "relative", the own label's membership."""
        if self.kind == "relative":
            K = len(np.unique(prepared.classes[:, 0]))
            u = distances.row_memberships(X, X, distances.unit_normals(prepared, "distance"), K)
            return u[np.arange(len(codes)), codes]
        f = distances.plane_values(X, prepared.coef, prepared.intercept)
        delta, _ = distances.fuzzy_distances(f, None, distances.plane_norms(prepared.coef))
        return delta[np.arange(len(codes)), codes]

    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Return the relative membership as it is, or apply a linear decay to the distance."""
        if self.kind == "relative":
            return np.maximum(distance, self.eps)
        # A plane without direction is infinitely far from all its samples: none stands out.
        finite = np.isfinite(radii)
        distance = np.where(finite[codes], distance, 0.0)
        return _linear_decay(distance, codes, np.where(finite, radii, 0.0), self.eps)


def class_summary(X: Any, codes: Array, s: Array, n_classes: int) -> ClassSummary:
    """Compute the moments of rows, or where these are too large, or costly, their means."""
    if choose_solver(ProblemSize.of(X, n_classes)) == "moments":
        return ClassMoments.from_rows(X, codes, s, n_classes=n_classes)
    return ClassMeans.from_rows(X, codes, s, n_classes)


def class_radii(distance: Array, codes: Array, s: Array, n_classes: int) -> Array:
    """Find the greatest distance in each class among samples of positive weight."""
    radii = np.zeros(n_classes)
    weighing = s > 0
    if not weighing.all():
        distance = np.where(weighing, distance, 0.0)
    np.maximum.at(radii, codes, distance)
    return radii


def balance(moments: ClassSummary) -> Array:
    """Compute n_min / n_k of each class, by weight: 1 for the smallest class."""
    present = moments.weight > 0
    least = moments.weight[present].min()
    return np.divide(least, moments.weight, out=np.ones_like(moments.weight), where=present)


def require(ok: bool, owner: Membership, name: str, remedy: str) -> None:
    """Raise a ValueError about a parameter unless it is right."""
    if not ok:
        raise ValueError(
            f"{type(owner).__name__}: {name}={getattr(owner, name)!r} is not allowed; "
            f"give {remedy}."
        )


def _sparse_distances(X: Any, codes: Array, centers: Array) -> Array:
    """Compute distances of sparse rows from the centres of their classes.

    sum_j (x_j - c_j)^2 is that of the stored numbers, plus c_j^2 of all others; these are the sum
    over all columns that some row lacks, less that over the stored ones.
    """
    n, d = X.shape
    full = np.bincount(X.indices, minlength=d) == n  # a difference would lose their digits
    squares = np.where(full, 0.0, centers**2)
    total, out = squares.sum(axis=1), np.empty(n)
    step = max(1, BLOCK_NUMBERS * n // max(X.nnz, 1))
    for start in range(0, n, step):
        block = X[start : start + step]
        count = np.diff(block.indptr)
        label = np.repeat(codes[start : start + step], count)
        stored = (block.data - centers[label, block.indices]) ** 2
        stored -= squares[label, block.indices]
        row = np.repeat(np.arange(len(count)), count)
        out[start : start + step] = np.bincount(row, stored, len(count))
    return np.sqrt(np.maximum(out + total[codes], 0.0))


def _linear_decay(distance: Array, codes: Array, radii: Array, eps: float) -> Array:
    """Compute 1 - d / (r (1 + eps)), and 1 where the class has no extent."""
    slope = np.divide(1.0, radii * (1.0 + eps), out=np.zeros_like(radii), where=radii > 0)
    mu: Array = slope.take(codes)
    mu *= distance
    np.subtract(1.0, mu, out=mu)
    # A sample of weight zero may lie beyond the radius.
    return np.maximum(mu, eps / (1.0 + eps), out=mu)
