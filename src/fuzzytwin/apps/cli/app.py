"""The commands of ``fuzzytwin``. They import what is heavy when they run: help stays quick."""

from __future__ import annotations

from typing import Annotated

import typer

import fuzzytwin
from fuzzytwin.apps.cli.compare import compare
from fuzzytwin.apps.cli.describe import explain, export, info
from fuzzytwin.apps.cli.doubts import doubts
from fuzzytwin.apps.cli.predict import evaluate, predict
from fuzzytwin.apps.cli.start import demo, generate, studio
from fuzzytwin.apps.cli.train import train

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fuzzytwin {fuzzytwin.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (anywhere in a line).")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Classifiers for tables whose labels are doubtful: fuzzy least-squares twin SVMs.

    First look: fuzzytwin demo. Your own table: fuzzytwin train DATA --target COLUMN.
    """


for command in (demo, train, predict, evaluate, compare, explain, doubts, studio, generate, export,
                info):  # fmt: skip
    app.command()(command)
