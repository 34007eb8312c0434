"""Show what drives a model: ``fuzzytwin explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.text import decimals
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Json


def explain(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[
        Path | None, typer.Argument(help="Rows to look at  [default: those of training]")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Columns to show for each class.")] = 8,
    as_json: Json = False,
) -> None:
    """Show which columns drive the prediction."""
    fitted, facts = inputs.load_model(model)
    if data is not None:
        from fuzzytwin.explain import explain as explain_model
        from fuzzytwin.tables.rows import read_features

        schema = inputs.schema_of(facts, data)
        explained = explain_model(
            fitted, read_features(str(data), schema, fitted.n_features_in_)[0]
        )
    elif "effects" in facts:
        explained = facts["effects"]
    else:
        raise ValueError(f"{model} holds no effects; give rows: fuzzytwin explain {model} DATA.")
    if as_json:
        screens.print_json({"classes": explained, "parameters": facts.get("parameters")})
        return
    _show_explained(explained, top)


def _show_explained(explained: list[dict[str, Any]], top: int) -> None:
    screen = screens.new_console()
    fuzzy = any(entry["vagueness"] > 0 for entry in explained)
    # Of two classes, one gains what the other loses; fuzzy planes differ in their vagueness.
    for entry in explained[1:] if len(explained) == 2 and not fuzzy else explained:
        vague = f", vagueness {entry['vagueness']:.2f}" if fuzzy else ""
        title = f"class {screens.short(entry['class'], 30)}{vague}"
        together = all("correlation" in column for column in entry["columns"])
        heads = ["", "effect>", "", "strength>", *(["corr.>"] if together else []),
                 *(["vagueness>"] if fuzzy else [])]  # fmt: skip
        table = screens.new_table(*heads, title=title)
        most = max(abs(column["effect"]) for column in entry["columns"]) or 1.0
        digits = decimals(most)
        for column in entry["columns"][:top]:
            effect = column["effect"]
            bar = "■" * round(10 * abs(effect) / most)
            color = "green" if effect > 0 else "yellow"
            table.add_row(
                screens.short_name(column["name"], 34),
                f"{effect:+.{digits}f}",
                f"[{color}]{bar}[/]",
                f"{column['strength']:.{digits}f}",
                *([f"{column['correlation']:+.2f}"] if together else []),
                *([f"{column['vagueness']:.3f}"] if fuzzy else []),
            )
        screen.print(table)
    if len(explained) == 2 and not fuzzy:
        other = screens.short(explained[0]["class"], 40)
        screen.print(f"Effects on class {other} are the opposite.", highlight=False)
    screen.print(
        "Effect: change of the mean membership in the class as a column rises by one standard "
        "deviation and the others stay as they are. Strength: the same without regard to the "
        "direction. Corr.: correlation of the column with the membership, as columns move together "
        "in the data."
        + (" Vagueness: width of the planes, in units of the margin." if fuzzy else ""),
        highlight=False,
    )
