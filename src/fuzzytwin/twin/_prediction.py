"""Base classes of plane classifiers: fitted attributes and prediction in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._params import count_threads, set_fitted_attributes
from fuzzytwin._rows import check_finite, check_predicted, validate_features
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import run_blocks
from fuzzytwin.core import distances
from fuzzytwin.core.planes import Planes
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmark_map import KernelOverflowError
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import Calibration


def labels_by(model: Any, u: Array) -> Array:
    """Return the labels of memberships or probabilities u, with class weights as costs."""
    codes = distances.labels_of(u * getattr(model, "class_weight_", 1.0))
    return np.asarray(model.classes_[codes])


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the classifier at the end of pipelines and searches, and the rows that it gets."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X) if len(model) > 1 else X
            model = model[-1]
        else:
            model = model.best_estimator_
    return model, X


def class_values(classifier: Any, X: Any) -> Array:
    """Return probabilities (n, K), or memberships if the classifier has no probabilities."""
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(X))
    return np.asarray(classifier.predict_membership(X))


def check_kernel_overflow(X: Any, phi: LandmarkMap | None, start: int, names: Any) -> None:
    """Raise an error that names the row of a non-finite kernel value. X starts at row `start`."""
    if phi is None:
        return
    try:
        phi.kernel_values(X)
    except KernelOverflowError as error:
        raise error.located(start, names) from None


class UnavailableError(AttributeError, ValueError):
    """Raised by a method that needs other parameters. Its message names them.

    It is an AttributeError, so that ``hasattr`` returns False.
    """


class available_if:
    """Make a method available unless a function of the model and the method's name raises an error.

    scikit-learn's `available_if` would hide the remedy in the cause of another error.
    """

    def __init__(self, check: Callable[[Any, str], None]) -> None:
        self.check = check

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Return the method."""
        return _Available(self.check, function)


class _Available:
    """A method that is available if a check passes."""

    def __init__(self, check: Callable[[Any, str], None], function: Callable[..., Any]) -> None:
        self.check = check
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.function
        self.check(model, self.function.__name__)
        return MethodType(self.function, model)


def check_calibrated(model: Any, name: str) -> None:
    """Raise an error if a model has no probabilities."""
    if model.calibration is None:
        raise UnavailableError(
            f"{name} needs probabilities, which a {type(model).__name__} with calibration=None "
            "does not have; use predict_membership, fit with calibration='loo', or use a "
            "FuzzyTwinCommittee."
        )


class PlaneClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers given by planes, linear in X or in landmark features."""

    classes_: Array
    coef_: Array
    intercept_: Array
    plane_classes_: Array
    landmark_map_: LandmarkMap
    n_jobs: int | None = None

    def _store(self, planes: Planes, **fitted: Any) -> Self:
        """Replace all fitted attributes by those of `planes` and `fitted`, and return self."""
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
            Widths ``c.|x| + d``. None for crisp planes.
        """
        planes = self._planes()
        n_planes = len(planes.coef)
        centre = planes.coef, planes.intercept
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
        """Return an array (n, *shape), or (n,) labels, of a function of rows and their features.

        Blocks are processed on the threads of `n_jobs`. Finite values are checked block by block,
        while the block is in the cache.
        """
        X = validate_features(self, X)
        n, d = X.shape
        phi = getattr(self, "landmark_map_", None)
        names = getattr(self, "feature_names_in_", None)
        work = planes.coef.size if phi is None else phi.root.size
        out = np.empty((n, *shape), dtype=np.float64 if shape else self.classes_.dtype)

        def compute_block(block: slice) -> None:
            x = X[block]
            check_finite(x, names)
            try:
                out[block] = compute(x, fitting.features(x, phi))
            except KernelOverflowError:
                check_kernel_overflow(x, phi, block.start, names)
                raise

        with thread_pool(count_threads(self.n_jobs), n * work, d):
            columns = max(d, planes.coef.shape[1])
            run_blocks(compute_block, distances.label_slices(n, columns, len(self.classes_)))
        return out


