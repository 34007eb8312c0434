"""One page of HTML about a trained model; needs no network and no other file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fuzzytwin
from fuzzytwin._utils.document import (
    Block,
    Document,
    Figure,
    Heading,
    Numbers,
    Table,
    Value,
    Words,
    verbatim,
)
from fuzzytwin._utils.html import to_html
from fuzzytwin.report.doubts import doubtful_rows, own_degrees
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
    facts, pictures = trained.facts, _Pictures()
    counts = ", ".join(f"{label} ({n:,})" for label, n in list(facts["classes"].items())[:12])
    page = Document(
        verbatim(f"{_base(facts['data'])}: predicting {facts['target'] or 'the label'}"),
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


def _doubtful(trained: Trained, pictures: _Pictures) -> list[Block]:
    if trained.memberships is None:
        return []
    rows, facts = trained.rows, trained.facts
    classes, codes = np.unique(rows.y, return_inverse=True)
    degrees = own_degrees(trained.memberships, codes)
    own = degrees[np.arange(len(codes)), codes]
    doubtful = doubtful_rows(degrees, codes)
    text = _base(facts["data"]).lower().endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz", ".xlsx"))
    index = np.asarray(getattr(rows.X, "index", np.arange(len(codes)))) + (2 if text else 1)
    counted = (
        "Rows are numbered as a spreadsheet shows them: the names of the columns are row 1."
        if text
        else "Rows are counted from 1."
    )
    named = rows.names is not None
    head = ["row", *([verbatim(rows.id)] if named else []), "label", "fits better",
            "degree in its label"]  # fmt: skip
    lines: list[Cells] = [
        [
            str(index[i]),
            *([Value(verbatim(rows.names[i]), tone="words")] if rows.names is not None else []),
            Value(verbatim(rows.y[i]), tone="words"),
            Value(verbatim(classes[degrees[i].argmax()]), tone="words"),
            f"{own[i]:.2f}",
        ]
        for i in doubtful[:MOST_DOUBTFUL]
    ]
    if not lines:
        return [Heading("Rows to look at first", short="Doubtful rows"),
                Words("Every row fits its own label best.")]  # fmt: skip
    blocks: list[Block] = [
        Heading("Rows to look at first", short="Doubtful rows"),
        Words(
            f"{len(doubtful):,} of {len(codes):,} rows fit another label better than their own, by "
            "a model that was trained without them: wrong labels, or special cases. Each row is "
            f"compared with what is usual for its class. {counted}"
        ),
        Table("", head, lines),
    ]
    if len(classes) <= 8:
        shown = rows.names if rows.names is not None else index
        pictures.draw(
            "degrees",
            lambda plot, ax: plot.MembershipDisplay(own, rows.y, shown, n_doubtful=5).plot(ax),
            (7.5, 1.2 + 1.05 * len(classes)),
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
    rows: list[Cells] = []
    for name in sorted(strength, key=lambda name: -strength[name])[:MOST_EFFECTS]:
        cells: Cells = []
        for columns in known:
            effect = columns[name]["effect"] if name in columns else None
            cells.append(Value("") if effect is None else Value(f"{effect:+.3f}", bar=effect / top))
        rows.append([verbatim(name), *cells, f"{strength[name]:.3f}"])
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
            f"is much larger, the direction depends on the other columns.{more}"
        ),
        Table("", ["column", *heads, "strength"], rows),
        *([Words(bullets=vague)] if vague else []),
    ]


def _search(trained: Trained, pictures: _Pictures) -> list[Block]:
    search = trained.search
    if search is None:
        return []
    pictures.draw(
        "search",
        lambda plot, ax: plot.ValidationSurfaceDisplay.from_estimator(search, ax=ax),
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


class _Pictures:
    """Drawings for a page, where matplotlib is installed."""

    def __init__(self) -> None:
        self.drawn: dict[str, bytes] = {}

    def draw(
        self, name: str, draw: Callable[[Any, Any], object], size: tuple[float, float]
    ) -> None:
        try:
            from matplotlib.figure import Figure as Canvas

            from fuzzytwin import plot
        except ImportError:
            return
        canvas, buffer = Canvas(figsize=size, layout="constrained"), io.BytesIO()
        draw(plot, canvas.subplots())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")  # names in other scripts
            canvas.savefig(buffer, format="png", dpi=150)
        self.drawn[name] = buffer.getvalue()

    def figure(self, name: str, alt: str, caption: str) -> list[Block]:
        """Give the figure, or say what it needs."""
        if name in self.drawn:
            return [Figure(name, alt, caption)]
        return [Words("(Pictures need matplotlib.)")]


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


def _base(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]
