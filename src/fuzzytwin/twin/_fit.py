"""Fit functions: choice of the solver, degrees, moments, ridge penalty and planes.

They are pure functions of validated rows and frozen settings, called by the estimators, the search,
files, Dask and Spark. Own moments use the weights s of the rows, slack moments the weights s mu,
with the membership degrees mu.
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

# Factor on rounding errors above which planes get a warning.
MOST_LOSS = 1e11
# Columns with a standard deviation of at most this fraction of their mean count as constant.
SAME_NUMBER = 1e-12


def choose_solver(settings: FitSettings, rows: Rows, possible: Collection[str] = SOLVERS) -> str:
    """Choose a solver for these rows among the `possible` ones of an estimator.

    A ValueError with the remedy is raised if the solver does not support the settings, or if it
    needs more memory than is available.
    """
    wanted = settings.solver
    if settings.uses_kernel or settings.planes == "fuzzy":
        possible = ("moments",)
    if wanted not in ("auto", *possible):
        raise ValueError(f"solver={wanted!r} {_why_not(settings, possible)}")
    if settings.uses_kernel:
        return "moments"
    with_degrees = rows.degree is not None or settings.membership is not None
    n_moments = (2 if settings.has_widths else 1) * (2 if with_degrees else 1)
    size = ProblemSize.of(rows.X, len(rows.classes), settings.multi_class, n_moments)
    return solvers.choose_solver(size, wanted, possible)


def _why_not(settings: FitSettings, possible: Collection[str]) -> str:
    """Say why a solver is not possible, and what to use instead."""
    if settings.uses_kernel:
        return (
            f"works with kernel='linear' only; use solver='auto' with kernel={settings.kernel!r} "
            "(n_landmarks sets the number of features)."
        )
    if settings.planes == "fuzzy":
        return (
            "has no widths; use planes='crisp', or solver='moments' (reduce the number of columns "
            "with SelectKBest or TruncatedSVD)."
        )
    names = ", ".join(repr(name) for name in possible)
    return f"is not available for this estimator; use one of 'auto', {names}."


def landmark_map(settings: FitSettings, rows: Rows) -> LandmarkMap | None:
    """Choose landmarks and compute the map to their features. None for linear planes."""
    if not settings.uses_kernel:
        return None
    check_finite(rows.X, rows.names)
    learn_gammas = partial(
        learn_feature_gammas, X=rows.X, codes=rows.codes, s=rows.weight, groups=rows.groups
    )
    return make_map(
        rows.X, rows.codes, rows.weight, kernel=settings.kernel, gamma=settings.gamma,
        degree=settings.degree, coef0=settings.coef0, n_landmarks=settings.n_landmarks,
        random_state=settings.random_state,
        spread=None if settings.relevance is None else learn_gammas,
    )  # fmt: skip


def features(X: Any, phi: LandmarkMap | None) -> Any:
    """Map rows to the features in which planes are linear. X itself if there is no kernel."""
    return X if phi is None else LazyFeatures(X, phi)


def weighted_moments(
    settings: FitSettings, rows: Rows, phi: LandmarkMap | None
) -> tuple[ClassMoments, None]:
    """Compute the moments of a fit without degrees."""
    return own_moments(rows, features(rows.X, phi)), None


def degrees(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    summary: ClassSummary | None = None,
    solver: str = "moments",
) -> tuple[Array | None, Any]:
    """Return the given degrees, or compute those of the settings (see `compute_degrees`)."""
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
    """Compute the moments of a fit and the degrees of its rows (None if all are 1).

    `Z` are the features of the rows and `known` their moments without degrees, if already computed.
    """
    if Z is None:
        Z = features(rows.X, phi)
    own = None if known is None else known.own
    absolute_own = None if known is None else known.absolute_own
    mu, own = degrees(settings, rows, Z, own)
    return twin_moments(settings, rows, Z, mu, own, absolute_own), mu


def twin_moments(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    mu: Array | None,
    own: ClassMoments | None = None,
    absolute_own: ClassMoments | None = None,
) -> TwinMoments:
    """Compute the moments with weights s and s mu, and those of abs(X) for fuzzy planes.

    `own` and `absolute_own` are those of `Z` and abs(X) with the weights s, if already computed.
    """
    weights = _weights_no_class(settings, rows, mu)
    if weights.own is not rows.weight:
        own = None
        absolute_own = None
    own, slack = weights.moments(Z, own, groups=rows.groups)
    check_moments(own, rows)
    if not settings.has_widths:
        return TwinMoments(own, slack)
    # Widths depend on X, not on landmark features.
    return TwinMoments(own, slack, *weights.moments(rows.X, absolute_own, absolute=True))


def _weights_no_class(settings: FitSettings, rows: Rows, mu: Array | None) -> RowWeights:
    """Return the weights of rows in both terms, without class weights."""
    both = settings.membership_scope == "both"
    return RowWeights.of(rows.codes, rows.weight, mu, len(rows.classes), both=both)


def row_weights(settings: FitSettings, rows: Rows, mu: Array | None) -> RowWeights:
    """Return the weights of rows in both terms, with class weights."""
    weights = _weights_no_class(settings, rows, mu)
    totals = weights.totals(weights.own)
    return weights.scaled(class_factors(settings.class_weight, totals, rows.classes))


def check_opposing_weight(settings: FitSettings, slack_weight: Array) -> None:
    """Raise a ValueError if a plane has no rivals, given the total slack weight per class."""
    in_pairs = settings.multi_class == "ovo"
    has_weight = slack_weight > 0
    if not (has_weight.all() if in_pairs else has_weight.sum() > 1):
        raise ValueError(
            f"membership is 0 for every row {'of' if in_pairs else 'outside of'} some class, so "
            "that a plane has no rivals; give at least one of these rows a degree above 0."
        )


def apply_class_weight(settings: FitSettings, moments: TwinMoments, classes: Array) -> TwinMoments:
    """Apply class weights to moments."""
    if settings.class_weight is None:
        return moments
    factor = class_factors(settings.class_weight, moments.own.weight, classes)
    return moments.combined(lambda part: part.scaled(factor))


def ridge(settings: FitSettings, own: ClassMoments) -> float:
    """Return alpha. For "auto" it is `auto_ridge` of the within-class variances.

    That is multiplied by the mean weight of a row (of a group in a class, if rows have groups), so
    that the scale of the weights does not matter. If all weights are 0, it is 1.
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
    """Return the penalty that alpha="auto" resolves to. None if alpha is a number."""
    if settings.alpha != "auto" or moments is None:
        return None
    twin = moments if isinstance(moments, TwinMoments) else TwinMoments(moments, moments)
    return ridge(settings, apply_class_weight(settings, twin, classes).own)


