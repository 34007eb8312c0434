"""The kinds of files that are read, a batch of rows at a time and from any row on."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin.sources.cells import arrow
from fuzzytwin.sources.dialect import GUARDED, Dialect, find_dialect

# Text is read in blocks of about this many bytes.
TEXT_BYTES = 1 << 23
KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc",
    ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv",
    ".xlsx": "xlsx",
    ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".txt": "libsvm",
    ".npy": "npy",
}  # fmt: skip
# Rows of a file: the number of the first one, and an Arrow table or record batch.
Frames = Iterator[tuple[int, Any]]


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return the kind of file by its name; "" for an unknown one."""
    name = os.path.basename(path).lower()
    return next((kind for ending, kind in KINDS.items() if name.endswith(ending)), "")


def known_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of file by its name; an unknown one is an error that lists the kinds."""
    kind = kind_of(path)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if not kind:
        raise ValueError(f"{path} has an unknown ending; known ones are {', '.join(KINDS)}.")
    return kind


class TableFile:
    """A file of rows whose columns have names.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns; all of them text if the file does not specify them.
    rows : int or None
        How many rows it has, where that is known without reading.
    separator : str
        What parts its cells, where it is text.
    """

    schema: Any
    rows: int | None = None
    separator = ","

    def __init__(self, path: str) -> None:
        self.path = path

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        """Read some columns; not all rows before `first` are left out."""
        raise NotImplementedError


def open_table(
    path: str | os.PathLike[str], expected: Collection[str] = (), separator: str = ","
) -> TableFile:
    """Open a file of any kind but LIBSVM text; `expected` and `separator` as in `find_dialect`."""
    path = os.fspath(path)
    kind = known_kind(path)
    with readable(path):
        if kind == "csv":
            return _Csv(path, expected, separator)
        if os.path.getsize(path) == 0:
            raise ValueError(f"{path} is empty; give a table with column names and rows.")
        return {"parquet": _Parquet, "ipc": _Ipc, "npy": _Npy, "xlsx": _Xlsx}[kind](path)


class _Parquet(TableFile):
    """Row groups, some at a time; never a whole file."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        super().__init__(path)
        metadata = pq.read_metadata(path)
        self.schema, self.rows = metadata.schema.to_arrow_schema(), int(metadata.num_rows)

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, buffer_size=1 << 20) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            at, group = 0, 0
            while group < len(sizes):
                # Small row groups go together, so that a batch is worth its while.
                end, held = group + 1, sizes[group]
                while end < len(sizes) and held + sizes[end] <= rows:
                    held += sizes[end]
                    end += 1
                if at + held > first:
                    start = at
                    groups = list(range(group, end))
                    for batch in file.iter_batches(rows, row_groups=groups, columns=list(columns)):
                        yield start, batch
                        start += batch.num_rows
                at, group = at + held, end


