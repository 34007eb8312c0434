"""Fit by pure functions of validated rows and frozen settings: degrees, moments, planes.

Estimators, the search, files, Dask and Spark all call these; they have no state.

Vocabulary: own moments have the weights s, slack moments the weights s mu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight

from fuzzytwin._utils.types import Array
from fuzzytwin.core import paper_planes, planes
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.kernels import LandmarkMap, MappedRows, make_map
from fuzzytwin.memberships import Membership, MomentMembership
from fuzzytwin.relevance import learned_gammas
from fuzzytwin.rows import Rows, check_degrees, refuse_non_finite
from fuzzytwin.settings import FitSettings

TOO_LARGE = (
    "X or sample_weight is so large that squares overflow in double precision; "
    "scale the columns of X (e.g. StandardScaler) or divide the weights."
)


def landmark_map(settings: FitSettings, rows: Rows) -> LandmarkMap | None:
    """Choose landmarks among the rows and compute their map; None for linear planes."""
    if not settings.curved:
        return None
    refuse_non_finite(rows.X, rows.names)
    learned = partial(learned_gammas, X=rows.X, codes=rows.codes, s=rows.s)
    return make_map(
        rows.X, rows.codes, rows.s, kernel=settings.kernel, gamma=settings.gamma,
        degree=settings.degree, coef0=settings.coef0, n_landmarks=settings.n_landmarks,
        random_state=settings.random_state,
        spread=None if settings.relevance is None else learned,
    )  # fmt: skip


def features(X: Any, phi: LandmarkMap | None) -> Any:
    """Map rows to the features in which planes are linear; X itself where no kernel is used."""
    return X if phi is None else MappedRows(X, phi)


def own_moments(rows: Rows, Z: Any) -> ClassMoments:
    """Compute the moments of the features `Z` with the sample weights; they must be finite."""
    own = ClassMoments.from_rows(Z, rows.codes, rows.s, n_classes=len(rows.classes))
    check_moments(own, rows.X, rows.names)
    return own


def degrees(
    settings: FitSettings, rows: Rows, Z: Any, own: ClassMoments | None = None
) -> tuple[Array | None, ClassMoments | None]:
    """Return the given degrees of the rows, or compute them.

    Parameters
    ----------
    settings, rows
        What to compute, and from which rows.
    Z : array-like of shape (n, r)
        Features of the rows.
    own : ClassMoments, default=None
        `own_moments`, if they are known.

    Returns
    -------
    mu : ndarray of shape (n,) or (n, K), or None
        Degrees or soft labels; None where every degree is 1.
    own : ClassMoments or None
        `own_moments`, if they were given or computed.
    """
    if rows.mu is not None or settings.membership is None:
        return rows.mu, own
    own = own_moments(rows, Z) if own is None else own
    return computed_degrees(settings, rows, Z, own), own


def computed_degrees(settings: FitSettings, rows: Rows, Z: Any, own: ClassMoments) -> Array:
    """Compute degrees by the membership of the settings."""
    membership, K = settings.membership, len(rows.classes)
    s = np.ones(len(rows)) if rows.s is None else rows.s
    if isinstance(membership, Membership):
        moment_based = isinstance(membership, MomentMembership)
        # Moment-based memberships measure distances between features.
        X = Z if moment_based else rows.original
        if settings.curved and not moment_based:
            own = ClassMoments.from_rows(X, rows.codes, s, n_classes=K)
        factor = None
        if settings.class_weight is not None:
            factor = class_factors(settings, own, rows.classes)
        return membership.degrees(X, rows.codes, s, own, factor)
    assert membership is not None
    return called_degrees(membership, rows)


def called_degrees(membership: Callable[..., Array], rows: Rows) -> Array:
    """Compute degrees by a callable of the user's."""
    s = np.ones(len(rows)) if rows.s is None else rows.s
    mu = check_degrees(membership(rows.original, rows.y, s), len(rows), rows.classes, soft=False)
    if mu is None:
        raise ValueError(
            f"membership={membership!r} returned None; it must return one degree per sample."
        )
    return mu


