"""Text files: infer the dialect from the first bytes, and read the cells."""

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
GUARDED = rf"^'('*[{SIGNS}\t\r\n])"  # a formula behind an apostrophe, as `_writer` writes it
# The same within a cell, where a spreadsheet of another country divides it.
GUARDED_WITHIN = rf"([;,\t\r\n])'('*[{SIGNS}])"
TEXT_BYTES = 1 << 21  # read at once; more takes more memory and more time
_HEAD = 1 << 20  # bytes from which the dialect is inferred, if they have enough lines
_RECORDS = 200  # records from which the dialect is inferred


@dataclass(frozen=True)
class TextOptions:
    """How text files are written. What is None is inferred from their first rows."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    default_sep: str = ","  # for a file that does not show it

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
    spaced: bool = False  # whether spaces come before quotes, as in 1, "x, y"
    trailing: bool = False  # whether every row, but not the header, ends with a separator
    excel: bool = False  # whether the first line names the separator, which Excel does not show
    bare: bool = False  # whether the file has nothing but a header
    longest: int = 0  # bytes of the longest record among those inspected


def is_remote(path: str) -> bool:
    """Return whether a path is the address of a file on another machine, such as s3://..."""
    return "://" in path and not os.path.exists(path)


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path, by Arrow, and the path there."""
    from pyarrow import fs

    if is_remote(path):
        system, path_there = fs.FileSystem.from_uri(path)
        return system, path_there
    return fs.LocalFileSystem(), path


def open_bytes(path: str | os.PathLike[str]) -> Any:
    """Open a file's bytes, decompressed if its name ends in .gz."""
    system, path_there = file_system(os.fspath(path))
    compression = "gzip" if path_there.lower().endswith(".gz") else None
    return system.open_input_stream(path_there, compression=compression)


def find_dialect(
    path: str | os.PathLike[str],
    expected: Collection[str] = (),
    default_sep: str = ",",
    sep: str | None = None,
    encoding: str | None = None,
) -> Dialect:
    """Infer how a text file is written from its first rows.

    The separator is the one that gives most of the `expected` columns, or `default_sep` if the file
    does not show it. `sep` and `encoding` are the user's choices, None to infer them.
    """
    with open_bytes(path) as file:
        size = _HEAD
        start = file.read(size)
        while True:
            ended = len(start) < size
            head, encoding = _decode(start, ended, path, encoding)
            if ended or head.count("\n") + head.count("\r") > 20 or size >= _HEAD << 9:
                break
            start += file.read(7 * size)
            size *= 8
    if not head.strip():
        raise TableError(EMPTY.format(path))
    excel = re.match(r"\"?sep=(.)\"?[ \t]*(\r\n|\r|\n)", head, re.I)
    candidates = SEPARATORS if sep is None else sep
    if excel:
        candidates = sep or excel[1]
        head = head[excel.end() :]
    records = {candidate: _records(head, candidate, ended) for candidate in candidates}
    if sep is None and all(len(header) == 1 for header, *_ in records.values()):
        by_spaces = _records(head, " ", ended)  # as R's write.table
        if len(by_spaces[0]) > 1 and by_spaces[-1] >= 0.9:
            records = {" ": by_spaces}

    def fitness(separator: str) -> tuple[int | float | bool, ...]:
        header, *_, share = records[separator]
        n_expected = len(set(expected) & {name.strip() for name in header})
        is_default = separator == default_sep
        return n_expected, len(header) > 1, share >= 0.9, len(header), share, is_default

    separator = max(records, key=fitness)
    header, rows, skip, _ = records[separator]
    names = _unguarded(pa.array([name.strip() for name in header], pa.string())).to_pylist()
    if all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name) for name in names):
        raise TableError(f"the first line of {path} holds numbers; write the column names there.")
    wider = [row for row in rows if len(row) == len(header) + 1]
    trailing = False
    if len(wider) > 0.9 * len(rows):
        trailing = not any(row[-1].strip() for row in wider)
        if not trailing:
            names = [ROW_NAMES, *names]
    return Dialect(
        tuple(name or f"column {number}" for number, name in enumerate(names, start=1)),
        separator,
        encoding,
        skip=skip + bool(excel),
        spaced=separator not in " \t" and bool(re.search(rf"{re.escape(separator)} +\"", head)),
        trailing=trailing,
        excel=bool(excel),
        bare=ended and not rows,
        longest=max(map(len, head.splitlines()), default=0),
    )


