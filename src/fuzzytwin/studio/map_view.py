"""The map of the rows: three layers, so that a decision sends only what it changed."""

from __future__ import annotations

import numpy as np
from nicegui import ui

from fuzzytwin._utils.types import Array
from fuzzytwin.studio import maps
from fuzzytwin.studio.markup import label, put, safe
from fuzzytwin.studio.session import Session

MOST_RINGS = 400


class MapView:
    """Rows by label and doubt, with the planes and their bands; `scale` is that of the points.

    Layers from back to front: regions, bands and planes; rows; rings around doubtful rows and
    the rows that were decided on.
    """

    def __init__(self, session: Session, scale: float = 1.0) -> None:
        self.session, self.scale = session, scale
        self.choice: tuple[int, int] | None = None  # two prepared columns, or principal directions
        self.shown = maps.sample(session.table.codes)
        self._look()
        with ui.element("figure"):
            self.y_name = ui.html("", sanitize=False)
            with ui.element("div").classes("map"):
                self.back = ui.html("", sanitize=False)
                self.rows = ui.html("", sanitize=False)
                self.front = ui.html("", sanitize=False)
            self.x_name = ui.html("", sanitize=False)
            self.legend = ui.html("", sanitize=False)
            self.words = ui.html("", sanitize=False, tag="figcaption")

    def look_at(self, choice: tuple[int, int] | None) -> None:
        """Choose two columns, or None for the principal directions."""
        self.choice = choice
        self._look()

    def _look(self) -> None:
        table = self.session.table
        if self.choice is None:
            self.axes = maps.Axes.principal(table.X)
        else:
            values = np.column_stack([table.shown_values(j) for j in self.choice])
            self.axes = maps.Axes.columns(table.X, *self.choice, table.names, values)
        self.frame = maps.Frame.around(self.axes.points)
        self.pixels = self.frame.pixels(self.axes.points)
        rows = self.shown
        self.dots = maps.layer(
            maps.points_svg(self.pixels[rows], table.codes[rows], 3.2 * self.scale)
        )

    def refresh(self, row: int | None = None) -> None:
        """Draw what has changed; `row` is the one that is looked at."""
        session = self.session
        model, prefix = session.live.model, f"map{id(self)}"
        planes = maps.planes_svg(model, self.frame, self.axes.rows_at, prefix)
        put(self.back, maps.layer(planes, self._alt(row)))
        put(self.rows, self.dots)
        put(self.front, maps.layer(self._front(row)))
        x, y = self.axes.names
        put(self.y_name, f'<div class="axis y">↑ {safe(y)}</div>')
        put(self.x_name, f'<div class="axis x">{safe(x)} →</div>')
        put(self.legend, self._legend())
        put(self.words, self._caption())

    def row_at(self, x: float, y: float) -> int | None:
        """Find the drawn row nearest to a place, given as shares of width and height."""
        rows = np.union1d(self.shown, np.array(list(self.session.decisions), dtype=int))
        gap = self.pixels[rows] - [x * maps.WIDTH, y * maps.HEIGHT]
        squares = (gap**2).sum(axis=1)
        best = int(squares.argmin())
        return int(rows[best]) if squares[best] < (12 * self.scale) ** 2 else None

    def _rings(self) -> Array:
        """List the open rows that fit another label better, the most doubtful of the drawn."""
        session = self.session
        rows = session.open_rows
        rows = rows[session.doubts.suggested[rows] != session.codes[rows]]
        drawn = np.zeros(len(session.table), dtype=bool)
        drawn[self.shown] = True
        return rows[drawn[rows]][:MOST_RINGS]

    def _front(self, row: int | None) -> str:
        session, scale, parts = self.session, self.scale, []
        parts.append(maps.rings_svg(self.pixels[self._rings()], 5.5 * scale, "doubt"))
        decided = np.array(list(session.decisions), dtype=int)
        used = decided[session.live.used[decided]]
        parts.append(
            maps.points_svg(self.pixels[used], session.codes[used], 3.6 * scale, "points solid")
        )
        if row is not None:
            at, code = self.pixels[[row]], session.codes[[row]]
            parts.append(maps.points_svg(at, code, 5.0 * scale, "points solid"))
            parts.append(maps.rings_svg(at, 11.0 * scale, "here"))
        return "".join(parts)

    def _legend(self) -> str:
        session = self.session
        marks = [label(k, session.class_name(k)) for k in range(len(session.table.classes))[:10]]
        ring = '<svg class="mark" viewBox="-8 -8 16 16"><path class="{}" d="{}"/></svg>'
        marks.append(
            f'<span class="label">{ring.format("doubt", maps.marker(0, 0, 0, 6))}fits another '
            "label better</span>"
        )
        solid = maps.marker(0, 0, 0, 5)
        marks.append(
            f'<span class="label">{ring.format("here", solid)}decided, or looked at</span>'
        )
        return f'<div class="legend">{"".join(marks)}</div>'

    def _alt(self, row: int | None) -> str:
        session = self.session
        counts = ", ".join(
            f"{safe(session.class_name(k), 30)} {int(n):,}"
            for k, n in enumerate(np.bincount(session.codes[session.live.used])[:7])
        )
        x, y = (safe(name, 60) for name in self.axes.names)
        here = "" if row is None else f" The row looked at is {safe(session.table.name_of(row))}."
        return (
            f"Map of the rows over {x} and {y}. Rows by label: {counts}. {session.n_doubtful:,} "
            f"rows without a decision fit another label better.{here}"
        )

    def _caption(self) -> str:
        drawn, all_rows = len(self.shown), len(self.session.table)
        which = "All rows" if drawn == all_rows else f"{drawn:,} of {all_rows:,} rows"
        model = self.session.live.model
        bands = ", shaded bands where they are vague" if model.planes == "fuzzy" else ""
        if len(model.plane_classes_) > max(len(model.classes_), maps.MOST_PLANES):
            lines = "Shades show the predicted label"
        else:
            lines = f"Lines are the planes{bands}; shades show the predicted label"
        rest = "" if self.session.table.X.shape[1] <= 2 else ", where all else is average"
        return f"{which}. {lines}{rest}."
