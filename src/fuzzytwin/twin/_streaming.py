"""Fit from moments; add, merge and forget rows exactly, by adding moments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._duplicates import encode_groups, warn_of_duplicates
from fuzzytwin._rows import Rows, validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import needs_rows
from fuzzytwin.twin._loo import LooEvaluator, calibrate
from fuzzytwin.twin._prediction import PlaneClassifier
from fuzzytwin.twin._settings import FitSettings

# Moments of rows depend on these parameters; on all others, planes alone depend.
ROW_PARAMETERS = (
    "membership_scope", "kernel", "gamma", "relevance", "degree", "coef0", "n_landmarks",
)  # fmt: skip

GIVEN_ARRAYS = ("gamma", "n_landmarks")


class CannotStreamError(AttributeError, ValueError):
    """Rows cannot be added because membership, solver or calibration need all rows at once.

    It is an AttributeError too, so that ``hasattr(model, "partial_fit")`` returns False.
    """


class available_if_streamable:
    """Make a method available only while membership, solver and calibration can stream.

    scikit-learn's `available_if` would bury the remedy in the cause of another error.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.function
        name, solver = self.function.__name__, model.solver
        if solver not in ("auto", "moments"):
            raise CannotStreamError(
                f"{name} needs moments, which solver={solver!r} does not keep; set solver='auto' "
                "or solver='moments'."
            )
        calibration = getattr(model, "calibration", None)
        if needs_rows(calibration):
            raise CannotStreamError(
                f"{name} is not available with calibration={calibration!r}, which needs all rows "
                "at once. Set calibration='moments' or None, or fit on all rows."
            )
        membership = getattr(model, "membership", None)
        if membership is not None and not getattr(membership, "streams", False):
            raise CannotStreamError(
                f"{name} is not available with membership={membership!r}, which needs all rows at "
                "once. Set membership=None (degrees that you have can be given to partial_fit), "
                "or run over the data twice with fuzzytwin.sources."
            )
        return MethodType(self.function, model)


