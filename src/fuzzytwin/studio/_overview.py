"""The view Overview: the notes about the table, how good its labels are, and a map of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin._utils.types import Array
from fuzzytwin.studio._view import View, card, colour, draw_figures, heading, hint, shape, short

MAX_POINTS = 2000
GREY = "#888"  # is readable in light and dark


class OverviewView(View):
    """Notes, figures and the map."""

    name = "overview"

    def build(self) -> None:
        """Lay out the notes about the table, the figures and the map."""
        if notes := self.session.table.studio_notes:
            with card("notes"):
                for note in notes:
                    ui.label(f"Note: {note}.").classes("text-sm break-words w-full")
        with card():
            self.figures = ui.row().classes("w-full gap-x-8 gap-y-3 figures")
        with card():
            heading("Map of the rows")
            self.map = ui.echart({}, on_point_click=self._open_point).classes("w-full h-96 map")
            hint("Axes are the first two principal components. Outlined marks are rows to review.")

    def refresh(self) -> None:
        """Draw the figures and the map."""
        self.figures.clear()
        with self.figures:
            draw_figures(self.session)
        self._draw_map()

    def _draw_map(self) -> None:
        session = self.session
        review = set(session.rows_to_review.tolist())
        axis = {
            "scale": True,
            "splitLine": {"show": False},
            "axisLabel": {"color": GREY},
            "axisLine": {"lineStyle": {"color": GREY}, "onZero": False},  # below the points
        }
        self.map.options.clear()
        self.map.options.update(
            animation=False,
            tooltip={"renderMode": "richText", "trigger": "item"},  # never HTML
            grid={"left": 45, "right": 15, "top": 15, "bottom": 60},
            legend={"type": "scroll", "bottom": 0, "textStyle": {"color": GREY}},
            xAxis=axis,
            yAxis=axis,
            series=[
                {
                    "type": "scatter",
                    "name": short(name),
                    "symbol": shape(code)[1],
                    "symbolSize": 7,
                    "data": self._points(rows, review, colour(code)),
                    "itemStyle": {"color": colour(code), "opacity": 0.7},
                }
                for code, name in enumerate(session.class_names)
                if len(rows := self._drawn_rows[session.labels.codes[self._drawn_rows] == code])
            ],
        )
        self.map.update()

    @property
    def _drawn_rows(self) -> Array:
        """Return the rows on the map: all of them, or evenly spaced ones."""
        n = len(self.session.table)
        return np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).astype(int))

    def _points(self, rows: Array, review: set[int], fill: str) -> list[Any]:
        table = self.session.table
        ring = {"color": "transparent", "borderColor": fill, "borderWidth": 2, "opacity": 1}
        return [
            {
                "name": short(table.name_of(row)),
                "value": [*table.components[row].tolist(), row],
                **({"itemStyle": ring, "symbolSize": 11} if row in review else {}),
            }
            for row in rows.tolist()
        ]

    def _open_point(self, event: Any) -> None:
        self.page.look_at(int(event.value[2]))
