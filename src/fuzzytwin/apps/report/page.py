"""The page about a trained model. A section is a block of ``templates/model.html``."""

from __future__ import annotations

from typing import Any

from fuzzytwin._utils.text import decimals
from fuzzytwin.apps.report import base, packages, picture, render, short
from fuzzytwin.apps.report.doubts_page import degrees_picture, doubtful_rows
from fuzzytwin.apps.study import Study, is_calibrated
from fuzzytwin.plot import ValidationSurfaceDisplay

MOST_DOUBTFUL = 10
MOST_CLASSES = 20  # in a table of classes by classes
MOST_EFFECTS = 12  # columns
MOST_COLUMNS = 200
Facts = dict[str, Any]


def model_page(study: Study, command: str) -> str:
    """Write the page; `command` is the one that made it."""
    facts = study.facts
    score, sizes = facts["score"], facts["classes"]
    counts = ", ".join(f"{label} ({n:,})" for label, n in list(sizes.items())[:12])
    doubtful = None if study.streamed else doubtful_rows(study, MOST_DOUBTFUL)
    drawn = doubtful and doubtful["rows"] and len(study.doubts.classes) <= 8
    return render(
        "model.html",
        f"{base(facts['data'])}: predicting {facts['target'] or 'the label'}",
        f"{facts['rows']:,} rows, {len(sizes)} classes: {counts}",
        facts=facts,
        numbers=_numbers(score),
        value="probability" if is_calibrated(study.model[-1]) else "membership",
        per_class=[_class_line(entry) for entry in score["per_class"]],
        confusion=_confusion(score),
        doubtful=doubtful,
        degrees=degrees_picture(study, 8) if drawn else None,
        effects=_effects(facts),
        search=_search(study),
        members=[
            [member.name, f"{member.weight:.2f}", f"{member.error:.3f}"]
            for member in getattr(study.model[-1], "members_", ())
        ],
        columns=[
            [c["name"], c["kind"], f"{c['distinct']:,}", f"{c['missing']:,}", c["note"]]
            for c in facts["schema"]["columns"][:MOST_COLUMNS]
        ],
        command=command,
        made=_recipe(facts),
        packages=packages(),
    )


def _numbers(score: Facts) -> list[tuple[str, Any]]:
    present = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]
    rarest = min(present, key=lambda entry: int(entry["rows"]))
    chance = f"chance {rarest['rows'] / score['rows']:.3f}"
    return [
        ("balanced accuracy", _with_interval(score, "balanced_accuracy")),
        ("accuracy", _with_interval(score, "accuracy")),
        ("accuracy of always naming the largest class", f"{score['baseline']:.3f}"),
        *([("log loss", f"{score['log_loss']:.3f}")] if "log_loss" in score else []),
        ("ROC AUC", _number(score["roc_auc"])),
        (
            f"average precision of class {short(rarest['class'])}",
            {"text": _number(rarest["average_precision"]), "small": chance},
        ),
    ]


def _class_line(entry: Facts) -> list[Any]:
    return [
        entry["class"],
        f"{entry['rows']:,}",
        _with_interval(entry, "sensitivity"),
        _with_interval(entry, "specificity"),
        *(_number(entry[name]) for name in ("precision", "roc_auc", "average_precision")),
    ]


def _confusion(score: Facts) -> Facts | None:
    labels = score["classes"]
    if len(labels) > MOST_CLASSES:
        return None
    rows = [
        [f"is {short(label)}"]
        + [{"text": f"{n:,}", "tone": "over" if i == j else ""} for j, n in enumerate(counts)]
        for i, (label, counts) in enumerate(zip(labels, score["confusion"], strict=True))
    ]
    return {"head": ["", *(f"predicted {short(label)}" for label in labels)], "rows": rows}


def _effects(facts: Facts) -> Facts:
    """Collect the strongest effects: on the rarer of two classes, or on the five largest."""
    explained, sizes, more = facts["effects"], facts["classes"], ""
    explained = sorted(explained, key=lambda entry: -sizes.get(str(entry["class"]), 0))
    shown = explained[:5]
    if len(explained) == 2:
        shown, more = explained[1:], f"Effects on class {explained[0]['class']} are the opposite."
    elif len(explained) > len(shown):
        more = f"Of {len(explained)} classes the {len(shown)} largest are shown."
    known = [{column["name"]: column for column in entry["columns"]} for entry in shown]
    strength: dict[str, float] = {}
    for name, column in (item for columns in known for item in columns.items()):
        strength[name] = max(strength.get(name, 0.0), column["strength"])
    top = max(abs(c["effect"]) for columns in known for c in columns.values()) or 1.0
    digits = decimals(top)
    together = len(known) == 1 and all("correlation" in c for c in known[0].values())
    rows = []
    for name in sorted(strength, key=lambda name: -strength[name])[:MOST_EFFECTS]:
        found = [columns[name]["effect"] if name in columns else None for columns in known]
        cells: list[Any] = [
            "" if effect is None else {"text": f"{effect:+.{digits}f}", "bar": effect / top}
            for effect in found
        ]
        beside = [f"{known[0][name]['correlation']:+.2f}"] if together else []
        rows.append([name, *cells, f"{strength[name]:.{digits}f}", *beside])
    heads = [f"effect on {short(entry['class'])}" for entry in shown]
    return {
        "head": ["column", *heads, "strength", *(["correlation"] if together else [])],
        "rows": rows,
        "more": more,
        "vague": [
            f"Vagueness of class {entry['class']}: {entry['vagueness']:.2f} of the margin."
            for entry in explained[:12]
            if entry["vagueness"] > 0
        ],
    }


def _search(study: Study) -> Facts | None:
    search = None if study.streamed else study.fitted
    if not hasattr(search, "cv_results_"):
        return None

    def draw(canvas: Any) -> None:
        ValidationSurfaceDisplay.from_estimator(search, ax=canvas.subplots())

    return {"count": len(search.cv_results_["params"]), "picture": picture(draw, (5.5, 4.2))}


def _recipe(facts: Facts) -> str:
    chosen = ", ".join(f"{name} = {_value(value)}" for name, value in facts["parameters"].items())
    if facts["landmarks"] is not None:
        chosen += f"; {facts['landmarks']:,} landmarks"
    how = "chosen by cross-validation" if facts["tuned"] else "as given"
    if facts["model"] == "committee":
        how = "found by leaving out each row"
    return f"Parameters, {how}: {chosen}."


def _with_interval(entry: Facts, name: str) -> Any:
    interval = entry[f"{name}_interval"]
    if interval is None:
        return "-"
    return {"text": f"{entry[name]:.3f}", "small": f"{interval[0]:.3f} to {interval[1]:.3f}"}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "(" + ", ".join(_value(item) for item in value) + ")"
    return str(value)
