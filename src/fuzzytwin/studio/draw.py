"""The view Draw: put points on a plane and watch planes, bands and memberships move along."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from nicegui import ui

from fuzzytwin.studio import maps
from fuzzytwin.studio.board import CHOICES, LETTERS, RANGES, SIZE, Board
from fuzzytwin.studio.markup import bar, label, options, pressed, put, safe, signed, table

EXAMPLES = (
    ("groups", "Two groups"),
    ("outlier", "A wrong label"),
    ("three", "Three groups"),
    ("ring", "A ring"),
)
FINE = (91, 64)  # points of the grid on which planes are drawn
NAMES = {
    "crisp": "crisp (M1)", "fuzzy": "fuzzy (M2)", "linear": "straight", "rbf": "curved (RBF)",
    "poly": "curved (cubic)", "distance": "distance", "residual": "residual",
    "slack": "as a rival (the paper)", "both": "throughout",
}  # fmt: skip
STEPS = {
    "ArrowLeft": (-0.1, 0),
    "ArrowRight": (0.1, 0),
    "ArrowUp": (0, 0.1),
    "ArrowDown": (0, -0.1),
}


class DrawView:
    """The board and its settings."""

    def __init__(self) -> None:
        self.board = Board()
        self.board.example("groups")
        self.k = 0
        self.frame = maps.Frame(np.zeros(2), SIZE)
        with ui.element("section").classes("view draw"):
            with ui.element("div").classes("card"):
                self.tools = ui.html("", sanitize=False).classes("controls")
                with ui.element("figure"):
                    with ui.element("div").classes("map").props('id="board"'):
                        self.back = ui.html("", sanitize=False)
                        self.front = ui.html("", sanitize=False)
                    self.words = ui.html("", sanitize=False, tag="figcaption")
            with ui.element("div").classes("side"):
                self.settings = ui.html("", sanitize=False).classes("card")
                self.result = ui.html("", sanitize=False).classes("card")

    def act(self, given: dict[str, Any]) -> None:
        """Carry out what the mouse or a key did on the board."""
        board, action = self.board, given.get("action")
        if action == "add":
            board.add(*self._point(given), self.k)
        elif action == "choose":
            number = int(given.get("id", 0))
            board.chosen = number if number in board.points else None
            if board.chosen is not None:
                self.k = board.points[number].k
        elif action in ("move", "drop"):
            board.move(int(given.get("id", 0)), *self._point(given))
        elif action == "remove":
            board.remove()
        elif action == "nudge" and board.chosen in board.points:
            point, step = board.points[board.chosen], STEPS.get(str(given.get("key")), (0, 0))
            board.move(board.chosen, point.x + step[0], point.y + step[1])
        elif action == "class" and int(given.get("k", 0)) in range(len(LETTERS)):
            self.k = int(given["k"])
            board.change(k=self.k)
        self.refresh(dragging=action == "move")

    def choose(self, name: str, value: str, *, moving: bool = False) -> None:
        """Carry out a choice among the settings; `moving`: a slider is not let go of yet."""
        board = self.board
        if name == "example" and value in dict(EXAMPLES):
            board.example(value)
        elif name == "clear":
            board.clear()
        elif name == "remove":
            board.remove()
        elif name == "class":
            self.act({"action": "class", "k": int(value)})
        elif name == "degree":
            board.change(degree=min(1.0, max(0.0, float(value))))
        elif name in CHOICES and value in CHOICES[name]:
            board.settings[name] = value
        elif name in RANGES:
            low, high = RANGES[name]
            power = min(high, max(low, float(value)))
            if name == "C":
                board.C = 2.0**power
            else:
                board.alpha = 0.0 if power == low else 10.0**power
        self.refresh(moving=moving)

    def refresh(self, *, dragging: bool = False, moving: bool = False) -> None:
        """Draw all that has changed.

        While a point is dragged, the page itself draws the points; while a slider is moved, the
        settings must stay as they are.
        """
        try:
            model, problem = self.board.model(), ""
        except ValueError as error:
            model, problem = None, str(error)
        planes = (
            "" if model is None else maps.planes_svg(model, self.frame, lambda at: at, "draw", FINE)
        )
        put(self.back, maps.layer(planes, self._alt()))
        if not dragging:
            put(self.front, self._points())
            put(self.tools, self._tools())
            put(self.words, _HELP)
        if not dragging and not moving:
            put(self.settings, self._settings())
        put(self.result, self._result(model, problem))

    def _point(self, given: dict[str, Any]) -> tuple[float, float]:
        x, y = (float(given.get(name, 0.5)) for name in "xy")
        return x * SIZE[0], (1 - y) * SIZE[1]

    def _points(self) -> str:
        X = self.board.rows()[0]
        places = self.frame.pixels(X) if len(X) else X
        parts = []
        for (number, point), (x, y) in zip(self.board.points.items(), places, strict=True):
            chosen = " chosen" if number == self.board.chosen else ""
            r = 3.0 + 5.0 * point.degree
            parts.append(
                f'<g class="dot c{point.k}{chosen}" data-id="{number}" '
                f'transform="translate({x:.1f} {y:.1f})"><path class="hit" '
                f'd="{maps.marker(0, 0, 0, 16)}"/><path class="shape" '
                f'd="{maps.marker(point.k, 0, 0, round(r, 1))}"/></g>'
            )
        return maps.layer("".join(parts))

    def _alt(self) -> str:
        _, y, _ = self.board.rows()
        counts = ", ".join(f"{letter} {int((y == letter).sum())}" for letter in LETTERS)
        return f"A plane with points by class: {counts}. The planes are in the table beside it."

    def _tools(self) -> str:
        classes = "".join(
            f'<button class="plain" data-choice="class" value="{k}" {pressed(k == self.k)}>'
            f"{label(k, letter)} <kbd>{k + 1}</kbd></button>"
            for k, letter in enumerate(LETTERS)
        )
        examples = "".join(
            f'<button class="plain" data-choice="example" value="{key}">{name}</button>'
            for key, name in EXAMPLES
        )
        return (
            f'<span class="choice">{classes}</span><span class="choice">{examples}'
            '<button class="plain" data-choice="clear" value="">Clear</button></span>'
        )

    def _settings(self) -> str:
        board = self.board
        lines = "".join(
            _setting(options(name, text, [(value, NAMES[value]) for value in CHOICES[name]], now))
            for name, text, now in (
                ("planes", "Planes", board.settings["planes"]),
                ("kernel", "Shape", board.settings["kernel"]),
                ("rule", "Rule", board.settings["rule"]),
                ("scope", "Degrees act", board.settings["scope"]),
            )
        )
        lines += _slider("C", "Penalty C", math.log2(board.C), f"{board.C:.3g}")
        power = RANGES["alpha"][0] if board.alpha == 0 else math.log10(board.alpha)
        lines += _slider("alpha", "Ridge", power, f"{board.alpha:.3g}")
        point = board.points.get(board.chosen) if board.chosen is not None else None
        if point is not None:
            chosen = (
                f'<h3 style="margin-top:14px">The chosen point: {label(point.k, LETTERS[point.k])}'
                "</h3>"
                '<div class="setting"><span>Degree</span><input type="range" min="0" max="1" '
                f'step="0.05" value="{point.degree:.2f}" data-choice="degree" '
                'data-shows="point-degree" '
                f'aria-label="Degree of the point"><output id="point-degree">{point.degree:.2f}'
                "</output></div>"
                '<button class="plain" data-choice="remove" value="">Remove <kbd>Del</kbd></button>'
            )
        else:
            chosen = '<p class="hint">Press a point to choose it and to give it a degree.</p>'
        return f"<h2>Model</h2>{lines}{chosen}"

    def _result(self, model: Any, problem: str) -> str:
        X, y, degrees = self.board.rows()
        state = {"points": X.tolist(), "labels": y.tolist(), "degrees": degrees.tolist()}
        if model is None:
            return f"{_state(state)}<h2>Planes</h2><p>{safe(problem)}</p>"
        state |= {
            "parameters": {
                name: getattr(model, name)
                for name in ("planes", "C", "alpha", "rule", "membership_scope", "kernel")
            },
            "coef": model.coef_.tolist(),
            "intercept": model.intercept_.tolist(),
        }
        hits = int((model.predict(X) == y).sum())
        words = f"{hits} of {len(y)} points are labelled as drawn."
        lines = []
        for p, (own, rival) in enumerate(model.plane_classes_):
            name = label(LETTERS.index(model.classes_[own]), f"{model.classes_[own]}")
            against = f" against {model.classes_[rival]}" if len(model.classes_) > 2 else ""
            lines.append([f"{name}{against}", f'<span class="formula">{_formula(model, p)}</span>'])
        shown = table("Where a plane's value is 0:", ["plane", "equation"], lines)
        return f"{_state(state)}<h2>Planes</h2><p>{words}</p>{shown}{self._memberships(model)}"

    def _memberships(self, model: Any) -> str:
        chosen = self.board.chosen
        if chosen not in self.board.points:
            return ""
        point = self.board.points[chosen]
        u = model.predict_membership([[point.x, point.y]])[0]
        lines = "".join(
            f"<span>{label(LETTERS.index(name), name)}</span>"
            f"{bar(float(u[k]), f'c{LETTERS.index(name)}')}<span>{u[k]:.2f}</span>"
            for k, name in enumerate(model.classes_)
        )
        return (
            f'<h3 style="margin-top:14px">Membership of the chosen point</h3>'
            f'<div class="degrees">{lines}</div>'
        )


_HELP = (
    "Press on the plane to add a point of the chosen class, drag points, press <kbd>Del</kbd> to "
    "remove one. Lines are the planes, shaded bands show where a fuzzy plane is vague, shades show "
    "the predicted class; smaller points have lower degrees."
)


def _formula(model: Any, p: int) -> str:
    if model.kernel != "linear":
        return f"curved, |w| = {float(np.linalg.norm(model.coef_[p])):.3g}"
    (a, b), c = model.coef_[p], model.intercept_[p]
    width = ""
    if hasattr(model, "width_coef_"):
        (u, v), w = model.width_coef_[p], model.width_intercept_[p]
        width = f"<br>± ({u:.3f}|x| + {v:.3f}|y| + {w:.3f})"
    return f"{signed(a, 3)} x {signed(b, 3)} y {signed(c, 3)} = 0{width}"


def _state(state: dict[str, Any]) -> str:
    """Keep what is drawn as numbers in the page, for those who want to check it."""
    text = json.dumps(state).replace('"', "&quot;")
    return f'<div id="draw-state" hidden data-state="{text}"></div>'


def _setting(choice: str) -> str:
    return f'<div class="row">{choice}</div>'


def _slider(name: str, text: str, value: float, shown: str) -> str:
    low, high = RANGES[name]
    base = 2 if name == "C" else 10
    return (
        f'<div class="setting"><span>{text}</span><input type="range" min="{low}" max="{high}" '
        f'step="0.25" value="{value:.2f}" data-choice="{name}" data-shows="{name}-value" '
        f'data-base="{base}" aria-label="{text}"><output id="{name}-value">{shown}</output></div>'
    )
