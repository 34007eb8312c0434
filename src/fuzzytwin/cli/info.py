"""Describe a model file or the installation: ``fuzzytwin info``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.versions import extras, versions
from fuzzytwin.cli import screens
from fuzzytwin.cli.options import Json


def info(
    model: Annotated[Path | None, typer.Argument(help="A model file.")] = None,
    as_json: Json = False,
) -> None:
    """Tell about a model file, or about this installation."""
    from fuzzytwin import store

    if model is not None:
        page = store.about(model)
        if as_json:
            screens.print_json(page)
        else:
            _show_about(page, model)
        return
    from fuzzytwin.datasets import list_uci

    if as_json:
        there = {extra: version is not None for extra, version in extras().items()}
        screens.print_json({"versions": versions(), "extras": there, "datasets": list_uci()})
        return
    console, table = screens.new_console(), screens.new_table("", "")
    for name, version in versions().items():
        table.add_row(name, version)
    for extra, found in extras().items():
        shown = f"not installed: {install_command(extra)}" if found is None else found
        table.add_row(f"extra {extra}", shown.replace("[", "\\["))
    table.add_row("shipped tables", ", ".join(list_uci()))
    console.print(table)


def _show_about(page: dict[str, Any], model: Path) -> None:
    screen, table = screens.new_console(), screens.new_table("", "")
    facts = page["facts"]
    table.add_row("file", screens.short(str(model)))
    table.add_row("holds", screens.short(f"{page['model']}, saved {page['saved']}"))
    table.add_row(
        "versions", screens.short(", ".join(f"{k} {v}" for k, v in page["versions"].items()))
    )
    if "score" in facts:
        score = facts["score"]
        table.add_row(
            "data",
            screens.short(f"{facts['data']}, {facts['rows']:,} rows, target {facts['target']}"),
        )
        table.add_row(
            "classes", screens.short(", ".join(f"{k} ({n:,})" for k, n in facts["classes"].items()))
        )
        said = f"{score['accuracy']:.3f} ± {score['accuracy_std']:.3f} by {score['how']}"
        table.add_row("accuracy", screens.short(said))
        chosen = dict(facts["parameters"])
        table.add_row("C", screens.short(screens.penalty_words(chosen.pop("C"), facts["classes"])))
        table.add_row("alpha", f"{chosen.pop('alpha'):.3g}")
        if "kernel" in chosen:
            table.add_row("kernel", screens.kernel_words(facts))
            chosen = {k: v for k, v in chosen.items() if k not in ("kernel", "gamma")}
        table.add_row("parameters", screens.short(", ".join(f"{k} {v}" for k, v in chosen.items())))
        kinds: dict[str, list[str]] = {}
        for column in facts["columns"]:
            kinds.setdefault(column["kind"], []).append(column["name"])
        for kind, names in kinds.items():
            table.add_row(f"{kind} columns", screens.short(", ".join(names), 400))
    screen.print(table)
