"""Prediction by planes that separate: the sign of one plane, one plane per class, or votes."""

from __future__ import annotations

from typing import Any

from fuzzytwin._utils.types import Array
from fuzzytwin.core.pairs import pair_votes
from fuzzytwin.estimators.nearest_plane import PlaneClassifier


class SeparatingPlanes(PlaneClassifier):
    """Base of classifiers whose planes have the own class at f > 0 and its rivals at f < 0."""

    def decision_function(self, X: Any) -> Array:
        """Compute w.x + b, or scores of the classes where there is a plane per pair of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes positive for ``classes_[1]``; for more, one column per class.
        """
        f, _ = self.plane_values(X)
        return self._scores(f)

    def _scores(self, f: Array) -> Array:
        """Turn the values of all planes into scores of the classes."""
        if len(self.classes_) == 2:
            return f[:, 0]
        if (self.plane_classes_[:, 1] < 0).all():
            return f
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
        codes = (f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels
