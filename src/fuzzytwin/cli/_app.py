"""The commands of ``fuzzytwin``. Slow imports are inside of them, so that help is fast."""

from __future__ import annotations

import typer

from fuzzytwin.cli import _options as options
from fuzzytwin.cli._label_issues import label_issues
from fuzzytwin.cli._models import evaluate, explain, export, info, predict
from fuzzytwin.cli._start import demo, generate, studio
from fuzzytwin.cli._train import train

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

for command in (
    demo, label_issues, train, predict, evaluate, explain, studio, generate, export, info,
):  # fmt: skip
    app.command()(options.expand(command))
app.callback()(options.root)
