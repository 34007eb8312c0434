"""Base classes of memberships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from fuzzytwin._params import Constraint, check_bool, check_params
from fuzzytwin._rows import check_weights, label_array
from fuzzytwin._utils.types import Array, Matrix, canonical
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.solvers import ClassMeans, ClassSummary, choose_solver


class Membership(BaseEstimator, ABC):
    """Base class of all memberships.

    A subclass computes `_degrees` of validated rows, and declares the `_constraints` of its
    parameters.

    Examples
    --------
    >>> from fuzzytwin import CenterMembership
    >>> CenterMembership()([[0.0], [1.0], [5.0]], ["a", "a", "a"]).round(2)
    array([0.33, 0.67, 0.  ])
    """

    name: str = ""  # its key in `MEMBERSHIPS`
    imbalance: bool
    _constraints: ClassVar[Mapping[str, Constraint]] = {}

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Compute the degrees of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            Finite, at least 0, and not all 0.

        Returns
        -------
        ndarray of shape (n,)
            Degrees in (0, 1].
        """
        self.check()
        X = canonical(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        classes, codes = np.unique(column_or_1d(label_array(y)), return_inverse=True)
        check_consistent_length(X, codes)
        weight = check_weights(sample_weight, len(codes))
        s = np.ones(len(codes)) if weight is None else weight
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
            Sample weights, without `class_weight`. A weight of w counts as w rows.
        moments : ClassMoments or ClassMeans
            Moments or means of these rows with these weights.
        class_factors : ndarray of shape (K,), default=None
            The factors of `class_weight`. They are used only for the first planes of
            `HyperplaneMembership`, not for centres, neighbours and `imbalance`.

        Returns
        -------
        ndarray of shape (n,)
        """
        mu = self._degrees(X, codes, s, moments, class_factors)
        if self.imbalance:
            mu = mu * balance_factors(moments)[codes]
        return mu

    def check(self) -> None:
        """Raise a ValueError if a parameter is out of range."""
        constraints = {**self._constraints, "imbalance": check_bool}
        check_params(self.get_params(), constraints, owner=type(self).__name__)

    @abstractmethod
    def _degrees(
        self, X: Matrix, codes: Array, s: Array, moments: ClassSummary, class_factors: Array | None
    ) -> Array: ...


def class_summary(X: Any, codes: Array, s: Array, n_classes: int) -> ClassSummary:
    """Compute the moments of rows, or only their means if moments are too large or costly."""
    if choose_solver(X, n_classes) == "moments":
        return ClassMoments.from_rows(X, codes, s, n_classes=n_classes)
    return ClassMeans.from_rows(X, codes, s, n_classes)


def balance_factors(moments: ClassSummary) -> Array:
    """Compute n_min / n_k of each class, by weight: 1 for the smallest class."""
    present = moments.weight > 0
    smallest = moments.weight[present].min()
    return np.divide(smallest, moments.weight, out=np.ones_like(moments.weight), where=present)
