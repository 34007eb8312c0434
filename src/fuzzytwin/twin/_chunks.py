"""Fit over chunks of rows, of which only one needs to be in memory.

An engine (files, Dask, Spark) calls a function on every chunk of rows and adds up the results. This
module has these functions, and makes a fit of the sums.

    first_pass     moments of every chunk, without degrees or with given ones
    degree_pass    maximum distances from the planes or means that follow from these moments, if
                   the membership needs them, then moments with computed degrees
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._params import class_factors
from fuzzytwin._passes import Classes, ClassTotals, Total, checked
from fuzzytwin._rows import Rows, held_classes
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import LandmarkMap, given_landmarks, has_gamma, is_count
from fuzzytwin.memberships import MomentMembership, balance, class_radii
from fuzzytwin.memberships._registry import BY_CHUNKS, by_chunks
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import needs_rows
from fuzzytwin.twin._settings import FitSettings


@dataclass(frozen=True, eq=False)
class ChunkedFit:
    """Result of a fit over chunks, as `fit_moments` takes it."""

    classes: Array
    moments: TwinMoments
    n_features: int


def learn(
    settings: FitSettings,
    total: Total,
    *,
    given: bool,
    classes: Array | None = None,
    phi: LandmarkMap | None = None,
    names: Any = None,
) -> ChunkedFit:
    """Compute the moments of all chunks, as `_fit` does for rows in memory.

    `given` says whether degrees or soft labels are given, so that none are computed. `classes` are
    all labels, if some may be missing from these rows. `phi` maps to landmark features, and `names`
    are the column names, for errors.
    """
    computes_degrees = check_chunkable(settings, given=given)
    sums = total(first_pass, settings, phi, names)
    if sums is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    labels = sums.classes(classes)
    settings.penalties(labels.classes)
    moments = sums.moments
    if sums.soft:
        moments = moments.combined(lambda m: m.take(labels.index))
    else:
        moments = reindex_classes(moments, labels.index, len(labels.classes))
    if not moments.own.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )
    if computes_degrees:
        first = FirstPassResult(settings, phi, labels, moments.own)
        moments = _with_degrees(total, first, moments)
    if classes is None:
        fitting.check_opposing_weight(settings, moments.slack.weight)
    return ChunkedFit(labels.classes, moments, sums.n_features)


def check_chunkable(settings: FitSettings, *, given: bool) -> bool:
    """Return whether to compute degrees. Raise a ValueError if all rows are needed at once."""
    if settings.solver not in ("auto", "moments"):
        raise ValueError(
            f"solver={settings.solver!r} needs all rows at once and cannot be used with chunks; "
            "use solver='auto' or solver='moments', which adds up the moments of the chunks."
        )
    if needs_rows(settings.calibration):
        raise ValueError(
            f"calibration={settings.calibration!r} needs all rows at once and cannot be used with "
            "chunks; use calibration='moments' or None."
        )
    membership = settings.membership
    if membership is None or given:
        return False
    if by_chunks(membership):
        return True
    raise ValueError(
        f"membership={membership!r} needs all rows at once and cannot be used with chunks; use "
        f"None, {' or '.join(map(repr, BY_CHUNKS))}, or pass computed degrees to fit."
    )


def fixed_landmarks(settings: FitSettings) -> LandmarkMap | None:
    """Compute the map of given landmarks. None are sampled, as all chunks must use the same."""
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
    if settings.relevance is not None:
        unfit.append(f"relevance={settings.relevance!r}")
        remedies.append("a number for each column as gamma and relevance=None")
    if unfit:
        raise ValueError(
            f"kernel={settings.kernel!r} with {' and '.join(unfit)} needs all rows at once and "
            f"cannot be used with chunks; give {' and '.join(remedies)}, or use kernel='linear'."
        )
    landmarks = given_landmarks(settings.n_landmarks)
    codes = np.zeros(landmarks.shape[0], dtype=np.intp)
    return fitting.landmark_map(settings, Rows(landmarks, codes, codes, None, None, codes[:1]))


def sampled_landmarks(settings: FitSettings, X: Any, y: Any, s: Any) -> LandmarkMap | None:
    """Choose landmarks and gamma from one chunk, for all chunks."""
    X, y, s, _ = checked(X, y, s, None)
    return fitting.landmark_map(settings, Rows(X, y.codes, y.codes, s, None, y.values))


def first_pass(
    settings: FitSettings, phi: LandmarkMap | None, names: Any, X: Any, y: Any, s: Any, mu: Any
) -> ChunkMoments | None:
    """Compute the moments of a chunk per label, without degrees or with given ones."""
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    labels = y.values
    codes = y.codes
    soft = mu is not None and mu.ndim == 2
    present = held_classes(codes, s, mu, len(labels)).astype(float)
    rows = Rows(X, codes, codes, s, mu, np.arange(len(present)), names)
    fitting.choose_solver(settings, rows, ("moments",))  # checks the available memory
    moments = fitting.twin_moments(settings, rows, fitting.features(X, phi), mu)
    return ChunkMoments(labels, present, X.shape[1], soft, y.columns, moments)


@dataclass(frozen=True, eq=False)
class FirstPassResult:
    """Result of the first pass, from which degrees are computed chunk by chunk."""

    settings: FitSettings
    phi: LandmarkMap | None
    labels: Classes
    own: ClassMoments
    prepared: Any = None
    radii: Array | None = None  # None: not computed yet


def _with_degrees(total: Total, first: FirstPassResult, moments: TwinMoments) -> TwinMoments:
    """Compute the moments with degrees, from those without."""
    settings = first.settings
    membership = settings.membership
    classes = first.labels.classes
    if isinstance(membership, MomentMembership):
        factor = class_factors(settings.class_weight, first.own.weight, classes)
        first = replace(first, prepared=membership.prepare(first.own.scaled(factor)))
        radii = np.zeros(len(classes))
        if membership.needs_radii:
            radii = total(degree_pass, first).values
        first = replace(first, radii=radii)
    weighted = total(degree_pass, first).moments
    if settings.membership_scope == "both":
        return weighted
    return TwinMoments(moments.own, weighted.slack, moments.absolute_own, weighted.absolute_slack)


def degree_pass(
    first: FirstPassResult, X: Any, y: Any, s: Any, mu: Any
) -> ChunkMoments | MaxDistances | None:  # fmt: skip
    """Compute the moments of a chunk with computed degrees, or first the radii of the classes.

    Own moments, which the first pass computed, are left at zero.
    """
    X, y, s, _ = checked(X, y, s, None)
    if not len(y):
        return None
    settings = first.settings
    membership = settings.membership
    classes = first.labels.classes
    K = len(classes)
    d = X.shape[1]
    index = np.maximum(first.labels.index, 0).astype(np.min_scalar_type(K))
    codes = index[first.labels.places(y)]
    rows = Rows(X, y.values[y.codes], codes, s, None, classes)
    Z = fitting.features(X, first.phi)
    if isinstance(membership, MomentMembership):
        distance = membership.distance(Z, codes, first.prepared)
        if first.radii is None:
            weight = np.ones(len(y)) if s is None else s
            return MaxDistances(class_radii(distance, codes, weight, K))
        mu = membership.from_distance(distance, codes, first.radii)
        if membership.imbalance:
            mu = mu * balance(first.own)[codes]
    else:
        mu, _ = fitting.degrees(settings, rows, Z, first.own)
    own = ClassMoments.zeros(K, first.own.origin.shape[1])
    absolute_own = ClassMoments.zeros(K, d)
    moments = fitting.twin_moments(settings, rows, Z, mu, own, absolute_own)
    return ChunkMoments(classes, np.ones(K), d, False, None, moments)


@dataclass(frozen=True, eq=False)
class ChunkMoments(ClassTotals):
    """Moments of a chunk of rows per sorted label, or per column of soft labels."""

    moments: TwinMoments

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
