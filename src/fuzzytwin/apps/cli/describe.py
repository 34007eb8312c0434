"""Describe a model, or write it as ONNX: ``fuzzytwin explain``, ``info`` and ``export``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.extras import EXTRAS, extras, install_command, versions
from fuzzytwin._utils.text import decimals
from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared


def explain(
    model: o.Model,
    data: Annotated[
        Path | None, typer.Argument(help="Rows to look at  [default: those of training]")
    ] = None,
    label: Annotated[
        str | None,
        o.option("Class to explain  [default: the rarer of two, or every class]", metavar="LABEL"),
    ] = None,
    top: Annotated[int, o.option("Columns to show for each class.", min=1)] = 8,
    sheet: o.Sheet = None,
    as_json: o.Json = False,
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
        shared.print_json({"classes": [*explained, *others], "parameters": facts.get("parameters")})
        return
    _show_explained(explained, others, top, "a probability" if "members" in str(
        facts.get("parameters")) else "a membership")  # fmt: skip


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


def _show_explained(
    explained: list[dict[str, Any]], others: list[dict[str, Any]], top: int, value: str
) -> None:
    screen = shared.new_console()
    fuzzy = any(entry["vagueness"] > 0 for entry in explained)
    for entry in explained:
        vague = f", vagueness {entry['vagueness']:.2f}" if fuzzy else ""
        title = f"class {shared.short(entry['class'], 30)}{vague}"
        together = all("correlation" in column for column in entry["columns"])
        heads = ["", "effect>", "", "strength>", *(["corr.>"] if together else []),
                 *(["vagueness>"] if fuzzy else [])]  # fmt: skip
        table = shared.new_table(*heads, title=title)
        most = max(abs(column["effect"]) for column in entry["columns"]) or 1.0
        digits = decimals(most)
        for column in entry["columns"][:top]:
            effect = column["effect"]
            bar = "■" * round(10 * abs(effect) / most)
            color = "green" if effect > 0 else "yellow"
            table.add_row(
                shared.short_name(column["name"], 34),
                f"{effect:+.{digits}f}",
                f"[{color}]{bar}[/]",
                f"{column['strength']:.{digits}f}",
                *([f"{column['correlation']:+.2f}"] if together else []),
                *([f"{column['vagueness']:.3f}"] if fuzzy else []),
            )
        screen.print(table)
    if len(others) == len(explained) == 1 and not fuzzy:
        screen.print(f"Effects on class {shared.short(others[0]['class'], 40)} are the opposite.")
    screen.print(
        f"Effect: change of the mean {value.split()[-1]} of the class as a column rises by one "
        "standard deviation and the others stay as they are. Strength: the same without regard to "
        "the direction. Corr.: correlation of the column with it, as columns move together in the "
        "data." + (" Vagueness: width of the planes, in units of the margin." if fuzzy else "")
    )


def info(
    model: Annotated[Path | None, typer.Argument(help="A model file.")] = None,
    as_json: o.Json = False,
) -> None:
    """Describe a model file, or this installation."""
    from fuzzytwin import store
    from fuzzytwin.datasets import list_uci

    if model is not None:
        page = store.about(model)
        if as_json:
            shared.print_json(page)
            return
        lines = [
            ("file", str(model)),
            ("holds", f"{page.get('model')}, saved {page.get('saved')}"),
            ("versions", _listed(page.get("versions"))),
            *_facts(page.get("facts")),
        ]
    elif as_json:
        there = {extra: version is not None for extra, version in extras().items()}
        shared.print_json({"versions": versions(), "extras": there, "datasets": list_uci()})
        return
    else:
        lines = list(versions().items())
        for extra, found in extras().items():
            missing = f"not installed: {install_command(extra)}"
            text = missing if found is None else f"{EXTRAS[extra]} {found}"
            lines.append((f"extra {extra}", text))
        lines.append(("shipped tables", ", ".join(list_uci())))
    table = shared.new_table("", "")
    for name, text in lines:
        table.add_row(shared.short(name, 30), shared.short(text, 400))
    shared.new_console().print(table)


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
    yield "classes", shared.class_counts(facts)
    yield "balanced accuracy", f"{score['balanced_accuracy']:.3f} ({low:.3f} to {high:.3f})"
    yield "accuracy", f"{score['accuracy']:.3f}"
    yield "measured by", score["how"]
    yield from shared.parameter_words(facts)
    kinds: dict[str, list[str]] = {}
    for column in facts["schema"]["columns"]:
        kinds.setdefault(column["kind"], []).append(column["name"])
    for kind, names in kinds.items():
        yield f"{kind} columns", ", ".join(names)


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)


def export(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Argument(help="An .onnx file.")],
    force: o.Force = False,
    as_json: o.Json = False,
) -> None:
    """Write a model as ONNX, with the same answers."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.store import to_onnx

    shared.check_output(out, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} should end in .onnx.")
    fitted, _ = shared.load_model(model)
    graph = to_onnx(fitted)
    with replacing(out, overwrite=force) as draft:
        draft.write_bytes(graph.SerializeToString())
    kinds = {11: "double", 8: "string"}
    columns = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        shared.print_json({"out": str(out), "inputs": columns, "outputs": outputs})
        return
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(columns.items())[:6])
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    shared.say(f"The model is in {out}.", f"In: {shown}{more}. Out: {', '.join(outputs)}.")
