"""Output of the commands: text and tables, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.extras import EXTRAS, extras, install_command, versions
from fuzzytwin._utils.text import count, cut, decimals, listed, printable

if TYPE_CHECKING:
    from fuzzytwin.experiment import Experiment

JsonDict = dict[str, Any]
MIN_WEIGHT = 0.005  # of the members that are listed
MAX_COLUMNS = 24  # that are listed one by one, even without a note
MAX_LINES = 40  # about columns
MAX_NAMED = 10  # columns of a kind
MAX_REPEATED_NOTE = 40  # characters of a note that is given for several columns
# About a model file with landmarks.
LANDMARK_WARNING = (
    "{:,} landmarks: scaled training rows or means of a few, with their classes. Protect the file "
    "like the table."
)


def new_console() -> Any:
    """Make a console on standard output."""
    from rich.console import Console

    return Console(soft_wrap=False, highlight=False)


def echo(*lines: str) -> None:
    """Print lines, which may contain markup. Escape names from tables with `short`."""
    screen = new_console()
    for line in lines:
        screen.print(printable(line))


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    tight: bool = False,
) -> None:
    """Print a table. Columns whose heading ends in ">" are aligned to the right."""
    from rich import box
    from rich.table import Table

    grid = Table(
        box=box.SIMPLE_HEAD, title=printable(title), title_justify="left", title_style="bold",
        show_edge=False, pad_edge=False, show_header=any(heads),
        padding=(0, 1, 0, 0) if tight else (0, 1),
    )  # fmt: skip
    for head in heads:
        justify: Any = "right" if head.endswith(">") else "left"
        grid.add_column(printable(head.rstrip(">")), justify=justify)
    for row in rows:
        grid.add_row(*map(printable, row))
    new_console().print(grid)


def print_json(page: object) -> None:
    """Print a value as JSON, with null for numbers that are not finite."""
    text = json.dumps(page, default=lambda x: x.item() if hasattr(x, "item") else str(x))
    print(json.dumps(json.loads(text, parse_constant=lambda name: None), indent=1))


def short(label: object, width: int = 1000) -> str:
    """Cut a text to a width, and escape it for rich."""
    from rich.markup import escape

    return escape(cut(label, width))


# A model


def trained(metadata: JsonDict, out: Path, report: Path | None) -> None:
    """Show the result of `train`, how columns were used, and commands to try next."""
    score = metadata["score"]
    rows = f"{metadata['rows']:,} rows: {_class_counts(metadata)}"
    echo(short(rows, 400), f"\nMeasured by {score['how']}:")
    scores(score)
    thresholds(metadata["thresholds"])
    missed = score["missed_class"]
    if missed is not None and metadata["thresholds"] is None:
        echo(f"\nTo find more rows of class {short(missed, 40)}, use --class-weight balanced.")
    if metadata["notes"]:
        echo("", *(f"Note: {short(note)}." for note in metadata["notes"]))
    echo("")
    columns(metadata["schema"]["columns"])
    parameters = _parameters(metadata, members=False)
    table(["", ""], [(name, short(text, 60)) for name, text in parameters])
    echo(f"\nModel: [bold]{short(out)}[/]")
    if report is not None:
        echo(f"Report: [bold]{short(report)}[/]")
    commands = f"predict {out} NEW-DATA", f"explain {out}", f"export {out} {out.stem}.onnx"
    echo("Try next:", *(short(f"  fuzzytwin {command}") for command in commands))


def info(model: Path | None, page: JsonDict) -> None:
    """Describe a model file, or this installation."""
    if model is None:
        lines = list(versions().items())
        for extra, version in extras().items():
            text = f"{EXTRAS[extra]} {version}"
            if version is None:
                text = f"not installed: {install_command(extra)}"
            lines.append((f"extra {extra}", text))
        lines.append(("bundled datasets", ", ".join(page["datasets"])))
    else:
        lines = [
            ("file", str(model)),
            ("saved as", f"{page.get('model')}, {page.get('saved')}"),
            ("versions", _as_text(page.get("versions"))),
        ]
        if page.get("landmarks"):
            lines.append(("training rows", LANDMARK_WARNING.format(page["landmarks"])))
        metadata = page.get("metadata")
        try:
            lines += list(_training(metadata))
        except (KeyError, TypeError, ValueError, AttributeError):  # not written by train
            metadata = dict(metadata) if isinstance(metadata, dict) else {}
            schema = metadata.pop("schema", None)
            lines += [(str(name), _as_text(value)) for name, value in metadata.items()]
            lines += list(_columns_by_kind(schema))
    table(["", ""], [(short(name, 30), short(text, 400)) for name, text in lines])


def _training(metadata: Any) -> Iterator[tuple[str, str]]:
    score = metadata["score"]
    low, high = score["balanced_accuracy_interval"]
    yield "data", f"{metadata['data']}, {metadata['rows']:,} rows, target {metadata['target']}"
    yield "classes", _class_counts(metadata)
    yield "balanced accuracy", f"{score['balanced_accuracy']:.3f} ({low:.3f} to {high:.3f})"
    yield "accuracy", f"{score['accuracy']:.3f}"
    yield "measured by", score["how"]
    yield from _parameters(metadata, members=True)
    yield from _columns_by_kind(metadata["schema"])


def _columns_by_kind(schema: JsonDict | None) -> Iterator[tuple[str, str]]:
    """Yield the columns of a schema, a line for each kind."""
    for kind, names in _kinds([] if schema is None else schema["columns"]).items():
        yield f"{kind} columns", listed(names, MAX_NAMED)


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)


def _class_counts(metadata: JsonDict) -> str:
    return ", ".join(f"{label} ({n:,})" for label, n in metadata["classes"].items())


def _parameters(metadata: JsonDict, *, members: bool) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a model, and the members of a committee, a line for each."""
    chosen = metadata["parameters"]
    yield "model", f"committee of {len(chosen['members'])}, {metadata['landmarks']:,} landmarks"
    for member in chosen["members"] if members else ():
        if member["weight"] >= MIN_WEIGHT:
            yield "", f"{member['name']}: weight {member['weight']:.2f}"
    if metadata["degree"]:
        yield "membership", str(metadata["degree"])
    if "noise" in chosen:
        yield "label noise", f"{chosen['noise']}: probabilities are those of the true label"
    if "class_weight" in chosen:
        yield "class weight", str(chosen["class_weight"])