class NearestPlane(PlaneClassifier):
    """Base class of classifiers by the nearest plane."""

    rule: str = "distance"

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
        planes = self._scaled_planes()
        K = len(self.classes_)

        def compute(x: Any, z: Any) -> Array:
            return np.asarray(self.classes_[distances.row_labels(x, z, planes, K)])

        return self._by_blocks(X, planes, compute)

    def decision_function(self, X: Any) -> Array:
        """Compute scores: memberships u or, with a calibration, probabilities.

        Class weights count as in `predict`: the greatest score is that of the label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes u_2 - u_1, in [-1, 1] and positive for ``classes_[1]``. For more, u.
        """
        u = self._scores(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def _scores(self, X: Any) -> Array:
        """Compute what `decision_function` and `predict` compare, (n, K)."""
        return self.predict_membership(X)

    def predict_membership(self, X: Any) -> Array:
        """Compute the membership of each row in each class. Rows sum to 1.

        A membership is a ratio of distances to planes, and no probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        planes = self._scaled_planes()
        K = len(self.classes_)
        u = self._by_blocks(X, planes, lambda x, z: distances.row_memberships(x, z, planes, K), K)
        return check_predicted(u)

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Compute the fuzzy distance (Definition 1 of the paper) of each row to each plane.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        delta, gamma : ndarray of shape (n, n_planes)
            ``|f| / |w|`` and its width ``g / |w|`` (zero for crisp planes). For two classes, the
            columns are those of ``classes_``. For three or more, ``plane_classes_`` says which
            classes each plane belongs to.
        """
        f, g = self.plane_values(X)
        return distances.fuzzy_distances(f, g, distances.plane_norms(self.coef_))

    def _scaled_planes(self) -> Planes:
        """Collect the planes, scaled so that their values are the distances of `rule`."""
        return distances.unit_normals(self._planes(), self.rule)


class CalibratedPlanes(NearestPlane):
    """Base class of classifiers by the nearest plane that may be calibrated."""

    calibration: str | None
    calibration_parameters_: dict[str, Any]

    def predict(self, X: Any) -> Array:
        """Predict the label of each row.

        The label is the class of greatest membership or, with `calibration`, the most probable
        class. With `calibration`, class weights count as the costs of errors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self._calibration() is None:
            return super().predict(X)
        return np.asarray(self.classes_[distances.labels_of(self._scores(X))])

    @available_if(check_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class. Rows sum to 1. Only with `calibration`.

        Probabilities refer to the class frequencies of the training rows, regardless of class
        weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        calibrated = self._calibration()
        assert calibrated is not None
        return calibrated.unweighted(self._scores(X).T).T

    @available_if(check_calibrated)
    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithms of `predict_proba` (-inf for probabilities of 0).

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

    def _calibration(self) -> Calibration | None:
        """Return the calibration, or None. Raise a ValueError if its parameters have changed."""
        check_is_fitted(self)
        parameters = getattr(self, "calibration_parameters_", {"calibration": None})
        for name, before in parameters.items():
            now = getattr(self, name)
            if now != before:
                raise ValueError(
                    f"{name}={now!r} was {before!r} when the model was fitted; restore it or fit "
                    "again."
                )
        return None if parameters["calibration"] is None else Calibration.of(vars(self))

    def _scores(self, X: Any) -> Array:
        """Compute memberships or probabilities of classes weighted as the planes were fitted."""
        calibrated = self._calibration()
        if calibrated is None:
            return self.predict_membership(X)
        planes = self._planes()
        scaled = self._scaled_planes()
        K = len(self.classes_)

        def compute(x: Any, z: Any) -> Array:
            z = z[0 : z.shape[0]]  # slicing computes lazy landmark features
            f = distances.plane_values(z, planes.coef, planes.intercept).T
            return calibrated.weighted(f, distances.plane_distances(x, z, scaled), K).T

        return check_predicted(self._by_blocks(X, planes, compute, K))
