"""A fit over rows that never meet: parts of the answer add up, wherever they were computed.

An engine (Dask, Spark) knows how to call a function on every chunk of rows and to add up what
comes back. What to call, how often, and what to do with the sum stands here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.estimators.labels import encode, present
from fuzzytwin.kernels import given_landmarks, is_count
from fuzzytwin.memberships import MomentMembership, balance, class_radii
from fuzzytwin.validation import check_degrees, check_penalties, check_weights

Array = NDArray[Any]
# total(function, *shared): the sum of function(*shared, X, y, s, mu) over all chunks; None
# where no chunk has rows.
Total = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of some rows: the values met, sorted, and the place of each row's among them."""

    values: Array
    codes: Array

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Part:
    """What a chunk of rows comes to.

    Parameters
    ----------
    labels : ndarray of shape (L,)
        The labels met, sorted.
    held : ndarray of shape (L,) or (K,)
        Which of them weigh something; for soft labels, which of the K columns do.
    moments : TwinMoments
        In the order of `labels`; for soft labels, of the columns.
    n_features : int
        Number of columns of X.
    soft : bool
        Whether soft labels were given.
    """

    labels: Array
    held: Array
    moments: TwinMoments
    n_features: int
    soft: bool

    def __add__(self, other: Part) -> Part:
        """What both chunks come to; a label may be missing from either."""
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
            a, b = self, other
        else:
            a, b = self._among(labels), other._among(labels)
        return Part(labels, a.held | b.held, a.moments + b.moments, self.n_features, self.soft)

    def _among(self, labels: Array) -> Part:
        if len(labels) == len(self.labels):
            return self
        index = np.searchsorted(labels, self.labels)
        held = np.zeros(len(labels), dtype=bool)
        held[index] = self.held
        moments = place(self.moments, index, len(labels))
        return Part(labels, held, moments, self.n_features, self.soft)


@dataclass(frozen=True, eq=False)
class Radii:
    """Greatest distance in each class; of two chunks the greater."""

    values: Array

    def __add__(self, other: Radii) -> Radii:
        return Radii(np.maximum(self.values, other.values))


def place(moments: TwinMoments, index: Array, n_classes: int) -> TwinMoments:
    """The same moments, class i at ``index[i]`` among `n_classes`."""

    def placed(part: ClassMoments | None) -> ClassMoments | None:
        if part is None:
            return None
        out = ClassMoments.zeros(n_classes, part.origin.shape[1])
        for name in ("weight", "origin", "offset", "covariance"):
            getattr(out, name)[index] = getattr(part, name)
        return out

    return _each(moments, placed)


def learn(model: FuzzyTwinSVC, total: Total, *, given: bool, classes: Any = None) -> None:
    """Fit a model from chunks of rows, exactly as on all of them at once.

    Parameters
    ----------
    model : FuzzyTwinSVC
        Gets every fitted attribute but ``membership_``. What it learned before counts too.
    total : callable
        See `Total`.
    given : bool
        Whether degrees or soft labels are given, so that none are computed.
    classes : ndarray, default=None
        All labels, where some may be missing from these rows.
    """
    way = _way(model, given)
    fix_landmarks(model)
    blank = copy.copy(model)
    for name in ("moments_", "coef_", "intercept_", "width_coef_", "width_intercept_"):
        blank.__dict__.pop(name, None)
    part = total(first_pass, blank)
    if part is None:
        raise ValueError("X has no rows; give at least two, of different classes.")
    labels, index, model.classes_ = _classes(part, classes)
    K = len(model.classes_)
    check_penalties(model.C, model.classes_)
    moments = part.moments
    if part.soft:
        moments = _each(moments, lambda m: m and m.take(index))
    else:
        kept = index >= 0
        moments = _each(moments, lambda m: m and m.take(np.flatnonzero(kept)))
        moments = place(moments, index[kept], K)
    _check_sum(moments.own)
    if way is not None:
        moments = _with_degrees(model, total, way, blank, labels, index, moments)
    first = not hasattr(model, "moments_")
    if first and classes is None and not (moments.slack.rivals().weight > 0).all():
        raise ValueError(
            "membership is 0 for every sample outside of some class, so its plane has nothing to "
            "keep away from; give some of them a degree above 0."
        )
    if not first and model.n_features_in_ != part.n_features:
        raise ValueError(
            f"X has {part.n_features} columns, but the model was fitted on "
            f"{model.n_features_in_}; give the same columns."
        )
    model.n_features_in_ = part.n_features
    model.moments_ = moments if first else model.moments_ + moments
    model._solve()