def _kinds(columns: Iterable[JsonDict]) -> dict[str, list[str]]:
    """Group the names of columns by kind."""
    kinds: dict[str, list[str]] = {}
    for column in columns:
        kinds.setdefault(column["kind"], []).append(column["name"])
    return kinds


def columns(columns: list[JsonDict]) -> None:
    """Show how columns were used. Of many columns, those without a note share a line."""
    from fuzzytwin.experiment._words import column_note

    shown = columns
    if len(columns) > MAX_COLUMNS:
        shown = [column for column in columns if column_note(column)]
    if shown:
        lines = list(_column_lines(shown))
        table(["column", "kind", "values>", "missing>", ""], lines[:MAX_LINES])
        if len(lines) > MAX_LINES:
            echo(f"... and {len(lines) - MAX_LINES:,} more columns with a note (--report).")
    for kind, names in _kinds(column for column in columns if column not in shown).items():
        n_columns = count(len(names), "column")
        echo(short(f"{n_columns} of kind {kind}: {listed(names, MAX_NAMED)}", 400))
    echo("")


def _column_lines(columns: list[JsonDict]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each column; in wide tables for neighbours that were treated alike."""
    from fuzzytwin.experiment._words import column_note

    noted: dict[str, str] = {}  # the first column of each long note, which is given only once
    runs = [[column] for column in columns]
    if len(columns) > MAX_COLUMNS:
        runs = [list(alike) for _, alike in groupby(columns, key=_treatment)]
    for run in runs:
        first = run[0]
        n_values = sorted(column["distinct"] for column in run)
        values = " to ".join(f"{n:,}" for n in dict.fromkeys([n_values[0], n_values[-1]]))
        n_missing = sum(column["missing"] for column in run)
        name = cut(listed([column["name"] for column in run], 1), 26)
        note = column_note(first)
        if len(note) > MAX_REPEATED_NOTE:
            same = noted.setdefault(note.replace(first["name"], ""), first["name"])
            note = note if same == first["name"] else f"as {cut(same, 26)}"
        yield short(name), first["kind"], values, f"{n_missing:,}", short(note)


def _treatment(column: JsonDict) -> tuple[str, list[str]]:
    """Return the kind of a column and the codes of its findings."""
    return column["kind"], [finding["code"] for finding in column["findings"]]


def scores(score: JsonDict) -> None:
    """Show the scores of `fuzzytwin.experiment._metrics.measure`."""
    from fuzzytwin.experiment._words import verdict_text

    low, high = score["balanced_accuracy_interval"]
    log_loss = f", log loss {score['log_loss']:.3f}" if "log_loss" in score else ""
    area = ""
    if "roc_auc_interval" in score and score["roc_auc"] is not None:
        area = "ROC AUC {:.3f} ({:.3f} to {:.3f}), ".format(
            score["roc_auc"], *score["roc_auc_interval"]
        )
    echo(
        f"balanced accuracy [bold]{score['balanced_accuracy']:.3f}[/] ({low:.3f} to {high:.3f}), "
        f"accuracy {score['accuracy']:.3f}{log_loss}",
        f"{area}majority-class baseline: accuracy {score['baseline']:.3f}",
        short(verdict_text(score)) + "\n",
    )
    measures = {"specificity": "specificity", "precision": "precision", "roc_auc": "ROC\nAUC",
                "average_precision": "avg.\nprec."}  # fmt: skip
    if new_console().width < 78:
        measures = {}
    rows = []
    for entry in score["per_class"][:30]:
        share = _number(entry["sensitivity"], entry["sensitivity_interval"])
        cells = (_number(entry[name]) for name in measures)
        rows.append((short(entry["class"], 14), f"{entry['rows']:,}", share, *cells))
    heads = (f"{head}>" for head in measures.values())
    table(["class", "rows>", "sensitivity (95%)>", *heads], rows, tight=True)


def thresholds(chosen: JsonDict | None) -> None:
    """Show scores at thresholds for the probability of a class."""
    if chosen is None:
        return
    label = short(chosen["class"], 20)
    rows = []
    for entry in chosen["scores"]:
        sensitivity, ppv = (
            _number(entry[name], entry[f"{name}_interval"]) for name in ("sensitivity", "ppv")
        )
        plain = (_number(entry[name]) for name in ("specificity", "npv"))
        rows.append(
            (f"{entry['threshold']:.3g}", f"{entry['called']:.0%}", sensitivity, ppv, *plain)
        )
    heads = ["threshold>", "rows above>", "sensitivity (95%)>", "PPV (95%)>", "specificity>",
             "NPV>"]  # fmt: skip
    echo("")
    table(heads, rows, title=f"Predicting {label} if its probability is at least a threshold",
          tight=True)  # fmt: skip


def _number(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Format a score, and its interval if it has one."""
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if interval is None else " ({:.2f}-{:.2f})".format(*interval))


