"""Describe a model file or the installation: ``fuzzytwin info``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.versions import EXTRAS, extras, versions
from fuzzytwin.cli import screens
from fuzzytwin.cli.options import Json


def info(
    model: Annotated[Path | None, typer.Argument(help="A model file.")] = None,
    as_json: Json = False,
) -> None:
    """Describe a model file, or this installation."""
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
        shown = f"{EXTRAS[extra]} {found}"
        if found is None:
            shown = f"not installed: {install_command(extra)}"
        table.add_row(f"extra {extra}", shown.replace("[", "\\["))
    table.add_row("shipped tables", ", ".join(list_uci()))
    console.print(table)


def _show_about(page: dict[str, Any], model: Path) -> None:
    screen, table = screens.new_console(), screens.new_table("", "")
    table.add_row("file", screens.short(str(model)))
    table.add_row("holds", screens.short(f"{page.get('model')}, saved {page.get('saved')}"))
    for name, text in [("versions", _listed(page.get("versions"))), *_facts(page.get("facts"))]:
        table.add_row(screens.short(name, 30), screens.short(text, 400))
    screen.print(table)


def _facts(facts: Any) -> list[tuple[str, str]]:
    """Describe the facts of a model; those that train did not write, as they are."""
    try:
        return list(_training(facts))
    except (KeyError, TypeError, ValueError, AttributeError):
        return [(str(k), _listed(v)) for k, v in facts.items()] if isinstance(facts, dict) else []


def _training(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    score = facts["score"]
    low, high = score["balanced_accuracy_interval"]
    yield "data", f"{facts['data']}, {facts['rows']:,} rows, target {facts['target']}"
    yield "classes", screens.class_counts(facts)
    yield "balanced accuracy", f"{score['balanced_accuracy']:.3f} ({low:.3f} to {high:.3f})"
    yield "accuracy", f"{score['accuracy']:.3f}"
    yield "measured by", score["how"]
    yield from screens.parameter_words(facts)
    kinds: dict[str, list[str]] = {}
    for column in facts["schema"]["columns"]:
        kinds.setdefault(column["kind"], []).append(column["name"])
    for kind, names in kinds.items():
        yield f"{kind} columns", ", ".join(names)


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)
