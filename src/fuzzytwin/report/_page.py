"""The page about a trained model. A section is a block of ``templates/model.html``."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._utils.text import cut, decimals, literal
from fuzzytwin.experiment._curves import Curves
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._words import column_note, effect_name, verdict_text
from fuzzytwin.report import picture, render
from fuzzytwin.report._label_issues import label_issue_rows, quality_picture

MAX_ISSUES = 10  # rows
MAX_CLASSES = 20  # in the confusion matrix
MAX_LONG_HEADS = 6  # classes
MAX_EFFECTS = 12  # columns
WARNINGS = ("no_better_than_guessing", "misses_a_class")
JsonDict = dict[str, Any]


def model_page(experiment: Experiment, command: str) -> str:
    """Return the page; `command` is the one that made it."""
    metadata = experiment.metadata
    score = metadata["score"]
    issues = None if experiment.stream else label_issue_rows(experiment, MAX_ISSUES)
    drawn = issues and issues["rows"] and len(experiment.label_issues.classes) <= 8
    present = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]
    curves = experiment.curves

    return render(
        "model.html",
        file=os.path.basename(metadata["data"]),
        metadata=metadata,
        columns=[{**c, "note": column_note(c)} for c in metadata["schema"]["columns"]],
        score=score,
        verdict=verdict_text(score),
        tone="warning" if score["verdict"] in WARNINGS else "note",
        rarest=min(present, key=lambda entry: int(entry["rows"])),
        curves=curves,
        curves_pictures=_curves_pictures(curves),
        thresholds=_thresholds(curves),
        confusion=_confusion(score),
        label_issues=issues,
        quality=quality_picture(experiment) if drawn else None,
        effects=_effects(metadata),
        members=[
            [member.name, f"{member.weight:.2f}", f"{member.error:.3f}"]
            for member in experiment.model[-1].members_
        ],
        parameters=[
            (name, value) for name, value in metadata["parameters"].items() if name != "members"
        ],
        command=command,
    )


def _curves_pictures(curves: list[Curves]) -> list[str]:
    """Draw reliability, ROC and precision-recall curves."""
    # The probabilities of a rare class are small, and are drawn larger.
    greatest = max(max(curve.predicted.max(), curve.interval.max()) for curve in curves)
    end = min(1.0, 1.05 * float(greatest))

    def reliability(axes: Any, curve: Curves, name: str) -> None:
        bars = np.abs(curve.interval.T - curve.observed)
        axes.errorbar(curve.predicted, curve.observed, bars, marker="o", markersize=4, label=name)
        _finish(axes, "Reliability", "predicted probability", "observed share", end)
        axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)

    def roc(axes: Any, curve: Curves, name: str) -> None:
        axes.plot(curve.false_positive_rate, curve.sensitivity, label=name)
        _finish(axes, "ROC", "1 - specificity", "sensitivity")
        axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)

    def precision_recall(axes: Any, curve: Curves, name: str) -> None:
        axes.plot(curve.recall, curve.precision, label=name)
        _finish(axes, "Precision and recall", "recall (sensitivity)", "precision (PPV)")
        if len(curves) == 1:
            axes.axhline(curve.prevalence, color="0.7", linestyle="--", linewidth=1)

    def draw(canvas: Any, panel: Any) -> None:
        axes = canvas.subplots()
        for curve in curves:
            panel(axes, curve, literal(cut(curve.label, 20)))
        if len(curves) > 1:  # below the axes, where it hides nothing
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)

    panels = (reliability, roc, precision_recall)
    height = 3.7 + 0.2 * (len(curves) // 2 + 1 if len(curves) > 1 else 0)
    return [picture(partial(draw, panel=panel), (4, height)) for panel in panels]


def _finish(axes: Any, title: str, x: str, y: str, end: float = 1.0) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.set_ylim(-0.02 * end, 1.02 * end)


def _thresholds(curves: list[Curves]) -> list[list[Any]]:
    """List scores at thresholds, if curves are shown for only one class."""
    return [] if len(curves) != 1 else [_threshold_row(entry) for entry in curves[0].thresholds]


def _threshold_row(entry: JsonDict) -> list[Any]:
    row: list[Any] = [f"{entry['threshold']:.3g}", entry["chosen_for"], f"{entry['called']:.1%}"]
    for name in ("sensitivity", "specificity", "ppv", "npv"):
        if entry[name] is None:
            row.append("-")
            continue
        low, high = entry[f"{name}_interval"]
        row.append({"text": f"{entry[name]:.2f}", "small": f"{low:.2f} to {high:.2f}"})
    return row


def _confusion(score: JsonDict) -> JsonDict | None:
    labels = [cut(label, 24) for label in score["classes"]]
    if len(labels) > MAX_CLASSES:
        return None
    rows = []
    for i, (label, counts) in enumerate(zip(labels, score["confusion"], strict=True)):
        cells = [{"text": f"{n:,}", "tone": "over" if i == j else ""} for j, n in enumerate(counts)]
        rows.append([f"is {label}", *cells])
    if len(labels) <= MAX_LONG_HEADS:
        head = ["", *(f"predicted {label}" for label in labels)]
    else:
        head = ["predicted:", *labels]
    return {"head": head, "rows": rows}


def _effects(metadata: JsonDict) -> JsonDict:
    """Collect the strongest effects: on the rarer of two classes, or on the five largest."""
    sizes = metadata["classes"]
    explained = sorted(metadata["effects"], key=lambda entry: -sizes.get(str(entry["class"]), 0))
    shown = explained[1:] if len(explained) == 2 else explained[:5]
    by_name = [{effect_name(column): column for column in entry["columns"]} for entry in shown]
    strength: dict[str, float] = {}
    for name, column in (item for columns in by_name for item in columns.items()):
        strength[name] = max(strength.get(name, 0.0), column["strength"])
    sizes_of_effects = [abs(c["effect"]) for columns in by_name for c in columns.values()]
    largest = max(sizes_of_effects, default=0.0) or 1.0
    digits = decimals(largest)
    rows: list[list[Any]] = []
    for name in sorted(strength, key=lambda name: -strength[name])[:MAX_EFFECTS]:
        cells: list[Any] = []
        for columns in by_name:
            effect = columns[name]["effect"] if name in columns else None
            cell = {"text": f"{effect:+.{digits}f}", "bar": effect / largest} if effect else ""
            cells.append(cell)
        rows.append([name, *cells, f"{strength[name]:.{digits}f}"])
    heads = [f"effect on {cut(entry['class'], 24)}" for entry in shown]
    return {
        "head": ["change", *heads, "strength"],
        "rows": rows,
        "explained": explained,
        "shown": len(shown),
    }