def twin_moments(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    mu: Array | None,
    own: ClassMoments | None = None,
    absolute_own: ClassMoments | None = None,
) -> TwinMoments:
    """Compute the moments with weights s and s mu, and those of abs(X) for fuzzy planes.

    Parameters
    ----------
    settings, rows, Z
        As for `degrees`.
    mu : ndarray or None
        What `degrees` returned.
    own, absolute_own : ClassMoments, default=None
        Moments of `Z` and of abs(X) with the weights s, if they are known.
    """
    K = len(rows.classes)
    codes, own_weight, slack_weight = row_weights(settings, rows, mu)
    if own_weight is not rows.s:
        own, absolute_own = None, None
    if own is None:
        own = ClassMoments.from_rows(Z, codes, own_weight, n_classes=K)
        check_moments(own, rows.X, rows.names)
    same = slack_weight is own_weight
    slack = own if same else ClassMoments.from_rows(Z, codes, slack_weight, n_classes=K)
    if not settings.has_widths:
        return TwinMoments(own, slack)

    # Widths depend on X, not on features of landmarks.
    def of_absolute(weight: Array | None) -> ClassMoments:
        return ClassMoments.from_rows(rows.X, codes, weight, n_classes=K, absolute=True)

    absolute_own = absolute_own or of_absolute(own_weight)
    return TwinMoments(
        own, slack, absolute_own, absolute_own if same else of_absolute(slack_weight)
    )


def row_weights(
    settings: FitSettings, rows: Rows, mu: Array | None
) -> tuple[Array | None, Array | None, Array | None]:
    """Return codes, own weights and slack weights of rows, class weights not included.

    Codes are None where soft labels make the weights tables; weights are None where all are 1.
    """
    if mu is None:
        return rows.codes, rows.s, rows.s
    soft = mu.ndim == 2
    slack = mu if rows.s is None else (rows.s[:, None] if soft else rows.s) * mu
    both = soft or settings.membership_scope == "both"
    return None if soft else rows.codes, slack if both else rows.s, slack


def check_complete(settings: FitSettings, moments: TwinMoments) -> None:
    """Refuse the moments of all rows if some plane has no rivals."""
    check_rivals(settings, moments.slack.weight)


def check_rivals(settings: FitSettings, slack_weight: Array) -> None:
    """Refuse total slack weights of the classes that leave a plane without rivals."""
    pairs, held = settings.multi_class == "ovo", slack_weight > 0
    if not (held.all() if pairs else held.sum() > 1):
        raise ValueError(
            f"membership is 0 for every sample {'of' if pairs else 'outside of'} some class, so a "
            "plane has no rivals; give some of them a degree above 0."
        )


def class_factors(settings: FitSettings, own: ClassMoments, classes: Array) -> Array:
    """Compute class weights; "balanced" makes the total weights of all classes equal."""
    return weight_factors(settings, own.weight, classes)


def weight_factors(settings: FitSettings, weight: Array, classes: Array) -> Array:
    """Compute class weights from the total weight of each class."""
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
    factor = class_factors(settings, moments.own, classes)
    return moments.combined(lambda part: part.scaled(factor))


def ridge(settings: FitSettings, own: ClassMoments) -> float:
    """Return alpha; for "auto" the mean squared distance of a row from the mean of its class.

    That is as much as one more row: it fits features of any size.
    """
    if settings.alpha != "auto":
        return float(settings.alpha)
    share = own.weight / own.weight.max()
    return auto_ridge(float(share @ np.trace(own.covariance, axis1=1, axis2=2)), share.sum())


def auto_ridge(scatter: float, weight: float) -> float:
    """Return the mean scatter of a row; 1 where all rows of a class are equal."""
    return scatter / weight if scatter > 0 else 1.0


def solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
    """Solve for the planes of all classes."""
    C, K = settings.penalties(classes), len(classes)
    if settings.alpha == 0:
        check_size(moments.own)
    m = apply_class_weight(settings, moments, classes)
    alpha = ridge(settings, m.own)
    if settings.planes == "fuzzy" and settings.formulation != "endpoints":
        if K > 2:
            raise ValueError(
                f"formulation={settings.formulation!r} is defined for two classes, not {K}; use "
                "formulation='endpoints'."
            )
        stationary = settings.formulation == "stationary"
        solve_paper = paper_planes.stationary_planes if stationary else paper_planes.printed_planes
        return solve_paper(m.own, m.slack, C, alpha, settings.tau)
    found = planes.crisp_planes(
        m.own, m.slack, C, alpha,
        one_unit=settings.curved, multi_class=settings.multi_class,
    )  # fmt: skip
    if settings.planes == "crisp":
        return found
    if m.absolute_own is None or m.absolute_slack is None:
        raise ValueError(
            "planes='fuzzy' needs moments that a fit with planes='crisp' does not keep; fit a new "
            "model."
        )
    width, tau = settings.margin_width, settings.tau
    return planes.fuzzy_planes(found, m.absolute_own, m.absolute_slack, C, tau, width)


def check_moments(moments: ClassMoments, X: Any, names: Any = None) -> None:
    """Refuse moments that are not finite: X is checked here, through its moments."""
    if not moments.is_finite:
        refuse_non_finite(X, names)
        raise ValueError(TOO_LARGE)


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