def ridge_of_rows(settings: FitSettings, rows: Rows, weights: RowWeights) -> float:
    """Return `ridge`, computed from weighted rows."""
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
    """Return `used_ridge`, computed from weighted rows."""
    if settings.alpha != "auto":
        return None
    return ridge_of_rows(settings, rows, row_weights(settings, rows, mu))


def auto_ridge(settings: FitSettings, variances: Array, sizes: Array) -> float:
    """Return the penalty of alpha="auto" for weights of 1, from within-class variances.

    It is about as much as one more row would add. Features of a kernel share one scale, so it is
    the sum of their variances. Columns have scales of their own, and the largest must not dominate,
    so it is the number of columns times the geometric mean of their variances, which is about the
    sum if columns are scaled. Columns that are constant, given the `sizes` of their means, do not
    count. If all are constant, it is 1.
    """
    if settings.uses_kernel:
        return float(variances.sum()) or 1.0
    varying = variances[np.sqrt(variances) > SAME_NUMBER * sizes]
    if not len(varying):
        return 1.0
    return len(varying) * float(np.exp(np.log(varying).mean()))


def scatter_of_rows(rows: Rows, weights: RowWeights) -> float:
    """Return the weighted sum of squared distances of rows from the means of their classes."""
    X = rows.X
    scatter = 0.0
    for codes, v in _hard_labels(rows, weights):
        means = ClassMeans.from_rows(X, codes, v, weights.n_classes)
        scatter += float(v @ CenterMembership().distance(X, codes, means) ** 2)
    if not np.isfinite(scatter):
        raise_overflow(rows)
    return scatter


