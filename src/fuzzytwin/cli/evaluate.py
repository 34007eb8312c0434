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
    from fuzzytwin.tables.measures import measure
    from fuzzytwin.tables.rows import labelled_rows
    from fuzzytwin.tables.training import quiet

    fitted, facts = inputs.load_model(model)
    schema = inputs.schema_of(facts, data)
    rows = labelled_rows(
        str(data), schema, fitted.n_features_in_, target, groups, facts.get("groups")
    )
    with quiet():
        found = predictions(fitted, rows.X)
    classes = fitted.classes_.astype(str)
    y = rows.y.astype(str)
    score = measure(
        y,
        found["label"].to_numpy().astype(str),
        membership=found.to_numpy()[:, 1:].astype(float) if found.shape[1] > 1 else None,
        classes=classes,
        weight=rows.weight,
        groups=rows.groups,
    )
    score["unknown_labels"] = sorted(set(y) - set(classes))
    score["trained_on_this"] = inputs.same_file(facts, data)
    score["notes"] = rows.notes
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
    for note in score["notes"]:
        screen.print(f"{screens.short(note)}.", highlight=False)
    if score["unknown_labels"]:
        names = screens.short(", ".join(score["unknown_labels"][:5]), 200)
        screen.print(f"The model does not know the label(s) {names}.", highlight=False)
    if score["trained_on_this"]:
        screen.print(
            f"Beware: the model was trained on a file named {screens.short(data.name)}; on rows "
            "that it was trained on it looks better than it is.",
            highlight=False,
        )
