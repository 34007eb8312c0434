"""Base classes of the classic estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import labels_of
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import BY_MOMENTS
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._prediction import available_if
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._streaming import MomentClassifier, check_streamable


class WeightedClassifier(MomentClassifier):
    """Base class of classifiers that take rows, labels and weights, but no membership degrees."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the planes to all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any type, with at least two classes.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, at least 0. A weight of zero is the same as omitting the row.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @available_if(check_streamable)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows. The planes are exactly those of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are taken from the first batch: see
        `FuzzyTwinSVC.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`. A batch need not hold all classes.
        classes : array-like of shape (K,), default=None
            All labels that will occur. Required in the first call only.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)

    @available_if(check_streamable)
    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows. The planes are those of one `fit` on the rows that remain.

        If too many digits would cancel, or if the rows cannot be among the training rows, an error
        is raised and the model stays unchanged: see `FuzzyTwinSVC.forget`.

        Parameters
        ----------
        X, y, sample_weight
            The rows, exactly as they were passed to `fit` or `partial_fit`.

        Returns
        -------
        self
        """
        return self._forget(X, y, sample_weight)


class MomentPlanes(WeightedClassifier):
    """Base class of classifiers whose planes are a function `_solve` of class moments.

    In row space, the same function is applied to the moments of the row features.
    """

    _solvers = BY_MOMENTS
    _shift_invariant = True  # whether shifting all rows changes only the intercepts

    def _solve_rows(self, settings: FitSettings, rows: Rows, solver: str) -> tuple[None, Planes]:
        features = _row_fit.row_features(rows, centred=self._shift_invariant)
        own = own_moments(rows, features.Z)
        planes = self._solve(settings, TwinMoments(own, own), rows.classes)
        coef, intercept = features.columns(rows.X, planes.coef, planes.intercept)
        return None, Planes(coef, intercept, planes.classes, planes.rank)


class SeparatingPlanes(MomentPlanes):
    """Base class of classifiers whose planes have the own class at f > 0, its rivals at f < 0."""

    def decision_function(self, X: Any) -> Array:
        """Compute w.x + b or, for more than two classes, the votes of the pairs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            With two classes, positive for ``classes_[1]``. With more, one column per class.
        """
        f, _ = self.plane_values(X)
        return self._scores(f)

    def _scores(self, f: Array) -> Array:
        """Turn the values of all planes into scores of the classes."""
        if len(self.classes_) == 2:
            return f[:, 0]
        return pair_votes(f, self.plane_classes_, len(self.classes_))

    def predict(self, X: Any) -> Array:
        """Predict the label of each row: the class of greatest value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.decision_function(X)
        codes = labels_of(np.column_stack([-f, f]) if f.ndim == 1 else f)
        labels: Array = self.classes_[codes]
        return labels


def pair_votes(f: Array, classes: Array, n_classes: int) -> Array:
    """Turn the values of one separating plane per pair into scores of the classes.

    A score is the number of pairs that a class wins, plus a term of absolute value below 1/3 from
    the sum of its values, which only breaks ties of votes.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.classics._base import pair_votes
    >>> classes = np.array([[1, 0], [2, 0], [2, 1]])
    >>> pair_votes(np.array([[-1.0, -0.5, 2.0]]), classes, 3).round(2).tolist()
    [[2.2, -0.25, 1.2]]
    """
    own = classes[:, 0, None] == np.arange(n_classes)
    rival = classes[:, 1, None] == np.arange(n_classes)
    votes = np.where(f > 0, 1.0, 0.0) @ own + np.where(f > 0, 0.0, 1.0) @ rival
    total = f @ (own.astype(float) - rival)
    return np.asarray(votes + total / (3 * (np.abs(total) + 1)))
