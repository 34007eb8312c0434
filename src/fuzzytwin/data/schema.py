"""What the columns of a table hold: learned once, kept with the model, obeyed by later files.

`fuzzytwin.data.columns` learns a `Schema` from whole columns. Where rows are read in batches and
nothing was learned, `text_types` finds, by the first rows of a file, which columns of text hold
numbers. Both leave the reading of cells to `fuzzytwin.data.cells`.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.data import cells
from fuzzytwin.data.cells import EXACT, MARK, MISSING, STRANGE, WHOLE, Numbers, Odd, is_text, pa, pc

UNKNOWN = "unknown"  # values that training did not have
GAP = "a gap"  # in a column that had none in training
_DONE = {
    MARK: "taken as missing",
    STRANGE: "not readable, taken as missing",
    UNKNOWN: "not among the training rows",
}
MOST_NAMES, MOST_LETTERS = 9, 120  # of columns in a message
_FILLED = {  # what becomes of gaps, by the kinds that are features
    "number": "the median is taken",
    "code": "the most frequent value is taken",
    "boolean": "the most frequent value is taken",
    "category": "none of the known values is taken",
}


class TableError(ValueError):
    """A table that cannot be used."""


@dataclass(frozen=True)
class Column:
    """What a column holds and what becomes of it.

    The kinds "number", "code" (whole numbers that stand for something), "boolean" and "category"
    are learned from; "id", "date", "text", "constant", "empty" and "dropped" are left out.
    """

    name: str
    kind: str
    distinct: int = 0  # different values among the training rows
    missing: int = 0  # missing ones among them
    note: str = ""  # why it is of this kind, or how it is read
    odd: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # as of `cells.Numbers`
    categories: tuple[Any, ...] = ()  # values of a code or a category, sorted
    style: str = ""  # how its dates are written, where they are read as numbers

    @property
    def used(self) -> bool:
        """Return whether the column is a feature."""
        return self.kind in _FILLED

    def numbers(self, column: Any, decimal: str, missing: Sequence[str] = MISSING) -> Numbers:
        """Read cells as numbers; `missing` are the marks for missing values."""
        if self.kind == "boolean":
            return cells.booleans(column, missing)
        if self.style:
            return cells.dates(column, self.style, missing)
        return cells.numbers(column, decimal, missing)


@dataclass
class OddCells:
    """Cells of a file that were not as the schema has them, counted over its batches."""

    source: str
    read: Counter[str] = field(default_factory=Counter)
    odd: dict[str, Odd] = field(default_factory=dict)

    def add(self, name: str, read: int, odd: Odd) -> None:
        """Count the cells of a column: how many were read, and which were odd."""
        self.read[name] += read
        before = self.odd.setdefault(name, {}) if odd else {}
        for kind, (count, cell) in odd.items():
            known, first = before.get(kind, (0, cell))
            before[kind] = (known + count, first)

    def notes(self) -> list[str]:
        """List what to report, a line for each column and kind of cell."""
        return [
            f"column {name!r}: {in_words(kind, *found)}"
            for name, kinds in self.odd.items()
            for kind, found in kinds.items()
        ]

    def check(self) -> None:
        """Refuse a file in which a column of numbers does not hold a single one."""
        for name, kinds in self.odd.items():
            if STRANGE in kinds and not self.read[name]:
                raise ValueError(
                    f"column {name!r} of {self.source} does not hold numbers, but texts such as "
                    f"{kinds[STRANGE][1]!r:.60}; the model was trained on numbers there."
                )


def in_words(kind: str, count: int, cell: str) -> str:
    """Describe what became of odd cells of a kind."""
    if kind == GAP:
        cells_are = f"{count:,} cells are" if count > 1 else "1 cell is"
        return f"{cells_are} missing, as none was in training; {cell}"
    some = f"{count:,} cells such as {cell!r:.40}" if count > 1 else f"1 cell, {cell!r:.40},"
    return f"{some} {_DONE.get(kind, f'read as {kind}')}"


@dataclass(frozen=True)
class Schema:
    """How to read a table: learned from the training rows, kept in the model file."""

    columns: tuple[Column, ...] = ()  # all but those that are named next
    target: str | None = None
    weight: str | None = None
    degree: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)  # by `label_key`, as spelled
    decimal: str = "."  # marks of the training file, for later files that do not show them
    separator: str = ","
    zero_based: bool | None = None  # whether LIBSVM text counts from 0; None for other files
    missing: tuple[str, ...] = MISSING  # marks for missing values

    @property
    def known(self) -> set[str]:
        """Return the names of all columns of the training file."""
        named = (self.target, self.weight, self.degree)
        return {column.name for column in self.columns} | {name for name in named if name}

    @property
    def features(self) -> tuple[Column, ...]:
        """Return the columns that are features."""
        return tuple(column for column in self.columns if column.used)

    def as_dict(self) -> dict[str, Any]:
        """Return a dict that is ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> Schema:
        """Restore the schema of `as_dict`; a ValueError for anything else."""
        try:
            columns = tuple(map(_column, page["columns"]))
            missing = tuple(page.get("missing", MISSING))
            return cls(**{**page, "columns": columns, "missing": missing})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a schema ({error}); train the model again.") from error

    def frame(self, table: Any, decimal: str, odd_cells: OddCells) -> Any:
        """Read the features as a pandas frame: numbers as float64, categories as text."""
        pandas = need("pandas", "cli", "a table with categories")
        out = {}
        for column in self.features:
            raw, odd = table.column(column.name), Odd()
            if column.kind == "category":
                values = cells.text(raw, self.missing).to_pandas().astype(object)
                values = values.where(values.notna(), np.nan)
                found = values.dropna()
            else:
                read = column.numbers(raw, decimal, self.missing)
                values, odd = read.values, dict(read.odd)
                if np.isinf(values).any():
                    raise TableError(
                        f"column {column.name!r} of {odd_cells.source} holds infinite numbers; fix "
                        f"them, or leave it out in training: --drop {column.name!r}."
                    )
                found = pandas.Series(read.found)
            unknown = found[~found.isin(column.categories)] if column.categories else found[:0]
            if len(unknown):
                odd[UNKNOWN] = (len(unknown), f"{unknown.iloc[0]}")
            gaps = table.num_rows - len(found) - sum(odd.get(k, (0,))[0] for k in (MARK, STRANGE))
            if gaps and not column.missing:
                odd[GAP] = (gaps, _FILLED[column.kind])
            odd_cells.add(column.name, len(found), odd)
            out[column.name] = values
        return pandas.DataFrame(out, index=range(table.num_rows))

    def read_labels(self, column: Any, decimal: str = ".") -> tuple[Array, Array]:
        """Return labels as the model has them, unknown ones as text; and which rows have one."""
        cell = cells.text(column, self.missing).combine_chunks().dictionary_encode()
        words = cell.dictionary.to_pylist()
        known = [self.labels.get(label_key(word, decimal), word) for word in words]
        values = np.array([*known, None], dtype=object)
        codes = cell.indices.fill_null(len(known)).to_numpy()
        return values[codes], codes < len(known)


