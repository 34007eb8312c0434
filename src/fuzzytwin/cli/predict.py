"""Label rows: ``fuzzytwin predict``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Force, Json, Stream


def predict(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows to label.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV, Parquet or Feather  [default: print CSV]"),
    ] = None,
    stream: Stream = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Label rows: the label, and the membership in every class."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.report.insight import predictions
    from fuzzytwin.tables import files as _tables

    inputs.check_output(out, force)
    kind = "csv" if out is None else _tables.kind_of(out)
    if kind == "libsvm":
        raise _tables.TableError(f"{out}: labels are written as .csv, .parquet or .feather.")
    fitted, facts = inputs.load_model(model)
    if out is not None and (inputs.too_large(data) if stream is None else stream):
        rows = inputs.predict_stream(fitted, facts, data, out, force)
    else:
        frame = predictions(fitted, inputs.features_of(fitted, facts, data, None, False)[0])
        rows = len(frame)
        if as_json and out is None:
            screens.print_json(json.loads(frame.to_json(orient="records")))
            return
        if out is None:
            frame.to_csv(sys.stdout, index=False)
            return
        with replacing(out, overwrite=force) as draft:
            _tables.write_frame(frame, draft, kind)
    if as_json:
        screens.print_json({"rows": rows, "out": str(out)})
    else:
        screens.new_console().print(
            f"{rows:,} rows labelled; they are in {out}.", markup=False, highlight=False
        )
