"""Fit over chunks of rows that are never in one place.

An engine (files, Dask, Spark) knows how to call a function on every chunk of rows and to add up
the results. What to call, how often, and what to make of the sum is decided here.

    first_pass     moments of every chunk, with no degrees or with given ones
    radius_pass    greatest distances from the planes or means that these lead to, where needed
    degree_pass    moments with degrees that follow from both
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin._utils.types import Array, canonical
from fuzzytwin.core.calibration import needs_rows
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.fit import fitting
from fuzzytwin.fit.kernels import LandmarkMap, given_landmarks, has_gamma, is_count
from fuzzytwin.fit.rows import (
    Rows,
    align_columns,
    check_degrees,
    check_weights,
    column_names,
    drop_empty_classes,
    encode,
    held_classes,
)
from fuzzytwin.fit.settings import FitSettings
from fuzzytwin.memberships import MEMBERSHIPS, MomentMembership, balance, class_radii

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

    `given` says whether degrees or soft labels are given, so that none are computed. `classes` are
    all labels, where some may be missing from these rows; `phi` maps to the features of landmarks,
    and `names` are those of the columns, for errors.
    """
    computed = check_chunkable(settings, given=given)
    part = total(first_pass, settings, phi, names)
    if part is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    labels, index, found = _classes(part, classes)
    settings.penalties(found)
    if part.soft:
        moments = part.moments.combined(lambda m: m.take(index))
    else:
        moments = place(part.moments, index, len(found))
    if not moments.own.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )
    if computed:
        known = _Known(settings, phi, labels, index, found, moments.own)
        moments = _with_degrees(total, known, moments)
    if classes is None:
        fitting.check_rivals(settings, moments.slack.weight)
    return Learned(found, moments, part.n_features)


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
    if getattr(membership, "in_passes", False) or getattr(membership, "streams", False):
        return True
    known = (repr(name) for name, kind in MEMBERSHIPS.items() if getattr(kind, "in_passes", False))
    raise ValueError(
        f"membership={membership!r} needs all rows at once, which chunks cannot give; use None, "
        f"{' or '.join(known)}, or give degrees that you have to fit."
    )


def fixed_landmarks(settings: FitSettings) -> LandmarkMap | None:
    """Compute the map of given landmarks; all chunks must use the same, so none are sampled."""
    if not settings.curved:
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
    columns = column_names(mu)
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    labels, codes = y.values, y.codes
    soft = mu is not None and mu.ndim == 2
    held = held_classes(codes, s, mu, len(labels))
    rows = Rows(X, codes, codes, s, mu, np.arange(len(held)), names)
    fitting.choose_solver(settings, rows, ("moments",))  # whether they fit into memory
    moments = fitting.twin_moments(settings, rows, fitting.features(X, phi), mu)
    return ChunkMoments(labels, held, moments, X.shape[1], soft, columns if soft else None)


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
        factor = fitting.class_factors(settings, known.own.weight, known.classes)
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


def degree_pass(known: _Known, X: Any, y: Any, s: Any, mu: Any) -> ChunkMoments | None:
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
        mu, _ = fitting.degrees(settings, rows, Z, known.own)
    none = ClassMoments.zeros(K, known.own.origin.shape[1]), ClassMoments.zeros(K, X.shape[1])
    moments = fitting.twin_moments(settings, rows, Z, mu, *none)
    return ChunkMoments(known.classes, np.ones(K, dtype=bool), moments, X.shape[1], False)


