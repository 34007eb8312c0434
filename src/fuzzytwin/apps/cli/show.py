"""What the commands print: sentences and tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.extras import EXTRAS, extras, install_command, versions
from fuzzytwin._utils.text import count, cut, cut_middle, decimals

if TYPE_CHECKING:
    from fuzzytwin.apps.study import Study

Facts = dict[str, Any]
# Of a model file with landmarks.
HOLDS_ROWS = (
    "{:,} landmarks: rows of the training table, scaled, or means of a few, with their classes. "
    "Treat the file as you treat the table."
)


def new_console() -> Any:
    """Make a console on standard output."""
    from rich.console import Console

    return Console(soft_wrap=False, highlight=False)


def say(*lines: str) -> None:
    """Print lines, which may have markup; what users named is escaped by `short`."""
    screen = new_console()
    for line in lines:
        screen.print(line)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    foot: Sequence[str] = (),
    tight: bool = False,
) -> None:
    """Print a table; heads that end in ">" stand over numbers. A tight one fits more columns."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold",
                 show_edge=False, pad_edge=False, show_header=any(heads),
                 padding=(0, 1, 0, 0) if tight else (0, 1))  # fmt: skip
    for head in heads:
        made.add_column(head.rstrip(">"), justify="right" if head.endswith(">") else "left")
    for row in rows:
        made.add_row(*row)
    if foot:
        made.add_section()
        made.add_row(*foot)
    new_console().print(made)


def print_json(page: object) -> None:
    """Print a value as JSON, with null for what is not a finite number: JSON has no word for it."""
    words = json.dumps(page, default=lambda x: x.item() if hasattr(x, "item") else str(x))
    print(json.dumps(json.loads(words, parse_constant=lambda name: None), indent=1))


def short(label: object, width: int = 1000) -> str:
    """Cut a text to a width, and escape it for rich."""
    from rich.markup import escape

    return escape(cut(label, width))


def short_name(name: str, width: int) -> str:
    """Cut the name of a prepared column in the middle; " = value" stays."""
    column, equals, value = name.rpartition(" = ")
    if not equals:
        column, value = value, ""
    value = equals + cut_middle(value, width // 2)
    return short(cut_middle(column, width - len(value)) + value)


# A model


def trained(facts: Facts, out: Path, report: Path | None) -> None:
    """Show what `train` learned, and what to try next."""
    score = facts["score"]
    columns(facts["schema"]["columns"])
    lines = [("classes", _class_counts(facts)), *_parameters(facts)]
    table(
        ["", ""],
        [
            ("rows", f"{facts['rows']:,}"),
            *((name, short(words, 60)) for name, words in lines),
            *(("note", short(note)) for note in facts["notes"]),
        ],
    )
    tuned = ", tuned inside each fold" if facts["tuned"] and "fold" in score["how"] else ""
    say(f"\nMeasured by {score['how']}{tuned}:")
    scores(score)
    if (small := score["neglected"]) is not None:
        say(f"\nFor small classes such as {short(small, 40)}, try --class-weight balanced.")
    say(f"\nThe model is in [bold]{short(out)}[/].")
    if report is not None:
        say(f"The report is in [bold]{short(report)}[/].")
    commands = f"predict {out} NEW-DATA", f"explain {out}", f"export {out} {out.stem}.onnx"
    say("Try next:", *(short(f"  fuzzytwin {command}") for command in commands))


def info(model: Path | None, page: Facts) -> None:
    """Describe a model file, or this installation."""
    if model is None:
        lines = list(versions().items())
        for extra, found in extras().items():
            missing = f"not installed: {install_command(extra)}"
            words = missing if found is None else f"{EXTRAS[extra]} {found}"
            lines.append((f"extra {extra}", words))
        lines.append(("shipped tables", ", ".join(page["datasets"])))
    else:
        lines = [
            ("file", str(model)),
            ("holds", f"{page.get('model')}, saved {page.get('saved')}"),
            ("versions", _listed(page.get("versions"))),
        ]
        if page.get("landmarks"):
            lines.append(("training rows", HOLDS_ROWS.format(page["landmarks"])))
        facts = page.get("facts")
        try:
            lines += list(_training(facts))
        except (KeyError, TypeError, ValueError, AttributeError):  # train did not write them
            facts = dict(facts) if isinstance(facts, dict) else {}
            schema = facts.pop("schema", None)
            lines += [(str(name), _listed(value)) for name, value in facts.items()]
            lines += list(_columns_by_kind(schema))
    table(["", ""], [(short(name, 30), short(words, 400)) for name, words in lines])


def _training(facts: Any) -> Iterator[tuple[str, str]]:
    score = facts["score"]
    low, high = score["balanced_accuracy_interval"]
    yield "data", f"{facts['data']}, {facts['rows']:,} rows, target {facts['target']}"
    yield "classes", _class_counts(facts)
    yield "balanced accuracy", f"{score['balanced_accuracy']:.3f} ({low:.3f} to {high:.3f})"
    yield "accuracy", f"{score['accuracy']:.3f}"
    yield "measured by", score["how"]
    yield from _parameters(facts)
    yield from _columns_by_kind(facts["schema"])


def _columns_by_kind(schema: Facts | None) -> Iterator[tuple[str, str]]:
    """Name the columns of a schema, a line for each kind."""
    for kind, names in _kinds([] if schema is None else schema["columns"]).items():
        yield f"{kind} columns", ", ".join(names)


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)


