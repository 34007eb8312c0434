"""Train on a table: ``fuzzytwin train``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


def train(
    data: Path = o.DATA,
    target: str | None = o.TARGET,
    out: Path | None = o.file("Model to write  [default: DATA's name.skops]"),
    model: str | None = o.one_of(
        "committee: no tuning, probabilities; search: planes whose parameters are tuned; "
        "planes: untuned  [default: committee; search if options of planes are given]",
        "",
        *("committee", "search", "planes"),
    ),
    search: bool | None = o.option("", "--search/--no-search", hidden=True),
    planes: str | None = o.PLANES,
    membership: str | None = o.MEMBERSHIP,
    kernel: str | None = o.KERNEL,
    solver: str | None = o.SOLVER,
    class_weight: list[str] = o.option(
        "Weigh classes: balanced, or a weight for a label; may be repeated.",
        default=[],
        metavar="balanced|LABEL=W",
    ),
    noise: str | None = o.one_of(
        "auto: model label errors too, so that probabilities are those of the true label; for the "
        "committee.",
        "",
        "auto",
    ),
    scoring: str | None = o.SCORING,
    calibrate: bool = o.flag(
        "Output calibrated probabilities; required for predict --coverage, but for the committee.",
        "--calibrate",
    ),
    weight: str | None = o.WEIGHT,
    degree: str | None = o.DEGREE,
    groups: str | None = o.GROUPS,
    id_column: str | None = o.ID,
    sheet: str | None = o.SHEET,
    drop: list[str] = o.DROP,
    numeric: list[str] = o.NUMERIC,
    category: list[str] = o.CATEGORY,
    missing: list[str] = o.MISSING,
    report: Path | None = o.file("Write a page about the model."),
    folds: int = o.FOLDS,
    seed: int = o.SEED,
    stream: bool | None = o.option(
        "Read in batches  [default: if memory is short]", "--stream/--no-stream"
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Train on a table, measure, and save a safe model file."""
    from fuzzytwin import store
    from fuzzytwin.apps.study import Study
    from fuzzytwin.apps.table_rows import Settings
    from fuzzytwin.apps.table_streaming import train_stream
    from fuzzytwin.data.files import ENDINGS, known_format

    if out is None:
        ending = max((e for e in ENDINGS if data.name.lower().endswith(e)), key=len, default=" ")
        out = Path(f"{data.name[: -len(ending)] or 'model'}.skops")
    asked: dict[str, Any] = {
        "planes": planes, "kernel": kernel, "solver": solver, "membership": membership,
        "scoring": scoring,
    }  # fmt: skip
    asked = {name: value for name, value in asked.items() if value is not None}
    kind = model or {None: None, True: "search", False: "planes"}[search]
    if kind == "committee" and asked:
        option = next(iter(asked))
        raise ValueError(f"--{option} is for planes; leave it out, or --model committee.")
    kind = kind or ("search" if asked else "committee")
    if noise is not None and kind != "committee":
        planes_by = next((f"--{option}" for option in asked), f"--model {kind}")
        raise ValueError(
            f"--noise {noise} is for the committee; leave it out, or the options of planes "
            f"({planes_by})."
        )
    settings = Settings(
        target=target, model=kind, noise=noise,
        class_weight=_class_weight(class_weight), calibrate=calibrate, weight=weight,
        degree=degree, groups=groups, id=id_column, sheet=sheet, drop=drop, numeric=numeric,
        category=category, missing=missing, folds=folds, seed=seed, **asked,
    )  # fmt: skip
    need = shared.too_large(data, settings.columns, sheet) if stream is None else None
    streaming = bool(stream) or need is not None
    if need is not None:
        shared.note(f"{need}: it is read in batches (--stream)")
    if streaming and calibrate:
        raise ValueError(
            "--calibrate needs all rows at once, which --stream does not have; use --no-stream, or "
            "leave out --calibrate."
        )
    store.need_skops()
    if target is not None or not known_format(data).named:
        shared.check_outputs(data, out, report, force)  # without one, training asks for it first
    with shared.progress(6 if streaming else folds + 2) as bar:
        study = Study(str(data), settings, bar.begin)
        if streaming:
            train_stream(study)
        facts = study.facts
    store.save(study.model, out, overwrite=force, facts=facts)
    if report is not None:
        from fuzzytwin.apps.report import page

        try:
            shared.write_file(report, page.model_page(study, shared.command_line()), force)
        except Exception as error:
            error.add_note(f"The model itself is saved in {out}.")
            raise
    if as_json:
        return show.print_json({**facts, "model": str(out), "report": report and str(report)})
    show.trained(facts, out, report)


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
