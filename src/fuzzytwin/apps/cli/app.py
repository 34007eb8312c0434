"""The commands of ``fuzzytwin``. They import what is heavy when they run: help stays quick."""

from __future__ import annotations

import typer

from fuzzytwin.apps.cli import options
from fuzzytwin.apps.cli.compare import compare
from fuzzytwin.apps.cli.doubts import doubts
from fuzzytwin.apps.cli.models import evaluate, explain, export, info, predict
from fuzzytwin.apps.cli.start import demo, generate, studio
from fuzzytwin.apps.cli.train import train

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

for command in (demo, train, predict, evaluate, compare, explain, doubts, studio, generate, export,
                info):  # fmt: skip
    app.command()(command)
app.callback()(options.root)
