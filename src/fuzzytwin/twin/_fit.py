"""Moments by passes over chunks of rows, and planes from moments. Rows in memory are one chunk.

Functions of validated rows and frozen settings, called by the estimators, the search, files, Dask
and Spark. Own moments use the weights s of the rows, slack moments the weights s mu, with the
membership degrees mu. A pass is a function of one chunk, and its results add up. Files, Dask and
Spark only supply the chunks (see `fuzzytwin._passes`).

    moment_pass    moments per label, without degrees or with those of the rows
    radius_pass    maximum distances from the planes or means that follow from these moments, if the
                   membership needs them and there are several chunks
    degree_pass    moments with computed degrees
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._params import class_factors
from fuzzytwin._passes import Classes, ClassTotals, SumOverChunks, in_memory
from fuzzytwin._rows import Rows, check_finite, raise_overflow
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core import planes
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import ClassSummary
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmark_map import LazyFeatures, has_gamma
from fuzzytwin.kernels._landmarks import check_landmarks, is_count
from fuzzytwin.kernels._make_map import make_map
from fuzzytwin.memberships import MomentMembership
from fuzzytwin.memberships._base import balance_factors
from fuzzytwin.memberships._degrees import compute_degrees
from fuzzytwin.memberships._moment_based import class_radii
from fuzzytwin.twin._settings import FitSettings, choose_solver

# Relative error of the coefficients at which the solver "iterative" stops.
ITERATIVE_TOL = 1e-6
# Largest amplification of rounding errors by the systems of planes without a warning.
MAX_LOSS = 1e11
# Columns with a standard deviation of at most this fraction of their mean count as constant.
SAME_NUMBER = 1e-12


@dataclass(frozen=True, eq=False)
class MomentFit:
    """Moments of all rows by class, from which planes follow."""

    classes: Array
    moments: TwinMoments
    n_features: int
    degrees: Array | None  # of rows in memory, if they have any


def moments_of_rows(
    settings: FitSettings,
    rows: Rows,
    phi: LandmarkMap | None = None,
    classes: Array | None = None,
) -> MomentFit:
    """Compute the moments of rows in memory, which are one chunk: see `moments_of_chunks`."""
    has_degrees = rows.degree is not None
    fit = moments_of_chunks(
        settings, in_memory(rows), phi=phi, classes=classes, has_degrees=has_degrees, one_chunk=True
    )
    return replace(fit, degrees=rows.degree) if has_degrees else fit


def moments_of_chunks(
    settings: FitSettings,
    total: SumOverChunks,
    *,
    phi: LandmarkMap | None = None,
    classes: Array | None = None,
    has_degrees: bool = False,
    one_chunk: bool = False,
) -> MomentFit:
    """Compute the moments of all chunks, by one to three passes.

    `phi` maps rows to landmark features. `classes` are all labels, if some may be missing from
    these rows. If it is None, each plane must have rivals. If the rows have degrees or soft labels
    (`has_degrees`), none are computed.
    """
    sums = total(moment_pass, settings, phi)
    if sums is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    labels = sums.classes(classes)
    settings.penalties(labels.classes)
    moments = sums.by_class(labels)
    if not moments.own.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )
    degrees = None
    if settings.membership is not None and not has_degrees:
        first = FirstPass(settings, phi, labels, moments.own, keep_degrees=one_chunk)
        if not one_chunk:
            first = first.with_radii(total)
        weighted = total(degree_pass, first)
        degrees = weighted.degrees
        slack, absolute_slack = weighted.moments.slack, weighted.moments.absolute_slack
        moments = TwinMoments(moments.own, slack, moments.absolute_own, absolute_slack)
    if classes is None:
        check_opposing_weight(moments.slack.weight)
    return MomentFit(labels.classes, moments, sums.n_features, degrees)


def fixed_landmarks(settings: FitSettings) -> LandmarkMap | None:
    """Compute the map of the user's landmarks. None are sampled, as all chunks must share them."""
    if not settings.uses_kernel:
        return None
    unfit = []  # parameters whose values depend on all rows
    remedies = []
    if is_count(settings.n_landmarks):
        unfit.append(f"n_landmarks={settings.n_landmarks!r}")
        remedies.append("the landmarks themselves as n_landmarks, shape (m, d)")
    if has_gamma(settings.kernel) and isinstance(settings.gamma, str) and settings.gamma == "scale":
        unfit.append(f"gamma={settings.gamma!r}")
        remedies.append("a number as gamma")
    if unfit:
        raise ValueError(
            f"kernel={settings.kernel!r} with {' and '.join(unfit)} needs all rows at once and "
            f"cannot be used with chunks; give {' and '.join(remedies)}, or use kernel='linear'."
        )
    landmarks = check_landmarks(settings.n_landmarks)
    codes = np.zeros(landmarks.shape[0], dtype=np.intp)
    return landmark_map(settings, Rows(landmarks, codes, None, None, None, codes[:1]))


