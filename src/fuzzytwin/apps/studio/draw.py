"""The view Draw: put points on a plane and watch planes, bands and memberships move along."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from nicegui import ui

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.studio import maps
from fuzzytwin.apps.studio.model import PLANES, SHAPES
from fuzzytwin.apps.studio.view import View, block, hint, put, select
from fuzzytwin.twin._svc import FuzzyTwinSVC

SIZE = np.array([10.0, 7.0])
LETTERS = "ABC"
MOST_POINTS = 300
FINE = (91, 64)  # points of the grid on which planes are drawn
EXAMPLES = {
    "groups": "Two groups", "outlier": "A wrong label", "three": "Three groups", "ring": "A ring",
}  # fmt: skip
STEPS = {"Left": (-0.1, 0.0), "Right": (0.1, 0.0), "Up": (0.0, 0.1), "Down": (0.0, -0.1)}
# Parameters of the model: heading, values with their names, and what they do.
CHOICES: dict[str, tuple[str, dict[str, str], str]] = {
    "planes": ("Planes", PLANES, "Bands show how vague a fuzzy plane is."),
    "kernel": ("ProblemSize", {**SHAPES, "poly": "curved (cubic)"}, "Straight or curved planes."),
    "rule": (
        "Rule",
        {"distance": "nearest plane", "residual": "smallest value"},
        "How a point gets its class: by its distance from the planes, or by their values.",
    ),
    "membership_scope": (
        "Degrees act",
        {"slack": "on rivals (the paper)", "both": "throughout"},
        "Whether a point of low degree counts less as a rival only, or for its own plane, too.",
    ),
}
# Heading, range of the exponent, its base, and what it does.
SLIDERS = {
    "C": ("Penalty C", (-6.0, 6.0), 2.0, "How strongly planes are pushed away from rival points."),
    "alpha": ("Ridge", (-3.0, 2.0), 10.0, "L2 regularisation: larger makes planes smoother."),
}


class Point(NamedTuple):
    """A point with its class and degree."""

    x: float
    y: float
    k: int
    degree: float = 1.0


class Board:
    """Points of up to three classes, and the parameters of the model on them."""

    def __init__(self) -> None:
        self.points: dict[int, Point] = {}
        self.parameters: dict[str, Any] = {
            "planes": "fuzzy", "kernel": "linear", "rule": "distance",
            "membership_scope": "slack", "C": 0.5, "alpha": 0.1,
        }  # fmt: skip
        self.chosen: int | None = None
        self._last = 0  # number of the point that was added last

    @property
    def point(self) -> Point | None:
        """Return the chosen point."""
        return self.points.get(self.chosen or 0)

    def add(self, x: float, y: float, k: int) -> int | None:
        """Put a point on the board; None where it is full."""
        if len(self.points) >= MOST_POINTS:
            return None
        self.chosen = self._last = self._last + 1
        self.points[self.chosen] = Point(x, y, k)
        self.change(self.chosen)
        return self.chosen

    def change(self, number: int | None, **values: Any) -> None:
        """Change a point's place on the board, class or degree; ignore one that does not exist."""
        if number in self.points:
            point = self.points[number]._replace(**values)
            x, y = np.clip(np.nan_to_num(point[:2]), 0.0, SIZE).tolist()
            self.points[number] = point._replace(x=x, y=y)

    def remove(self) -> None:
        """Remove the chosen point."""
        self.points.pop(self.chosen or 0, None)
        self.chosen = None

    def clear(self) -> None:
        """Remove all points."""
        self.points.clear()
        self.chosen = None

    def example(self, name: str) -> None:
        """Put one of `EXAMPLES` on the board."""
        self.clear()
        self.parameters["kernel"] = "rbf" if name == "ring" else "linear"
        for x, y, k in _examples()[name]:
            self.add(float(x), float(y), int(k))
        self.chosen = None

    def rows(self) -> tuple[Array, Array, Array]:
        """Return the points as rows, labels and degrees."""
        points = np.array(list(self.points.values()), dtype=np.float64).reshape(-1, 4)
        return points[:, :2], np.array(list(LETTERS))[points[:, 2].astype(int)], points[:, 3]

    def model(self) -> FuzzyTwinSVC:
        """Fit a model on the points; a ValueError says what is missing."""
        X, y, degrees = self.rows()
        if len(np.unique(y)) < 2:
            raise ValueError("Put points of two classes on the plane.")
        return FuzzyTwinSVC(**self.parameters, random_state=0).fit(X, y, membership=degrees)


def _examples() -> dict[str, Array]:
    rng = np.random.default_rng(3)

    def cloud(x: float, y: float, k: int, n: int = 14, spread: Any = 0.8) -> Array:
        at = rng.normal([x, y], spread, (n, 2))
        return np.column_stack([np.clip(at, 0.3, SIZE - 0.3), np.full(n, k)])

    t = np.arange(18) / 18 * 2 * np.pi
    radius = rng.normal(2.6, 0.15, 18)
    ring = np.column_stack([5 + radius * np.cos(t), 3.5 + radius * np.sin(t), np.ones(18)])
    groups = np.vstack([cloud(3.2, 4.4, 0), cloud(6.8, 2.6, 1)])
    return {
        "groups": groups,
        "outlier": np.vstack([groups, [[8.6, 1.2, 0]]]),
        "three": np.vstack([cloud(2.6, 2.2, 0), cloud(7.4, 2.2, 1), cloud(5.0, 5.4, 2)]),
        "ring": np.vstack([cloud(5.0, 3.5, 0, 12, (0.6, 0.5)), ring]),
    }


