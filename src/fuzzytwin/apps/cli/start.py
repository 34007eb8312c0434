"""Begin without a model: ``fuzzytwin demo``, ``generate`` and ``studio``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import typer

from fuzzytwin._utils.extras import need
from fuzzytwin.apps.cli import options as o
from fuzzytwin.apps.cli import shared, show


class MemberSpec(Enum):
    """Tables to try things on."""

    PATIENTS = "patients"
    DIGITS = "digits"
    NDC = "ndc"
    XOR = "xor"


def demo(
    out: Path = o.file("Where to put the picture.", default=Path("fuzzytwin-demo.png")),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Take a first look on tables that ship: less than half a minute."""
    from fuzzytwin.apps.demo import in_words, look

    shared.check_output(out, force)
    found, drawn = look(out, force)
    if as_json:
        found = {name: value for name, value in found.items() if name != "drawn"}
        return show.print_json({**found, "picture": drawn})
    print(in_words(found, drawn))


def generate(
    kind: MemberSpec = typer.Argument(
        help="patients: 303 rows with gaps and categories; digits: 1,797 handwritten digits; "
        "ndc: clusters; xor: two crossing lines."
    ),
    out: Path = typer.Argument(help=f"{o.TABLES} file."),
    rows: int = o.option("Number of rows (ndc, xor).", default=1000, min=4),
    columns: int = o.option("Number of columns (ndc).", default=32, min=1),
    seed: int = o.option("Same seed, same rows (ndc, xor).", default=0),
    force: bool = o.FORCE,
    as_json: bool = o.JSON,
) -> None:
    """Write a table to try things on: real patients, digits, or made-up data as in the paper."""
    from fuzzytwin.data.writers import check_out

    check_out(out)
    shared.check_output(out, force)
    frame, target, more = _table(kind, rows, columns, seed)
    shared.write_table(out, frame, force)
    if as_json:
        page = {"out": str(out), "rows": len(frame), "columns": list(frame.columns)}
        return show.print_json(page)
    hint = f"  fuzzytwin train {out} --target {target}{more}"
    show.say(f"{len(frame):,} rows are in {show.short(out)}. Try next:", show.short(hint))


def _table(kind: MemberSpec, rows: int, columns: int, seed: int) -> tuple[Any, str, str]:
    """Return the table, the name of its labels, and further options for `train`."""
    import pandas

    from fuzzytwin.datasets import load_uci, make_ndc, make_xor

    if kind is MemberSpec.DIGITS:
        from sklearn.datasets import load_digits

        return load_digits(as_frame=True).frame, "target", ""
    if kind is MemberSpec.PATIENTS:
        frame = load_uci("heart_cleveland", as_frame=True).frame
        for name, words in WORDS.items():
            frame[name] = frame[name].map(words)
        frame.insert(0, "patient", [f"p{i:03d}" for i in range(1, len(frame) + 1)])
        return frame.rename(columns={"class": "disease"}), "disease", " --id patient"
    if kind is MemberSpec.NDC:
        X, y = make_ndc(rows, columns, random_state=seed)
        degree = {}
    else:
        X, y, degrees = make_xor(rows, random_state=seed)
        degree = {"degree": degrees}
    frame = pandas.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])])
    return frame.assign(label=y, **degree), "label", " --degree degree" if degree else ""


# What the codes of the Cleveland heart table stand for.
WORDS = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical", 2: "atypical", 3: "other pain", 4: "none"},
    "restecg": {0: "normal", 1: "ST-T", 2: "hypertrophy"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed", 7: "reversible"},
    "class": {0: "no", 1: "yes"},
}


def studio(
    data: Path | None = typer.Argument(None, help=f"{o.TABLES} file; it is never written."),
    target: str | None = o.TARGET,
    votes: list[str] = o.VOTES,
    id_column: str | None = o.ID,
    weight: str | None = o.WEIGHT,
    degree: str | None = o.DEGREE,
    groups: str | None = o.GROUPS,
    sheet: str | None = o.SHEET,
    drop: list[str] = o.DROP,
    numeric: list[str] = o.NUMERIC,
    category: list[str] = o.CATEGORY,
    missing: list[str] = o.MISSING,
    planes: str | None = o.PLANES,
    kernel: str | None = o.KERNEL,
    sample: int | None = o.option(
        "Open a random sample of about so many rows  [default: if memory is short]",
        metavar="ROWS",
        min=10,
    ),
    browser: bool = o.option("Open the page in the browser.", default=True),
    port: int = o.option("Port to serve on; 0 takes a free one.", default=0, min=0, max=65535),
) -> None:
    """Settle doubtful labels on a page in the browser; without data, draw points on a plane."""
    from fuzzytwin.apps.table_rows import Settings

    need("nicegui", "studio", "the studio")
    from fuzzytwin.apps.studio.page import start

    settings = Settings(
        target=target, weight=weight, degree=degree, groups=groups, id=id_column, sheet=sheet,
        drop=drop, numeric=numeric, category=category, missing=missing, votes=votes,
        kernel=kernel or "linear",
    )  # fmt: skip
    if data is None:
        for option, names in (*settings.named().items(), ("--votes", votes)):
            if names:
                raise ValueError(f"{option} {names[0]!r} names a column of no data; give DATA too.")
    start(data, settings, planes, sample=sample, port=port, browser=browser)
