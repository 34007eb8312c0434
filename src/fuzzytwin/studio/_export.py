"""What leaves the studio: the table and a report, as bytes."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzzytwin.experiment._rows import REVIEWED_LABEL
from fuzzytwin.report import render
from fuzzytwin.studio._history import ACTIONS
from fuzzytwin.studio._session import Session
from fuzzytwin.tables._formats import format_of, numbering, without_ending
from fuzzytwin.tables._parse import is_cell, pa
from fuzzytwin.tables._writer import ENDINGS, as_csv, write_tables

ADDED = (REVIEWED_LABEL, "decision")  # columns that the table gets


def export_file(session: Session, kind: str) -> tuple[str, str, bytes] | None:
    """Return the name, media type and bytes of one of `FILES`; None if there is no such thing."""
    if kind not in FILES:
        return None
    export = FILES[kind]
    return export.name(session), export.media, export.write(session)


# The table


def table_file(session: Session) -> bytes:
    """Write the table in the format that it came in, with the columns that were added."""
    cells = _with_reviews(session)
    ending = table_ending(session)
    if format_of(f"table{ending}").typed:
        return _written(cells, ending)
    for j, field in enumerate(cells.schema):
        if not is_cell(field.type):
            words = [None if v is None else str(v) for v in cells.column(j).to_pylist()]
            cells = cells.set_column(j, field.name, pa.array(words, pa.string()))
    if ending.endswith(".gz"):
        return _written(cells, ending)
    return as_csv(cells, session.table.reader.separator).encode()


def table_ending(session: Session) -> str:
    """Return the ending of the exported table: that of the data, or .csv for a workbook."""
    name = session.table.path.lower()
    endings = [ending for ending in ENDINGS if name.endswith(ending) and "xls" not in ending]
    return max(endings, key=len, default=".csv")


def _written(cells: Any, ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{ending}"
        write_tables(path, [cells], overwrite=False)
        return path.read_bytes()


def added_columns(session: Session) -> list[str]:
    """Name the columns that are added. One that the table has already gets an underscore."""
    return [_free(name, session.table.table.cells.schema.names) for name in ADDED]


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _with_reviews(session: Session) -> Any:
    """Return the cells of the file with the columns that are added.

    Rows that are excluded, or never had a label, have no label: training skips them.
    """
    table = session.table
    labels = session.labels
    cells = table.table.cells
    place = table.index
    label = np.full(cells.num_rows, None)
    label[place[labels.used]] = table.classes[labels.codes[labels.used]].tolist()
    decision = np.full(cells.num_rows, None)
    for row, made in labels.decisions.items():
        decision[place[row]] = made.action
    values = pa.array(label, pa.array(table.classes).type), pa.array(decision, pa.string())
    for name, column in zip(added_columns(session), values, strict=True):
        cells = cells.append_column(name, column)
    return cells


# The report and the commands


def report_file(session: Session) -> bytes:
    """Write a page about the decisions and their result."""
    table = session.table
    n_reviewed = f"{len(session.decisions):,} of {len(table):,} rows reviewed"
    return render(
        "reviewed.html",
        title=f"{Path(table.path).name}: reviewed labels",
        lead=f"{n_reviewed}. Column of labels: {table.target}",
        session=session,
        words=ACTIONS,
        numbering=numbering(table.path),
        command=train_command(session),
    ).encode()


def train_command(session: Session) -> str:
    """Return the command that trains on the exported table."""
    label, decision = added_columns(session)
    settings = session.table.settings
    out = _trained_model(session)
    words = ["fuzzytwin", "train", FILES["table"].name(session), "--target", label, "--out", out]
    named = settings.named()
    votes = session.table.votes.columns if settings.votes else []
    named["--drop"] = [*named.pop("--target", []), decision, *votes, *named["--drop"]]
    for option, names in (*named.items(), ("--missing", settings.missing)):
        words += [word for name in names for word in (option, name)]
    if settings.keep_na:
        words.append("--keep-na")
    return shlex.join(words)


def evaluate_command(session: Session) -> str:
    """Return the command that measures the trained model on new rows; "" without a target.

    New rows have the column of the labels as given, not that of the reviewed labels.
    """
    target = session.table.settings.target
    if target is None:
        return ""
    words = ["fuzzytwin", "evaluate", _trained_model(session), "NEW-DATA", "--target", target]
    return shlex.join(words)


def _trained_model(session: Session) -> str:
    """Name the model that `train_command` writes."""
    return f"{_stem(session)}.reviewed.skops"


# The files


@dataclass(frozen=True)
class Export:
    """A file to download: its ending, its media type, and what writes it."""

    ending: Callable[[Session], str]
    media: str
    write: Callable[[Session], bytes]

    def name(self, session: Session) -> str:
        """Name the file after the data."""
        return f"{_stem(session)}.reviewed{self.ending(session)}"


def _stem(session: Session) -> str:
    return without_ending(session.table.path) or "data"


FILES = {
    "table": Export(table_ending, "application/octet-stream", table_file),
    "report": Export(lambda _: ".html", "text/html; charset=utf-8", report_file),
}
