"""Run the paper's experiments: ``fuzzytwin reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli import screens
from fuzzytwin.cli.options import Json


def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="A rough look: about two minutes on two cores.")
    ] = False,
    only: Annotated[
        str, typer.Option(metavar="NAMES", help="Some of toy,uci,ndc,noise,audit.")
    ] = "toy,uci,ndc,noise,audit",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
    as_json: Json = False,
) -> None:
    """Run and audit the paper's experiments.

    Takes about a quarter of an hour on two cores. A run that was stopped goes on where it was.
    """
    from fuzzytwin import paper

    report = paper.reproduce(out, quick=quick, only=only, jobs=jobs, progress=not as_json)
    if as_json:
        screens.print_json({"report": str(report)})
        return
    screens.new_console().print(f"The report is {report}.", markup=False, highlight=False)
