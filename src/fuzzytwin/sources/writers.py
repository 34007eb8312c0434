"""Tables written as CSV, Parquet or Feather files, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
import re
from types import TracebackType
from typing import Any, Self

from fuzzytwin.sources.cells import NUMBER, arrow, decoded, is_text
from fuzzytwin.sources.formats import kind_of

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".feather", ".arrow", ".ipc")
# What a spreadsheet takes for a formula, unless it is a number.
_FORMULA = r"^'*[=+\-@\t\r]"


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse the name of a file that cannot be written."""
    if not os.fspath(path).lower().endswith(ENDINGS):
        raise ValueError(
            f"out={os.fspath(path)!r} has an unknown ending; write one of {', '.join(ENDINGS)}."
        )


class TableWriter:
    """Write Arrow tables to a file, all of the columns and types of the first.

    Parameters
    ----------
    path : path
        Its ending says what to write: see `ENDINGS`.
    draft : path, default=None
        Where to write; None for `path` itself.

    Notes
    -----
    Text that a spreadsheet would take for a formula (it begins with =, +, - or @ and is not a
    number) gets an apostrophe before it in .csv and .tsv files; `fuzzytwin.sources` takes it away
    in reading.
    """

    def __init__(self, path: str | os.PathLike[str], draft: Any = None) -> None:
        check_ending(path)
        self.path, self.draft = os.fspath(path).lower(), path if draft is None else draft
        self.mark = "\t" if ".tsv" in self.path[-7:] else ","
        self.schema: Any = None
        self.writer: Any = None
        self.stream: Any = None
        self.begun = False

    def __enter__(self) -> Self:
        return self

    def write(self, table: Any) -> None:
        """Write the rows of a table."""
        if self.schema is None:
            self.schema = table.schema
            self._open()
        table = table.cast(self.schema)
        if self.writer is not None:
            self.writer.write_table(table)
        else:
            self.stream.write(as_csv(table, self.mark, header=not self.begun).encode())
        self.begun = True

    def _open(self) -> None:
        pa = arrow()
        kind = kind_of(self.path)
        self.stream = pa.OSFile(os.fspath(self.draft), "wb")
        if kind == "parquet":
            import pyarrow.parquet as pq

            self.writer = pq.ParquetWriter(self.stream, self.schema)
        elif kind == "ipc":
            self.writer = pa.ipc.new_file(self.stream, self.schema)
        elif self.path.endswith(".gz"):
            self.stream = pa.CompressedOutputStream(self.stream, "gzip")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for part in (self.writer, self.stream):
            if part is not None:
                part.close()


def guarded(table: Any) -> Any:
    """Guard a table so that no text is a formula: put an apostrophe before it."""
    pa = arrow()
    pc = pa.compute
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
        except arrow().ArrowInvalid:  # a cell with a mark in it
            if style == "needed":
                raise
    return out.getvalue() + rows.getvalue().decode()