def first_pass(model: FuzzyTwinSVC, X: Any, y: Any, s: Any, mu: Any) -> Part | None:
    """Moments of a chunk, by its own labels, with no degrees or with given ones."""
    X, y, s, mu = _checked(X, y, s, mu)
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
    local = copy.copy(model)
    local.classes_ = np.arange(len(held))
    try:
        moments, _ = local._moments(X, codes, codes, s, mu, None)
    except ValueError:
        _refuse_gaps(X, getattr(model, "feature_names_in_", None))
        raise
    return Part(labels, held, moments, X.shape[1], soft)


def radius_pass(
    model: FuzzyTwinSVC, known: _Known, X: Any, y: Any, s: Any, mu: Any
) -> Radii | None:
    """Greatest distance in each class of a chunk."""
    X, y, s, _ = _checked(X, y, s, None)
    if not len(y):
        return None
    codes = known.codes(y)
    weight = known.weights(codes, s)
    distance = known.way.distance(model._features(X, codes, s), codes, known.prepared)
    return Radii(class_radii(distance, codes, weight, len(known.factor)))


def degree_pass(model: FuzzyTwinSVC, known: _Known, X: Any, y: Any, s: Any, mu: Any) -> Part | None:
    """Moments of a chunk with computed degrees; its own moments are left at zero if known."""
    X, y, s, _ = _checked(X, y, s, None)
    if not len(y):
        return None
    K = len(known.factor)
    local = copy.copy(model)
    local.classes_ = known.classes
    codes = known.codes(y)
    if isinstance(known.way, MomentMembership):
        seen = local._features(X, codes, s)
        distance = known.way.distance(seen, codes, known.prepared)
        mu = known.way.from_distance(distance, codes, known.radii)
        if known.way.imbalance:
            mu = mu * balance(known.own.scaled(known.factor))[codes]
    else:
        seen, labels = local._features(X, codes, s), y.values[y.codes]
        mu = local._computed_degrees(X, seen, labels, codes, s, known.way, known.own)
    none = ClassMoments.zeros(K, known.own.origin.shape[1]), ClassMoments.zeros(K, X.shape[1])
    moments, _ = local._moments(X, codes, codes, s, mu, None, own=none)
    return Part(known.classes, np.ones(K, dtype=bool), moments, X.shape[1], False)


@dataclass(frozen=True, eq=False)
class _Known:
    """What the first pass found out, for degrees to be computed chunk by chunk."""

    way: Any
    labels: Array  # all labels met
    index: Array  # the class of each, or -1 where none of its samples weighs anything
    classes: Array
    factor: Array
    own: ClassMoments
    prepared: Any = None
    radii: Any = None

    def codes(self, y: Labels) -> Array:
        K = len(self.classes)
        met = np.searchsorted(self.labels, y.values)
        return np.maximum(self.index, 0)[met].astype(np.min_scalar_type(K))[y.codes]

    def weights(self, codes: Array, s: Array | None) -> Array:
        factor = self.factor[codes]
        return factor if s is None else s * factor


def _with_degrees(
    model: FuzzyTwinSVC,
    total: Total,
    way: Any,
    blank: FuzzyTwinSVC,
    labels: Array,
    index: Array,
    moments: TwinMoments,
) -> TwinMoments:
    """Moments with degrees that are computed from those without."""
    own = moments.own
    factor = model._class_factors(own)
    found: dict[str, Any] = {
        "way": way, "labels": labels, "index": index, "classes": model.classes_,
        "factor": factor, "own": own,
    }  # fmt: skip
    if isinstance(way, MomentMembership):
        found["prepared"] = way.prepare(own.scaled(factor))
        if way.needs_radii:
            found["radii"] = total(radius_pass, blank, _Known(**found)).values
    weighed = total(degree_pass, blank, _Known(**found)).moments
    if model.membership_scope == "both":
        return weighed
    return TwinMoments(own, weighed.slack, moments.absolute_own, weighed.absolute_slack)


def _way(model: FuzzyTwinSVC, given: bool) -> Any:
    """The membership to compute, if it can be computed chunk by chunk."""
    way = model._check_params()
    if way is None or given:
        return None
    if isinstance(way, MomentMembership) or getattr(way, "streams", False):
        return way
    raise ValueError(
        f"membership={model.membership!r} looks at all rows at once, which chunks cannot do; use "
        "None, 'center' or 'hyperplane', or give degrees that you have to fit."
    )


