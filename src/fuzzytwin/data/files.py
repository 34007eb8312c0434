"""The formats of files: each gives its rows as Arrow tables, some at a time.

A format is a subclass of `TableFile` in `FORMATS`; nothing else lists them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin.data.cells import decimal_mark, is_text, pa
from fuzzytwin.data.dialect import EMPTY, empty_records, find_dialect, text_batches
from fuzzytwin.data.schema import TableError

MIDNIGHT = " 00:00:00"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a missing value among names of folders
BATCH_ROWS = 65_536  # read at once, unless a user says otherwise


class TableFile:
    """A file of rows whose columns have names."""

    kind = ""
    endings: tuple[str, ...] = ()
    growth = 3  # about how many times its bytes it takes in memory
    typed = True  # whether the file says what its columns hold; if not, all of them are text
    named = True  # whether its columns have names
    by_arrow = True  # whether errors of reading it may be Arrow's
    first_row = 1  # number of the first row; 2 where a spreadsheet shows the header as row 1
    schema: Any  # names and types of the columns, by Arrow
    texts: list[str]  # columns of text whose names stand once
    rows: int | None = None  # where that is known without reading
    separator = ","  # of text

    def __init__(
        self, path: str, expected: Collection[str], separator: str, sheet: str | None,
        partition: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        found = self._look(expected, separator, sheet)
        self.schema = found if self.typed else pa.schema([(name, pa.string()) for name in found])
        self.partition = {  # Arrow scalars, unless the file itself has such a column
            name: value for name, value in (partition or {}).items() if name not in found
        }
        for name, value in self.partition.items():
            self.schema = self.schema.append(pa.field(name, value.type))
        twice = repeated(self.schema.names)
        self.texts = [f.name for f in self.schema if f.name not in twice and is_text(f.type)]

    def _look(self, expected: Collection[str], separator: str, sheet: str | None) -> Any:
        """Return the columns: an Arrow schema or, of text, their names."""
        raise NotImplementedError

    def frames(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Read some columns as tables of at most `rows` rows; small ones are put together."""
        held: list[Any] = []
        with readable(self.path):
            for frame in self._partitioned(list(columns), rows):
                for start in range(0, frame.num_rows, rows):
                    part = frame.slice(start, rows)
                    if sum(map(len, held)) + len(part) > rows:
                        yield pa.Table.from_batches(held)
                        held = []
                    held.append(part)
        if held:
            yield pa.Table.from_batches(held)

    @property
    def blank(self) -> Any:
        """Return the places of empty rows behind the header, counted with them: none is read."""
        return ()

    def numbers(self, index: Any) -> Any:
        """Return the numbers of rows by their places among those that are read: see `first_row`."""
        blank = np.asarray(self.blank, dtype=np.intp)
        skipped = np.searchsorted(blank - np.arange(len(blank)), index, side="right")
        return index + skipped + self.first_row

    def head(self, columns: Sequence[str]) -> Any:
        """Read the first rows of some columns: 65,536 of them, or 8 MiB of text."""
        with readable(self.path), closing(self._partitioned(list(columns), BATCH_ROWS)) as frames:
            for frame in frames:
                return pa.table(frame)
        return pa.schema([self.schema.field(name) for name in columns]).empty_table()

    def _partitioned(self, columns: list[str], rows: int) -> Generator[Any, None, None]:
        """Read some columns, those that the folders of the file say among them."""
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

    def _frames(self, columns: list[str], rows: int) -> Any:
        raise NotImplementedError


