"""Base of the classic estimators: fits with weights alone."""

from __future__ import annotations

from typing import Any, Self

from fuzzytwin._utils.types import Array
from fuzzytwin.core.planes import Planes
from fuzzytwin.estimators.streaming import MomentClassifier, needs_moments
from fuzzytwin.fit import fitting
from fuzzytwin.fit.rows import Rows
from fuzzytwin.fit.settings import FitSettings


class WeightedMomentClassifier(MomentClassifier):
    """Base of classifiers from moments that take rows, labels and weights, and no degrees."""

    _solvers: tuple[str, ...] = ("moments", "gram")
    _moments = staticmethod(fitting.weighted_moments)
    # Whether shifting all rows changes nothing but the intercepts.
    _centred = True

    def _solve_rows(
        self, settings: FitSettings, rows: Rows, solver: str
    ) -> tuple[Array | None, Planes]:
        return None, fitting.fit_features(settings, rows, self._solve, centred=self._centred)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the planes from all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @needs_moments
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows. Exact: the result is that of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are those of the first batch: see
        `FuzzyTwinSVC.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; labels may be missing from a batch.
        classes : array-like of shape (K,), default=None
            All labels; needed in the first call only.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)

    @needs_moments
    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows. The result is that of one `fit` on the rows that remain.

        Refused, with the model left as it was, where too many digits would cancel or the rows
        cannot have been learned: see `FuzzyTwinSVC.forget`.

        Parameters
        ----------
        X, y, sample_weight
            The rows, just as they were given to `fit` or `partial_fit`.

        Returns
        -------
        self
        """
        return self._forget(X, y, sample_weight)
