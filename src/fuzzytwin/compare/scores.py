"""Tables of scores, and p-values of many tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def read_scores(
    scores: Any, names: Sequence[str] | None, unit: str, least: int
) -> tuple[Floats, tuple[str, ...]]:
    """Check a table of scores; also give the names of the classifiers.

    Rows are data sets or folds (`unit`); there must be 2 of them and `least` classifiers.
    """
    columns: Any = None
    values = scores
    if isinstance(scores, Mapping):
        columns, values = list(scores), [list(column) for column in scores.values()]
    elif hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        columns, values = scores.columns, scores.to_numpy()
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"scores must be a full table of numbers, but {error}. Give every classifier a score "
            f"on every {unit}; names of {unit}s belong in the index."
        ) from None
    table = table.T if isinstance(scores, Mapping) else table
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < least:
        two = " Compare two classifiers by scipy.stats.wilcoxon." if least > 2 else ""
        raise ValueError(
            f"scores has shape {table.shape}, but at least 2 {unit}s (rows) and {least} "
            f"classifiers (columns) are needed.{two}"
        )
    if columns is None:
        columns = [f"classifier {j + 1}" for j in range(table.shape[1])]
    labels = tuple(map(str, columns if names is None else names))
    if len(labels) != table.shape[1] or len(set(labels)) < len(labels):
        raise ValueError(
            f"names={list(labels)} must be {table.shape[1]} different names, one per column of "
            "scores; rename or drop columns, or pass names=."
        )
    if not np.isfinite(table).all():
        i, j = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"scores holds {table[i, j]} for {labels[j]!r} on {unit} {i} (counted from 0); "
            f"supply that score, or drop the {unit} or the classifier."
        )
    return table, labels


def holm(p: Floats) -> Floats:
    """Correct p-values of several tests by Holm's step-down procedure."""
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)).clip(max=1)
    return adjusted