def _column(entry: Mapping[str, Any]) -> Column:
    """Restore a column; JSON knows no tuples."""
    odd = {kind: tuple(count_and_cell) for kind, count_and_cell in entry["odd"].items()}
    return Column(**{**entry, "odd": odd, "categories": tuple(entry["categories"])})


def label_key(word: str, decimal: str = ".") -> str:
    """Return a key that identifies a label: its number, its truth value, or its text.

    >>> label_key("1.50"), label_key("+1"), label_key("TRUE"), label_key("01")
    ('1.5', '1', 'true', '01')
    """
    if decimal == "," and re.fullmatch(r"[+-]?(?:0|[1-9]\d*)?,\d+(?:[eE][+-]?\d+)?", word):
        word = word.replace(",", ".")
    if re.fullmatch(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", word):
        number = Decimal(word)
        exact = Context(prec=len(word) + 100)
        return format(number.normalize(exact), "f") if number else "0"
    return word.lower() if word.lower() in ("true", "false") else word


def text_types(
    head: Any, decimal: str, target: str | None, asked: Collection[str]
) -> dict[str, Any]:
    """Find Arrow types for the text columns of a file by its first rows.

    Labels of the `target` stay whole numbers, and 007 is a text. `asked` are columns to take as
    numbers even if they are empty in these rows.
    """
    types: dict[str, Any] = {}
    for name in head.schema.names:
        column = head.column(name)
        kind = cells.kind_of(column, decimal)
        if kind == "text" and name in asked and cells.numbers(column, decimal).mostly:
            kind = "number"  # codes such as 007
        if kind == "number":
            types[name] = cells.label_type(column) if name == target else pa.float64()
        elif kind == "empty":
            types[name] = pa.float64() if name in asked else pa.null()
        else:
            types[name] = pa.bool_() if kind == "boolean" else pa.string()
    return types


def with_types(
    table: Any, types: Mapping[str, Any], decimal: str, row_name: Any, odd_cells: OddCells
) -> Any:
    """Read the text columns of a table as `text_types` found them; gaps are null.

    ``row_name(index)`` names a row in errors.
    """
    columns = []
    for name, column in zip(table.schema.names, table.columns, strict=True):
        kind = types.get(name)
        if kind is not None and is_text(column.type):
            if is_text(kind):
                column = cells.text(column)
            elif kind != pa.null():
                column = _cast(column, kind, decimal, name, row_name, odd_cells)
        columns.append(column)
    return pa.table(columns, names=table.schema.names)


def _cast(
    column: Any, kind: Any, decimal: str, name: str, row_name: Any, odd_cells: OddCells
) -> Any:
    """Read cells of text as numbers or truth values."""
    if kind == pa.int64():
        return _whole(column, decimal, name, row_name, odd_cells)
    plain = cells.cast(column, kind) if kind != pa.bool_() and decimal == "." else None
    if plain is not None:
        return plain
    read = cells.booleans(column) if kind == pa.bool_() else cells.numbers(column, decimal)
    gaps = np.isnan(read.values)
    if STRANGE in read.odd:
        strange = gaps & cells.text(column).is_valid().to_numpy()
        held = "true or false" if kind == pa.bool_() else "numbers"
        raise ValueError(_otherwise(column, name, int(strange.argmax()), held, row_name))
    odd_cells.add(name, int((~gaps).sum()), read.odd)
    return pa.array(read.values, mask=gaps).cast(kind)


def _whole(column: Any, decimal: str, name: str, row_name: Any, odd_cells: OddCells) -> Any:
    """Read cells of text as whole numbers, digits exactly; 5.0 and the like by way of doubles."""
    words = cells.text(column)
    exact = cells.cast(pc.if_else(pc.match_substring_regex(words, WHOLE), words, None), pa.int64())
    if exact is not None and exact.null_count == words.null_count:
        return exact
    read = cells.numbers(column, decimal)
    rounded = (read.values == np.round(read.values)) & (np.abs(read.values) < EXACT)
    zeros = pc.match_substring_regex(words, r"^[+-]?0\d").fill_null(False).to_numpy()  # no number
    marked = pc.is_in(pc.utf8_lower(words), value_set=pa.array(cells.NO_NUMBER)).to_numpy()
    strange = words.is_valid().to_numpy() & ~marked & (~rounded | zeros)
    if exact is not None:
        strange &= exact.is_null().to_numpy()
    if exact is None or strange.any():
        row = int((np.abs(read.values) if exact is None else strange).argmax())
        raise ValueError(_otherwise(column, name, row, "whole numbers", row_name))
    odd_cells.add(name, int((~np.isnan(read.values)).sum()), read.odd)
    others = pa.array(np.where(rounded, read.values, 0.0).astype(np.int64), mask=~rounded)
    return pc.coalesce(exact, others)


def _otherwise(column: Any, name: str, row: int, held: str, row_name: Any) -> str:
    """Say that a cell does not hold what those of the first rows do."""
    return (
        f"{row_name(row)}: column {name!r} holds {column[row].as_py()!r:.60}, but {held} in the "
        "first rows; fix it, or leave out the row or the column."
    )


def missing_column(
    name: str,
    names: Sequence[str],
    source: object,
    needed: Sequence[str] = (),
    known: Collection[str] = (),
) -> str:
    """Say that a column is not there, or twice, or that many of those needed are not.

    `names` are the columns that are there, `known` those that a model knows: a new name is probably
    among the others. The nearest ones come first.
    """
    if name in names:
        return f"{source} has column {name!r} twice. Its columns are {_nearest(name, names)}."
    if name not in needed:
        return (
            f"{source} has no column {name!r}{_meant(name, names)} Its columns are "
            f"{_nearest(name, names)}."
        )
    new = [other for other in map(str, names) if other not in {*needed, *known}]
    listed = f" Its new columns are {_nearest(name, new)}." if new else ""
    lost = [one for one in needed if one not in names]
    if len(lost) == 1:
        return f"{source} has no column {name!r}, which the model needs{_meant(name, new)}{listed}"
    more = f" and {len(lost) - 6:,} more" if len(lost) > 6 else ""
    return (
        f"{source} lacks {len(lost):,} columns that the model needs: "
        f"{', '.join(map(repr, lost[:6]))}{more}.{listed}"
    )


def _meant(name: str, names: Sequence[str]) -> str:
    """Ask whether the name that is most like a name was meant, if it is like enough."""
    lower = {other.lower(): other for other in reversed(list(map(str, names)))}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    near += [other for other in lower if name.lower() in other.split("_")]  # age_years for age
    return f"; did you mean {lower[near[0]]!r}?" if near else "."


def _nearest(name: str, names: Sequence[str]) -> str:
    """List names, those most like a name first."""

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()

    words = sorted(map(str, names), key=likeness, reverse=True)
    shown = words[:1]
    while len(shown) < min(len(words), MOST_NAMES) and sum(map(len, shown)) < MOST_LETTERS:
        shown.append(words[len(shown)])
    more = f" and {len(words) - len(shown):,} more" if len(words) > len(shown) else ""
    return ", ".join(shown) + more
