"""Train on a table: ``fuzzytwin train``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared

MODELS = ("committee", "search", "planes")


def train(
    data: o.Data,
    target: o.Labels = None,
    out: Annotated[Path | None, o.file("Model to write  [default: DATA's name.skops]")] = None,
    model: Annotated[
        str | None,
        o.one_of(
            "committee: no tuning, probabilities; search: planes whose parameters are tuned; "
            "planes: untuned  [default: committee; search if options of planes are given]",
            "",
            *MODELS,
        ),
    ] = None,
    search: Annotated[bool | None, o.option("", "--search/--no-search", hidden=True)] = None,
    planes: o.Planes = None,
    membership: o.Membership = None,
    kernel: o.Kernel = None,
    solver: o.Solver = None,
    class_weight: Annotated[
        list[str],
        o.option(
            "Weigh classes: balanced, or a weight for a label; may be repeated.",
            metavar="balanced|LABEL=W",
        ),
    ] = [],  # noqa: B006
    scoring: o.Scoring = None,
    calibrate: Annotated[
        bool,
        o.option(
            "Output calibrated probabilities; required for predict --coverage, but for the "
            "committee.",
            "--calibrate",
        ),
    ] = False,
    weight: o.Weight = None,
    degree: o.Degree = None,
    groups: o.Groups = None,
    id_column: o.Id = None,
    sheet: o.Sheet = None,
    drop: o.Drop = [],  # noqa: B006
    numeric: o.Numeric = [],  # noqa: B006
    category: o.Category = [],  # noqa: B006
    report: Annotated[Path | None, o.file("Write a page about the model.")] = None,
    folds: o.Folds = 5,
    seed: o.Seed = 0,
    stream: o.Stream = None,
    force: o.Force = False,
    as_json: o.Json = False,
) -> None:
    """Train on a table, measure, and save a safe model file."""
    from fuzzytwin import store
    from fuzzytwin.apps.study import Study
    from fuzzytwin.apps.table_rows import Settings
    from fuzzytwin.apps.table_streaming import train_stream
    from fuzzytwin.data.files import known_kind

    out = Path(f"{shared.stem(data)}.skops") if out is None else out
    if report is not None and report.resolve() == out.resolve():
        raise ValueError(f"--out and --report both name {out}; give the report another name.")
    if target is not None or known_kind(data) == "libsvm":
        for path in (out, report):
            shared.check_output(path, force)  # without a target, training asks for it first
    store.need_skops()
    asked: dict[str, Any] = {
        "planes": planes, "kernel": kernel, "solver": solver, "membership": membership,
        "scoring": scoring,
    }  # fmt: skip
    asked = {name: value for name, value in asked.items() if value is not None}
    kind = model or {None: None, True: "search", False: "planes"}[search]
    if kind == "committee" and asked:
        raise ValueError(
            f"--{next(iter(asked))} is for planes; leave it out, or --model committee."
        )
    settings = Settings(
        target=target, model=kind or ("search" if asked else "committee"),
        class_weight=_class_weight(class_weight), calibrate=calibrate, weight=weight,
        degree=degree, groups=groups, id=id_column, sheet=sheet, drop=drop, numeric=numeric,
        category=category, folds=folds, seed=seed, **asked,
    )  # fmt: skip
    streaming = shared.too_large(data) if stream is None else stream
    if streaming and calibrate:
        raise ValueError(
            "--calibrate needs all rows at once, which --stream does not have; use --no-stream, or "
            "leave out --calibrate."
        )
    with shared.progress(6 if streaming else folds + 2) as bar:
        study = Study(str(data), settings, bar.begin)
        if streaming:
            train_stream(study)
        facts = study.facts
    store.save(study.model, out, overwrite=force, facts=facts)
    if report is not None:
        from fuzzytwin.apps.report import page

        try:
            shared.write_text(report, page.model_page(study, shared.command_line()), force)
        except Exception as error:
            error.add_note(f"The model itself is saved in {out}.")
            raise
    if as_json:
        shared.print_json({**facts, "model": str(out), "report": report and str(report)})
        return
    _show(facts, out, report)


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


def _show(facts: dict[str, Any], out: Path, report: Path | None) -> None:
    screen, score = shared.new_console(), facts["score"]
    shared.show_columns(facts["schema"]["columns"])
    screen.print()
    rows = shared.new_table("", "")
    rows.add_row("rows", f"{facts['rows']:,}")
    rows.add_row("classes", shared.short(shared.class_counts(facts), 60))
    for name, text in shared.parameter_words(facts):
        rows.add_row(name, shared.short(text, 60))
    for note in facts["notes"]:
        rows.add_row("note", shared.short(note))
    screen.print(rows)
    tuned = ", tuned inside each fold" if facts["tuned"] and "fold" in score["how"] else ""
    screen.print(f"\nMeasured by {score['how']}{tuned}:")
    shared.show_score(score)
    if (small := score["neglected"]) is not None:
        screen.print(
            f"\nFor small classes such as {shared.short(small, 40)}, try --class-weight balanced."
        )
    screen.print(f"\nThe model is in [bold]{shared.short(out)}[/].")
    if report is not None:
        screen.print(f"The report is in [bold]{shared.short(report)}[/].")
    shared.say("Try next:", f"  fuzzytwin predict {out} NEW-DATA", f"  fuzzytwin explain {out}",
               f"  fuzzytwin export {out} {out.stem}.onnx")  # fmt: skip
