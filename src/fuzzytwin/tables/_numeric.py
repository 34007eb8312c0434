"""Encode columns as numbers: impute missing values, scale, and one-hot encode categories.

What is learned can be stored as JSON, so that a model file needs no objects of other packages.

Numbers and truth values become one column each, categories one for each of their values, in this
order: numbers, truth values, categories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array
from fuzzytwin.core.scaling import column_limits
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._findings import Finding, TableError

MAX_ONE_HOT = 30  # columns of a category; rare values share the last one
SCALED = ("number", "boolean")  # kinds of columns that are scaled
ONE_HOT = ("category",)  # kinds of columns that are one-hot encoded
RARE = "infrequent_sklearn"  # scikit-learn's name for the column of rare values
MISSING_TEXT = ""  # stands for missing values of a category, which are a category of their own

# What `learn_encoding` returns.
Encoding = dict[str, Any]


def of_kinds(columns: Iterable[Column], kinds: Sequence[str]) -> list[Column]:
    """Return the columns of the given kinds, in the order of the kinds."""
    columns = list(columns)
    return [column for kind in kinds for column in columns if column.kind == kind]


def learn_encoding(frame: Any, columns: Iterable[Column], scale: bool = True) -> Encoding:
    """Learn how to encode the columns of a frame of `TableSchema.frame` as numbers.

    The result has, in "scaled", the imputed values, limits, centers and scales of numbers and truth
    values and, in "spread", the values of each category. It can be stored as JSON. Without `scale`,
    limits and scales change nothing.
    """
    columns = list(columns)
    scaled = of_kinds(columns, SCALED)
    fill = [_imputed_value(frame[column.name], column.kind) for column in scaled]
    n_numbers = len(of_kinds(columns, ("number",)))  # truth values come after the numbers
    filled = _filled(frame, scaled, fill)
    learned = scales(filled, n_numbers)
    _check_range(scaled, filled, learned["scale"])
    if not scale:
        learned = _unscaled(len(scaled))
    one_hot = [_learn_values(frame[column.name]) for column in of_kinds(columns, ONE_HOT)]
    numbers = {name: values.tolist() for name, values in learned.items()}
    return {"scaled": {"fill": fill, **numbers}, "spread": one_hot}


def encode(frame: Any, columns: Iterable[Column], encoding: Encoding) -> Array:
    """Encode the columns of a frame of `TableSchema.frame` as numbers."""
    columns = list(columns)
    learned = encoding["scaled"]
    numbers = _filled(frame, of_kinds(columns, SCALED), learned["fill"])
    numbers = np.clip(numbers, learned["low"], learned["high"])
    blocks = [(numbers - learned["center"]) / learned["scale"]]
    for column, values in zip(of_kinds(columns, ONE_HOT), encoding["spread"], strict=True):
        blocks.append(_one_hot(frame[column.name], values))
    return np.hstack(blocks)


def encoded_names(
    columns: Iterable[Column], encoding: Encoding, combine: Callable[[Column, Any], str]
) -> list[str]:
    """Name the columns of `encode`: ``combine(column, value)``, with None for a scaled column."""
    columns = list(columns)
    names = [combine(column, None) for column in of_kinds(columns, SCALED)]
    for column, values in zip(of_kinds(columns, ONE_HOT), encoding["spread"], strict=True):
        value_at = dict(zip(values["places"], values["values"], strict=True))
        if values["other"] >= 0:
            value_at[values["other"]] = RARE
        names += [combine(column, value_at[j]) for j in range(values["width"])]
    return names


def scales(numbers: Array, n_clipped: int) -> dict[str, Array]:
    """Return the limits of each column, and the mean and standard deviation of its clipped values.

    The first `n_clipped` columns are clipped if a few of their values lie far from all others: see
    `fuzzytwin.core.scaling`. The scale of a column that does not vary is 1.
    """
    n, d = numbers.shape
    learned = _unscaled(d)
    if not d:
        return learned
    limits = np.array([learned["low"], learned["high"]])
    if n_clipped:
        values = numbers[:, :n_clipped]
        clip_at = column_limits(values, np.ones(n), values.min(axis=0), values.max(axis=0))
        limits[:, :n_clipped] = np.clip(clip_at, *limits[:, :n_clipped])  # none is infinite
    with np.errstate(over="ignore", invalid="ignore"):  # `_check_range` raises the error
        # Sorted, so that not even the last digits depend on the order of rows.
        scaler = StandardScaler().fit(np.sort(np.clip(numbers, *limits), axis=0))
    return {"low": limits[0], "high": limits[1], "center": scaler.mean_, "scale": scaler.scale_}


def _unscaled(d: int) -> dict[str, Array]:
    """Return limits, centers and scales of `d` columns that change nothing."""
    most = np.full(d, np.finfo(float).max)
    return {"low": -most, "high": most, "center": np.zeros(d), "scale": np.ones(d)}


def _filled(frame: Any, columns: Sequence[Column], fill: Sequence[float]) -> Array:
    """Return columns of numbers as an array without missing values."""
    numbers = frame[[column.name for column in columns]].to_numpy(dtype=np.float64)
    return np.where(np.isnan(numbers), np.asarray(fill, dtype=np.float64), numbers)


def _check_range(columns: Sequence[Column], numbers: Array, scale: Array) -> None:
    """Raise a TableError if the squares of a column overflow or underflow."""
    for j, column in enumerate(columns):
        if not np.isfinite(scale[j]):
            raise TableError(Finding("too_large", column.name))
        extent = numbers[:, j].max() - numbers[:, j].min()
        if 0 < extent < np.sqrt(np.finfo(float).tiny):
            raise TableError(Finding("too_small", column.name))


def _imputed_value(values: Any, kind: str) -> float:
    """Return what replaces missing values: the median of numbers, otherwise the mode.

    It is the smallest of several modes, and 0 if all values are missing.
    """
    present = values.dropna().to_numpy(dtype=np.float64)
    if not len(present):
        return 0.0
    if kind == "number":
        return float(np.median(present))
    distinct, counts = np.unique(present, return_counts=True)
    return float(distinct[counts.argmax()])


def _learn_values(values: Any) -> dict[str, Any]:
    """Learn the values of a category, and the column of each value ("places").

    If there are more than `MAX_ONE_HOT`, the least frequent values share the last column ("other"),
    and so do unknown values. Otherwise "other" is -1, and unknown values have no column.
    """
    counts = values.fillna(MISSING_TEXT).value_counts().sort_index()
    column_of = np.arange(len(counts))
    other = -1
    if len(counts) > MAX_ONE_HOT:
        other = MAX_ONE_HOT - 1
        # Ties go to values that come later in the sorted order.
        frequent = np.sort(np.argsort(counts.to_numpy(), kind="stable")[-other:])
        column_of[:] = other
        column_of[frequent] = np.arange(other)
    return {
        "values": counts.index.tolist(),
        "places": column_of.tolist(),
        "other": other,
        "width": int(column_of.max()) + 1,
    }


def _one_hot(cells: Any, values: dict[str, Any]) -> Array:
    """Encode a category as a column of zeros and ones for each of its values."""
    index = import_optional("pandas", "cli", "a table with categories").Index(values["values"])
    codes = index.get_indexer(cells.fillna(MISSING_TEXT))  # -1 for unknown values
    columns = np.append(values["places"], values["other"])[codes]
    return (columns[:, None] == np.arange(values["width"])).astype(np.float64)


def matrix(columns: Sequence[Array], dtype: Any = None) -> Array:
    """Stack columns, by default as float32 if all of them are narrow, otherwise as float64.

    Blocks of rows are copied, because they stay in the cache. That is several times faster than
    copying column by column.
    """
    if dtype is None:
        dtype = np.float32 if np.result_type(*columns) == np.float32 else np.float64
    n, d = len(columns[0]), len(columns)
    out = np.empty((n, d), dtype)
    rows = min(max(65536 // d, 256), 4096)
    stage = np.empty((d, rows), out.dtype)
    for start in range(0, n, rows):
        m = min(rows, n - start)
        for j, column in enumerate(columns):
            stage[j, :m] = column[start : start + m]
        out[start : start + m] = stage[:, :m].T
    return out
