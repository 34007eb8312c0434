"""The page about the doubtful labels of a table."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fuzzytwin._utils.text import cut
from fuzzytwin.apps.report import picture, render
from fuzzytwin.apps.study import Study, likeliest_other
from fuzzytwin.data.files import numbering
from fuzzytwin.doubts import DoubtsDisplay

MOST_LISTED = 30
MOST_CARDS = 8
MOST_COLUMNS = 7  # on a card
MOST_CLASSES = 12


def doubts_page(study: Study, command: str) -> str:
    """Write the page; `command` is the one that made it."""
    return render(
        "doubts.html",
        study=study,
        report=study.doubts,
        file=os.path.basename(study.path),
        classes=_classes(study),
        doubtful=doubtful_rows(study, MOST_LISTED),
        cards=_cards(study) if hasattr(study.rows.X, "columns") else [],
        most_columns=MOST_COLUMNS,
        degrees=degrees_picture(study),
        command=command,
    )


def degrees_picture(study: Study) -> str:
    """Draw the degrees of the rows in their labels, class by class."""
    size = (7.5, 0.8 + 1.15 * min(len(study.doubts.classes), MOST_CLASSES))
    return picture(lambda canvas: DoubtsDisplay(study.doubts, 0).plot(canvas.subplots()), size)


def doubtful_rows(study: Study, most: int) -> dict[str, Any]:
    """Collect the most doubtful rows, and what taking the suggestions would do."""
    report, frame = study.doubts, study.doubts_frame()
    frame = frame[frame["doubtful"]]
    named = [] if study.rows.names is None else [str(study.rows.id)]
    return {
        "summary": report.headline(),
        "numbering": numbering(study.path),
        "taken": study.suggestions_in_words,
        "more": len(frame) > most,
        "head": ["row", *named, "label", "suggested", "degree"],
        "words": [*named, "label", "suggested"],
        "rows": [
            [str(row), *words, f"{degree:.2f}"]
            for row, *words, degree, _, _ in frame.head(most).itertuples(index=False)
        ],
    }


def _classes(study: Study) -> list[list[Any]]:
    """Count rows, doubtful ones and wrong labels, class by class."""
    report, lines = study.doubts, []
    order = np.argsort(-np.bincount(report.codes), kind="stable")
    for k in order[:MOST_CLASSES].tolist():
        own, called = report.codes == k, report.noise_matrix[k]
        other = likeliest_other(called, k)
        lines.append([
            report.classes[k],
            f"{int(own.sum()):,}",
            f"{int(report.doubtful[own].sum()):,}",
            f"{float((1 - report.degrees[own]).sum()):,.1f}",
            f"{1 - called[k]:.1%}",
            report.classes[other] if called[other] > 0.001 else "-",
        ])  # fmt: skip
    return lines


def _cards(study: Study) -> list[dict[str, Any]]:
    """Show the values of some doubtful rows beside those of typical rows of two classes."""
    report, rows, cards = study.doubts, study.rows, []
    typical: dict[int, dict[str, Any]] = {}
    for i in report.order[report.doubtful[report.order]][:MOST_CARDS].tolist():
        own = int(report.codes[i])
        other = likeliest_other(report.posterior[i], own)
        for k in {own, other} - set(typical):
            mine = report.codes == k
            good = mine & (report.degrees >= min(0.5, float(report.degrees[mine].max())))
            typical[k] = {name: study.typical(name, good) for name in rows.X.columns}
        name = f" ({rows.names[i]})" if rows.names is not None and rows.names[i] else ""
        label, instead = report.classes[own], report.classes[other]
        cards.append({
            "title": f"Row {study.numbers[i]}{name}: labelled {label}, rather {instead}?",
            "head": ["column", "this row", f"typical {label}", f"typical {instead}", "nearer to"],
            "rows": [
                [column, *map(_text, values), "-" if not side else label if side < 0 else instead]
                for column, values, side in _comparison(study, i, typical[own], typical[other])
            ],
        })  # fmt: skip
    return cards


def _comparison(
    study: Study, row: int, own: dict[str, Any], other: dict[str, Any]
) -> list[tuple[str, tuple[Any, Any, Any], int]]:
    """Choose columns to show: name, the three values, and which class is nearer."""
    X, found = study.rows.X, []
    for column in study.rows.schema.columns:
        if (name := column.name) not in X.columns:
            continue
        value, a, b = X[name].iloc[row], own[name], other[name]
        missing = value is None or value != value
        if column.kind == "number" and not missing and a is not None and b is not None:
            spread = float(X[name].std()) or 1.0
            nearer = (abs(value - a) - abs(value - b)) / spread
            weight, side = abs(nearer), int(np.sign(nearer))
        else:
            weight = float(a != b) * 0.5 + float(not missing and value != a) * 0.5
            side = 0 if missing else int(value == b) - int(value == a)
        found.append((weight, name, (value, a, b), side))
    found.sort(key=lambda entry: -entry[0])
    return [entry[1:] for entry in found[:MOST_COLUMNS]]


def _text(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else cut(value, 40)
