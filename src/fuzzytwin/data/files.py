"""The formats of files: each gives its rows as Arrow tables, some at a time.

A format is a subclass of `TableFile` in `FORMATS`; nothing else lists them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from fuzzytwin._utils import memory
from fuzzytwin._utils.extras import need
from fuzzytwin.core.hashing import mixed
from fuzzytwin.core.solvers import MOST_MEMORY, NotEnoughMemoryError
from fuzzytwin.data.cells import decimal_mark, is_text, pa
from fuzzytwin.data.dialect import EMPTY, TEXT_BYTES, empty_records, find_dialect, text_batches
from fuzzytwin.data.schema import TableError

MIDNIGHT = " 00:00:00"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a missing value among names of folders
BATCH_ROWS = 65_536  # read at once at most, unless a user says otherwise
BATCH_BYTES = 1 << 24  # of numbers; tables of many columns are read in fewer rows at once
FEWEST_BATCH_ROWS = 256
COPIES = 7  # of a table's numbers that learning from it takes, as measured
ZIPPED_CELL = 4  # bytes of a cell of a workbook, about and rather too few
PARQUET_BUFFER = 1 << 16  # bytes of each column that are read at once


class TableFile:
    """A file of rows whose columns have names."""

    kind = ""
    endings: tuple[str, ...] = ()
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
        """Read the first rows of some columns: one batch of them, or 8 MiB of text."""
        rows = rows_at_once(len(columns))
        with readable(self.path), closing(self._partitioned(list(columns), rows)) as frames:
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

    def estimate_rows(self) -> int:
        """Return the number of rows, or about how many there are where that is not known."""
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

    def _look(self, *hints: Any) -> Any:
        with self._open() as file:
            self.rows = int(file.metadata.num_rows)
            return file.schema_arrow

    def _open(self) -> Any:
        from pyarrow import parquet

        # Neither the file nor a group of its rows is in memory as a whole, as `pyarrow.dataset`
        # would have it, but a small buffer of each column.
        return parquet.ParquetFile(self.path, buffer_size=PARQUET_BUFFER, pre_buffer=False)

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        with self._open() as file:
            batches = file.iter_batches(min(rows, 1 << 30), columns=columns, use_threads=False)
            for batch in batches:
                yield batch.select(columns)  # of "x", "x.1" is read as well


class _Ipc(TableFile):
    """Arrow and Feather files, read by `pyarrow.dataset`, and streams of Arrow."""

    kind, endings = "ipc", (".arrow", ".feather", ".ipc")

    def _look(self, *hints: Any) -> Any:
        from pyarrow import dataset, fs

        try:
            self.fragment = dataset.IpcFileFormat().make_fragment(self.path, fs.LocalFileSystem())
            return self.fragment.physical_schema
        except pa.ArrowInvalid:
            self.fragment = None
            with pa.OSFile(self.path) as file:
                return pa.ipc.open_stream(file).schema

    def _estimate_rows(self) -> int:
        if self.fragment is not None:
            return int(self.fragment.count_rows())
        return os.path.getsize(self.path) // (8 * len(self.schema.names))

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        if self.fragment is not None:
            yield from self.fragment.to_batches(
                columns=columns, batch_size=min(rows, 1 << 30), batch_readahead=1,
                fragment_readahead=1, use_threads=False,
            )  # fmt: skip
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

    def _estimate_rows(self) -> int:
        """Take a row to be as long as the first ones, and to be compressed as they are."""
        block = max(TEXT_BYTES, 4 * self.dialect.longest)  # of which `head` has the rows
        with open(self.path, "rb") as file:
            start = file.read(block)
        length = float(os.path.getsize(self.path))
        if self.path.lower().endswith(".gz"):
            unzip = zlib.decompressobj(wbits=31)
            text = unzip.decompress(start, block)
            stored = len(start) - len(unzip.unconsumed_tail) - len(unzip.unused_data)
            length *= len(text) / stored
        return round(self.head(self.schema.names[-1:]).num_rows * max(length / block, 1.0))

    def _frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from text_batches(self.path, self.dialect, columns)


class _Xlsx(TableFile):
    """A sheet of a workbook, its cells as CSV files have them."""

    kind, endings = "xlsx", (".xlsx",)
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

    def _estimate_rows(self) -> int:
        by_size = os.path.getsize(self.path) // (ZIPPED_CELL * len(self.schema.names))
        with self._open() as book:
            return min(int(book[self.sheet].max_row or by_size), by_size)

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
    places: Any = None  # of the rows in the file, where they are a sample

    def numbers(self, index: Any) -> Any:
        """Return the numbers of rows in the file: see `TableFile.numbers`."""
        return self.file.numbers(index if self.places is None else self.places[index])


def read_table(
    path: str,
    expected: Collection[str] = (),
    rows: int | None = None,
    sheet: str | None = None,
    partition: Mapping[str, Any] | None = None,
) -> Table:
    """Read a whole file, or its first `rows`; the others are as for `open_table`."""
    file, frames = _open_whole(path, expected, sheet, partition), []
    for frame in file.frames(file.schema.names, rows_at_once(len(file.schema.names))):
        frames.append(frame)
        if rows is not None and sum(map(len, frames)) > rows:
            break
    cells = _joined(path, frames)
    more = rows is not None and len(cells) > rows
    mark = decimal_mark(cells.columns, file.separator)
    return Table(path, cells[:rows], file, mark, file.separator, more)


def read_sample(
    path: str, rows: int, expected: Collection[str] = (), sheet: str | None = None
) -> Table:
    """Read about `rows` rows of a file, a random sample that is the same each time.

    A row is in it by its place in the file, and in every larger sample too.
    """
    file, frames, places, start = _open_whole(path, expected, sheet), [], [], 0
    least = 2.0**64 * min(rows / max(file.estimate_rows(), 1), 1.0)
    for frame in file.frames(file.schema.names, rows_at_once(len(file.schema.names))):
        sampled = np.flatnonzero(mixed(np.arange(1, len(frame) + 1) + start) < least)
        frames.append(frame.take(sampled))
        places.append(sampled + start)
        start += len(frame)
    cells = _joined(path, frames)
    mark = decimal_mark(cells.columns, file.separator)
    return Table(path, cells, file, mark, file.separator, places=np.concatenate(places))


def _open_whole(
    path: str,
    expected: Collection[str],
    sheet: str | None,
    partition: Mapping[str, Any] | None = None,
) -> TableFile:
    """Open a file of which all columns are read."""
    file = open_table(path, expected, sheet=sheet, partition=partition)
    for name in repeated(file.schema.names):
        raise TableError(f"{path} has two columns named {name!r}; rename one of them.")
    return file


def _joined(path: str, frames: list[Any]) -> Any:
    if not frames:
        raise TableError(f"{path} has column names but no rows; give some.")
    return pa.concat_tables(frames)


@dataclass(frozen=True)
class Need:
    """About how much memory it takes to learn from all rows of a file at once."""

    path: str
    rows: int  # about
    columns: int
    available: float  # bytes

    @property
    def bytes(self) -> int:
        """Return the bytes that are needed."""
        return self.rows * self.bytes_of_row

    @property
    def bytes_of_row(self) -> int:
        """Return the bytes that one row takes."""
        return COPIES * 8 * self.columns

    @property
    def too_much(self) -> bool:
        """Return whether more is needed than may be taken."""
        return self.bytes > MOST_MEMORY * self.available

    def __str__(self) -> str:
        return (
            f"{self.path} would take about {memory.as_text(self.bytes)} of memory (about "
            f"{self.rows:,} rows of {self.columns:,} columns), and "
            f"{memory.as_text(self.available)} are available"
        )


def memory_need(
    path: str | os.PathLike[str], expected: Collection[str] = (), sheet: str | None = None
) -> Need:
    """Ask how much memory a file needs before it is read; parameters as for `open_table`."""
    file = open_table(path, expected, sheet=sheet)
    columns = len(file.schema.names)
    return Need(file.path, file.estimate_rows(), columns, memory.available_memory())


def rows_at_once(n_columns: int) -> int:
    """Return how many rows to read at once of a table of so many columns: about 16 MiB of numbers.

    Examples
    --------
    >>> from fuzzytwin.data.files import rows_at_once
    >>> [rows_at_once(n_columns) for n_columns in (10, 256, 4096, 10**6)]
    [65536, 8192, 512, 256]
    """
    by_bytes = max(BATCH_BYTES // (8 * max(n_columns, 1)), FEWEST_BATCH_ROWS)
    return min(by_bytes, BATCH_ROWS)


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
    return NotEnoughMemoryError(
        f"there is too little memory to read {path} ({text[:200]}); read it in batches (--stream), "
        "or fewer columns of it."
    )
