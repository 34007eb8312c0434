"""What the columns of a table hold: learned once, kept with the model, obeyed by later files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzytwin._utils.extras import need
from fuzzytwin.sources import cells
from fuzzytwin.sources.cells import MARK, STRANGE, Numbers

Array = NDArray[Any]

USED = ("number", "code", "boolean", "category")
UNKNOWN = "unknown"  # values that training did not have
_DONE = {
    MARK: "taken as missing",
    STRANGE: "not readable, taken as missing",
    UNKNOWN: "not among the training rows",
}


@dataclass(frozen=True)
class Column:
    """What a column holds and what becomes of it.

    Parameters
    ----------
    name : str
        Its name.
    kind : str
        "number", "code" (whole numbers that stand for something), "boolean" and "category" are
        learned from; "id", "date", "constant", "empty" and "dropped" are left out.
    distinct, missing : int
        Number of different values and of missing ones among the training rows.
    note : str
        Why it is of this kind, or how it is read.
    odd : mapping of str to (int, str)
        Cells that are not plain numbers: for each kind, how many, and one of them.
    categories : tuple
        Values of a code or a category, sorted.
    style : str
        How its dates are written, where they are read as numbers.
    """

    name: str
    kind: str
    distinct: int = 0
    missing: int = 0
    note: str = ""
    odd: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    categories: tuple[Any, ...] = ()
    style: str = ""

    @property
    def used(self) -> bool:
        """Return whether the column is a feature."""
        return self.kind in USED

    def numbers(self, column: Any, decimal: str) -> Numbers:
        """Read cells as numbers."""
        if self.kind == "boolean":
            return cells.booleans(column)
        return cells.dates(column, self.style) if self.style else cells.numbers(column, decimal)


class Tally:
    """Cells of a file that were not as the schema has them, counted over its batches."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.read: dict[str, int] = {}
        self.odd: dict[str, dict[str, tuple[int, str]]] = {}

    def add(self, name: str, read: int, odd: Mapping[str, tuple[int, str]]) -> None:
        """Count the cells of a column: how many were read, and which were odd."""
        self.read[name] = self.read.get(name, 0) + read
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
    some = f"{count:,} cells such as {cell!r:.40}" if count > 1 else f"1 cell, {cell!r:.40},"
    return f"{some} {_DONE.get(kind, f'read as {kind}')}"


@dataclass(frozen=True)
class Schema:
    """How to read a table: learned from the training rows, kept in the model file.

    Parameters
    ----------
    columns : tuple of Column
        All columns but those that are named next.
    target, weight, degree : str or None
        Columns of labels, weights and degrees.
    labels : mapping of str to str or int
        The classes, by `label_key`: spelled as in the training file.
    decimal, separator : str
        Marks of the training file, for later files that do not show them.
    zero_based : bool or None
        Whether LIBSVM text counts features from 0; None for other files.
    """

    columns: tuple[Column, ...] = ()
    target: str | None = None
    weight: str | None = None
    degree: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    decimal: str = "."
    separator: str = ","
    zero_based: bool | None = None

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
            columns = [
                Column(**{**one, "categories": tuple(one["categories"])}) for one in page["columns"]
            ]
            return cls(**{**page, "columns": tuple(columns)})
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a schema ({error}); train the model again.") from error

    def frame(self, table: Any, decimal: str, tally: Tally) -> Any:
        """Read the features as a pandas frame: numbers as float64, categories as text."""
        pandas = need("pandas", "cli", "a table with categories")
        out = {}
        for column in self.features:
            raw = table.column(column.name)
            if column.kind == "category":
                values = cells.text(raw).to_pandas().astype(object)
                out[column.name] = values.where(values.notna(), np.nan)
                self._count_unknown(column, values.dropna(), tally)
                continue
            read = column.numbers(raw, decimal)
            if np.isinf(read.values).any():
                raise ValueError(
                    f"column {column.name!r} of {tally.source} holds infinite numbers; fix them, "
                    f"or leave it out in training: --drop {column.name!r}."
                )
            found = read.values[~np.isnan(read.values)]
            tally.add(column.name, len(found), read.odd)
            if column.kind == "code":
                self._count_unknown(column, pandas.Series(found), tally)
            out[column.name] = read.values
        return pandas.DataFrame(out, index=range(table.num_rows))

    @staticmethod
    def _count_unknown(column: Column, values: Any, tally: Tally) -> None:
        unknown = values[~values.isin(column.categories)] if column.categories else values[:0]
        if len(unknown):
            tally.add(column.name, 0, {UNKNOWN: (len(unknown), f"{unknown.iloc[0]}")})

    def label_of(self, word: str, decimal: str = ".") -> Any:
        """Return the class that a cell names; the cell itself if it names none."""
        return self.labels.get(label_key(word, decimal), word)

    def read_labels(self, column: Any, decimal: str = ".") -> tuple[Array, Array]:
        """Return labels as the model has them, unknown ones as text; and which rows have one."""
        cell = cells.text(column).combine_chunks().dictionary_encode()
        known = [self.label_of(word, decimal) for word in cell.dictionary.to_pylist()]
        values = np.array([*known, None], dtype=object)
        codes = cell.indices.fill_null(len(known)).to_numpy()
        return values[codes], codes < len(known)


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


def learn_labels(words: Mapping[str, int], decimal: str = ".") -> dict[str, Any]:
    """Return the classes by `label_key`, given the counts of all spellings.

    Each is spelled as most often; they are integers where all of them are spelled as such.
    """
    spelled: dict[str, list[str]] = {}
    for word in sorted(words):
        spelled.setdefault(label_key(word, decimal), []).append(word)
    labels = {key: max(found, key=lambda word: words[word]) for key, found in spelled.items()}
    plain = all(
        re.fullmatch(r"0|-?[1-9]\d{0,18}", word) and -(2**63) <= int(word) < 2**63
        for word in labels.values()
    )
    return {key: int(word) if plain else word for key, word in labels.items()}