def fix_landmarks(model: FuzzyTwinSVC) -> None:
    """Chunks must all see the same landmarks, so they are given, not sampled."""
    if model.kernel == "linear" or hasattr(model, "landmark_map_"):
        return
    has_gamma = not callable(model.kernel) and model.kernel != "cosine"
    found, remedies = [], []
    if is_count(model.n_landmarks):
        found.append(f"n_landmarks={model.n_landmarks!r}")
        remedies.append("the landmarks themselves as n_landmarks, shape (m, d)")
    if has_gamma and model.gamma == "scale":
        found.append(f"gamma={model.gamma!r}")
        remedies.append("a number as gamma")
    if found:
        raise ValueError(
            f"kernel={model.kernel!r} with {' and '.join(found)} looks at all rows at once, which "
            f"chunks cannot do; give {' and '.join(remedies)}, or use kernel='linear'."
        )
    landmarks = given_landmarks(model.n_landmarks)
    model._features(landmarks, np.zeros(landmarks.shape[0], dtype=np.intp), None)


def take_landmarks(model: FuzzyTwinSVC, X: Any, y: Any, s: Any) -> None:
    """Landmarks and gamma of one chunk, for all that come after it."""
    X, y, s, _ = _checked(X, y, s, None)
    model._features(X, y.codes, s)


def _classes(part: Part, classes: Any) -> tuple[Array, Array, Array]:
    """Labels met, the number of each (-1: dropped), and the classes.

    For soft labels the numbers say which columns are kept.
    """
    labels = part.labels
    wanted = labels if classes is None else classes
    if part.soft and len(part.held) != len(wanted):
        raise ValueError(
            f"membership has {len(part.held)} columns; degrees need one, soft labels "
            f"{len(wanted)}, in the order of the labels ({', '.join(map(str, wanted[:10]))})."
        )
    if classes is not None:
        _, index = encode(labels, classes)
        return labels, np.arange(len(classes)) if part.soft else index.astype(np.intp), classes
    check_classification_targets(np.tile(labels, 2))
    numbers = np.arange(len(labels))
    kept, renumbered, _ = present(labels, numbers, part.held.astype(float), None)
    if part.soft:
        return labels, np.flatnonzero(part.held), kept
    return labels, np.where(part.held, renumbered, -1), kept


def _checked(X: Any, y: Any, s: Any, mu: Any) -> tuple[Any, Labels, Array | None, Array | None]:
    """Rows of a chunk, validated; it may be empty. `y` may be `Labels` already."""
    X = check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0,
        ensure_all_finite=False, input_name="X",  # the pass over the rows finds out
    )  # fmt: skip
    n = X.shape[0]
    if not isinstance(y, Labels):
        y = _encoded(column_or_1d(y))
    if len(y) != n:
        raise ValueError(
            f"X has {n} rows and y {len(y)} in the same chunk; cut both alike (rechunk or "
            "repartition)."
        )
    if mu is not None:
        mu = np.asarray(mu)
        mu = check_degrees(mu, n, np.arange(mu.shape[1] if mu.ndim == 2 else 1))
    return X, y, check_weights(s, n, may_vanish=True), mu


def _encoded(y: Array) -> Labels:
    """Labels of a chunk; a missing one is refused."""
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


def _refuse_gaps(X: Any, names: Any) -> None:
    """Name the column that is not finite, if one is not."""
    rows = X.tocoo() if hasattr(X, "indptr") else X
    bad = ~np.isfinite(rows.data if hasattr(X, "indptr") else X)
    if bad.any():
        at = int(rows.col[bad][0] if hasattr(X, "indptr") else np.argwhere(bad)[0][1])
        value = rows.data[bad][0] if hasattr(X, "indptr") else X[bad][0]
        column = repr(str(names[at])) if names is not None else str(at)
        raise ValueError(
            f"X holds {value} in column {column}; fill it in (an imputer) or leave the row out."
        )


def _check_sum(moments: ClassMoments) -> None:
    if not moments.is_finite:
        raise ValueError(
            "X or sample_weight is so large that sums overflow in double precision; scale the "
            "columns of X or divide the weights."
        )


def _each(moments: TwinMoments, function: Callable[[Any], Any]) -> TwinMoments:
    """A function of each of the moments; those that are one object stay one."""
    done: dict[int, Any] = {}
    for part in moments.parts():
        if id(part) not in done:
            done[id(part)] = function(part)
    return TwinMoments(*(done[id(part)] for part in moments.parts()))


def add(parts: list[Any]) -> Any:
    """Sum of what some chunks came to; None stands for a chunk without rows."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total
