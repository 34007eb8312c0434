"""The view Save, and what leaves the studio: the table, the model and a report, as bytes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from nicegui import ui
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.report import render
from fuzzytwin.apps.studio.session import WORDS, Session
from fuzzytwin.apps.studio.view import View, block, put
from fuzzytwin.apps.study import MOST_EFFECTS, facts_of
from fuzzytwin.data.cells import is_cell, pa
from fuzzytwin.data.files import numbering
from fuzzytwin.data.writers import as_csv
from fuzzytwin.explain import explain
from fuzzytwin.store.files import to_bytes

MOST_LISTED = 200


def added_columns(session: Session) -> dict[str, Array]:
    """Compute the columns that the table gets: label, degree and decision.

    Every row of the file has its settled label and degree; rows that are left out, or never had a
    label, have none, so that training on the table skips them. A name that the file has already
    gets an underscore.
    """
    cells, place, live = session.table.table.cells, session.table.index, session.live
    added = {name: np.full(cells.num_rows, None) for name in ("label", "degree", "decision")}
    used = place[live.used]
    added["label"][used] = np.array(session.class_names)[live.codes[live.used]]
    added["degree"][used] = live.degree[live.used]
    made = (session.decisions.get(row) for row in range(len(place)))
    added["decision"][place] = ["" if one is None else one.action for one in made]
    return {_free(name, cells.schema.names): values for name, values in added.items()}


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def table_file(session: Session) -> bytes:
    """Write the table as CSV, with three more columns."""
    cells = session.table.table.cells
    for j, field in enumerate(cells.schema):
        if not is_cell(field.type):
            words = [None if v is None else str(v) for v in cells.column(j).to_pylist()]
            cells = cells.set_column(j, field.name, pa.array(words, pa.string()))
    kinds = (pa.string(), pa.float64(), pa.string())
    for (name, values), kind in zip(added_columns(session).items(), kinds, strict=True):
        cells = cells.append_column(name, pa.array(values, kind))
    return as_csv(cells).encode()


def model_file(session: Session) -> bytes:
    """Write the studio's planes as a file for ``fuzzytwin predict``, ``explain`` and ``evaluate``.

    They are learned from the settled rows and lead from the columns of the file to labels.
    """
    study, live = session.table, session.live
    used, labels = live.used, study.classes[live.codes]
    model = clone(live.model).fit(
        study.X[used], labels[used], live.weight[used], live.degree[used]
    )  # fmt: skip
    pipeline = Pipeline([("prepare", study.prepare), ("model", model)])
    notes = [*study.notes, f"{len(session.decisions):,} rows settled in the studio"]
    settings = replace(study.settings, model="planes")
    facts = facts_of(study.path, settings, study.rows, model, notes)
    facts["classes"] = {str(name): int((labels[used] == name).sum()) for name in study.classes}
    facts["effects"] = explain(
        pipeline, study.rows.X[used], labels[used], live.weight[used], MOST_EFFECTS
    )
    return to_bytes(pipeline, facts)


def report_file(session: Session) -> bytes:
    """Write a page about what was settled, and what came of it."""
    study = session.table
    return render(
        "settled.html",
        title=f"{Path(study.path).name}: settled labels",
        lead=f"{len(session.decisions):,} of {len(study):,} rows settled; label {study.target}",
        session=session,
        words=WORDS,
        numbering=numbering(study.path),
        command=train_command(session),
    ).encode()


def train_command(session: Session) -> str:
    """Give the command that trains on the exported table."""
    label, degree, decision = added_columns(session)
    out = f"{Path(session.table.path).stem or 'data'}.trained.skops"  # beside the studio's own
    words = ["fuzzytwin", "train", file_name(session, "table"), "--target", label, "--out", out,
             "--degree", degree, "--drop", decision]  # fmt: skip
    named, settings = session.table.settings.named(), session.table.settings
    replaced = [*named.pop("--target", []), *named.pop("--degree", [])]  # by what was settled
    if settings.votes:
        replaced.extend(session.table.votes.columns)
    marks = settings.missing
    for option, names in (("--drop", replaced), *named.items(), ("--missing", marks)):
        words += [word for name in names for word in (option, name)]
    return shlex.join(words)


# Ending of the name, type, and what writes it.
FILES: dict[str, tuple[str, str, Callable[[Session], bytes]]] = {
    "table": ("csv", "text/csv; charset=utf-8", table_file),
    "model": ("skops", "application/octet-stream", model_file),
    "report": ("html", "text/html; charset=utf-8", report_file),
}


def file_name(session: Session, kind: str) -> str:
    """Name one of `FILES` after the data."""
    return f"{Path(session.table.path).stem or 'data'}.settled.{FILES[kind][0]}"


def export_file(session: Session | None, kind: str) -> tuple[str, str, bytes] | None:
    """Give the name, type and bytes of one of `FILES`; None where there is no such thing."""
    if session is None or kind not in FILES:
        return None
    _, media, write = FILES[kind]
    return file_name(session, kind), media, write(session)


class SaveView(View):
    """The journal, the files, and the list of decisions."""

    name = "save"

    def build(self) -> None:
        """Lay out what is kept, the files, and the decisions."""
        with ui.element("div").classes("stack"):
            self.kept, self.files = block("card"), block("card")
        self.made = block("card")

    def refresh(self) -> None:
        """Draw all that has changed."""
        session, parts = self.session, self.parts
        names = {kind: file_name(session, kind) for kind in FILES}
        put(self.kept, parts.kept(session, WORDS))
        put(self.files, parts.files(names, train_command(session), session.table.sampled))
        put(self.made, parts.made(session, WORDS, MOST_LISTED))
