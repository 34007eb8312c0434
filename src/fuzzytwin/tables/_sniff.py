"""Text files: how one is written, found by its beginning, and its cells."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fuzzytwin._params import not_allowed
from fuzzytwin.tables._findings import TableError
from fuzzytwin.tables._parse import pa, pc

EMPTY = "{} is empty; give a table with column names and rows."
SEPARATORS = ",;\t|"
ROW_NAMES = "row names"  # the name of R's first column, which has none in the file
SIGNS = r"=+\-@＝＋－＠"  # formulas begin with one of them
GUARDED = rf"^'('*[{SIGNS}\t\r\n])"  # a formula, as our own files have it
TEXT_BYTES = 1 << 21  # read at once; more takes more memory and more time
_HEAD = 1 << 20  # bytes to look at first
_RECORDS = 200  # to look at


@dataclass(frozen=True)
class TextOptions:
    """How text files are written; what is None is found by their first rows."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    default_sep: str = ","  # for a file that does not show it
    default_decimal: str = "."

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise not_allowed("sep", self.sep, "give one character, such as ';'")
        if self.decimal not in (None, ".", ","):
            raise not_allowed("decimal", self.decimal, "give '.' or ','")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                remedy = "give the name of an encoding, such as 'utf-8' or 'cp1252'"
                raise not_allowed("encoding", self.encoding, remedy) from None


@dataclass(frozen=True)
class Dialect:
    """How a text file is written."""

    names: tuple[str, ...]  # "column 3" for one that has none, `ROW_NAMES` for R's first one
    separator: str = ","
    encoding: str = "utf-8"  # or another; cells that are not valid are read as Windows-1252
    skip: int = 1  # lines up to the first row
    spaced: bool = False  # whether quotes stand behind spaces, as in 1, "x, y"
    trailing: bool = False  # whether every row, but not the header, ends with a separator
    excel: bool = False  # whether the first line names the separator, which Excel does not show
    bare: bool = False  # whether the header is all there is
    longest: int = 0  # bytes of the longest record that was looked at


def is_remote(path: str) -> bool:
    """Return whether a path is the address of a file on another machine, such as s3://..."""
    return "://" in path and not os.path.exists(path)


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path, by Arrow, and the path there."""
    from pyarrow import fs

    if is_remote(path):
        system, place = fs.FileSystem.from_uri(path)
        return system, place
    return fs.LocalFileSystem(), path


def open_bytes(path: str | os.PathLike[str]) -> Any:
    """Open a file's bytes, unpacked if its name ends in .gz."""
    system, place = file_system(os.fspath(path))
    packed = place.lower().endswith(".gz")
    return system.open_input_stream(place, compression="gzip" if packed else None)


def find_dialect(
    path: str | os.PathLike[str],
    expected: Collection[str] = (),
    otherwise: str = ",",
    sep: str | None = None,
    encoding: str | None = None,
) -> Dialect:
    """Look at the beginning of a text file.

    The separator is the one by which most of the `expected` columns are found; `otherwise` is for
    a file that does not show it. `sep` and `encoding` are as the user says, None to find them.
    """
    with open_bytes(path) as file:
        start, size = file.read(_HEAD), _HEAD
        while True:
            ended = len(start) < size
            head, encoding = _decode(start, ended, path, encoding)
            if ended or head.count("\n") + head.count("\r") > 20 or size >= _HEAD << 9:
                break
            start, size = start + file.read(7 * size), 8 * size
    if not head.strip():
        raise TableError(EMPTY.format(path))
    excel = re.match(r"\"?sep=(.)\"?[ \t]*(\r\n|\r|\n)", head, re.I)
    marks = SEPARATORS if sep is None else sep
    if excel:
        marks, head = sep or excel[1], head[excel.end() :]
    records = {mark: _records(head, mark, ended) for mark in marks}
    if sep is None and all(len(header) == 1 for header, *_ in records.values()):
        spaces = _records(head, " ", ended)  # as R's write.table
        if len(spaces[0]) > 1 and spaces[-1] >= 0.9:
            marks, records = " ", {" ": spaces}

    def fitness(mark: str) -> tuple[int | float | bool, ...]:
        header, *_, share = records[mark]
        known = len(set(expected) & {name.strip() for name in header})
        return known, len(header) > 1, share >= 0.9, len(header), share, mark == otherwise

    mark = max(marks, key=fitness)
    header, rows, skip, _ = records[mark]
    names = [re.sub(GUARDED, r"\1", name.strip()) for name in header]
    if all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name) for name in names):
        raise TableError(
            f"the first line of {path} holds numbers; put the names of the columns there."
        )
    wider = [row for row in rows if len(row) == len(header) + 1]
    trailing = False
    if len(wider) > 0.9 * len(rows):
        trailing = not any(row[-1].strip() for row in wider)
        if not trailing:
            names = [ROW_NAMES, *names]
    return Dialect(
        tuple(name or f"column {number}" for number, name in enumerate(names, start=1)),
        mark,
        encoding,
        skip + bool(excel),
        mark not in " \t" and re.search(rf"{re.escape(mark)} +\"", head) is not None,
        trailing,
        bool(excel),
        ended and not rows,
        max(map(len, head.splitlines()), default=0),
    )


