"""Numbers for the columns that a schema reads: missing values filled, categories spread, scaled.

What is learned is ready for JSON, so that a model file depends on no other package's objects.

Numbers and truth values keep a column each, codes and categories get one for each of their values,
in this order: numbers, truth values, codes, categories.
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

MAX_ONE_HOT = 30  # categories with a column of their own; rarer ones share one
SCALED, SPREAD = ("number", "boolean"), ("code", "category")  # kinds of columns
RARE = "infrequent_sklearn"  # names the column of rare values, as scikit-learn does
MISSING_TEXT = ""  # stands for a missing category, which is one of its own

# What is learned of some columns, as `learn_encoding` gives it.
Encoding = dict[str, Any]


def of_kinds(columns: Iterable[Column], kinds: Sequence[str]) -> list[Column]:
    """Return the columns of some kinds, kind by kind."""
    columns = list(columns)
    return [column for kind in kinds for column in columns if column.kind == kind]


def learn_encoding(frame: Any, columns: Iterable[Column]) -> Encoding:
    """Learn how to make numbers of the columns of a frame that `Schema.frame` gave.

    Returns the numbers to fill in, the limits, the centers and the scales of numbers and truth
    values, in "scaled", and for each code and category its values, in "spread". All of it is ready
    for JSON.
    """
    columns = list(columns)
    scaled = of_kinds(columns, SCALED)
    fill = [_middle(frame[column.name], column.kind) for column in scaled]
    n_numbers = len(of_kinds(columns, ("number",)))  # truth values come after the numbers
    filled = _filled(frame, scaled, fill)
    learned = scales(filled, n_numbers)
    _check_range(scaled, filled, learned["scale"])
    spread = [_learn_values(frame[c.name], c.kind) for c in of_kinds(columns, SPREAD)]
    numbers = {name: values.tolist() for name, values in learned.items()}
    return {"scaled": {"fill": fill, **numbers}, "spread": spread}


def encode(frame: Any, columns: Iterable[Column], encoding: Encoding) -> Array:
    """Make numbers of the columns of a frame that `Schema.frame` gave."""
    columns = list(columns)
    learned = encoding["scaled"]
    numbers = _filled(frame, of_kinds(columns, SCALED), learned["fill"])
    numbers = np.clip(numbers, learned["low"], learned["high"])
    blocks = [(numbers - learned["center"]) / learned["scale"]]
    for column, values in zip(of_kinds(columns, SPREAD), encoding["spread"], strict=True):
        blocks.append(_spread(frame[column.name], values))
    return np.hstack(blocks)


def encoded_names(
    columns: Iterable[Column], encoding: Encoding, combine: Callable[[Column, Any], str]
) -> list[str]:
    """Name the columns of `encode` by a function of a column and its value, None for a number."""
    columns = list(columns)
    names = [combine(column, None) for column in of_kinds(columns, SCALED)]
    for column, values in zip(of_kinds(columns, SPREAD), encoding["spread"], strict=True):
        own = dict(zip(values["places"], values["values"], strict=True))
        if values["other"] >= 0:
            own[values["other"]] = RARE
        names += [combine(column, own[place]) for place in range(values["width"])]
    return names


def scales(numbers: Array, n_clipped: int) -> dict[str, Array]:
    """Return limits, center (mean) and scale (deviation) of each column, of its clipped values.

    The first columns are clipped if a few of their values lie far off all others: see
    `fuzzytwin.core.scaling`. The scale of a column that does not vary is 1.
    """
    n, d = numbers.shape
    limits = np.array([np.full(d, -np.finfo(float).max), np.full(d, np.finfo(float).max)])
    if n_clipped:
        values = numbers[:, :n_clipped]
        found = column_limits(values, np.ones(n), values.min(axis=0), values.max(axis=0))
        limits[:, :n_clipped] = np.clip(found, *limits[:, :n_clipped])  # none is infinite
    center, scale = np.zeros(d), np.ones(d)
    if d:
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_range` refuses it
            scaler = StandardScaler().fit(np.clip(numbers, *limits))
        center, scale = scaler.mean_, scaler.scale_
    return {"low": limits[0], "high": limits[1], "center": center, "scale": scale}


def _filled(frame: Any, columns: Sequence[Column], fill: Sequence[float]) -> Array:
    """Return columns of numbers as an array without missing values."""
    numbers = frame[[column.name for column in columns]].to_numpy(dtype=np.float64)
    return np.where(np.isnan(numbers), np.asarray(fill, dtype=np.float64), numbers)


def _check_range(columns: Sequence[Column], numbers: Array, scale: Array) -> None:
    """Refuse columns of numbers whose squares overflow or underflow."""
    for j, column in enumerate(columns):
        if not np.isfinite(scale[j]):
            raise TableError(Finding("too_large", column.name))
        extent = numbers[:, j].max() - numbers[:, j].min()
        if 0 < extent < np.sqrt(np.finfo(float).tiny):
            raise TableError(Finding("too_small", column.name))


def _middle(values: Any, kind: str) -> float:
    """Return what stands for a missing number: the median, or the most frequent value.

    That is the smallest of equally frequent ones, and 0 if there is no number at all.
    """
    found = values.dropna().to_numpy(dtype=np.float64)
    if not len(found):
        return 0.0
    if kind == "number":
        return float(np.median(found))
    distinct, counts = np.unique(found, return_counts=True)
    return float(distinct[counts.argmax()])


def _learn_values(values: Any, kind: str) -> dict[str, Any]:
    """Learn the values of a code or a category, and the place of the column of each.

    The least frequent of more than `MAX_ONE_HOT` share the last place, "other", which is also that
    of unknown values; it is -1 where all values have a place of their own, and unknown ones none.
    """
    fill = MISSING_TEXT if kind == "category" else _middle(values, kind)
    counts = values.fillna(fill).value_counts().sort_index()
    places = np.arange(len(counts))
    other = -1
    if len(counts) > MAX_ONE_HOT:
        other = MAX_ONE_HOT - 1
        # Of equally frequent values, the last ones of the alphabet have a column.
        frequent = np.sort(np.argsort(counts.to_numpy(), kind="stable")[-other:])
        places[:] = other
        places[frequent] = np.arange(other)
    return {
        "fill": fill, "values": counts.index.tolist(), "places": places.tolist(),
        "other": other, "width": int(places.max()) + 1,
    }  # fmt: skip


def _spread(cells: Any, values: dict[str, Any]) -> Array:
    """Spread a code or a category over a column of zeros and ones for each of its values."""
    index = import_optional("pandas", "cli", "a table with categories").Index(values["values"])
    found = index.get_indexer(cells.fillna(values["fill"]))  # -1: none of them
    places = np.append(values["places"], values["other"])[found]
    return (places[:, None] == np.arange(values["width"])).astype(np.float64)


def matrix(columns: Sequence[Array], dtype: Any = None) -> Array:
    """Put columns side by side, as float32 if that holds them all, or as `dtype`.

    By way of a few rows at a time, which stay in cache: several times faster than column by
    column.
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
