"""Batches of rows: the cells as stored, columns parsed at most once, and row numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.tables import _parse
from fuzzytwin.tables._columns import label_key
from fuzzytwin.tables._findings import Finding, TableError
from fuzzytwin.tables._parse import MISSING, Numbers, is_number, pa, pc


@dataclass(eq=False)
class TableBatch:
    """A batch of rows.

    Parameters
    ----------
    cells : pyarrow.Table
        The cells as stored. All columns are text if the file does not specify types.
    source : str, default="X"
        The name in messages: a file, or "batch 3".
    start : int, default=0
        Position of the first row in the source.
    decimal : str, default="."
        The decimal mark of text.
    missing : sequence of str
        The texts that stand for missing values. By default NA, ?, NULL and the like.
    complete : bool, default=True
        Whether these are all rows of the table.
    numbering : callable, default=None
        Turns positions of rows in the source into the numbers that users see.
    positions : ndarray, default=None
        Positions of the rows in the source, if they are not consecutive.
    offset : int, default=0
        What to add to row numbers to continue those of earlier sources.
    all_names : sequence of str, default=()
        All columns of the source, including those that are not read.

    Examples
    --------
    >>> import pandas as pd
    >>> from fuzzytwin.tables import read_table
    >>> batch = read_table(pd.DataFrame({"dose": [1.5, 2.5], "ward": ["a", "b"]})).read()
    >>> batch.cells.to_pydict()
    {'dose': [1.5, 2.5], 'ward': ['a', 'b']}
    >>> batch.source, len(batch), batch.row_numbers(1)
    ('X', 2, 2)
    """

    cells: Any
    source: str = "X"
    start: int = 0
    decimal: str = "."
    missing: Sequence[str] = MISSING
    complete: bool = True
    numbering: Callable[[Any], Any] | None = None
    positions: Array | None = None
    offset: int = 0
    all_names: Sequence[str] = ()
    _parsed: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.cells.num_rows)

    @property
    def n_numbers(self) -> int:
        """Return the number of cells, in which each element of a list counts."""
        lists = [column for column in self.cells.columns if is_numeric_list(column.type)]
        n_elements = sum((list_width(column) or 1) - 1 for column in lists)
        return len(self) * (self.cells.num_columns + n_elements)

    @cached_property
    def flat(self) -> Any:
        """Return the cells with lists of numbers spread over columns: see `spread_lists`."""
        return spread_lists(self.cells)

    def numbers(self, name: str, kind: str = "number", style: str = "") -> Numbers:
        """Parse a column as numbers, truth values or dates. The result is cached."""
        key = (name, kind == "boolean", style)
        if key not in self._parsed:
            column = self.flat.column(name)
            if kind == "boolean":
                self._parsed[key] = _parse.booleans(column, self.missing)
            elif style:
                self._parsed[key] = _parse.dates(column, style, self.missing)
            else:
                self._parsed[key] = _parse.numbers(column, self.decimal, self.missing)
        parsed: Numbers = self._parsed[key]
        return parsed

    def text(self, name: str) -> Any:
        """Return the cells of a column as trimmed text, null if missing."""
        if name not in self._parsed:
            with error_context(name):
                self._parsed[name] = _parse.text(self._column(name), self.missing)
        return self._parsed[name]

    def keys(self, name: str) -> Any:
        """Return the cells of a category: text, with one spelling of 1, 1.0 and "1" and of true."""
        words = self.text(name).combine_chunks().dictionary_encode()
        keys = [label_key(word, self.decimal) for word in words.dictionary.to_pylist()]
        return pa.array(keys, pa.string()).take(words.indices)

    def leading_zeros(self, name: str) -> list[str]:
        """Return the cells of digits that begin with a zero, such as 007."""
        key = (name, "zeros")
        if key not in self._parsed:
            column = self.flat.column(name)
            if _parse.is_text(column.type):  # such cells are whole numbers
                values = self.numbers(name).values
                whole = pa.array(values == np.floor(values))
                column = _parse.decoded(column).filter(whole)  # views of text have no filter
            self._parsed[key] = _parse.leading_zeros(column, self.missing)
        zeros: list[str] = self._parsed[key]
        return zeros

    def kind(self, name: str) -> str:
        """Return what a column holds: see `fuzzytwin.tables._parse.kind_of`."""
        return _parse.kind_of(
            self.flat.column(name),
            self.decimal,
            self.missing,
            parse=lambda: self.numbers(name),
            zeros=lambda: self.leading_zeros(name),
        )

    def _column(self, name: str) -> Any:
        is_stored = name in self.cells.schema.names
        return self.cells.column(name) if is_stored else self.flat.column(name)

    def row_numbers(self, index: Any) -> Any:
        """Return the numbers of rows of the batch, as messages and reports show them."""
        positions = self.start + index if self.positions is None else self.positions[index]
        return positions + 1 if self.numbering is None else self.numbering(positions)

    def table_rows(self, index: Any) -> Any:
        """Return the numbers of rows in the table. Later files continue those of earlier ones."""
        return self.row_numbers(index) + self.offset

    def take(self, index: Any) -> TableBatch:
        """Return the batch of the rows at the positions `index`."""
        positions = np.arange(len(self)) + self.start if self.positions is None else self.positions
        return replace(self, cells=self.cells.take(index), positions=positions[index], _parsed={})


@contextmanager
def error_context(name: str) -> Iterator[None]:
    """Add the name of the column to errors about its cells."""
    try:
        yield
    except TableError:
        raise
    except ValueError as error:
        raise TableError(Finding("bad_column", name, {"reason": str(error)})) from error


def is_frame(item: Any) -> bool:
    """Return whether an object is a frame of pandas or polars, an Arrow table or a mapping."""
    if isinstance(item, Mapping):
        return True
    package = type(item).__module__.partition(".")[0]
    types = ("DataFrame", "RecordBatch", "Table")
    return package in ("pandas", "polars", "pyarrow") and type(item).__name__ in types


def check_collected(frame: Any) -> None:
    """Raise a TypeError for a lazy frame of polars."""
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame of polars; give X.collect() instead.")


def as_arrow(frame: Any, source: str) -> Any:
    """Convert a frame, RecordBatch or mapping of columns to an Arrow table.

    Values of several types in a column become text. The index of a pandas frame is left out.
    """
    package = type(frame).__module__.partition(".")[0]
    if package == "pyarrow":
        return frame if isinstance(frame, pa.Table) else pa.Table.from_batches([frame])
    if package == "polars":
        return frame.to_arrow()
    try:
        if package != "pandas":
            return pa.table(dict(frame))
        check_unique([str(name) for name in frame.columns], source)
        columns = {str(name): as_column(frame.iloc[:, j]) for j, name in enumerate(frame.columns)}
        return pa.table(columns)
    except (pa.ArrowException, TypeError) as error:
        raise TableError(f"{source}: {error}; give columns of numbers or text.") from error


def as_column(column: Any) -> Any:
    """Convert a column of a pandas frame. Values without a common Arrow type become text."""
    try:
        converted = pa.array(column, from_pandas=True)
        if not _has_extension_type(converted.type):  # such as intervals, which are text here
            return converted
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        pass
    return _as_text(column)


def _has_extension_type(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return isinstance(kind, pa.BaseExtensionType)


def _as_text(column: Any) -> Any:
    present = column.notna()
    return pa.array(column.astype(str).where(present, None), pa.string(), from_pandas=True)


def check_unique(names: Sequence[str], source: str) -> None:
    """Raise a TableError if columns share a name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise TableError(
                f"{source} has {count} columns named {name!r}; give each column its own name."
            )


