"""Measure a model on labelled rows: ``fuzzytwin evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Json


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows with their true labels.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the labels  [default: as in training]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it was not trained on."""
    from fuzzytwin.report.insight import predictions
    from fuzzytwin.tables.columns import numbers
    from fuzzytwin.tables.measures import measure

    fitted, facts = inputs.load_model(model)
    column = target or facts.get("target")
    X, frame, y = inputs.features_of(fitted, facts, data, column, labelled=True)
    said = predictions(fitted, X)["label"].to_numpy()
    weight = None
    if frame is not None and facts.get("weight") in frame:
        weight = numbers(frame, facts["weight"], "weights", data)
    known = {str(label) for label in fitted.classes_}
    strange = sorted({str(label) for label in y} - known)
    told = measure(y.astype(str), said.astype(str), weight)
    told["unknown_labels"] = strange
    told["trained_on_this"] = inputs.same_file(facts, data)
    if as_json:
        screens.print_json(told)
        return
    _show_evaluated(told, data)


def _show_evaluated(told: dict[str, Any], data: Path) -> None:
    screen = screens.new_console()
    screen.print(
        f"accuracy [bold]{told['accuracy']:.3f}[/], balanced {told['balanced_accuracy']:.3f}, on "
        f"{told['rows']:,} rows; always the largest class: {told['baseline']:.3f}",
        highlight=False,
    )
    labels = told["classes"]
    if len(labels) <= 8:
        table = screens.new_table(
            "", *(f"said {screens.short(label, 10)}>" for label in labels), "found>"
        )
        for label, row in zip(labels, told["confusion"], strict=True):
            share = f"{row[labels.index(label)] / sum(row):.0%}" if sum(row) else "-"
            table.add_row(f"is {screens.short(label, 14)}", *(f"{n:,}" for n in row), share)
        screen.print(table)
    if told["unknown_labels"]:
        names = screens.short(", ".join(told["unknown_labels"][:5]), 200)
        screen.print(f"The model does not know the label(s) {names}.", highlight=False)
    if told["trained_on_this"]:
        screen.print(
            f"Beware: the model was trained on a file named {screens.short(data.name)}; on the "
            "rows that it has learned from, it looks better than it is.",
            highlight=False,
        )
