"""Give a first look: ``fuzzytwin demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin._utils.extras import install_command
from fuzzytwin.cli import inputs, screens
from fuzzytwin.cli.options import Force, Json


def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to put the picture.")] = Path(
        "fuzzytwin-demo.png"
    ),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Take a first look on tables that ship: about half a minute."""
    from fuzzytwin import demo as show
    from fuzzytwin._utils.files import replacing

    inputs.check_output(out, force)
    with screens.progress(show.STEPS) as bar:
        found = show.run(bar.begin)
    try:
        figure = show.picture()
    except ImportError:
        figure = None
    if figure is not None:
        with replacing(out, overwrite=force) as draft:
            figure.savefig(draft, format="png", dpi=120)
    if as_json:
        screens.print_json({**found, "picture": figure and str(out)})
        return
    drawn = f"The picture is in {out}."
    if figure is None:
        drawn = f"A picture needs matplotlib; install it with: {install_command('plot')}"
    print(f"{show.in_words(found)}\n\n{drawn}")
    print("\nTry next, with a table of your own (CSV, Excel, Parquet, Feather):")
    print("  fuzzytwin train DATA.csv --target COLUMN --report report.html")
    print("  fuzzytwin compare DATA.csv --target COLUMN")
    print("No table at hand? This makes one:")
    print("  fuzzytwin generate ndc made-up.csv")
