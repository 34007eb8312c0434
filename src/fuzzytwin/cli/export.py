"""Write a model as ONNX: ``fuzzytwin export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Force, Json


def export(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Argument(help="An .onnx file.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX, with the same answers."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.store import to_onnx

    inputs.check_output(out, force)
    if out.suffix != ".onnx":
        raise ValueError(f"{out} should end in .onnx.")
    fitted, _ = inputs.load_model(model)
    graph = to_onnx(fitted)
    with replacing(out, overwrite=force) as draft:
        draft.write_bytes(graph.SerializeToString())
    kinds = {11: "double", 8: "string"}
    columns = {
        entry.name: kinds.get(entry.type.tensor_type.elem_type, "?") for entry in graph.graph.input
    }
    outputs = [entry.name for entry in graph.graph.output]
    if as_json:
        screens.print_json({"out": str(out), "inputs": columns, "outputs": outputs})
        return
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(columns.items())[:6])
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    console = screens.new_console()
    console.print(f"The model is in {out}.", markup=False, highlight=False)
    console.print(f"In: {shown}{more}. Out: {', '.join(outputs)}.", markup=False, highlight=False)
