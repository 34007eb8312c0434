"""What leaves the studio: the table, the committee and a report, as bytes."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzzytwin._utils.text import count
from fuzzytwin.experiment._estimators import training_metadata
from fuzzytwin.experiment._rows import REVIEWED_LABEL
from fuzzytwin.report import render
from fuzzytwin.store._files import to_bytes
from fuzzytwin.studio._history import ACTIONS
from fuzzytwin.studio._model import Model, pipeline_of
from fuzzytwin.studio._session import Session
from fuzzytwin.tables._formats import format_of, numbering
from fuzzytwin.tables._parse import is_cell, pa
from fuzzytwin.tables._writer import ENDINGS, as_csv, write_tables

LABEL, DEGREE, DECISION = REVIEWED_LABEL, "degree", "decision"  # columns that the table gets


def export_file(session: Session, kind: str) -> tuple[str, str, bytes] | None:
    """Return the name, media type and bytes of one of `FILES`; None if there is no such thing.

    `Session.exports` tells the page that the file is being written.
    """
    if kind not in FILES:
        return None
    export = FILES[kind]
    session.exports[kind] = time.monotonic()
    try:
        return export.name(session), export.media, export.write(session)
    finally:
        session.exports.pop(kind, None)


def export_status(session: Session, kind: str) -> str:
    """Describe how long a file has been written; "" if it is not being written."""
    start = session.exports.get(kind)
    if start is None:
        return ""
    model = session.model
    trains = kind == "model" and (model is None or model.labels is not session.labels)
    what = "Training on the reviewed labels first" if trains else "Preparing the file"
    return f"{what}: {time.monotonic() - start:.0f} s so far ..."


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
    """Name the columns that are added: the label, the degree if one is below 1, the decision.

    A name that the table has already gets an underscore.
    """
    return [_free(name, session.table.table.cells.schema.names) for name in _added(session)]


def _added(session: Session) -> list[str]:
    has_degrees = bool((session.labels.degree != 1).any())
    return [LABEL, DEGREE, DECISION] if has_degrees else [LABEL, DECISION]


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
    used = place[labels.used]
    label = np.full(cells.num_rows, None)
    label[used] = table.classes[labels.codes[labels.used]].tolist()
    degree = np.full(cells.num_rows, None)
    degree[used] = labels.degree[labels.used]
    decision = np.full(cells.num_rows, None)
    for row, made in labels.decisions.items():
        decision[place[row]] = made.action
    whole = table.classes.dtype.kind in "iu"
    values = {LABEL: pa.array(label, pa.int64() if whole else pa.string())}
    values[DEGREE] = _degrees(degree, table.table.decimal)
    values[DECISION] = pa.array(decision, pa.string())
    for name, column in zip(added_columns(session), _added(session), strict=True):
        cells = cells.append_column(name, values[column])
    return cells


def _degrees(degree: Any, decimal: str) -> Any:
    """Return degrees as numbers, or as text with a decimal comma if the file has one."""
    if decimal == ".":
        return pa.array(degree, pa.float64())
    words = [None if value is None else f"{value:g}".replace(".", decimal) for value in degree]
    return pa.array(words, pa.string())


# The model and the report


def model_file(session: Session) -> bytes:
    """Write the committee as a file for ``fuzzytwin predict``, ``explain`` and ``evaluate``.

    It is trained on the labels after the decisions: the one that the page has if it is up to date.
    """
    table = session.table
    labels = session.labels
    model = session.model
    if model is None or model.labels is not labels:
        model = Model.fit(table, labels)
    used = labels.used
    y = table.classes[labels.codes]
    notes = [*table.notes, f"{count(len(labels.decisions), 'row')} reviewed in the studio"]
    settings = replace(table.settings, model="committee")
    metadata = training_metadata(table.path, settings, table.rows, model.committee, notes)
    metadata["classes"] = {str(name): int((y[used] == name).sum()) for name in table.classes}
    metadata["effects"] = model.effects
    return to_bytes(pipeline_of(table, model.committee), metadata)


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
    label, *degree, decision = added_columns(session)
    settings = session.table.settings
    out = _trained_model(session)
    words = ["fuzzytwin", "train", FILES["table"].name(session), "--target", label, "--out", out]
    named = settings.named()
    replaced = [*named.pop("--target", []), *named.pop("--degree", []), decision]
    if settings.votes:
        replaced.extend(session.table.votes.columns)
    options = {"--degree": degree, "--drop": replaced}
    for option, names in (*options.items(), *named.items(), ("--missing", settings.missing)):
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
    """Name the model that `train_command` writes, beside the studio's own."""
    return f"{_stem(session)}.trained.skops"


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
    name = Path(session.table.path).name
    return name.removesuffix(table_ending(session)).partition(".")[0] or "data"


FILES = {
    "table": Export(table_ending, "application/octet-stream", table_file),
    "model": Export(lambda _: ".skops", "application/octet-stream", model_file),
    "report": Export(lambda _: ".html", "text/html; charset=utf-8", report_file),
}