def is_numeric_list(kind: Any) -> bool:
    """Return whether an Arrow type holds lists of numbers, such as embeddings."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and is_number(kind.value_type)


def spread_lists(table: Any) -> Any:
    """Spread lists of numbers of equal length over columns: emb -> emb_0, emb_1, ...

    A missing list is missing in all of these columns. Lists of different lengths are not spread.
    """
    if not any(is_numeric_list(kind) for kind in table.schema.types):
        return table
    columns: dict[str, Any] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        width = list_width(column) if is_numeric_list(column.type) else None
        if width is None:
            columns[name] = column
        else:
            elements = {f"{name}_{j}": pc.list_element(column, j) for j in range(width)}
            if clashes := [element for element in elements if element in table.schema.names]:
                raise TableError(
                    f"the elements of the lists in column {name!r} become columns such as "
                    f"{clashes[0]!r}, but the table already has this column; rename one of them."
                )
            columns |= elements
    return pa.table(columns)


def list_width(column: Any) -> int | None:
    """Return the length of the lists of a column, None if it varies or there are no lists."""
    if pa.types.is_fixed_size_list(column.type):
        return int(column.type.list_size)
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    is_constant = lengths["max"] and lengths["min"] == lengths["max"]
    return lengths["max"] if is_constant else None
