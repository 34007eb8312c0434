"""Run the experiments, and write the report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fuzzytwin._utils.extras import import_optional
from reproduction import audit, ndc, noise, toy, uci
from reproduction.cache import Cache
from reproduction.run import work_through
from reproduction.scale import Scale

EXPERIMENTS = {"toy": toy, "uci": uci, "ndc": ndc, "noise": noise, "audit": audit}


def reproduce(
    out: str | os.PathLike[str] = "reproduction_results",
    *,
    quick: bool = False,
    only: str | Iterable[str] | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Path:
    """Run the paper's experiments and write a report.

    Parameters
    ----------
    out : path, default="reproduction_results"
        Directory for results, created if it does not exist. Results that it holds already are
        used again if they have the same settings, so that a run that was stopped, even by a power
        cut, continues where it was.
    quick : bool, default=False
        A rough run in about two minutes on two cores: fewer folds, draws and points of the grids,
        and no million rows. The full run takes about a quarter of an hour.
    only : str or iterable of str, default=None
        Experiments to run, of "toy", "uci", "ndc", "noise" and "audit", as a list or separated by
        commas. None: all.
    jobs : int, default=1
        Number of processes. -1: one for each core. Only measured times depend on it.
    progress : bool, default=True
        Draw a progress bar on standard error.

    Returns
    -------
    pathlib.Path
        The report, a self-contained HTML file. Next to it are results.md, the tables as CSV files
        and the figures as PNG and SVG files.

    Raises
    ------
    ValueError
        If an experiment or the number of processes is unknown.
    ImportError
        If matplotlib or scikit-posthocs is missing.

    Examples
    --------
    >>> from reproduction.main import reproduce
    >>> reproduce(only="tables")
    Traceback (most recent call last):
    ValueError: only='tables' names no experiment 'tables'; choose from toy, uci, ndc, noise, audit.
    """
    names = _chosen(only)
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs!r} is not allowed; give a number of processes, or -1.")
    for package in ("matplotlib", "scikit_posthocs"):
        import_optional(package, "benchmarks", "the report")
    from reproduction.report import about_run, write_all

    folder, scale = Path(out), Scale.of(quick)
    cache = Cache(folder / "cells")
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells(scale)]
    cells = list({cell.path: cell for cell in cells}.values())
    known = work_through(cells, cache, jobs, progress)
    work = sum(map(cache.seconds, cells))
    about = about_run(scale, names, jobs, len(cells), known, work)
    return write_all(folder, scale, names, cache.get, about)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``python -m reproduction``."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Reproduce and audit the paper; writes report.html, tables and figures.",
    )
    hint = "a rough run: about two minutes on two cores"
    parser.add_argument("--quick", action="store_true", help=hint)
    parser.add_argument("--only", help=f"some of {','.join(EXPERIMENTS)}, separated by commas")
    parser.add_argument("--out", default="reproduction_results", help="directory (%(default)s)")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (one for each core)")
    chosen = parser.parse_args(arguments)
    try:
        report = reproduce(chosen.out, quick=chosen.quick, only=chosen.only, jobs=chosen.jobs)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues from here")
    print(report)


def _chosen(only: str | Iterable[str] | None) -> list[str]:
    if only is None:
        return list(EXPERIMENTS)
    asked = only.split(",") if isinstance(only, str) else list(only)
    asked = [name.strip() for name in asked]
    unknown = [name for name in asked if name not in EXPERIMENTS]
    if unknown or not asked:
        raise ValueError(
            f"only={only!r} names no experiment {', '.join(map(repr, unknown))}; choose from "
            f"{', '.join(EXPERIMENTS)}."
        )
    return [name for name in EXPERIMENTS if name in asked]
