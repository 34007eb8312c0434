"""Maps of rows as SVG: points by class, planes, fuzzy bands and regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from nicegui import ui
from sklearn.decomposition import PCA

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.studio.session import Session
from fuzzytwin.apps.studio.view import COLOURS, block, marker, put, templates

WIDTH, HEIGHT = 600, 420
MOST_POINTS = 2000
MOST_RINGS = 400
GRID = (45, 33)  # points of the grid on which planes are drawn
MOST_PLANES = 6  # planes of more pairs of classes would hide the picture
PARTS = templates("map")
RowsAt = Callable[[Array], Array]  # from points of the map to rows


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is drawn, and the way to pixels."""

    low: Array
    high: Array

    @classmethod
    def around(cls, points: Array) -> Frame:
        """Frame most points: the few that lie far out would shrink all others."""
        low, high = np.percentile(points, [0.5, 99.5], axis=0)
        gap = np.where(high > low, high - low, 1.0)
        return cls(low - 0.1 * gap, high + 0.1 * gap)

    def pixels(self, points: Array) -> Array:
        """Map points to pixels; those outside of the frame are put on its edge."""
        unit = np.clip((points - self.low) / (self.high - self.low), 0.005, 0.995)
        return np.column_stack([unit[:, 0] * WIDTH, (1 - unit[:, 1]) * HEIGHT])

    def grid(self, size: tuple[int, int]) -> tuple[Array, Array, Array]:
        """Return the x and y of a grid in pixels, and its points, row by row."""
        xs, ys = (np.linspace(a, b, m) for a, b, m in zip(self.low, self.high, size, strict=True))
        xx, yy = np.meshgrid(xs, ys)
        points = np.column_stack([xx.ravel(), yy.ravel()])
        return np.linspace(0, WIDTH, size[0]), np.linspace(HEIGHT, 0, size[1]), points


@dataclass(frozen=True)
class Axes:
    """Two directions to look along: their names, where the rows lie, and the way back.

    In all other directions, rows at a point of the map are as the mean row.
    """

    names: tuple[str, str]
    points: Array
    rows_at: RowsAt

    @classmethod
    def principal(cls, X: Array) -> Axes:
        """Look along the two directions in which rows differ most."""
        found = PCA(min(2, *X.shape), random_state=0).fit(X)
        missing = 2 - len(found.components_)  # of a table with one column
        directions = np.pad(found.components_, ((0, missing), (0, 0)))
        ratio = np.pad(np.nan_to_num(found.explained_variance_ratio_), (0, missing))
        names = (
            f"first mixture of columns ({100 * ratio[0]:.0f} % of the spread)",
            f"second mixture ({100 * ratio[1]:.0f} %)",
        )
        center = found.mean_
        return cls(names, (X - center) @ directions.T, lambda at: center + at @ directions)

    @classmethod
    def columns(cls, X: Array, i: int, j: int, names: Sequence[str], values: Array) -> Axes:
        """Look at two columns of `X`; the axes show `values`, as the file has them."""
        center, pair = X.mean(axis=0), [i, j]
        unit = X[:, pair].std(axis=0)
        scale = np.where(unit > 0, values.std(axis=0) / np.where(unit > 0, unit, 1.0), 1.0)
        shift = values.mean(axis=0) - scale * center[pair]

        def rows_at(at: Array) -> Array:
            rows = np.tile(center, (len(at), 1))
            rows[:, pair] = (at - shift) / scale
            return rows

        return cls((names[i], names[j]), X[:, pair] * scale + shift, rows_at)


def planes_svg(
    model: Any, frame: Frame, rows_at: RowsAt, prefix: str, size: tuple[int, int] = GRID
) -> str:
    """Draw the regions of the classes, the planes (f = 0) and their bands (|f| <= g).

    `prefix` begins the names of parts, which must differ between the maps of a page.
    """
    contour = need("contourpy", "studio", "a map").contour_generator
    xs, ys, points = frame.grid(size)
    rows = rows_at(points)
    u = model.predict_membership(rows)
    f, g = model.plane_values(rows)

    def found(values: Array) -> Any:
        return contour(xs, ys, np.reshape(values, size[::-1]), fill_type="OuterOffset")

    def above(values: Array) -> str:
        """Outline where values are positive."""
        areas = zip(*found(values).filled(0.0, float(np.abs(values).max()) + 1.0), strict=True)
        return "".join(
            _path(points[a:b]) + "z" for points, cuts in areas for a, b in pairwise(cuts)
        )

    parts = []
    for k in range(u.shape[1]):
        lead = u[:, k] - np.delete(u, k, axis=1).max(axis=1)
        parts.append(f'<path class="region c{k % COLOURS}" d="{above(lead)}"/>')
    if f.shape[1] <= max(u.shape[1], MOST_PLANES):
        for p, own in enumerate(model.plane_classes_[:, 0]):
            colour = f"c{own % COLOURS}"
            if g is not None and (g[:, p] > 0).any():
                for half in (10, 5):  # tenths of the width
                    name, width = f"{prefix}-{p}-{half}", half / 10 * g[:, p]
                    parts.append(
                        f'<clipPath id="{name}"><path d="{above(f[:, p] + width)}"/></clipPath>'
                        f'<path class="band {colour}" clip-path="url(#{name})" '
                        f'd="{above(width - f[:, p])}"/>'
                    )
            line = "".join(map(_path, found(f[:, p]).lines(0.0)))
            parts.append(f'<path class="plane {colour}" d="{line}"/>')
    return "".join(parts)


