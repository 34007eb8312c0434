"""The page: a bar with the views, and the view that is looked at. `start` serves it."""

from __future__ import annotations

import contextlib
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from nicegui import ui

from fuzzytwin.apps.studio.data import StudioTable
from fuzzytwin.apps.studio.doubts import DoubtsView
from fuzzytwin.apps.studio.draw import DrawView
from fuzzytwin.apps.studio.overview import OverviewView
from fuzzytwin.apps.studio.save import SaveView, export_file
from fuzzytwin.apps.studio.server import serve
from fuzzytwin.apps.studio.session import Session, open_journal
from fuzzytwin.apps.studio.view import View, block
from fuzzytwin.apps.table_rows import Settings

VIEWS: tuple[type[View], ...] = (OverviewView, DoubtsView, DrawView, SaveView)


class Page:
    """One page in one browser; `pages` are all of them, which share the session."""

    def __init__(self, session: Session | None, pages: list[Page]) -> None:
        self.session, self.pages = session, pages
        self.views: dict[str, View] = {}
        self.tabs: dict[str, Any] = {}
        folder = files("fuzzytwin.apps.studio")
        ui.add_css(folder.joinpath("style.css").read_text(encoding="utf-8"))
        script = folder.joinpath("studio.js").read_text(encoding="utf-8")
        ui.add_body_html(f"<script>{script}</script>")
        ui.colors(primary="#0b5c94")
        kinds = [kind for kind in VIEWS if session is not None or not kind.needs_table]
        self.root = ui.element("div").classes("studio")
        with self.root:
            with ui.element("header").classes("top"):
                block(tag="h1", content="fuzzytwin studio")
                with ui.element("nav").props('aria-label="Views"'):
                    for kind in kinds:
                        self._tab(kind.name)
                if session is not None:
                    table = session.table
                    about = f"{Path(table.path).name} · labels in {table.target}"
                    if table.sampled:
                        about += f" · sample of {len(table):,} rows"
                    ui.label(about).classes("file")
                self._shade()
            for kind in kinds:
                self.views[kind.name] = kind(self)
            words = "Runs on this computer alone; nothing leaves it."
            block("foot", content=f'<span>{words}</span><span id="speed"></span>')
        ui.on("studio_key", lambda event: self._press(**event.args))
        ui.on("studio_open", lambda event: self.look_at(int(event.args.get("open", -1))))
        ui.on("studio_point", lambda event: self.views[self.view].point(dict(event.args)))
        self.go(kinds[0].name)
        pages.append(self)
        self.client, self.stale = ui.context.client, False
        self.client.on_connect(self.follow)
        self.client.on_delete(lambda: pages.remove(self))

    def _tab(self, name: str) -> None:
        with ui.element("button").props(f'id="tab-{name}"') as tab:
            ui.label(name.capitalize())
        self.tabs[name] = tab.on("click", lambda: self.go(name))

    def _shade(self) -> None:
        dark = ui.dark_mode(None)

        async def change() -> None:
            now = await ui.run_javascript("return document.body.classList.contains('body--dark')")
            dark.set_value(not now)

        with ui.element("button").classes("plain").props('aria-label="Light or dark"') as shade:
            ui.label("◐")
        shade.on("click", change)

    def go(self, name: str) -> None:
        """Show a view."""
        self.view = name
        self.root.props(f'data-view="{name}" data-keys="{self.views[name].keys}"')
        for other, view in self.views.items():
            view.box.set_visibility(other == name)
            self.tabs[other].props(f'aria-current="{"page" if other == name else "false"}"')
        self.views[name].refresh()

    def changed(self) -> None:
        """Let the other pages follow a decision; those out of reach do when they come back."""
        for page in self.pages:
            page.stale = page is not self
            if page.client.has_socket_connection:
                page.follow()

    def follow(self) -> None:
        """Draw what other pages have changed."""
        if self.stale:
            self.stale = False
            self.views[self.view].follow()

    def look_at(self, row: int) -> None:
        """Show a row in the view Doubts."""
        view = self.views.get(DoubtsView.name)
        if isinstance(view, DoubtsView) and self.session and 0 <= row < len(self.session.table):
            view.open(row)
            self.go(DoubtsView.name)

    def _press(self, key: str, row: int = -1, value: Any = None) -> None:
        self.views[self.view].press(str(key), int(row), value)


def start(
    data: Path | None,
    settings: Settings,
    planes: str | None = None,
    *,
    sample: int | None = None,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Serve the studio until Ctrl-C; without data, the views that need none.

    `planes` are "crisp" or "fuzzy"; None chooses by the size of the table. `sample` is about how
    many rows to open; None for all, if memory suffices. `port` and `browser` are those of
    `fuzzytwin.apps.studio.server.serve`.
    """
    with contextlib.ExitStack() as stack:
        session, kept = None, ""
        if data is not None:
            table = StudioTable(str(data), settings, sample)
            for note in table.studio_notes:
                print(f"note: {note}.", file=sys.stderr, flush=True)
            journal = stack.enter_context(open_journal(table))
            session = Session(table, journal, planes=planes, kernel=settings.kernel)
            notes = "".join(f"{note}\n" for note in session.journal_notes)
            kept = f"{notes}Decisions are kept in {journal.path}. "
        pages: list[Page] = []

        def ready(address: str) -> None:
            print(f"The studio is at {address}\n{kept}Ctrl-C ends.", flush=True)

        def build() -> None:
            Page(session, pages)

        serve(build, lambda kind: export_file(session, kind), port, browser, ready)
