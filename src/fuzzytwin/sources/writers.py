"""Tables written as CSV, Parquet or Feather files, a batch at a time."""

from __future__ import annotations

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
    draft : path or binary file, default=None
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
        self.schema: Any = None
        self.writer: Any = None
        self.stream: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, table: Any) -> None:
        """Write the rows of a table."""
        pa = arrow()
        text = kind_of(self.path) == "csv"
        table = table if self.schema is None else table.cast(self.schema)
        if self.schema is None:
            self.schema = table.schema
        if text:
            table = guarded(table)
        if self.writer is None:
            self.stream = self.draft
            if isinstance(self.draft, (str, os.PathLike)):
                self.stream = pa.OSFile(os.fspath(self.draft), "wb")
            self._open(table.schema)
        self.writer.write_table(table)

    def _open(self, schema: Any) -> None:
        pa = arrow()
        kind = kind_of(self.path)
        if kind == "csv":
            from pyarrow import csv

            if self.path.endswith(".gz"):
                self.stream = pa.CompressedOutputStream(self.stream, "gzip")
            mark = "\t" if ".tsv" in self.path[-7:] else ","
            self.writer = csv.CSVWriter(
                self.stream, schema, write_options=csv.WriteOptions(delimiter=mark)
            )
        elif kind == "parquet":
            import pyarrow.parquet as pq

            self.writer = pq.ParquetWriter(self.stream, schema)
        else:
            self.writer = pa.ipc.new_file(self.stream, schema)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer is not None:
            self.writer.close()
            if self.stream is not self.draft:
                self.stream.close()


def guarded(table: Any) -> Any:
    """A table in which no text is a formula: an apostrophe stands before it."""
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


def as_csv(table: Any, header: bool = True) -> str:
    """A table as the text of a CSV file."""
    from pyarrow import csv

    out = io.BytesIO()
    csv.write_csv(guarded(table), out, csv.WriteOptions(include_header=header))
    return out.getvalue().decode()
