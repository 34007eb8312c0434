"""Base class of classifiers fitted from moments, to which rows can be added exactly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._duplicates import warn_of_duplicates, warn_of_leakage
from fuzzytwin._passes import SumOverChunks
from fuzzytwin._rows import Rows, label_array, validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmarks import is_all
from fuzzytwin.memberships._registry import STREAMABLE, is_streamable
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._fit import (
    fixed_landmarks,
    moments_of_chunks,
    moments_of_rows,
)
from fuzzytwin.twin._loo import LooEvaluator
from fuzzytwin.twin._prediction import PlaneClassifier, UnavailableError, available_if
from fuzzytwin.twin._settings import FitSettings, choose_solver

# Parameters on which the moments depend. All others change only the planes.
ROW_PARAMETERS = (
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "n_landmarks",
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of a fit, before it is calibrated and stored."""

    classes: Array
    planes: Planes
    moments: TwinMoments | None = None  # None if the solver needs none
    phi: LandmarkMap | None = None
    degrees: Array | None = None  # of the rows of the last call
    solver: str = "moments"


def check_streamable(model: Any, name: str) -> None:
    """Raise an error if a parameter of a model needs all rows at once."""
    solver = model.solver
    if solver not in ("auto", "moments"):
        raise UnavailableError(
            f"{name} needs moments, which solver={solver!r} does not keep; set solver='auto' or "
            "solver='moments'."
        )
    calibration = getattr(model, "calibration", None)
    if calibration is not None:
        raise UnavailableError(
            f"{name} is not available with calibration={calibration!r}, which needs all rows at "
            "once. Set calibration=None, or fit on all rows."
        )
    if getattr(model, "kernel", "linear") != "linear" and is_all(model.n_landmarks):
        raise UnavailableError(
            f"{name} is not available with n_landmarks='all', which needs all rows at once. Set a "
            "number of landmarks, or the landmarks themselves, or fit on all rows."
        )
    membership = getattr(model, "membership", None)
    if membership is not None:
        raise UnavailableError(
            f"{name} is not available with membership={membership!r}, which needs all rows at "
            "once. Set membership=None (computed degrees can be passed to partial_fit), or use "
            "fuzzytwin.files, which reads the data twice."
        )


