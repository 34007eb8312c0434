"""One page of HTML about a trained model; needs no network and no other file."""

from __future__ import annotations

from typing import Any

import fuzzytwin
from fuzzytwin._utils.document import (
    Block,
    Document,
    Heading,
    Numbers,
    Table,
    Value,
    Words,
    verbatim,
)
from fuzzytwin._utils.html import to_html
from fuzzytwin._utils.text import decimals
from fuzzytwin.doubts import DoubtsDisplay
from fuzzytwin.plot import ValidationSurfaceDisplay
from fuzzytwin.report.doubts_page import base, listed
from fuzzytwin.report.pictures import Pictures
from fuzzytwin.tables.doubts import table_doubts
from fuzzytwin.tables.measures import neglected_class, verdict
from fuzzytwin.tables.training import Trained

MOST_DOUBTFUL = 10
MOST_CLASSES = 20  # in a table of classes by classes
MOST_EFFECTS = 12  # columns
Facts = dict[str, Any]
Cells = list[str | Value]


def report(trained: Trained, command: str, versions: dict[str, str]) -> str:
    """Write the page.

    Parameters
    ----------
    trained : Trained
        With the effects of the columns in its facts.
    command : str
        The command that made it.
    versions : dict of str
        Versions of the packages.
    """
    facts, pictures = trained.facts, Pictures()
    counts = ", ".join(f"{label} ({n:,})" for label, n in list(facts["classes"].items())[:12])
    page = Document(
        verbatim(f"{base(facts['data'])}: predicting {facts['target'] or 'the label'}"),
        verbatim(f"{facts['rows']:,} rows, {len(facts['classes'])} classes: {counts}"),
    )
    page.add(*_score(facts["score"]))
    page.add(*(Words(f"Note: {verbatim(note)}.") for note in facts["notes"]))
    page.add(*_confusion(facts["score"]))
    page.add(*_doubtful(trained, pictures))
    page.add(*_effects(facts))
    page.add(*_search(trained, pictures))
    page.add(*_columns(facts["schema"]["columns"]))
    page.add(*_recipe(facts, command, versions))
    return to_html(page, pictures.drawn)


def _score(score: Facts) -> list[Block]:
    share = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]
    rarest = min(share, key=lambda entry: int(entry["rows"]))
    numbers = [
        ("balanced accuracy", _with_interval(score, "balanced_accuracy")),
        ("accuracy", _with_interval(score, "accuracy")),
        ("accuracy of always naming the largest class", Value(f"{score['baseline']:.3f}")),
        ("ROC AUC", Value(_number(score["roc_auc"]))),
        (
            f"average precision of class {_name(rarest['class'])}",
            Value(
                _number(rarest["average_precision"]), f"chance {rarest['rows'] / score['rows']:.3f}"
            ),
        ),
    ]
    sentence, small = verdict(score), neglected_class(score)
    advice = ""
    if small is not None:
        advice = (
            f" For small classes such as {_name(small)}, try `--class-weight balanced` or "
            "`--scoring balanced_accuracy`."
        )
    rows: list[Cells] = [
        [
            verbatim(entry["class"]),
            f"{entry['rows']:,}",
            _with_interval(entry, "sensitivity"),
            _with_interval(entry, "specificity"),
            _number(entry["precision"]),
            _number(entry["roc_auc"]),
            _number(entry["average_precision"]),
        ]
        for entry in score["per_class"]
    ]
    return [
        Heading("How good it is", short="Score"),
        Numbers(numbers),
        Words(
            verbatim(sentence) + advice,
            kind="warning" if "but" in sentence or "no better" in sentence else "note",
        ),
        Words(
            f"Measured by {score['how']}: whatever is learned, the encoding of the columns and "
            "the choice of parameters included, is learned without the rows that it is measured "
            "on. Intervals are at 95 %."
        ),
        Table(
            "Sensitivity: the share of a class's rows that is found. Specificity: the share of "
            "the other rows that is not taken for it. Precision: the share that is right among "
            "the rows predicted as the class.",
            ["class", "rows", "sensitivity", "specificity", "precision", "ROC AUC",
             "average precision"],
            rows,
        ),
    ]  # fmt: skip


def _confusion(score: Facts) -> list[Block]:
    labels = score["classes"]
    if len(labels) > MOST_CLASSES:
        return []
    rows: list[Cells] = [
        [
            f"is {_name(label)}",
            *(Value(f"{n:,}", tone="over" if i == j else "plain") for j, n in enumerate(counts)),
        ]
        for i, (label, counts) in enumerate(zip(labels, score["confusion"], strict=True))
    ]
    head = ["", *(f"predicted {_name(label)}" for label in labels)]
    return [Heading("Where it is right and wrong", short="Confusion"), Table("", head, rows)]


def _doubtful(trained: Trained, pictures: Pictures) -> list[Block]:
    if trained.memberships is None:
        return []
    facts = trained.facts
    found = table_doubts(facts["data"], facts["target"], trained.rows, trained.model)
    blocks, report = listed(found, MOST_DOUBTFUL), found.report
    if len(report.classes) <= 8 and report.doubtful.any():
        pictures.draw(
            "degrees",
            lambda canvas: DoubtsDisplay(report, 0).plot(canvas.subplots()),
            (7.5, 0.8 + 1.05 * len(report.classes)),
        )
        blocks += pictures.figure("degrees", "Degrees in the own label, by class",
                                  "How well the rows of each class fit their label.")  # fmt: skip
    return blocks