def _decode(start: bytes, ended: bool, path: object, encoding: str | None) -> tuple[str, str]:
    """Text of the beginning of a file, and its encoding."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        encoding = "utf-32"  # before UTF-16, whose mark it begins with
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding is not None and codecs.lookup(encoding).name != "utf-8":
        return codecs.getincrementaldecoder(encoding)("replace").decode(start, ended), encoding
    if b"\0" in start:
        raise TableError(
            f"{path} is not a text file in a known encoding; name the encoding, such as utf-16-le, "
            "give a CSV file, or use the file extension of its format."
        )
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start, ended), "utf-8"
    except UnicodeDecodeError:
        return start.decode("cp1252", "replace"), "utf-8"


def _records(
    head: str, mark: str, ended: bool
) -> tuple[list[str], Sequence[list[str]], int, float]:
    """Header, some rows, lines of the header, share of rows as wide as it (or all one wider)."""
    before = csv.field_size_limit(max(csv.field_size_limit(), len(head)))
    try:
        reader = csv.reader(io.StringIO(head, newline=""), delimiter=mark, skipinitialspace=True)
        header: list[str] = []
        while len(header) < 2 and not "".join(header).strip():
            header = next(reader, [mark])  # blank lines, or nothing
        skip = reader.line_num
        rows = [row for row in islice(reader, _RECORDS) if row]
    finally:
        csv.field_size_limit(before)
    rows = rows if ended or len(rows) == _RECORDS else rows[:-1]
    widths = Counter(map(len, rows))
    share = max(widths[len(header)], widths[len(header) + 1]) / max(len(rows), 1)
    return header, rows, skip, share


def text_batches(path: str, dialect: Dialect, columns: list[str]) -> Iterator[Any]:
    """Read some columns of a text file as record batches of text, a block of bytes at a time."""
    from pyarrow import csv

    # Columns go by their number: names may stand twice.
    numbers = [str(n) for n in range(len(dialect.names) + dialect.trailing)]
    place = {name: str(n) for n, name in enumerate(dialect.names)}
    wanted = [place[name] for name in columns]
    last = numbers[-1]
    include = list(dict.fromkeys([*wanted, last]))
    end = None
    if dialect.bare:
        return
    with (
        closing(_stream(path, dialect)) as stream,
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
                yield pa.record_batch(cells, names=columns)
    if end is not None and re.search(rb"[\r\n]", end.cast(pa.binary()).as_py() or b""):
        # Several lines in the last cell: a quote may never be closed.
        tail = b""
        with closing(_stream(path, dialect)) as stream:
            while block := stream.read(TEXT_BYTES):
                tail = (tail + block)[-64:]
        if not tail.rstrip(b" \r\n").endswith(b'"'):
            raise TableError(f'{path} has a quote (") that is not closed; close it.')


def empty_records(path: str, dialect: Dialect) -> list[int]:
    """Return the places of empty lines among the records behind the header, counted with them."""
    before, found = b"\n", False
    with closing(_stream(path, dialect)) as stream:
        while not found and (block := stream.read(TEXT_BYTES)):
            text = before + block
            found = any(ends in text for ends in (b"\n\n", b"\n\r\n", b"\r\r"))
            before = block[-2:]
    if not found:
        return []
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    limit = csv.field_size_limit(1 << 30)
    try:
        with io.TextIOWrapper(open_bytes(path), encoding, "replace", newline="") as file:
            reader = csv.reader(file, delimiter=dialect.separator, skipinitialspace=True)
            records = enumerate(reader, start=-1 - dialect.excel)
            return [number for number, record in records if not record]
    finally:
        csv.field_size_limit(limit)


def _stream(path: str, dialect: Dialect) -> Any:
    """Open a file's bytes as UTF-8, without spaces before quotes."""
    stream = open_bytes(path)
    if dialect.encoding != "utf-8":
        stream = pa.transcoding_input_stream(stream, dialect.encoding, "utf-8")
    return _Unspaced(stream, dialect.separator) if dialect.spaced else stream


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
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        cells = pa.array([_decode_cell(cell) for cell in cells.cast(pa.binary()).to_pylist()])
    if pc.any(pc.starts_with(cells, "'")).as_py():
        cells = pc.replace_substring_regex(cells, GUARDED, r"\1")
    return cells


def _decode_cell(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell.decode("cp1252", "replace") if cell else None
