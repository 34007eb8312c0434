"""Settle doubtful labels in the browser: ``fuzzytwin studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli.options import Category, Drop, Kernel, Numeric, Planes


def studio(
    data: Annotated[
        Path | None,
        typer.Argument(help="CSV, TSV, Excel, Parquet or Feather file; it is never written."),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of labels.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column that names the rows.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    degree: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of degrees, 0 to 1.")
    ] = None,
    drop: Drop = [],  # noqa: B006
    numeric: Numeric = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    planes: Annotated[
        Planes | None, typer.Option(help="Planes with or without widths  [default: by size]")
    ] = None,
    kernel: Annotated[
        Kernel, typer.Option(metavar="NAME", help="linear, or rbf and others to curve the planes.")
    ] = Kernel.LINEAR,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes a free one.")
    ] = 0,
) -> None:
    """Settle doubtful labels on a page in the browser; without data, draw points on a plane."""
    from fuzzytwin._utils.extras import need
    from fuzzytwin.tables.settings import Settings

    need("nicegui", "studio", "the studio")
    from fuzzytwin.studio.start import start

    settings = Settings(
        target=target, weight=weight, degree=degree, id=id_column, drop=drop, numeric=numeric,
        category=category, kernel=kernel.value,
    )  # fmt: skip
    if data is None:
        for option, names in settings.named().items():
            if names:
                raise ValueError(f"{option} {names[0]!r} names a column of no data; give DATA too.")
    start(data, settings, planes and planes.value, port=port, browser=browser)