def _effects(facts: Facts) -> list[Block]:
    explained, more = facts["effects"], ""
    if len(explained) == 2:
        shown = explained[1:]
        more = f" Effects on class {verbatim(explained[0]['class'])} are the opposite."
    else:
        sizes = facts["classes"]
        shown = sorted(explained, key=lambda entry: -sizes.get(str(entry["class"]), 0))[:5]
        if len(explained) > len(shown):
            more = f" Of {len(explained)} classes the {len(shown)} largest are shown."
    known = [{column["name"]: column for column in entry["columns"]} for entry in shown]
    strength: dict[str, float] = {}
    for name, column in (item for columns in known for item in columns.items()):
        strength[name] = max(strength.get(name, 0.0), column["strength"])
    top = max(abs(c["effect"]) for columns in known for c in columns.values()) or 1.0
    digits = decimals(top)
    rows: list[Cells] = []
    for name in sorted(strength, key=lambda name: -strength[name])[:MOST_EFFECTS]:
        cells: Cells = []
        for columns in known:
            effect = columns[name]["effect"] if name in columns else None
            if effect is None:
                cells.append(Value(""))
            else:
                cells.append(Value(f"{effect:+.{digits}f}", bar=effect / top))
        together = known[0][name].get("correlation") if len(known) == 1 else None
        beside = [] if together is None else [f"{together:+.2f}"]
        rows.append([verbatim(name), *cells, f"{strength[name]:.{digits}f}", *beside])
    heads = (f"effect on {_name(entry['class'])}" for entry in shown)
    vague = tuple(
        f"Vagueness of class {verbatim(entry['class'])}: {entry['vagueness']:.2f} of the margin."
        for entry in explained[:12]
        if entry["vagueness"] > 0
    )
    return [
        Heading("What drives the prediction", short="Effects"),
        Words(
            "Effect: how much the mean membership in a class changes when a column rises by one "
            "standard deviation and the others stay as they are; blue is towards the class, "
            "orange away from it. Strength: the same without regard to the direction; where it "
            "is much larger, the direction depends on the other columns."
            + (
                " Correlation: of the column with the membership, as columns move together in the "
                "data; its sign may differ from the effect's where columns say nearly the same."
                if len(rows[0]) > 3
                else ""
            )
            + more
        ),
        Table("", ["column", *heads, "strength", "correlation"][: len(rows[0])], rows),
        *([Words(bullets=vague)] if vague else []),
    ]


def _search(trained: Trained, pictures: Pictures) -> list[Block]:
    search = trained.search
    if search is None:
        return []
    pictures.draw(
        "search",
        lambda canvas: ValidationSurfaceDisplay.from_estimator(search, ax=canvas.subplots()),
        (5.5, 4.2),
    )
    count = len(search.cv_results_["params"])
    return [
        Heading("What the search tried", short="Search"),
        Words(f"{count:,} settings were compared by {trained.facts['scoring'].replace('_', ' ')}."),
        *pictures.figure("search", "Score of the settings that were tried",
                         "Mean score over the values of C, at the best other settings."),
    ]  # fmt: skip


def _columns(columns: list[Facts]) -> list[Block]:
    rows: list[Cells] = [
        [
            verbatim(c["name"]),
            Value(verbatim(c["kind"]), tone="words"),
            f"{c['distinct']:,}",
            f"{c['missing']:,}",
            Value(verbatim(c["note"]), tone="words"),
        ]
        for c in columns[:200]
    ]
    more = [Words(f"... and {len(columns) - 200:,} more.")] if len(columns) > 200 else []
    head = ["column", "taken as", "values", "missing", ""]
    return [Heading("What became of the columns", short="Columns"), Table("", head, rows), *more]


def _recipe(facts: Facts, command: str, versions: dict[str, str]) -> list[Block]:
    chosen = ", ".join(f"{name} = {_value(value)}" for name, value in facts["parameters"].items())
    if facts["landmarks"] is not None:
        chosen += f"; {facts['landmarks']:,} landmarks"
    how = "chosen by cross-validation" if facts["tuned"] else "as given"
    packages = ", ".join(f"{name} {v}" for name, v in versions.items() if name != "fuzzytwin")
    return [
        Heading("How to make it again", short="Again"),
        Words(f"`{verbatim(command)}`"),
        Words(f"Parameters, {how}: {verbatim(chosen)}."),
        Words(f"fuzzytwin {fuzzytwin.__version__}, {packages}."),
    ]


def _name(label: object) -> str:
    """Give the name of a class for a narrow place."""
    text = str(label)
    return verbatim(text if len(text) <= 24 else f"{text[:21]}...")


def _with_interval(entry: Facts, name: str) -> Value:
    interval = entry[f"{name}_interval"]
    if interval is None:
        return Value("-")
    low, high = interval
    return Value(f"{entry[name]:.3f}", f"{low:.3f} to {high:.3f}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "(" + ", ".join(_value(item) for item in value) + ")"
    return str(value)
