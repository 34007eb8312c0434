"""Passes over chunks of rows: map a function over the chunks, add what comes back.

Rows in memory are one chunk. An engine (files, Dask, Spark) supplies the chunks and nothing else.
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

from fuzzytwin._params import check_weights
from fuzzytwin._rows import (
    align_columns,
    check_degrees,
    column_names,
    drop_empty_classes,
    encode,
    is_missing,
)
from fuzzytwin._utils.types import Array, canonical

# total(function, *shared): the sum of function(*shared, X, y, s, mu) over all chunks; None
# where no chunk has rows.
Total = Callable[..., Any]


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
class ClassTotals:
    """What chunks of rows are told apart by; subclasses have what is added up by labels."""

    labels: Array  # sorted
    weight: Array  # of each label or, for soft labels, of each of their columns
    n_features: int
    soft: bool
    columns: tuple[Any, ...] | None  # see `Labels`

    def joined(self, other: ClassTotals) -> tuple[Array, Array, list[Array]]:
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
