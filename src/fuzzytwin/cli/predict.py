"""Label rows: ``fuzzytwin predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Force, Json


def predict(
    model: Annotated[Path, typer.Argument(help="A model that train saved.")],
    data: Annotated[Path, typer.Argument(help="Rows to label.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV, TSV (also .gz), Parquet or Feather  [default: print CSV]"
        ),
    ] = None,
    keep: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="A column to copy beside the labels; may be repeated."),
    ] = [],  # noqa: B006
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column that names the rows  [default: as in training]"
        ),
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Copy all columns.")] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Also the set of labels that holds the true one with this probability, such as "
            "0.9, separated by |; for models of train --calibrate.",
        ),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Read in batches, or all rows at once.")
    ] = True,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Label rows: the label, and the membership in every class.

    With --coverage also a set of labels that holds the true one with that probability.
    """
    from fuzzytwin._utils.files import replacing
    from fuzzytwin._utils.progress import Progress
    from fuzzytwin.sources.formats import kind_of, open_table
    from fuzzytwin.sources.predicting import label
    from fuzzytwin.sources.writers import TableWriter, as_csv, check_ending
    from fuzzytwin.tables.files import BATCH_ROWS
    from fuzzytwin.tables.training import quiet

    inputs.check_output(out, force)
    if out is not None:
        check_ending(out)
    fitted, facts = inputs.load_model(model)
    if coverage is not None:
        if not 0 < coverage < 1:
            raise ValueError(
                f"--coverage {coverage} is not allowed; give a number between 0 and 1."
            )
        if not hasattr(fitted[-1], "set_scores_"):
            raise ValueError(
                f"{model} does not have what --coverage needs; train it with --calibrate."
            )
    schema = inputs.schema_of(facts, data)
    kept = [id_column, *keep]
    if schema.zero_based is None:
        names = open_table(data, [c.name for c in schema.features], schema.separator).schema.names
        if id_column is None and facts.get("id") in names:
            kept[0] = facts["id"]
        kept += names if keep_all else []
    source, tables = label(
        fitted,
        data,
        keep=list(dict.fromkeys(name for name in kept if name is not None)),
        schema=schema,
        batch_rows=BATCH_ROWS if stream else 1 << 31,
        coverage=coverage,
        verbatim=out is None or kind_of(out) == "csv",
    )
    rows, records = 0, []
    if out is not None:
        with (
            quiet(),
            Progress("labelled", source.rows, "rows", wanted=sys.stderr.isatty()) as bar,
            replacing(out, overwrite=force) as draft,
            TableWriter(out, draft) as writer,
        ):
            for table in tables:
                writer.write(table)
                rows += table.num_rows
                bar.advance(table.num_rows)
    else:
        with quiet():
            for table in tables:
                if as_json:
                    records += table.to_pylist()
                else:
                    sys.stdout.write(as_csv(table, header=not rows))
                rows += table.num_rows
    notes = source.tally.notes()
    if as_json:
        done = {"rows": rows, "out": str(out), "notes": notes}
        screens.print_json(records if out is None else done)
        return
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if out is not None:
        screens.new_console().print(
            f"{rows:,} rows labelled; they are in {out}.", markup=False, highlight=False
        )
