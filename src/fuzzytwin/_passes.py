"""Passes over chunks of rows: map a function over the chunks and add the results.

Rows in memory are one chunk. An engine (files, Dask, Spark) supplies the chunks and nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fuzzytwin._rows import Rows, check_two_classes, encode, join_classes
from fuzzytwin._utils.types import Array

# total(function, *shared) is the sum of function(*shared, rows) over all chunks, each of which is a
# `Rows` from `validate_chunk`. It is None if no chunk has rows.
SumOverChunks = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels of all rows, and which of them are classes."""

    labels: Array
    index: Array  # class of each label, -1 for none. For soft labels, the column of each class
    classes: Array


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """Labels and class totals of a chunk. Subclasses add other totals."""

    labels: Array  # sorted
    weight: Array  # of each label, or of each column of soft labels
    n_features: int
    soft: bool

    def joined(self, other: ClassTotals) -> tuple[Array, Array, list[Array]]:
        """Return labels and weights of two chunks together, and the index of each chunk's weights.

        A label may be missing from either. Raises a ValueError if columns or labels do not match.
        """
        n_soft = len(self.weight) if self.soft else 0
        n_soft_other = len(other.weight) if other.soft else 0
        checks: tuple[tuple[str, Any, Any, str], ...] = (
            ("X has {} columns", self.n_features, other.n_features, "the same columns"),
            ("membership has {} columns", n_soft, n_soft_other, "one degree per class"),
        )
        for text, own_count, other_count, remedy in checks:
            if own_count != other_count:
                raise ValueError(
                    f"{text.format(own_count)} in one chunk and {other_count} in another; give all "
                    f"rows {remedy}."
                )
        labels = join_classes(self.labels, other.labels)
        weight = np.zeros(len(self.weight) if self.soft else len(labels))
        indices = [
            np.arange(len(weight)) if part.soft else np.searchsorted(labels, part.labels)
            for part in (self, other)
        ]
        weight[indices[0]] += self.weight
        weight[indices[1]] += other.weight
        return labels, weight, indices

    def classes(self, classes: Array | None = None) -> Classes:
        """Return the `classes`, or all labels of positive weight if these are None."""
        labels = self.labels
        positive = self.weight > 0
        expected = labels if classes is None else classes
        if self.soft and len(positive) != len(expected):
            names = ", ".join(map(str, expected[:10]))
            raise ValueError(
                f"membership has {len(positive)} columns; give one column of degrees, or "
                f"{len(expected)} columns of soft labels in the order of the labels ({names})."
            )
        if classes is not None:
            _, index = encode(labels, classes)
            if self.soft:
                index = np.arange(len(classes))
            return Classes(labels, index.astype(np.intp), classes)
        check_two_classes(labels, positive)
        if self.soft:
            return Classes(labels, np.flatnonzero(positive), labels[positive])
        return Classes(labels, np.where(positive, np.cumsum(positive) - 1, -1), labels[positive])


def in_memory(rows: Rows) -> SumOverChunks:
    """Return the `SumOverChunks` of rows in memory, which are a single chunk."""
    return lambda function, *shared: function(*shared, rows)


def add(parts: Iterable[Any]) -> Any:
    """Add the results of chunks. None is the result of a chunk without rows."""
    results = [part for part in parts if part is not None]
    return reduce(operator.add, results) if results else None
