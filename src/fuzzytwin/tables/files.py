"""Tables read whole, or by their first rows, as Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fuzzytwin.sources.batches import twins
from fuzzytwin.sources.cells import arrow, decimal_mark, is_text
from fuzzytwin.sources.formats import known_kind, open_table, readable
from fuzzytwin.tables.columns import TableError

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Table:
    """Rows of a file as they stand there.

    Parameters
    ----------
    path : str
        The file.
    cells : pyarrow.Table
        Its rows; all columns are text if the file does not specify their types.
    decimal, separator : str
        Its marks.
    more : bool
        Whether the file has more rows.
    """

    path: str
    cells: Any
    decimal: str
    separator: str
    more: bool = False


def read_table(
    path: str, expected: Collection[str] = (), rows: int | None = None, parts: int = 1000
) -> Table:
    """Read a file; `rows` and `parts` limit how many rows and batches are read.

    `expected` are names of columns, by which the separator of a text file is found.
    """
    file = open_table(path, expected)
    names = file.schema.names
    for name in twins(names):
        raise TableError(f"{path} has two columns named {name!r}; rename one of them.")
    frames: list[Any] = []
    count, more = 0, False
    with readable(path):
        for _, frame in file.frames(names, BATCH_ROWS):
            if rows is not None and (count >= rows or len(frames) >= parts):
                more = True
                break
            frames.append(frame)
            count += frame.num_rows
    if not count:
        raise TableError(f"{path} has column names but no rows; give some.")
    cells = arrow().Table.from_batches(frames)
    texts = [column for column in cells.columns if is_text(column.type)]
    decimal = decimal_mark(texts, file.separator)
    more = more or (rows is not None and count > rows)
    return Table(path, cells[:rows], decimal, file.separator, more)


def file_size(path: str | os.PathLike[str]) -> int:
    """About how many bytes a file takes in memory."""
    growth = {"parquet": 6, "csv": 3, "ipc": 2, "xlsx": 20}.get(known_kind(path), 3)
    return os.path.getsize(path) * (growth * 4 if os.fspath(path).endswith(".gz") else growth)
