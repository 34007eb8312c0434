"""What leaves the studio: the table, the model and a report, each as the bytes of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.document import Document, Heading, Numbers, Table, Value, Words, verbatim
from fuzzytwin._utils.html import to_html
from fuzzytwin._utils.versions import versions
from fuzzytwin.explain import explain
from fuzzytwin.sources.cells import arrow
from fuzzytwin.sources.writers import as_csv
from fuzzytwin.store.files import to_bytes
from fuzzytwin.studio.session import Session
from fuzzytwin.tables.training import facts_of

MOST_EFFECTS = 50
WORDS = {"keep": "kept", "relabel": "relabelled", "degree": "degree set", "leave out": "left out"}


def file_names(session: Session) -> dict[str, str]:
    """Name the files by kind: "table", "model" and "report"."""
    stem = Path(session.table.path).name.split(".")[0] or "data"
    return {
        "table": f"{stem}.settled.csv",
        "model": f"{stem}.settled.skops",
        "report": f"{stem}.settled.html",
    }


def added_columns(session: Session) -> dict[str, list[Any]]:
    """Compute the columns that the table gets: label, degree and decision.

    Every row of the file has its settled label and degree; rows that are left out, or never had a
    label, have none, so that training on the table skips them. A name that the file has already
    gets an underscore.
    """
    n, index = session.table.table.cells.num_rows, session.table.index
    label: list[Any] = [None] * n
    degree: list[Any] = [None] * n
    decision: list[Any] = [None] * n
    for row, place in enumerate(index):
        made = session.decisions.get(row)
        decision[place] = "" if made is None else made.action
        if made is None or made.used:
            label[place] = session.class_name(session.label(row))
            degree[place] = session.degree(row)
    taken, named = set(session.table.table.cells.schema.names), {}
    for name, values in (("label", label), ("degree", degree), ("decision", decision)):
        while name in taken:
            name += "_"
        named[name] = values
    return named


def table_file(session: Session) -> bytes:
    """Write the table as CSV, with three more columns."""
    pa = arrow()
    cells = session.table.table.cells
    kinds = (pa.string(), pa.float64(), pa.string())
    for (name, values), kind in zip(added_columns(session).items(), kinds, strict=True):
        cells = cells.append_column(name, pa.array(values, kind))
    return as_csv(cells).encode()


def settled_model(session: Session) -> Pipeline:
    """Fit the studio's model on the settled rows, from the columns of the file to labels."""
    table, live = session.table, session.live
    used = live.used
    model = clone(live.model).fit(
        table.X[used], table.classes[live.codes[used]], live.weight[used], live.degree[used]
    )
    return Pipeline([("prepare", table.prepare), ("model", model)])


def model_file(session: Session) -> bytes:
    """Write the model as a file for ``fuzzytwin predict``, ``explain`` and ``evaluate``."""
    pipeline = settled_model(session)
    return to_bytes(pipeline, _facts(session, pipeline))


def _facts(session: Session, pipeline: Pipeline) -> dict[str, Any]:
    table, live = session.table, session.live
    settings = table.settings
    note = f"{len(session.decisions):,} rows settled in the studio"
    facts = facts_of(table.path, settings, table.rows, pipeline[-1], [*table.rows.notes, note])
    used = live.used
    labels = table.classes[live.codes]
    facts["tuned"] = False
    facts["classes"] = {str(name): int((labels[used] == name).sum()) for name in table.classes}
    facts["effects"] = explain(
        pipeline, table.rows.X[used], labels[used], live.weight[used], MOST_EFFECTS
    )
    return facts


def report_file(session: Session) -> bytes:
    """Write a page about what was settled, and what came of it."""
    table, counts = session.table, session.counts()
    base = verbatim(Path(table.path).name)
    page = Document(
        f"{base}: settled labels",
        f"{len(session.decisions):,} of {len(table):,} rows settled; label "
        f"{verbatim(table.target)}",
    )
    now, before = session.accuracy, session.given_accuracy
    low, high = session.first_look.n_wrong_interval
    as_given = f"{session.first_look.n_wrong:,.0f} ({low:,.0f} to {high:,.0f}) as given"
    page.add(
        Heading("What came of it", short="Figures"),
        Numbers([
            ("leave-one-out accuracy", Value(f"{now:.3f}", f"{before:.3f} by the given labels")),
            ("wrong labels left, about", Value(f"{session.n_wrong_left:,.0f}", as_given)),
            *((WORDS[action], Value(f"{n:,}")) for action, n in counts.items()),
        ]),
        Words(
            "Leave-one-out: each row is judged by planes that were learned without it. Rows that "
            "are left out do not count."
        ),
    )  # fmt: skip
    page.add(Heading("Decisions"), *_decisions(session))
    page.add(
        Heading("How to go on", short="Again"),
        Words(f"Train on the exported table: `{verbatim(train_command(session))}`"),
        Words(", ".join(f"{name} {version}" for name, version in versions().items()) + "."),
    )
    return to_html(page, {}).encode()


def _decisions(session: Session) -> list[Any]:
    if not session.decisions:
        return [Words("None yet.")]
    table = session.table
    rows: list[list[str | Value]] = [
        [
            verbatim(table.name_of(row)),
            f"{table.index[row] + 1:,}",
            Value(verbatim(WORDS[made.action]), tone="words"),
            Value(verbatim(session.class_name(int(table.codes[row]))), tone="words"),
            Value(verbatim(session.class_name(made.code)), tone="words"),
            f"{made.degree:.2f}",
            f"{session.doubts.own[row]:.2f}",
        ]
        for row, made in sorted(session.decisions.items())
    ]
    head = ["row", "number", "decision", "given label", "label", "degree", "fits its label by"]
    return [Table("Rows are counted from 1, without the names of the columns.", head, rows)]


def train_command(session: Session) -> str:
    """Give the command that trains on the exported table."""
    import shlex

    settings = session.table.settings
    label, degree, decision = added_columns(session)
    words = ["fuzzytwin", "train", file_names(session)["table"], "--target", label,
             "--degree", degree, "--drop", decision, "--drop", session.table.target]  # fmt: skip
    for option, name in (("--weight", settings.weight), ("--id", settings.id)):
        words += [] if name is None else [option, name]
    for option, names in (("--drop", settings.drop), ("--numeric", settings.numeric),
                          ("--category", settings.category)):  # fmt: skip
        words += [word for name in names for word in (option, name)]
    planes, kernel = session.kind
    words += [] if planes == "crisp" else ["--planes", planes]
    words += [] if kernel == "linear" else ["--kernel", kernel]
    if settings.degree is not None:
        words += ["--drop", settings.degree]
    return shlex.join(words)


KINDS = {
    "table": (table_file, "text/csv; charset=utf-8"),
    "model": (model_file, "application/octet-stream"),
    "report": (report_file, "text/html; charset=utf-8"),
}
