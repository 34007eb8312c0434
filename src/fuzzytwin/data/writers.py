"""Tables written as CSV, Parquet, Feather or Excel files, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
import re
from contextlib import ExitStack, closing
from typing import Any

from fuzzytwin._utils.extras import need
from fuzzytwin.data.cells import NUMBER, decoded, is_text, pa, pc
from fuzzytwin.data.files import ENDINGS as READ
from fuzzytwin.data.files import kind_of

ENDINGS = tuple(ending for ending, one in READ.items() if one.kind not in ("libsvm", "npy"))
# Text of a kept column that a workbook shows as a number.
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
# What a spreadsheet takes for a formula, unless it is a number.
_FORMULA = r"^'*[=+\-@\t\r]"


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse the name of a file that cannot be written."""
    if not os.fspath(path).lower().endswith(ENDINGS):
        raise ValueError(
            f"out={os.fspath(path)!r} has an unknown ending; write one of {', '.join(ENDINGS)}."
        )


def keeps_text(path: str | os.PathLike[str]) -> bool:
    """Return whether kept columns are best written as they stand in a file of text."""
    return kind_of(path) in ("csv", "xlsx")


class TableWriter(ExitStack):
    """Write Arrow tables to a file, all of the columns and types of the first.

    The ending of `path` says what to write: see `ENDINGS`; `draft` is where, None for `path`.

    Text that a spreadsheet would take for a formula (it begins with =, +, - or @ and is not a
    number) gets an apostrophe before it in .csv and .tsv files; `fuzzytwin.sources` takes it away
    in reading. A workbook holds such text as text.
    """

    def __init__(self, path: str | os.PathLike[str], draft: Any = None) -> None:
        super().__init__()
        check_ending(path)
        self.path, self.draft = os.fspath(path).lower(), os.fspath(path if draft is None else draft)
        self.schema: Any = None

    def write(self, table: Any) -> None:
        """Write the rows of a table."""
        if self.schema is None:
            self.schema = table.schema
            self.put = self._open()
        self.put(table.cast(self.schema))

    def _open(self) -> Any:
        """Open the file, and return the function that writes a table to it."""
        kind = kind_of(self.path)
        if kind == "xlsx":
            return self.enter_context(closing(_Workbook(self.draft, self.schema.names))).write
        stream = self.enter_context(pa.OSFile(self.draft, "wb"))
        if kind == "parquet":
            import pyarrow.parquet as pq

            return self.enter_context(pq.ParquetWriter(stream, self.schema)).write_table
        if kind == "ipc":
            return self.enter_context(pa.ipc.new_file(stream, self.schema)).write_table
        if self.path.endswith(".gz"):
            stream = self.enter_context(pa.CompressedOutputStream(stream, "gzip"))
        mark = "\t" if ".tsv" in self.path[-7:] else ","
        stream.write(as_csv(self.schema.empty_table(), mark).encode())
        return lambda table: stream.write(as_csv(table, mark, header=False).encode())


class _Workbook:
    """A workbook of one sheet, written row by row."""

    most_rows = 1_048_576

    def __init__(self, path: Any, names: list[str]) -> None:
        openpyxl = need("openpyxl", "files", "an .xlsx file")
        self.path, self.rows = path, 0
        self.cell = openpyxl.cell.WriteOnlyCell
        self.illegal = openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE
        self.book = openpyxl.Workbook(write_only=True)
        self.sheet = self.book.create_sheet("rows")
        self._append(names)

    def write(self, table: Any) -> None:
        if self.rows + table.num_rows > self.most_rows:
            raise ValueError(
                f"a sheet holds {self.most_rows:,} rows at most; write a .csv or .parquet file."
            )
        for row in zip(*(decoded(column).to_pylist() for column in table.columns), strict=True):
            self._append(row)

    def _append(self, row: Any) -> None:
        self.rows += 1
        self.sheet.append([self._as_cell(value) for value in row])

    def _as_cell(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value if value == value else None
        if _PLAIN_NUMBER.fullmatch(value):
            return float(value) if "." in value else int(value)
        cell = self.cell(self.sheet, value=self.illegal.sub("", value))
        cell.data_type = "s"  # never a formula
        return cell

    def close(self) -> None:
        self.book.save(self.path)


def guarded(table: Any) -> Any:
    """Guard a table so that no text is a formula: put an apostrophe before it."""
    columns = []
    for column in table.columns:
        if is_text(column.type):
            column = decoded(column)
            formula = pc.match_substring_regex(column, _FORMULA)
            if pc.any(formula).as_py():
                number = pc.match_substring_regex(column, rf"^{NUMBER}$")
                guarded = pc.binary_join_element_wise("'", column, "")
                column = pc.if_else(pc.and_not(formula, number), guarded, column)
        columns.append(column)
    names = [f"'{name}" if re.match(_FORMULA, name) else name for name in table.schema.names]
    return pa.table(columns, names=names)


def as_csv(table: Any, mark: str = ",", *, header: bool = True) -> str:
    """Give a table as the text of a CSV file; text is quoted where a column of it needs quotes."""
    from pyarrow import csv as arrow_csv

    table = guarded(table)
    out = io.StringIO()
    if header:
        csv.writer(out, delimiter=mark, lineterminator="\n").writerow(table.schema.names)
    for style in ("none", "needed"):
        rows = io.BytesIO()
        options = arrow_csv.WriteOptions(include_header=False, delimiter=mark, quoting_style=style)
        try:
            arrow_csv.write_csv(table, rows, options)
            break
        except pa.ArrowInvalid:  # a cell with a mark in it
            if style == "needed":
                raise
    return out.getvalue() + rows.getvalue().decode()
