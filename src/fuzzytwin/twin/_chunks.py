"""Fit over chunks of rows that are never in one place.

An engine (files, Dask, Spark) knows how to call a function on every chunk of rows and to add up
the results. What to call, how often, and what to make of the sum is decided here.

    first_pass     moments of every chunk, with no degrees or with given ones
    degree_pass    greatest distances from the planes or means that these lead to, where needed;
                   then moments with degrees that follow from both
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._params import class_factors
from fuzzytwin._passes import Classes, ClassTotals, Total, checked
from fuzzytwin._rows import (
    Rows,
    held_classes,
)
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import LandmarkMap, given_landmarks, has_gamma, is_count
from fuzzytwin.memberships import MomentMembership, balance, class_radii
from fuzzytwin.memberships._registry import BY_CHUNKS, by_chunks
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import needs_rows
from fuzzytwin.twin._settings import FitSettings


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fit over chunks learns: all that `fit_moments` needs."""

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
) -> Learned:
    """Compute the moments of all chunks, as `fitting` does for rows in one place.

    `given` says whether degrees or soft labels are given, so that none are computed. `classes` are
    all labels, where some may be missing from these rows; `phi` maps to the features of landmarks,
    and `names` are those of the columns, for errors.
    """
    computed = check_chunkable(settings, given=given)
    part = total(first_pass, settings, phi, names)
    if part is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    found = part.classes(classes)
    settings.penalties(found.classes)
    moments = part.moments
    if part.soft:
        moments = moments.combined(lambda m: m.take(found.index))
    else:
        moments = place(moments, found.index, len(found.classes))
    if not moments.own.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )
    if computed:
        moments = _with_degrees(total, FirstPassResult(settings, phi, found, moments.own), moments)
    if classes is None:
        fitting.check_opposing_weight(settings, moments.slack.weight)
    return Learned(found.classes, moments, part.n_features)


def check_chunkable(settings: FitSettings, *, given: bool) -> bool:
    """Return whether to compute degrees; refuse what needs all rows at once."""
    if settings.solver not in ("auto", "moments"):
        raise ValueError(
            f"solver={settings.solver!r} needs all rows at once, which chunks cannot give; use "
            "solver='auto' or solver='moments', which adds up moments of the chunks."
        )
    if needs_rows(settings.calibration):
        raise ValueError(
            f"calibration={settings.calibration!r} needs all rows at once, which chunks cannot "
            "give; use calibration='moments' or None."
        )
    membership = settings.membership
    if membership is None or given:
        return False
    if by_chunks(membership):
        return True
    raise ValueError(
        f"membership={membership!r} needs all rows at once, which chunks cannot give; use None, "
        f"{' or '.join(map(repr, BY_CHUNKS))}, or give degrees that you have to fit."
    )


def fixed_landmarks(settings: FitSettings) -> LandmarkMap | None:
    """Compute the map of given landmarks; all chunks must use the same, so none are sampled."""
    if not settings.uses_kernel:
        return None
    found, remedies = [], []
    if is_count(settings.n_landmarks):
        found.append(f"n_landmarks={settings.n_landmarks!r}")
        remedies.append("the landmarks themselves as n_landmarks, shape (m, d)")
    if has_gamma(settings.kernel) and isinstance(settings.gamma, str) and settings.gamma == "scale":
        found.append(f"gamma={settings.gamma!r}")
        remedies.append("a number as gamma")
    if settings.relevance is not None:
        found.append(f"relevance={settings.relevance!r}")
        remedies.append("a number for each column as gamma and relevance=None")
    if found:
        raise ValueError(
            f"kernel={settings.kernel!r} with {' and '.join(found)} needs all rows at once, which "
            f"chunks cannot give; give {' and '.join(remedies)}, or use kernel='linear'."
        )
    landmarks = given_landmarks(settings.n_landmarks)
    codes = np.zeros(landmarks.shape[0], dtype=np.intp)
    return fitting.landmark_map(settings, Rows(landmarks, codes, codes, None, None, codes[:1]))


def sampled_landmarks(settings: FitSettings, X: Any, y: Any, s: Any) -> LandmarkMap | None:
    """Take landmarks and gamma from one chunk, for all that come after it."""
    X, y, s, _ = checked(X, y, s, None)
    return fitting.landmark_map(settings, Rows(X, y.codes, y.codes, s, None, y.values))


