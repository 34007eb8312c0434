"""Fit over chunks of rows that are never in one place.

An engine (files, Dask, Spark) knows how to call a function on every chunk of rows and to add up
the results. What to call, how often, and what to make of the sum is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.parts import Labels, Part, Radii, checked, each, place
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import LandmarkMap, given_landmarks, is_count
from fuzzytwin.memberships import MomentMembership, balance, class_radii
from fuzzytwin.rows import Rows, align_columns, column_names, drop_empty_classes, encode
from fuzzytwin.settings import FitSettings, check_penalties

# total(function, *shared): the sum of function(*shared, X, y, s, mu) over all chunks; None
# where no chunk has rows.
Total = Callable[..., Any]


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

    Parameters
    ----------
    settings : FitSettings
        Parameters of the estimator.
    total : callable
        See `Total`.
    given : bool
        Whether degrees or soft labels are given, so that none are computed.
    classes : ndarray, default=None
        All labels, where some may be missing from these rows.
    phi : LandmarkMap, default=None
        The map to the features of landmarks; None for linear planes.
    names : sequence of str, default=None
        Names of the columns, for errors.
    """
    computed = check_chunkable(settings, given=given)
    part = total(first_pass, settings, phi, names)
    if part is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    labels, index, found = _classes(part, classes)
    check_penalties(settings.C, found)
    if part.soft:
        moments = each(part.moments, lambda m: m and m.take(index))
    else:
        kept = index >= 0
        moments = each(part.moments, lambda m: m and m.take(np.flatnonzero(kept)))
        moments = place(moments, index[kept], len(found))
    if not moments.own.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )
    if computed:
        known = _Known(settings, phi, labels, index, found, moments.own)
        moments = _with_degrees(total, known, moments)
    if classes is None:
        fitting.check_complete(settings, moments)
    return Learned(found, moments, part.n_features)


def check_chunkable(settings: FitSettings, *, given: bool) -> bool:
    """Return whether to compute degrees; refuse what needs all rows at once."""
    if settings.solver not in ("auto", "moments"):
        raise ValueError(
            f"solver={settings.solver!r} needs all rows at once, which chunks cannot give; use "
            "solver='auto' or solver='moments', which adds up moments of the chunks."
        )
    if settings.calibration == "loo":
        raise ValueError(
            "calibration='loo' needs all rows at once, which chunks cannot give; use "
            "calibration='moments' or None."
        )
    membership = settings.membership
    if membership is None or given:
        return False
    if isinstance(membership, MomentMembership) or getattr(membership, "streams", False):
        return True
    raise ValueError(
        f"membership={membership!r} needs all rows at once, which chunks cannot give; use None, "
        "'center' or 'hyperplane', or give degrees that you have to fit."
    )


def fixed_landmarks(settings: FitSettings) -> LandmarkMap | None:
    """Compute the map of given landmarks; all chunks must use the same, so none are sampled."""
    if not settings.curved:
        return None
    has_gamma = not callable(settings.kernel) and settings.kernel != "cosine"
    found, remedies = [], []
    if is_count(settings.n_landmarks):
        found.append(f"n_landmarks={settings.n_landmarks!r}")
        remedies.append("the landmarks themselves as n_landmarks, shape (m, d)")
    if has_gamma and isinstance(settings.gamma, str) and settings.gamma == "scale":
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
) -> Part | None:
    """Compute the moments of a chunk, by its own labels, with no degrees or with given ones."""
    columns = column_names(mu)
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    labels, codes = y.values, y.codes
    soft = mu is not None and mu.ndim == 2
    if soft:
        held = (mu if s is None else mu[s > 0]).any(axis=0)
    elif s is None:
        held = np.ones(len(labels), dtype=bool)
    else:
        held = np.bincount(codes[s > 0], minlength=len(labels)) > 0
    rows = Rows(X, codes, codes, s, mu, np.arange(len(held)), names)
    row_fitting.choose_solver(settings, rows, ("moments",))  # whether they fit into memory
    moments = fitting.twin_moments(settings, rows, fitting.features(X, phi), mu)
    return Part(labels, held, moments, X.shape[1], soft, columns if soft else None)


