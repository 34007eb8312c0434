"""Fit over chunks of rows that are never in one place.

An engine (files, Dask, Spark) knows how to call a function on every chunk of rows and to add up
the results. What to call, how often, and what to make of the sum is decided here.

    first_pass     moments of every chunk, with no degrees or with given ones
    degree_pass    greatest distances from the planes or means that these lead to, where needed;
                   then moments with degrees that follow from both
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

from fuzzytwin._utils.checks import check_weights
from fuzzytwin._utils.types import Array, canonical
from fuzzytwin.core.calibration import needs_rows
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.fit import fitting
from fuzzytwin.fit.kernels import LandmarkMap, given_landmarks, has_gamma, is_count
from fuzzytwin.fit.rows import (
    Rows,
    align_columns,
    check_degrees,
    column_names,
    drop_empty_classes,
    encode,
    held_classes,
    is_missing,
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
        moments = _with_degrees(total, _Known(settings, phi, found, moments.own), moments)
    if classes is None:
        fitting.check_rivals(settings, moments.slack.weight)
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


def by_chunks(membership: Any) -> bool:
    """Return whether degrees can be computed chunk by chunk; None stands for none."""
    found = (getattr(membership, name, False) for name in ("in_passes", "streams"))
    return membership is None or any(found)


BY_CHUNKS = [name for name, kind in MEMBERSHIPS.items() if by_chunks(kind)]


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
class _Known:
    """What the first pass found out, for degrees to be computed chunk by chunk."""

    settings: FitSettings
    phi: LandmarkMap | None
    found: Classes
    own: ClassMoments
    prepared: Any = None
    radii: Array | None = None  # None: still to be found


def _with_degrees(total: Total, known: _Known, moments: TwinMoments) -> TwinMoments:
    """Compute the moments with degrees that follow from those without."""
    settings, membership, classes = known.settings, known.settings.membership, known.found.classes
    if isinstance(membership, MomentMembership):
        factor = fitting.class_factors(settings, known.own.weight, classes)
        known = replace(known, prepared=membership.prepare(known.own.scaled(factor)))
        by_radii = membership.needs_radii
        radii = total(degree_pass, known).values if by_radii else np.zeros(len(classes))
        known = replace(known, radii=radii)
    weighted = total(degree_pass, known).moments
    if settings.membership_scope == "both":
        return weighted
    return TwinMoments(moments.own, weighted.slack, moments.absolute_own, weighted.absolute_slack)


def degree_pass(
    known: _Known, X: Any, y: Any, s: Any, mu: Any
) -> ChunkMoments | Radii | None:  # fmt: skip
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
            return Radii(class_radii(distance, codes, np.ones(n) if s is None else s, K))
        mu = membership.from_distance(distance, codes, known.radii)
        mu = mu * balance(known.own)[codes] if membership.imbalance else mu
    else:
        mu, _ = fitting.degrees(settings, rows, Z, known.own)
    none = ClassMoments.zeros(K, known.own.origin.shape[1]), ClassMoments.zeros(K, d)
    moments = fitting.twin_moments(settings, rows, Z, mu, *none)
    return ChunkMoments(classes, np.ones(K), d, False, None, moments)


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of some rows: the sorted values, and the index of each row's among them."""

    values: Array
    codes: Array
    columns: tuple[Any, ...] | None = None  # names of the columns of soft labels, if they have any

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels of all rows, and which of them are classes."""

    labels: Array
    index: Array  # the class of each label, or -1 if it has none; the column of each class if soft
    classes: Array

    def places(self, y: Labels) -> Array:
        """Find the labels of a chunk among those of all rows."""
        return np.searchsorted(self.labels, y.values)[y.codes]


@dataclass(frozen=True, eq=False)
class ByLabel:
    """What chunks of rows are told apart by; subclasses have what is added up by labels."""

    labels: Array  # sorted
    weight: Array  # of each label or, for soft labels, of each of their columns
    n_features: int
    soft: bool
    columns: tuple[Any, ...] | None  # see `Labels`

    def joined(self, other: ByLabel) -> tuple[Array, Array, list[Array]]:
        """Return labels and weights of two chunks, and the places of the weights of each.

        A label may be missing from either. Chunks that do not fit get a ValueError.
        """
        mine, theirs = (len(part.weight) if part.soft else 0 for part in (self, other))
        checks: tuple[tuple[str, Any, Any, str], ...] = (
            ("X has {} columns", self.n_features, other.n_features, "the same columns"),
            ("membership has {} columns", mine, theirs, "one degree per class"),
            ("membership has the columns {}", self.columns, other.columns, "the same columns"),
        )
        for what, one, two, remedy in checks:
            if one != two:
                raise ValueError(
                    f"{what.format(one)} in one chunk and {two} in another; give all rows {remedy}."
                )
        a, b = self.labels, other.labels
        try:
            labels = a if np.array_equal(a, b) else np.union1d(a, b)
        except TypeError as error:
            raise ValueError(
                f"y holds labels that cannot be sorted together, such as {a[0]!r} and {b[0]!r}; "
                "give labels of one kind."
            ) from error
        weight = np.zeros(len(self.weight) if self.soft else len(labels))
        places = [
            np.arange(len(weight)) if part.soft else np.searchsorted(labels, part.labels)
            for part in (self, other)
        ]
        weight[places[0]] += self.weight
        weight[places[1]] += other.weight
        return labels, weight, places

    def classes(self, classes: Array | None = None) -> Classes:
        """Return the classes: those given, or all labels that have weight."""
        labels, held = self.labels, self.weight > 0
        wanted = labels if classes is None else classes
        order = None
        if self.soft:
            if len(held) != len(wanted):
                known = ", ".join(map(str, wanted[:10]))
                raise ValueError(
                    f"membership has {len(held)} columns; degrees need one, soft labels "
                    f"{len(wanted)}, in the order of the labels ({known})."
                )
            order = align_columns(self.columns, wanted)
            held = held[order]
        if classes is not None:
            _, index = encode(labels, classes)
            return Classes(labels, index.astype(np.intp) if order is None else order, classes)
        check_classification_targets(np.tile(labels, 2))
        numbers = np.arange(len(labels))
        kept, index, _ = drop_empty_classes(labels, numbers, held.astype(float), None)
        return Classes(labels, np.where(held, index, -1) if order is None else order[held], kept)


@dataclass(frozen=True, eq=False)
class ChunkMoments(ByLabel):
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
class Radii:
    """Greatest distance in each class; of two chunks the greater."""

    values: Array

    def __add__(self, other: Radii) -> Radii:
        return Radii(np.maximum(self.values, other.values))


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
        names, mu = column_names(mu), np.asarray(mu)
        mu = check_degrees(mu, n, np.arange(mu.shape[1] if mu.ndim == 2 else 1))
        y = replace(y, columns=names if mu is not None and mu.ndim == 2 else None)
    return canonical(X), y, check_weights(s, n, allow_all_zero=True), mu


def _encoded(y: Array) -> Labels:
    """Encode the labels of a chunk; a missing one is refused."""
    if not len(y):
        return Labels(y, np.zeros(0, dtype=np.uint8))
    missing = np.zeros(1, dtype=bool)
    if y.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in y.tolist()], dtype=bool)
    elif y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    if missing.any():
        raise ValueError(f"y holds {y[missing][0]}; leave out rows without a label.")
    return Labels(*encode(y, None))


def add(parts: Iterable[Any]) -> Any:
    """Add up what some chunks come to; None stands for a chunk without rows."""
    found = [part for part in parts if part is not None]
    return reduce(operator.add, found) if found else None