class _Ipc(TableFile):
    """Record batches of Arrow and Feather files."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with arrow().OSFile(path) as file:
            self.schema = self._open(file)[0].schema

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        with arrow().OSFile(self.path) as file:
            reader, random = self._open(file)
            numbers = range(reader.num_record_batches) if random else itertools.count()
            at = 0
            for number in numbers:
                try:
                    batch = reader.get_batch(number) if random else reader.read_next_batch()
                except StopIteration:
                    return
                if batch.num_rows:
                    yield at, batch.select(list(columns))
                at += batch.num_rows

    @staticmethod
    def _open(file: Any) -> tuple[Any, bool]:
        pa = arrow()
        try:
            return pa.ipc.open_file(file), True
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file), False


class _Csv(TableFile):
    """Lines of text, a block of bytes at a time; every column is text."""

    def __init__(self, path: str, expected: Collection[str], separator: str) -> None:
        super().__init__(path)
        tabs = ".tsv" in os.path.basename(path).lower()
        self.dialect: Dialect = find_dialect(path, expected, "\t" if tabs else separator)
        self.separator = self.dialect.separator
        self.schema = _text_schema(self.dialect.names)

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        from pyarrow import csv

        pa, dialect = arrow(), self.dialect
        # Columns go by their number: names may stand twice.
        numbers = [str(n) for n in range(len(dialect.names) + dialect.trailing)]
        place = {name: str(n) for n, name in enumerate(dialect.names)}
        wanted = [place[name] for name in columns]
        last = numbers[-1]
        include = list(dict.fromkeys([*wanted, last]))
        at, end = 0, None
        with (
            closing(self._stream()) as stream,
            csv.open_csv(
                stream,
                # One thread, or a bad line would have no number.
                csv.ReadOptions(
                    use_threads=False,
                    block_size=max(TEXT_BYTES, 4 * dialect.longest),
                    column_names=numbers,
                    skip_rows=dialect.skip,
                ),
                csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
                csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(numbers, pa.string()),
                    null_values=[""],  # other marks later: here they cost time
                    strings_can_be_null=True,
                    include_columns=include,
                ),
            ) as reader,
        ):
            for batch in reader:
                if batch.num_rows:
                    read = dict(zip(include, batch.columns, strict=True))
                    end = read[last][-1]
                    cells = [_clean(read[number]) for number in wanted]
                    yield at, pa.record_batch(cells, names=list(columns))
                at += batch.num_rows
        if end is not None:
            self._refuse_open_quote(end.cast(pa.binary()).as_py() or b"")

    def _stream(self) -> Any:
        """Bytes of the file as UTF-8, without spaces before quotes."""
        pa, dialect = arrow(), self.dialect
        packed = "gzip" if self.path.lower().endswith(".gz") else None
        stream = pa.input_stream(self.path, compression=packed)
        if dialect.encoding == "utf-16":
            stream = pa.transcoding_input_stream(stream, "utf-16", "utf-8")
        return _Unspaced(stream, dialect.separator) if dialect.spaced else stream

    def _refuse_open_quote(self, end: bytes) -> None:
        """Refuse a quote that is never closed: it makes the last cell span several lines."""
        if not re.search(rb"[\r\n]", end):
            return
        tail = b""
        with closing(self._stream()) as stream:
            while block := stream.read(TEXT_BYTES):
                tail = (tail + block)[-64:]
        if not tail.rstrip(b" \r\n").endswith(b'"'):
            raise ValueError(f'{self.path} has a quote (") that is not closed; close it.')


class _Unspaced:
    """Bytes of a text file without the spaces that stand before quotes."""

    closed = False

    def __init__(self, stream: Any, separator: str) -> None:
        mark = re.escape(separator.encode())
        self.stream, self.rest = stream, b""
        # Two quotes are an empty cell, or one quote inside of a cell.
        self.spaces = re.compile(rb'(?<=[%b\r\n]) +(?="(?:[^"]|"[%b\r\n]))' % (mark, mark))

    def read(self, size: int = -1) -> bytes:
        """Whole lines, about as many bytes as asked for."""
        while True:
            block = self.stream.read(max(size - len(self.rest), 1) if size >= 0 else -1)
            lines = self.rest + block
            cut = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1 if block else len(lines)
            if cut or not block:
                self.rest = lines[cut:]
                return self.spaces.sub(b"", lines[:cut])
            self.rest = lines

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self.stream.close()


def _clean(cells: Any) -> Any:
    """Text without the guard of our own files; cells that are not UTF-8 are Windows-1252."""
    pa = arrow()
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        cells = pa.array([_decode(cell) for cell in cells.cast(pa.binary()).to_pylist()])
    if pa.compute.any(pa.compute.starts_with(cells, "'")).as_py():
        cells = pa.compute.replace_substring_regex(cells, GUARDED, r"\1")
    return cells


def _decode(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell.decode("cp1252", "replace") if cell else None


class _Xlsx(TableFile):
    """The first sheet of a workbook, its cells as CSV files have them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        header = next(self._rows(), None)
        if header is None:
            raise ValueError(f"{path} is empty; give a table with column names and rows.")
        while header and header[-1] is None:
            header.pop()
        self.schema = _text_schema([
            (name or "").strip() or f"column {number}" for number, name in enumerate(header, 1)
        ])  # fmt: skip

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        pa = arrow()
        wanted = [self.schema.names.index(name) for name in columns]
        source = itertools.islice(self._rows(), 1, None)
        at = 0
        while held := list(itertools.islice(source, rows)):
            cells = [pa.array([r[j] if j < len(r) else None for r in held], pa.string())
                     for j in wanted]  # fmt: skip
            yield at, pa.record_batch(cells, names=list(columns))
            at += len(held)

    def _rows(self) -> Iterator[list[str | None]]:
        """Rows with anything in them."""
        openpyxl = need("openpyxl", "files", "an .xlsx file")
        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
        except Exception as error:  # of many kinds: a zip file of anything may be called so
            raise ValueError(f"{self.path} cannot be read: {error}; save it again.") from error
        try:
            for row in book.worksheets[0].iter_rows(values_only=True):
                cells = [None if value is None else _as_cell(value) for value in row]
                if any(cells):
                    yield cells
        finally:
            book.close()


def _as_cell(value: Any) -> str:
    """Convert a value of a workbook to text."""
    if hasattr(value, "isoformat"):
        return str(value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else
                   value.isoformat()).removesuffix(" 00:00:00")  # fmt: skip
    return str(value)


class _Npy(TableFile):
    """A structured array: its fields are columns. Each batch is mapped again, so none stays."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        pa = arrow()
        array = self._array()
        dtype, self.rows = array.dtype, len(array)
        if dtype.names is None:
            raise ValueError(
                f"{path} has no columns with names; give a tuple (X.npy, y.npy), or an array with "
                "a structured dtype."
            )
        types = {name: dtype[name] for name in dtype.names}
        self.schema = pa.schema({
            name: pa.string() if one.kind == "U" else pa.from_numpy_dtype(one)
            for name, one in types.items()
        })  # fmt: skip

    def _array(self) -> Any:
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def frames(self, columns: Sequence[str], rows: int, first: int = 0) -> Frames:
        pa = arrow()
        for start in range(first, self.rows or 0, rows):
            part = self._array()[start : start + rows]
            arrays = [pa.array(np.ascontiguousarray(part[name])) for name in columns]
            yield start, pa.record_batch(arrays, names=list(columns))


def _text_schema(names: Sequence[str]) -> Any:
    pa = arrow()
    return pa.schema([(name, pa.string()) for name in names])


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Give errors of the reading library the file's name and a remedy."""
    expected: tuple[type[Exception], ...] = (OSError, EOFError)
    if kind_of(path) not in ("npy", "libsvm"):
        expected += (arrow().ArrowException,)
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