class MomentClassifier(PlaneClassifier):
    """Base of classifiers that are functions of moments: rows can be added and models merged.

    What `fit` calls is given as functions, here those of model M1 and M2: from rows to moments and
    degrees, from moments to planes, and from rows to degrees and planes where there are too many
    columns for moments. The classic estimators have their own.
    """

    moments_: Any
    membership_: Array
    forget_loss_: Array
    alpha_: float
    row_parameters_: dict[str, Any]
    _solvers: tuple[str, ...] = tuple(SOLVERS)
    _moments: Callable[..., Any] = staticmethod(fitting.degree_moments)
    _solve: Callable[..., Planes] = staticmethod(fitting.solve)
    _solve_rows: Callable[..., Any] = staticmethod(fitting.fit_rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters; a bad one gets a ValueError that names it."""
        return FitSettings.of(self)

    def _fit(self, X: Any, y: Any, *given: Any, groups: Any = None) -> Self:
        """Validate rows, then compute degrees, moments, planes and calibration; store them."""
        settings = self.fit_settings()
        rows = validate_rows(self, X, y, *given)
        settings.penalties(rows.classes)  # before the pass over the rows
        if groups is not None:
            told = needs_rows(settings.calibration)  # else none are left out
            groups = encode_groups(groups, len(rows), rows.codes if told else None, rows.classes)
            rows = replace(rows, groups=groups)
        phi, moments, alpha = None, None, None
        with settings.thread_pool(rows.X):
            solver = fitting.choose_solver(settings, rows, self._solvers)
            if solver == "moments":
                phi = fitting.landmark_map(settings, rows)  # the map to features of landmarks
                moments, degrees = self._moments(settings, rows, phi)
                if degrees is not None:
                    fitting.check_opposing_weight(settings, moments.slack.weight)
                planes = self._solve(settings, moments, rows.classes)
            else:
                degrees, planes = self._solve_rows(settings, rows, solver)
                alpha = fitting.used_ridge_of_rows(settings, rows, degrees)
            if needs_rows(settings.calibration) and groups is None:
                warn_of_duplicates(rows.X, "probabilities and sets of labels")
            return self._learned(
                settings, rows.classes, moments, phi, planes, (rows, degrees, phi, groups),
                solver_=solver, alpha_=alpha, feature_names_in_=rows.names,
                membership_=self._all_degrees(degrees, rows),
            )  # fmt: skip

    def _learned(
        self,
        settings: FitSettings,
        classes: Array,
        moments: Any,
        phi: LandmarkMap | None,
        planes: Planes | None = None,
        of_rows: tuple[Any, ...] = (),
        **fitted: Any,
    ) -> Self:
        """Calibrate planes, and store all that was learned, with the parameters it depends on.

        None: the planes of these moments. `of_rows` are rows, degrees, phi and groups of a fit to
        all rows at once.
        """
        if planes is None:
            planes = self._solve(settings, moments, classes)
        if settings.calibration is not None:
            calibration = calibrate(settings, classes, planes, moments, *of_rows)
            known = {"calibration": settings.calibration, "rule": settings.rule}
            fitted |= calibration.attributes() | {"calibration_parameters_": known}
        if moments is not None:
            given = self.get_params(deep=False)
            # Arrays are copied: a change of the caller's is a change of the parameter.
            fitted["row_parameters_"] = {
                name: copy.deepcopy(given[name]) if name in GIVEN_ARRAYS else given[name]
                for name in ROW_PARAMETERS
                if name in given
            }
            fitted["alpha_"] = fitting.used_ridge(settings, moments, classes)
        names = getattr(self, "feature_names_in_", None)
        width = (planes.coef if phi is None else phi.landmarks).shape[1]
        learned = {"solver_": "moments", "feature_names_in_": names, **fitted}
        return self._store(
            planes, classes_=classes, n_features_in_=width, moments_=moments, landmark_map_=phi,
            **learned,
        )  # fmt: skip

    def _all_degrees(self, degrees: Array | None, rows: Rows) -> Array | None:
        """Return the degrees of rows to keep; None where the estimator has no memberships."""
        if degrees is None and hasattr(self, "membership"):
            return np.ones(len(rows.codes))
        return degrees

    def _held_out(self, X: Any, y: Any, *given: Any, groups: Any = None) -> LooEvaluator:
        """Prepare the rows of the fit, to leave each of them, or its group, out."""
        check_is_fitted(self)
        settings = self.fit_settings()
        rows = validate_rows(self, X, y, *given, classes=self.classes_, first=False)
        groups = None if groups is None else encode_groups(groups, len(rows))
        degrees, moments = rows.degree, getattr(self, "moments_", None)
        if degrees is None and len(getattr(self, "membership_", ())) == len(rows):
            degrees = self.membership_
        if isinstance(moments, ClassMoments):
            moments = TwinMoments(moments, moments)
        if groups is None:
            warn_of_duplicates(rows.X, "memberships of rows left out")
        phi = self._same_landmarks(settings)
        if settings.alpha == "auto":
            settings = replace(settings, alpha=self.alpha_)
        settings, planes = self._twin(settings)
        return LooEvaluator(settings, rows, degrees, planes, moments, phi, groups)

    def _twin(self, settings: FitSettings) -> tuple[FitSettings, Planes]:
        """Return parameters and planes of the twin SVM that can leave rows out."""
        return settings, self._planes()

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
        names = None if feature_names is None else np.array(feature_names, dtype=object)
        return self._learned(
            self.fit_settings(), classes, moments, landmark_map, feature_names_in_=names,
            membership_=degrees, schema_=schema,
        )  # fmt: skip

    def _partial_fit(self, X: Any, y: Any, classes: Any, *given: Any) -> Self:
        self._need_moments("partial_fit")
        settings = self.fit_settings()
        classes = self._known_classes(classes)
        before = getattr(self, "moments_", None)
        rows = validate_rows(self, X, y, *given, classes=classes, first=before is None)
        settings.penalties(classes)  # before the pass over the rows
        fitting.choose_solver(settings, rows, ("moments",))
        with settings.thread_pool(rows.X):
            phi = self._same_landmarks(settings) or fitting.landmark_map(settings, rows)
            moments, degrees = self._moments(settings, rows, phi)
            total = moments if before is None else before + moments
            return self._learned(
                settings, classes, total, phi, feature_names_in_=rows.names,
                membership_=self._all_degrees(degrees, rows),
                forget_loss_=getattr(self, "forget_loss_", None),
            )  # fmt: skip

    def _forget(self, X: Any, y: Any, *given: Any) -> Self:
        check_is_fitted(self)
        self._need_moments("forget")
        settings = self.fit_settings()
        rows = validate_rows(self, X, y, *given, classes=self.classes_, first=False)
        phi = self._same_landmarks(settings)
        loss = getattr(self, "forget_loss_", None)
        with settings.thread_pool(rows.X):
            part, _ = self._moments(settings, rows, phi)
            rest, loss = self.moments_.without(part, loss, self.classes_)
            return self._learned(settings, self.classes_, rest, phi, forget_loss_=loss)

    @available_if_streamable
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
        if not isinstance(other, type(self)):
            raise TypeError(
                f"other={other!r} is of type {type(other).__name__}; merge takes a "
                f"{type(self).__name__}."
            )
        for model in (self, other):
            check_is_fitted(model)
            model._need_moments("merge")  # noqa: SLF001 (of the same class)
        check_mergeable(self, other)
        settings = self.fit_settings()
        phi = self._same_landmarks(settings)
        losses = [model.forget_loss_ for model in (self, other) if hasattr(model, "forget_loss_")]
        return self._learned(
            settings, self.classes_, self.moments_ + other.moments_, phi,
            membership_=getattr(self, "membership_", None),
            forget_loss_=np.max(losses, axis=0) if losses else None,
        )  # fmt: skip

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


def check_mergeable(one: Any, other: Any) -> None:
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
