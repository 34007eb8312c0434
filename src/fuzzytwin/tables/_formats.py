"""File formats: each one reads its rows as Arrow tables, in batches.

A format is a subclass of `TableFile` in `FORMATS`. Nothing else lists the formats.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.memory import NotEnoughMemoryError
from fuzzytwin.tables._findings import Finding, TableError, describe
from fuzzytwin.tables._parse import is_text, pa
from fuzzytwin.tables._sniff import (
    EMPTY,
    TEXT_BYTES,
    TextOptions,
    empty_records,
    file_system,
    find_dialect,
    is_remote,
    text_batches,
)

MIDNIGHT = " 00:00:00"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a missing value in the name of a folder
BATCH_ROWS = 65_536  # upper limit, unless the user sets another
BATCH_BYTES = 1 << 24  # of numbers; batches of tables of many columns have fewer rows
MIN_BATCH_ROWS = 256
PARQUET_BUFFER = 1 << 16  # bytes of each column that are read at once


class TableFile:
    """A file of rows whose columns have names."""

    kind = ""
    endings: tuple[str, ...] = ()
    typed = True  # whether the file stores the types of its columns; if not, all of them are text
    first_row = 1  # number of the first row; 2 if a spreadsheet shows the header as row 1
    schema: Any  # Arrow schema: names and types of the columns
    texts: list[str]  # columns of text whose names are unique
    rows: int | None = None  # None if the rows must be read to count them
    separator = ","  # of text files

    def __init__(
        self,
        path: str,
        expected: Collection[str],
        options: TextOptions,
        sheet: str | None,
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        schema = self._read_schema(expected, options, sheet)
        names = schema.names if self.typed else schema
        self.schema = schema if self.typed else pa.schema([(name, pa.string()) for name in names])
        self.partition = {  # Arrow scalars; columns of the file itself come first
            name: value for name, value in (partition or {}).items() if name not in names
        }
        for name, value in self.partition.items():
            self.schema = self.schema.append(pa.field(name, value.type))
        twice = repeated(self.schema.names)
        self.texts = [f.name for f in self.schema if f.name not in twice and is_text(f.type)]

    def _read_schema(
        self, expected: Collection[str], options: TextOptions, sheet: str | None
    ) -> Any:
        """Return the Arrow schema, or only the names of the columns if all of them are text."""
        raise NotImplementedError

    def frames(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Read columns as tables of at most `rows` rows. Small batches are put together."""
        pending: list[Any] = []
        with readable(self.path):
            for frame in self._partitioned(list(columns), rows):
                for start in range(0, frame.num_rows, rows):
                    part = frame.slice(start, rows)
                    if sum(map(len, pending)) + len(part) > rows:
                        yield pa.Table.from_batches(pending)
                        pending = []
                    pending.append(part)
        if pending:
            yield pa.Table.from_batches(pending)

    @property
    def blank(self) -> Any:
        """Return the positions of empty rows, which are not read, among the rows of the file."""
        return ()

    def numbers(self, index: Any) -> Any:
        """Return the numbers of rows from their positions among the rows that are read.

        They begin with `first_row`, and empty rows count.
        """
        blank = np.asarray(self.blank, dtype=np.intp)
        skipped = np.searchsorted(blank - np.arange(len(blank)), index, side="right")
        return index + skipped + self.first_row

    def head(self, columns: Sequence[str]) -> Any:
        """Read the first rows of columns: one batch of them, or 2 MiB of text."""
        rows = rows_at_once(len(columns))
        with readable(self.path), closing(self._partitioned(list(columns), rows)) as frames:
            for frame in frames:
                return pa.table(frame)
        return pa.schema([self.schema.field(name) for name in columns]).empty_table()

    def _partitioned(self, columns: list[str], rows: int) -> Generator[Any, None, None]:
        """Read columns of the file, or of the partition that the file belongs to."""
        if not self.partition.keys() & set(columns):
            yield from self._frames(columns, rows)
            return
        stored = [name for name in columns if name not in self.partition]
        for frame in self._frames(stored or self.schema.names[:1], rows):
            arrays = [
                pa.repeat(self.partition[name], len(frame))
                if name in self.partition
                else frame.column(name)
                for name in columns
            ]
            yield pa.record_batch(arrays, names=columns)

    def estimate_rows(self) -> int:
        """Return the number of rows, or an estimate if counting would need a pass."""
        with readable(self.path):
            return self._estimate_rows() if self.rows is None else self.rows

    def _estimate_rows(self) -> int:
        """Estimate the number of rows without reading all of them."""
        raise NotImplementedError

    def _frames(self, columns: list[str], rows: int) -> Any:
        raise NotImplementedError