def evaluated(score: JsonDict, data: Path) -> None:
    """Show the result of `evaluate`."""
    echo(count(score["rows"], "row"))
    scores(score)
    labels = score["classes"]
    if len(labels) <= 8:
        echo("")
        table(
            ["", *(f"predicted {short(label, 10)}>" for label in labels)],
            (
                (f"is {short(label, 14)}", *(f"{n:,}" for n in row))
                for label, row in zip(labels, score["confusion"], strict=True)
            ),
        )
    thresholds(score["thresholds"])
    if score["notes"]:
        echo("", *(f"Note: {short(note)}." for note in score["notes"]))
    if score["unknown_labels"]:
        names = short(", ".join(score["unknown_labels"][:5]), 200)
        echo(f"Labels that were not in training: {names}.")
    if score["trained_on_this"]:
        echo(f"Warning: the model was trained on a file named {short(data.name)}. Scores on "
            "training rows are optimistic.")  # fmt: skip


def explained(
    shown: list[JsonDict],
    others: list[JsonDict],
    limit: int,
    value: str,
) -> None:
    """Show the effects on classes. `value` is "probability" or "membership"."""
    from fuzzytwin.experiment._words import effect_name

    fuzzy = any(entry["vagueness"] > 0 for entry in shown)
    for entry in shown:
        vagueness = f", vagueness {entry['vagueness']:.2f}" if fuzzy else ""
        effects = entry["columns"][:limit]
        largest = max((abs(column["effect"]) for column in effects), default=0.0) or 1.0
        digits = decimals(largest)
        rows = []
        for column in effects:
            effect = column["effect"]
            color = "green" if effect > 0 else "yellow"
            bar = "■" * round(10 * abs(effect) / largest)
            rows.append([
                short(effect_name(column, 38)),
                f"{effect:+.{digits}f}",
                f"[{color}]{bar}[/]",
                f"{column['strength']:.{digits}f}",
                f"{column['correlation']:+.2f}",
                *([f"{column['vagueness']:.3f}"] if fuzzy else []),
            ])  # fmt: skip
        heads = ["", "effect>", "", "strength>", "corr.>", *(["vagueness>"] if fuzzy else [])]
        table(heads, rows, title=f"class {short(entry['class'], 30)}{vagueness}")
    if len(others) == len(shown) == 1 and not fuzzy:
        echo(f"Effects on class {short(others[0]['class'], 40)} are the opposite.")
    echo(
        f"Effect: change of the mean {value} of the class if a number rises by one standard "
        "deviation (in brackets), or if a category has this value instead of the others. Other "
        "columns stay as they are. Strength: mean size of the change, whatever its direction. A "
        "rare value has a low strength. "
        f"Corr.: correlation of the column with the {value} of the class."
        + (" Vagueness: width of the planes, in units of the margin." if fuzzy else "")
    )