class DrawView(View):
    """The board and its settings."""

    name = "draw"
    keys = f"[1-{len(LETTERS)}]|Delete|Backspace|Arrow.*"
    needs_table = False

    def build(self) -> None:
        """Lay out the board, the settings and the planes."""
        self.board = Board()
        self.board.example("groups")
        self.k = 0
        self.frame = maps.Frame(np.zeros(2), SIZE)
        with ui.element("div").classes("card"):
            self.tools = block("controls")
            with ui.element("figure"):
                with ui.element("div").classes("map").props('id="board"'):
                    self.back, self.front = block(), block()
                block(tag="figcaption", content=self.parts.help())
        with ui.element("div").classes("side"):
            with ui.element("div").classes("card"):
                ui.html("Model", sanitize=False, tag="h2")
                self._settings()
            self.result = block("card")

    def _settings(self) -> None:
        parameters, self.choices = self.board.parameters, {}
        for name, (text, values, about) in CHOICES.items():
            chosen = select(name, text, values, parameters[name], partial(self._set, name))
            self.choices[name] = hint(chosen, about)
        for name, (text, (low, high), base, about) in SLIDERS.items():
            self._slider(name, text, (low, high, 0.25), math.log(parameters[name], base), about)
        self.chosen = block()
        self.degree = self._slider("degree", "Degree", (0, 1, 0.05), 1.0, "How much it counts.")

    def _slider(
        self, name: str, text: str, scale: tuple[float, float, float], value: float, about: str
    ) -> tuple[Any, Any]:
        """Place a slider between its heading and its value; return the box and the slider."""
        low, high, step = scale
        with ui.element("div").classes("setting") as box:
            hint(ui.label(text), about)
            slider = ui.slider(min=low, max=high, step=step, value=value)
            slider.props(f'aria-label="{text}"').classes(f"choice-{name}")
            slider.on_value_change(lambda e: self._set(name, e.value))
            ui.label().bind_text_from(slider, "value", lambda at: f"{_value(name, at):.3g}")
        return box, slider

    def _set(self, name: str, value: Any) -> None:
        """Give a parameter, or the degree of the chosen point, another value."""
        board, value = self.board, _value(name, value)
        if name == "degree" and board.point is not None and board.point.degree != value:
            board.change(board.chosen, degree=value)
        elif name != "degree" and board.parameters[name] != value:
            board.parameters[name] = value
        else:
            return
        self.refresh()

    def press(self, key: str, row: int, value: Any = None) -> None:
        """Carry out a key, or a button above the board."""
        board = self.board
        if key in EXAMPLES:
            board.example(key)
        elif key == "clear":
            board.clear()
        elif key in ("Delete", "Backspace"):
            board.remove()
        elif key.isdigit() and 1 <= int(key) <= len(LETTERS):
            self.k = int(key) - 1
            board.change(board.chosen, k=self.k)
        elif board.point is not None and key[5:] in STEPS:
            x, y = STEPS[key[5:]]
            board.change(board.chosen, x=board.point.x + x, y=board.point.y + y)
        self.refresh()

    def point(self, given: dict[str, Any]) -> None:
        """Add a point where the mouse was pressed, or choose, move or drop one."""
        board, action, number = self.board, given.get("action"), int(given.get("id", 0))
        x, y = (float(given.get(name, 0.5)) for name in "xy")
        at = x * SIZE[0], (1 - y) * SIZE[1]
        if action == "press":
            board.add(*at, self.k)
        elif action == "choose":
            board.chosen = number if number in board.points else None
            self.k = board.points[number].k if board.chosen else self.k
        elif action in ("move", "drop"):
            board.change(number, x=at[0], y=at[1])
        self.refresh(dragging=action == "move")

    def refresh(self, *, dragging: bool = False) -> None:
        """Draw all that has changed; a point that is dragged is drawn by the page itself."""
        board, parts = self.board, self.parts
        try:
            model, problem = board.model(), ""
            planes = maps.planes_svg(model, self.frame, lambda at: at, "draw", FINE)
        except ValueError as error:
            model, problem, planes = None, str(error), ""
        X, y, _ = board.rows()
        counts = ", ".join(f"{letter} {int((y == letter).sum())}" for letter in LETTERS)
        words = f"A plane with points by class: {counts}. The planes are in the table beside it."
        put(self.back, maps.layer(planes, words))
        self._describe(model, problem)
        if dragging:
            return
        dots = parts.dots(board.points, self.frame.pixels(X), board.chosen)
        put(self.front, maps.layer(dots))
        put(self.tools, parts.tools(LETTERS, self.k, EXAMPLES))
        self.choices["kernel"].set_value(board.parameters["kernel"])
        point, (box, slider) = board.point, self.degree
        put(self.chosen, parts.chosen(point, LETTERS))
        box.set_visibility(point is not None)
        if point is not None:
            slider.set_value(point.degree)

    def _describe(self, model: Any, problem: str) -> None:
        """Describe the planes, and how the chosen point fits its classes."""
        board, (X, y, degrees) = self.board, self.board.rows()
        state = {
            "points": X.tolist(),
            "labels": y.tolist(),
            "degrees": degrees.tolist(),
            "parameters": board.parameters,
        }
        hits, fits = 0, ()
        if model is not None:
            state |= {"coef": model.coef_.tolist(), "intercept": model.intercept_.tolist()}
            hits = int((model.predict(X) == y).sum())
            if board.point is not None:
                fits = model.predict_membership([board.point[:2]])[0]
        put(self.result, self.parts.result(json.dumps(state), problem, hits, model, fits, LETTERS))


def _value(name: str, given: Any) -> Any:
    """Turn the place of a slider into the value it stands for; the least ridge is none."""
    if name not in SLIDERS:
        return given
    _, (low, _), base, _ = SLIDERS[name]
    return 0.0 if name == "alpha" and given <= low else base**given
