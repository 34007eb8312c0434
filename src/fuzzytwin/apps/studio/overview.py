"""The view Overview: how good the labels and the model are, and what drives the prediction."""

from __future__ import annotations

import numpy as np
from nicegui import ui

from fuzzytwin._utils.text import decimals
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.studio.maps import MapView
from fuzzytwin.apps.studio.model import FOLDS, PLANES, SHAPES
from fuzzytwin.apps.studio.view import View, block, put, select
from fuzzytwin.explain import column_effects

MOST_CLASSES = 8  # in the table of labels by labels
MOST_DRIVERS = 8
MOST_CHOICES = 200  # columns to choose from for the map
WIDEST = "mixture"  # of columns, along which rows differ most


class OverviewView(View):
    """Figures, the map, who is taken for whom, and the columns that count."""

    name = "overview"

    def build(self) -> None:
        """Lay out the figures, the map with its choices, and two tables."""
        self.version = -1  # of the session that is drawn
        names, (planes, kernel) = self.session.table.names, self.session.kind
        columns = {-1: WIDEST, **dict(enumerate(names[:MOST_CHOICES]))}
        shapes = SHAPES if kernel in SHAPES else {**SHAPES, kernel: f"curved ({kernel})"}
        self.figures = block("card wide")
        with ui.element("div").classes("card"):
            block(tag="h2", content="Map of the rows")
            with ui.element("div").classes("controls"):
                self.axes = [
                    select(name, name, columns, -1, lambda j, at=at: self._look(at, j))
                    for at, name in enumerate("xy")
                ]
                self.planes = select("planes", "Planes", PLANES, planes, lambda _: self._use())
                self.kernel = select("kernel", "ProblemSize", shapes, kernel, lambda _: self._use())
            self.map = MapView(self.session)
        with ui.element("div").classes("stack"):
            self.confusion, self.drivers = block("card"), block("card")

    def _look(self, at: int, column: int) -> None:
        """Look at a column along one axis; the other one shows the next column, unless chosen."""
        other = self.axes[1 - at]
        if column == -1 or other.value == -1:
            next_one = (column + 1) % len(self.session.table.names)
            other.value = -1 if column == -1 else next_one
        x, y = (axis.value for axis in self.axes)
        self.map.look_at(None if -1 in (x, y) else (x, y))
        self.refresh()

    def _use(self) -> None:
        kind = self.planes.value, self.kernel.value
        if kind != self.session.kind:
            self.session.use(*kind)
            self.page.changed()
            self.refresh()

    def refresh(self) -> None:
        """Draw all that has changed."""
        session = self.session
        self.planes.value, self.kernel.value = session.kind
        if self.version != session.version:
            counts = session.confusion()
            accuracy = session.live.cross_validate(session.table.rows.groups)
            put(self.figures, self.parts.numbers(session, counts, accuracy, FOLDS))
            self._confusion(counts)
            self._drivers()
            self.version = session.version
        self.map.refresh()

    def _confusion(self, counts: Array) -> None:
        names, pairs = self.session.class_names, None
        if len(names) > MOST_CLASSES:
            off = counts - np.diag(np.diag(counts))
            most = np.argsort(-off, axis=None)[:MOST_CLASSES]
            pairs = [(i, j, off[i, j]) for i, j in zip(*np.divmod(most, len(names)), strict=True)]
        put(self.confusion, self.parts.confusion(names, counts, pairs))

    def _drivers(self) -> None:
        session = self.session
        live = session.live
        effects, strengths = column_effects(live.model, live.X, live.weight * live.used)
        strength, names = strengths.max(axis=0), session.table.names
        rare = int(np.bincount(session.codes[live.used]).argmin())
        top = max(float(np.abs(effects).max()), 1e-12)
        strongest = np.argsort(-strength, kind="stable")[:MOST_DRIVERS].tolist()
        columns = [(names[j], effects[:, j], strength[j]) for j in strongest]
        shown = session.class_names, columns, top, rare, decimals(top)
        put(self.drivers, self.parts.drivers(*shown))
