"""Label rows, or measure a model on labelled ones: ``fuzzytwin predict`` and ``evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


def predict(
    model: Path = o.MODEL,
    data: Path = typer.Argument(help="Rows to label."),
    out: Path | None = o.file(
        "CSV, TSV (also .gz), Excel, Parquet or Feather  [default: print CSV]"
    ),
    keep: list[str] = o.columns("A column to copy beside the labels; may be repeated."),
    id_column: str | None = o.column(
        "Column that names the rows  [default: as in training]", "--id"
    ),
    keep_all: bool = o.KEEP_ALL,
    coverage: float | None = o.option(
        "Also a set of labels that holds the true one with this probability, such as 0.9, "
        "separated by |; not of planes without --calibrate.",
        metavar="SHARE",
    ),
    class_conditional: bool | None = o.option(
        "Keep the coverage within every class, not on average over all rows  [default: if a "
        "class is rare]",
        "--class-conditional/--no-class-conditional",
    ),
    sheet: str | None = o.SHEET,
    stream: bool = o.option(
        "Read in batches, or all rows at once.", "--stream/--no-stream", default=True
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Label rows: the label, and the probability of every class (membership: not calibrated).

    With --coverage also a set of labels that holds the true one with that probability.
    """
    from fuzzytwin._utils.files import replacing
    from fuzzytwin._utils.progress import Progress
    from fuzzytwin._utils.text import count
    from fuzzytwin.apps.study import quiet
    from fuzzytwin.data.files import BATCH_ROWS, open_table
    from fuzzytwin.data.predict_source import label
    from fuzzytwin.data.writers import TableWriter, as_csv, check_ending, keeps_text

    shared.check_output(out, force)
    if out is not None:
        check_ending(out)
    fitted, facts = shared.load_model(model)
    promise: list[str] = []
    if coverage is not None:
        if not 0 < coverage < 1:
            raise ValueError(
                f"--coverage {coverage} is not allowed; give a number between 0 and 1."
            )
        if not hasattr(fitted[-1], "set_scores_"):
            raise ValueError(
                f"{model} does not have what --coverage needs; train it with --calibrate."
            )
        rare = _rare_class(facts)
        if class_conditional is None:
            class_conditional = rare is not None
        promise = [_promise(coverage, class_conditional, rare)]
    schema = shared.schema_of(facts, data)
    kept = [id_column, *keep]
    if schema.zero_based is None:
        wanted = [c.name for c in schema.features]
        names = open_table(data, wanted, schema.separator, sheet).schema.names
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
        class_conditional=bool(class_conditional),
        as_text=out is None or keeps_text(out),
        sheet=sheet,
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
    notes = [*source.odd_cells.notes(), *promise]
    if as_json:
        done = {"rows": rows, "out": str(out), "notes": notes}
        return show.print_json(records if out is None else done)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if out is not None:
        show.say(f"{count(rows, 'row')} labelled; they are in {show.short(out)}.")


def _rare_class(facts: dict[str, Any]) -> str | None:
    """Name the smallest class of training, if it has less than half an equal share."""
    sizes = facts.get("classes") or {"": 1}
    rarest = min(sizes, key=lambda label: sizes[label])
    few = sizes[rarest] < sum(sizes.values()) / len(sizes) / 2
    return rarest if few else None


def _promise(coverage: float, class_conditional: bool, rare: str | None) -> str:
    """Say which promise the sets keep."""
    if class_conditional:
        return f"sets hold the true label for {coverage:.0%} of the rows of every class"
    words = (
        f"sets hold the true label for {coverage:.0%} of all rows, on average, not of every class"
    )
    if rare is not None:
        words += f"; rows of class {rare} may be covered less: --class-conditional"
    return words


def evaluate(
    model: Path = o.MODEL,
    data: Path = typer.Argument(help="Rows with their true labels."),
    target: str | None = o.column("Column of labels  [default: as in training]"),
    groups: str | None = o.GROUPS,
    sheet: str | None = o.SHEET,
    as_json: bool = o.JSON,
) -> None:
    """Measure a model on labelled rows that it was not trained on."""
    from fuzzytwin.apps.measures import measure
    from fuzzytwin.apps.study import is_calibrated, quiet
    from fuzzytwin.apps.table_rows import labelled_rows

    fitted, facts = shared.load_model(model)
    rows = labelled_rows(
        str(data), shared.schema_of(facts, data), fitted.n_features_in_, target, groups,
        facts.get("groups"), sheet,
    )  # fmt: skip
    with quiet():
        P, predicted = fitted.predict_proba(rows.X), fitted.predict(rows.X)
    classes, y = fitted.classes_.astype(str), rows.y.astype(str)
    score = measure(
        y, predicted.astype(str), membership=P, classes=classes, weight=rows.weight,
        groups=rows.groups, probabilities=is_calibrated(fitted[-1]),
    )  # fmt: skip
    score["unknown_labels"] = sorted(set(y) - set(classes))
    score["trained_on_this"] = Path(str(facts.get("data"))).name == data.name
    score["notes"] = rows.notes
    if as_json:
        return show.print_json(score)
    show.evaluated(score, data)
