"""Provide what every estimator shares: fitted attributes set at once, and prediction by planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fuzzytwin import fitting
from fuzzytwin._utils.threads import run_blocks, working
from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances
from fuzzytwin.core.nearest import label_slices, row_labels
from fuzzytwin.core.planes import Planes
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.rows import refuse_non_finite, validate_features
from fuzzytwin.settings import FitSettings, count_threads


class PlaneClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers that are a set of planes, linear in X or in features of landmarks."""

    classes_: Array
    coef_: Array
    intercept_: Array
    plane_classes_: Array
    landmark_map_: LandmarkMap
    n_jobs: int | None = None

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters; a bad one gets a ValueError that names it."""
        return FitSettings.of(self)

    def _store(self, names: Array | None, planes: Planes, **fitted: Any) -> Self:
        """Replace every fitted attribute, now that nothing can fail any more.

        An attribute that is None is left out.
        """
        fitted |= {
            "feature_names_in_": names,
            "coef_": planes.coef,
            "intercept_": planes.intercept,
            "plane_classes_": planes.classes,
            "rank_": planes.rank,
            "width_coef_": planes.width_coef,
            "width_intercept_": planes.width_intercept,
        }
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name, value in fitted.items():
            if value is not None:
                setattr(self, name, value)
        return self

    def _planes(self) -> Planes:
        """Collect the planes from the fitted attributes."""
        widths = (getattr(self, name, None) for name in ("width_coef_", "width_intercept_"))
        return Planes(self.coef_, self.intercept_, self.plane_classes_, None, *widths)

    def plane_values(self, X: Any) -> tuple[Array, Array | None]:
        """Compute the value of every plane at each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        f : ndarray of shape (n, n_planes)
            Centres ``w.x + b``.
        g : ndarray of shape (n, n_planes) or None
            Widths ``c.|x| + d``; None for crisp planes.
        """
        X, planes = validate_features(self, X), self._planes()
        widths: Any = planes.width_coef, planes.width_intercept
        f = np.empty((X.shape[0], len(planes.coef)))
        g = None if widths[0] is None else np.empty_like(f)

        def fill(here: slice, x: Any, z: Any) -> None:
            f[here] = distances.plane_values(z, planes.coef, planes.intercept)
            if g is not None:
                g[here] = distances.plane_values(x, *widths, absolute=True)

        self._read(X, planes, fill)
        return f, g

    def _read(self, X: Any, planes: Planes, fill: Callable[[slice, Any, Any], None]) -> None:
        """Call a function for every block of validated rows, on the threads of `n_jobs`.

        It is given the place of the rows, the rows and their features. Rows that are not finite
        are refused here, a block at a time: the next to read them finds them in the cache.
        """
        n, d = X.shape
        phi, names = getattr(self, "landmark_map_", None), getattr(self, "feature_names_in_", None)
        work = planes.coef.size if phi is None else phi.root.size

        def block(here: slice) -> None:
            x = X[here]
            refuse_non_finite(x, names)
            fill(here, x, fitting.features(x, phi))

        with working(count_threads(self.n_jobs), n * work, d):
            columns = max(d, planes.coef.shape[1])
            run_blocks(block, label_slices(n, columns, len(self.classes_)))


class NearestPlane(PlaneClassifier):
    """Base of classifiers that label a row by its nearest plane (eq29)."""

    rule: str = "distance"

    def _scaled_planes(self) -> Planes:
        """Collect the planes, scaled so that their values are distances by the rule."""
        return distances.in_units(self._planes(), self.rule)

    def predict(self, X: Any) -> Array:
        """Predict the label of each row: the class of greatest membership.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        X, planes, K = validate_features(self, X), self._scaled_planes(), len(self.classes_)
        labels = np.empty(X.shape[0], dtype=self.classes_.dtype)

        def fill(here: slice, x: Any, z: Any) -> None:
            labels[here] = self.classes_[row_labels(x, z, planes, K)]

        self._read(X, planes, fill)
        return labels

    def decision_function(self, X: Any) -> Array:
        """Compute scores from memberships.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes u_2 - u_1, in [-1, 1] and positive for ``classes_[1]``; for more
            the memberships themselves.
        """
        u = self.predict_membership(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def predict_membership(self, X: Any) -> Array:
        """Compute the degree (eq29) to which each row belongs to each class; rows sum to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        X, planes, K = validate_features(self, X), self._scaled_planes(), len(self.classes_)
        u = np.empty((X.shape[0], K))

        def fill(here: slice, x: Any, z: Any) -> None:
            u[here] = distances.row_memberships(x, z, planes, K)

        self._read(X, planes, fill)
        return u

    def predict_proba(self, X: Any) -> Array:
        """Return `predict_membership` under the name that scikit-learn's tools look for.

        These are not calibrated probabilities: wrap the model in
        `sklearn.calibration.CalibratedClassifierCV` where you need some.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self.predict_membership(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithms of `predict_proba`; -inf where that is 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Compute the fuzzy distance (Definition 1) of each row to each plane.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        delta, gamma : ndarray of shape (n, n_planes)
            ``|f| / |w|`` and its width ``g / |w|`` (zero for crisp planes).
        """
        f, g = self.plane_values(X)
        return distances.fuzzy_distances(f, g, distances.plane_norms(self.coef_))
