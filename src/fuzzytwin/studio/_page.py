"""The page: a bar with the views, and the view that is shown. `start` serves it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nicegui import ui

from fuzzytwin._utils.text import printable, wrapped
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._export import export_file
from fuzzytwin.studio._history import open_journal
from fuzzytwin.studio._overview import OverviewView
from fuzzytwin.studio._review import ReviewView
from fuzzytwin.studio._save import SaveView
from fuzzytwin.studio._server import serve
from fuzzytwin.studio._session import Session
from fuzzytwin.studio._view import View, hint

VIEWS: tuple[type[View], ...] = (ReviewView, OverviewView, SaveView)
CHECK_SECONDS = 0.5  # after which the page looks for decisions of other pages
STYLE = """
.nicegui-content { padding: 12px; gap: 12px; max-width: 1500px; margin: 0 auto; }
.q-tab-panel { padding: 0; } .q-tab-panels { background: transparent; }
.body--light { background: #f4f6f8; }
.body--dark { --q-primary: #6db6e8 !important; }
.q-header { background: #0b5c94 !important; }
.entry.q-item--active { background: rgba(11, 92, 148, .12); }
"""


class Page:
    """One page in one browser. `pages` are all of them, which share the session."""

    def __init__(self, session: Session, pages: list[Page]) -> None:
        self.session = session
        self.pages = pages
        self.views: dict[str, View] = {}
        self.view = VIEWS[0].name
        ui.add_css(STYLE)
        ui.colors(primary="#0b5c94")
        self._lay_out_bar()
        panels = ui.tab_panels(self.tabs, value=self.view, animated=False, keep_alive=False)
        with panels.classes("w-full"):
            for kind in VIEWS:
                with ui.tab_panel(kind.name), ui.column().classes("w-full gap-3"):
                    self.views[kind.name] = kind(self)
        hint("Runs on this computer only. Nothing leaves it.")
        self.views[self.view].refresh()
        self.tabs.on_value_change(lambda event: self.go(event.value))
        pages.append(self)
        self.client = ui.context.client
        self.stale = False  # whether another page has changed what is shown
        self.client.on_delete(lambda: pages.remove(self))
        ui.timer(CHECK_SECONDS, self._follow)

    def _lay_out_bar(self) -> None:
        table = self.session.table
        labels = table.target if table.settings.target is None else f"labels in {table.target}"
        about = f"{Path(table.path).name} · {labels}"
        if table.sampled:
            about += f" · sample of {len(table):,} rows"
        with ui.header().classes("items-center gap-x-4 gap-y-0 py-0 px-3 min-h-12"):
            ui.label("fuzzytwin studio").classes("font-medium max-sm:hidden")
            self.tabs = ui.tabs()
            with self.tabs.props("dense no-caps inline-label"):
                for kind in VIEWS:
                    ui.tab(kind.name, kind.name.capitalize()).props(f"data-view={kind.name}")
            ui.label(about).classes("text-xs opacity-80 truncate min-w-0 flex-1 max-md:hidden")
            ui.space().classes("md:hidden")
            self._lay_out_shade()

    def _lay_out_shade(self) -> None:
        dark = ui.dark_mode(None)

        async def change() -> None:
            is_dark = await ui.run_javascript(
                "return document.body.classList.contains('body--dark')"
            )
            dark.set_value(not is_dark)

        button = ui.button(icon="contrast", on_click=change)
        button.props('flat round dense color=white aria-label="Light or dark"')

    def go(self, name: str) -> None:
        """Show a view."""
        self.view = name
        self.views[name].refresh()

    def changed(self) -> None:
        """Let the other pages follow a decision. Those out of reach follow when they reconnect."""
        for page in self.pages:
            page.stale = page.stale or page is not self

    def _follow(self) -> None:
        """Show what other pages have changed."""
        if self.stale and self.client.has_socket_connection:
            self.stale = False
            self.views[self.view].follow()

    def look_at(self, row: int) -> None:
        """Show a row in the view Review."""
        view = self.views[ReviewView.name]
        if isinstance(view, ReviewView) and 0 <= row < len(self.session.table):
            view.open(row)
            self.tabs.set_value(ReviewView.name)


def start(
    data: Path,
    settings: Settings,
    *,
    sample: int | None = None,
    show: Sequence[str] = (),
    port: int = 0,
    browser: bool = True,
) -> None:
    """Serve the studio until Ctrl-C.

    `sample` is about how many rows to open; None for all, if memory suffices. `show` names columns
    that are shown whole. `port` and `browser` are those of `fuzzytwin.studio._server.serve`.
    """
    print(f"Reading {printable(str(data))} and looking for label issues ...", flush=True)
    table = StudioTable(str(data), settings, sample, show)
    for note in table.studio_notes:
        print(wrapped(f"note: {note}.", sys.stderr), file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(open_journal(table))
        session = Session(table, journal)
        notes = "".join(f"{printable(note)}\n" for note in session.history.journal_notes)
        pages: list[Page] = []

        def ready(address: str) -> None:
            kept = f"Decisions are kept in {printable(str(journal.path))}. Ctrl-C ends."
            print(f"The studio is at {address}\n{notes}{kept}", flush=True)

        def export(kind: str) -> Callable[[], tuple[str, str, bytes] | None]:
            return partial(export_file, session.snapshot(), kind)

        def build() -> None:
            Page(session, pages)

        serve(build, export, port, browser, ready)