class _Parquet(TableFile):
    """Parquet files."""

    kind = "parquet"
    endings: tuple[str, ...] = (".parquet", ".pq")

    def _read_schema(self, *hints: Any) -> Any:
        with self._open() as file:
            self.rows = int(file.metadata.num_rows)
            return file.schema_arrow

    def _open(self) -> Any:
        from pyarrow import parquet

        # A small buffer of each column is in memory. `pyarrow.dataset` would hold whole row groups.
        system, path = file_system(self.path)
        return parquet.ParquetFile(
            path, buffer_size=PARQUET_BUFFER, pre_buffer=False, filesystem=system
        )

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        with self._open() as file:
            batches = file.iter_batches(min(rows, 1 << 30), columns=columns, use_threads=False)
            for batch in batches:
                yield batch.select(columns)  # Arrow reads "x.1" as well if "x" is requested


class _Ipc(TableFile):
    """Arrow and Feather files, read by `pyarrow.dataset`, and Arrow streams."""

    kind = "ipc"
    endings = (".arrow", ".feather", ".ipc")

    def _read_schema(self, *hints: Any) -> Any:
        from pyarrow import dataset

        system, path = file_system(self.path)
        try:
            self.fragment = dataset.IpcFileFormat().make_fragment(path, system)
            return self.fragment.physical_schema
        except pa.ArrowInvalid:
            self.fragment = None
            with system.open_input_stream(path, compression=None) as file:
                return pa.ipc.open_stream(file).schema

    def _estimate_rows(self) -> int:
        if self.fragment is not None:
            return int(self.fragment.count_rows())
        return file_size(self.path) // (8 * len(self.schema.names))

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        for batch in self._batches(columns, rows):
            batch.validate(full=True)  # what a damaged file points at would end the process
            yield batch

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        if self.fragment is not None:
            yield from self.fragment.to_batches(
                columns=columns,
                batch_size=min(rows, 1 << 30),
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
            )
            return
        system, path = file_system(self.path)
        with system.open_input_stream(path, compression=None) as file:
            for batch in pa.ipc.open_stream(file):
                yield batch.select(columns)


class _Csv(TableFile):
    """Text files, read a block of bytes at a time. Every column is text."""

    kind = "csv"
    endings = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
    typed = False
    first_row = 2

    def _read_schema(
        self, expected: Collection[str], options: TextOptions, sheet: str | None
    ) -> Any:
        tabs = ".tsv" in os.path.basename(self.path).lower()
        default = "\t" if tabs else options.default_sep
        self.dialect = find_dialect(self.path, expected, default, options.sep, options.encoding)
        self.separator = self.dialect.separator
        return self.dialect.names

    @cached_property
    def blank(self) -> Any:
        return empty_records(self.path, self.dialect)

    def _estimate_rows(self) -> int:
        """Estimate from the length, and the compression, of the first rows."""
        block = max(TEXT_BYTES, 4 * self.dialect.longest)  # the bytes that `head` reads
        system, path = file_system(self.path)
        with system.open_input_stream(path, compression=None) as file:
            start = file.read(block)
        length = float(file_size(self.path))
        if self.path.lower().endswith(".gz"):
            unzip = zlib.decompressobj(wbits=31)
            text = unzip.decompress(start, block)
            stored = len(start) - len(unzip.unconsumed_tail) - len(unzip.unused_data)
            length *= len(text) / stored
        return round(self.head(self.schema.names[-1:]).num_rows * max(length / block, 1.0))

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from text_batches(self.path, self.dialect, columns)


