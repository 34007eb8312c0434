"""Find label issues: ``fuzzytwin label-issues``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fuzzytwin.cli import _options as o
from fuzzytwin.cli import _shared as shared
from fuzzytwin.cli import _show as show

if TYPE_CHECKING:
    from fuzzytwin.experiment import Experiment


def label_issues(
    files: list[Path] = typer.Argument(
        metavar="DATA", help=f"{o.TABLES} file, several files of one format, or a folder."
    ),
    target: str | None = o.TARGET,
    votes: list[str] = o.VOTES,
    labels: str | None = o.LABELS,
    id_column: str | None = o.ID,
    groups: str | None = o.GROUPS,
    out: Path | None = o.file(
        f"Write all rows, lowest label quality first, with suggested labels: {o.OUTPUTS}."
    ),
    keep_all: bool = o.KEEP_ALL,
    report: Path | None = o.file("HTML report to write."),
    weight: str | None = o.WEIGHT,
    table: dict[str, Any] = o.TABLE,
    limit: int = o.number("Rows to show.", "--limit", default=15, min=1),
    stream: bool | None = o.STREAM,
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Find rows whose label is probably wrong.

    Each label is checked against a model trained on all other rows, which may suggest another.
    """
    from fuzzytwin.experiment import Experiment
    from fuzzytwin.experiment._rows import Settings
    from fuzzytwin.tables._writer import check_out

    settings = Settings(
        target=target, id=id_column, groups=groups, weight=weight, votes=votes,
        labels=labels or "auto", **table,
    )  # fmt: skip
    in_memory = {"--votes": votes, "--groups": groups, "--keep-all": keep_all, "--report": report}
    needs_memory = [option for option, value in in_memory.items() if value]
    if stream and needs_memory:
        raise ValueError(f"{needs_memory[0]} cannot be combined with --stream; omit one of them.")
    if keep_all and out is None:
        raise ValueError("--keep-all needs --out FILE.")
    if out is not None:
        check_out(out)
    if target is not None or votes:  # if neither is given, reading the table reports it
        shared.check_outputs(files, out, report, force)
    paths = [str(file) for file in files]
    experiment = Experiment(paths, settings, verbose=sys.stderr.isatty(), stream=stream)
    shared.is_chunked(experiment, stream, needs_memory)
    _ = experiment.label_issues_summary
    if out is not None:
        shared.write_table(out, _table(experiment, keep_all), force, experiment.reader)
    if report is not None:
        from fuzzytwin.report._label_issues import label_issues_page

        content = label_issues_page(experiment, shared.command_line())
        shared.write_file(report, content, force, experiment.reader.paths)
    if as_json:
        return show.print_json(_result(experiment, out, report))
    show.label_issues(experiment, limit, out, report)


def _result(experiment: Experiment, out: Path | None, report: Path | None) -> dict[str, Any]:
    """Collect the result for JSON."""
    summary = experiment.label_issues_summary
    frame = experiment.label_issues_frame()
    issues = frame[frame["is_label_issue"]].drop(columns="is_label_issue")
    paths = experiment.paths
    result = {
        "data": paths if len(paths) > 1 else paths[0],
        "target": experiment.settings.target,
        "rows": len(frame),
        "classes": [str(label) for label in summary.classes],
        "n_errors": summary.n_errors,
        "n_errors_interval": list(summary.n_errors_interval),
        "noise_matrix": summary.noise_matrix.tolist(),
        "n_label_issues": len(issues),
        "notes": experiment.notes,
        "label_issues": issues.to_dict("records"),
        "out": out and str(out),
        "report": report and str(report),
    }
    for name in ("n_errors_if_accepted", "method", "n_sampled"):
        if hasattr(summary, name):
            result[name] = getattr(summary, name)
    if (annotators := getattr(summary, "annotators", None)) is not None:
        names = map(str, annotators.names)
        result["annotators"] = dict(zip(names, annotators.reliability, strict=True))
    return result


def _table(experiment: Experiment, keep_all: bool) -> Any:
    """Return the columns of label issues, with `keep_all` after those of the table."""
    from fuzzytwin.experiment._rows import LABEL_ISSUE_COLUMNS

    frame = experiment.label_issues_frame()
    if not keep_all:
        return frame
    report: Any = experiment.label_issues
    index = experiment.rows.X.index.to_numpy()[report.ranked_rows]
    table = experiment.table.cells.take(index)
    suffix = ""
    while {f"{name}{suffix}" for name in LABEL_ISSUE_COLUMNS} & set(table.schema.names):
        suffix += "_"
    for name in LABEL_ISSUE_COLUMNS:
        table = table.append_column(f"{name}{suffix}", [frame[name]])
    return table
