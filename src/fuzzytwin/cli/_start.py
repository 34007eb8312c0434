"""Commands that need no model: ``fuzzytwin demo``, ``generate`` and ``studio``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import import_optional
from fuzzytwin.cli import _options as o
from fuzzytwin.cli import _shared as shared
from fuzzytwin.cli import _show as show


class ExampleTable(Enum):
    """Tables that `generate` writes."""

    PATIENTS = "patients"


def demo(
    out: Path | None = o.file(
        "Picture to write  [default: fuzzytwin-demo.png, which is overwritten]"
    ),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Show what fuzzytwin does on bundled data (about 20 s)."""
    from fuzzytwin.demo import PICTURE, describe, run_and_draw

    if out is None:  # overwrite the picture of an earlier run
        out = Path(PICTURE)
        force = True
    shared.check_output(out, force)
    result, path = run_and_draw(out, force)
    if as_json:
        return show.print_json({**result, "picture": path})
    print(describe(result, path))


def generate(
    kind: ExampleTable = typer.Argument(
        metavar="KIND",
        help="patients: 303 rows of real data, with categories and missing values.",
    ),
    out: Path = typer.Argument(metavar="OUT", help=f"{o.OUTPUTS} file to write."),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Write an example table."""
    from fuzzytwin.datasets import load_uci
    from fuzzytwin.tables._writer import check_out

    check_out(out)
    shared.check_output(out, force)
    frame = load_uci("heart_cleveland", as_frame=True).frame
    for name, values in CATEGORIES.items():
        frame[name] = frame[name].map(values)
    frame.insert(0, "patient", [f"p{i:03d}" for i in range(1, len(frame) + 1)])
    shared.write_table(out, frame.rename(columns={"class": "disease"}), force)
    if as_json:
        return show.print_json({"out": str(out), "rows": len(frame)})
    hint = f"  fuzzytwin train {out} --target disease --id patient"
    show.echo(f"{len(frame):,} rows written to {show.short(out)}. Try next:", show.short(hint))


# Meaning of the codes of the Cleveland heart table.
CATEGORIES = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical", 2: "atypical", 3: "other pain", 4: "asymptomatic"},
    "restecg": {0: "normal", 1: "ST-T", 2: "hypertrophy"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed", 7: "reversible"},
    "class": {0: "no", 1: "yes"},
}


def studio(
    data: Path = typer.Argument(metavar="DATA", help=f"{o.TABLES} file, which is never changed."),
    target: str | None = o.TARGET,
    votes: list[str] = o.VOTES,
    labels: str | None = o.LABELS,
    id_column: str | None = o.ID,
    weight: str | None = o.WEIGHT,
    groups: str | None = o.GROUPS,
    table: dict[str, Any] = o.TABLE,
    show: list[str] = o.columns(
        "Column to show in full with each row (may be repeated)  [default: text columns that are "
        "not features]"
    ),
    sample: int | None = o.option(
        "Open a random sample of about this many rows  [default: all, up to 256 MiB of numbers]",
        metavar="ROWS",
        min=10,
    ),
    browser: bool = o.option("Open the page in the browser.", default=True),
    port: int = o.number("Port of the server; 0 for any free one.", default=0, min=0, max=65535),
) -> None:
    """Review label issues in the browser."""
    from fuzzytwin.experiment._rows import Settings

    import_optional("nicegui", "studio", "the studio")
    from fuzzytwin.studio._page import start

    settings = Settings(
        target=target, weight=weight, groups=groups, id=id_column, votes=votes,
        labels=labels or "auto", **table,
    )  # fmt: skip
    start(data, settings, sample=sample, show=show, port=port, browser=browser)
