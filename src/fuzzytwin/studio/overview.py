"""The view Overview: how good the labels and the model are, and what drives the prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin._utils.text import decimals
from fuzzytwin.kernels import KERNELS
from fuzzytwin.studio.map_view import MapView
from fuzzytwin.studio.markup import bar, both_ways, label, options, put, safe, share, signed, table
from fuzzytwin.studio.model import FOLDS
from fuzzytwin.studio.session import Session

MOST_CLASSES = 8  # in the table of labels by labels
MOST_DRIVERS = 8
MOST_CHOICES = 200  # columns to choose from for the map
PLANES = ("crisp", "fuzzy")
PRINCIPAL = "principal"


class OverviewView:
    """Figures, the map, who is taken for whom, and the columns that count."""

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self.session, self.changed = session, changed
        self.known: tuple[Any, str, str] = (None, "", "")
        self.axes = ["", ""]
        with ui.element("section").classes("view overview"):
            self.figures = ui.html("", sanitize=False).classes("card wide")
            with ui.element("div").classes("card"):
                ui.html("Map of the rows", sanitize=False, tag="h2")
                self.controls = ui.html("", sanitize=False).classes("controls")
                self.map = MapView(session)
            with ui.element("div").classes("stack"):
                self.confusion = ui.html("", sanitize=False).classes("card")
                self.drivers = ui.html("", sanitize=False).classes("card")

    def choose(self, name: str, value: str, *, moving: bool = False) -> None:
        """Carry out a choice: the axes of the map, or the kind of model."""
        session = self.session
        if name in ("x", "y"):
            self.axes["xy".index(name)] = value
            chosen = [self._column(text) for text in self.axes]
            if value == "":
                self.axes, chosen = ["", ""], [None, None]
            elif None in chosen:  # the second axis is the next column
                first = next(j for j in chosen if j is not None)
                other = (first + 1) % len(session.table.names)
                self.axes["yx".index(name)] = str(other)
                chosen = [self._column(text) for text in self.axes]
            i, j = chosen
            self.map.look_at(None if i is None or j is None else (i, j))
        elif value in {"planes": PLANES, "kernel": KERNELS}.get(name, ()):
            planes, kernel = session.kind
            session.use(*((value, kernel) if name == "planes" else (planes, value)))
            self.changed()
        self.refresh()

    def _column(self, text: str) -> int | None:
        known = text.isdigit() and int(text) < len(self.session.table.names)
        return int(text) if known else None

    def refresh(self) -> None:
        """Draw all that has changed."""
        session = self.session
        state = (session.version, session.kind)
        if self.known[0] != state:
            self.known = (state, self._figures(), self._drivers())
        put(self.figures, self.known[1])
        put(self.drivers, self.known[2])
        put(self.controls, self._controls())
        put(self.confusion, self._confusion())
        self.map.refresh()

    def _figures(self) -> str:
        session = self.session
        used = session.codes[session.live.used]
        look = session.first_look
        low, high = look.n_wrong_interval
        largest = np.bincount(used).max() / len(used)
        figures = [
            (share(session.accuracy), "leave-one-out accuracy"),
            (share(session.live.cross_validate()), f"accuracy by {FOLDS}-fold cross-validation"),
            (share(float(largest)), "always the most frequent label"),
            (f"≈ {look.n_wrong:,.0f}", f"labels wrong as given ({low:,.0f} to {high:,.0f})"),
            (f"≈ {session.n_wrong_left:,.0f}", "of them left"),
            (f"{len(session.decisions):,}", f"of {len(session.table):,} rows settled"),
        ]
        shown = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
        return f'<div class="figures">{shown}</div>'

    def _controls(self) -> str:
        names = self.session.table.names[:MOST_CHOICES]
        columns = [("", PRINCIPAL), *((str(j), name) for j, name in enumerate(names))]
        planes, kernel = self.session.kind
        kinds = [("crisp", "crisp (M1)"), ("fuzzy", "fuzzy (M2)")]
        shapes = [("linear", "straight"), ("rbf", "curved (RBF)")]
        if kernel not in dict(shapes):
            shapes.append((kernel, f"curved ({kernel})"))
        return (
            options("x", "x", columns, self.axes[0])
            + options("y", "y", columns, self.axes[1])
            + options("planes", "Planes", kinds, planes)
            + options("kernel", "Shape", shapes, kernel)
        )

    def _confusion(self) -> str:
        session = self.session
        counts = session.confusion()
        K = len(counts)
        names = [label(k, session.class_name(k)) for k in range(K)]
        title = "<h2>Labels, and what the other rows say</h2>"
        if K <= MOST_CLASSES:
            head = ["labelled", *(f"taken for<br>{name}" for name in names)]
            lines = [
                [names[i], *(f"{'<b>' if i == j else ''}{n:,}" for j, n in enumerate(row))]
                for i, row in enumerate(counts)
            ]
            caption = "Rows by their label, and by the label that the other rows predict."
        else:
            off = counts - np.diag(np.diag(counts))
            pairs = [divmod(int(p), K) for p in np.argsort(-off, axis=None)[:MOST_CLASSES]]
            head = ["labelled", "taken for", "rows"]
            lines = [[names[i], names[j], f"{off[i, j]:,}"] for i, j in pairs if off[i, j]]
            caption = "The pairs of labels that are confused most often."
        return title + table(caption, head, lines, "numbers")

    def _drivers(self) -> str:
        session = self.session
        effects, strengths = session.live.drivers()
        strength = strengths.max(axis=0)
        order = np.argsort(-strength, kind="stable")[:MOST_DRIVERS]
        names = session.table.names
        title = "<h2>What drives the prediction</h2>"
        digits = decimals(float(np.abs(effects).max(initial=0.0)))
        if len(effects) == 2:
            mine = label(1, session.class_name(1))
            top = max(float(np.abs(effects[1]).max()), 1e-12)
            lines = [
                [
                    safe(names[j], 40),
                    f"{both_ways(effects[1, j] / top)} {signed(effects[1, j], digits)}",
                    f"{strength[j]:.{digits}f}",
                ]
                for j in order
            ]
            head = ["column", f"towards {mine}", "strength"]
        else:
            top = max(float(strength.max()), 1e-12)
            lines = [
                [
                    safe(names[j], 40),
                    label(
                        int(effects[:, j].argmax()), session.class_name(int(effects[:, j].argmax()))
                    ),
                    label(
                        int(effects[:, j].argmin()), session.class_name(int(effects[:, j].argmin()))
                    ),
                    f"{bar(strength[j] / top)} {strength[j]:.{digits}f}",
                ]
                for j in order
            ]
            head = ["column", "more of it: towards", "away from", "strength"]
        caption = (
            "Change of the mean membership as a column rises by one standard deviation; strength "
            "disregards the direction."
        )
        return title + table(caption, head, lines)