class _Parquet(TableFile):
    """Parquet files, read by `pyarrow.dataset`, as Arrow ones are."""

    kind, growth = "parquet", 6
    endings: tuple[str, ...] = (".parquet", ".pq")

    def _look(self, *hints: Any) -> Any:
        from pyarrow import dataset, fs

        self.fragment = self._format(dataset).make_fragment(self.path, fs.LocalFileSystem())
        if hasattr(self.fragment, "metadata"):  # Arrow files have none
            self.rows = int(self.fragment.metadata.num_rows)
        return self.fragment.physical_schema

    def _format(self, dataset: Any) -> Any:
        # A buffer of each column: neither the file nor a group of its rows is in memory as a whole.
        lean = dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False
        )
        return dataset.ParquetFileFormat(default_fragment_scan_options=lean)

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from self.fragment.to_batches(
            columns=columns, batch_size=min(rows, 1 << 30), batch_readahead=1,
            fragment_readahead=1, use_threads=False,
        )  # fmt: skip


class _Ipc(_Parquet):
    """Arrow and Feather files, and streams of Arrow."""

    kind, endings, growth = "ipc", (".arrow", ".feather", ".ipc"), 2

    def _look(self, *hints: Any) -> Any:
        try:
            return super()._look()
        except pa.ArrowInvalid:
            self.fragment = None
            with pa.OSFile(self.path) as file:
                return pa.ipc.open_stream(file).schema

    def _format(self, dataset: Any) -> Any:
        return dataset.IpcFileFormat()

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        if self.fragment is not None:
            yield from super()._frames(columns, rows)
            return
        with pa.OSFile(self.path) as file:
            for batch in pa.ipc.open_stream(file):
                yield batch.select(columns)


class _Csv(TableFile):
    """Lines of text, a block of bytes at a time; every column is text."""

    kind, endings = "csv", (".csv", ".csv.gz", ".tsv", ".tsv.gz")
    typed, first_row = False, 2

    def _look(self, expected: Collection[str], separator: str, sheet: str | None) -> Any:
        tabs = ".tsv" in os.path.basename(self.path).lower()
        self.dialect = find_dialect(self.path, expected, "\t" if tabs else separator)
        self.separator = self.dialect.separator
        return self.dialect.names

    @cached_property
    def blank(self) -> Any:
        return empty_records(self.path, self.dialect)

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from text_batches(self.path, self.dialect, columns)


class _Xlsx(TableFile):
    """A sheet of a workbook, its cells as CSV files have them."""

    kind, endings, growth = "xlsx", (".xlsx",), 20
    typed, first_row = False, 2

    def _look(self, expected: Collection[str], separator: str, sheet: str | None) -> Any:
        with self._open() as book:
            sheets = [one.title for one in book.worksheets]
        others = f" The workbook has the sheets {', '.join(map(repr, sheets))}; name one: "
        others = f"{others}sheet={sheets[-1]!r} (--sheet on the command line)."
        if sheet is not None and sheet not in sheets:
            raise ValueError(f"{self.path} has no sheet {sheet!r}.{others}")
        self.sheet = sheet or sheets[0]
        header = next(self._rows(), [])
        while header and header[-1] is None:
            header.pop()
        names = [str(name or "").strip() or f"column {n}" for n, name in enumerate(header, 1)]
        lost = [name for name in expected if name not in names]
        if len(sheets) > 1 and (lost or not names):
            what = f"has no column {lost[0]!r}" if lost else "is empty"
            raise ValueError(f"sheet {self.sheet!r} of {self.path} {what}.{others}")
        if not names:
            raise ValueError(EMPTY.format(self.path))
        return names

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        wanted = [self.schema.names.index(name) for name in columns]
        source = itertools.islice(self._rows(), 1, None)
        while held := list(itertools.islice(source, min(rows, BATCH_ROWS))):
            cells = [_as_cells([r[j] if j < len(r) else None for r in held]) for j in wanted]
            yield pa.record_batch(cells, names=columns)

    def _rows(self) -> Iterator[list[Any]]:
        """Rows with anything in them; others are noted."""
        blank = []
        with self._open() as book:
            for place, row in enumerate(book[self.sheet].iter_rows(values_only=True), start=-1):
                if any(value not in (None, "") for value in row):
                    yield list(row)
                else:
                    blank.append(place)
        self.blank = blank

    @cached_property
    def blank(self) -> Any:
        for _ in self._rows():
            pass
        return self.blank

    def _open(self) -> Any:
        openpyxl = need("openpyxl", "files", "an .xlsx file")
        try:
            return closing(openpyxl.load_workbook(self.path, read_only=True, data_only=True))
        except Exception as error:  # of many kinds: a zip file of anything may be called so
            raise ValueError(f"{self.path} cannot be read: {error}; save it again.") from error


