"""Judge what the columns of a table hold, and make numbers of them.

The rules, the same for every number of rows and every kind of file; the first that fits decides:

1. What the user says: ``--drop``, ``--numeric``, ``--category``.
2. No value at all: *empty*, left out.
3. Cells that are all true or false: *boolean*, 1 or 0.
4. Numbers in at least nine of ten cells: the others are understood (``<0.5``, ``1,234``, ``12 %``)
   or taken as missing. The same number throughout: *constant*, left out. Whole numbers that rise by
   one from row to row, or that are all different in a column that is named as an id: *id*, left
   out. Three to ten different whole numbers that occur ten times on average: *code*, a column for
   each of them (with other texts among them: *category*). Others: *number*.
5. Dates in nine of ten cells: *date*, left out; days since 1970 with ``--numeric``.
6. Texts. The same throughout: *constant*, left out. Texts that occur less than twice on average:
   *id*, left out. More than 1,000 different ones: *text*, left out. Others: *category*, a column
   for each of the 30 most frequent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.sources import cells
from fuzzytwin.sources.batches import Place, missing_column
from fuzzytwin.sources.cells import STRANGE, Numbers
from fuzzytwin.sources.schema import Column, Schema, in_words, learn_labels

MOST_CATEGORIES = 1000  # beyond that, texts are not categories
MOST_SHOWN = 30  # categories with a column of their own; rarer ones share one
MOST_FEATURES = 5000  # the moments hold the square of it, for each class
MOST_LABELS = 100
# Few whole numbers are codes more often than amounts: a column for each did better on the UCI
# tables that have them (heart 0.83 -> 0.85, others alike).
CODES = range(3, 11)
SORTED = "shuffle the rows of the file, or have it read whole: --no-stream"
_ID = re.compile(
    r"(?i:(.*[_ .-])?(id|idx|index|key|nr|no|row|row names|unnamed: 0)\.?)|.*[a-z]I[dD]"
)


class TableError(ValueError):
    """A table that cannot be used."""


def need_column(names: Sequence[str], name: str, what: str, path: object) -> None:
    """Refuse a table that lacks a column, naming those that it has."""
    if list(names).count(name) != 1:
        place = Place(f"{path}", 0)
        raise TableError(f"{missing_column(name, list(names), place)} ({what})")


def learn(
    table: Any,
    decimal: str,
    others: Collection[str],
    *,
    drop: Collection[str] = (),
    numeric: Collection[str] = (),
    category: Collection[str] = (),
    first: int = 0,
) -> tuple[Column, ...]:
    """Judge every column of an Arrow table but the `others` (target, weights, ...).

    Parameters
    ----------
    table : pyarrow.Table
        The training rows, or the first of them.
    decimal : {".", ","}
        The mark before decimals, where cells are text.
    others : collection of str
        Columns that are not looked at.
    drop, numeric, category : collection of str
        Columns to leave out, and to take as numbers or as categories, whatever they look like.
    first : int, default=0
        How many rows there are, where the file has more of them.

    Returns
    -------
    tuple of Column
    """
    names = [name for name in table.schema.names if name not in others]
    check_width(len(names) - len(drop))
    columns = []
    for name in names:
        column = table.column(name)
        if name in drop:
            columns.append(Column(name, "dropped", note="as asked"))
        elif name in category:
            columns.append(_category(name, _text(name, column)))
        elif name in numeric:
            columns.append(_forced(name, column, decimal))
        else:
            columns.append(_judge(name, column, decimal, first))
    if not any(column.used for column in columns):
        examples = "; ".join(f"{c.name}: {c.kind}, {c.note}" for c in columns[:3])
        raise TableError(
            "no column is left to learn from; the table needs one besides the target"
            + (f" ({examples}); --numeric or --category takes one as it is." if examples else ".")
        )
    check_width(
        sum(
            min(column.distinct + 1, MOST_SHOWN) if column.kind in ("code", "category") else 1
            for column in columns
            if column.used
        )
    )
    return tuple(columns)


def _judge(name: str, column: Any, decimal: str, first: int) -> Column:
    """Apply rules 2 to 6."""
    kind = cells.kind_of(column, decimal) if _plain(column) else "lists"
    same = "the same in the first rows" if first else "the same in every row"
    if kind == "lists":
        return Column(name, "dropped", note=f"holds {column.type}: spread it over columns")
    if kind == "empty":
        note = "no value in the first rows" if first else "no value in any row"
        return Column(name, "empty", missing=len(column), note=note)
    if kind == "boolean":
        read = cells.booleans(column)
        if len(np.unique(_found(read))) == 1:
            return _numeric(name, "constant", read, same)
        return _numeric(name, "boolean", read, "missing: the most frequent")
    if kind == "number":
        return _number(name, column, cells.numbers(column, decimal), same)
    if kind == "date":
        words = _text(name, column)
        note = f"dates such as {_example(words)}; --numeric reads days"
        return Column(name, "date", len(words.unique()), words.null_count, note)
    words = _text(name, column)
    distinct, found = len(words.drop_null().unique()), len(words) - words.null_count
    left = {"distinct": distinct, "missing": words.null_count}
    if distinct == 1 and found == len(words):
        return Column(name, "constant", **left, note=same)
    if 2 * distinct > found:
        note = f"names rows, such as {_example(words)}; --category keeps it"
        return Column(name, "id", **left, note=note)
    if distinct > MOST_CATEGORIES:
        note = f"more than {MOST_CATEGORIES:,} different texts; --category keeps it"
        return Column(name, "text", **left, note=note)
    return _category(name, words)


def _number(name: str, column: Any, read: Numbers, same: str) -> Column:
    """Rule 4."""
    values = _found(read)
    if np.isinf(values).any():
        raise TableError(
            f"column {name!r} holds infinite numbers; fix them or leave it out: --drop {name!r}."
        )
    distinct = np.unique(values)
    whole = bool((values == np.round(values)).all())
    if len(distinct) == 1:
        return _numeric(name, "constant", read, same)
    unique = whole and len(distinct) == len(read.values)
    if unique and (np.diff(read.values) == 1).all():
        return _numeric(name, "id", read, "counts the rows; --numeric keeps it")
    if unique and _ID.fullmatch(name):
        return _numeric(name, "id", read, "an id by its name; --numeric keeps it")
    if whole and len(distinct) in CODES and len(values) >= 10 * len(distinct):
        if STRANGE in read.odd:
            return _category(name, _text(name, column))
        code = _numeric(name, "code", read, "missing: the most frequent")
        return _with(code, categories=tuple(distinct.tolist()))
    return _numeric(name, "number", read, "missing: the median")


def _forced(name: str, column: Any, decimal: str) -> Column:
    """Take a column as numbers, because the user says so."""
    style = cells.date_style(column) or ""
    reader = Column(name, "number", style=style)
    if cells.kind_of(column, decimal) == "boolean":
        reader = Column(name, "boolean")
    read = reader.numbers(column, decimal)
    if not len(_found(read)) or np.isinf(_found(read)).any():
        raise TableError(f"column {name!r} holds no finite numbers; leave out --numeric {name!r}.")
    asked = _numeric(name, reader.kind, read, "missing: the median")
    days = ["days since 1970"] if style else []
    return _with(asked, style=style, note="; ".join([*days, *filter(None, [asked.note])]))


def _numeric(name: str, kind: str, read: Numbers, note: str) -> Column:
    """Describe a column of numbers, with a note on missing values or the given one."""
    found = _found(read)
    missing = len(read.values) - len(found)
    notes = [in_words(what, *some) for what, some in read.odd.items()]
    if missing or not note.startswith("missing"):
        notes.append(note)
    distinct = len(np.unique(found))
    return Column(name, kind, distinct, missing, "; ".join(notes), dict(read.odd))


def _category(name: str, words: Any) -> Column:
    values = words.drop_null().unique().to_pylist()
    notes = []
    if words.null_count:
        notes.append("missing: a category of its own")
    if len(values) > MOST_SHOWN:
        notes.append(f"the {len(values) - MOST_SHOWN + 1} rarest together")
    return Column(name, "category", len(values), words.null_count, "; ".join(notes),
                  categories=tuple(sorted(values)))  # fmt: skip


def _with(column: Column, **changes: Any) -> Column:
    return Column(**{**vars(column), **changes})


def _found(read: Numbers) -> Array:
    return read.values[~np.isnan(read.values)]


def _plain(column: Any) -> bool:
    types = cells.arrow().types
    return not (types.is_nested(column.type) or types.is_binary(column.type))


def _text(name: str, column: Any) -> Any:
    try:
        return cells.text(column)
    except ValueError as error:
        raise TableError(f"column {name!r} {error}; leave it out: --drop {name!r}.") from error


def _example(words: Any) -> str:
    return f"{words.drop_null()[0].as_py():.20}"


def check_width(width: int) -> None:
    """Refuse tables whose moments would not fit in memory."""
    if width > MOST_FEATURES:
        raise TableError(
            f"the table would become {width:,} columns of numbers or more, but {MOST_FEATURES:,} "
            "are the most; leave some out (--drop NAME, as often as needed) or choose in Python."
        )


def preparation(columns: Sequence[Column]) -> ColumnTransformer:
    """Imputing, encoding and scaling of the columns, not yet fitted."""
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST_SHOWN, drop="if_binary",
        sparse_output=False,
    )  # fmt: skip
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    usual = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
    empty = SimpleImputer(strategy="constant", fill_value="")
    steps = {
        "number": make_pipeline(median, StandardScaler()),
        "boolean": make_pipeline(usual, StandardScaler()),
        "code": make_pipeline(clone(usual), clone(encoder)),
        "category": make_pipeline(empty, encoder),
    }
    names = {kind: [c.name for c in columns if c.kind == kind] for kind in steps}
    return ColumnTransformer([(kind, steps[kind], names[kind]) for kind in steps if names[kind]])


def learn_classes(column: Any, name: str, decimal: str = ".", first: int = 0) -> dict[str, Any]:
    """Labels of a target as `Schema.labels`; refuse what is not a target.

    `decimal` and `first` are as for `learn`.
    """
    counted = _text(name, column).drop_null().value_counts()
    words = dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))
    labels = learn_labels(words, decimal)
    if len(labels) > 10 and all(re.fullmatch(r"-?\d+(\.\d+)?", key) for key in labels):
        measured = [key for key in labels if "." in key][:2]
        if measured:
            raise TableError(
                f"the target {name!r} holds measured numbers ({', '.join(measured)}, ...), no "
                "classes; cut them into classes first."
            )
    counts = dict.fromkeys(labels.values(), 0)
    schema = Schema(labels=labels)
    for word, count in words.items():
        counts[schema.label_of(word, decimal)] += count
    _check_classes(counts, name, first)
    return labels


def _check_classes(counts: Mapping[Any, int], name: str, first: int) -> None:
    """At least two classes, not too many, each with at least two rows."""
    if len(counts) < 2:
        raise TableError(
            f"the target {name!r} holds one class only ({next(iter(counts))}){among(first)}; "
            f"{SORTED if first else 'give rows of at least two'}."
        )
    if len(counts) > MOST_LABELS:
        raise TableError(
            f"the target {name!r} holds {len(counts):,} different values, more than {MOST_LABELS}; "
            "is it the right column?"
        )
    rare = min(counts, key=lambda label: counts[label])
    if counts[rare] < 2:
        raise TableError(
            f"class {str(rare)!r} of the target {name!r} has one row only{among(first)}; "
            f"{SORTED if first else 'give it more rows or leave it out'}."
        )


def among(first: int) -> str:
    """Name the rows that a message is about, if it is not about all."""
    return f" in the first {first:,} rows, which --stream uses" if first else ""


def numbers(table: Any, name: str | None, what: str, decimal: str, used: Array) -> Array | None:
    """Return a column of weights or degrees; refuse bad values in the rows that are used."""
    if name is None:
        return None
    values = cells.numbers(table.column(name), decimal).values
    top = 1.0 if what == "degrees" else np.inf
    bad = used & ~((values >= 0) & (values <= top) & np.isfinite(values))
    if bad.any():
        row = int(bad.argmax())
        allowed = "numbers from 0 to 1" if what == "degrees" else "numbers of at least 0"
        raise TableError(
            f"column {name!r} holds {table.column(name)[row].as_py()} in row {row + 1}; {what} "
            f"must be {allowed}."
        )
    return values[used]