def _class_counts(facts: Facts) -> str:
    return ", ".join(f"{label} ({n:,})" for label, n in facts["classes"].items())


def _parameters(facts: Facts) -> Iterator[tuple[str, str]]:
    """Describe the parameters of a model, a line each."""
    chosen = facts["parameters"]
    if "members" in chosen:
        marks = f", {facts['landmarks']:,} landmarks" if facts["landmarks"] else ""
        yield "model", f"committee of {len(chosen['members'])}{marks}"
        yield from (("", member) for member in chosen["members"])
    else:
        yield "planes", f"{chosen['planes']}, rule {chosen['rule']}"
    if "kernel" in chosen:
        gamma = chosen.get("gamma", "")
        if isinstance(gamma, list):  # one for each column
            gamma = f", gammas {min(gamma):.4g} to {max(gamma):.4g}"
        elif gamma:
            gamma = f", gamma {gamma:.4g}"
        yield "kernel", f"{chosen['kernel']}{gamma}, {facts['landmarks']:,} landmarks"
    if facts["degree"] or "membership" in chosen:
        yield "membership", str(facts["degree"] or chosen["membership"] or "none")
    if "noise" in chosen:
        yield "label noise", f"{chosen['noise']}: probabilities are those of the true label"
    if "class_weight" in chosen:
        yield "class weight", str(chosen["class_weight"])
    if "C" in chosen:
        yield "C", _penalties(chosen["C"], facts["classes"])
        alpha = chosen["alpha"]
        yield "alpha", alpha if isinstance(alpha, str) else f"{alpha:.3g}"


def _penalties(C: float | list[float], classes: dict[str, int]) -> str:
    """Write C as one number, or as one for each class."""
    if not isinstance(C, list):
        return f"{C:g}"
    if len(set(C)) == 1 or len(C) != len(classes):
        return ", ".join(f"{c:g}" for c in dict.fromkeys(C))
    return ", ".join(f"{label} {c:g}" for label, c in zip(classes, C, strict=True))


def _kinds(columns: Iterable[Facts]) -> dict[str, list[str]]:
    """List the names of columns by what they were taken as."""
    kinds: dict[str, list[str]] = {}
    for column in columns:
        kinds.setdefault(column["kind"], []).append(column["name"])
    return kinds


def columns(columns: list[Facts]) -> None:
    """Show what became of the columns; of many, those without a remark share a line by kind."""
    shown = [c for c in columns if c["note"]][:40] if len(columns) > 24 else columns
    if shown:
        rows = (
            (short(c["name"], 26), c["kind"], f"{c['distinct']:,}", f"{c['missing']:,}",
             short(c["note"]))
            for c in shown
        )  # fmt: skip
        table(["column", "taken as", "values>", "missing>", ""], rows)
    for kind, names in _kinds(c for c in columns if c not in shown).items():
        many = count(len(names), "column")
        say(short(f"{many} taken as {kind}: {', '.join(names)}", 400))
    say("")


