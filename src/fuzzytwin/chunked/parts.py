"""What a chunk of rows comes to: moments by label, which add up wherever they were computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d

from fuzzytwin._utils.rows import canonical
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.rows import check_degrees, check_weights, encode


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of some rows: the sorted values, and the index of each row's among them."""

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
        Sorted labels of the rows.
    held : ndarray of shape (L,) or (K,)
        Which of them have weight; for soft labels, which of the K columns have.
    moments : TwinMoments
        In the order of `labels`; for soft labels, of the columns.
    n_features : int
        Number of columns of X.
    soft : bool
        Whether soft labels were given.
    columns : tuple or None
        Names of the columns of soft labels, where they have names.
    """

    labels: Array
    held: Array
    moments: TwinMoments
    n_features: int
    soft: bool
    columns: tuple[Any, ...] | None = None

    def __add__(self, other: Part) -> Part:
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
        return Part(labels, held, moments, self.n_features, self.soft, self.columns)

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
    """Move the moments of class i to place ``index[i]`` among `n_classes`."""

    def placed(part: ClassMoments | None) -> ClassMoments | None:
        if part is None:
            return None
        out = ClassMoments.zeros(n_classes, part.origin.shape[1])
        for name in ("weight", "origin", "offset", "covariance"):
            getattr(out, name)[index] = getattr(part, name)
        return out

    return each(moments, placed)


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


def each(moments: TwinMoments, function: Callable[[Any], Any]) -> TwinMoments:
    """Apply a function to each of the moments; those that are one object stay one."""
    done: dict[int, Any] = {}
    for part in moments.parts():
        if id(part) not in done:
            done[id(part)] = function(part)
    return TwinMoments(*(done[id(part)] for part in moments.parts()))


def add(parts: list[Any]) -> Any:
    """Add up what some chunks come to; None stands for a chunk without rows."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total
