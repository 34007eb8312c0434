"""The page about the label issues of a table."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fuzzytwin._utils.text import cut
from fuzzytwin.experiment._estimators import likeliest_other
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.label_issues import LabelIssueDisplay
from fuzzytwin.report import picture, render
from fuzzytwin.tables._formats import numbering

MAX_LISTED = 30
MAX_CARDS = 8
MAX_COLUMNS = 7  # on a card
MAX_CLASSES = 12


def label_issues_page(experiment: Experiment, command: str) -> str:
    """Return the page; `command` is the one that made it."""
    return render(
        "label_issues.html",
        experiment=experiment,
        report=experiment.label_issues,
        file=os.path.basename(experiment.path),
        classes=_classes(experiment),
        label_issues=label_issue_rows(experiment, MAX_LISTED),
        cards=_cards(experiment) if hasattr(experiment.rows.X, "columns") else [],
        most_columns=MAX_COLUMNS,
        quality=quality_picture(experiment),
        command=command,
    )


def quality_picture(experiment: Experiment) -> str:
    """Draw the label quality of the rows, class by class."""
    size = (7.5, 0.8 + 1.15 * min(len(experiment.label_issues.classes), MAX_CLASSES))
    display = LabelIssueDisplay(experiment.label_issues, 0)
    return picture(lambda canvas: display.plot(canvas.subplots()), size)


def label_issue_rows(experiment: Experiment, most: int) -> dict[str, Any]:
    """Collect the label issues, and what accepting the suggestions would do."""
    report, frame = experiment.label_issues, experiment.label_issues_frame()
    frame = frame[frame["is_label_issue"]]
    named = [] if experiment.rows.ids is None else [str(experiment.rows.id)]
    return {
        "summary": report.headline(),
        "numbering": numbering(experiment.path),
        "acceptance": experiment.acceptance_text,
        "more": len(frame) > most,
        "head": ["row", *named, "given label", "suggested label", "label quality"],
        "words": [*named, "given label", "suggested label"],
        "rows": [
            [str(row), *ids, label, "-" if suggested == label else suggested, f"{quality:.2f}"]
            for row, *ids, label, suggested, quality, _, _ in frame.head(most).itertuples(
                index=False
            )
        ],
    }


def _classes(experiment: Experiment) -> list[list[Any]]:
    """Count rows, label issues and label errors, class by class."""
    report, lines = experiment.label_issues, []
    order = np.argsort(-np.bincount(report.codes), kind="stable")
    for k in order[:MAX_CLASSES].tolist():
        own, called = report.codes == k, report.noise_matrix[k]
        other = likeliest_other(called, k)
        lines.append([
            report.classes[k],
            f"{int(own.sum()):,}",
            f"{int(report.is_label_issue[own].sum()):,}",
            f"{float((1 - report.label_quality[own]).sum()):,.1f}",
            f"{1 - called[k]:.1%}",
            report.classes[other] if called[other] > 0.001 else "-",
        ])  # fmt: skip
    return lines


def _cards(experiment: Experiment) -> list[dict[str, Any]]:
    """Compare the worst label issues with typical rows of two classes."""
    report, rows = experiment.label_issues, experiment.rows
    ranked_issues = report.ranked_rows[report.is_label_issue[report.ranked_rows]]
    typical: dict[int, TypicalRows] = {}
    cards = []
    for i in ranked_issues[:MAX_CARDS].tolist():
        own = int(report.codes[i])
        other = likeliest_other(report.posterior[i], own)
        for k in {own, other} - set(typical):
            typical[k] = TypicalRows(experiment, k)
        name = f" ({rows.ids[i]})" if rows.ids is not None and rows.ids[i] else ""
        label, instead = report.classes[own], report.classes[other]
        is_suggested = report.suggested_labels[i] == instead
        advice = f"{instead} is suggested" if is_suggested else "worth a look"
        cards.append({
            "title": f"Row {experiment.numbers[i]}{name}: labelled {label}, {advice}",
            "head": ["column", "this row", f"typical {label}", f"typical {instead}", "nearer to"],
            "rows": [
                [column, *map(_text, values), "-" if not side else label if side < 0 else instead]
                for column, values, side in _comparison(experiment, i, typical[own], typical[other])
            ],
        })  # fmt: skip
    return cards


class TypicalRows:
    """The rows of a class with a high label quality, and the typical value of each column."""

    def __init__(self, experiment: Experiment, k: int) -> None:
        report = experiment.label_issues
        is_class = report.codes == k
        quality = report.label_quality
        good = is_class & (quality >= min(0.5, float(quality[is_class].max())))
        self.X = experiment.rows.X[good]
        self.values = {name: experiment.typical(name, good) for name in self.X.columns}

    def share(self, column: str, value: Any) -> float:
        """Return the share of the rows that have a value, smoothed so that it is not 0."""
        return float((self.X[column] == value).sum() + 1) / (len(self.X) + 2)


def _comparison(
    experiment: Experiment, row: int, own: TypicalRows, other: TypicalRows
) -> list[tuple[str, tuple[Any, Any, Any], int]]:
    """Choose columns to show: name, the three values, and which class is nearer.

    They are those of the largest log likelihood ratio of the classes, each column by itself:
    numbers as if normal with equal variances, categories by their shares.
    """
    X = experiment.rows.X
    compared: list[dict[str, Any]] = []
    for column in experiment.rows.schema.columns:
        if (name := column.name) not in X.columns:
            continue
        value, a, b = X[name].iloc[row], own.values[name], other.values[name]
        nearer = 0.0
        if value is None or value != value or a is None or b is None:
            pass
        elif column.kind == "number":
            variance = float(X[name].var()) or 1.0
            nearer = (value - (a + b) / 2) * (b - a) / variance
        else:
            nearer = float(np.log(other.share(name, value) / own.share(name, value)))
        values = (value, a, b)
        compared.append({"column": name, "values": values, "nearer": nearer})
    compared.sort(key=lambda entry: -abs(entry["nearer"]))
    return [
        (entry["column"], entry["values"], int(np.sign(entry["nearer"])))
        for entry in compared[:MAX_COLUMNS]
    ]


def _text(value: Any) -> str:
    if value is None or value != value:
        return "(missing)"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else cut(value, 40)
