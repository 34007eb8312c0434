"""Base classes of all memberships: validation, balance of classes, streaming in passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from fuzzytwin._utils.threads import map_threads, run_blocks
from fuzzytwin._utils.types import Array, Matrix, canonical, public_in
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.solvers import ClassMeans, ClassSummary, Shape, choose_solver

# Degrees that are computed at a time: they stay in the cache.
DEGREES = 1 << 15


@public_in("fuzzytwin.memberships")
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

        Returns
        -------
        ndarray of shape (n,)
            Degrees in (0, 1].
        """
        X = canonical(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
        check_consistent_length(X, codes)
        s = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, float)
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


@public_in("fuzzytwin.memberships")
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
        blocks = [slice(start, start + DEGREES) for start in range(0, n, DEGREES)]
        found = map_threads(lambda at: class_radii(distance[at], codes[at], s[at], K), blocks)
        radii = np.max(list(found), axis=0, initial=0.0)
        mu = np.empty(n)

        def fill(at: slice) -> None:
            mu[at] = self.from_distance(distance[at], codes[at], radii)

        run_blocks(fill, blocks)
        return mu


def class_summary(X: Any, codes: Array, s: Array, n_classes: int) -> ClassSummary:
    """Compute the moments of rows, or where these are too large, or costly, their means."""
    if choose_solver(Shape.of(X, n_classes)) == "moments":
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


def require_count(owner: Membership, name: str) -> None:
    """Raise a ValueError unless a parameter is a whole number of at least 1."""
    value = getattr(owner, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and value >= 1, owner, name, "a whole number of at least 1")
