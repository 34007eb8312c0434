"""Find doubtful labels: ``fuzzytwin doubts``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show

if TYPE_CHECKING:
    from fuzzytwin.apps.study import Study
    from fuzzytwin.apps.table_rows import Settings


def doubts(
    files: list[Path] = typer.Argument(
        metavar="DATA",
        help=f"{o.TABLES} file, or LIBSVM text; with --stream several of one kind, or a folder of "
        "them.",
    ),
    target: str | None = o.TARGET,
    votes: list[str] = o.VOTES,
    id_column: str | None = o.ID,
    groups: str | None = o.GROUPS,
    out: Path | None = o.file(
        f"Write all rows, the most doubtful first, with degrees and suggested labels: {o.TABLES}."
    ),
    keep_all: bool = o.KEEP_ALL,
    report: Path | None = o.file("Write a page with the most doubtful rows."),
    weight: str | None = o.WEIGHT,
    sheet: str | None = o.SHEET,
    drop: list[str] = o.DROP,
    numeric: list[str] = o.NUMERIC,
    category: list[str] = o.CATEGORY,
    missing: list[str] = o.MISSING,
    top: int = o.option("Rows to show.", default=15, min=1),
    stream: bool | None = o.option(
        "Read in batches; the first 100,000 rows show what columns hold  [default: if memory is "
        "short]",
        "--stream/--no-stream",
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Find rows whose label is probably wrong, and suggest another."""
    from fuzzytwin.apps.table_rows import Settings

    settings = Settings(
        target=target, id=id_column, groups=groups, weight=weight, sheet=sheet, drop=drop,
        numeric=numeric, category=category, votes=votes, missing=missing,
    )  # fmt: skip
    whole = {"--votes": votes, "--groups": groups, "--keep-all": keep_all, "--report": report}
    at_once = [option for option, value in whole.items() if value]
    if stream is None and len(files) == 1:
        named = [name for name in (target, id_column, groups, weight) if name is not None]
        stream = _short_of_memory(files[0], named, sheet, at_once, out)
    if stream:
        for option in at_once:
            raise ValueError(f"{option} cannot be combined with --stream; leave out one.")
        return _stream(files, out, force, as_json, settings)
    if len(files) > 1:
        raise ValueError(f"{len(files)} files are given: one is read, or all of them by --stream.")
    data = files[0]
    from fuzzytwin.apps.study import Study
    from fuzzytwin.data.files import known_format
    from fuzzytwin.data.writers import check_out

    if out is not None:
        check_out(out)
    if keep_all and not known_format(data).named:
        raise ValueError(f"{data} is LIBSVM text, which has no names; leave out --keep-all.")
    if keep_all and out is None:
        raise ValueError("--keep-all copies named columns to --out FILE; give both, or none.")
    if target is not None or votes or not known_format(data).named:
        shared.check_outputs(data, out, report, force)  # without one, reading asks for it first
    study = Study(str(data), settings, verbose=sys.stderr.isatty())
    _ = study.doubts
    if out is not None:
        shared.write_table(out, _table(study, keep_all), force)
    if report is not None:
        from fuzzytwin.apps.report.doubts_page import doubts_page

        shared.write_file(report, doubts_page(study, shared.command_line()), force)
    if not as_json:
        return show.doubtful(study, top, out, report)
    found, frame, voters = study.doubts, study.doubts_frame(), study.doubts.annotators
    right = voters and dict(zip(map(str, voters.names), voters.reliability, strict=True))
    show.print_json({
        **_figures(study.path, target, found, len(found.codes)),
        "n_doubtful": int(found.doubtful.sum()),
        "n_wrong_after_suggestions": found.n_wrong_after,
        "setting": found.setting,
        "annotators": right or {},
        "notes": study.notes,
        "doubtful": frame[frame["doubtful"]].drop(columns="doubtful").to_dict("records"),
        "out": out and str(out),
        "report": report and str(report),
    })  # fmt: skip


def _short_of_memory(
    data: Path, named: list[str], sheet: str | None, at_once: list[str], out: Path | None
) -> bool:
    """Return whether a file is to be read in batches; refuse what cannot be done in batches."""
    need = shared.too_large(data, named, sheet)
    if need is None:
        return False
    remedy = "give --out FILE, and it is read in batches (--stream)"
    if at_once:
        remedy = f"{at_once[0]} needs all rows at once: leave it out"
    if at_once or out is None:
        from fuzzytwin.core.solvers import NotEnoughMemoryError

        raise NotEnoughMemoryError(f"{need}; {remedy}, or try it all the same: --no-stream.")
    shared.note(f"{need}: it is read in batches (--stream)")
    return True


def _figures(data: Any, target: str | None, found: Any, rows: int) -> dict[str, Any]:
    """Collect what is known about the labels, of rows in memory or in batches, for JSON."""
    return {
        "data": data,
        "target": target,
        "rows": rows,
        "classes": [str(label) for label in found.classes],
        "n_wrong": found.n_wrong,
        "n_wrong_interval": list(found.n_wrong_interval),
        "noise_matrix": found.noise_matrix.tolist(),
    }


def _table(study: Study, keep_all: bool) -> Any:
    """Return the doubts, beside all columns of the table or not."""
    frame, names = study.doubts_frame(), ["suggested", "degree", "doubtful", "rank"]
    if not keep_all:
        return frame
    table = study.table.cells.take(study.rows.X.index.to_numpy()[study.doubts.order])
    end = ""
    while {f"{name}{end}" for name in names} & set(table.schema.names):
        end += "_"
    for name in names:
        table = table.append_column(f"{name}{end}", [frame[name]])
    return table


def _stream(
    files: list[Path], out: Path | None, force: bool, as_json: bool, settings: Settings
) -> None:
    """Judge the rows of files that do not fit in memory."""
    from fuzzytwin.apps.table_streaming import doubts_stream
    from fuzzytwin.data.sources import files_of
    from fuzzytwin.data.writers import check_out

    if out is None:
        raise ValueError("--stream writes what it finds; give --out FILE.")
    check_out(out)
    shared.check_output(out, force)
    for file in (file for path in files for file in files_of(path)):
        if out.resolve() == Path(file).resolve():
            raise ValueError(f"--out {out} is a file that is read; give another name.")
    done = doubts_stream([str(file) for file in files], settings, sys.stderr.isatty())
    shared.write_table(out, done.frame, force)
    found = done.found
    if not as_json:
        show.columns(done.schema.as_dict()["columns"])
        lines = [found.summary(), *(f"{note}." for note in done.notes), f"\nAll rows are in {out}."]
        return show.say(*map(show.short, lines))
    data = [str(file) for file in files]
    show.print_json({
        **_figures(data if len(data) > 1 else data[0], settings.target, found, found.n_rows),
        "rows_sampled": found.n_sampled,
        "n_doubtful": found.n_doubtful,
        "notes": done.notes,
        "out": str(out),
    })  # fmt: skip