def _decode(start: bytes, ended: bool, path: object, encoding: str | None) -> tuple[str, str]:
    """Return the first bytes of a file as text, and the encoding."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        encoding = "utf-32"  # tested first, as its mark begins with that of UTF-16
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding is not None and codecs.lookup(encoding).name != "utf-8":
        return codecs.getincrementaldecoder(encoding)("replace").decode(start, ended), encoding
    if b"\0" in start:
        raise TableError(
            f"{path} is not a text file in a recognized encoding; name the encoding, such as "
            "utf-16-le, give a CSV file, or use the file extension of its format."
        )
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start, ended), "utf-8"
    except UnicodeDecodeError:
        return start.decode("cp1252", "replace"), "utf-8"


def _records(
    head: str, separator: str, ended: bool
) -> tuple[list[str], Sequence[list[str]], int, float]:
    """Split the first lines of a file by a separator.

    Returns the header, the first rows, the number of lines up to the first row, and the share of
    rows that are as wide as the header, or one cell wider.
    """
    before = csv.field_size_limit(max(csv.field_size_limit(), len(head)))
    try:
        lines = io.StringIO(head, newline="")
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        header: list[str] = []
        while len(header) < 2 and not "".join(header).strip():
            header = next(reader, [separator])  # blank lines, or nothing
        skip = reader.line_num
        rows = [row for row in islice(reader, _RECORDS) if row]
    finally:
        csv.field_size_limit(before)
    rows = rows if ended or len(rows) == _RECORDS else rows[:-1]
    widths = Counter(map(len, rows))
    share = max(widths[len(header)], widths[len(header) + 1]) / max(len(rows), 1)
    return header, rows, skip, share


def text_batches(path: str, dialect: Dialect, columns: list[str]) -> Iterator[Any]:
    """Read columns of a text file as record batches of text, a block of bytes at a time."""
    from pyarrow import csv

    if dialect.bare:
        return
    # Arrow gets the columns by their numbers, as names may occur twice.
    numbers = [str(n) for n in range(len(dialect.names) + dialect.trailing)]
    number_of = {name: str(n) for n, name in enumerate(dialect.names)}
    selected = [number_of[name] for name in columns]
    last = numbers[-1]
    include = list(dict.fromkeys([*selected, last]))
    last_cell = None
    with (
        closing(_stream(path, dialect)) as stream,
        csv.open_csv(
            stream,
            # With several threads, Arrow does not number a bad line.
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
                null_values=[""],  # other markers are replaced later: here they cost time
                strings_can_be_null=True,
                include_columns=include,
            ),
        ) as reader,
    ):
        for batch in reader:
            if batch.num_rows:
                read = dict(zip(include, batch.columns, strict=True))
                last_cell = read[last][-1]
                cells = [_clean(read[number]) for number in selected]
                yield pa.record_batch(cells, names=columns)
    if last_cell is not None and re.search(rb"[\r\n]", last_cell.cast(pa.binary()).as_py() or b""):
        # The last cell has several lines, perhaps because of a quote that is never closed.
        tail = b""
        with closing(_stream(path, dialect)) as stream:
            while block := stream.read(TEXT_BYTES):
                tail = (tail + block)[-64:]
        if not tail.rstrip(b" \r\n").endswith(b'"'):
            raise TableError(f'{path} has a quotation mark (") that is never closed; close it.')


def empty_records(path: str, dialect: Dialect) -> list[int]:
    """Return the positions of empty lines among the records after the header."""
    before = b"\n"
    has_empty = False
    with closing(_stream(path, dialect)) as stream:
        while not has_empty and (block := stream.read(TEXT_BYTES)):
            text = before + block
            has_empty = any(ends in text for ends in (b"\n\n", b"\n\r\n", b"\r\r"))
            before = block[-2:]
    if not has_empty:
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
    """Open a file's bytes as UTF-8, without the spaces before quotes."""
    stream = open_bytes(path)
    if dialect.encoding != "utf-8":
        stream = pa.transcoding_input_stream(stream, dialect.encoding, "utf-8")
    return _Unspaced(stream, dialect.separator) if dialect.spaced else stream


class _Unspaced:
    """Bytes of a text file without the spaces before quotes."""

    closed = False

    def __init__(self, stream: Any, separator: str) -> None:
        self.stream = stream
        self.unread = b""  # the beginning of the next line
        # Two quotes are an empty cell, or one quote inside a cell.
        escaped = re.escape(separator.encode())
        self.spaces = re.compile(rb'(?<=[%b\r\n]) +(?="(?:[^"]|"[%b\r\n]))' % (escaped, escaped))

    def read(self, size: int = -1) -> bytes:
        """Return complete lines, of about `size` bytes."""
        while True:
            block = self.stream.read(max(size - len(self.unread), 1) if size >= 0 else -1)
            lines = self.unread + block
            end = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1 if block else len(lines)
            if end or not block:
                self.unread = lines[end:]
                return self.spaces.sub(b"", lines[:end])
            self.unread = lines

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self.stream.close()


def _clean(cells: Any) -> Any:
    """Decode cells that are not UTF-8 as Windows-1252, and remove apostrophes of `_writer`."""
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        cells = pa.array([_decode_cell(cell) for cell in cells.cast(pa.binary()).to_pylist()])
    return _unguarded(cells)


def _unguarded(cells: Any) -> Any:
    """Remove the apostrophes of `_writer`."""
    if pc.any(pc.match_substring_regex(cells, r"(^|[;,\t\r\n])'")).as_py():
        cells = pc.replace_substring_regex(cells, GUARDED, r"\1")
        cells = pc.replace_substring_regex(cells, GUARDED_WITHIN, r"\1\2")
    return cells


def _decode_cell(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell.decode("cp1252", "replace") if cell else None
