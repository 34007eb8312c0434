"""The view Overview: how good the labels and the model are, and what drives the prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin._utils.text import decimals
from fuzzytwin._utils.types import Array
from fuzzytwin.experiment._families import families, strongest
from fuzzytwin.experiment._words import effect_name
from fuzzytwin.studio._model import Model
from fuzzytwin.studio._view import (
    View,
    card,
    colour,
    figure,
    heading,
    hint,
    interval,
    percent,
    shape,
    short,
    signed,
    table,
)

MAX_CLASSES = 6  # in the table of labels by predictions
MAX_PAIRS = 10
MAX_EFFECTS = 8
MAX_CHOICES = 200  # columns to choose from for the map
MAX_POINTS = 2000
GREY = "#888"  # is readable in light and dark
COMPONENTS = {-1: "PC 1", -2: "PC 2"}


class OverviewView(View):
    """Figures, the map, the confusion of labels, and the columns that count."""

    name = "overview"

    def build(self) -> None:
        """Lay out the notes about the table, the figures, two tables, and the map."""
        names = [short(name) for name in self.session.table.names[:MAX_CHOICES]]
        choices = {**COMPONENTS, **dict(enumerate(names))}
        if notes := self.session.table.studio_notes:
            with card("notes"):
                for note in notes:
                    ui.label(f"Note: {note}.").classes("text-sm break-words w-full")
        with card():
            self.figures = ui.row().classes("w-full gap-x-8 gap-y-3 figures")
        with ui.grid().classes("w-full grid-cols-1 lg:grid-cols-2 gap-3 items-start"):
            with card():
                heading("Map of the rows")
                with ui.row().classes("gap-2"):
                    self.axes = [
                        ui.select(choices, label=axis, value=value, on_change=self._draw_map)
                        for axis, value in zip("xy", COMPONENTS, strict=True)
                    ]
                    for select in self.axes:
                        select.props("dense outlined options-dense").classes("min-w-32")
                self.map = ui.echart({}, on_point_click=self._open_point).classes("w-full h-80 map")
                hint(
                    "PC 1 and PC 2 are the principal components. Outlined marks are rows to review."
                )
            with ui.column().classes("gap-3 min-w-0 w-full"):
                self.confusion = card("confusion")
                self.effects = card("effects")

    def refresh(self) -> None:
        """Draw all of it."""
        for box, draw in (
            (self.figures, self._draw_figures),
            (self.confusion, self._draw_confusion),
            (self.effects, self._draw_effects),
        ):
            box.clear()
            with box:
                draw()
        self._draw_map()

    def _draw_figures(self) -> None:
        """Draw the class of the lowest recall first, which an accuracy can hide."""
        session = self.session
        if session.model is not None:
            counts = session.model.confusion
            sizes = counts.sum(axis=1)
            worst = int((counts.diagonal() / np.maximum(sizes, 1)).argmin())
            recall = f"{counts[worst, worst]:,} of {sizes[worst]:,}"
            figure(recall, f"lowest recall: {short(session.class_names[worst])}")
            figure(percent(session.model.accuracy), "leave-one-out accuracy")
            figure(percent(sizes.max() / sizes.sum()), "always the most frequent label")
        figure(f"{len(session.rows_to_review):,}", "rows to review")
        figure(f"{len(session.decisions):,}", f"of {len(session.table):,} rows reviewed")
        ends = interval(session.n_errors_left_interval)
        figure(ends, f"label errors left (95%), about {session.n_errors_left:,.0f}")
        hint(session.model_status).classes("model-status self-center")

    def _draw_confusion(self) -> None:
        """Draw a table of labels by predictions or, of many labels, the most confused pairs."""
        heading("Labels and predictions")
        session = self.session
        if session.model is None:
            hint(session.model_status)
            return
        names = [short(name, 24) for name in session.class_names]
        counts = session.model.confusion
        if len(names) <= MAX_CLASSES:
            hint("Rows by label, and by the prediction of a model trained on all other rows.")
            rows = [[name, *(f"{n:,}" for n in counts[k])] for k, name in enumerate(names)]
            table(["label", *(f"predicted {name}" for name in names)], rows)
            return
        np.fill_diagonal(counts, 0)
        order = np.argsort(-counts, axis=None, kind="stable")[:MAX_PAIRS]
        pairs = [divmod(int(place), len(names)) for place in order if counts.flat[place]]
        hint("The pairs of labels that are confused most often, leave-one-out.")
        lines = [[names[i], names[j], f"{counts[i, j]:,}"] for i, j in pairs]
        table(["label", "prediction", "rows"], lines)

    def _draw_effects(self) -> None:
        """Draw the strongest effects of columns. Of two classes, those on the rarer one."""
        heading("What drives the prediction")
        session = self.session
        model = session.model
        if model is None:
            hint(session.model_status)
            return
        family_of = families(session.table.columns)
        effects, more = strongest(self._strongest_first(model), MAX_EFFECTS, family_of)
        digits = decimals(max((abs(entry["effect"]) for entry in effects), default=0.0))
        rows = [
            [effect_name(entry, 40), short(entry["label"], 24), signed(entry["effect"], digits)]
            for entry in effects
        ]
        rows += [[f"... {text}", "", ""] for text in more]
        hint(
            "Change of a label's mean probability if a number rises by one standard deviation (in "
            "brackets), or if a category has this value instead of the others."
        )
        table(["change", "label", "effect"], rows)

    def _strongest_first(self, model: Model) -> list[dict[str, Any]]:
        """Return the effect of each change on one label: of two, the rarer, else the largest."""
        names = self.session.class_names
        labels = model.labels
        explained = {str(entry["class"]): entry["columns"] for entry in model.effects}
        shown = names
        if len(names) == 2:
            shown = [names[np.bincount(labels.codes[labels.used], minlength=2).argmin()]]
        largest: dict[str, dict[str, Any]] = {}
        for label in shown:
            for entry in explained.get(label, ()):
                before = largest.get(entry["name"])
                if before is None or abs(entry["effect"]) > abs(before["effect"]):
                    strength = max(entry["strength"], before["strength"] if before else 0.0)
                    largest[entry["name"]] = {**entry, "label": label, "strength": strength}
        return sorted(largest.values(), key=lambda entry: -entry["strength"])

    # The map

    def _draw_map(self) -> None:
        session = self.session
        x, y = (self._values(int(select.value)) for select in self.axes)
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
                    "data": self._points(rows, x, y, review, colour(code)),
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

    def _points(self, rows: Array, x: Array, y: Array, review: set[int], fill: str) -> list[Any]:
        ring = {"color": "transparent", "borderColor": fill, "borderWidth": 2, "opacity": 1}
        return [
            {
                "name": short(self.session.table.name_of(row)),
                "value": [float(x[row]), float(y[row]), row],
                **({"itemStyle": ring, "symbolSize": 11} if row in review else {}),
            }
            for row in rows.tolist()
        ]

    def _values(self, choice: int) -> Array:
        if choice >= 0:
            return self.session.table.values(choice)
        return self.session.table.components[:, -choice - 1]

    def _open_point(self, event: Any) -> None:
        self.page.look_at(int(event.value[2]))
