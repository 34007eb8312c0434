"""Read tables of any kind: files, folders, globs, frames, and iterables of frames."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin.core.hashing import hash64
from fuzzytwin.tables._batch import (
    TableBatch,
    as_arrow,
    check_unique,
    is_frame,
)
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._findings import TableError
from fuzzytwin.tables._formats import (
    ENDINGS,
    TableFile,
    format_of,
    known_format,
    open_table,
    partitions,
    rows_at_once,
)
from fuzzytwin.tables._parse import decimal_mark, decoded, is_cell, is_text, missing_markers, pa
from fuzzytwin.tables._parse import text as as_text
from fuzzytwin.tables._schema import TableSchema
from fuzzytwin.tables._sniff import TextOptions

# Bytes of numbers up to which a table is read whole, on every computer: the answer must not depend
# on its free memory. Training takes about seven times as much, 2 GB.
WHOLE_BYTES = 1 << 28
SAMPLE_ROWS = 100_000  # upper limit of the first rows that the schema of a larger one comes from
SAMPLE_BYTES = 1 << 25  # of numbers; a table of many columns has a sample of fewer rows
MIN_SAMPLE_ROWS = 10_000
_END = object()  # marks the end of an iterable


def read_table(
    source: Any,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Iterable[object] = (),
    sheet: str | None = None,
    expected: Collection[str] = (),
    like: TableSchema | None = None,
) -> TableReader:
    r"""Open a table. Its rows are read only when they are requested.

    Parameters
    ----------
    source : path, list of paths, frame, iterable of frames, or callable
        - a Parquet (.parquet, .pq), Arrow or Feather (.arrow, .ipc, .feather) or text file (.csv,
          .tsv, .txt, also with .gz), or a workbook (.xlsx);
        - a folder or a glob of such files of one kind, or a list of them; names of folders such as
          ``year=2020`` are columns;
        - a frame of pandas or polars, an Arrow table or a mapping of columns;
        - an iterable of frames, or a function that returns a new one at each call.
    sep, decimal, encoding : str, default=None
        Separator, decimal mark and encoding of text files. None infers each from the first rows.
    missing : sequence of str or float, default=()
        Texts that stand for missing values, instead of NA, ?, NULL and the like.
    sheet : str, default=None
        Sheet of a workbook, None for the first.
    expected : sequence of str, default=()
        Columns that the table should have. They help to infer the separator.
    like : TableSchema, default=None
        How an earlier table was read. It supplies the decimal mark, the separator if this table
        does not show it, the markers of missing values, and the expected columns.

    Returns
    -------
    TableReader

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "doses.csv"
    ...     _ = path.write_text("dose;ward\n1,5;a\n2,5;b\n")
    ...     table = read_table(path)
    ...     table.names, table.decimal, table.read().cells.to_pydict()
    (('dose', 'ward'), ',', {'dose': ['1,5', '2,5'], 'ward': ['a', 'b']})
    """
    na_markers = missing_markers(missing)
    options = TextOptions(sep, decimal, encoding)
    if like is not None:
        # The mark is never inferred again: rows must mean the same whatever comes with them.
        options = replace(options, default_sep=like.separator, decimal=decimal or like.decimal)
        expected = expected or like.reads
        if na_markers == missing_markers(()):
            na_markers = like.missing
    if is_frame(source):
        return FrameReader(Items([source]), options, na_markers, "X")
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if _is_paths(source):
        return FileReader(list(map(os.fspath, source)), options, na_markers, sheet, expected)
    items = source if isinstance(source, Items) else Items(source)
    return FrameReader(items, options, na_markers)


def rows_read_whole(n_columns: int) -> int:
    """Return up to how many rows of `n_columns` columns a table is read whole."""
    return WHOLE_BYTES // (8 * max(n_columns, 1))


def sample_rows(n_columns: int) -> int:
    """Return from how many rows of a larger table a schema is inferred."""
    by_bytes = max(SAMPLE_BYTES // (8 * max(n_columns, 1)), MIN_SAMPLE_ROWS)
    return min(by_bytes, SAMPLE_ROWS)


def _is_paths(source: Any) -> bool:
    is_list = isinstance(source, (list, tuple)) and len(source) > 0
    return is_list and all(isinstance(item, (str, os.PathLike)) for item in source)


class TableReader:
    """A table that can be read in batches, or whole. `read_table` returns one.

    Examples
    --------
    >>> import pandas as pd
    >>> from fuzzytwin.tables import read_table
    >>> table = read_table(pd.DataFrame({"dose": [1.5, 2.5, 4.0], "ward": ["a", "b", "a"]}))
    >>> table.names
    ('dose', 'ward')
    >>> [len(batch) for batch in table.batches(batch_rows=2)]
    [2, 1]
    """

    paths: Sequence[str] = ()  # of the files, if the table is stored in files
    repeatable = True  # whether it can be read more than once
    n_rows: int | None = None  # None if the rows must be read to count them
    separator = ","
    sheet_name: str | None = None  # of a workbook
    has_types = True  # whether the cells have types; otherwise they are text
    first_row = 1  # number of the first row; 2 if a spreadsheet shows the header as row 1

    def __init__(self, options: TextOptions, missing: tuple[str, ...]) -> None:
        self.options = options
        self.missing = missing
        self._decimal = options.decimal

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        raise NotImplementedError

    @property
    def decimal(self) -> str:
        """Return the decimal mark: the user's choice, or the one that the sample shows."""
        return self._decimal or self.sample().decimal

    def _marked(self, batch: TableBatch) -> TableBatch:
        """Return a batch with the decimal mark of the table, inferred from the first such batch."""
        if self._decimal is None:
            self._decimal = decimal_mark(batch.cells.columns, self.separator)
        return replace(batch, decimal=self._decimal)

    def batches(
        self, batch_rows: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[TableBatch]:
        """Read the rows in batches.

        Parameters
        ----------
        batch_rows : int, default=None
            Maximum number of rows of a batch. None for about 16 MiB of numbers.
        columns : sequence of str, default=None
            Columns to read, None for all. Those that a file lacks are left out.

        Yields
        ------
        TableBatch
            A batch of at least one row.
        """
        if batch_rows is not None and (not is_whole(batch_rows) or batch_rows < 1):
            raise not_allowed("batch_rows", batch_rows, "give None or a whole number of at least 1")
        decimal = self.decimal
        return (replace(b, decimal=decimal) for b in self._batches(batch_rows, columns))

    def _batches(
        self, batch_rows: int | None, columns: Sequence[str] | None
    ) -> Iterator[TableBatch]:
        raise NotImplementedError

    def sample(self) -> TableBatch:
        """Read the rows from which a schema can be inferred.

        These are all rows of a table of at most 256 MiB of numbers (rows x columns x 8 bytes), and
        of a larger one the first 32 MiB, 10,000 to 100,000 rows. The next pass over the rows
        returns them again.

        Returns
        -------
        TableBatch
            Its attribute `complete` says whether these are all rows.
        """
        is_small = (self.n_rows or 0) <= rows_read_whole(len(self.names))
        with closing(self._head(None, None)) as batches:  # type: ignore[type-var]
            rows = sample_rows(len(self.names))
            return self._joined(batches, rows, WHOLE_BYTES if is_small else 0)

    def head(self, rows: int, columns: Sequence[str] | None = None) -> TableBatch:
        """Read the first rows of the first file or frame.

        The next pass over the rows returns them again.

        Parameters
        ----------
        rows : int
            Maximum number of rows.
        columns : sequence of str, default=None
            Columns to read, None for all.

        Returns
        -------
        TableBatch
        """
        with closing(self._head(rows, columns)) as batches:  # type: ignore[type-var]
            for batch in batches:
                if len(self.paths) == 1:
                    return self._marked(batch)
                return replace(batch, decimal=self.decimal)  # of all files
        raise self._empty()

    def _head(self, batch_rows: int | None, columns: Sequence[str] | None) -> Iterator[TableBatch]:
        """Read rows from the first on. The next pass returns them again."""
        return self._batches(batch_rows, columns)

    def read(self) -> TableBatch:
        """Read all rows at once."""
        return self._joined(self._batches(None, None))

    def _joined(
        self, batches: Iterator[TableBatch], rows: int | None = None, whole: int = 0
    ) -> TableBatch:
        """Join batches: all of them if they have at most `whole` bytes, else the first `rows`."""
        read_batches: list[TableBatch] = []
        n_read = n_bytes = 0
        for batch in batches:
            read_batches.append(batch)
            n_read += len(batch)
            n_bytes += 8 * batch.n_numbers
            if rows is not None and n_read > rows and n_bytes > whole:
                break
        else:
            rows = None
        if not read_batches:
            raise self._empty()
        return self._marked(_join(read_batches, rows))

    def _empty(self) -> TableError:
        return TableError(f"{self.source} has column names but no rows; add some rows.")

    def draw(self, rows: int) -> TableBatch:
        """Draw about `rows` rows at random, the same ones each time.

        Whether a row is drawn depends on its position in the table only. Larger samples contain
        the smaller ones.
        """
        limit = 2.0**64 * min(rows / max(self.estimate_rows(), 1), 1.0)
        drawn = []
        for batch in self.batches():
            positions = np.arange(len(batch)) + batch.start
            drawn.append(batch.take(np.flatnonzero(hash64(positions + 1) < limit)))
        if not drawn:
            raise self._empty()
        return _join(drawn, None)

    @property
    def source(self) -> str:
        """Return what messages call the table."""
        return self.paths[0] if self.paths else "X"

    def estimate_rows(self) -> int:
        """Return the number of rows, or an estimate if counting would need a pass."""
        raise NotImplementedError

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Raise a ValueError if writing to `out` would overwrite a file of this table."""
        if os.path.exists(out) and any(os.path.samefile(path, out) for path in self.paths):
            raise ValueError(f"out={os.fspath(out)!r} is an input file; give another name.")


class Items:
    """Items of an iterable, or of a function that returns a new one at each call.

    Items that `peek` has returned are kept for the next pass, so that an iterable that can be read
    only once loses nothing.
    """

    def __init__(self, source: Any) -> None:
        if not callable(source) and not isinstance(source, Iterable):
            raise TypeError(
                f"source is of type {type(source).__name__}; give a file, a folder, a glob, a list "
                "of files, a frame, an iterable of batches, or a function that returns one."
            )
        self.source = source
        self.opened: list[Any] = []  # every iterator so far
        self.peeked: list[Any] = []  # items that the next pass begins with
        self.iterator: Iterator[Any] | None = self._open()
        self.repeatable = callable(source) or self.iterator is not source

    @property
    def first(self) -> Any:
        """Return the first item, None if there is none."""
        return next(self.peek(), None)

    def peek(self) -> Iterator[Any]:
        """Return items from the first on. The next pass returns them again."""
        if self.iterator is None:
            self.iterator = self._open()
        position = 0
        while True:
            if position == len(self.peeked):
                item = next(self.iterator, _END)
                if item is _END:
                    return
                self.peeked.append(item)
            yield self.peeked[position]
            position += 1

    def read(self) -> Iterator[Any]:
        """Read all items."""
        remaining = self._open() if self.iterator is None else self.iterator
        items = chain(self.peeked, remaining)
        self.peeked = []
        self.iterator = None
        return items

    def _open(self) -> Iterator[Any]:
        items = iter(self.source() if callable(self.source) else self.source)
        if any(items is earlier for earlier in self.opened):
            raise ValueError(
                "the function returned the same iterator twice, and it is used up; give a function "
                "that returns a new iterator at each call."
            )
        self.opened.append(items)
        return items


class FileReader(TableReader):
    """Files of one kind, one after the other."""

    def __init__(
        self,
        paths: list[str],
        options: TextOptions,
        missing: tuple[str, ...],
        sheet: str | None,
        expected: Collection[str],
    ) -> None:
        super().__init__(options, missing)
        located = [file for path in paths for file in _located(path)]
        self.paths = [path for path, _ in located]
        kinds = {known_format(path).kind for path in self.paths}
        if len(kinds) > 1:
            raise ValueError(
                f"{self.paths[0]} and the other files have several formats "
                f"({', '.join(sorted(kinds))}); select those of one format by a glob such as "
                "'folder/*.parquet'."
            )
        self.sheet = sheet
        self.expected = expected
        self.partitions = _varying(partitions(located), expected)
        self.file = self._open(self.paths[0])
        if not self.file.texts:
            self._decimal = self._decimal or "."  # so that no sample is read for it
        self.has_types = self.file.typed
        self.separator = self.file.separator
        self.first_row = self.file.first_row
        self.sheet_name = getattr(self.file, "sheet", None)
        if self.file.rows is not None and len(self.paths) <= 1000:
            later_rows = sum(self._open(path).rows or 0 for path in self.paths[1:])
            self.n_rows = self.file.rows + later_rows

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns of the first file."""
        return tuple(self.file.schema.names)

    def estimate_rows(self) -> int:
        """Return the number of rows, or an estimate if counting would need a pass."""
        if self.n_rows is not None:
            return self.n_rows
        sizes = [os.path.getsize(path) for path in self.paths]
        return round(self.file.estimate_rows() * sum(sizes) / max(sizes[0], 1))

    def _open(self, path: str) -> TableFile:
        return open_table(path, self.expected, self.options, self.sheet, self.partitions[path])

    def _batches(
        self, batch_rows: int | None, columns: Sequence[str] | None
    ) -> Iterator[TableBatch]:
        offset = 0
        for path in self.paths:
            file = self.file if path == self.paths[0] else self._open(path)
            names = file.schema.names
            selected = names if columns is None else [name for name in columns if name in names]
            if columns is None:
                check_unique(names, path)
                _check_same(names, self.names, path)
            elif ambiguous := [name for name in selected if names.count(name) > 1]:
                raise TableError(missing_column(ambiguous[0], names, path))
            rows = batch_rows or rows_at_once(len(selected))
            start = 0
            for cells in file.frames(selected or names[:1], rows):
                cells = cells.replace_schema_metadata(file.schema.metadata)
                yield TableBatch(
                    cells,
                    path,
                    start,
                    missing=self.missing,
                    complete=len(self.paths) == 1,
                    numbering=file.numbers,
                    offset=offset,
                    all_names=names,
                )
                start += cells.num_rows
            if path != self.paths[-1] and start:
                offset += int(file.numbers(start - 1)) + 1 - self.first_row


class FrameReader(TableReader):
    """Frames that are in memory, or that something else makes."""

    def __init__(
        self, items: Items, options: TextOptions, missing: tuple[str, ...], name: str = ""
    ) -> None:
        super().__init__(options, missing)
        self.items = items
        self.name = name  # of the only frame, if it has one
        self.repeatable = items.repeatable
        first = items.first
        if first is None:
            raise TableError("the source is empty; give at least one frame.")
        self.first = self._as_batch(1, first)
        if not any(map(is_text, self.first.cells.schema.types)):
            self._decimal = self._decimal or "."
        if isinstance(items.source, list) and len(items.source) == 1:
            self.n_rows = len(self.first)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns of the first frame."""
        return tuple(self.first.cells.schema.names)

    def estimate_rows(self) -> int:
        """Return the number of rows."""
        if not self.repeatable:
            raise ValueError(
                "the frames can be read only once, so their rows cannot be counted first; give a "
                "function that returns a new iterator at each call."
            )
        return self.n_rows or sum(len(batch) for batch in self._batches(None, None))

    @property
    def source(self) -> str:
        """Return what messages call the first frame."""
        return self.name or "batch 1"

    def _empty(self) -> TableError:
        return TableError("the source has column names but no rows; add some rows.")

    def _as_batch(self, number: int, frame: Any) -> TableBatch:
        source = self.name or f"batch {number}"
        if not is_frame(frame):
            raise TypeError(
                f"{source} is of type {type(frame).__name__}; give Arrow tables, frames of pandas "
                "or polars, or mappings of columns."
            )
        return TableBatch(as_arrow(frame, source), source, missing=self.missing)

    def _batches(
        self, batch_rows: int | None, columns: Sequence[str] | None
    ) -> Iterator[TableBatch]:
        return self._cut(self.items.read(), batch_rows, columns)

    def _head(self, batch_rows: int | None, columns: Sequence[str] | None) -> Iterator[TableBatch]:
        return self._cut(self.items.peek(), batch_rows, columns)

    def _cut(
        self, frames: Iterator[Any], batch_rows: int | None, columns: Sequence[str] | None
    ) -> Iterator[TableBatch]:
        offset = 0
        for number, frame in enumerate(frames, start=1):
            batch = self._as_batch(number, frame)
            names = batch.cells.schema.names
            cells = batch.cells
            if columns is not None:
                cells = cells.select([name for name in columns if name in names])
            else:
                _check_same(names, self.names, batch.source)
            rows = batch_rows or rows_at_once(cells.num_columns)
            for start in range(0, len(batch), rows):
                yield TableBatch(
                    cells.slice(start, rows),
                    batch.source,
                    start,
                    missing=self.missing,
                    offset=offset,
                    all_names=names,
                )
            offset += len(batch)


def _check_same(names: Sequence[str], first_names: Sequence[str], source: str) -> None:
    """Raise a TableError if a table lacks columns of the first one."""
    present = set(names)
    for name in first_names:
        if name not in present:
            raise TableError(missing_column(name, names, source))


def _join(batches: list[TableBatch], rows: int | None) -> TableBatch:
    """Join batches into one. Keep only the first `rows` rows, unless this is None."""
    first = batches[0]
    cells = batches[0].cells
    if len(batches) > 1:
        cells = _concatenate([batch.cells for batch in batches])
    complete = rows is None or cells.num_rows <= rows
    cells = cells.slice(0, rows).replace_schema_metadata(first.cells.schema.metadata)
    numbers = None
    if any(batch.positions is not None or batch.source != first.source for batch in batches):
        numbers = np.concatenate([batch.table_rows(np.arange(len(batch))) for batch in batches])
    return TableBatch(
        cells,
        first.source,
        decimal=first.decimal,
        missing=first.missing,
        complete=complete,
        numbering=first.numbering if numbers is None else lambda positions: numbers[positions],
    )


def _concatenate(tables: list[Any]) -> Any:
    """Concatenate tables. Columns whose types have nothing in common become text."""
    names = tables[0].schema.names
    tables = [table.select(names).replace_schema_metadata(None) for table in tables]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        pass
    columns = {}
    for name in names:
        parts = [table.column(name) for table in tables]
        kinds = {part.type for part in parts}
        if len(kinds) > 1 and all(is_cell(kind) for kind in kinds):
            parts = _one_type([decoded(part) for part in parts])
        single = [pa.table({name: part}) for part in parts]
        columns[name] = pa.concat_tables(single, promote_options="permissive").column(0)
    return pa.table(columns)


def _one_type(columns: list[Any]) -> list[Any]:
    """Return columns unchanged if Arrow can unify their types, otherwise as text."""
    try:
        fields = [pa.schema([("x", column.type)]) for column in columns]
        pa.unify_schemas(fields, promote_options="permissive")
        return columns
    except pa.ArrowException:
        return [as_text(column, [""]) for column in columns]


def _varying(
    partitioned: Mapping[str, Mapping[str, Any]], expected: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Take the columns of `partitions` that are expected or differ between the files."""
    first = next(iter(partitioned.values()))
    names = [
        name
        for name in first
        if name in expected or any(values[name] != first[name] for values in partitioned.values())
    ]
    return {path: {name: values[name] for name in names} for path, values in partitioned.items()}


def list_files(path: str | os.PathLike[str]) -> list[str]:
    """List the files of a path, a folder or a glob, in order of their names."""
    return [file for file, _ in _located(os.fspath(path))]


def _located(path: str) -> list[tuple[str, str]]:
    """List the files of a path, each with its path below the folder if it is one."""
    if os.path.isdir(path):
        files = [
            str(file)
            for file in sorted(Path(path).rglob("*"))
            if file.is_file() and file.name[0] not in "._" and format_of(file).kind
        ]
        if not files:
            raise ValueError(f"{path} holds no file that ends in {', '.join(ENDINGS)}.")
        return [(file, os.path.relpath(file, path)) for file in files]
    if os.path.exists(path):
        return [(path, path)]
    matches = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
    if not matches:
        raise FileNotFoundError(f"file not found: {path}; give a file, a folder or a glob.")
    return [(file, file) for file in matches]
