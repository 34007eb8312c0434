"""Fit planes to rows without moments, by the solvers "rows" and "iterative".

Pure functions of validated rows and frozen settings, as in `fuzzytwin.fitting`. Whether they are
used is decided here too (`choose_solver`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin import fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core import solvers
from fuzzytwin.core.distances import plane_values
from fuzzytwin.core.iterative import MOST_ITERATIONS
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.plane_rows import PlaneRows
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.row_space import RowFeatures
from fuzzytwin.core.solvers import SOLVERS, Shape
from fuzzytwin.memberships import CenterMembership, Membership, MomentMembership
from fuzzytwin.rows import Rows, refuse_non_finite
from fuzzytwin.settings import FitSettings

# Values of planes, which are -1 on rivals, may differ by so much when they are found again.
SAME_VALUES = 1e-3
# Tolerance of the first planes of a membership, relative to that of the planes.
FIRST_PLANES = 0.1


def choose_solver(settings: FitSettings, rows: Rows, possible: tuple[str, ...] = SOLVERS) -> str:
    """Choose the solver for these rows, before any work is done.

    Parameters
    ----------
    settings, rows
        What to fit, and to which rows.
    possible : tuple of str, default=SOLVERS
        The solvers that the estimator has.

    Returns
    -------
    str
        "moments", "rows" or "iterative".

    Raises
    ------
    ValueError
        Where the solver of the settings cannot do what is asked for, or where no solver fits into
        the available memory: the error says how much each would need.
    """
    wanted = settings.solver
    if settings.curved or settings.planes == "fuzzy":
        possible = ("moments",)
    if wanted not in ("auto", *possible):
        raise ValueError(f"solver={wanted!r} {_why_not(settings, possible)}")
    if settings.curved:
        return "moments"
    with_degrees = rows.mu is not None or settings.membership is not None
    parts = (2 if settings.has_widths else 1) * (2 if with_degrees else 1)
    shape = Shape.of(rows.X, len(rows.classes), settings.multi_class, parts)
    return solvers.choose_solver(shape, wanted, possible)


def _why_not(settings: FitSettings, possible: tuple[str, ...]) -> str:
    if settings.curved:
        return (
            f"works with kernel='linear' only; use solver='auto' with kernel={settings.kernel!r}, "
            "whose number of features n_landmarks sets."
        )
    if settings.planes == "fuzzy":
        return (
            "has no widths; use planes='crisp', or solver='moments' with few enough columns "
            "(SelectKBest, TruncatedSVD)."
        )
    known = ", ".join(repr(name) for name in possible)
    return f"is not available for this estimator; use one of 'auto', {known}."


def fit_rows(settings: FitSettings, rows: Rows, solver: str) -> tuple[Array | None, Planes]:
    """Compute degrees and planes of rows by "rows" or "iterative".

    Returns
    -------
    mu : ndarray of shape (n,) or (n, K), or None
        Degrees or soft labels; None where every degree is 1.
    planes : Planes
    """
    mu = degrees(settings, rows, solver)
    weighed = plane_rows(settings, rows, rows.X, mu)
    check_complete(settings, weighed)
    planes, error = solvers.crisp_planes(
        solver, weighed, settings.penalties(rows.classes), _ridge(settings, weighed),
        multi_class=settings.multi_class, tol=settings.tol,
    )  # fmt: skip
    check_planes(planes, rows)
    warn_unless_converged(settings, error)
    return mu, planes


def fit_features(settings: FitSettings, rows: Rows, solve: Any, *, centred: bool = True) -> Planes:
    """Fit in the space of the rows what is a function of moments.

    Parameters
    ----------
    settings, rows
        What to fit, and to which rows.
    solve : callable
        ``moments -> Planes``, from the moments of the features of the rows.
    centred : bool, default=True
        Whether shifting all rows changes nothing but the intercepts.

    Returns
    -------
    Planes
        In the columns of X.
    """
    features = RowFeatures.of(rows.X, centred=centred)
    if not np.isfinite(features.Z).all():
        refuse_overflow(rows)
    found = solve(fitting.own_moments(rows, features.Z))
    coef, intercept = features.columns(rows.X, found.coef, found.intercept)
    return Planes(coef, intercept, found.classes, found.rank)


def in_row_space(rows: Rows) -> Rows:
    """Put features in place of rows: as few columns as rows, with all distances kept."""
    features = RowFeatures.of(rows.X)
    if not np.isfinite(features.Z).all():
        refuse_overflow(rows)
    return replace(rows, X=features.Z, given=rows.X)


def mean_scatter(settings: FitSettings, rows: Rows) -> float:
    """Compute the mean scatter of the dimensions that rows span, within the classes."""
    s = np.ones(len(rows)) if rows.s is None else rows.s
    means = solvers.class_means(rows.X, rows.codes, s, len(rows.classes))
    factor = fitting.weight_factors(settings, means.weight, rows.classes)
    distance = CenterMembership().distance(rows.X, rows.codes, means)
    return float((s * factor[rows.codes]) @ distance**2) / min(rows.X.shape)


def loo_features(
    settings: FitSettings, rows: Rows, mu: Array | None, planes: Planes
) -> tuple[Array, TwinMoments, Planes]:
    """Compute features of the rows of a fit, their moments and the planes in these features.

    The planes are found again in the space of the rows, which must be those of the fit.
    """
    if settings.alpha == 0:
        raise ValueError(
            "leaving rows out with alpha=0 needs moments, which this model was fitted without; fit "
            "with solver='moments', or give an alpha above 0."
        )
    choose_solver(replace(settings, solver="rows"), rows)
    features = RowFeatures.of(rows.X)
    moments = fitting.twin_moments(settings, rows, features.Z, mu)
    found = fitting.solve(settings, moments, rows.classes)
    f = plane_values(features.Z, found.coef, found.intercept)
    if np.abs(f - plane_values(rows.X, planes.coef, planes.intercept)).max() > SAME_VALUES:
        raise ValueError(
            "the planes of these rows are not those of the model; give the rows, weights and "
            "degrees of the fit, with its parameters."
        )
    return features.Z, moments, found


def degrees(settings: FitSettings, rows: Rows, solver: str, Z: Any = None) -> Array | None:
    """Return the given degrees of the rows, or compute them without moments.

    Parameters
    ----------
    settings, rows, solver
        What to compute, from which rows, and by which solver first planes are found.
    Z : array-like of shape (n, r), default=None
        Features with the distances of the rows; None: X itself.
    """
    membership = settings.membership
    if rows.mu is not None or membership is None:
        return rows.mu
    if not isinstance(membership, Membership):
        return fitting.called_degrees(membership, rows)
    refuse_non_finite(rows.X, rows.names)
    # Moment-based memberships measure distances between features.
    X = Z if Z is not None and isinstance(membership, MomentMembership) else rows.X
    s = np.ones(len(rows)) if rows.s is None else rows.s
    # First planes are found more exactly, so that degrees add little to the error.
    means = solvers.class_means(
        X, rows.codes, s, len(rows.classes), solver, FIRST_PLANES * settings.tol
    )
    factor = None
    if settings.class_weight is not None:
        factor = fitting.weight_factors(settings, means.weight, rows.classes)
    return membership.degrees(X, rows.codes, s, means, factor)


def plane_rows(settings: FitSettings, rows: Rows, Z: Any, mu: Array | None) -> PlaneRows:
    """Give features `Z` of the rows their weights in both terms, class weights included."""
    codes, own, slack = fitting.row_weights(settings, rows, mu)
    weighed = PlaneRows(Z, codes, own, slack, len(rows.classes))
    if settings.class_weight is None:
        return weighed
    totals = weighed.class_weights(own)
    return weighed.scaled(fitting.weight_factors(settings, totals, rows.classes))


def _ridge(settings: FitSettings, rows: PlaneRows) -> float:
    """Return what `fitting.ridge` does, from weighted rows."""
    if settings.alpha != "auto":
        return float(settings.alpha)
    n, K = rows.X.shape[0], rows.n_classes
    if rows.codes is not None:
        parts = [(rows.codes, rows.own, K)]
    else:  # soft labels
        assert rows.own is not None
        parts = [(np.zeros(n, dtype=np.intp), rows.own[:, k], 1) for k in range(K)]
    scatter, weight = 0.0, 0.0
    for codes, own, n_classes in parts:
        v = np.ones(n) if own is None else own
        means = solvers.class_means(rows.X, codes, v, n_classes)
        scatter += float(v @ CenterMembership().distance(rows.X, codes, means) ** 2)
        weight += float(v.sum())
    return fitting.auto_ridge(scatter, weight)


def check_complete(settings: FitSettings, rows: PlaneRows) -> None:
    """Refuse rows if some plane has no rivals."""
    fitting.check_rivals(settings, rows.class_weights(rows.slack))


def check_planes(planes: Planes, rows: Rows) -> None:
    """Refuse planes that are not finite: X is checked here, through them."""
    if not (np.isfinite(planes.coef).all() and np.isfinite(planes.intercept).all()):
        refuse_overflow(rows)


def refuse_overflow(rows: Rows) -> None:
    """Say what is not finite: X itself, or its squares."""
    refuse_non_finite(rows.X, rows.names)
    raise ValueError(fitting.TOO_LARGE)


def warn_unless_converged(settings: FitSettings, error: float) -> None:
    """Warn where iterations stopped before the error was below `tol`."""
    if error > settings.tol:
        warnings.warn(
            f"solver='iterative' stopped after {MOST_ITERATIONS} iterations with a "
            f"relative error of up to {error:.1g} (tol={settings.tol:g}); scale the columns of X "
            "(MaxAbsScaler, StandardScaler(with_mean=False)), give a larger alpha, or a "
            "larger tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
