"""From results to files: CSV tables, figures, results.md and report.html."""

from __future__ import annotations

import csv
import datetime
import io
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import fuzzytwin
from reproduction import audit, figures, ndc, noise, sections, toy, uci
from reproduction.cache import Cell, Records, write_whole
from reproduction.document import Document, Heading, Words, to_markdown
from reproduction.findings import lookup
from reproduction.page import to_html
from reproduction.scale import Scale
from reproduction.summary import summary
from reproduction.verdicts import verdicts


def write_all(
    folder: Path, scale: Scale, names: Sequence[str], result: Callable[[Cell], Any], about: str
) -> Path:
    """Write everything into a folder.

    Parameters
    ----------
    folder : Path
        Where to.
    scale : Scale
        Sizes of the run.
    names : sequence of str
        Experiments that were run.
    result : callable
        Gives the result of a cell.
    about : str
        How the run was made; see `about_run`.

    Returns
    -------
    Path
        The report.
    """
    data = gather(scale, names, result)
    for name, rows in data.items():
        write_csv(folder / "tables" / f"{name}.csv", rows)
    pictures = draw_figures(data)
    for name, (svg, png) in pictures.items():
        write_whole(folder / "figures" / f"{name}.svg", svg)
        write_whole(folder / "figures" / f"{name}.png", png)
    document = compose(scale, names, data, about)
    write_markdown(document, folder / "results.md")
    page = to_html(document, {name: svg for name, (svg, _) in pictures.items()})
    write_whole(folder / "report.html", page)
    return folder / "report.html"


def gather(scale: Scale, names: Sequence[str], result: Callable[[Cell], Any]) -> dict[str, Records]:
    """Collect the records of the experiments by name."""
    data: dict[str, Records] = {}
    if "toy" in names:
        data["toy"] = toy.records(scale, result)
    if "uci" in names:
        data["uci"] = uci.records(scale, result)
    if "ndc" in names:
        data["ndc"] = ndc.records(scale, result)
    if "noise" in names:
        data["noise"] = noise.records(scale, result)
        data["soft"] = noise.soft_records(scale, result)
    if "audit" in names:
        data["audit"] = audit.records(scale, result)
        if "uci" not in names:
            data["claimed"] = uci.records(scale, result, audit.CLAIMED)
    return data


def draw_figures(data: dict[str, Records]) -> dict[str, tuple[bytes, bytes]]:
    """Draw all figures, as SVG and PNG, by name."""
    drawn: dict[str, tuple[bytes, bytes]] = {}
    if "toy" in data:
        drawn["toy"] = figures.draw(figures.toy, size=(8.4, 6.2))
    if "uci" in data:
        drawn["uci"] = figures.draw(figures.uci, data["uci"], size=(8.4, 5.2))
        drawn["ranks"] = figures.draw(
            figures.ranks, sections.comparisons(data["uci"]), size=(8.4, 7.4)
        )
    if "ndc" in data:
        drawn["ndc"] = figures.draw(figures.ndc, data["ndc"], size=(9.2, 4.2))
    if "noise" in data:
        drawn["noise"] = figures.draw(figures.noise, data["noise"], size=(9.2, 5.2))
        drawn["soft"] = figures.draw(figures.soft, data["soft"], size=(7.0, 4.2))
    if "audit" in data:
        drawn["forms"] = figures.draw(figures.forms, lookup(data["audit"]), size=(9.2, 4.2))
    return drawn


def compose(scale: Scale, names: Sequence[str], data: dict[str, Records], about: str) -> Document:
    """Compose the document that report.html and results.md are made from."""
    document = Document(
        "Fuzzy least-squares twin SVMs: the paper, reproduced and audited",
        'All experiments of the paper "Fuzzy Least Squares Twin Support Vector Machines" by J. '
        "Salimi Sartakhti, H. Afrabandpey and N. Ghadiri, run again under two protocols and "
        "compared with the printed figures.",
    )
    if scale.quick:
        document.add(Words(
            "This is a quick look, with fewer folds, draws and grid points, and without the "
            "million rows. Its numbers are rough. Run without `--quick` for the real ones.",
            kind="warning",
        ))  # fmt: skip
    document.add(*summary(data), Words(about, kind="note"))
    if set(data) - {"audit", "claimed"}:
        document.add(Heading("What was reproduced, and what was not", short="Claims"))
        document.add(verdicts(data))
    document.add(*sections.protocols(scale))
    for name in names:
        document.add(*getattr(sections, name)(scale, data))
    document.add(*sections.caveats(scale, names))
    return document


def about_run(
    scale: Scale, names: Sequence[str], jobs: int, results: int, known: int, work: float
) -> str:
    """Describe how and where the run was made; `work` is the processor time of all results."""
    command = "python -m reproduction" + (" --quick" if scale.quick else "")
    if len(names) < 5:
        command += f" --only {','.join(names)}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    spent = f"{work / 60:.1f} minutes" if work >= 90 else f"{work:.0f} s"
    before = f", {known:,} of them from an earlier run" if known else ""
    return (
        f"`{command} --jobs {jobs}`, {today}: {results:,} results{before}, which took {spent} of "
        f"one core ({platform.machine()}, {os.cpu_count()} cores). Python "
        f"{platform.python_version()}, "
        f"fuzzytwin {fuzzytwin.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}. All data ship with the package or are drawn from "
        "fixed seeds."
    )


def write_markdown(document: Document, path: Path) -> None:
    """Write the words and tables of a document, for docs/results.md."""
    origin = "<!-- Written by `python -m reproduction`; changes here get lost. -->"
    write_whole(path, f"{origin}\n\n{to_markdown(document)}")


def write_csv(path: Path, rows: Records) -> None:
    """Write records as a CSV file; floats keep all their digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())
