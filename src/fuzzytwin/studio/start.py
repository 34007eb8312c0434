"""Read the data, open the journal, serve the page."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fuzzytwin.studio.data import read_studio_table
from fuzzytwin.studio.export import KINDS, file_names
from fuzzytwin.studio.journal import Journal
from fuzzytwin.studio.page import Page, Studio
from fuzzytwin.studio.server import serve
from fuzzytwin.studio.session import Session
from fuzzytwin.tables.settings import Settings


def journal_path(data: str | os.PathLike[str]) -> Path:
    """Return the journal of a file: DATA.doubts.jsonl beside it."""
    path = Path(data)
    return path.with_name(f"{path.name}.doubts.jsonl")


def start(
    data: Path | None,
    settings: Settings,
    planes: str | None = None,
    *,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Serve the studio until Ctrl-C.

    Parameters
    ----------
    data : Path or None
        The table; None for the view Draw alone.
    settings : Settings
        Its columns, and the kernel of the model.
    planes : {"crisp", "fuzzy"}, default=None
        Planes of the model; None chooses by the size of the table.
    port, browser
        As for `fuzzytwin.studio.server.serve`.
    """
    with contextlib.ExitStack() as stack:
        session = None
        if data is not None:
            table = read_studio_table(str(data), settings)
            about = {"data": data.name, "target": table.target}
            journal = Journal(journal_path(data), table.fingerprint, about)
            stack.enter_context(journal)
            session = Session(table, journal, planes=planes, kernel=settings.kernel)
        studio = Studio(session)

        def ready(address: str) -> None:
            print(f"The studio is at {address}", flush=True)
            kept = f"Decisions are kept in {journal_path(data)}. " if data is not None else ""
            print(f"{kept}Ctrl-C ends.", flush=True)

        def files(kind: str) -> tuple[str, str, bytes] | None:
            if session is None or kind not in KINDS:
                return None
            write, media = KINDS[kind]
            return file_names(session)[kind], media, write(session)

        def build() -> None:
            Page(studio)

        serve(build, files=files, port=port, browser=browser, ready=ready)
