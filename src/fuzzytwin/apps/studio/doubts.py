"""The view Doubts: one row at a time, the most doubtful first, by mouse and by keyboard."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.studio.maps import MapView
from fuzzytwin.apps.studio.session import Refused
from fuzzytwin.apps.studio.view import View, block, put

LISTED = 12  # rows in the list
SHOWN_COLUMNS = 8
NEAREST = 3
LEAST_SHOWN, MOST_SHOWN = 0.005, 6  # probabilities of labels
ORDERS = {
    "open": "the most doubtful first",
    "settled": "the latest first",
    "found": "open or settled, the most doubtful first",
}


class DoubtsView(View):
    """The list of rows, the row that is looked at, the map and the figures."""

    name = "doubts"
    keys = "[krxd0-9]|undo|redo|Arrow.*"

    def build(self) -> None:
        """Lay out the figures, the list, the row, the map and its neighbours."""
        self.which = "open"  # which rows are listed: one of ORDERS
        self.kept: list[int] = []  # open rows in the order in which they were shown
        self.place = self.step = 0
        self.row: int | None = None  # what is looked at
        self.message = ""
        self.strip = block("card strip").props("aria-live=polite")
        with ui.element("div").classes("card queue"):
            self.tabs = block("head choice")
            self.wanted = ui.input(placeholder="Find a name or row number")
            self.wanted.props('dense outlined clearable debounce=200 aria-label="Find a row"')
            self.wanted.on_value_change(self._search)
            self.queue = block()
        self.detail = block("card detail")
        with ui.element("div").classes("side"):
            with ui.element("div").classes("card"):
                self.map = MapView(self.session, 1.5)
            self.near = block("card")

    # What is looked at

    @property
    def _text(self) -> str:
        return str(self.wanted.value or "").strip()

    @property
    def listed(self) -> Array:
        """Return the rows of the list.

        Open rows that were shown stay in their places while decisions change the ranking; those
        that come after them are ranked as the models see it now.
        """
        session = self.session
        if self.which == "settled":
            return np.array(list(reversed(session.decisions)), dtype=int)
        if self.which == "found":
            rows = session.table.find(self._text)
            return rows[np.argsort(session.own[rows], kind="stable")]
        kept = np.array([row for row in self.kept if row not in session.decisions], dtype=int)
        rest = session.open_rows
        return np.concatenate([kept, rest[~np.isin(rest, kept)]])

    def open(self, row: int) -> None:
        """Look at a row, wherever it is listed."""
        self.which = "settled" if row in self.session.decisions else "open"
        found = np.flatnonzero(self.listed == row)
        self.place = int(found[0]) if len(found) else 0

    def show(self, which: str) -> None:
        """List the open rows, ranked as they are now, or the settled or found ones."""
        self.which, self.place, self.kept = which, 0, []
        if which != "found":
            self.wanted.value = ""
        self.refresh()

    def _search(self) -> None:
        if self._text or self.which == "found":
            self.show("found" if self._text else "open")

    def follow(self) -> None:
        """Draw what another page has changed; the row that is looked at stays."""
        found = np.flatnonzero(self.listed == self.row)
        self.place = int(found[0]) if len(found) else self.place
        self.refresh()

    # Keys and buttons

    def press(self, key: str, row: int, value: Any = None) -> None:
        """Carry out a key; a decision on a row that is no longer shown is ignored."""
        self.message = ""
        session = self.session
        try:
            if key in ("ArrowRight", "ArrowDown"):
                self.place += 1
            elif key in ("ArrowLeft", "ArrowUp"):
                self.place -= 1
            elif key in ORDERS:
                self.show(key)
            elif key in ("undo", "redo"):
                again = session.undo() if key == "undo" else session.redo()
                if again is None:
                    self.message = f"There is nothing to {key}."
                else:
                    self.open(again)
                    self.page.changed()
            elif row == self.row and self._decide(key, row, value):
                if self.which != "open":  # of the open rows, the next one takes its place
                    self.open(row)
                self.page.changed()
        except Refused as refusal:
            self.message = str(refusal)
        except OSError as error:
            self.message = f"Not saved, and therefore not done: {error}"
        self.refresh()

    def _decide(self, key: str, row: int, value: Any) -> bool:
        keys = self.session.keys
        action = {"k": "keep", "x": "leave out", "degree": "degree"}.get(key, "relabel")
        if action == "relabel" and key not in ("r", *keys):
            return False
        self.session.decide(row, action, keys.get(key), float(value) if key == "degree" else None)
        return True

    # Drawing

    def refresh(self) -> None:
        """Draw all that has changed."""
        session, parts, rows = self.session, self.parts, self.listed
        self.step += 1
        self.place = min(max(self.place, 0), max(len(rows) - 1, 0))
        start = max(0, min(self.place - LISTED // 3, len(rows) - LISTED))
        if self.which == "open":
            self.kept = list(dict.fromkeys([*self.kept, *rows[: start + LISTED].tolist()]))
        self.row = int(rows[self.place]) if len(rows) else None
        shown, order = rows[start : start + LISTED].tolist(), ORDERS[self.which]
        put(self.strip, parts.strip(session))
        put(self.tabs, parts.tabs(session, self.which))
        put(self.queue, parts.queue(session, shown, self.row, self.place, len(rows), order))
        self._detail()
        self.map.refresh(self.row)

    def _detail(self) -> None:
        """Draw the row that is looked at, and its nearest rows in the likeliest classes."""
        session, row = self.session, -1 if self.row is None else self.row
        order, labels, other, evidence = np.empty(0, dtype=int), [], -1, []
        if row >= 0:
            now, other, p = session.label(row), session.alternative(row), session.posterior[row]
            order = np.argsort(-p, kind="stable")
            likely = (p[order] >= LEAST_SHOWN) | (order == now) | (np.arange(len(order)) < 2)
            labels = order[likely][:MOST_SHOWN].tolist()
            values = session.evidence(row, now, other)
            strongest = np.argsort(-np.abs(values), kind="stable")[:SHOWN_COLUMNS].tolist()
            evidence = [(session.table.columns[j], values[j]) for j in strongest]
        shown = session, row, self.step, self.message, labels, other, evidence
        put(self.detail, self.parts.detail(*shown))
        put(self.near, self.parts.near(session, row, order[:3].tolist(), NEAREST))