def _as_cells(values: list[Any]) -> Any:
    """Convert values of a workbook to text; of dates none of which has a time, the dates alone."""
    words = [None if value is None else str(value) for value in values]
    dates = [i for i, value in enumerate(values) if hasattr(value, "isoformat")]
    if all(str(words[i]).endswith(MIDNIGHT) for i in dates):
        for i in dates:
            words[i] = str(words[i]).removesuffix(MIDNIGHT)
    return pa.array(words, pa.string())


class _Npy(TableFile):
    """A structured array: its fields are columns. Each batch is mapped again, so none stays."""

    kind, endings, by_arrow = "npy", (".npy",), False

    def _look(self, *hints: Any) -> Any:
        array = self._array()
        dtype, self.rows = array.dtype, len(array)
        if dtype.names is None:
            raise ValueError(
                f"{self.path} has no columns with names; give a tuple (X.npy, y.npy), or an array "
                "with a structured dtype."
            )
        return pa.schema([
            (name, pa.string() if dtype[name].kind == "U" else pa.from_numpy_dtype(dtype[name]))
            for name in dtype.names
        ])  # fmt: skip

    def _array(self) -> Any:
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        for start in range(0, self.rows or 0, rows):
            part = self._array()[start : start + rows]
            arrays = [pa.array(np.ascontiguousarray(part[name])) for name in columns]
            yield pa.record_batch(arrays, names=columns)


class _Libsvm(TableFile):
    """Sparse rows without names: `fuzzytwin.data.sources` reads them."""

    kind, endings = "libsvm", (".svm", ".libsvm", ".svmlight", ".txt")
    named = by_arrow = False

    def _look(self, *hints: Any) -> Any:
        raise TableError(
            f"{self.path} is LIBSVM text, which has no names; give a table with columns."
        )


FORMATS = (_Parquet, _Ipc, _Csv, _Xlsx, _Libsvm, _Npy)
ENDINGS = {ending: one for one in FORMATS for ending in one.endings}


def format_of(path: str | os.PathLike[str]) -> type[TableFile]:
    """Return the format of a file by the ending of its name; `TableFile` for an unknown one."""
    name = os.path.basename(path).lower()
    return next((one for ending, one in ENDINGS.items() if name.endswith(ending)), TableFile)


def known_format(path: str | os.PathLike[str]) -> type[TableFile]:
    """Return the format of a file; an unknown one is an error that lists the endings."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if (found := format_of(path)) is TableFile:
        raise ValueError(f"{path} has an unknown ending; known ones are {', '.join(ENDINGS)}.")
    return found


def open_table(
    path: str | os.PathLike[str],
    expected: Collection[str] = (),
    separator: str = ",",
    sheet: str | None = None,
    partition: Mapping[str, Any] | None = None,
) -> TableFile:
    """Open a file whose columns have names; `sheet` is that of a workbook, None for the first.

    `expected` are columns that are needed: by them the separator of text is found, and without
    them a workbook of several sheets is refused. `separator` is for text that does not show it.
    `partition` are columns of one value, which the folders of the file say: see `partitions`.
    """
    path, table_file = os.fspath(path), known_format(path)
    with readable(path):
        if os.path.getsize(path) == 0:
            raise ValueError(EMPTY.format(path))
        return table_file(path, expected, separator, sheet, partition)


def index_columns(schema: Any) -> set[str]:
    """Return the columns that hold the index of a pandas frame.

    The frame's own description in the metadata of an Arrow schema names them. A file that lost its
    description may still have the names that pandas gives to an index without a name.
    """
    try:
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError):
        described = []
    stored = {name for name in described if isinstance(name, str)}  # others are ranges, not stored
    unnamed = {name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)}
    return (stored | unnamed) & set(schema.names)


def partitions(paths: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return what folders such as ``year=2020`` say of each file: Arrow scalars by column.

    `paths` are the files, each with its path below the folder that was named. Types are those that
    `pyarrow.dataset` infers: int32 if all values of a column are such numbers, text otherwise.
    """
    said: dict[str, dict[str, str]] = {}
    for path, below in paths:
        parts = (part.partition("=") for part in Path(below).parent.parts)
        said[path] = {unquote(name): unquote(word) for name, equals, word in parts if equals}
    names = list(dict.fromkeys(name for words in said.values() for name in words))
    columns = {}
    for name in names:
        words = [words.get(name, NO_VALUE) for words in said.values()]
        column = pa.array([None if word == NO_VALUE else word for word in words], pa.string())
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int32())
        columns[name] = column
    return {
        path: {name: column[place] for name, column in columns.items()}
        for place, path in enumerate(said)
    }


