"""Write a table of made-up data: ``fuzzytwin generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Force, Json, Kind


def generate(
    kind: Annotated[Kind, typer.Argument(help="ndc: clusters; xor: two crossing lines.")],
    out: Annotated[Path, typer.Argument(help="CSV, Parquet or Feather file.")],
    rows: Annotated[int, typer.Option(min=4, help="Number of rows.")] = 1000,
    columns: Annotated[int, typer.Option(min=1, help="Number of columns (ndc).")] = 32,
    seed: Annotated[int, typer.Option(help="Same seed, same rows.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a table of made-up data, as the paper describes them."""
    import pandas
    import pyarrow

    from fuzzytwin._utils.files import replacing
    from fuzzytwin.datasets import make_ndc, make_xor
    from fuzzytwin.sources.writers import TableWriter, check_ending

    check_ending(out)
    inputs.check_output(out, force)
    more: dict[str, Any] = {}
    if kind is Kind.NDC:
        X, y = make_ndc(rows, columns, random_state=seed)
    else:
        X, y, degrees = make_xor(rows, random_state=seed)
        more["degree"] = degrees
    frame = pandas.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])])
    frame = frame.assign(label=y, **more)
    with replacing(out, overwrite=force) as draft, TableWriter(out, draft) as writer:
        writer.write(pyarrow.Table.from_pandas(frame, preserve_index=False))
    if as_json:
        screens.print_json({"out": str(out), "rows": len(frame), "columns": list(frame.columns)})
        return
    hint = f"fuzzytwin train {out} --target label" + (" --degree degree" if more else "")
    console = screens.new_console()
    console.print(f"{len(frame):,} rows are in {out}. Try next:", markup=False, highlight=False)
    console.print(f"  {hint}", markup=False, highlight=False)
