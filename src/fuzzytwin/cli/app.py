"""The commands of ``fuzzytwin``. They import what is heavy when they run: help stays quick."""

from __future__ import annotations

from typing import Annotated

import typer

import fuzzytwin
from fuzzytwin.cli.compare import compare
from fuzzytwin.cli.demo import demo
from fuzzytwin.cli.doubts import doubts
from fuzzytwin.cli.evaluate import evaluate
from fuzzytwin.cli.explain import explain
from fuzzytwin.cli.export import export
from fuzzytwin.cli.generate import generate
from fuzzytwin.cli.info import info
from fuzzytwin.cli.predict import predict
from fuzzytwin.cli.reproduce import reproduce
from fuzzytwin.cli.studio import studio
from fuzzytwin.cli.train import train

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


for command in (
    demo,
    train,
    predict,
    evaluate,
    compare,
    explain,
    doubts,
    studio,
    generate,
    reproduce,
    export,
    info,
):
    app.command()(command)
