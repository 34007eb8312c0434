"""Find doubtful labels: ``fuzzytwin doubts``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzzytwin._utils.versions import versions
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Category, Drop, Force, Json, Numeric

if TYPE_CHECKING:
    from fuzzytwin.tables.doubts import TableDoubts


def doubts(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Excel, Parquet, Feather or LIBSVM file.")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of labels.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column that names the rows.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all rows, the most doubtful first, with degrees and suggested labels: "
            ".csv, .tsv, .parquet or .feather.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with the most doubtful rows."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    drop: Drop = [],  # noqa: B006
    numeric: Numeric = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    top: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 15,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find rows whose label is probably wrong, and suggest another."""
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.sources.formats import known_kind
    from fuzzytwin.sources.writers import check_ending
    from fuzzytwin.tables.doubts import table_doubts
    from fuzzytwin.tables.rows import read_rows
    from fuzzytwin.tables.settings import Settings

    if out is not None:
        check_ending(out)
        if report is not None and report.resolve() == out.resolve():
            raise ValueError(f"--out and --report both name {out}; give the report another name.")
    for path in (out, report):
        if path is not None and path.resolve() == data.resolve():
            raise ValueError(f"{path} is the table itself; give another name.")
    if target is not None or known_kind(data) == "libsvm":
        for path in (out, report):
            inputs.check_output(path, force)  # without a target, reading asks for it first
    settings = Settings(
        target=target, id=id_column, weight=weight, drop=drop, numeric=numeric, category=category
    )
    with screens.progress(2) as bar:
        bar.begin("reading")
        rows = read_rows(str(data), settings)
        bar.begin("judging every row by the others")
        found = table_doubts(str(data), target, rows)
    if out is not None:
        _write(found, out, force)
    if report is not None:
        from fuzzytwin.report.doubts_page import doubts_page

        page = doubts_page(found, inputs.command_line(), versions())
        with replacing(report, overwrite=force) as draft:
            draft.write_text(page, encoding="utf-8")
    if as_json:
        _print_json(found, out, report)
        return
    _show(found, top, out, report)


def _write(found: TableDoubts, out: Path, force: bool) -> None:
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.sources.cells import arrow
    from fuzzytwin.sources.writers import TableWriter

    table = arrow().Table.from_pandas(found.frame(), preserve_index=False)
    with replacing(out, overwrite=force) as draft, TableWriter(out, draft) as writer:
        writer.write(table)


def _print_json(found: TableDoubts, out: Path | None, report: Path | None) -> None:
    doubts = found.report
    frame = found.frame()
    screens.print_json({
        "data": found.data,
        "target": found.target,
        "rows": len(doubts.codes),
        "classes": [str(label) for label in doubts.classes],
        "n_doubtful": int(doubts.doubtful.sum()),
        "n_wrong": doubts.n_wrong,
        "n_wrong_interval": list(doubts.n_wrong_interval),
        "noise_matrix": doubts.noise_matrix.tolist(),
        "setting": doubts.setting,
        "notes": found.rows.notes,
        "doubtful": frame[frame["doubtful"]].drop(columns="doubtful").to_dict("records"),
        "out": out and str(out),
        "report": report and str(report),
    })  # fmt: skip


def _show(found: TableDoubts, top: int, out: Path | None, report: Path | None) -> None:
    screen, doubts, rows = screens.new_console(), found.report, found.rows
    low, high = doubts.n_wrong_interval
    screen.print(
        f"[bold]{int(doubts.doubtful.sum()):,}[/] of {len(doubts.codes):,} labels are doubtful; "
        f"about {doubts.n_wrong:,.0f} ({low:,.0f} to {high:,.0f}) are probably wrong.",
        highlight=False,
    )
    for note in rows.notes:
        screen.print(f"{screens.short(note)}.", highlight=False)
    frame = found.frame()
    frame = frame[frame["doubtful"]].head(top)
    if len(frame):
        named = [screens.short(doubts.id_name, 20)] if rows.names is not None else []
        table = screens.new_table("row>", *named, "label", "suggested", "degree>")
        for entry in frame.itertuples(index=False):
            cells = [screens.short(entry[1], 24)] if named else []
            row, (label, suggested, degree) = entry[0], entry[1 + len(named) : 4 + len(named)]
            table.add_row(
                str(row), *cells, screens.short(label, 20), screens.short(suggested, 20),
                f"{degree:.2f}",
            )  # fmt: skip
        screen.print()
        screen.print(table)
        more = int(doubts.doubtful.sum()) - len(frame)
        if more > 0:
            screen.print(f"... and {more:,} more (--top, --out).", highlight=False)
        screen.print(
            "Degree: how probably the label is right, from all other rows. Rows are numbered as in "
            "a spreadsheet: the header is row 1."
            if frame["row"].size and found.numbers.min() > 1
            else "Degree: how probably the label is right, from all other rows.",
            highlight=False,
        )
    screen.print(f"Found by {screens.short(doubts.setting)}.", highlight=False)
    if out is not None:
        screen.print(f"\nAll rows are in [bold]{screens.short(out)}[/].", highlight=False)
    if report is not None:
        screen.print(f"The page is in [bold]{screens.short(report)}[/].", highlight=False)
