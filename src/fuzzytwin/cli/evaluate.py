"""Measure a model on labelled rows: ``fuzzytwin evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Groups, Json


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows with their true labels.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the labels  [default: as in training]"),
    ] = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it was not trained on."""
    from fuzzytwin.report.insight import predictions
    from fuzzytwin.tables.columns import numbers
    from fuzzytwin.tables.files import TableError
    from fuzzytwin.tables.measures import measure
    from fuzzytwin.tables.rows import values_of

    fitted, facts = inputs.load_model(model)
    column = target or facts.get("target")
    X, frame, y = inputs.features_of(fitted, facts, data, column, labelled=True)
    weight, grouped = None, None
    if frame is not None:
        if facts.get("weight") in frame:
            weight = numbers(frame, facts["weight"], "weights", data)
        if groups or facts.get("groups") in frame:
            grouped = values_of(frame, groups or facts["groups"], "groups", data)
    elif groups:
        raise TableError(f"{data} is LIBSVM text, which has no names; leave out --groups.")
    found = predictions(fitted, X)
    classes = fitted.classes_.astype(str)
    score = measure(
        y.astype(str),
        found["label"].to_numpy().astype(str),
        membership=found.to_numpy()[:, 1:].astype(float) if found.shape[1] > 1 else None,
        classes=classes,
        weight=weight,
        groups=grouped,
    )
    score["unknown_labels"] = sorted(set(y.astype(str)) - set(classes))
    score["trained_on_this"] = inputs.same_file(facts, data)
    if as_json:
        screens.print_json(score)
        return
    _show_evaluated(score, data)


def _show_evaluated(score: dict[str, Any], data: Path) -> None:
    screen = screens.new_console()
    screen.print(f"{score['rows']:,} rows", highlight=False)
    screens.show_score(screen, score)
    labels = score["classes"]
    if len(labels) <= 8:
        heads = (f"predicted {screens.short(label, 10)}>" for label in labels)
        table = screens.new_table("", *heads)
        for label, row in zip(labels, score["confusion"], strict=True):
            table.add_row(f"is {screens.short(label, 14)}", *(f"{n:,}" for n in row))
        screen.print()
        screen.print(table)
    if score["unknown_labels"]:
        names = screens.short(", ".join(score["unknown_labels"][:5]), 200)
        screen.print(f"The model does not know the label(s) {names}.", highlight=False)
    if score["trained_on_this"]:
        screen.print(
            f"Beware: the model was trained on a file named {screens.short(data.name)}; on rows "
            "that it was trained on it looks better than it is.",
            highlight=False,
        )