def first_row(path: str | os.PathLike[str]) -> int:
    """Return the number of the first row of a file: see `TableFile`.

    Messages, reports and the studio number rows from there on, by `TableFile.numbers`: those
    without a label count, and so do empty ones, though they are not read.
    """
    return format_of(path).first_row


def numbering(path: str | os.PathLike[str]) -> str:
    """Say in a sentence how the rows of a file are numbered."""
    if first_row(path) == 2:
        return "Rows are numbered as a spreadsheet shows them: the names of the columns are row 1."
    return "Rows are counted from 1."


@dataclass(frozen=True)
class Table:
    """Rows of a file as they stand there."""

    path: str
    cells: Any  # an Arrow table; all columns are text if the file does not specify their types
    file: TableFile
    decimal: str
    separator: str
    more: bool = False  # whether the file has more rows


def read_table(
    path: str,
    expected: Collection[str] = (),
    rows: int | None = None,
    sheet: str | None = None,
    partition: Mapping[str, Any] | None = None,
) -> Table:
    """Read a whole file, or its first `rows`; the others are as for `open_table`."""
    file = open_table(path, expected, sheet=sheet, partition=partition)
    for name in repeated(file.schema.names):
        raise TableError(f"{path} has two columns named {name!r}; rename one of them.")
    frames: list[Any] = []
    for frame in file.frames(file.schema.names, BATCH_ROWS):
        frames.append(frame)
        if rows is not None and sum(map(len, frames)) > rows:
            break
    if not frames:
        raise TableError(f"{path} has column names but no rows; give some.")
    cells = pa.concat_tables(frames)
    more = rows is not None and len(cells) > rows
    mark = decimal_mark(cells.columns, file.separator)
    return Table(path, cells[:rows], file, mark, file.separator, more)


def file_size(path: str | os.PathLike[str]) -> int:
    """About how many bytes a file takes in memory."""
    growth = format_of(path).growth
    return os.path.getsize(path) * (growth * 4 if os.fspath(path).endswith(".gz") else growth)


def repeated(names: Sequence[str]) -> set[str]:
    """Return the names that several columns have."""
    return {name for name, count in Counter(names).items() if count > 1}


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Give errors of the reading library the file's name and a remedy."""
    expected: tuple[type[Exception], ...] = (OSError, EOFError)
    if format_of(path).by_arrow:
        expected += (pa.ArrowException,)
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; check the name.") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a directory; name a file in it.") from None
    except expected as error:
        text = str(error).strip().partition("\n")[0].rstrip(". ").removeprefix("CSV parse error: ")
        if "straddling" in text:
            text = "a row is longer than a block of text"
        raise ValueError(
            f"{path} cannot be read: {text[:200]}. Write the file again, fix the line, or leave "
            "the file out."
        ) from error
