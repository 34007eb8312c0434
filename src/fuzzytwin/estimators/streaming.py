"""Add, merge and forget rows exactly, by adding moments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.estimators.nearest_plane import PlaneClassifier
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.rows import Rows, validate_rows
from fuzzytwin.settings import FitSettings

Moments = TwinMoments | ClassMoments

# Moments of rows depend on these parameters; on all others, planes alone depend.
ROW_PARAMETERS = (
    "membership_scope", "kernel", "gamma", "relevance", "degree", "coef0", "n_landmarks",
)  # fmt: skip

GIVEN_ARRAYS = ("gamma", "n_landmarks")


class MomentClassifier(PlaneClassifier):
    """Base of classifiers that are functions of moments: rows can be added and models merged.

    A subclass gives `_moments`, from rows to moments, and `_solve`, from moments to planes.
    """

    moments_: Any
    membership_: Array
    forget_loss_: Array
    row_parameters_: dict[str, Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _moments(
        self, settings: FitSettings, rows: Rows, phi: LandmarkMap | None
    ) -> tuple[Any, Array | None]:
        """Compute the moments of rows, and their degrees if the estimator has any."""
        raise NotImplementedError

    def _solve(self, settings: FitSettings, moments: Any, classes: Array) -> Planes:
        """Compute the planes from moments."""
        raise NotImplementedError

    def _store_moments(
        self,
        names: Array | None,
        classes: Array,
        phi: LandmarkMap | None,
        moments: Moments,
        planes: Planes,
        **fitted: Any,
    ) -> Self:
        own = moments.own if isinstance(moments, TwinMoments) else moments
        width = own.origin.shape[1] if phi is None else phi.landmarks.shape[1]
        parameters = self.get_params(deep=False)
        # Arrays are copied: a change of the caller's is a change of the parameter.
        row_parameters = {
            name: copy.deepcopy(parameters[name]) if name in GIVEN_ARRAYS else parameters[name]
            for name in ROW_PARAMETERS
            if name in parameters
        }
        return self._store(
            names, planes, classes_=classes, n_features_in_=width, landmark_map_=phi,
            moments_=moments, row_parameters_=row_parameters, solver_="moments", **fitted,
        )  # fmt: skip

    def _store_rows(self, rows: Rows, planes: Planes, solver: str, **fitted: Any) -> Self:
        """Store planes that were found without moments."""
        return self._store(
            rows.names, planes, classes_=rows.classes, n_features_in_=rows.X.shape[1],
            solver_=solver, **fitted,
        )  # fmt: skip

    def _need_moments(self, action: str) -> None:
        """Refuse to add, merge or remove rows where there are no moments."""
        used = getattr(self, "solver_", "moments")
        if used != "moments":
            raise ValueError(
                f"{action} needs moments, which a fit with solver={used!r} does not keep; fit with "
                "solver='moments' (few enough columns: SelectKBest, TruncatedSVD), or fit on all "
                "rows again."
            )

    def fit_moments(
        self,
        moments: Any,
        classes: Array,
        *,
        landmark_map: LandmarkMap | None = None,
        feature_names: Any = None,
        degrees: Array | None = None,
        schema: dict[str, Any] | None = None,
    ) -> Self:
        """Learn the planes from moments that were computed elsewhere: by files, workers, folds.

        Parameters
        ----------
        moments : TwinMoments or ClassMoments
            As ``moments_`` of a model of this class.
        classes : ndarray of shape (K,)
            The labels, sorted.
        landmark_map : LandmarkMap, default=None
            The map to the features that the moments are of; None for linear planes.
        feature_names : array-like of str, default=None
            Names of the columns.
        degrees : ndarray of shape (n,), default=None
            What to keep as ``membership_``.
        schema : dict, default=None
            What to keep as ``schema_``: how the files were read.

        Returns
        -------
        self
        """
        settings = self.fit_settings()
        planes = self._solve(settings, moments, classes)
        names = None if feature_names is None else np.array(feature_names, dtype=object)
        return self._store_moments(
            names, classes, landmark_map, moments, planes, membership_=degrees, schema_=schema
        )

    def _partial_fit(self, X: Any, y: Any, classes: Any, *given: Any) -> Self:
        self._need_moments("partial_fit")
        settings = self.fit_settings()
        classes = self._known_classes(classes)
        before = getattr(self, "moments_", None)
        rows = validate_rows(self, settings, X, y, *given, classes=classes, first=before is None)
        row_fitting.choose_solver(settings, rows, ("moments",))
        with settings.working(rows.X):
            phi = self._same_landmarks(settings) or fitting.landmark_map(settings, rows)
            moments, degrees = self._moments(settings, rows, phi)
            total = moments if before is None else before + moments
            planes = self._solve(settings, total, classes)
        names = rows.names if before is None else getattr(self, "feature_names_in_", None)
        loss = getattr(self, "forget_loss_", None)
        return self._store_moments(
            names, classes, phi, total, planes, membership_=degrees, forget_loss_=loss
        )

    def _forget(self, X: Any, y: Any, *given: Any) -> Self:
        check_is_fitted(self)
        self._need_moments("forget")
        settings = self.fit_settings()
        rows = validate_rows(self, settings, X, y, *given, classes=self.classes_, first=False)
        phi = self._same_landmarks(settings)
        loss = getattr(self, "forget_loss_", None)
        with settings.working(rows.X):
            part, _ = self._moments(settings, rows, phi)
            rest, loss = self.moments_.without(part, loss, self.classes_)
            planes = self._solve(settings, rest, self.classes_)
        names = getattr(self, "feature_names_in_", None)
        return self._store_moments(names, self.classes_, phi, rest, planes, forget_loss_=loss)

    def _merge(self, other: Any) -> Self:
        if not isinstance(other, type(self)):
            raise TypeError(
                f"other={other!r} is of type {type(other).__name__}; merge takes a "
                f"{type(self).__name__}."
            )
        check_is_fitted(self)
        check_is_fitted(other)
        self._need_moments("merge")
        other._need_moments("merge")  # noqa: SLF001 (of the same class)
        refuse_difference(self, other)
        settings = self.fit_settings()
        phi = self._same_landmarks(settings)
        total = self.moments_ + other.moments_
        planes = self._solve(settings, total, self.classes_)
        losses = [model.forget_loss_ for model in (self, other) if hasattr(model, "forget_loss_")]
        loss = np.max(losses, axis=0) if losses else None
        names = getattr(self, "feature_names_in_", None)
        degrees = getattr(self, "membership_", None)
        return self._store_moments(
            names, self.classes_, phi, total, planes, membership_=degrees, forget_loss_=loss
        )

    def _known_classes(self, classes: Any) -> Array:
        """Check the labels given to `partial_fit`; those of the first call are kept."""
        known: Array | None = getattr(self, "classes_", None)
        if classes is None and known is not None:
            return known
        if classes is None:
            raise ValueError(
                "classes=None in the first call of partial_fit; give all labels that will occur."
            )
        classes = np.unique(classes)
        if len(classes) < 2:
            raise ValueError(f"classes={classes!r} has one class only; give at least two labels.")
        if known is not None and not np.array_equal(classes, known):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {known!r}; leave them "
                "out or start a new model."
            )
        return classes

    def _same_landmarks(self, settings: FitSettings) -> LandmarkMap | None:
        """Return the map of the rows learned before; None where there is none.

        Parameters that the moments of these rows depend on must be what they were.
        """
        for name, before in getattr(self, "row_parameters_", {}).items():
            now = getattr(settings, name)
            if not same_value(before, now):
                raise ValueError(
                    f"{name}={now!r:.80} was {before!r:.80} when rows were learned before; set it "
                    "back or start a new model."
                )
        return getattr(self, "landmark_map_", None)


class CannotStreamError(AttributeError, ValueError):
    """Rows cannot be added because membership, solver or calibration need all rows at once.

    It is an AttributeError too, so that ``hasattr(model, "partial_fit")`` returns False.
    """


class streaming:
    """Make a method available only while membership, solver and calibration can stream.

    scikit-learn's `available_if` would bury the remedy in the cause of another error.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.function
        solver = model.solver
        if solver not in ("auto", "moments"):
            raise CannotStreamError(
                f"{self.function.__name__} needs moments, which solver={solver!r} does not keep; "
                "set solver='auto' or solver='moments'."
            )
        if getattr(model, "calibration", None) == "loo":
            raise CannotStreamError(
                f"{self.function.__name__} is not available with calibration='loo', which needs "
                "all rows at once. Set calibration='moments' or None, or fit on all rows."
            )
        membership = getattr(model, "membership", None)
        if membership is not None and not getattr(membership, "streams", False):
            raise CannotStreamError(
                f"{self.function.__name__} is not available with membership={membership!r}, which "
                "needs all rows at once. Set membership=None (degrees that you have can be given "
                "to partial_fit), or run over the data twice with fuzzytwin.sources."
            )
        return MethodType(self.function, model)


