"""Provide what every estimator shares: fitted attributes set at once, and prediction by planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._params import count_threads, set_fitted_attributes
from fuzzytwin._rows import check_finite, validate_features
from fuzzytwin._utils.threads import run_blocks, thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances
from fuzzytwin.core.planes import Planes
from fuzzytwin.kernels import KernelOverflowError, LandmarkMap
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import Calibration


def labels_by(model: Any, u: Array) -> Array:
    """Find labels by memberships or probabilities; class weights move labels, not these."""
    codes = distances.labels_of(u * getattr(model, "class_weight_", 1.0))
    return np.asarray(model.classes_[codes])


def refuse_kernel_overflow(X: Any, phi: LandmarkMap | None, start: int, names: Any) -> None:
    """Raise an error that names the row, of rows from `start` on, where a kernel is not finite."""
    if phi is None:
        return
    try:
        phi.kernel_values(X)
    except KernelOverflowError as error:
        raise error.located(start, names) from None


class PlaneClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers that are a set of planes, linear in X or in features of landmarks."""

    classes_: Array
    coef_: Array
    intercept_: Array
    plane_classes_: Array
    landmark_map_: LandmarkMap
    n_jobs: int | None = None

    def _store(self, planes: Planes, **fitted: Any) -> Self:
        """Replace every fitted attribute by planes and what else was learned; return self."""
        set_fitted_attributes(
            self,
            **fitted,
            coef_=planes.coef,
            intercept_=planes.intercept,
            plane_classes_=planes.classes,
            rank_=planes.rank,
            width_coef_=planes.width_coef,
            width_intercept_=planes.width_intercept,
        )
        return self

    def _planes(self) -> Planes:
        """Collect the planes from the fitted attributes."""
        check_is_fitted(self)
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
        planes = self._planes()
        centre, n_planes = (planes.coef, planes.intercept), len(planes.coef)
        width: Any = planes.width_coef, planes.width_intercept
        values = distances.plane_values
        f = self._by_blocks(X, planes, lambda _, z: values(z, *centre), n_planes)
        if planes.width_coef is None:
            return f, None
        g = self._by_blocks(X, planes, lambda x, _: values(x, *width, absolute=True), n_planes)
        return f, g

    def _by_blocks(
        self, X: Any, planes: Planes, compute: Callable[[Any, Any], Array], *shape: int
    ) -> Array:
        """Fill an array (n, *shape), or (n,) labels, with a function of rows and their features.

        Blocks are read on the threads of `n_jobs`. Rows that are not finite are refused here, a
        block at a time: the next to read them finds them in the cache.
        """
        X = validate_features(self, X)
        n, d = X.shape
        phi, names = getattr(self, "landmark_map_", None), getattr(self, "feature_names_in_", None)
        work = planes.coef.size if phi is None else phi.root.size
        out = np.empty((n, *shape), dtype=np.float64 if shape else self.classes_.dtype)

        def block(here: slice) -> None:
            x = X[here]
            check_finite(x, names)
            try:
                out[here] = compute(x, fitting.features(x, phi))
            except KernelOverflowError:
                refuse_kernel_overflow(x, phi, here.start, names)
                raise

        with thread_pool(count_threads(self.n_jobs), n * work, d):
            columns = max(d, planes.coef.shape[1])
            run_blocks(block, distances.label_slices(n, columns, len(self.classes_)))
        return out


class NearestPlane(PlaneClassifier):
    """Base of classifiers that label a row by its nearest plane, or by calibrated probabilities."""

    rule: str = "distance"
    calibration: str | None = None
    calibration_parameters_: dict[str, Any]

    def predict(self, X: Any) -> Array:
        """Predict the label of each row.

        It is the class of greatest membership or, with `calibration`, the most probable one;
        there, class weights count as the cost of an error.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        calibrated = self._calibration()
        if calibrated is not None:
            codes = distances.labels_of(self._weighted_proba(X, calibrated))
            return np.asarray(self.classes_[codes])
        planes, K = self._scaled_planes(), len(self.classes_)

        def compute(x: Any, z: Any) -> Array:
            return np.asarray(self.classes_[distances.row_labels(x, z, planes, K)])

        return self._by_blocks(X, planes, compute)

    def decision_function(self, X: Any) -> Array:
        """Compute scores: memberships u or, with `calibration`, probabilities.

        Class weights count as in `predict`: the greatest score is that of the label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes u_2 - u_1, in [-1, 1] and positive for ``classes_[1]``; for more u.
        """
        calibrated = self._calibration()
        if calibrated is None:
            u = self.predict_membership(X)
        else:
            u = self._weighted_proba(X, calibrated)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def predict_membership(self, X: Any) -> Array:
        """Compute the degree to which each row belongs to each class; rows sum to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        planes, K = self._scaled_planes(), len(self.classes_)
        return self._by_blocks(
            X, planes, lambda x, z: distances.row_memberships(x, z, planes, K), K
        )

    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class; rows sum to 1.

        Without a calibration these are memberships, which are not calibrated probabilities: set
        ``calibration`` (`FuzzyTwinSVC`), or wrap the model in
        `sklearn.calibration.CalibratedClassifierCV`. Calibrated probabilities are those of the
        population as given, whatever the class weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        calibrated = self._calibration()
        if calibrated is None:
            return self.predict_membership(X)
        return calibrated.unweighted(self._weighted_proba(X, calibrated).T).T

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
        """Compute the fuzzy distance (Definition 1 of the paper) of each row to each plane.

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

    def _scaled_planes(self) -> Planes:
        """Collect the planes, scaled so that their values are distances by the rule."""
        return distances.unit_normals(self._planes(), self.rule)

    def _calibration(self) -> Calibration | None:
        """Return the calibration; it must be of the parameters as they are now."""
        check_is_fitted(self)
        known = getattr(self, "calibration_parameters_", {"calibration": None})
        for name, before in known.items():
            now = getattr(self, name)
            if now != before:
                raise ValueError(
                    f"{name}={now!r} was {before!r} when the model was fitted; set it back or fit "
                    "again."
                )
        return None if known["calibration"] is None else Calibration.of(vars(self))

    def _weighted_proba(self, X: Any, calibrated: Calibration) -> Array:
        """Compute probabilities (n, K) of classes weighted as the planes were fitted."""
        planes, scaled, K = self._planes(), self._scaled_planes(), len(self.classes_)

        def compute(x: Any, z: Any) -> Array:
            z = z[0 : z.shape[0]]  # features of landmarks are computed where they are sliced
            f = distances.plane_values(z, planes.coef, planes.intercept).T
            return calibrated.weighted(f, distances.plane_distances(x, z, scaled), K).T

        return self._by_blocks(X, planes, compute, K)
