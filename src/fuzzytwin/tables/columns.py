"""Columns of a table: what they hold, and how they become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fuzzytwin.tables.files import TableError, as_text, need_pandas, one_line

MOST_CATEGORIES = 1000  # texts beyond that are names, not categories
MOST_SHOWN = 30  # categories with a column of their own; rarer ones share one
MOST_FEATURES = 5000  # the moments hold the square of it, for each class
MOST_LABELS = 100
# Few whole numbers are codes more often than amounts: a column for each did better on the UCI
# tables that have them (heart 0.83 -> 0.85, others alike).
CODES = range(3, 11)
SORTED = "shuffle the rows of the file, or have it read whole: --no-stream"


@dataclass(frozen=True)
class Column:
    """What a column holds and what becomes of it."""

    name: str
    kind: str  # "number", "code", "category" or "left out"
    distinct: int
    missing: int
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def need_column(frame: Any, name: str, what: str, path: object) -> None:
    """Refuse a table that lacks a column, naming those that it has."""
    if name not in frame.columns:
        known = [str(column) for column in frame.columns]
        alike = {column.lower(): column for column in known}
        near = [alike[word] for word in get_close_matches(name.lower(), alike, 1)]
        if len(known) > 12:
            known = [*known[:6], "...", *known[-3:]]
        hint = f"; did you mean {near[0]!r}? Its" if near else "; its"
        raise TableError(
            f"{path} has no column {name!r} for the {what}{hint} columns are {', '.join(known)}."
        )


def look(
    frame: Any, others: Sequence[str], drop: Sequence[str] = (), first: int = 0
) -> list[Column]:
    """Guess what every column holds, but for the `others` (target, weights, degrees).

    `first` is how many rows were read where the file has more of them, else 0.
    """
    pandas = need_pandas()
    columns, n = [], len(frame)
    same = "the same in the first rows" if first else "the same in every row"
    check_width(len(frame.columns) - len(others) - len(drop))
    for name in frame.columns:
        if name in others:
            continue
        values = frame[name]
        missing = int(values.isna().sum())
        if name in drop:
            columns.append(Column(name, "left out", 0, missing, "as asked"))
            continue
        if missing == n:
            raise TableError(
                f"column {name!r} holds nothing but missing values{_among(first)}; leave it out: "
                f"--drop {name!r}."
            )
        if pandas.api.types.is_bool_dtype(values) or pandas.api.types.is_numeric_dtype(values):
            number = values.to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isinf(number).any():
                raise TableError(
                    f"column {name!r} holds infinite numbers; mend them or leave it out: "
                    f"--drop {name!r}."
                )
            distinct = int(values.nunique())
            kind, note = "number", "missing: the median" if missing else ""
            if distinct == 1 and not missing:
                kind, note = "left out", same
            elif distinct in CODES and n >= 10 * distinct and _whole(number):
                kind, note = "code", "missing: the most frequent" if missing else ""
            columns.append(Column(name, kind, distinct, missing, note))
            continue
        columns.append(_text_column(name, as_text(values), missing, n, same))
    if not any(column.kind != "left out" for column in columns):
        raise TableError("no column is left to learn from; the table needs one beside the target.")
    check_width(
        sum(
            1 if column.kind == "number" else min(column.distinct + 1, MOST_SHOWN)
            for column in columns
            if column.kind != "left out"
        )
    )
    return columns


def check_width(width: int) -> None:
    """Refuse tables whose moments would not fit in memory."""
    if width > MOST_FEATURES:
        raise TableError(
            f"the table would become {width:,} columns of numbers or more, but {MOST_FEATURES:,} "
            "are the most; leave some out (--drop NAME, as often as needed) or choose in Python."
        )


def _whole(number: Any) -> bool:
    number = number[~np.isnan(number)]
    return bool((number == np.round(number)).all())


def _text_column(name: str, values: Any, missing: int, n: int, same: str) -> Column:
    distinct = int(values.nunique())
    first = values.dropna().iloc[0]
    if distinct > MOST_CATEGORIES:
        raise TableError(
            f"column {name!r} holds {distinct:,} different texts, more than {MOST_CATEGORIES:,}: "
            f"these are no categories; leave it out: --drop {name!r}."
        )
    if distinct > 20 and distinct > 0.9 * (n - missing):
        return Column(name, "left out", distinct, missing, f"names rows, such as {first:.20}")
    if distinct == 1 and not missing:
        return Column(name, "left out", 1, missing, same)
    notes = []
    if missing:
        notes.append("missing: a category of its own")
    if distinct > MOST_SHOWN:
        notes.append(f"the {distinct - MOST_SHOWN + 1} rarest together")
    return Column(name, "category", distinct, missing, "; ".join(notes))


def chosen(frame: Any, columns: Sequence[Column], path: object) -> Any:
    """The columns to learn from, in order: numbers as float64, categories as text."""
    pandas = need_pandas()
    out = {}
    lost = [c.name for c in columns if c.kind != "left out" and c.name not in frame.columns]
    if len(lost) > 1:
        more = f" and {len(lost) - 6:,} more" if len(lost) > 6 else ""
        raise TableError(
            f"{path} lacks {len(lost):,} columns that the model needs: "
            f"{', '.join(map(repr, lost[:6]))}{more}."
        )
    for column in columns:
        if column.kind == "left out":
            continue
        need_column(frame, column.name, "model", path)
        values = frame[column.name]
        if column.kind in ("number", "code"):
            try:
                out[column.name] = pandas.to_numeric(values).to_numpy(np.float64, na_value=np.nan)
            except (ValueError, TypeError) as error:
                raise TableError(
                    f"column {column.name!r} of {path} does not hold numbers alone: "
                    f"{one_line(error)}; mend it."
                ) from error
            if np.isinf(out[column.name]).any():
                raise TableError(f"column {column.name!r} of {path} holds infinite numbers.")
        else:
            out[column.name] = as_text(values)
    return pandas.DataFrame(out, index=frame.index)


def preparation(columns: Sequence[Column]) -> ColumnTransformer:
    """Imputing, encoding and scaling of the columns, not yet fitted."""
    names = {
        kind: [column.name for column in columns if column.kind == kind]
        for kind in ("number", "code", "category")
    }
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST_SHOWN, drop="if_binary",
        sparse_output=False,
    )  # fmt: skip
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    usual = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
    empty = SimpleImputer(strategy="constant", fill_value="")
    roads = {
        "number": make_pipeline(median, StandardScaler()),
        "code": make_pipeline(usual, clone(encoder)),
        "category": make_pipeline(empty, encoder),
    }
    return ColumnTransformer([(kind, roads[kind], names[kind]) for kind in roads if names[kind]])


def labels(values: Any, name: str, first: int = 0) -> Any:
    """Labels as an array of whole numbers or text; None of them missing.

    `first` is as for `look`.
    """
    pandas = need_pandas()
    if pandas.api.types.is_numeric_dtype(values) and not pandas.api.types.is_bool_dtype(values):
        array = values.to_numpy(dtype=np.float64)
        if (array == np.round(array)).all() and np.abs(array).max() < 2**53:
            array = array.astype(np.int64)
        elif len(np.unique(array)) > 10:
            raise TableError(
                f"the target {name!r} holds measured numbers ({array[0]:g}, {array[1]:g}, ...), no "
                "classes; cut them into classes first."
            )
        else:
            array = np.array([f"{value:g}" for value in array])
    else:
        array = as_text(values).to_numpy(dtype=object).astype(str)
    check_labels(array, name, first)
    return array


def check_labels(array: Any, name: str, first: int = 0) -> None:
    """At least two classes, not too many, each with at least two rows; `first` as for `look`."""
    found, counts = np.unique(np.asarray(array, dtype=object).astype(str), return_counts=True)
    if len(found) < 2:
        raise TableError(
            f"the target {name!r} holds one class only ({found[0]}){_among(first)}; "
            f"{SORTED if first else 'give rows of at least two'}."
        )
    if len(found) > MOST_LABELS:
        raise TableError(
            f"the target {name!r} holds {len(found):,} different values, more than {MOST_LABELS}; "
            "is it the right column?"
        )
    if counts.min() < 2:
        rare = str(found[counts.argmin()])
        raise TableError(
            f"class {rare!r} of the target {name!r} has one row only{_among(first)}; "
            f"{SORTED if first else 'give it more rows or leave it out'}."
        )


def _among(first: int) -> str:
    """Which rows something is said of, where it is not all."""
    return f" in the first {first:,} rows, which --stream goes by" if first else ""


def numbers(frame: Any, name: str | None, what: str, path: object) -> Any:
    """A column of weights or degrees, or None."""
    if name is None:
        return None
    need_column(frame, name, what, path)
    values = need_pandas().to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
    top = 1.0 if what == "degrees" else np.inf
    bad = ~((values >= 0) & (values <= top) & np.isfinite(values))
    if bad.any():
        allowed = "numbers from 0 to 1" if what == "degrees" else "numbers of at least 0"
        value = frame[name].iloc[int(bad.argmax())]
        value = value.item() if hasattr(value, "item") else value
        raise TableError(
            f"column {name!r} holds {value!r} in row "
            f"{int(bad.argmax()) + 1}; {what} must be {allowed}."
        )
    return values
