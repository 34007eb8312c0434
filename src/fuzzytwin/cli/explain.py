"""Show what drives a model: ``fuzzytwin explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Json


def explain(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    top: Annotated[int, typer.Option(min=1, help="Columns to show for each plane.")] = 8,
    as_json: Json = False,
) -> None:
    """Show which columns drive each plane, and how vague it is."""
    from fuzzytwin.report.insight import explain as explain_model

    fitted, facts = inputs.load_model(model)
    planes = explain_model(fitted)
    if as_json:
        screens.print_json({"planes": planes, "parameters": facts.get("parameters")})
        return
    console = screens.new_console()
    fuzzy = any(plane["vagueness"] > 0 for plane in planes)
    for plane in planes:
        vague = f"; vagueness {plane['vagueness']:.2f} of the margin" if fuzzy else ""
        heads = ["", "share>", "for or against", *(["vagueness>"] if fuzzy else [])]
        table = screens.new_table(*heads, title=f"class {screens.short(plane['class'], 40)}{vague}")
        most = plane["features"][0]["share"] or 1.0
        for feature in plane["features"][:top]:
            bar = "■" * max(1, round(14 * feature["share"] / most))
            none = "" if plane["one_sided"] else f"± {bar}"
            signs = {1: f"[green]+ {bar}[/]", -1: f"[yellow]- {bar}[/]", 0: none}
            more = [f"{feature['vagueness']:.3f}"] if fuzzy else []
            table.add_row(
                screens.short_name(feature["name"], 34),
                f"{feature['share']:.0%}",
                signs[feature["sign"]],
                *more,
            )
        console.print(table)
    console.print("+ speaks for the class, - against it; shares of all columns add up to 100 %.")
    if not all(plane["one_sided"] for plane in planes):
        console.print("±: the class's rivals lie on both sides of its plane, so no sign tells.")