class MomentClassifier(PlaneClassifier):
    """Base class of classifiers that are functions of moments: rows can be added, models merged.

    Subclasses may replace `_solve`, which computes planes from moments, and `_solve_rows`, which
    computes degrees and planes from rows if there are too many columns for moments. The defaults
    are those of models M1 and M2.
    """

    moments_: TwinMoments
    membership_: Array
    forget_loss_: Array
    alpha_: float
    row_parameters_: dict[str, Any]
    _solvers: tuple[str, ...] = tuple(SOLVERS)
    _solve: Callable[..., Planes] = staticmethod(fitting.solve)
    _solve_rows: Callable[..., Any] = staticmethod(_row_fit.fit_rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, X: Any, y: Any, *weights: Any, groups: Any = None) -> Self:
        """Validate rows, compute degrees, moments, planes and calibration, and store them.

        `weights` are sample weights and degrees, as passed to `fit`.
        """
        settings = FitSettings.of(self)
        rows = validate_rows(self, X, y, *weights, groups=groups)
        settings.penalties(rows.classes)  # fail before the pass over the rows
        if settings.calibration is not None:
            warn_of_leakage(rows, "probabilities and prediction sets")
        with settings.thread_pool(rows.X):
            solver = choose_solver(settings, rows, self._solvers)
            if solver == "moments":
                phi = fitting.landmark_map(settings, rows)
                fit = moments_of_rows(settings, rows, phi)
                planes = self._solve(settings, fit.moments, fit.classes)
                fitted = Fitted(fit.classes, planes, fit.moments, phi, fit.degrees)
            else:
                degrees, planes = self._solve_rows(settings, rows, solver)
                fitted = Fitted(rows.classes, planes, degrees=degrees, solver=solver)
            return self._finish_fit(settings, fitted, rows, feature_names_in_=rows.names)

    def _partial_fit(self, X: Any, y: Any, classes: Any, *weights: Any) -> Self:
        self._need_moments("partial_fit")
        settings = FitSettings.of(self)
        classes = self._known_classes(classes)
        before = getattr(self, "moments_", None)
        rows = validate_rows(self, X, y, *weights, classes=classes, first=before is None)
        settings.penalties(classes)  # fail before the pass over the rows
        with settings.thread_pool(rows.X):
            phi = self._same_landmarks(settings) or fitting.landmark_map(settings, rows)
            fit = moments_of_rows(settings, rows, phi, classes)
            moments = fit.moments if before is None else before + fit.moments
            planes = self._solve(settings, moments, classes)
            fitted = Fitted(classes, planes, moments, phi, fit.degrees)
            loss = getattr(self, "forget_loss_", None)
            return self._finish_fit(
                settings, fitted, n_rows=len(rows), feature_names_in_=rows.names, forget_loss_=loss
            )

    def _forget(self, X: Any, y: Any, *weights: Any) -> Self:
        check_is_fitted(self)
        self._need_moments("forget")
        settings = FitSettings.of(self)
        rows = validate_rows(self, X, y, *weights, classes=self.classes_, first=False)
        phi = self._same_landmarks(settings)
        loss = getattr(self, "forget_loss_", None)
        with settings.thread_pool(rows.X):
            removed = moments_of_rows(settings, rows, phi, self.classes_).moments
            moments, loss = self.moments_.without(removed, loss, self.classes_)
            planes = self._solve(settings, moments, self.classes_)
            fitted = Fitted(self.classes_, planes, moments, phi)
            return self._finish_fit(settings, fitted, forget_loss_=loss)

    @available_if(check_streamable)
    def merge(self, other: Any) -> Self:
        """Add the training rows of another model. The result is that of one `fit` on both tables.

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
        settings = FitSettings.of(self)
        phi = self._same_landmarks(settings)
        moments = self.moments_ + other.moments_
        planes = self._solve(settings, moments, self.classes_)
        losses = [model.forget_loss_ for model in (self, other) if hasattr(model, "forget_loss_")]
        loss = np.max(losses, axis=0) if losses else None
        degrees = getattr(self, "membership_", None)
        fitted = Fitted(self.classes_, planes, moments, phi, degrees)
        return self._finish_fit(settings, fitted, forget_loss_=loss)

    def _fit_chunks(
        self,
        total: SumOverChunks,
        *,
        has_degrees: bool,
        names: Any = None,
        classes: Array | None = None,
        phi: LandmarkMap | None = None,
        schema: Any = None,
        add_rows: bool = False,
    ) -> Self:
        """Fit to chunks of rows that are not in memory at once, or add their rows to the model.

        `has_degrees` says whether the rows have degrees or soft labels, `names` are those of the
        columns, `classes` all labels, if some may be missing, `phi` is the map to landmark features
        if it was computed before, and `schema` says how files are read.
        """
        settings = FitSettings.of(self)
        check_chunkable(settings, has_degrees=has_degrees)
        phi = phi or fixed_landmarks(settings)
        fit = moments_of_chunks(settings, total, phi=phi, classes=classes, has_degrees=has_degrees)
        moments = fit.moments
        if add_rows:
            if fit.n_features != self.n_features_in_:
                raise ValueError(
                    f"X has {fit.n_features} columns, but the model was fitted on "
                    f"{self.n_features_in_}; give the same columns."
                )
            moments = self.moments_ + moments
        planes = self._solve(settings, moments, fit.classes)
        fitted = Fitted(fit.classes, planes, moments, phi)
        names = None if names is None else np.array(names, dtype=object)
        return self._finish_fit(settings, fitted, schema_=schema, feature_names_in_=names)

    def _finish_fit(
        self,
        settings: FitSettings,
        fitted: Fitted,
        rows: Rows | None = None,
        n_rows: int = 0,
        **attributes: Any,
    ) -> Self:
        """Calibrate planes and store the fit, with the parameters that it depends on.

        `rows` are those of a fit to all rows at once. Otherwise, `n_rows` rows were added.
        """
        classes = fitted.classes
        moments = fitted.moments
        planes = fitted.planes
        degrees = fitted.degrees
        if settings.calibration is not None:
            assert rows is not None  # what adds chunks or rows refuses a calibration before
            loo = LooEvaluator(settings, rows, degrees, planes, moments, fitted.phi)
            parameters = {"calibration": settings.calibration, "rule": settings.rule}
            attributes |= loo.calibrate().attributes() | {"calibration_parameters_": parameters}
        if moments is not None:
            params = self.get_params(deep=False)
            # Copied, so that changes in place are noticed.
            attributes["row_parameters_"] = {
                name: copy.deepcopy(params[name]) for name in ROW_PARAMETERS if name in params
            }
        n_rows = n_rows if rows is None else len(rows)
        if degrees is None and n_rows and hasattr(self, "membership"):
            degrees = np.ones(n_rows)
        attributes.setdefault("feature_names_in_", getattr(self, "feature_names_in_", None))
        columns = planes.coef if fitted.phi is None else fitted.phi.landmarks
        return self._store(
            planes,
            classes_=classes,
            n_features_in_=columns.shape[1],
            moments_=moments,
            landmark_map_=fitted.phi,
            solver_=fitted.solver,
            alpha_=planes.alpha if settings.alpha == "auto" else None,
            membership_=degrees,
            **attributes,
        )

    def _held_out(self, X: Any, y: Any, *weights: Any, groups: Any = None) -> LooEvaluator:
        """Prepare the leave-one-out (or leave-one-group-out) evaluation of the training rows."""
        check_is_fitted(self)
        settings = FitSettings.of(self)
        rows = validate_rows(
            self, X, y, *weights, groups=groups, classes=self.classes_, first=False
        )
        degrees = rows.degree
        if degrees is None and len(getattr(self, "membership_", ())) == len(rows):
            degrees = self.membership_
        if groups is None:
            warn_of_duplicates(rows.X, "leave-one-out memberships")
        phi = self._same_landmarks(settings)
        if settings.alpha == "auto":
            settings = replace(settings, alpha=getattr(self, "alpha_", "auto"))
        moments = getattr(self, "moments_", None)
        return LooEvaluator(settings, rows, degrees, self._planes(), moments, phi)

    def _need_moments(self, action: str) -> None:
        """Raise a ValueError if the model was fitted by a solver that keeps no moments."""
        solver = getattr(self, "solver_", "moments")
        if solver != "moments":
            raise ValueError(
                f"{action} needs moments, which a fit with solver={solver!r} does not keep; fit "
                "with solver='moments' (reduce the number of columns with SelectKBest or "
                "TruncatedSVD), or fit on all rows again."
            )

    def _known_classes(self, classes: Any) -> Array:
        """Check the labels given to `partial_fit`. Those of the first call are kept."""
        fitted_classes: Array | None = getattr(self, "classes_", None)
        if classes is None and fitted_classes is not None:
            return fitted_classes
        if classes is None:
            raise ValueError(
                "classes=None in the first call of partial_fit; give all labels that will occur."
            )
        classes = np.unique(label_array(classes, "classes"))
        if len(classes) < 2:
            raise ValueError(f"classes={classes!r} has one class only; give at least two labels.")
        if fitted_classes is not None and not np.array_equal(classes, fitted_classes):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {fitted_classes!r}; "
                "omit classes or start a new model."
            )
        return classes

    def _same_landmarks(self, settings: FitSettings) -> LandmarkMap | None:
        """Return the fitted landmark map, or None if there is none.

        A ValueError is raised if a parameter that the moments depend on has changed since the fit.
        """
        for name, before in getattr(self, "row_parameters_", {}).items():
            now = getattr(settings, name)
            if not same_value(before, now):
                raise ValueError(
                    f"{name}={now!r:.80} was {before!r:.80} when the model was fitted; restore it "
                    "or start a new model."
                )
        return getattr(self, "landmark_map_", None)


def check_chunkable(settings: FitSettings, *, has_degrees: bool) -> None:
    """Raise a ValueError if a parameter needs all rows at once."""
    if settings.solver not in ("auto", "moments"):
        raise ValueError(
            f"solver={settings.solver!r} needs all rows at once and cannot be used with chunks; "
            "use solver='auto' or solver='moments', which adds up the moments of the chunks."
        )
    if settings.calibration is not None:
        raise ValueError(
            f"calibration={settings.calibration!r} needs all rows at once and cannot be used with "
            "chunks; fit in memory, or use a FuzzyTwinCommittee, which calibrates on chunks."
        )
    if has_degrees or is_streamable(settings.membership):
        return
    raise ValueError(
        f"membership={settings.membership!r} needs all rows at once and cannot be used with "
        f"chunks; use None, {' or '.join(map(repr, STREAMABLE))}, or pass computed degrees to fit."
    )


def check_mergeable(model: Any, other: Any) -> None:
    """Raise a ValueError unless the moments of two fitted models can be added."""
    other_values = _comparable(other)
    for name, value in _comparable(model).items():
        other_value = other_values.get(name)
        if same_value(value, other_value):
            continue
        remedy = "fit both in the same way (partial_fit takes classes that a batch does not hold)."
        if name in ("gamma", "the landmarks"):
            remedy = (
                "each model took its own from its rows, so give both the same n_landmarks (an "
                "array) and gamma, or start both as copies of one model."
            )
        values = f": {value!r:.80} and {other_value!r:.80}" if np.ndim(value) < 2 else ""
        raise ValueError(f"the models to merge differ in {name}{values}; {remedy}")
    if hasattr(model, "landmark_map_"):
        a = model.landmark_map_.root
        b = other.landmark_map_.root
        if a.shape != b.shape or np.abs(a - b).max() > 1e-7 * np.abs(a).max():
            raise ValueError(
                "the models to merge have the same landmarks, but their features are rotated "
                "differently (different processors or versions of LAPACK); start both as copies of "
                "one model after its first partial_fit."
            )


def _comparable(model: Any) -> dict[str, Any]:
    """Collect what two models must share to be merged.

    Number of landmarks and random state are compared by the landmark maps that they lead to.
    Threads do not change results.
    """
    names = getattr(model, "feature_names_in_", None)
    phi = getattr(model, "landmark_map_", None)
    parameters = model.get_params()
    for name in ("gamma", "n_landmarks", "n_jobs", "random_state"):
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
    """Return whether two parameter values are equal, such as 1 and 1.0 or a list and an array."""
    if a is b:
        return True
    if isinstance(a, BaseEstimator) or isinstance(b, BaseEstimator):
        return type(a) is type(b) and same_value(a.get_params(), b.get_params())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if sparse.issparse(a) or sparse.issparse(b):
        a = a.toarray() if sparse.issparse(a) else a
        b = b.toarray() if sparse.issparse(b) else b
    if isinstance(a, str) or isinstance(b, str) or callable(a) or callable(b):
        return bool(a == b)
    try:
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    except (TypeError, ValueError):
        return False
