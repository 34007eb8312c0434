"""Describe a model, or write it as ONNX: ``fuzzytwin explain``, ``info`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import extras, versions
from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


def explain(
    model: Path = o.MODEL,
    data: Path | None = typer.Argument(None, help="Rows to look at  [default: those of training]"),
    label: str | None = o.option(
        "Class to explain  [default: the rarer of two, or every class]", metavar="LABEL"
    ),
    top: int = o.option("Columns to show for each class.", default=8, min=1),
    sheet: str | None = o.SHEET,
    as_json: bool = o.JSON,
) -> None:
    """Show which columns drive the prediction."""
    fitted, facts = shared.load_model(model)
    if data is not None:
        from fuzzytwin.apps.table_rows import read_features
        from fuzzytwin.explain import explain as explain_model

        schema = shared.schema_of(facts, data)
        X, _, _ = read_features(str(data), schema, fitted.n_features_in_, sheet=sheet)
        explained = explain_model(fitted, X)
    elif "effects" in facts:
        explained = facts["effects"]
    else:
        raise ValueError(f"{model} holds no effects; give rows: fuzzytwin explain {model} DATA.")
    explained, others = _asked(explained, label, facts.get("classes", {}))
    if as_json:
        page = {"classes": [*explained, *others], "parameters": facts.get("parameters")}
        return show.print_json(page)
    committee = "members" in str(facts.get("parameters"))
    show.explained(explained, others, top, "probability" if committee else "membership")


def _asked(
    explained: list[dict[str, Any]], label: str | None, sizes: dict[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Divide classes into those to show and others: of two, one gains what the other loses."""
    names = [str(entry["class"]) for entry in explained]
    if label is not None and label not in names:
        raise ValueError(
            f"--label {label!r} is not a class of the model; use one of {', '.join(names[:10])}."
        )
    if label is None and len(explained) == 2 and not any(e["vagueness"] > 0 for e in explained):
        label = min(reversed(names), key=lambda name: sizes.get(name, 0))
    shown = [entry for entry in explained if label in (None, str(entry["class"]))]
    return shown, [entry for entry in explained if entry not in shown]


def info(
    model: Path | None = typer.Argument(None, help="A model file."),
    as_json: bool = o.JSON,
) -> None:
    """Describe a model file, or this installation."""
    from fuzzytwin import store
    from fuzzytwin.datasets import list_uci

    if model is not None:
        page = store.about(model)
    else:
        there = {extra: version is not None for extra, version in extras().items()}
        page = {"versions": versions(), "extras": there, "datasets": list_uci()}
    if as_json:
        return show.print_json(page)
    show.info(model, page)


def export(
    model: Path = typer.Argument(help="A model file."),
    out: Path = typer.Argument(help="An .onnx file."),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Write a model as ONNX, with the same answers."""
    from fuzzytwin.store import to_onnx

    shared.check_output(out, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} should end in .onnx.")
    fitted, _ = shared.load_model(model)
    graph = to_onnx(fitted)
    shared.write_bytes(out, graph.SerializeToString(), force)
    kinds = {11: "double", 8: "string"}
    columns = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        return show.print_json({"out": str(out), "inputs": columns, "outputs": outputs})
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(columns.items())[:6])
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    text = f"The model is in {out}.\nIn: {shown}{more}. Out: {', '.join(outputs)}."
    show.say(show.short(text))
