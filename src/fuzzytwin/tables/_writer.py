"""Tables written as CSV, Parquet or Feather files, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fuzzytwin._utils.files import check_overwrite, replacing
from fuzzytwin._utils.progress import Progress
from fuzzytwin.tables._formats import ENDINGS as READ
from fuzzytwin.tables._formats import format_of
from fuzzytwin.tables._parse import decoded, is_cell, is_text, pa, pc
from fuzzytwin.tables._sniff import GUARDED, SIGNS

# What a spreadsheet may run. It looks behind tabs and line ends, and knows signs of full width.
_BEGINS = rf"^[\t\r\n]*[{SIGNS}]"
# What it does not run, although it begins so: only signs, and numbers with marks of any country,
# also several with spaces between them, such as telephone numbers.
_NO_FORMULA = r"^\s*[+\-＋－]+$|^\s*[+\-＋－][\d.,'’ \x{a0}\x{202f}]*(?:[eE][+\-]?\d+)?\s*%?\s*$"


def check_out(path: str | os.PathLike[str], overwrite: bool = True) -> None:
    """Refuse a file that cannot be written, or that would be lost."""
    if not os.fspath(path).lower().endswith(ENDINGS):
        raise ValueError(
            f"out={os.fspath(path)!r} has an unknown ending; write one of {', '.join(ENDINGS)}."
        )
    check_overwrite(Path(path), path, overwrite)


def text_style(reader: Any) -> dict[str, Any]:
    """Return separator and decimal mark of a table of text, as arguments of `write_tables`.

    There are none for a reader of cells that have types, or None.
    """
    if getattr(reader, "has_types", True):
        return {}
    return {"separator": reader.separator, "decimal": reader.decimal}


def write_tables(
    out: str | os.PathLike[str], tables: Iterable[Any], overwrite: bool, what: str = "",
    rows: int | None = None, progress: bool = False, *, separator: str = ",", decimal: str = ".",
) -> int:  # fmt: skip
    """Write Arrow tables, of the columns and types of the first, to a file; count their rows.

    The file appears when it is complete; its ending says what to write: see `ENDINGS`. `rows` is
    the expected number, for the bar of `progress`. `separator` and `decimal` are those of .csv
    files.

    Text that a spreadsheet would run as a formula gets an apostrophe before it in .csv and .tsv
    files; `fuzzytwin.files` takes it away in reading. It begins with = or @, or with + or - and
    is no number: -0,287, - and +49 7 are not run.
    """
    schema: Any = None
    with (
        replacing(out, overwrite=overwrite) as draft,
        ExitStack() as files,
        Progress(what, rows, "rows", enabled=progress) as bar,
    ):
        for table in tables:
            try:
                if schema is None:
                    schema = _known_types(table.schema)
                    _check_cells(schema, out)
                    write = WRITERS[format_of(out).kind]
                    style = (separator, decimal)
                    put = write(files, os.fspath(out).lower(), os.fspath(draft), schema, style)
                put(_as_before(table, schema) if format_of(out).typed else table)
            except pa.ArrowException as error:
                raise ValueError(f"{out} cannot be written: {error}.") from error
            bar.advance(table.num_rows)
    return bar.done


def _known_types(schema: Any) -> Any:
    """Take columns without values, which may hold anything further down, as text."""
    kinds = (pa.string() if field.type == pa.null() else field.type for field in schema)
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def _check_cells(schema: Any, out: Any) -> None:
    """Refuse columns of lists and the like for files of plain cells."""
    for field in () if format_of(out).typed else schema:
        if not is_cell(field.type):
            raise ValueError(
                f"column {field.name!r} is of type {field.type}, which {out} cannot hold; write a "
                ".parquet file, or leave it out."
            )


def _as_before(table: Any, schema: Any) -> Any:
    """Give a table the types of the first one; a column that has others is named."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise ValueError(
                f"column {field.name!r} is of type {field.type} in the first rows and of "
                f"{column.type} further down ({error}); write it alike, or leave it out."
            ) from error
    return pa.table(columns, schema=schema)


def _parquet(files: ExitStack, name: str, draft: str, schema: Any, style: Any) -> Any:
    import pyarrow.parquet as pq

    stream = files.enter_context(pa.OSFile(draft, "wb"))
    return files.enter_context(pq.ParquetWriter(stream, schema)).write_table


def _ipc(files: ExitStack, name: str, draft: str, schema: Any, style: Any) -> Any:
    stream = files.enter_context(pa.OSFile(draft, "wb"))
    return files.enter_context(pa.ipc.new_file(stream, schema)).write_table


def _csv(files: ExitStack, name: str, draft: str, schema: Any, style: tuple[str, str]) -> Any:
    stream = files.enter_context(pa.OSFile(draft, "wb"))
    if name.endswith(".gz"):
        stream = files.enter_context(pa.CompressedOutputStream(stream, "gzip"))
    separator, decimal = style
    if ".tsv" in name[-7:]:
        separator = "\t"
    elif separator == "\t":
        separator = ","  # tabs are for .tsv files
    stream.write(as_csv(schema.empty_table(), separator).encode())
    return lambda table: stream.write(as_csv(table, separator, decimal, header=False).encode())


# Of each kind of file that can be written: a function that opens one, a draft of the name that it
# will have, and returns the function that writes a table to it.
WRITERS = {"parquet": _parquet, "ipc": _ipc, "csv": _csv}
ENDINGS = tuple(end for end, one in READ.items() if one.kind in WRITERS and ".txt" not in end)


def _guarded(words: Any) -> Any:
    """Put an apostrophe before texts that would be run, and before those that look guarded."""
    begins = pc.match_substring_regex(words, _BEGINS)
    formula = pc.and_not(begins, pc.match_substring_regex(words, _NO_FORMULA))
    guard = pc.or_(formula, pc.match_substring_regex(words, GUARDED))
    return pc.if_else(guard, pc.binary_join_element_wise("'", words, ""), words)


def as_csv(table: Any, separator: str = ",", decimal: str = ".", *, header: bool = True) -> str:
    """Give a table as the text of a CSV file; text is quoted if a cell of it needs quotes.

    Text that would be a formula gets an apostrophe before it.
    """
    from pyarrow import csv as arrow_csv

    names = _guarded(pa.array(table.schema.names, pa.string())).to_pylist()
    columns = [
        _guarded(decoded(column)) if is_text(column.type) else column for column in table.columns
    ]
    out = io.StringIO()
    if header:
        csv.writer(out, delimiter=separator, lineterminator="\n").writerow(names)
    if decimal != "." and decimal != separator:
        columns = [_with_decimal(column, decimal) for column in columns]

    def rows(style: str) -> str:
        text = io.BytesIO()
        options = arrow_csv.WriteOptions(
            include_header=False, delimiter=separator, quoting_style=style
        )
        arrow_csv.write_csv(pa.table(columns, names=names), text, options)
        return text.getvalue().decode()

    try:
        return out.getvalue() + rows("none")
    except pa.ArrowInvalid:  # a cell with a mark in it
        return out.getvalue() + rows("needed")


def _with_decimal(column: Any, decimal: str) -> Any:
    """Write floating-point numbers as text with another decimal mark."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.replace_substring(column.cast(pa.string()), ".", decimal)
