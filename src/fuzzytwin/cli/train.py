"""Train on a table: ``fuzzytwin train``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzzytwin._utils.versions import versions
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import (
    Category,
    Drop,
    Folds,
    Force,
    Groups,
    Json,
    Kernel,
    Membership,
    Numeric,
    Planes,
    Scoring,
    Seed,
    Solver,
    Stream,
)

MOST_EFFECTS = 50  # columns of each class whose effects a model file keeps


def train(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Excel, Parquet, Feather or LIBSVM file.")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to predict.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Model file to write  [default: DATA's name.skops]"),
    ] = None,
    search: Annotated[bool, typer.Option(help="Tune the parameters.")] = True,
    planes: Annotated[Planes, typer.Option(help="Planes with or without widths.")] = Planes.CRISP,
    membership: Annotated[
        Membership | None,
        typer.Option(
            metavar="NAME",
            help="How degrees are computed: none, center, hyperplane, neighbor, entropy, "
            "intuitionistic, or one of them balanced by the sizes of the classes, such as "
            "entropy_balanced  [default: the search picks]",
        ),
    ] = None,
    kernel: Annotated[
        Kernel, typer.Option(metavar="NAME", help="linear, or rbf and others to curve the planes.")
    ] = Kernel.LINEAR,
    solver: Annotated[
        Solver,
        typer.Option(
            metavar="NAME",
            help="How planes are found: moments, rows (fewer rows than columns), iterative (many "
            "sparse columns), or auto: by the shape of the table.",
        ),
    ] = Solver.AUTO,
    class_weight: Annotated[
        list[str],
        typer.Option(
            metavar="balanced|LABEL=W",
            help="Weigh classes: balanced, or a weight for a label; may be repeated.",
        ),
    ] = [],  # noqa: B006
    scoring: Scoring = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Probabilities in place of memberships, and what predict --coverage needs.",
        ),
    ] = False,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    degree: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of degrees, 0 to 1.")
    ] = None,
    groups: Groups = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Column that names the rows in the report."),
    ] = None,
    drop: Drop = [],  # noqa: B006
    numeric: Numeric = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the model.")
    ] = None,
    folds: Folds = 5,
    seed: Seed = 0,
    stream: Stream = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train on a table, measure, and save a safe model file."""
    from fuzzytwin import store
    from fuzzytwin._utils.files import replacing
    from fuzzytwin.explain import explain
    from fuzzytwin.sources.formats import known_kind
    from fuzzytwin.tables.settings import Settings
    from fuzzytwin.tables.streaming import train_stream
    from fuzzytwin.tables.training import train as train_in_memory

    out = Path(f"{data.name.split('.')[0] or 'model'}.skops") if out is None else out
    if report is not None and report.resolve() == out.resolve():
        raise ValueError(f"--out and --report both name {out}; give the report another name.")
    if target is not None or known_kind(data) == "libsvm":
        for path in (out, report):
            inputs.check_output(path, force)  # without a target, training asks for it first
    store.need_skops()
    settings = Settings(
        target=target,
        search=search,
        planes=planes.value,
        membership=membership.value if membership else None,
        kernel=kernel.value,
        solver=solver.value,
        class_weight=_class_weight(class_weight),
        scoring=scoring,
        calibrate=calibrate,
        weight=weight,
        degree=degree,
        groups=groups,
        id=id_column,
        drop=drop,
        numeric=numeric,
        category=category,
        folds=folds,
        seed=seed,
    )
    streaming = inputs.too_large(data) if stream is None else stream
    if streaming and calibrate:
        raise ValueError(
            "--calibrate needs all rows at once, which --stream does not have; use --no-stream, or "
            "leave out --calibrate."
        )
    with screens.progress(6 if streaming else folds + 2) as bar:
        work = train_stream if streaming else train_in_memory
        trained = work(str(data), settings, bar.begin)
    rows, facts = trained.rows, trained.facts
    facts["effects"] = explain(trained.model, rows.X, rows.y, rows.weight, MOST_EFFECTS)
    store.save(trained.model, out, overwrite=force, facts=facts)
    if report is not None:
        from fuzzytwin.report.page import report as write_report

        try:
            page = write_report(trained, inputs.command_line(), versions())
            with replacing(report, overwrite=force) as draft:
                draft.write_text(page, encoding="utf-8")
        except Exception as error:
            error.add_note(f"The model itself is saved in {out}.")
            raise
    if as_json:
        screens.print_json({**facts, "model": str(out), "report": report and str(report)})
        return
    _show_trained(facts, out, report)


def _class_weight(given: Sequence[str]) -> str | dict[str, float] | None:
    """Read --class-weight: "balanced", or labels with their weights."""
    if not given:
        return None
    if list(given) == ["balanced"]:
        return "balanced"
    weights = {}
    for entry in given:
        label, equals, text = entry.rpartition("=")
        try:
            weights[label] = float(text)
        except ValueError:
            equals = ""
        if not equals or not 0 < weights[label] < float("inf"):
            raise ValueError(
                f"--class-weight {entry!r} must be balanced, or LABEL=WEIGHT with a weight above "
                "0, such as yes=5."
            )
    return weights


def _show_trained(facts: dict[str, Any], out: Path, report: Path | None) -> None:
    from fuzzytwin.tables.measures import neglected_class

    screen, score = screens.new_console(), facts["score"]
    _show_columns(screen, facts["schema"]["columns"])
    screen.print()
    rows = screens.new_table("", "")
    rows.add_row("rows", f"{facts['rows']:,}")
    rows.add_row("classes", screens.short(screens.class_counts(facts), 60))
    for name, text in screens.parameter_words(facts):
        rows.add_row(name, screens.short(text, 60))
    for note in facts["notes"]:
        rows.add_row("note", screens.short(note))
    screen.print(rows)
    tuned = ", tuned inside each fold" if facts["tuned"] and "fold" in score["how"] else ""
    screen.print(f"\nMeasured by {score['how']}{tuned}:", highlight=False)
    screens.show_score(screen, score)
    if (small := neglected_class(score)) is not None:
        screen.print(
            f"\nFor small classes such as {screens.short(small, 40)}, try --class-weight balanced "
            "or --scoring balanced_accuracy.",
            highlight=False,
        )
    screen.print(f"\nThe model is in [bold]{screens.short(out)}[/].", highlight=False)
    if report is not None:
        screen.print(f"The report is in [bold]{screens.short(report)}[/].", highlight=False)
    screen.print("Try next:", highlight=False)
    for line in (f"predict {out} NEW-DATA", f"explain {out}", f"export {out} {out.stem}.onnx"):
        screen.print(f"  fuzzytwin {line}", markup=False, highlight=False)


def _show_columns(screen: Any, columns: list[dict[str, Any]]) -> None:
    """Show what became of the columns; of many, those without a remark share a line by kind."""
    shown = [c for c in columns if c["note"]][:40] if len(columns) > 24 else columns
    table = screens.new_table("column", "taken as", "values>", "missing>", "")
    for column in shown:
        table.add_row(
            screens.short(column["name"], 26), column["kind"], f"{column['distinct']:,}",
            f"{column['missing']:,}", screens.short(column["note"]),
        )  # fmt: skip
    if shown:
        screen.print(table)
    kinds: dict[str, list[str]] = {}
    for column in columns:
        if column not in shown:
            kinds.setdefault(column["kind"], []).append(column["name"])
    for kind, names in kinds.items():
        many = f"{len(names):,} columns" if len(names) > 1 else "1 column"
        text = f"{many} taken as {kind}: {', '.join(names)}"
        screen.print(screens.short(text, 400), highlight=False)