def _path(points: Array) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def points_svg(pixels: Array, codes: Array, r: float, kind: str = "points") -> str:
    """Draw points, one path for each class."""
    parts = []
    for k in np.unique(codes):
        d = "".join(marker(int(k), x, y, round(r, 1)) for x, y in pixels[codes == k])
        parts.append(f'<path class="{kind} c{int(k) % COLOURS}" d="{d}"/>')
    return "".join(parts)


def rings_svg(pixels: Array, r: float, kind: str) -> str:
    """Draw a ring around each point."""
    return f'<path class="{kind}" d="{"".join(marker(0, x, y, r) for x, y in pixels)}"/>'


def layer(content: str, words: str = "") -> str:
    """Wrap what is drawn as one layer of a map; the first layer has the words."""
    return str(PARTS.layer(Markup(content), WIDTH, HEIGHT, words))


def sample(codes: Array, most: int = MOST_POINTS) -> Array:
    """Choose rows to draw: all, or a sample in which every class has its share."""
    n = len(codes)
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(0)
    chosen = []
    for k in np.unique(codes):
        mine = np.flatnonzero(codes == k)
        count = min(len(mine), max(20, round(most * len(mine) / n)))
        chosen.append(rng.choice(mine, count, replace=False))
    return np.sort(np.concatenate(chosen))


class MapView:
    """Rows by label and doubt, with the planes and their bands; `scale` is that of the points.

    Three layers, so that a decision sends only what it changed; from back to front: regions,
    bands and planes; rows; rings around doubtful rows, and the rows that were decided on.
    """

    def __init__(self, session: Session, scale: float = 1.0) -> None:
        self.session, self.scale = session, scale
        self.shown = sample(session.table.codes)
        self.look_at(None)
        with ui.element("figure"):
            self.y_name = block("axis y")
            with ui.element("div").classes("map"):
                self.back, self.rows, self.front = block(), block(), block()
            self.x_name = block("axis x")
            self.legend = block("legend")
            self.words = block(tag="figcaption")

    def look_at(self, choice: tuple[int, int] | None) -> None:
        """Look at two prepared columns, or along the directions in which rows differ most."""
        table, self.choice = self.session.table, choice
        if choice is None:
            self.axes = Axes.principal(table.X)
        else:
            values = np.column_stack([table.shown_values(j) for j in choice])
            self.axes = Axes.columns(table.X, *choice, table.names, values)
        self.frame = Frame.around(self.axes.points)
        self.pixels = self.frame.pixels(self.axes.points)
        rows = self.shown
        self.dots = layer(points_svg(self.pixels[rows], table.codes[rows], 3.2 * self.scale))

    def refresh(self, row: int | None = None) -> None:
        """Draw what has changed; `row` is the one that is looked at."""
        session, names = self.session, self.axes.names
        model, table = session.live.model, session.table
        planes = planes_svg(model, self.frame, self.axes.rows_at, f"map{id(self)}")
        sizes = np.bincount(session.codes[session.live.used])[:COLOURS]
        put(self.back, layer(planes, PARTS.words(session, names, sizes, row)))
        put(self.rows, self.dots)
        put(self.front, layer(self._front(row)))
        put(self.y_name, f"↑ {escape(names[1])}")
        put(self.x_name, f"{escape(names[0])} →")
        put(self.legend, PARTS.legend(session.class_names))
        lines = len(model.plane_classes_) <= max(len(model.classes_), MOST_PLANES)
        shown = len(self.shown), len(table), model, lines, self.choice is None, table.X.shape[1] > 2
        put(self.words, PARTS.caption(*shown))

    def row_at(self, given: dict[str, Any]) -> int:
        """Find the drawn row near a place, given as shares of width and height; -1 for none."""
        rows = np.union1d(self.shown, np.array(list(self.session.decisions), dtype=int))
        x, y = (float(given.get(name, 0)) for name in "xy")
        squares = ((self.pixels[rows] - [x * WIDTH, y * HEIGHT]) ** 2).sum(axis=1)
        best = int(squares.argmin())
        return int(rows[best]) if squares[best] < (12 * self.scale) ** 2 else -1

    def _front(self, row: int | None) -> str:
        session, scale = self.session, self.scale
        doubtful = session.doubtful_rows
        doubtful = doubtful[np.isin(doubtful, self.shown)][:MOST_RINGS]
        decided = np.array(list(session.decisions), dtype=int)
        used = decided[session.live.used[decided]]
        parts = [
            rings_svg(self.pixels[doubtful], 5.5 * scale, "doubt"),
            points_svg(self.pixels[used], session.codes[used], 3.6 * scale, "points solid"),
        ]
        if row is not None:
            at, code = self.pixels[[row]], session.codes[[row]]
            parts.append(points_svg(at, code, 5.0 * scale, "points solid"))
            parts.append(rings_svg(at, 11.0 * scale, "here"))
        return "".join(parts)
