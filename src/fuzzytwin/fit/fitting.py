"""Fit by pure functions of validated rows and frozen settings: solver, degrees, planes.

Estimators, the search, files, Dask and Spark all call these; they have no state. Own moments have
the weights s of the rows, slack moments the weights s mu, with the degrees mu.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight

from fuzzytwin._utils.types import Array
from fuzzytwin.core import classic_planes, planes, solvers
from fuzzytwin.core.gram import RowFeatures
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import SOLVERS, ClassMeans, ClassSummary, Shape
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.fit.kernels import LandmarkMap, MappedRows, make_map
from fuzzytwin.fit.relevance import learned_gammas
from fuzzytwin.fit.rows import Rows, check_degrees, refuse_non_finite
from fuzzytwin.fit.settings import FitSettings
from fuzzytwin.memberships import CenterMembership, Membership, MomentMembership
from fuzzytwin.memberships.from_moments import class_summary

# Planes whose rounding errors are multiplied by more than this get a warning.
MOST_LOSS = 1e11
# Tolerance of the first planes of a membership, relative to that of the planes.
FIRST_PLANES = 0.1
# Columns whose deviation is at most this part of their mean do not vary: rounding does as much.
SAME_NUMBER = 1e-12


def choose_solver(settings: FitSettings, rows: Rows, possible: Collection[str] = SOLVERS) -> str:
    """Choose one of the solvers that an estimator has for these rows, before any work is done.

    A solver that cannot do what is asked for, and memory that is not available, get a ValueError
    that says what to do.
    """
    wanted = settings.solver
    if settings.curved or settings.planes == "fuzzy":
        possible = ("moments",)
    if wanted not in ("auto", *possible):
        raise ValueError(f"solver={wanted!r} {_why_not(settings, possible)}")
    if settings.curved:
        return "moments"
    with_degrees = rows.degree is not None or settings.membership is not None
    parts = (2 if settings.has_widths else 1) * (2 if with_degrees else 1)
    shape = Shape.of(rows.X, len(rows.classes), settings.multi_class, parts)
    return solvers.choose_solver(shape, wanted, possible)


def _why_not(settings: FitSettings, possible: Collection[str]) -> str:
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


def landmark_map(settings: FitSettings, rows: Rows) -> LandmarkMap | None:
    """Choose landmarks among the rows and compute their map; None for linear planes."""
    if not settings.curved:
        return None
    refuse_non_finite(rows.X, rows.names)
    learned = partial(learned_gammas, X=rows.X, codes=rows.codes, s=rows.weight, groups=rows.groups)
    return make_map(
        rows.X, rows.codes, rows.weight, kernel=settings.kernel, gamma=settings.gamma,
        degree=settings.degree, coef0=settings.coef0, n_landmarks=settings.n_landmarks,
        random_state=settings.random_state,
        spread=None if settings.relevance is None else learned,
    )  # fmt: skip


def features(X: Any, phi: LandmarkMap | None) -> Any:
    """Map rows to the features in which planes are linear; X itself where no kernel is used."""
    return X if phi is None else MappedRows(X, phi)


def own_moments(rows: Rows, Z: Any) -> ClassMoments:
    """Compute the moments of the features `Z` with the sample weights; they must be finite."""
    own = ClassMoments.from_rows(
        Z, rows.codes, rows.weight, n_classes=len(rows.classes), groups=rows.groups
    )
    check_moments(own, rows)
    return own


def weighted_moments(
    settings: FitSettings, rows: Rows, phi: LandmarkMap | None
) -> tuple[ClassMoments, None]:
    """Compute the moments of a fit that has weights alone, and no degrees."""
    return own_moments(rows, features(rows.X, phi)), None


def degree_moments(
    settings: FitSettings,
    rows: Rows,
    phi: LandmarkMap | None,
    Z: Any = None,
    known: TwinMoments | None = None,
) -> tuple[TwinMoments, Array | None]:
    """Compute the moments of a fit, and the degrees of its rows (None where all are 1).

    `Z` are the features of the rows and `known` their moments without degrees, if they are known.
    """
    Z = features(rows.X, phi) if Z is None else Z
    own, absolute = (None, None) if known is None else (known.own, known.absolute_own)
    mu, own = degrees(settings, rows, Z, own)
    return twin_moments(settings, rows, Z, mu, own, absolute), mu


def degrees(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    summary: ClassSummary | None = None,
    solver: str = "moments",
) -> tuple[Array | None, Any]:
    """Return given degrees (n,) or soft labels (n, K), or compute degrees; None: all are 1.

    Moment-based memberships measure distances between the features `Z` of the rows, others between
    the rows as given. `summary` are the `own_moments` of Z, if they are known, and are returned;
    with another solver than "moments" they are means, and first planes come from the solver.
    """
    membership, K = settings.membership, len(rows.classes)
    if rows.degree is not None or membership is None:
        return rows.degree, summary
    s = np.ones(len(rows)) if rows.weight is None else rows.weight
    if summary is None and solver == "moments":
        summary = own_moments(rows, Z)
    if not isinstance(membership, Membership):
        mu = membership(rows.original, rows.y, s)
        if mu is None:
            raise ValueError(
                f"membership={membership!r} returned None; it must return one degree per sample."
            )
        return check_degrees(mu, len(rows), rows.classes, soft=False), summary
    if summary is None:
        refuse_non_finite(rows.X, rows.names)
        # First planes are found more exactly, so that degrees add little to the error.
        tol = FIRST_PLANES * settings.tol
        summary = ClassMeans.from_rows(Z, rows.codes, s, K, solver, tol)
    factor = None
    if settings.class_weight is not None:
        factor = class_factors(settings, summary.weight, rows.classes)
    X, of_X = Z, summary
    if not isinstance(membership, MomentMembership) and Z is not rows.original:
        X = rows.original
        of_X = class_summary(X, rows.codes, s, K)
    return membership.degrees(X, rows.codes, s, of_X, factor), summary


def twin_moments(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    mu: Array | None,
    own: ClassMoments | None = None,
    absolute_own: ClassMoments | None = None,
) -> TwinMoments:
    """Compute the moments with weights s and s mu, and those of abs(X) for fuzzy planes.

    `own` and `absolute_own` are those of `Z` and abs(X) with the weights s, if they are known.
    """
    weights = _plain_weights(settings, rows, mu)
    if weights.own is not rows.weight:
        own, absolute_own = None, None
    own, slack = weights.moments(Z, own, groups=rows.groups)
    check_moments(own, rows)
    if not settings.has_widths:
        return TwinMoments(own, slack)
    # Widths depend on X, not on features of landmarks.
    return TwinMoments(own, slack, *weights.moments(rows.X, absolute_own, absolute=True))


def _plain_weights(settings: FitSettings, rows: Rows, mu: Array | None) -> RowWeights:
    both = settings.membership_scope == "both"
    return RowWeights.of(rows.codes, rows.weight, mu, len(rows.classes), both=both)


def row_weights(settings: FitSettings, rows: Rows, mu: Array | None) -> RowWeights:
    """Return the weights of rows in both terms, class weights included."""
    weights = _plain_weights(settings, rows, mu)
    return weights.scaled(class_factors(settings, weights.totals(weights.own), rows.classes))


def check_rivals(settings: FitSettings, slack_weight: Array) -> None:
    """Refuse total slack weights of the classes, of all rows, that leave a plane no rivals."""
    pairs, held = settings.multi_class == "ovo", slack_weight > 0
    if not (held.all() if pairs else held.sum() > 1):
        raise ValueError(
            f"membership is 0 for every sample {'of' if pairs else 'outside of'} some class, so a "
            "plane has no rivals; give some of them a degree above 0."
        )


def class_factors(settings: FitSettings, weight: Array, classes: Array) -> Array:
    """Compute class weights; "balanced" makes the total weights of all classes equal."""
    given, K = settings.class_weight, len(classes)
    if given is None:
        return np.ones(K)
    if isinstance(given, str):  # "balanced"
        present = weight > 0
        mean = weight.sum() / max(present.sum(), 1)
        with np.errstate(over="ignore"):
            factor = np.divide(mean, weight, out=np.ones(K), where=present)
    else:
        try:
            factor = compute_class_weight(given, classes=classes, y=classes)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"class_weight={given!r} does not give every label a number; {error}"
            ) from error
        if not (np.isfinite(factor) & (factor >= 0)).all():
            raise ValueError(
                f"class_weight={given!r} holds a negative or infinite weight; give finite numbers "
                "of at least 0."
            )
    with np.errstate(over="ignore"):
        if not np.isfinite(factor * weight).all():
            raise ValueError(
                f"class_weight={given!r} times the weights of the samples overflows "
                "double precision; divide the weights."
            )
    return factor


def apply_class_weight(settings: FitSettings, moments: TwinMoments, classes: Array) -> TwinMoments:
    """Apply class weights to moments."""
    if settings.class_weight is None:
        return moments
    factor = class_factors(settings, moments.own.weight, classes)
    return moments.combined(lambda part: part.scaled(factor))


def ridge(settings: FitSettings, own: ClassMoments) -> float:
    """Return alpha; for "auto" what `auto_ridge` does with the variances within the classes.

    Times the mean weight of a row (of a group in a class, if rows have groups), so that it fits
    weights of any size. Without any weight it is 1.
    """
    if settings.alpha != "auto":
        return float(settings.alpha)
    top = float(own.weight.max(initial=0.0))
    if top == 0:
        return 1.0
    share = own.weight / top
    variances = share @ np.diagonal(own.covariance, axis1=1, axis2=2) / share.sum()
    size = auto_ridge(settings, variances, np.abs(own.mean).max(axis=0))
    return size * float(share @ own.row_weight) / float(share.sum())


def used_ridge(settings: FitSettings, moments: Any, classes: Array) -> float | None:
    """Return the ridge that "auto" stood for; None for a number."""
    if settings.alpha != "auto" or moments is None:
        return None
    both = moments if isinstance(moments, TwinMoments) else TwinMoments(moments, moments)
    return ridge(settings, apply_class_weight(settings, both, classes).own)


def ridge_of_rows(settings: FitSettings, rows: Rows, weights: RowWeights) -> float:
    """Return what `ridge` does, from weighted rows."""
    if settings.alpha != "auto":
        return float(settings.alpha)
    scatter, sizes = np.zeros((2, rows.X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for codes, v in _hard_labels(rows, weights):
            means = ClassMeans.from_rows(rows.X, codes, v, weights.n_classes)
            scatter += means.column_scatter()
            sizes = np.maximum(sizes, np.abs(means.mean).max(axis=0))
    if not np.isfinite(scatter).all():
        refuse_overflow(rows)
    size = auto_ridge(settings, scatter / float(weights.own.sum()), sizes)
    return size * weights.mean_own_weight(rows.groups)


def used_ridge_of_rows(settings: FitSettings, rows: Rows, mu: Array | None) -> float | None:
    """Return what `used_ridge` does, from weighted rows."""
    if settings.alpha != "auto":
        return None
    return ridge_of_rows(settings, rows, row_weights(settings, rows, mu))


def auto_ridge(settings: FitSettings, variances: Array, sizes: Array) -> float:
    """Return as much ridge as one more row would add: a sum of variances, within the classes.

    Features of a kernel differ in size by orders of magnitude and have one scale: theirs are
    added up. Columns have scales of their own, and the greatest must not decide for all: instead
    of the sum, the geometric mean times the number of columns, which is about the same if columns
    are scaled. Columns that do not vary, given the `sizes` of their means, do not count. If none
    does, the ridge is 1.
    """
    if settings.curved:
        return float(variances.sum()) or 1.0
    varying = variances[np.sqrt(variances) > SAME_NUMBER * sizes]
    if not len(varying):
        return 1.0
    return len(varying) * float(np.exp(np.log(varying).mean()))


def scatter_of_rows(rows: Rows, weights: RowWeights) -> float:
    """Add up the squared distances of weighted rows from the means of their classes."""
    X = rows.X
    scatter = 0.0
    for codes, v in _hard_labels(rows, weights):
        means = ClassMeans.from_rows(X, codes, v, weights.n_classes)
        scatter += float(v @ CenterMembership().distance(X, codes, means) ** 2)
    if not np.isfinite(scatter):
        refuse_overflow(rows)
    return scatter


def _hard_labels(rows: Rows, weights: RowWeights) -> list[tuple[Array, Array]]:
    """Return labels and own weights of all rows: once, or for each class of soft labels."""
    if weights.codes is not None:
        return [(weights.codes, weights.own)]
    return [(np.zeros(rows.X.shape[0], dtype=np.intp), v) for v in weights.own.T]


def solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
    """Solve for the planes of all classes."""
    C, K = settings.penalties(classes), len(classes)
    if settings.alpha == 0:
        check_size(moments.own)
    m = apply_class_weight(settings, moments, classes)
    alpha = ridge(settings, m.own)
    if settings.printed:
        if K > 2:
            raise ValueError(
                f"formulation={settings.formulation!r} is defined for two classes, not {K}; use "
                "formulation='endpoints'."
            )
        stationary = settings.formulation == "stationary"
        kept = classic_planes
        solve_paper = kept.stationary_planes if stationary else kept.printed_planes
        return solve_paper(m.own, m.slack, C, alpha, settings.tau)
    found = planes.crisp_planes(
        m.own, m.slack, C, alpha,
        same_scale=settings.curved, multi_class=settings.multi_class,
    )  # fmt: skip
    warn_of_lost_digits(found, alpha)
    if settings.planes == "crisp":
        return found
    if m.absolute_own is None or m.absolute_slack is None:
        raise ValueError(
            "planes='fuzzy' needs moments that a fit with planes='crisp' does not keep; fit a new "
            "model."
        )
    width, tau = settings.margin_width, settings.tau
    return planes.fuzzy_planes(found, m.absolute_own, m.absolute_slack, C, tau, width)


def fit_rows(settings: FitSettings, rows: Rows, solver: str) -> tuple[Array | None, Planes]:
    """Compute degrees (see `degrees`) and planes of rows by a solver of rows."""
    mu, _ = degrees(settings, rows, rows.X, solver=solver)
    weights = row_weights(settings, rows, mu)
    check_rivals(settings, weights.totals(weights.slack))
    alpha = ridge_of_rows(settings, rows, weights)
    found, error = solvers.crisp_planes(
        solver, rows.X, weights, settings.penalties(rows.classes), alpha,
        multi_class=settings.multi_class, tol=settings.tol,
    )  # fmt: skip
    if not (np.isfinite(found.coef).all() and np.isfinite(found.intercept).all()):
        refuse_overflow(rows)
    warn_unless_converged(solver, settings.tol, error)
    warn_of_lost_digits(found, alpha)
    return mu, found


def row_features(rows: Rows, *, centred: bool = True) -> RowFeatures:
    """Compute features of rows that have as few columns as rows, with all distances kept."""
    found = RowFeatures.of(rows.X, centred=centred)
    if not np.isfinite(found.Z).all():
        refuse_overflow(rows)
    return found


def in_row_space(rows: Rows) -> Rows:
    """Put features in place of rows: as few columns as rows, with all distances kept."""
    return replace(rows, X=row_features(rows).Z, given=rows.X)


def check_moments(moments: ClassMoments, rows: Rows) -> None:
    """Refuse moments that are not finite: X is checked here, through its moments."""
    if not moments.is_finite:
        refuse_overflow(rows)


def check_size(moments: ClassMoments) -> None:
    """Refuse columns so small that their variance underflows; needed only without a ridge."""
    spread = np.sqrt(np.diagonal(moments.covariance, axis1=1, axis2=2))
    size = np.maximum(np.abs(moments.mean), spread).max(axis=0)
    tiny = np.flatnonzero((size > 0) & (size < 1e-145))
    if len(tiny):
        raise ValueError(
            f"alpha=0 and column {tiny[0]} of X is so small that its squares vanish in double "
            "precision; scale the columns of X (e.g. StandardScaler)."
        )


def refuse_overflow(rows: Rows) -> None:
    """Say what is not finite: X itself, or its squares."""
    refuse_non_finite(rows.X, rows.names)
    raise ValueError(
        "X or sample_weight is so large that squares overflow in double precision; scale the "
        "columns of X (e.g. StandardScaler) or divide the weights."
    )


def warn_of_lost_digits(found: Planes, alpha: float) -> None:
    """Warn where a ridge, or most digits of planes, were lost in rounding."""
    lost = found.rank is not None and found.rank < found.coef.shape[1]
    if alpha > 0 and (lost or found.loss > MOST_LOSS):
        warnings.warn(
            f"coef_ has few right digits: beside the greatest numbers of X, alpha={alpha:g} and "
            "other rows and columns are lost in rounding; look for outliers or codes such as "
            "-999999 in X, scale its columns (RobustScaler), or give a larger alpha.",
            UserWarning,
            stacklevel=5,  # the line that called fit
        )


def warn_unless_converged(solver: str, tol: float, error: float) -> None:
    """Warn where iterations stopped before the error was below `tol`."""
    if error > tol:
        warnings.warn(
            f"solver={solver!r} stopped with a relative error of up to {error:.1g} (tol={tol:g}); "
            "scale the columns of X (MaxAbsScaler, StandardScaler(with_mean=False)), give a larger "
            "alpha, or a larger tol.",
            ConvergenceWarning,
            stacklevel=5,  # the line that called fit
        )
