"""Memberships computed from moments of the classes, which also work chunk by chunk."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from fuzzytwin._params import choice, number
from fuzzytwin._utils.types import Array, Matrix
from fuzzytwin._utils.workers import map_threads, run_blocks
from fuzzytwin.core import distances
from fuzzytwin.core.blocks import BLOCK_NUMBERS, block_slices, row_slices
from fuzzytwin.core.planes import Planes, crisp_planes
from fuzzytwin.core.solvers import ClassMeans, ClassSummary
from fuzzytwin.memberships._base import Membership

BLOCK_DEGREES = 1 << 15  # degrees that are computed at once, so that they stay in the cache


class MomentMembership(Membership):
    """Base class of memberships computed from a distance of each row and the maximum in its class.

    The three steps (`prepare` from moments, `distance` of rows, `from_distance`) can be run
    over chunks: moments in a first pass, radii in a second, degrees in a third.
    """

    @property
    def needs_radii(self) -> bool:
        """Return whether `from_distance` needs the radii, which take another pass over the rows."""
        return True

    @abstractmethod
    def prepare(self, moments: ClassSummary) -> Any:
        """Compute what `distance` needs, from the moments of all rows, class factors included."""

    @abstractmethod
    def distance(self, X: Matrix, codes: Array, prepared: Any) -> Array:
        """Compute the distance of each row."""

    @abstractmethod
    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Compute degrees. `radii` (K,) are the greatest distances in each class."""

    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array:
        scaled = moments if class_factors is None else moments.scaled(class_factors)
        distance = self.distance(X, codes, self.prepare(scaled))
        K = len(moments.weight)
        n = len(codes)
        blocks = block_slices(n, BLOCK_DEGREES)

        def radii_of(rows: slice) -> Array:
            return class_radii(distance[rows], codes[rows], s[rows], K)

        parts = map_threads(radii_of, blocks)
        radii = np.max(list(parts), axis=0, initial=0.0)
        mu = np.empty(n)

        def fill(rows: slice) -> None:
            mu[rows] = self.from_distance(distance[rows], codes[rows], radii)

        run_blocks(fill, blocks)
        return mu


