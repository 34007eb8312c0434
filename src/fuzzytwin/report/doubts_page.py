"""One page of HTML about the doubtful labels of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

import fuzzytwin
from fuzzytwin._utils.document import (
    Block,
    Card,
    Document,
    Heading,
    Numbers,
    Table,
    Value,
    Words,
    verbatim,
)
from fuzzytwin._utils.html import to_html
from fuzzytwin._utils.types import Array
from fuzzytwin.doubts import DoubtsDisplay
from fuzzytwin.report.pictures import Pictures
from fuzzytwin.tables.doubts import TableDoubts, numbered_with_header

MOST_LISTED = 30
MOST_CARDS = 8
MOST_COLUMNS = 7  # on a card
MOST_CLASSES = 12
Cells = list[str | Value]


def doubts_page(found: TableDoubts, command: str, versions: dict[str, str]) -> str:
    """Write the page.

    Parameters
    ----------
    found : TableDoubts
        The rows of a file and the report about them.
    command : str
        The command that made it.
    versions : dict of str
        Versions of the packages.
    """
    report, pictures = found.report, Pictures()
    page = Document(
        verbatim(f"{base(found.data)}: doubtful labels in {found.target or 'the labels'}"),
        "Every label was compared with what all other rows teach. Rows that disagree are wrong "
        "labels, or special cases: look at them before you change anything.",
    )
    page.add(*_counts(found))
    page.add(*listed(found, MOST_LISTED))
    if hasattr(found.rows.X, "columns"):
        page.add(*_cards(found))
    sizes = np.bincount(report.codes, minlength=len(report.classes))
    shown = min(len(sizes), MOST_CLASSES)
    pictures.draw(
        "degrees",
        lambda canvas: DoubtsDisplay(report, 0).plot(canvas.subplots()),
        (7.5, 0.8 + 1.15 * shown),
    )
    page.add(Heading("Degrees of all rows", short="Degrees"))
    page.add(*pictures.figure(
        "degrees", "Degree of every row in its label, by class",
        "The rows of each class, the most doubtful first; red ones are flagged. The table of "
        "degrees (option --out) can be given back to a model: `fuzzytwin train --degree degree`.",
    ))  # fmt: skip
    packages = ", ".join(f"{name} {v}" for name, v in versions.items() if name != "fuzzytwin")
    page.add(
        Heading("How to make it again", short="Again"),
        Words(f"`{verbatim(command)}`"),
        Words(f"Found by {verbatim(report.setting)}."),
        Words(f"fuzzytwin {fuzzytwin.__version__}, {packages}."),
    )
    return to_html(page, pictures.drawn)


def _counts(found: TableDoubts) -> list[Block]:
    report = found.report
    n, (low, high) = len(report.codes), report.n_wrong_interval
    numbers = [
        ("rows to look at", Value(f"{int(report.doubtful.sum()):,}")),
        ("labels probably wrong", Value(f"{report.n_wrong:,.0f}", f"{low:,.0f} to {high:,.0f}")),
        ("rows with a label", Value(f"{n:,}")),
    ]
    rows: list[Cells] = []
    order = np.argsort(-np.bincount(report.codes), kind="stable")
    for k in order[:MOST_CLASSES].tolist():
        own = report.codes == k
        called = report.noise_matrix[k].copy()
        called[k] = -1.0
        other = int(called.argmax())
        rows.append([
            verbatim(report.classes[k]),
            f"{int(own.sum()):,}",
            f"{int(report.doubtful[own].sum()):,}",
            f"{float((1 - report.degrees[own]).sum()):,.1f}",
            f"{1 - report.noise_matrix[k, k]:.1%}",
            Value(verbatim(report.classes[other]) if called[other] > 0.001 else "-", tone="words"),
        ])  # fmt: skip
    return [
        Heading("How many labels are doubtful", short="Counts"),
        Numbers(numbers),
        *(Words(f"Note: {verbatim(note)}.") for note in found.rows.notes),
        Words(
            "The interval is at 95 %. Classes that overlap are hard to tell from wrong labels: "
            "check some of the rows below before you trust the number."
        ),
        Table(
            "Wrong: expected number of wrong labels among the rows with this label. Called "
            "otherwise: share of the rows of this class that have another label, and which most.",
            ["label", "rows", "to look at", "wrong", "called otherwise", "mostly"],
            rows,
        ),
    ]


def listed(found: TableDoubts, most: int) -> list[Block]:
    """List the most doubtful rows, or say that there are none.

    Parameters
    ----------
    found : TableDoubts
        The rows and the report.
    most : int
        How many rows to list.
    """
    report, rows, numbers = found.report, found.rows, found.numbers
    head = Heading("Rows to look at first", short="Doubtful rows")
    doubtful = report.order[report.doubtful[report.order]]
    if not len(doubtful):
        return [head, Words("No label is doubtful.")]
    named = rows.names is not None
    heads = ["row", *([verbatim(rows.id)] if named else []), "label", "suggested", "degree"]
    lines: list[Cells] = [
        [
            str(numbers[i]),
            *([Value(verbatim(rows.names[i]), tone="words")] if rows.names is not None else []),
            Value(verbatim(report.classes[report.codes[i]]), tone="words"),
            Value(verbatim(report.suggested[i]), tone="words"),
            f"{report.degrees[i]:.2f}",
        ]
        for i in doubtful[:most]
    ]
    counted = (
        "Rows are numbered as a spreadsheet shows them: the names of the columns are row 1."
        if numbered_with_header(found.data)
        else "Rows are counted from 1."
    )
    low, high = report.n_wrong_interval
    more = f" The {most} most doubtful:" if len(doubtful) > most else ""
    return [
        head,
        Words(
            f"{len(doubtful):,} of {len(report.codes):,} labels are doubtful by models that never "
            f"saw them: wrong labels, or special cases. About {report.n_wrong:,.0f} ({low:,.0f} to "
            f"{high:,.0f}) labels of the table are probably wrong. Degree: how probably the label "
            f"is right. {counted}{more}"
        ),
        Table("", heads, lines),
    ]


def _cards(found: TableDoubts) -> list[Block]:
    """Show the values of some doubtful rows beside those of typical rows of both classes."""
    report, rows = found.report, found.rows
    doubtful = report.order[report.doubtful[report.order]][:MOST_CARDS]
    if not len(doubtful):
        return []
    kinds = {c.name: c.kind for c in rows.schema.columns if c.name in rows.X.columns}
    typical: dict[int, dict[str, Any]] = {}
    codes = {label: k for k, label in enumerate(report.classes.tolist())}
    cards: list[Block] = []
    for place, i in enumerate(doubtful.tolist(), start=1):
        own, other = int(report.codes[i]), codes[report.suggested[i].item()]
        for k in (own, other):
            if k not in typical:
                typical[k] = _typical(rows.X[report.codes == k], report.degrees[report.codes == k])
        lines = _comparison(rows.X.iloc[i], kinds, rows.X, typical[own], typical[other])
        name = f" ({rows.names[i]})" if rows.names is not None and rows.names[i] else ""
        label, instead = report.classes[own], report.classes[other]
        cards.append(
            Card(
                place,
                verbatim(f"Row {found.numbers[i]}{name}: labelled {label}, rather {instead}?"),
                (
                    Table(
                        "",
                        ["column", "this row", verbatim(f"typical {label}"),
                         verbatim(f"typical {instead}"), "nearer to"],
                        [
                            [verbatim(column), *cells, Value(verbatim(label if side < 0 else
                             instead) if side else "-", tone="words")]
                            for column, cells, side in lines
                        ],
                    ),
                ),
            )
        )  # fmt: skip
    return [
        Heading("What is odd about them", short="Values"),
        Words(
            "The values of the most doubtful rows beside those of typical rows of both classes: "
            "medians of numbers, most frequent values of others, among rows whose label fits. The "
            f"{MOST_COLUMNS} columns in which the two classes and the row differ most are shown."
        ),
        *cards,
    ]


def _typical(X: Any, degrees: Array) -> dict[str, Any]:
    """Return the usual value of each column among the rows of a class that fit their label."""
    good = X[degrees >= min(0.5, float(degrees.max()))]
    usual: dict[str, Any] = {}
    for name in X.columns:
        values = good[name].dropna()
        if not len(values):
            usual[name] = None
        elif values.dtype.kind in "fiu":
            usual[name] = float(values.median())
        else:
            usual[name] = values.mode().iloc[0]
    return usual


def _comparison(
    row: Any, kinds: dict[str, str], X: Any, own: dict[str, Any], other: dict[str, Any]
) -> list[tuple[str, list[str], int]]:
    """Choose columns to show: name, the three values as text, and which class is nearer."""
    found = []
    for name, kind in kinds.items():
        value, a, b = row[name], own[name], other[name]
        missing = value is None or value != value
        if kind == "number" and not missing and a is not None and b is not None:
            spread = float(X[name].std()) or 1.0
            nearer = (abs(value - a) - abs(value - b)) / spread
            weight = abs(nearer)
            side = int(np.sign(nearer))
        else:
            weight = float(a != b) * 0.5 + float(not missing and value != a) * 0.5
            side = 0 if missing or a == b else 1 if value == b else -1 if value == a else 0
        found.append((weight, name, [_text(value), _text(a), _text(b)], side))
    found.sort(key=lambda entry: -entry[0])
    return [(name, cells, side) for _, name, cells, side in found[:MOST_COLUMNS]]


def _text(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    text = str(value)
    return verbatim(text if len(text) <= 40 else f"{text[:37]}...")


def base(path: str) -> str:
    """Return the name of a file without its folders."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]
