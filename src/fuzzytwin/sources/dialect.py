"""How a text file is written: its encoding, separator and column names, found by its beginning."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO

SEPARATORS = ",;\t|"
ROW_NAMES = "row names"  # the name of R's first column, which has none in the file
GUARDED = r"^'('*[=+\-@\t\r])"  # a formula, as our own files have it
_HEAD = 1 << 20  # bytes to look at first
_RECORDS = 200  # to look at
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Parameters
    ----------
    names : tuple of str
        Names of the columns: "column 3" for one that has none, `ROW_NAMES` for R's first one.
    separator : str
        What parts the cells.
    encoding : str
        "utf-8" or "utf-16". Cells of a UTF-8 file that are not valid are read as Windows-1252.
    skip : int
        Number of lines up to the first row.
    spaced : bool
        Whether quotes stand behind spaces, as in ``1, "x, y"``.
    trailing : bool
        Whether every row, but not the header, ends with a separator.
    longest : int
        Bytes of the longest record that was looked at.
    """

    names: tuple[str, ...]
    separator: str = ","
    encoding: str = "utf-8"
    skip: int = 1
    spaced: bool = False
    trailing: bool = False
    longest: int = 0


def open_bytes(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file's bytes, unpacked where its name ends in .gz."""
    packed = os.fspath(path).lower().endswith(".gz")
    return gzip.open(path, "rb") if packed else open(path, "rb")  # type: ignore[return-value]


def find_dialect(
    path: str | os.PathLike[str], expected: Collection[str] = (), otherwise: str = ","
) -> Dialect:
    """Look at the beginning of a text file.

    Parameters
    ----------
    path : path
        The file.
    expected : collection of str, default=()
        Names of columns: the separator by which most of them are found is taken.
    otherwise : str, default=","
        Separator if the file does not show it.

    Returns
    -------
    Dialect
    """
    with open_bytes(path) as file:
        start, size = file.read(_HEAD), _HEAD
        while True:
            ended = len(start) < size
            head, encoding = _decode(start, ended, path)
            if ended or len(head.splitlines()) > 20 or size >= _HEAD << 9:
                break
            start, size = start + file.read(7 * size), 8 * size
    if not head.strip():
        raise ValueError(f"{path} is empty; give a table with column names and rows.")
    excel = re.match(r"\"?sep=(.)\"?[ \t]*(\r\n|\r|\n)", head, re.I)
    marks = SEPARATORS
    if excel:
        marks, head = excel[1], head[excel.end() :]
    records = {mark: _records(head, mark, ended) for mark in marks}
    if all(len(header) == 1 for header, _, _ in records.values()):
        spaces = _records(head, " ", ended)  # as R's write.table
        if len(spaces[0]) > 1 and _share(*spaces[:2]) >= 0.9:
            marks, records = " ", {" ": spaces}

    def fitness(mark: str) -> tuple[int | float | bool, ...]:
        header, rows, _ = records[mark]
        share = _share(header, rows)
        known = len(set(expected) & {name.strip() for name in header})
        return known, len(header) > 1, share >= 0.9, len(header), share, mark == otherwise

    mark = max(marks, key=fitness)
    header, rows, skip = records[mark]
    names = [_plain(name) for name in header]
    if all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name) for name in names):
        raise ValueError(
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
        max((len(line) for line in head.splitlines()), default=0),
    )


def _decode(start: bytes, ended: bool, path: object) -> tuple[str, str]:
    """Text of the beginning of a file, and its encoding."""
    encoding = next((name for bom, name in _BOMS.items() if start.startswith(bom)), "utf-8")
    if encoding == "utf-16":
        return codecs.getincrementaldecoder(encoding)("replace").decode(start, ended), encoding
    if b"\0" in start:
        raise ValueError(
            f"{path} is not a text file; give a CSV file, or use the file extension of its format."
        )
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start, ended), "utf-8"
    except UnicodeDecodeError:
        return start.decode("cp1252", "replace"), "utf-8"


def _records(head: str, mark: str, ended: bool) -> tuple[list[str], Sequence[list[str]], int]:
    """Header, some rows, and how many lines the header takes."""
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
    return header, rows if ended or len(rows) == _RECORDS else rows[:-1], skip


def _share(header: list[str], rows: Sequence[list[str]]) -> float:
    """Count the rows that are as wide as the header, or all one wider."""
    widths = Counter(map(len, rows))
    return max(widths[len(header)], widths[len(header) + 1]) / max(len(rows), 1)


def _plain(name: str) -> str:
    """Strip spaces and the guard of our own files from a name."""
    return re.sub(GUARDED, r"\1", name.strip())