# Label issues


def label_issues(experiment: Experiment, limit: int, out: Path | None, report: Path | None) -> None:
    """Show the label issues, lowest label quality first."""
    from fuzzytwin.tables._formats import numbering

    summary: Any = experiment.label_issues_summary
    frame = experiment.label_issues_frame()
    frame = frame[frame["is_label_issue"]]
    headline = summary.headline() if hasattr(summary, "headline") else summary.summary()
    echo(short(headline), experiment.acceptance_text)
    if len(frame):
        echo("")
        ids = [short(name, 20) for name in frame.columns[1:-5]]
        rows = (
            (str(row), *(short(name, 24) for name in names), short(label, 20),
             "-" if suggested == label else short(suggested, 20), f"{quality:.2f}")
            for row, *names, label, suggested, quality, _, _
            in frame.head(limit).itertuples(index=False)
        )  # fmt: skip
        table(["row>", *ids, "given label", "suggested", "quality>"], rows)
        if len(frame) > limit:
            echo(f"... and {len(frame) - limit:,} more (--limit, --out).")
        echo(f"Quality: probability that the label is correct. {numbering(experiment.path)}")
    if (annotators := getattr(summary, "annotators", None)) is not None:
        echo("")
        pairs = zip(annotators.names, annotators.reliability, strict=True)
        table(
            ["annotator", "estimated accuracy>"],
            ((short(name, 40), f"{share:.0%}") for name, share in pairs),
        )
        sampled = ", ".join(map(str, experiment.numbers[summary.sample_for_review(limit)]))
        echo(f"Rows to label again first: {sampled}.")
    if experiment.notes:
        echo("", *(f"Note: {short(text)}." for text in experiment.notes))
    echo("")
    columns(experiment.rows.schema.to_dict()["columns"])
    if hasattr(summary, "method"):
        echo(f"Method: {short(summary.method)}.")
    if out is not None:
        echo(f"\nAll rows: [bold]{short(out)}[/]")
    if report is not None:
        echo(f"Report: [bold]{short(report)}[/]")
