"""Write tables as CSV, Parquet or Feather files, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fuzzytwin._utils.files import atomic_write, check_overwrite, check_writable
from fuzzytwin._utils.progress import Progress
from fuzzytwin.tables._formats import ENDINGS as READ_ENDINGS
from fuzzytwin.tables._formats import format_of
from fuzzytwin.tables._parse import decoded, is_cell, is_text, pa, pc
from fuzzytwin.tables._sniff import GUARDED, SIGNS

# Cells that a spreadsheet may run as formulas, also after tabs and line ends, and with full-width
# signs.
_BEGINS = rf"^[\t\r\n]*[{SIGNS}]"
# Exceptions: signs only, numbers with the decimal and thousands marks of any country, and several
# numbers with spaces between them, such as telephone numbers. -e5 is a reference to a cell.
_MARKS = "[.,'’ \u00a0\u202f]*"
_NUMBER = rf"[+\-＋－](?:{_MARKS}\d)+{_MARKS}(?:[eE][+\-]?\d+)?\s*%?"
_NO_FORMULA = rf"^\s*(?:[+\-＋－]+|{_NUMBER})\s*$"
# Formulas within a cell: a spreadsheet of another country divides a line at other separators, and
# quotes that do not begin there protect nothing.
_WITHIN = re.compile(
    rf"(?<=[;,\t\r\n])(?!(?:[+\-＋－]+|{_NUMBER})(?:[;,\t\r\n]|\Z))(?='*[{SIGNS}])"
)


def check_out(path: str | os.PathLike[str], overwrite: bool = True) -> None:
    """Raise an error for an unknown ending, or if the file exists or cannot be written."""
    if not os.fspath(path).lower().endswith(ENDINGS):
        raise ValueError(
            f"out={os.fspath(path)!r} has an unknown ending; valid ones are {', '.join(ENDINGS)}."
        )
    check_overwrite(Path(path), path, overwrite)
    check_writable(path)


def text_style(reader: Any) -> dict[str, str]:
    """Return the separator and decimal mark of the text file that was read, if it was one."""
    if getattr(reader, "has_types", True):
        return {}
    return {"separator": reader.separator, "decimal": reader.decimal}


def output_style(reader: Any) -> dict[str, Any]:
    """Return the arguments of `write_tables` that follow from the table that was read, if any."""
    return {"inputs": getattr(reader, "paths", ()), **text_style(reader)}


def write_tables(
    out: str | os.PathLike[str],
    tables: Iterable[Any],
    overwrite: bool,
    task: str = "",
    rows: int | None = None,
    progress: bool = False,
    *,
    inputs: Iterable[str] = (),
    separator: str = ",",
    decimal: str = ".",
) -> int:
    """Write Arrow tables, with the columns and types of the first, to a file. Return their rows.

    The file appears when it is complete. Its ending determines the format: see `ENDINGS`. `task`
    and `rows`, the expected number, are shown by the bar of `progress`. `inputs` are the files that
    the tables were made of, see `atomic_write`. `separator` and `decimal` are those of .csv files.

    In .csv and .tsv files, text that a spreadsheet would run as a formula gets an apostrophe in
    front, which `fuzzytwin.files` removes when it reads the file. Such text begins with = or @, or
    with + or - and is not a number: -0,287, - and +49 7 are not formulas. Within a cell, this also
    holds after a separator and a line end.
    """
    schema: Any = None
    file_format = format_of(out)
    with (
        atomic_write(out, overwrite=overwrite, inputs=inputs) as draft,
        ExitStack() as files,
        Progress(task, rows, "rows", enabled=progress) as bar,
    ):
        for table in tables:
            try:
                if schema is None:
                    schema = _without_null_types(table.schema)
                    _check_cells(schema, out)
                    open_writer = WRITERS[file_format.kind]
                    style = (separator, decimal)
                    write = open_writer(
                        files, os.fspath(out).lower(), os.fspath(draft), schema, style
                    )
                write(_cast(table, schema) if file_format.typed else table)
            except pa.ArrowException as error:
                raise ValueError(f"{out} cannot be written: {error}.") from error
            bar.advance(table.num_rows)
    return bar.done


def _without_null_types(schema: Any) -> Any:
    """Take columns that have no values so far as text."""
    kinds = (pa.string() if field.type == pa.null() else field.type for field in schema)
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def _check_cells(schema: Any, out: Any) -> None:
    """Raise a ValueError if a text file cannot hold a column, such as one of lists."""
    if format_of(out).typed:
        return
    for field in schema:
        if not is_cell(field.type):
            raise ValueError(
                f"column {field.name!r} is of type {field.type}, which {out} cannot hold; write a "
                ".parquet file, or leave it out."
            )


def _cast(table: Any, schema: Any) -> Any:
    """Cast a table to the types of the first one. Errors name the column."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise ValueError(
                f"column {field.name!r} is of type {field.type} in the first rows and of "
                f"{column.type} further down ({error}); use one type, or leave it out."
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


# For each format that can be written: a function that opens a draft of the file, and returns the
# function that writes a table to it.
WRITERS = {"parquet": _parquet, "ipc": _ipc, "csv": _csv}
ENDINGS = tuple(
    ending
    for ending, file_format in READ_ENDINGS.items()
    if file_format.kind in WRITERS and ".txt" not in ending
)


def _guarded(words: Any) -> Any:
    """Put an apostrophe before formulas, and before text that looks like a guarded formula."""
    begins = pc.match_substring_regex(words, _BEGINS)
    formula = pc.and_not(begins, pc.match_substring_regex(words, _NO_FORMULA))
    guard = pc.or_(formula, pc.match_substring_regex(words, GUARDED))
    if pc.any(pc.match_substring_regex(words, rf"[;,\t\r\n]'*[{SIGNS}]")).as_py():
        texts = (word and _WITHIN.sub("'", word) for word in words.to_pylist())
        words = pa.array(texts, words.type)
    return pc.if_else(guard, pc.binary_join_element_wise("'", words, ""), words)


def as_csv(table: Any, separator: str = ",", decimal: str = ".", *, header: bool = True) -> str:
    """Return a table as the text of a CSV file. Text is quoted if any cell needs quotes.

    Text that a spreadsheet would run as a formula gets an apostrophe in front.
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
    except pa.ArrowInvalid:  # a cell holds a separator, a quote or a line end
        return out.getvalue() + rows("needed")


def _with_decimal(column: Any, decimal: str) -> Any:
    """Write floating-point numbers as text with another decimal mark."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.replace_substring(column.cast(pa.string()), ".", decimal)