@dataclass(frozen=True, eq=False)
class _Known:
    """What the first pass found out, for degrees to be computed chunk by chunk."""

    settings: FitSettings
    phi: LandmarkMap | None
    labels: Array  # of all rows
    index: Array  # the class of each label, or -1 where none of its rows has weight
    classes: Array
    own: ClassMoments
    prepared: Any = None
    radii: Array | None = None

    def rows(self, X: Any, y: Labels, s: Array | None) -> Rows:
        """Encode the labels of a chunk by the classes of all rows."""
        places = np.searchsorted(self.labels, y.values)
        narrow = np.min_scalar_type(len(self.classes))
        codes = np.maximum(self.index, 0)[places].astype(narrow)[y.codes]
        return Rows(X, y.values[y.codes], codes, s, None, self.classes)

    def distances(self, rows: Rows) -> Array:
        """Compute what a `MomentMembership` makes degrees of."""
        assert isinstance(self.settings.membership, MomentMembership)
        Z = fitting.features(rows.X, self.phi)
        return self.settings.membership.distance(Z, rows.codes, self.prepared)


def _with_degrees(total: Total, known: _Known, moments: TwinMoments) -> TwinMoments:
    """Compute the moments with degrees that follow from those without."""
    settings, membership = known.settings, known.settings.membership
    if isinstance(membership, MomentMembership):
        factor = fitting.class_factors(settings, known.own, known.classes)
        known = replace(known, prepared=membership.prepare(known.own.scaled(factor)))
        if membership.needs_radii:
            known = replace(known, radii=total(radius_pass, known).values)
    weighted = total(degree_pass, known).moments
    if settings.membership_scope == "both":
        return weighted
    return TwinMoments(moments.own, weighted.slack, moments.absolute_own, weighted.absolute_slack)


def radius_pass(known: _Known, X: Any, y: Any, s: Any, mu: Any) -> Radii | None:
    """Find the greatest distance in each class of a chunk."""
    X, y, s, _ = checked(X, y, s, None)
    if not len(y):
        return None
    rows = known.rows(X, y, s)
    weight = np.ones(len(rows)) if s is None else s
    return Radii(class_radii(known.distances(rows), rows.codes, weight, len(known.classes)))


def degree_pass(known: _Known, X: Any, y: Any, s: Any, mu: Any) -> Part | None:
    """Compute the moments of a chunk with computed degrees.

    Its own moments, which the first pass computed, are left at zero.
    """
    X, y, s, _ = checked(X, y, s, None)
    if not len(y):
        return None
    settings, K, rows = known.settings, len(known.classes), known.rows(X, y, s)
    Z, membership = fitting.features(X, known.phi), known.settings.membership
    if isinstance(membership, MomentMembership):
        radii = np.zeros(K) if known.radii is None else known.radii
        mu = membership.from_distance(known.distances(rows), rows.codes, radii)
        if membership.imbalance:
            mu = mu * balance(known.own)[rows.codes]
    else:
        mu = fitting.computed_degrees(settings, rows, Z, known.own)
    none = ClassMoments.zeros(K, known.own.origin.shape[1]), ClassMoments.zeros(K, X.shape[1])
    moments = fitting.twin_moments(settings, rows, Z, mu, *none)
    return Part(known.classes, np.ones(K, dtype=bool), moments, X.shape[1], False)


def _classes(part: Part, classes: Array | None) -> tuple[Array, Array, Array]:
    """Find the labels of all rows, the class of each (-1: dropped), and the classes.

    For soft labels the second says which column is that of each class.
    """
    labels = part.labels
    wanted = labels if classes is None else classes
    if part.soft and len(part.held) != len(wanted):
        raise ValueError(
            f"membership has {len(part.held)} columns; degrees need one, soft labels "
            f"{len(wanted)}, in the order of the labels ({', '.join(map(str, wanted[:10]))})."
        )
    order = align_columns(part.columns, wanted) if part.soft else None
    if classes is not None:
        _, index = encode(labels, classes)
        return labels, index.astype(np.intp) if order is None else order, classes
    check_classification_targets(np.tile(labels, 2))
    held = part.held if order is None else part.held[order]
    numbers = np.arange(len(labels))
    kept, renumbered, _ = drop_empty_classes(labels, numbers, held.astype(float), None)
    if order is not None:
        return labels, order[held], kept
    return labels, np.where(held, renumbered, -1), kept
