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

from fuzzytwin._params import class_factors
from fuzzytwin._rows import Rows, check_finite
from fuzzytwin._utils.types import Array
from fuzzytwin.core import planes, solvers
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.printed_planes import printed_planes, stationary_planes
from fuzzytwin.core.row_space import RowFeatures
from fuzzytwin.core.solvers import SOLVERS, ClassMeans, ClassSummary, ProblemSize
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.kernels import LandmarkMap, LazyFeatures, learn_feature_gammas, make_map
from fuzzytwin.memberships import CenterMembership
from fuzzytwin.memberships._degrees import (
    check_moments,
    compute_degrees,
    own_moments,
    raise_overflow,
)
from fuzzytwin.twin._settings import FitSettings

# Planes whose rounding errors are multiplied by more than this get a warning.
MOST_LOSS = 1e11
# Columns whose deviation is at most this part of their mean do not vary: rounding does as much.
SAME_NUMBER = 1e-12


def choose_solver(settings: FitSettings, rows: Rows, possible: Collection[str] = SOLVERS) -> str:
    """Choose one of the solvers that an estimator has for these rows, before any work is done.

    A solver that cannot do what is asked for, and memory that is not available, get a ValueError
    that says what to do.
    """
    wanted = settings.solver
    if settings.uses_kernel or settings.planes == "fuzzy":
        possible = ("moments",)
    if wanted not in ("auto", *possible):
        raise ValueError(f"solver={wanted!r} {_why_not(settings, possible)}")
    if settings.uses_kernel:
        return "moments"
    with_degrees = rows.degree is not None or settings.membership is not None
    parts = (2 if settings.has_widths else 1) * (2 if with_degrees else 1)
    shape = ProblemSize.of(rows.X, len(rows.classes), settings.multi_class, parts)
    return solvers.choose_solver(shape, wanted, possible)


def _why_not(settings: FitSettings, possible: Collection[str]) -> str:
    if settings.uses_kernel:
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
    if not settings.uses_kernel:
        return None
    check_finite(rows.X, rows.names)
    learned = partial(
        learn_feature_gammas, X=rows.X, codes=rows.codes, s=rows.weight, groups=rows.groups
    )
    return make_map(
        rows.X, rows.codes, rows.weight, kernel=settings.kernel, gamma=settings.gamma,
        degree=settings.degree, coef0=settings.coef0, n_landmarks=settings.n_landmarks,
        random_state=settings.random_state,
        spread=None if settings.relevance is None else learned,
    )  # fmt: skip


def features(X: Any, phi: LandmarkMap | None) -> Any:
    """Map rows to the features in which planes are linear; X itself where no kernel is used."""
    return X if phi is None else LazyFeatures(X, phi)


def weighted_moments(
    settings: FitSettings, rows: Rows, phi: LandmarkMap | None
) -> tuple[ClassMoments, None]:
    """Compute the moments of a fit that has weights alone, and no degrees."""
    return own_moments(rows, features(rows.X, phi)), None


def degrees(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    summary: ClassSummary | None = None,
    solver: str = "moments",
) -> tuple[Array | None, Any]:
    """Return given degrees, or compute those of the settings: see `compute_degrees`."""
    return compute_degrees(
        settings.membership, rows, Z, summary, solver,
        tol=settings.tol, class_weight=settings.class_weight,
    )  # fmt: skip


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
    return weights.scaled(
        class_factors(settings.class_weight, weights.totals(weights.own), rows.classes)
    )


def check_opposing_weight(settings: FitSettings, slack_weight: Array) -> None:
    """Refuse total slack weights of the classes, of all rows, that leave a plane no rivals."""
    pairs, held = settings.multi_class == "ovo", slack_weight > 0
    if not (held.all() if pairs else held.sum() > 1):
        raise ValueError(
            f"membership is 0 for every sample {'of' if pairs else 'outside of'} some class, so a "
            "plane has no rivals; give some of them a degree above 0."
        )


def apply_class_weight(settings: FitSettings, moments: TwinMoments, classes: Array) -> TwinMoments:
    """Apply class weights to moments."""
    if settings.class_weight is None:
        return moments
    factor = class_factors(settings.class_weight, moments.own.weight, classes)
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
        raise_overflow(rows)
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
    if settings.uses_kernel:
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
        raise_overflow(rows)
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
        solve_paper = stationary_planes if stationary else printed_planes
        return solve_paper(m.own, m.slack, C, alpha, settings.tau)
    found = planes.crisp_planes(
        m.own, m.slack, C, alpha,
        isotropic=settings.uses_kernel, multi_class=settings.multi_class,
    )  # fmt: skip
    warn_ill_conditioned(found, alpha)
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
    check_opposing_weight(settings, weights.totals(weights.slack))
    alpha = ridge_of_rows(settings, rows, weights)
    found, error = solvers.crisp_planes(
        solver, rows.X, weights, settings.penalties(rows.classes), alpha,
        multi_class=settings.multi_class, tol=settings.tol,
    )  # fmt: skip
    if not (np.isfinite(found.coef).all() and np.isfinite(found.intercept).all()):
        raise_overflow(rows)
    warn_unless_converged(solver, settings.tol, error)
    warn_ill_conditioned(found, alpha)
    return mu, found


def row_features(rows: Rows, *, centred: bool = True) -> RowFeatures:
    """Compute features of rows that have as few columns as rows, with all distances kept."""
    found = RowFeatures.of(rows.X, centred=centred)
    if not np.isfinite(found.Z).all():
        raise_overflow(rows)
    return found


def in_row_space(rows: Rows) -> Rows:
    """Put features in place of rows: as few columns as rows, with all distances kept."""
    return replace(rows, X=row_features(rows).Z, given=rows.X)


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


def warn_ill_conditioned(found: Planes, alpha: float) -> None:
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