def scores(score: Facts) -> None:
    """Show what `fuzzytwin.apps.measures.measure` returned."""
    low, high = score["balanced_accuracy_interval"]
    lost = f", log loss {score['log_loss']:.3f}" if "log_loss" in score else ""
    say(
        f"balanced accuracy [bold]{score['balanced_accuracy']:.3f}[/] ({low:.3f} to {high:.3f}), "
        f"accuracy {score['accuracy']:.3f}{lost}",
        f"always the largest class: accuracy {score['baseline']:.3f}",
        short(score["verdict"]) + "\n",
    )
    measures = {"specificity": "specificity", "precision": "precision", "roc_auc": "ROC\nAUC",
                "average_precision": "avg.\nprec."}  # fmt: skip
    if new_console().width < 78:
        measures = {}
    rows = []
    for entry in score["per_class"][:30]:
        share = _number(entry["sensitivity"])
        if entry["sensitivity"] is not None:
            share += " ({:.2f}-{:.2f})".format(*entry["sensitivity_interval"])
        cells = (_number(entry[name]) for name in measures)
        rows.append((short(entry["class"], 14), f"{entry['rows']:,}", share, *cells))
    heads = (f"{head}>" for head in measures.values())
    table(["class", "rows>", "sensitivity (95 %)>", *heads], rows, tight=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def evaluated(score: Facts, data: Path) -> None:
    """Show how a model does on labelled rows."""
    say(count(score["rows"], "row"))
    scores(score)
    labels = score["classes"]
    if len(labels) <= 8:
        say("")
        table(
            ["", *(f"predicted {short(label, 10)}>" for label in labels)],
            (
                (f"is {short(label, 14)}", *(f"{n:,}" for n in row))
                for label, row in zip(labels, score["confusion"], strict=True)
            ),
        )
    say(*(f"{short(note)}." for note in score["notes"]))
    if score["unknown_labels"]:
        names = short(", ".join(score["unknown_labels"][:5]), 200)
        say(f"The model does not know the label(s) {names}.")
    if score["trained_on_this"]:
        say(f"Beware: the model was trained on a file named {short(data.name)}; on rows that it "
            "was trained on it looks better than it is.")  # fmt: skip


def explained(shown: list[Facts], others: list[Facts], top: int, value: str) -> None:
    """Show effects on some classes; `value` is what the effects change."""
    fuzzy = any(entry["vagueness"] > 0 for entry in shown)
    for entry in shown:
        vague = f", vagueness {entry['vagueness']:.2f}" if fuzzy else ""
        found = entry["columns"]
        together = all("correlation" in column for column in found)
        most = max(abs(column["effect"]) for column in found) or 1.0
        digits = decimals(most)
        rows = []
        for column in found[:top]:
            effect = column["effect"]
            color, bar = "green" if effect > 0 else "yellow", "■" * round(10 * abs(effect) / most)
            rows.append([
                short_name(column["name"], 34),
                f"{effect:+.{digits}f}",
                f"[{color}]{bar}[/]",
                f"{column['strength']:.{digits}f}",
                *([f"{column['correlation']:+.2f}"] if together else []),
                *([f"{column['vagueness']:.3f}"] if fuzzy else []),
            ])  # fmt: skip
        heads = ["", "effect>", "", "strength>", *(["corr.>"] if together else []),
                 *(["vagueness>"] if fuzzy else [])]  # fmt: skip
        table(heads, rows, title=f"class {short(entry['class'], 30)}{vague}")
    if len(others) == len(shown) == 1 and not fuzzy:
        say(f"Effects on class {short(others[0]['class'], 40)} are the opposite.")
    say(
        f"Effect: change of the mean {value} of the class as a column rises by one "
        "standard deviation and the others stay as they are. Strength: the same without regard to "
        "the direction. Corr.: correlation of the column with it, as columns move together in the "
        "data." + (" Vagueness: width of the planes, in units of the margin." if fuzzy else "")
    )


# Labels and classifiers


def doubtful(study: Study, top: int, out: Path | None, report: Path | None) -> None:
    """Show the most doubtful labels."""
    from fuzzytwin.data.files import numbering

    found, frame = study.doubts, study.doubts_frame()
    columns(study.rows.schema.as_dict()["columns"])
    say(short(found.headline()), *(f"{short(note)}." for note in study.notes))
    frame = frame[frame["doubtful"]].head(top)
    if len(frame):
        say(f"{study.suggestions_in_words}\n")
        named = [short(found.id_name, 20)] if study.rows.names is not None else []
        rows = (
            (str(row), *(short(name, 24) for name in names), short(label, 20), short(suggested, 20),
             f"{degree:.2f}")
            for row, *names, label, suggested, degree, _, _ in frame.itertuples(index=False)
        )  # fmt: skip
        table(["row>", *named, "label", "suggested", "degree>"], rows)
        more = int(found.doubtful.sum()) - len(frame)
        if more > 0:
            say(f"... and {more:,} more (--top, --out).")
        meaning = "Degree: how probably the label is right, from all other rows."
        say(f"{meaning} {numbering(study.path)}")
    if found.annotators is not None:
        say("")
        names, shares = found.annotators.names, found.annotators.reliability
        table(
            ["annotator", "votes that are right>"],
            ((short(name, 40), f"{share:.0%}") for name, share in zip(names, shares, strict=True)),
        )
        row_numbers = replace(found, ids=None, index=None).to_ask(top)
        asked = ", ".join(map(str, study.numbers[row_numbers]))
        say(f"Rows to ask about again: {asked}.")
    say(f"Found by {short(found.setting)}.")
    if out is not None:
        say(f"\nAll rows are in [bold]{short(out)}[/].")
    if report is not None:
        say(f"The page is in [bold]{short(report)}[/].")


def compared(paths: list[str], means: dict[str, list[float]], result: Any, score: str) -> None:
    """Show the mean scores of classifiers on several tables, and what the tests say."""
    from fuzzytwin.apps.rivals import INNER, NAMES

    rows = []
    for i, path in enumerate(paths):
        best = max(values[i] for values in means.values())
        cells = (f"[bold]{m[i]:.3f}[/]" if m[i] >= best else f"{m[i]:.3f}" for m in means.values())
        rows.append((short_name(Path(path).stem, 12), *cells))
    ranks = dict(zip(result.names, result.mean_ranks, strict=True))
    foot = ["mean rank", *(f"{ranks[name]:.2f}" for name in means)]
    table(["", *(f"{name}>" for name in means)], rows, foot=foot, tight=True)
    names = ", ".join(f"{name}: {NAMES[name]}" for name in means)
    say(f"{names}. Mean {score} over outer folds, each tuned by {INNER} inner folds.")
    if len(paths) < 10:
        say("Tests over so few tables find large differences only; ten are a good start.")
    print(f"\n{result}")