class WeightedMomentClassifier(MomentClassifier):
    """Base of classifiers from moments that take rows, labels and weights, and no degrees."""

    _solvers: tuple[str, ...] = ("moments", "rows")

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
        settings = self.fit_settings()
        rows = validate_rows(self, settings, X, y, sample_weight)
        solver = row_fitting.choose_solver(settings, rows, self._solvers)
        if solver != "moments":
            with settings.working(rows.X):
                planes = self._solve_rows(settings, rows, solver)
            return self._store_rows(rows, planes, solver)
        with settings.working(rows.X):
            phi = fitting.landmark_map(settings, rows)
            moments, _ = self._moments(settings, rows, phi)
            planes = self._solve(settings, moments, rows.classes)
        return self._store_moments(rows.names, rows.classes, phi, moments, planes)

    @streaming
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

    @streaming
    def merge(self, other: Any) -> Self:
        """Add the rows that another model was fitted on. Exact: as one `fit` on both data sets.

        Parameters
        ----------
        other : estimator of the same class
            Fitted with the same parameters, columns and labels.

        Returns
        -------
        self
        """
        return self._merge(other)

    @streaming
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

    def _moments(
        self, settings: FitSettings, rows: Rows, phi: LandmarkMap | None
    ) -> tuple[ClassMoments, None]:
        return fitting.own_moments(rows, fitting.features(rows.X, phi)), None

    def _solve_rows(self, settings: FitSettings, rows: Rows, solver: str) -> Planes:
        """Compute the planes in the space of the rows."""
        return row_fitting.fit_features(
            settings, rows, lambda moments: self._solve(settings, moments, rows.classes)
        )


