"""The page about a trained model. A section is a block of ``templates/model.html``."""

from __future__ import annotations

import os
from typing import Any

from fuzzytwin._utils.text import cut, decimals
from fuzzytwin.apps.report import picture, render
from fuzzytwin.apps.report.doubts_page import degrees_picture, doubtful_rows
from fuzzytwin.apps.study import Study, is_calibrated
from fuzzytwin.plot import ValidationSurfaceDisplay

MOST_DOUBTFUL = 10
MOST_CLASSES = 20  # in a table of classes by classes
MOST_EFFECTS = 12  # columns
Facts = dict[str, Any]


def model_page(study: Study, command: str) -> str:
    """Write the page; `command` is the one that made it."""
    facts, search = study.facts, None if study.streamed else study.fitted
    score = facts["score"]
    doubtful = None if study.streamed else doubtful_rows(study, MOST_DOUBTFUL)
    drawn = doubtful and doubtful["rows"] and len(study.doubts.classes) <= 8
    present = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]

    def surface(canvas: Any) -> None:
        ValidationSurfaceDisplay.from_estimator(search, ax=canvas.subplots())

    tried = getattr(search, "cv_results_", {"params": ()})["params"]
    return render(
        "model.html",
        file=os.path.basename(facts["data"]),
        facts=facts,
        score=score,
        rarest=min(present, key=lambda entry: int(entry["rows"])),
        value="probability" if is_calibrated(study.model[-1]) else "membership",
        confusion=_confusion(score),
        doubtful=doubtful,
        degrees=degrees_picture(study) if drawn else None,
        effects=_effects(facts),
        tried=len(tried),
        surface=picture(surface, (5.5, 4.2)) if tried else "",
        members=[
            [member.name, f"{member.weight:.2f}", f"{member.error:.3f}"]
            for member in getattr(study.model[-1], "members_", ())
        ],
        parameters=[(name, _value(value)) for name, value in facts["parameters"].items()],
        command=command,
    )


def _confusion(score: Facts) -> Facts | None:
    labels = [cut(label, 24) for label in score["classes"]]
    if len(labels) > MOST_CLASSES:
        return None
    rows = [
        [f"is {label}"]
        + [{"text": f"{n:,}", "tone": "over" if i == j else ""} for j, n in enumerate(counts)]
        for i, (label, counts) in enumerate(zip(labels, score["confusion"], strict=True))
    ]
    return {"head": ["", *(f"predicted {label}" for label in labels)], "rows": rows}


def _effects(facts: Facts) -> Facts:
    """Collect the strongest effects: on the rarer of two classes, or on the five largest."""
    sizes = facts["classes"]
    explained = sorted(facts["effects"], key=lambda entry: -sizes.get(str(entry["class"]), 0))
    shown = explained[1:] if len(explained) == 2 else explained[:5]
    known = [{column["name"]: column for column in entry["columns"]} for entry in shown]
    strength: dict[str, float] = {}
    for name, column in (item for columns in known for item in columns.items()):
        strength[name] = max(strength.get(name, 0.0), column["strength"])
    top = max(abs(c["effect"]) for columns in known for c in columns.values()) or 1.0
    digits = decimals(top)
    together = len(known) == 1 and all("correlation" in c for c in known[0].values())
    rows = []
    for name in sorted(strength, key=lambda name: -strength[name])[:MOST_EFFECTS]:
        effects = [columns[name]["effect"] if name in columns else None for columns in known]
        cells: list[Any] = [
            "" if effect is None else {"text": f"{effect:+.{digits}f}", "bar": effect / top}
            for effect in effects
        ]
        beside = [f"{known[0][name]['correlation']:+.2f}"] if together else []
        rows.append([name, *cells, f"{strength[name]:.{digits}f}", *beside])
    heads = [f"effect on {cut(entry['class'], 24)}" for entry in shown]
    return {
        "head": ["column", *heads, "strength", *(["correlation"] if together else [])],
        "rows": rows,
        "explained": explained,
        "shown": len(shown),
        "vague": [entry for entry in explained[:12] if entry["vagueness"] > 0],
    }


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "(" + ", ".join(_value(item) for item in value) + ")"
    return str(value)