class _Xlsx(TableFile):
    """A sheet of a workbook, its cells as in a CSV file."""

    kind = "xlsx"
    endings = (".xlsx",)
    typed = False
    first_row = 2

    def _read_schema(
        self, expected: Collection[str], options: TextOptions, sheet: str | None
    ) -> Any:
        import_optional("openpyxl", "files", "an .xlsx file")
        pandas = import_optional("pandas", "files", "an .xlsx file")
        try:
            with pandas.ExcelFile(self.path, engine="openpyxl") as book:
                sheets = book.sheet_names
                self.sheet = sheet or sheets[0]
                if self.sheet in sheets:
                    parsed = pandas.read_excel(
                        book, sheet_name=self.sheet, header=None, dtype=object, na_filter=False
                    )
        except FileNotFoundError:
            raise
        except Exception as error:  # of many types: any file may have this ending
            raise ValueError(f"{self.path} cannot be read: {error}; save it again.") from error
        if self.sheet not in sheets:
            raise _wrong_sheet(f"{self.path} has no sheet {sheet!r}", sheets)
        cells = parsed.to_numpy(dtype=object)
        blank = (cells == "").all(axis=1)
        self.cells = cells[~blank]
        header = list(self.cells[0]) if len(self.cells) else []
        while header and header[-1] == "":
            header.pop()
        names = [str(name).strip() or f"column {n}" for n, name in enumerate(header, 1)]
        missing = [name for name in expected if name not in names]
        if len(sheets) > 1 and (missing or not names):
            problem = f"has no column {missing[0]!r}" if missing else "is empty"
            raise _wrong_sheet(f"sheet {self.sheet!r} of {self.path} {problem}", sheets)
        if not names:
            raise ValueError(EMPTY.format(self.path))
        self.rows = len(self.cells) - 1
        self._blank = np.flatnonzero(blank) - 1
        return names

    @property
    def blank(self) -> Any:
        return self._blank

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        index = [self.schema.names.index(name) for name in columns]
        for start in range(1, len(self.cells), min(rows, BATCH_ROWS)):
            part = self.cells[start : start + min(rows, BATCH_ROWS)]
            yield pa.record_batch([_as_cells(part[:, j].tolist()) for j in index], names=columns)


def _wrong_sheet(text: str, sheets: Sequence[str]) -> TableError:
    """Return the error that the sheet is missing, or lacks a column."""
    return TableError(
        Finding("sheet", values={"text": text, "labels": sheets, "value": sheets[-1]})
    )


def _as_cells(values: list[Any]) -> Any:
    """Convert values of a workbook to text. Dates lose their time if all times are midnight."""
    words = [None if value is None or value == "" else str(value) for value in values]
    dates = [i for i, value in enumerate(values) if hasattr(value, "isoformat")]
    if all(str(words[i]).endswith(MIDNIGHT) for i in dates):
        for i in dates:
            words[i] = str(words[i]).removesuffix(MIDNIGHT)
    return pa.array(words, pa.string())


FORMATS = (_Parquet, _Ipc, _Csv, _Xlsx)
ENDINGS = {ending: file_format for file_format in FORMATS for ending in file_format.endings}


def format_of(path: str | os.PathLike[str]) -> type[TableFile]:
    """Return the format of a file by the ending of its name, `TableFile` if it is unknown."""
    name = os.path.basename(path).lower()
    matches = (file_format for ending, file_format in ENDINGS.items() if name.endswith(ending))
    return next(matches, TableFile)


