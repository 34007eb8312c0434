"""Settle doubtful labels in the browser: ``fuzzytwin studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzzytwin.cli.options import Category, Drop, Numeric


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
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes a free one.")
    ] = 0,
) -> None:
    """Settle doubtful labels on a page in the browser."""
    from fuzzytwin._utils.extras import need
    from fuzzytwin.tables.settings import Settings

    need("nicegui", "studio", "the studio")
    from fuzzytwin.studio.start import start

    settings = Settings(
        target=target, weight=weight, degree=degree, id=id_column, drop=drop, numeric=numeric,
        category=category,
    )  # fmt: skip
    start(data, settings, port=port, browser=browser)
