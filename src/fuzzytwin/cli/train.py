"""Train on a table: ``fuzzytwin train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.versions import versions
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Drop, Folds, Force, Json, Kernel, Membership, Planes, Seed


def train(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet, Feather or LIBSVM file.")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to predict.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to put the model  [default: DATA's name.skops]"),
    ] = None,
    search: Annotated[bool, typer.Option(help="Tune the parameters.")] = True,
    planes: Annotated[Planes, typer.Option(help="Planes with or without widths.")] = Planes.CRISP,
    membership: Annotated[
        Membership | None,
        typer.Option(
            metavar="WAY",
            help="How degrees are computed: none, center, hyperplane, neighbor, entropy or "
            "intuitionistic  [default: the search picks]",
        ),
    ] = None,
    kernel: Annotated[
        Kernel, typer.Option(metavar="NAME", help="linear, or rbf and others to curve the planes.")
    ] = Kernel.LINEAR,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    degree: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of degrees, 0 to 1.")
    ] = None,
    drop: Drop = [],  # noqa: B006
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the model.")
    ] = None,
    folds: Folds = 5,
    seed: Seed = 0,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Read batches  [default: if memory is short]"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train on a table, measure honestly, save a safe model file."""
    from fuzzytwin import store
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.tables import files as _tables
    from fuzzytwin.tables.training import Settings, train, train_stream

    name = data.name.split(".")[0] or "model"
    out = Path(f"{name}.skops") if out is None else out
    if target is not None or _tables.kind_of(data) == "libsvm":
        for path in (out, report):
            inputs.check_output(path, force)  # without a target, training asks for it first
    store.need_skops()
    settings = Settings(
        target, search, planes.value, membership.value if membership else None, weight, degree,
        drop, folds, seed, kernel.value,
    )  # fmt: skip
    streaming = inputs.too_large(data) if stream is None else stream
    with screens.progress(6 if streaming else folds + 2) as bar:
        work = train_stream if streaming else train
        trained = work(str(data), settings, bar.begin)
    store.save(trained.model, out, overwrite=force, facts=trained.facts)
    if report is not None:
        from fuzzytwin.report.page import report as write_report

        page = write_report(trained, inputs.command_line(), versions())
        with replacing(report, overwrite=force) as draft:
            draft.write_text(page, encoding="utf-8")
    if as_json:
        screens.print_json({**trained.facts, "model": str(out), "report": report and str(report)})
        return
    _show_trained(trained.facts, out, report)


def _show_trained(facts: dict[str, Any], out: Path, report: Path | None) -> None:
    from fuzzytwin.report.page import verdict

    screen, score = screens.new_console(), facts["score"]
    _show_columns(screen, facts["columns"])
    screen.print()
    counts = ", ".join(f"{label} ({n:,})" for label, n in list(facts["classes"].items())[:8])
    rows = screens.new_table("", "")
    rows.add_row("rows", f"{facts['rows']:,}")
    rows.add_row("classes", screens.short(counts, 60))
    chosen = facts["parameters"]
    rows.add_row("planes", f"{chosen['planes']}, rule {chosen['rule']}")
    if "kernel" in chosen:
        rows.add_row("kernel", screens.kernel_words(facts))
    rows.add_row("membership", screens.short(facts["degree"] or chosen["membership"] or "none"))
    rows.add_row("C", screens.short(screens.penalty_words(chosen["C"], facts["classes"]), 60))
    rows.add_row("alpha", f"{chosen['alpha']:.3g}")
    for note in facts["notes"]:
        rows.add_row("note", screens.short(note))
    screen.print(rows)
    spread = "standard deviation over the folds" if "folds" in score else "standard error"
    how = score["how"] + (", tuned inside each fold" if facts["tuned"] and "folds" in score else "")
    screen.print(
        f"\naccuracy [bold]{score['accuracy']:.3f} ± {score['accuracy_std']:.3f}[/] ({spread}),\n"
        f"by {how}\nalways the largest class: {score['baseline']:.3f}\n{verdict(score)}\n",
        highlight=False,
    )
    screen.print(f"The model is in [bold]{screens.short(out)}[/].", highlight=False)
    if report is not None:
        screen.print(f"The report is in [bold]{screens.short(report)}[/].", highlight=False)
    screen.print("Try next:", highlight=False)
    look = "info" if "kernel" in chosen else "explain"  # no column drives a curved plane alone
    for line in (f"predict {out} NEW-DATA", f"{look} {out}", f"export {out} {out.stem}.onnx"):
        screen.print(f"  fuzzytwin {line}", markup=False, highlight=False)


def _show_columns(screen: Any, columns: list[dict[str, Any]]) -> None:
    """One table of what became of the columns; long ones are cut in the middle of a kind."""
    table = screens.new_table("column", "taken as", "values>", "missing>", "")
    shown = [c for c in columns if c["note"]][:12] if len(columns) > 24 else columns
    for column in shown:
        table.add_row(
            screens.short(column["name"], 26), column["kind"], f"{column['distinct']:,}",
            f"{column['missing']:,}", screens.short(column["note"], 30),
        )  # fmt: skip
    kinds: dict[str, int] = {}
    for column in columns:
        if column not in shown:
            kinds[column["kind"]] = kinds.get(column["kind"], 0) + 1
    for kind, count in kinds.items():
        table.add_row(f"... {count:,} more", kind, "", "", "")
    screen.print(table)
