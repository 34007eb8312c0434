"""The view Doubts: one row at a time, the most doubtful first, by mouse and by keyboard."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin.studio.map_view import MapView
from fuzzytwin.studio.markup import bar, both_ways, label, pressed, put, safe, share, signed, table
from fuzzytwin.studio.session import Refused, Session

LISTED = 12  # rows in the list
SHOWN_COLUMNS = 8
NEAREST = 3
LEAST_SHOWN, MOST_SHOWN = 0.005, 6  # memberships


class DoubtsView:
    """The list of rows, the row that is looked at, the map and the figures.

    `changed` is called after every decision, so that other pages on the same session follow.
    """

    def __init__(self, session: Session, changed: Any) -> None:
        self.session, self.changed = session, changed
        self.which = "open"
        self.place = 0
        self.step = 0
        self.message = ""
        with ui.element("section").classes("view doubts"):
            self.strip = ui.html("", sanitize=False).classes("card strip").props("aria-live=polite")
            self.queue = ui.html("", sanitize=False).classes("card queue")
            self.detail = ui.html("", sanitize=False).classes("card detail")
            with ui.element("div").classes("side"):
                with ui.element("div").classes("card"):
                    self.map = MapView(session, 1.5)
                self.near = ui.html("", sanitize=False).classes("card")

    # What is looked at

    @property
    def listed(self) -> Any:
        """Return the rows of the list: open ones by doubt, or settled ones, the latest first."""
        if self.which == "open":
            return self.session.open_rows
        return np.array(list(reversed(self.session.decisions)), dtype=int)

    @property
    def row(self) -> int | None:
        """Return the row that is looked at; None where the list is empty."""
        rows = self.listed
        if not len(rows):
            return None
        self.place = min(max(self.place, 0), len(rows) - 1)
        return int(rows[self.place])

    def open(self, row: int) -> None:
        """Look at a row, wherever it is listed."""
        self.which = "settled" if row in self.session.decisions else "open"
        found = np.flatnonzero(self.listed == row)
        self.place = int(found[0]) if len(found) else 0

    def show(self, which: str) -> None:
        """List the open or the settled rows."""
        self.which, self.place = which, 0

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
            elif key in ("open", "settled"):
                self.show(key)
            elif key in ("undo", "redo"):
                again = session.undo() if key == "undo" else session.redo()
                if again is None:
                    self.message = f"There is nothing to {key}."
                else:
                    self.open(again)
                    self.changed()
            elif row == self.row and self._decide(key, row, value):
                self.changed()
        except Refused as refusal:
            self.message = str(refusal)
        except OSError as error:
            self.message = f"Not saved, and therefore not done: {error}"
        self.refresh()

    def _decide(self, key: str, row: int, value: Any) -> bool:
        session = self.session
        if key == "k":
            session.decide(row, "keep")
        elif key == "r":
            session.decide(row, "relabel")
        elif key == "x":
            session.decide(row, "leave out")
        elif key == "degree":
            session.decide(row, "degree", degree=float(value))
        elif key in session.keys:
            session.decide(row, "relabel", code=session.keys[key])
        else:
            return False
        return True

    # Drawing

    def refresh(self) -> None:
        """Draw all that has changed."""
        self.step += 1
        row = self.row
        put(self.strip, self._strip())
        put(self.queue, self._queue(row))
        put(self.detail, self._empty() if row is None else self._detail(row))
        put(self.near, "" if row is None else self._neighbors(row))
        self.map.refresh(row)

    def _strip(self) -> str:
        session = self.session
        moved = session.accuracy - session.given_accuracy
        trend = ""
        if abs(moved) >= 0.0005:
            kind, points = ("up" if moved > 0 else "down"), signed(100 * moved, 1)
            trend = f' <i class="{kind}" title="against the labels as given">{points}</i>'
        figures = [
            (share(session.accuracy) + trend, "leave-one-out accuracy"),
            (f"≈ {session.n_wrong_left:,.0f}", "wrong labels are left"),
            (f"{len(session.decisions):,}", f"of {len(session.table):,} rows settled"),
        ]
        shown = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
        return (
            f'<div class="figures">{shown}</div><div class="actions" style="margin:0">'
            f"{_button('undo', 'Undo', 'u', disabled=not session.done)}"
            f"{_button('redo', 'Redo', '⇧u', disabled=not session.undone)}</div>"
        )

    def _queue(self, row: int | None) -> str:
        session, rows = self.session, self.listed
        start = max(0, min(self.place - LISTED // 3, len(rows) - LISTED))
        entries = "".join(self._entry(int(r), r == row) for r in rows[start : start + LISTED])
        tabs = "".join(
            f'<button class="plain" data-key="{key}" {pressed(self.which == key)}>'
            f"{name} {count:,}</button>"
            for key, name, count in (
                ("open", "Open", len(session.table) - len(session.decisions)),
                ("settled", "Settled", len(session.decisions)),
            )
        )
        place = f"{self.place + 1:,} of {len(rows):,}" if len(rows) else "none"
        order = "the most doubtful first" if self.which == "open" else "the latest first"
        return (
            f'<div class="head choice">{tabs}</div><ol aria-label="Rows">{entries}</ol>'
            f'<p class="hint" style="padding: 0 12px">{place}, {order}. Arrows move.</p>'
        )

    def _entry(self, row: int, here: bool) -> str:
        session = self.session
        given, now = int(session.table.codes[row]), session.label(row)
        own = float(session.doubts.own[row])
        decision = session.decisions.get(row)
        if decision is None:
            suggested = int(session.doubts.suggested[row])
            what = label(given, session.class_name(given))
            if suggested != given:
                what += f"→ {label(suggested, session.class_name(suggested))}"
        else:
            done = {"degree": f"degree {decision.degree:.2f}"}.get(decision.action, decision.action)
            what = f"{safe(done)} {label(now, session.class_name(now))}"
        return (
            f'<li data-open="{row}" aria-current="{str(here).lower()}">'
            f'<span class="name">{safe(session.table.name_of(row), 60)}</span>'
            f'{bar(own)}<span class="degree">{own:.2f}</span><span class="what">{what}</span></li>'
        )

    def _empty(self) -> str:
        words = "Every row is settled." if self.which == "open" else "No row is settled yet."
        return f'<div id="detail" data-row="-1" data-step="{self.step}"><p>{words}</p></div>'

    def _detail(self, row: int) -> str:
        session = self.session
        now = session.label(row)
        other = session.alternative(row)
        return (
            f'<div id="detail" data-row="{row}" data-step="{self.step}">'
            f"{self._title(row)}{self._memberships(row)}{self._actions(row, other)}"
            f'<p class="message" role="alert">{safe(self.message)}</p>'
            f'<div class="parts">{self._evidence(row, now, other)}</div></div>'
        )

    def _title(self, row: int) -> str:
        session = self.session
        decision = session.decisions.get(row)
        given = int(session.table.codes[row])
        badge = ""
        if decision is not None:
            words = {
                "keep": "kept",
                "relabel": f"relabelled {session.class_name(decision.code)}",
                "degree": f"degree {decision.degree:.2f}",
                "leave out": "left out",
            }[decision.action]
            badge = f'<span class="badge">{safe(words, 60)}</span>'
        number = f"row {session.table.index[row] + 1:,}"
        name = session.table.name_of(row)
        where = f'<span class="hint">{number}</span>' if name != number else ""
        return (
            f'<div class="title"><h2>{safe(name, 80)}</h2>{where}<span>given label '
            f"{label(given, session.class_name(given))}</span>{badge}</div>"
        )

    def _memberships(self, row: int) -> str:
        session = self.session
        u = session.doubts.memberships[row]
        order = np.argsort(-u, kind="stable")
        shown = (u[order] >= LEAST_SHOWN) | (order == session.label(row))
        order = order[shown | (np.arange(len(u)) < 2)][:MOST_SHOWN]
        lines = "".join(
            f"<span>{label(int(k), session.class_name(int(k)))}</span>"
            f"{bar(float(u[k]), f'c{k % 7}')}<span>{u[k]:.2f}</span>"
            for k in order
        )
        return (
            f'<div class="degrees" aria-label="Memberships">{lines}</div>'
            '<div class="hint">Membership by planes that were learned without this row.</div>'
        )

    def _actions(self, row: int, other: int) -> str:
        session = self.session
        now = session.label(row)
        keep = f"Keep {safe(session.class_name(int(session.table.codes[row])), 24)}"
        buttons = _button("k", keep, "k")
        buttons += _button("r", f"Relabel {safe(session.class_name(other), 24)}", "r", main=True)
        buttons += _button("x", "Leave out", "x")
        buttons += _button("ArrowRight", "Skip", "→")
        degree = session.degree(row)
        slider = (
            '<label>Degree <kbd>d</kbd><input id="degree" type="range" min="0" max="1" step="0.05" '
            f'value="{degree:.2f}" data-shows="degree-value" aria-label="Degree of the label">'
            f'<output id="degree-value">{degree:.2f}</output></label>'
        )
        more = "".join(
            _button(key, label(k, session.class_name(k)), key)
            for key, k in session.keys.items()
            if k not in (now, other)
        )
        more = f'<div class="actions"><span class="hint">or</span>{more}</div>' if more else ""
        return f'<div class="actions">{buttons}{slider}</div>{more}'

    def _evidence(self, row: int, now: int, other: int) -> str:
        session = self.session
        values = session.evidence(row, now, other)
        order = np.argsort(-np.abs(values), kind="stable")[:SHOWN_COLUMNS]
        top = max(float(np.abs(values).max()), 1e-12)
        mine, its = (safe(session.class_name(k), 24) for k in (now, other))
        columns = session.table.columns
        lines = [
            [
                safe(columns[j], 40),
                safe(session.table.cell(row, columns[j]), 40) or "(missing)",
                safe(session.usual(columns[j], now), 24),
                safe(session.usual(columns[j], other), 24),
                f"{both_ways(values[j] / top)} {signed(values[j])}",
            ]
            for j in order
        ]
        head = ["column", "this row", f"usual in {mine}", f"usual in {its}", f"speaks for {mine}"]
        caption = (
            f"What speaks for {mine} (right, +) and what for {its} (left, −), against a row that "
            "is average in the column; 1 is the whole way between the two."
        )
        return table(caption, head, lines, "evidence")

    def _neighbors(self, row: int) -> str:
        session = self.session
        u = session.doubts.memberships[row]
        lines = []
        for k in np.argsort(-u, kind="stable")[:3]:
            found = "".join(
                f'<button class="plain" data-open="{r}">{safe(session.table.name_of(r), 24)} '
                f"<i>{gap:.2f}</i></button>"
                for r, gap in session.nearest(row, int(k), NEAREST)
            )
            lines.append(f"<div>{label(int(k), session.class_name(int(k)))}{found}</div>")
        return (
            f'<h3>Nearest rows of each label</h3><div class="near">{"".join(lines)}</div>'
            '<p class="hint">With their distances over the scaled columns.</p>'
        )


def _button(key: str, text: str, shown: str, *, main: bool = False, disabled: bool = False) -> str:
    kind = "plain main" if main else "plain"
    off = " disabled" if disabled else ""
    return f'<button class="{kind}" data-key="{key}"{off}>{text} <kbd>{shown}</kbd></button>'