class CenterMembership(MomentMembership):
    r"""Degrees that decrease with the distance from the centre of a row's class.

    With d the distance from the weighted mean of the class and r the greatest such d,

        linear:       mu = 1 - d / (r (1 + eps))
        exponential:  mu = 2 / (1 + exp(beta d))

    The paper prints the first without "1 -", which would favour outliers.

    Parameters
    ----------
    decay : {"linear", "exponential"}, default="linear"
        Formula of the degrees.
    beta : float, default=1.0
        Steepness of the exponential decay, above zero.
    eps : float, default=1e-6
        Margin relative to r, which keeps the degree of the farthest row above zero.
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
    _constraints: ClassVar = {
        "decay": choice("linear", "exponential"),
        "beta": number(above=0.0),
        "eps": number(above=0.0),
    }

    def __init__(
        self,
        *,
        decay: str = "linear",
        beta: float = 1.0,
        eps: float = 1e-6,
        imbalance: bool = False,
    ) -> None:
        self.decay = decay
        self.beta = beta
        self.eps = eps
        self.imbalance = imbalance

    @property
    def needs_radii(self) -> bool:
        """Return whether radii are needed: for the linear decay only."""
        return self.decay == "linear"

    def prepare(self, moments: ClassSummary) -> ClassSummary:
        """Return the moments, whose means are the centres."""
        return moments

    def distance(self, X: Matrix, codes: Array, prepared: ClassSummary) -> Array:
        """Compute the Euclidean distance of each row from the centre of its class."""
        centers = prepared.mean
        n, d = X.shape
        if sparse.issparse(X):
            return _sparse_distances(X, codes, centers)
        out = np.empty(n)

        def measure(block: slice) -> None:
            Z = centers.take(codes[block], axis=0, mode="clip")
            np.subtract(X[block], Z, out=Z)
            out[block] = np.sqrt(np.einsum("ij,ij->i", Z, Z))

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

        relative:  mu = the membership of the own label; for two classes a_rival / (a_own + a_rival)
        distance:  mu = 1 - a_own / (max a_own (1 + eps)); for more than two classes with the mean
                   of the distances to the planes of the own class in all its pairs

    Parameters
    ----------
    kind : {"relative", "distance"}, default="relative"
        Formula of the degrees. The second is the paper's.
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
    _constraints: ClassVar = {
        "kind": choice("relative", "distance"),
        "C": number(above=0.0),
        "alpha": number(),
        "eps": number(above=0.0, below=1.0),
    }

    def __init__(
        self,
        *,
        kind: str = "relative",
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

    @property
    def needs_radii(self) -> bool:
        """Return whether radii are needed: for the kind "distance" only."""
        return self.kind == "distance"

    def prepare(self, moments: ClassSummary) -> Planes:
        """Solve for the planes of an LST-SVM without memberships."""
        C = np.full(len(moments.weight), float(self.C))
        if isinstance(moments, ClassMeans):
            return moments.crisp_planes(C, self.alpha)
        return crisp_planes(moments, moments, C, self.alpha)

    def distance(self, X: Matrix, codes: Array, prepared: Planes) -> Array:
        """Compute the distance to the own planes or, for "relative", the own label's membership."""
        K = int(prepared.classes.max()) + 1
        if self.kind == "relative":
            u = distances.row_memberships(X, X, distances.unit_normals(prepared, "distance"), K)
            return u[np.arange(len(codes)), codes]
        f = distances.plane_values(X, prepared.coef, prepared.intercept)
        delta, _ = distances.fuzzy_distances(f, None, distances.plane_norms(prepared.coef))
        # A plane without direction is infinitely far from all rows, and tells them apart no more.
        delta = np.where(np.isfinite(delta), delta, 0.0)
        own_planes = np.argsort(prepared.classes[:, 0], kind="stable").reshape(K, K - 1)
        return np.asarray(np.take_along_axis(delta, own_planes[codes], axis=1).mean(axis=1))

    def from_distance(self, distance: Array, codes: Array, radii: Array) -> Array:
        """Return the relative membership unchanged, or apply a linear decay to the distance."""
        if self.kind == "relative":
            return np.maximum(distance, self.eps)
        return _linear_decay(distance, codes, radii, self.eps)


def class_radii(distance: Array, codes: Array, s: Array, n_classes: int) -> Array:
    """Find the greatest distance in each class among rows of positive weight."""
    radii = np.zeros(n_classes)
    has_weight = s > 0
    if not has_weight.all():
        distance = np.where(has_weight, distance, 0.0)
    np.maximum.at(radii, codes, distance)
    return radii


def _sparse_distances(X: Any, codes: Array, centers: Array) -> Array:
    """Compute distances of sparse rows from the centres of their classes.

    Zeros contribute c_j^2 to sum_j (x_j - c_j)^2. Their sum is that over all columns minus that
    over the stored numbers. Columns without zeros are excluded from both.
    """
    n, d = X.shape
    # In a column without zeros, the difference of both sums would only lose digits.
    has_no_zeros = np.bincount(X.indices, minlength=d) == n
    squares = np.where(has_no_zeros, 0.0, centers**2)
    total = squares.sum(axis=1)
    out = np.empty(n)
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
    """Compute 1 - d / (r (1 + eps)), or 1 if r is zero."""
    slope = np.divide(1.0, radii * (1.0 + eps), out=np.zeros_like(radii), where=radii > 0)
    mu: Array = slope.take(codes)
    mu *= distance
    np.subtract(1.0, mu, out=mu)
    # A row of weight zero may lie beyond the radius.
    return np.maximum(mu, eps / (1.0 + eps), out=mu)