def _classes(part: ChunkMoments, classes: Array | None) -> tuple[Array, Array, Array]:
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


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of some rows: the sorted values, and the index of each row's among them."""

    values: Array
    codes: Array

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class ChunkMoments:
    """Moments of a chunk of rows by their sorted labels; for soft labels, by their columns.

    ``held`` says which labels, or columns, have weight; ``columns`` are the names of the columns of
    soft labels, where they have names.
    """

    labels: Array
    held: Array
    moments: TwinMoments
    n_features: int
    soft: bool
    columns: tuple[Any, ...] | None = None

    def __add__(self, other: ChunkMoments) -> ChunkMoments:
        """Add the moments of two chunks; a label may be missing from either."""
        if self.n_features != other.n_features:
            raise ValueError(
                f"X has {self.n_features} columns in one chunk and {other.n_features} in another; "
                "give all rows the same columns."
            )
        labels = _union(self.labels, other.labels)
        if self.soft:
            if len(self.held) != len(other.held):
                raise ValueError(
                    f"membership has {len(self.held)} columns in one chunk and {len(other.held)} "
                    "in another; give all rows one degree per class."
                )
            if self.columns != other.columns:
                raise ValueError(
                    f"membership has the columns {self.columns} in one chunk and {other.columns} "
                    "in another; give all rows the same columns."
                )
            a, b = self, other
        else:
            a, b = self._among(labels), other._among(labels)
        moments, held = a.moments + b.moments, a.held | b.held
        return replace(self, labels=labels, held=held, moments=moments)

    def _among(self, labels: Array) -> ChunkMoments:
        if len(labels) == len(self.labels):
            return self
        index = np.searchsorted(labels, self.labels)
        held = np.zeros(len(labels), dtype=bool)
        held[index] = self.held
        moments = place(self.moments, index, len(labels))
        return replace(self, labels=labels, held=held, moments=moments)


@dataclass(frozen=True, eq=False)
class Radii:
    """Greatest distance in each class; of two chunks the greater."""

    values: Array

    def __add__(self, other: Radii) -> Radii:
        return Radii(np.maximum(self.values, other.values))


def place(moments: TwinMoments, index: Array, n_classes: int) -> TwinMoments:
    """Move the moments of class i to place ``index[i]`` among `n_classes`; -1 drops them."""
    kept = np.flatnonzero(index >= 0)

    def placed(part: ClassMoments) -> ClassMoments:
        out = ClassMoments.zeros(n_classes, part.origin.shape[1])
        for name in ("weight", "origin", "offset", "covariance"):
            getattr(out, name)[index[kept]] = getattr(part, name)[kept]
        return out

    return moments.combined(placed)


def checked(X: Any, y: Any, s: Any, mu: Any) -> tuple[Any, Labels, Array | None, Array | None]:
    """Validate the rows of a chunk, which may be empty; `y` may be `Labels` already."""
    X = check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0,
        ensure_all_finite=False, input_name="X",  # NaN is found in the moments
    )  # fmt: skip
    n = X.shape[0]
    if not isinstance(y, Labels):
        y = _encoded(column_or_1d(y))
    if len(y) != n:
        raise ValueError(
            f"X has {n} rows and y {len(y)} in the same chunk; cut both alike (rechunk or "
            "repartition)."
        )
    if mu is not None:  # which column is of which class is found out at the end
        mu = np.asarray(mu)
        mu = check_degrees(mu, n, np.arange(mu.shape[1] if mu.ndim == 2 else 1))
    return canonical(X), y, check_weights(s, n, allow_all_zero=True), mu


def _encoded(y: Array) -> Labels:
    """Encode the labels of a chunk; a missing one is refused."""
    if not len(y):
        return Labels(y, np.zeros(0, dtype=np.uint8))
    missing = np.zeros(1, dtype=bool)
    if y.dtype.kind == "O":
        missing = np.array([label is None or label != label for label in y.tolist()], dtype=bool)
    elif y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    if missing.any():
        raise ValueError(f"y holds {y[missing][0]}; leave out rows without a label.")
    return Labels(*encode(y, None))


def _union(a: Array, b: Array) -> Array:
    try:
        return a if np.array_equal(a, b) else np.union1d(a, b)
    except TypeError as error:
        raise ValueError(
            f"y holds labels that cannot be sorted together, such as {a[0]!r} and {b[0]!r}; "
            "give labels of one kind."
        ) from error


def add(parts: Iterable[Any]) -> Any:
    """Add up what some chunks come to; None stands for a chunk without rows."""
    found = [part for part in parts if part is not None]
    return reduce(operator.add, found) if found else None