def moment_pass(settings: FitSettings, phi: LandmarkMap | None, rows: Rows) -> ChunkMoments | None:
    """Compute the moments of a chunk per label, without degrees or with those of the rows."""
    if not len(rows):
        return None
    labels = rows.classes
    present = rows.has_weight.astype(float)
    # Soft labels have a column for every class, even if the chunk has no label of it.
    rows = replace(rows, classes=np.arange(len(present)))
    choose_solver(settings, rows, ("moments",))  # checks the available memory
    moments = twin_moments(settings, rows, features(rows.X, phi), rows.degree)
    return ChunkMoments(labels, present, rows.X.shape[1], rows.soft, moments)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Results of the first pass over all rows, from which the degrees of a chunk are computed."""

    settings: FitSettings
    phi: LandmarkMap | None
    labels: Classes
    own: ClassMoments  # by class, without degrees
    keep_degrees: bool  # whether one chunk holds all rows
    prepared: Any = None  # see `MomentMembership.prepare`
    radii: Array | None = None  # see `MomentMembership.from_distance`

    def with_radii(self, total: SumOverChunks) -> FirstPass:
        """Prepare a membership that is computed chunk by chunk, if necessary by another pass."""
        membership = self.settings.membership
        if not isinstance(membership, MomentMembership):
            return self
        classes = self.labels.classes
        factor = class_factors(self.settings.class_weight, self.own.weight, classes)
        prepared = replace(self, prepared=membership.prepare(self.own.scaled(factor)))
        radii = np.zeros(len(classes))
        if membership.needs_radii:
            radii = total(radius_pass, prepared).values
        return replace(prepared, radii=radii)

    def encoded(self, rows: Rows) -> Rows:
        """Encode the labels of a chunk by class. Rows of labels without class have weight 0."""
        classes = self.labels.classes
        index = np.maximum(self.labels.index, 0).astype(np.min_scalar_type(len(classes)))
        codes = index[np.searchsorted(self.labels.labels, rows.classes)][rows.codes]
        return replace(rows, codes=codes, classes=classes, degree=None)

    def degrees(self, rows: Rows, Z: Any) -> Array:
        """Compute the degrees of encoded rows with features Z."""
        membership = self.settings.membership
        if self.radii is None or not isinstance(membership, MomentMembership):
            mu, _ = degrees(self.settings, rows, Z, self.own)
            assert mu is not None
            return mu
        distance = membership.distance(Z, rows.codes, self.prepared)
        mu = membership.from_distance(distance, rows.codes, self.radii)
        return mu * balance_factors(self.own)[rows.codes] if membership.imbalance else mu


def radius_pass(first: FirstPass, rows: Rows) -> MaxDistances | None:
    """Compute the maximum distance in each class of a chunk."""
    if not len(rows):
        return None
    rows = first.encoded(rows)
    membership = first.settings.membership
    assert isinstance(membership, MomentMembership)
    Z = features(rows.X, first.phi)
    distance = membership.distance(Z, rows.codes, first.prepared)
    return MaxDistances(class_radii(distance, rows.codes, rows.weights, len(rows.classes)))


def degree_pass(first: FirstPass, rows: Rows) -> ChunkMoments | None:
    """Compute the moments of a chunk with computed degrees.

    Own moments, which the first pass computed, are left at zero.
    """
    if not len(rows):
        return None
    rows = first.encoded(rows)
    Z = features(rows.X, first.phi)
    mu = first.degrees(rows, Z)
    K = len(rows.classes)
    d = rows.X.shape[1]
    own = ClassMoments.zeros(K, first.own.origin.shape[1])
    absolute_own = ClassMoments.zeros(K, d)
    moments = twin_moments(first.settings, rows, Z, mu, own, absolute_own)
    degrees = mu if first.keep_degrees else None
    return ChunkMoments(rows.classes, np.ones(K), d, False, moments, degrees)


@dataclass(frozen=True, eq=False)
class ChunkMoments(ClassTotals):
    """Moments of a chunk of rows per sorted label, or per column of soft labels."""

    moments: TwinMoments
    degrees: Array | None = None  # of the rows, if there is only one chunk

    def by_class(self, labels: Classes) -> TwinMoments:
        """Return the moments per class."""
        if self.soft:
            return self.moments.combined(lambda part: part.take(labels.index))
        return reindex_classes(self.moments, labels.index, len(labels.classes))

    def __add__(self, other: ChunkMoments) -> ChunkMoments:
        labels, weight, (index, other_index) = self.joined(other)
        moments = reindex_classes(self.moments, index, len(weight))
        moments = moments + reindex_classes(other.moments, other_index, len(weight))
        return replace(self, labels=labels, weight=weight, moments=moments)


@dataclass(frozen=True, eq=False)
class MaxDistances:
    """Maximum distance in each class. The sum of two chunks is their maximum."""

    values: Array

    def __add__(self, other: MaxDistances) -> MaxDistances:
        return MaxDistances(np.maximum(self.values, other.values))


def reindex_classes(moments: TwinMoments, index: Array, n_classes: int) -> TwinMoments:
    """Move the moments of class i to position ``index[i]`` of `n_classes`. -1 drops them."""
    if np.array_equal(index, np.arange(n_classes)):
        return moments
    kept = np.flatnonzero(index >= 0)

    def reindexed(part: ClassMoments) -> ClassMoments:
        out = ClassMoments.zeros(n_classes, part.origin.shape[1])
        for new, old in zip(out.parts, part.parts, strict=True):
            new[index[kept]] = old[kept]
        return out

    return moments.combined(reindexed)


def landmark_map(settings: FitSettings, rows: Rows) -> LandmarkMap | None:
    """Choose landmarks and compute the map to their features. None for linear planes."""
    if not settings.uses_kernel:
        return None
    check_finite(rows.X, rows.names)
    return make_map(
        rows.X,
        rows.codes,
        rows.weight,
        kernel=settings.kernel,
        gamma=settings.gamma,
        degree=settings.degree,
        coef0=settings.coef0,
        n_landmarks=settings.n_landmarks,
        random_state=settings.random_state,
    )


def features(X: Any, phi: LandmarkMap | None) -> Any:
    """Map rows to the features in which planes are linear. X itself if there is no kernel."""
    return X if phi is None else LazyFeatures(X, phi)


def degrees(
    settings: FitSettings,
    rows: Rows,
    Z: Any,
    summary: ClassSummary | None = None,
    solver: str = "moments",
) -> tuple[Array | None, Any]:
    """Return the degrees of the rows, or compute those of the settings (see `compute_degrees`)."""
    return compute_degrees(
        settings.membership,
        rows,
        Z,
        summary,
        solver,
        tol=ITERATIVE_TOL,
        class_weight=settings.class_weight,
    )


def degree_moments(
    settings: FitSettings,
    rows: Rows,
    phi: LandmarkMap | None,
    Z: Any = None,
    plain_moments: TwinMoments | None = None,
) -> tuple[TwinMoments, Array | None]:
    """Compute the moments of a fit and the degrees of its rows (None if all are 1).

    `Z` are the features of the rows and `plain_moments` their moments without degrees, if
    these were already computed.
    """
    if Z is None:
        Z = features(rows.X, phi)
    own = None if plain_moments is None else plain_moments.own
    absolute_own = None if plain_moments is None else plain_moments.absolute_own
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
    weights = RowWeights.of(rows.codes, rows.weight, mu, len(rows.classes))
    if weights.own is not rows.weight:  # soft labels
        own = None
        absolute_own = None
    own, slack = weights.moments(Z, own, groups=rows.groups)
    if not own.is_finite:
        raise_overflow(rows)
    if not settings.has_widths:
        return TwinMoments(own, slack)
    # Widths depend on X, not on landmark features.
    return TwinMoments(own, slack, *weights.moments(rows.X, absolute_own, absolute=True))


def row_weights(settings: FitSettings, rows: Rows, mu: Array | None) -> RowWeights:
    """Return the weights of rows in both terms, with class weights."""
    weights = RowWeights.of(rows.codes, rows.weight, mu, len(rows.classes))
    totals = weights.totals(weights.own)
    return weights.scaled(class_factors(settings.class_weight, totals, rows.classes))


class ImpossiblePlanesError(ValueError):
    """The rows, their weights or degrees do not determine the planes."""


def check_opposing_weight(slack_weight: Array) -> None:
    """Raise an error if a plane has no rivals, given the total slack weight per class."""
    if not (slack_weight > 0).all():
        raise ImpossiblePlanesError(
            "membership is 0 for every row of a class, so that a plane has no rivals; give at "
            "least one of these rows a degree above 0."
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


def auto_ridge(settings: FitSettings, variances: Array, sizes: Array) -> float:
    """Return the penalty of alpha="auto" for weights of 1, from within-class variances.

    It is about the squared length of a centred row. Features of a kernel share one scale, so it is
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


def solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
    """Solve for the planes of all classes."""
    C = settings.penalties(classes)
    if settings.alpha == 0:
        check_underflow(moments.own)
    m = apply_class_weight(settings, moments, classes)
    alpha = ridge(settings, m.own)
    crisp = planes.crisp_planes(
        m.own,
        m.slack,
        C,
        alpha,
        isotropic=settings.uses_kernel,
    )
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


def check_underflow(moments: ClassMoments) -> None:
    """Raise an error if the variance of a column underflows. Only needed if alpha is 0."""
    spread = np.sqrt(np.diagonal(moments.covariance, axis1=1, axis2=2))
    size = np.maximum(np.abs(moments.mean), spread).max(axis=0)
    tiny = np.flatnonzero((size > 0) & (size < 1e-145))
    if len(tiny):
        raise ImpossiblePlanesError(
            f"alpha=0 and column {tiny[0]} of X is so small that its squares underflow in double "
            "precision; scale the columns of X (e.g. StandardScaler)."
        )


def warn_ill_conditioned(fitted: Planes, alpha: float) -> None:
    """Warn if the ridge penalty, or most digits of the planes, were lost to rounding."""
    rank_deficient = fitted.rank is not None and fitted.rank < fitted.coef.shape[1]
    if alpha > 0 and (rank_deficient or fitted.loss > MAX_LOSS):
        warn_user(
            "the planes are ill-conditioned and coef_ may be inaccurate: compared with the largest "
            f"values of X, alpha={alpha:g} and most of X are lost to rounding; look for outliers "
            "or codes such as -999999 in X, scale its columns (RobustScaler), or set a larger "
            "alpha.",
        )