def refuse_difference(one: Any, other: Any) -> None:
    """Raise a ValueError unless the moments of two fitted models can be added."""
    own_rows = "each took its own from its rows, so give both the same n_landmarks (an array) "
    own_rows += "and gamma, or begin both as copies of one model."
    mine, theirs = _comparable(one), _comparable(other)
    for name, value in mine.items():
        if not same_value(value, theirs.get(name)):
            remedy = "fit both alike (partial_fit takes the labels that a part lacks)."
            if name in ("gamma", "the landmarks"):
                remedy = own_rows
            shown = f": {value!r:.80} and {theirs.get(name)!r:.80}" if np.ndim(value) < 2 else ""
            raise ValueError(f"the models to merge differ in {name}{shown}; {remedy}")
    if hasattr(one, "landmark_map_"):
        a, b = one.landmark_map_.root, other.landmark_map_.root
        if a.shape != b.shape or np.abs(a - b).max() > 1e-7 * np.abs(a).max():
            raise ValueError(
                "the models to merge have the same landmarks, but their features are rotated "
                "differently (other processors, other versions of LAPACK); begin both as copies "
                "of one model after its first partial_fit."
            )


def _comparable(model: Any) -> dict[str, Any]:
    """Collect what two models must share; random states and counts show in the landmarks.

    Threads do not change what is learned.
    """
    names = getattr(model, "feature_names_in_", None)
    phi = getattr(model, "landmark_map_", None)
    parameters = model.get_params()
    for name in ("gamma", "relevance", "n_landmarks", "n_jobs", "random_state"):
        parameters.pop(name, None)
    return {
        **parameters,
        "the number of columns": model.n_features_in_,
        "the names of the columns": None if names is None else list(names),
        "the labels": model.classes_.tolist(),
        "gamma": None if phi is None else phi.gamma,
        "the landmarks": None if phi is None else phi.landmarks,
    }


def same_value(a: Any, b: Any) -> bool:
    """Return whether parameters are equal: 1 and 1.0, a list and an array, like memberships."""
    if a is b:
        return True
    if isinstance(a, BaseEstimator) or isinstance(b, BaseEstimator):
        return type(a) is type(b) and same_value(a.get_params(), b.get_params())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if sparse.issparse(a) or sparse.issparse(b):
        a, b = (part.toarray() if sparse.issparse(part) else part for part in (a, b))
    if isinstance(a, str) or isinstance(b, str) or callable(a) or callable(b):
        return bool(a == b)
    try:
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    except (TypeError, ValueError):
        return False