def without_ending(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without the ending of its format.

    >>> without_ending("data/trial.2024.CSV.gz"), without_ending("parts.2024")
    ('trial.2024', 'parts.2024')
    """
    name = os.path.basename(path)
    ending = max((end for end in ENDINGS if name.lower().endswith(end)), key=len, default="")
    return name[: len(name) - len(ending)]


def known_format(path: str | os.PathLike[str]) -> type[TableFile]:
    """Return the format of a file. Raise a ValueError if its ending is unknown."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if (file_format := format_of(path)) is TableFile:
        raise ValueError(f"{path} has an unknown ending; valid ones are {', '.join(ENDINGS)}.")
    return file_format


def open_table(
    path: str | os.PathLike[str],
    expected: Collection[str] = (),
    options: TextOptions | None = None,
    sheet: str | None = None,
    partition: Mapping[str, Any] | None = None,
) -> TableFile:
    """Open a file whose columns have names.

    `expected` are columns that the file should have. They help to infer the separator of text, and
    a workbook of several sheets must have them. `sheet` is that of a workbook, None for the first.
    `partition` are columns of one value, taken from the names of folders: see `partitions`.
    """
    path = os.fspath(path)
    table_file = known_format(path)
    import_optional("pyarrow", "files", "a file")
    with readable(path):
        if file_size(path) == 0:
            raise TableError(EMPTY.format(path))
        return table_file(path, expected, options or TextOptions(), sheet, partition)


def file_size(path: str) -> int:
    """Return the size of a file in bytes."""
    if not is_remote(path):
        return os.path.getsize(path)
    system, path_there = file_system(path)
    return int(system.get_file_info(path_there).size or 0)


def partitions(paths: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return the columns that folders such as ``year=2020`` give to each file, as Arrow scalars.

    `paths` are the files, each with its path below the folder that was named. Types are those that
    `pyarrow.dataset` infers: int32 if all values of a column are such numbers, text otherwise.
    """
    texts: dict[str, dict[str, str]] = {}  # of each file, by column
    for path, below in paths:
        parts = (part.partition("=") for part in Path(below).parent.parts)
        texts[path] = {unquote(name): unquote(text) for name, equals, text in parts if equals}
    names = list(dict.fromkeys(name for by_column in texts.values() for name in by_column))
    columns = {}
    for name in names:
        values = [by_column.get(name, NO_VALUE) for by_column in texts.values()]
        column = pa.array([None if text == NO_VALUE else text for text in values], pa.string())
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int32())
        columns[name] = column
    return {
        path: {name: column[i] for name, column in columns.items()} for i, path in enumerate(texts)
    }


def first_row(path: str | os.PathLike[str]) -> int:
    """Return the number of the first row of a file: see `TableFile`.

    Messages, reports and the studio number rows from there on, by `TableFile.numbers`. Rows
    without a label count, and so do empty rows, which are not read.
    """
    return format_of(path).first_row


def numbering(path: str | os.PathLike[str]) -> str:
    """Return a sentence that says how the rows of a file are numbered."""
    if first_row(path) == 2:
        return "Rows are numbered as in a spreadsheet: the column names are row 1."
    return "Rows are counted from 1."


def rows_at_once(n_columns: int) -> int:
    """Return the number of rows of a batch of `n_columns` columns: about 16 MiB of numbers.

    Examples
    --------
    >>> from fuzzytwin.tables._formats import rows_at_once
    >>> [rows_at_once(n_columns) for n_columns in (10, 256, 4096, 10**6)]
    [65536, 8192, 512, 256]
    """
    by_bytes = max(BATCH_BYTES // (8 * max(n_columns, 1)), MIN_BATCH_ROWS)
    return min(by_bytes, BATCH_ROWS)


def repeated(names: Sequence[str]) -> set[str]:
    """Return the names that occur several times."""
    return {name for name, count in Counter(names).items() if count > 1}


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Add the file's name and a remedy to errors of the reading library."""
    # Names and texts of a damaged file are perhaps not UTF-8.
    expected = (OSError, EOFError, UnicodeDecodeError, pa.ArrowException)
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"file not found: {path}.") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a directory; name a file in it.") from None
    except MemoryError as error:  # Arrow's too
        raise too_little_memory(path, error) from error
    except expected as error:
        text = str(error).strip().partition("\n")[0].rstrip(". ").removeprefix("CSV parse error: ")
        if "straddling" in text:
            text = "a row is longer than a block of text"
        raise ValueError(
            f"{path} cannot be read: {text[:200]}. Write the file again, fix the line, or leave "
            "the file out."
        ) from error


def too_little_memory(path: str, error: MemoryError) -> NotEnoughMemoryError:
    """Return the error that memory ran out while a file was read."""
    text = str(error).strip().partition("\n")[0].rstrip(". ")
    reason = f" ({text[:200]})" if text else ""  # Python's own errors say nothing
    finding = Finding("too_little_memory", values={"source": path, "reason": reason})
    short = NotEnoughMemoryError(f"{describe(finding)}.")
    short.finding = finding  # type: ignore[attr-defined]
    return short
