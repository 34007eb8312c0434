"""Train on a table: ``fuzzytwin train``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin.cli import _options as o
from fuzzytwin.cli import _shared as shared
from fuzzytwin.cli import _show as show

if TYPE_CHECKING:
    from fuzzytwin.experiment import Experiment


def train(
    data: Path = o.DATA,
    target: str | None = o.TARGET,
    out: Path | None = o.file("Model file to write  [default: the name of DATA with .skops]"),
    class_weight: list[str] = o.option(
        "Class weights: balanced, or the weight of a label (may be repeated).",
        default=[],
        metavar="balanced|LABEL=W",
    ),
    noise: str | None = o.one_of(
        "auto: estimate label noise during fitting, so that probabilities are those of the true "
        "class.",
        "auto",
    ),
    weight: str | None = o.WEIGHT,
    degree: str | None = o.DEGREE,
    groups: str | None = o.GROUPS,
    id_column: str | None = o.ID,
    table: dict[str, Any] = o.TABLE,
    report: Path | None = o.file("HTML report to write."),
    folds: int = o.FOLDS,
    seed: int = o.SEED,
    stream: bool | None = o.STREAM,
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Train a classifier, measure it and save it.

    Scores are those of held-out rows, by cross-validation.
    """
    from fuzzytwin import store
    from fuzzytwin._utils.files import atomic_write
    from fuzzytwin.experiment import Experiment
    from fuzzytwin.experiment._rows import Settings
    from fuzzytwin.tables._formats import without_ending

    if out is None:
        out = Path(f"{without_ending(os.path.abspath(data)) or 'model'}.skops")
    settings = Settings(
        target=target, noise=noise, class_weight=_class_weight(class_weight), weight=weight,
        degree=degree, groups=groups, id=id_column, folds=folds, seed=seed, **table,
    )  # fmt: skip
    store.import_skops()
    if target is not None:  # otherwise reading the table reports that it is missing
        shared.check_outputs([data], out, report, force)
    experiment = Experiment(str(data), settings, stream=stream)
    streaming = shared.is_chunked(experiment, stream)
    with_label_issues = report is not None and not streaming
    with shared.progress(folds + 2 + with_label_issues) as bar:
        experiment.step = bar.begin
        metadata = experiment.metadata
        with atomic_write(out, overwrite=force, inputs=experiment.reader.paths) as draft:
            store.save(experiment.model, draft, overwrite=True, metadata=metadata)
        if report is not None:
            _write_report(experiment, report, out, force)
    if as_json:
        return show.print_json({**metadata, "model": str(out), "report": report and str(report)})
    show.trained(metadata, out, report)


def _write_report(experiment: Experiment, report: Path, out: Path, force: bool) -> None:
    """Write the report. If that fails, the error says that the model was saved."""
    from fuzzytwin.report import _page as page

    try:
        content = page.model_page(experiment, shared.command_line())
        shared.write_file(report, content, force, experiment.reader.paths)
    except Exception as error:
        error.add_note(f"The model was saved as {out}.")
        raise


def _class_weight(entries: Sequence[str]) -> str | dict[str, float] | None:
    """Parse --class-weight: "balanced", or labels with their weights."""
    if not entries:
        return None
    if list(entries) == ["balanced"]:
        return "balanced"
    weights = {}
    for entry in entries:
        label, equals, text = entry.rpartition("=")
        try:
            weights[label] = float(text)
        except ValueError:
            equals = ""
        if not equals or not 0 < weights[label] < float("inf"):
            raise ValueError(
                f"--class-weight {entry!r} is not valid; use balanced, or LABEL=WEIGHT with a "
                "weight above 0, such as yes=5."
            )
    return weights
