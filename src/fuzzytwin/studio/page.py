"""The page: a bar with the views, and the view that is looked at."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from nicegui import events, ui

from fuzzytwin.studio.doubts import DoubtsView
from fuzzytwin.studio.draw import DrawView
from fuzzytwin.studio.markup import safe
from fuzzytwin.studio.overview import OverviewView
from fuzzytwin.studio.save import SaveView
from fuzzytwin.studio.session import Session


class Studio:
    """What all pages of one server share: the session, and the pages themselves."""

    def __init__(self, session: Session | None) -> None:
        self.session = session
        self.pages: list[Page] = []

    def changed(self, by: Page) -> None:
        """Let the other pages follow a decision."""
        for page in self.pages:
            if page is not by:
                page.stale()


class Page:
    """One page in one browser."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.views: dict[str, Any] = {}
        self.boxes: dict[str, Any] = {}
        self.buttons: dict[str, Any] = {}
        folder = files("fuzzytwin.studio")
        ui.add_css(folder.joinpath("style.css").read_text(encoding="utf-8"))
        ui.add_body_html(
            f"<script>{folder.joinpath('studio.js').read_text(encoding='utf-8')}</script>"
        )
        dark = ui.dark_mode(None)
        makers = self._makers()
        self.root = ui.element("div").classes("studio")
        with self.root:
            with ui.element("header").classes("top"):
                ui.html("fuzzytwin studio", sanitize=False, tag="h1")
                with ui.element("nav").props('aria-label="Views"'):
                    for name in makers:
                        self._tab(name)
                ui.html(self._about(), sanitize=False).classes("file")
                shade = ui.element("button").classes("plain").props('aria-label="Light or dark"')
                with shade:
                    ui.html("◐", sanitize=False, tag="span")
                shade.on("click", lambda: self._shade(dark))
            for name, make in makers.items():
                self.boxes[name] = ui.element("div")
                with self.boxes[name]:
                    self.views[name] = make()
            ui.html(self._foot(), sanitize=False).classes("foot")
        ui.on("studio_key", self._key)
        ui.on("studio_open", self._open)
        ui.on("studio_choose", self._choose)
        ui.on("studio_map", self._map)
        ui.on("studio_draw", self._draw)
        self.go(next(iter(makers)))
        studio.pages.append(self)
        ui.context.client.on_delete(lambda: studio.pages.remove(self))

    def _makers(self) -> dict[str, Callable[[], Any]]:
        session = self.studio.session
        makers: dict[str, Callable[[], Any]] = {}
        if session is not None:

            def changed() -> None:
                self.studio.changed(self)

            makers["overview"] = lambda: OverviewView(session, changed)
            makers["doubts"] = lambda: DoubtsView(session, changed)
        makers["draw"] = DrawView
        if session is not None:
            makers["save"] = lambda: SaveView(session)
        return makers

    def _tab(self, name: str) -> None:
        button = ui.element("button").props(f'id="tab-{name}"')
        with button:
            ui.html(name.capitalize(), sanitize=False, tag="span")
        button.on("click", lambda: self.go(name))
        self.buttons[name] = button

    def _about(self) -> str:
        session = self.studio.session
        if session is None:
            return ""
        table = session.table
        return f"{safe(Path(table.path).name)} · labels in {safe(table.target)}"

    def _foot(self) -> str:
        words = "Runs on this computer alone; nothing leaves it."
        return f'<span>{words}</span><span id="speed"></span>'

    async def _shade(self, dark: Any) -> None:
        now = await ui.run_javascript("return document.body.classList.contains('body--dark')")
        dark.set_value(not now)

    def go(self, name: str) -> None:
        """Show a view."""
        self.view = name
        self.root.props(f'data-view="{name}"')
        for other, box in self.boxes.items():
            box.set_visibility(other == name)
            self.buttons[other].props(
                'aria-current="page"' if other == name else 'aria-current="false"'
            )
        self.views[name].refresh()

    def stale(self) -> None:
        """Draw the view again, because another page changed something."""
        self.views[self.view].refresh()

    def _key(self, event: events.GenericEventArguments) -> None:
        if self.view == "doubts":
            given = event.args
            self.views["doubts"].press(
                str(given.get("key")), int(given.get("row", -1)), given.get("value")
            )

    def _map(self, event: events.GenericEventArguments) -> None:
        view = self.views[self.view]
        if hasattr(view, "map"):
            row = view.map.row_at(float(event.args.get("x", 0)), float(event.args.get("y", 0)))
            if row is not None:
                self._look_at(row)

    def _open(self, event: events.GenericEventArguments) -> None:
        self._look_at(int(event.args.get("open", -1)))

    def _look_at(self, row: int) -> None:
        session = self.studio.session
        if session is not None and 0 <= row < len(session.table):
            if self.view != "doubts":
                self.go("doubts")
            self.views["doubts"].open(row)
            self.views["doubts"].refresh()

    def _choose(self, event: events.GenericEventArguments) -> None:
        view = self.views[self.view]
        if hasattr(view, "choose"):
            given = event.args
            moving = bool(given.get("moving"))
            view.choose(str(given.get("name")), str(given.get("value")), moving=moving)

    def _draw(self, event: events.GenericEventArguments) -> None:
        if self.view == "draw":
            self.views["draw"].act(dict(event.args))
