"""One row under review: what a person sees of it, and what can be decided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin.studio._session import Session
from fuzzytwin.studio._view import (
    card,
    colour,
    heading,
    hint,
    key_button,
    label_chip,
    short,
    signed,
    table,
)

SHOWN_COLUMNS = 8
SHOWN_LABELS = 6  # in the list of probabilities
LABEL_BUTTONS = 12
NEAREST = 3
MIN_SHOWN = 0.005  # probability of a label
KEYS = "k keep · r relabel · digit or l another label · x exclude · n next · p previous · u undo"


class RowCard:
    """A card with the row, and one with its nearest rows.

    `press` is called with an action, the row and a class; `look` with a row to show.
    """

    label_input: Any  # to type a label

    def __init__(
        self, session: Session, press: Callable[..., None], look: Callable[[int], None]
    ) -> None:
        self.session = session
        self.press = press
        self.look = look
        self.detail = card("order-1 md:order-2 detail")
        self.near = card("order-3 md:col-start-2 xl:col-start-3 near")

    def draw(self, row: int | None, step: int, message: str) -> None:
        """Draw a row, None if there is none, and a message; `step` counts keys and buttons."""
        self.detail.clear()
        self.near.clear()
        self.detail.props(f"data-row={-1 if row is None else row} data-step={step}")
        self.near.set_visibility(row is not None)
        with self.detail:
            if row is None:
                heading("No rows left in this list.")
            else:
                self._draw_title(row)
                self._draw_whole_cells(row)
                self._draw_probabilities(row)
                self._draw_actions(row)
            if message:
                ui.label(message).classes("text-negative message").props("role=alert")
            if row is not None:
                self._draw_columns(row)
                hint(KEYS).classes("max-sm:hidden")
                with self.near:
                    self._draw_near(row)

    def _draw_title(self, row: int) -> None:
        session = self.session
        name = session.table.name_of(row)
        number = session.table.number_of(row)
        given = int(session.table.codes[row])
        made = session.decisions.get(row)
        with ui.row().classes("items-baseline gap-x-4 gap-y-1 w-full title"):
            ui.label(short(name, 80)).classes("text-lg font-medium break-words min-w-0 row-name")
            if name != number:
                hint(number)
            with ui.row().classes("items-center gap-2"):
                ui.label("given label" if session.table.settings.target else session.table.target)
                label_chip(given, session.class_names[given])
            ui.label(f"label quality {session.quality[row]:.2f}")
            if made is not None:
                now = (
                    f" {short(session.class_names[made.code])}" if made.action == "relabel" else ""
                )
                ui.badge(f"{made.words}{now}").classes("made")

    def _draw_whole_cells(self, row: int) -> None:
        """Show the columns that are read by people."""
        table = self.session.table
        for name in table.shown:
            value = table.raw(row, name)
            with ui.column().classes("gap-0 w-full whole"):
                hint(short(name, 60))
                text = ui.label("(missing)" if value is None else str(value))
                text.classes("whitespace-pre-wrap break-words max-h-72 overflow-auto w-full")

    def _draw_probabilities(self, row: int) -> None:
        session = self.session
        p = session.posterior[row]
        order = np.argsort(-p, kind="stable")
        shown = (p[order] >= MIN_SHOWN) | (order == session.label(row))
        shown[:2] = True
        columns = "grid-cols-[minmax(70px,max-content)_minmax(0,1fr)_40px]"
        hint("Probability of each label")
        with ui.grid().classes(f"w-full max-w-md gap-x-3 gap-y-1 items-center {columns}"):
            for code in order[shown][:SHOWN_LABELS].tolist():
                label_chip(code, session.class_names[code])
                share = float(np.clip(p[code], 0.0, 1.0))
                bar = ui.linear_progress(share, show_value=False, size="10px", color=colour(code))
                bar.props("instant-feedback rounded")
                ui.label(f"{p[code]:.2f}")
        settings = session.table.settings
        labels = ["the given label"] if settings.target else []
        if settings.votes:
            labels.append("the votes")
        hint(f"From a model trained on all other rows, and from {' and '.join(labels)}.")

    def _draw_actions(self, row: int) -> None:
        session = self.session
        names = session.class_names
        given = short(names[session.table.codes[row]], 24)
        other = session.alternative(row)
        with ui.row().classes("gap-2 w-full actions"):
            key_button(f"Keep {given}", "k", partial(self.press, "keep", row))
            relabel = partial(self.press, "relabel", row, other)
            key_button(f"Relabel as {short(names[other], 24)}", "r", relabel)
            key_button("Exclude", "x", partial(self.press, "exclude", row))
            key_button("Next", "n", partial(self.press, "next", row))
        with ui.row().classes("gap-2 items-center w-full labels") as labels:
            self.label_input = ui.input(placeholder="Another label ( l )")
            self.label_input.props('dense outlined aria-label="Find a label"').classes("w-44")
            buttons = ui.row().classes("gap-1 items-center")
            self.label_input.on_value_change(lambda: self._draw_labels(buttons, row))
            self.label_input.on("keydown.enter", partial(self._take_first, row))
            self.label_input.on("keydown.escape", js_handler="(event) => event.target.blur()")
            self._draw_labels(buttons, row)
        labels.set_visibility(len(names) > 2)  # of two labels, keep and relabel suffice

    def _draw_labels(self, box: Any, row: int) -> None:
        """Draw a button for each label that matches what is typed."""
        session = self.session
        keys = {code: key for key, code in session.keys.items()}
        matches = session.find_labels(str(self.label_input.value or ""))
        box.clear()
        with box:
            for code in matches[:LABEL_BUTTONS]:
                press = partial(self.press, "relabel", row, code)
                name = short(session.class_names[code], 24)
                key = keys.get(code, "")
                key_button(name, "" if key == name else key, press).classes("text-xs")
            if len(matches) > LABEL_BUTTONS:
                hint(f"and {len(matches) - LABEL_BUTTONS:,} more: type to find")
            if not matches:
                hint("no such label")

    def _take_first(self, row: int) -> None:
        """Take the label that was typed, if it is the first of those that match."""
        text = str(self.label_input.value or "")
        matches = self.session.find_labels(text)
        if text.strip() and matches:
            self.press("relabel", row, matches[0])

    def _draw_columns(self, row: int) -> None:
        """Draw the columns that contribute most to the label, and what is typical of them."""
        session = self.session
        now = session.label(row)
        other = session.alternative(row)
        names = session.table.columns
        # No person reads the numbers of an embedding.
        readable = [j for j, name in enumerate(names) if name in session.table.in_file]
        values = session.contributions(row, now, other) if readable else None
        if values is None:
            return
        own_name = short(session.class_names[now], 20)
        other_name = short(session.class_names[other], 20)
        rows = [
            [
                short(names[j]),
                short(session.table.cell(row, names[j])) or "(missing)",
                short(session.typical(names[j], now), 24),
                short(session.typical(names[j], other), 24),
                signed(values[j]),
            ]
            for j in sorted(readable, key=lambda j: -abs(values[j]))[:SHOWN_COLUMNS]
        ]
        heads = [
            "column",
            "this row",
            f"typical of {own_name}",
            f"typical of {other_name}",
            "contribution",
        ]
        hint(
            f"Contribution of each column towards {own_name} (+) or {other_name} (−), compared "
            "with its mean. It comes from linear planes of the two labels that were fitted without "
            "this row. A contribution of 1 is the full distance from one label to the other."
        )
        table(heads, rows, narrow=[2, 3]).classes("columns")

    def _draw_near(self, row: int) -> None:
        """Draw the nearest rows of the most probable classes."""
        session = self.session
        codes = np.argsort(-session.posterior[row], kind="stable")[:NEAREST].tolist()
        heading("Nearest rows of each label")
        for code, rows in session.nearest(row, codes).items():
            label_chip(code, session.class_names[code])
            for other, distance in rows:
                with ui.row().classes("items-center gap-2 flex-nowrap w-full min-w-0"):
                    name = short(session.table.name_of(other), 24)
                    button = ui.button(name, on_click=partial(self.look, other))
                    button.props("flat dense no-caps").classes("shrink-0 text-xs")
                    hint(f"{distance:.2f}").classes("shrink-0")
                    if session.table.shown:
                        value = session.table.raw(other, session.table.shown[0])
                        hint(short(str(value or ""), 80)).classes("truncate min-w-0")
        hint("Numbers are distances, computed from the scaled columns.")