def first_pass(
    settings: FitSettings, phi: LandmarkMap | None, names: Any, X: Any, y: Any, s: Any, mu: Any
) -> ChunkMoments | None:
    """Compute the moments of a chunk, by its own labels, with no degrees or with given ones."""
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    labels, codes = y.values, y.codes
    soft = mu is not None and mu.ndim == 2
    held = held_classes(codes, s, mu, len(labels)).astype(float)
    rows = Rows(X, codes, codes, s, mu, np.arange(len(held)), names)
    fitting.choose_solver(settings, rows, ("moments",))  # whether they fit into memory
    moments = fitting.twin_moments(settings, rows, fitting.features(X, phi), mu)
    return ChunkMoments(labels, held, X.shape[1], soft, y.columns, moments)


@dataclass(frozen=True, eq=False)
class FirstPassResult:
    """What the first pass found out, for degrees to be computed chunk by chunk."""

    settings: FitSettings
    phi: LandmarkMap | None
    found: Classes
    own: ClassMoments
    prepared: Any = None
    radii: Array | None = None  # None: still to be found


def _with_degrees(total: Total, known: FirstPassResult, moments: TwinMoments) -> TwinMoments:
    """Compute the moments with degrees that follow from those without."""
    settings, membership, classes = known.settings, known.settings.membership, known.found.classes
    if isinstance(membership, MomentMembership):
        factor = class_factors(settings.class_weight, known.own.weight, classes)
        known = replace(known, prepared=membership.prepare(known.own.scaled(factor)))
        by_radii = membership.needs_radii
        radii = total(degree_pass, known).values if by_radii else np.zeros(len(classes))
        known = replace(known, radii=radii)
    weighted = total(degree_pass, known).moments
    if settings.membership_scope == "both":
        return weighted
    return TwinMoments(moments.own, weighted.slack, moments.absolute_own, weighted.absolute_slack)


def degree_pass(
    known: FirstPassResult, X: Any, y: Any, s: Any, mu: Any
) -> ChunkMoments | MaxDistances | None:  # fmt: skip
    """Compute the moments of a chunk with computed degrees, or the radii that these need first.

    Its own moments, which the first pass computed, are left at zero.
    """
    X, y, s, _ = checked(X, y, s, None)
    if not len(y):
        return None
    settings, classes, index = known.settings, known.found.classes, known.found.index
    membership, K, n, d = settings.membership, len(classes), len(y), X.shape[1]
    codes = np.maximum(index, 0).astype(np.min_scalar_type(K))[known.found.places(y)]
    rows = Rows(X, y.values[y.codes], codes, s, None, classes)
    Z = fitting.features(X, known.phi)
    if isinstance(membership, MomentMembership):
        distance = membership.distance(Z, codes, known.prepared)
        if known.radii is None:
            return MaxDistances(class_radii(distance, codes, np.ones(n) if s is None else s, K))
        mu = membership.from_distance(distance, codes, known.radii)
        mu = mu * balance(known.own)[codes] if membership.imbalance else mu
    else:
        mu, _ = fitting.degrees(settings, rows, Z, known.own)
    none = ClassMoments.zeros(K, known.own.origin.shape[1]), ClassMoments.zeros(K, d)
    moments = fitting.twin_moments(settings, rows, Z, mu, *none)
    return ChunkMoments(classes, np.ones(K), d, False, None, moments)


@dataclass(frozen=True, eq=False)
class ChunkMoments(ClassTotals):
    """Moments of a chunk of rows by their sorted labels; for soft labels, by their columns."""

    moments: TwinMoments

    def __add__(self, other: ChunkMoments) -> ChunkMoments:
        labels, weight, places = self.joined(other)
        one, two = (
            place(part.moments, index, len(weight))
            for part, index in zip((self, other), places, strict=True)
        )
        return replace(self, labels=labels, weight=weight, moments=one + two)


@dataclass(frozen=True, eq=False)
class MaxDistances:
    """Greatest distance in each class; of two chunks the greater."""

    values: Array

    def __add__(self, other: MaxDistances) -> MaxDistances:
        return MaxDistances(np.maximum(self.values, other.values))


def place(moments: TwinMoments, index: Array, n_classes: int) -> TwinMoments:
    """Move the moments of class i to place ``index[i]`` among `n_classes`; -1 drops them."""
    if np.array_equal(index, np.arange(n_classes)):
        return moments
    kept = np.flatnonzero(index >= 0)

    def placed(part: ClassMoments) -> ClassMoments:
        out = ClassMoments.zeros(n_classes, part.origin.shape[1])
        for new, old in zip(out.parts, part.parts, strict=True):
            new[index[kept]] = old[kept]
        return out

    return moments.combined(placed)
