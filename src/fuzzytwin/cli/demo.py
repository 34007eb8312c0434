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
    """Take a first look: a table that ships, with labels flipped."""
    from fuzzytwin import demo as show
    from fuzzytwin._utils.files import replacing

    inputs.check_output(out, force)
    X, y = show.data()
    with screens.progress(2) as bar:
        scores = {}
        for title, flip in (("clean", 0.0), ("flipped", 0.2)):
            bar.begin(f"3 x 10 folds, {title}")
            scores[title] = show.accuracies(X, y, flip)
    found, wrong = show.found_flips(X, y)
    try:
        figure = show.picture(X, y)
    except ImportError:
        figure = None
    if figure is not None:
        with replacing(out, overwrite=force) as draft:
            figure.savefig(draft, format="png", dpi=120)
    if as_json:
        screens.print_json(
            {"accuracy": scores, "flipped": wrong, "found": found, "picture": str(out)}
        )
        return
    console = screens.new_console()
    console.print(show.ABOUT)
    table = screens.new_table("", *(f"{head}>" for head in show.HEADS))
    best = {title: max(values.values()) for title, values in scores.items()}
    for name in scores["clean"]:
        cells = (screens.mark(scores[title][name], best[title]) for title in ("clean", "flipped"))
        table.add_row(name, *cells)
    console.print(table)
    console.print(show.in_words(found, wrong, len(y)))
    if figure is None:
        remedy = f"A picture needs matplotlib; install it with: {install_command('plot')}"
        console.print(remedy, markup=False, highlight=False)
    else:
        console.print(f"The picture is in {out}.", markup=False, highlight=False)
    console.print("\nTry next, with a table of your own (CSV, Parquet, Feather):")
    console.print("  fuzzytwin train DATA.csv --target COLUMN --report report.html", markup=False)