def _hard_labels(rows: Rows, weights: RowWeights) -> list[tuple[Array, Array]]:
    """Return labels and own weights of all rows: one pair, or one per class of soft labels."""
    if weights.codes is not None:
        return [(weights.codes, weights.own)]
    return [(np.zeros(rows.X.shape[0], dtype=np.intp), v) for v in weights.own.T]


def solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
    """Solve for the planes of all classes."""
    C = settings.penalties(classes)
    K = len(classes)
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
    crisp = planes.crisp_planes(
        m.own, m.slack, C, alpha,
        isotropic=settings.uses_kernel, multi_class=settings.multi_class,
    )  # fmt: skip
    warn_ill_conditioned(crisp, alpha)
    if settings.planes == "crisp":
        return crisp
    if m.absolute_own is None or m.absolute_slack is None:
        raise ValueError(
            "planes='fuzzy' needs moments that a fit with planes='crisp' does not keep; fit a new "
            "model."
        )
    return planes.fuzzy_planes(
        crisp, m.absolute_own, m.absolute_slack, C, settings.tau, settings.margin_width
    )


def fit_rows(settings: FitSettings, rows: Rows, solver: str) -> tuple[Array | None, Planes]:
    """Compute degrees (see `degrees`) and planes by a solver that needs the rows."""
    mu, _ = degrees(settings, rows, rows.X, solver=solver)
    weights = row_weights(settings, rows, mu)
    check_opposing_weight(settings, weights.totals(weights.slack))
    alpha = ridge_of_rows(settings, rows, weights)
    crisp, error = solvers.crisp_planes(
        solver, rows.X, weights, settings.penalties(rows.classes), alpha,
        multi_class=settings.multi_class, tol=settings.tol,
    )  # fmt: skip
    if not (np.isfinite(crisp.coef).all() and np.isfinite(crisp.intercept).all()):
        raise_overflow(rows)
    warn_unless_converged(solver, settings.tol, error)
    warn_ill_conditioned(crisp, alpha)
    return mu, crisp


def row_features(rows: Rows, *, centred: bool = True) -> RowFeatures:
    """Compute row-space features: at most as many columns as rows, with the same distances."""
    computed = RowFeatures.of(rows.X, centred=centred)
    if not np.isfinite(computed.Z).all():
        raise_overflow(rows)
    return computed


def in_row_space(rows: Rows) -> Rows:
    """Replace the columns of rows by their row-space features (see `row_features`)."""
    return replace(rows, X=row_features(rows).Z, given=rows.X)


def check_size(moments: ClassMoments) -> None:
    """Raise a ValueError if the variance of a column underflows. Only needed if alpha is 0."""
    spread = np.sqrt(np.diagonal(moments.covariance, axis1=1, axis2=2))
    size = np.maximum(np.abs(moments.mean), spread).max(axis=0)
    tiny = np.flatnonzero((size > 0) & (size < 1e-145))
    if len(tiny):
        raise ValueError(
            f"alpha=0 and column {tiny[0]} of X is so small that its squares underflow in double "
            "precision; scale the columns of X (e.g. StandardScaler)."
        )


def warn_ill_conditioned(fitted: Planes, alpha: float) -> None:
    """Warn if the ridge penalty, or most digits of the planes, were lost to rounding."""
    rank_deficient = fitted.rank is not None and fitted.rank < fitted.coef.shape[1]
    if alpha > 0 and (rank_deficient or fitted.loss > MOST_LOSS):
        warnings.warn(
            f"the planes are ill-conditioned and coef_ may be inaccurate: alpha={alpha:g} and most "
            "of X are lost to rounding beside the largest values of X; look for outliers or codes "
            "such as -999999 in X, scale its columns (RobustScaler), or set a larger alpha.",
            UserWarning,
            stacklevel=5,  # the line that called fit
        )


def warn_unless_converged(solver: str, tol: float, error: float) -> None:
    """Warn if the iterations stopped before the error was below `tol`."""
    if error > tol:
        warnings.warn(
            f"solver={solver!r} stopped with a relative error of up to {error:.1g} (tol={tol:g}); "
            "scale the columns of X (MaxAbsScaler, StandardScaler(with_mean=False)), or set a "
            "larger alpha or a larger tol.",
            ConvergenceWarning,
            stacklevel=5,  # the line that called fit
        )
