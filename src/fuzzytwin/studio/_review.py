"""The view Review: one row at a time, the rows to review first, by keyboard and by mouse.

`Session` ranks the rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin._utils.types import Array
from fuzzytwin.studio._history import RefusedError
from fuzzytwin.studio._row_card import RowCard
from fuzzytwin.studio._view import View, card, draw_figures, hint, key_button, short

LISTED = 12  # rows in the list
LISTS = {"review": "To review", "open": "Not reviewed", "reviewed": "Reviewed"}
ORDERS = {
    "review": "the lowest label quality first",
    "open": "the lowest label quality first",
    "reviewed": "the latest first",
    "search": "reviewed or not, the lowest label quality first",
}


class ReviewView(View):
    """The figures, the list of rows, the row under review, and its nearest rows."""

    name = "review"

    def build(self) -> None:
        """Lay out the figures, the list, the row and its neighbours."""
        self.which = "review" if len(self.session.rows_to_review) else "open"
        self.kept: list[int] = []  # rows in the order in which they were listed
        self.place = 0
        self.step = 0  # counts keys and buttons
        self.row: int | None = None  # under review
        self.message = ""
        self.strip = ui.row().classes("w-full items-center gap-x-6 gap-y-2 strip")
        columns = "md:grid-cols-[250px_minmax(0,1fr)] xl:grid-cols-[250px_minmax(0,1fr)_290px]"
        with ui.grid().classes(f"w-full grid-cols-1 gap-3 items-start {columns}"):
            with card("order-2 md:order-1 queue"):
                self.lists = ui.row().classes("gap-1")
                self.wanted = ui.input(placeholder="Find an id or row number ( / )")
                self.wanted.props('dense outlined clearable debounce=200 aria-label="Find a row"')
                self.wanted.classes("w-full").on_value_change(self._search)
                self.queue = ui.list().props("dense").classes("w-full")
                self.position = hint("")
            self.row_card = RowCard(self.session, self.press, self.look)
        self.keyboard = ui.keyboard(repeating=False, ignore=["input", "select", "textarea"])
        self.keyboard.on("key", self._key, js_handler=KEY_HANDLER)

    # The rows that are listed

    @property
    def _text(self) -> str:
        return str(self.wanted.value or "").strip()

    @property
    def listed(self) -> Array:
        """Return the rows of the list.

        Rows that were listed stay in their places while decisions change the ranking. Those that
        come after them are ranked as the report sees it now.
        """
        session = self.session
        if self.which == "reviewed":
            return np.array(list(reversed(session.decisions)), dtype=int)
        if self.which == "search":
            rows = session.table.find(self._text)
            return rows[np.argsort(session.quality[rows], kind="stable")]
        kept = np.array([row for row in self.kept if row not in session.decisions], dtype=int)
        ranked = session.rows_to_review if self.which == "review" else session.open_rows
        return np.concatenate([kept, ranked[~np.isin(ranked, kept)]])

    def open(self, row: int) -> None:
        """Look at a row, wherever it is listed."""
        if row in self.session.decisions:
            self.which = "reviewed"
        elif row not in self.listed or self.which == "reviewed":
            self.which = "open"
        places = np.flatnonzero(self.listed == row)
        self.place = int(places[0]) if len(places) else 0

    def show(self, which: str) -> None:
        """Show another list, from its beginning."""
        self.which = which
        self.place = 0
        self.kept = []
        if which != "search":
            self.wanted.value = ""
        self.refresh()

    def _search(self) -> None:
        if self._text or self.which == "search":
            self.show("search" if self._text else "review")

    def follow(self) -> None:
        """Show what another page has changed; the row under review stays."""
        places = np.flatnonzero(self.listed == self.row)
        self.place = int(places[0]) if len(places) else self.place
        self.refresh()

    # Keys and buttons

    def _key(self, event: Any) -> None:
        """Carry out a key, unless it is for a row that is no longer shown."""
        if self.page.view != self.name:
            return
        args = event.args
        key = str(args["key"])
        row = int(args["row"])
        if args["control"]:
            if key.lower() in ("z", "y"):
                self.press("redo" if args["shift"] or key.lower() == "y" else "undo", row)
        elif key == "l":
            self.row_card.label_input.run_method("focus")
        elif key == "/":
            self.wanted.run_method("focus")
        elif key in COMMANDS:
            self.press(COMMANDS[key], row)
        elif key in self.session.keys:
            self.press("relabel", row, self.session.keys[key])

    def press(self, action: str, row: int, code: int | None = None) -> None:
        """Carry out an action; a decision on a row that is no longer shown is ignored."""
        self.message = ""
        self.step += 1
        try:
            if action in ("next", "previous"):
                self.place += 1 if action == "next" else -1
            elif action in ("undo", "redo"):
                self._repeat(action)
            elif row == self.row:
                self.session.decide(row, action, code)
                if self.which in ("reviewed", "search"):
                    self.open(row)  # in other lists, the next row takes its place
                self.page.changed()
        except RefusedError as refusal:
            self.message = str(refusal)
        except OSError as error:
            self.message = f"Not saved, and therefore not done: {error}"
        self.refresh()

    def _repeat(self, action: str) -> None:
        row = self.session.undo() if action == "undo" else self.session.redo()
        if row is None:
            self.message = f"There is nothing to {action}."
            return
        self.open(row)
        self.page.changed()

    # Drawing

    def refresh(self) -> None:
        """Draw the figures, the list and the row."""
        rows = self.listed
        self.place = min(max(self.place, 0), max(len(rows) - 1, 0))
        start = max(0, min(self.place - LISTED // 3, len(rows) - LISTED))
        shown = rows[start : start + LISTED].tolist()
        if self.which in ("review", "open"):
            self.kept = list(dict.fromkeys([*self.kept, *rows[: start + LISTED].tolist()]))
        self.row = int(rows[self.place]) if len(rows) else None
        self._draw_strip()
        self._draw_queue(shown, len(rows))
        self.row_card.draw(self.row, self.step, self.message)

    def _draw_strip(self) -> None:
        """Draw the figures, undo and redo."""
        session = self.session
        self.strip.clear()
        with self.strip:
            draw_figures(session)
            ui.space()
            key_button("Undo", "u", partial(self.press, "undo", -1), bool(session.history.done))
            key_button("Redo", "⇧u", partial(self.press, "redo", -1), bool(session.history.undone))

    def _draw_queue(self, rows: list[int], count: int) -> None:
        session = self.session
        counts = {
            "review": len(session.rows_to_review),
            "open": len(session.open_rows),
            "reviewed": len(session.decisions),
        }
        self.lists.clear()
        with self.lists:
            for which, text in LISTS.items():
                button = ui.button(f"{text} {counts[which]:,}", on_click=partial(self.show, which))
                style = "outline" if which == self.which else "flat"
                button.props(f"{style} dense no-caps data-list={which}").classes("px-2 text-xs")
        self.queue.clear()
        with self.queue:
            for row in rows:
                self._draw_entry(row)
        where = f"{self.place + 1:,} of {count:,}" if count else "None"
        self.position.set_text(f"{where}, {ORDERS[self.which]}.")

    def _draw_entry(self, row: int) -> None:
        """Draw a row of the list: its name, its label and the suggested one, and its quality."""
        session = self.session
        code = session.label(row)
        suggested = session.suggestion(row)
        made = session.decisions.get(row)
        with ui.item(on_click=partial(self.look, row)).props("dense").classes("px-2 entry") as item:
            item.props(f"{'active' if row == self.row else ''} aria-current={row == self.row}")
            with ui.item_section().classes("min-w-0"):
                name = short(session.table.name_of(row), 60)
                ui.item_label(name).props("lines=1").classes("name font-medium")
                text = short(session.class_names[code], 24)
                if made is not None:
                    text = f"{made.words}: {text}"
                elif suggested != code:
                    text = f"{text} → {short(session.class_names[suggested], 24)}"
                ui.item_label(text).props("caption lines=1")
            with ui.item_section().props("side"):
                ui.label(f"{session.quality[row]:.2f}")

    def look(self, row: int) -> None:
        """Show a row of the list, or one of the nearest rows."""
        self.message = ""
        places = np.flatnonzero(self.listed == row)
        if len(places):
            self.place = int(places[0])
        else:
            self.open(row)
        self.refresh()


COMMANDS = {
    "k": "keep",
    "r": "relabel",
    "x": "exclude",
    "n": "next",
    "p": "previous",
    "ArrowRight": "next",
    "ArrowLeft": "previous",
    "u": "undo",
    "U": "redo",
}
# What is decided on is the row that the page shows, not one that is on its way.
KEY_HANDLER = """(e) => {
  if (e.action !== "keydown" || e.altKey) return;
  const row = document.querySelector("[data-row]")?.dataset.row ?? -1;
  emit({key: e.key, shift: e.shiftKey, control: e.ctrlKey || e.metaKey, row: Number(row)});
}"""
