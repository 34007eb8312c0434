"""Maps of rows as SVG: points by class, planes, fuzzy bands and regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array

WIDTH, HEIGHT = 600, 420
MOST_POINTS = 2000
GRID = (45, 33)  # points of the grid on which planes are drawn
MOST_PLANES = 6  # planes of more pairs of classes would hide the picture


def marker(code: int, x: float, y: float, r: float) -> str:
    """Give the outline of a class's marker as the data of an SVG path."""
    kind = code % 5
    if kind == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    if kind == 1:
        s = round(1.2 * r, 2)
        return f"M{x:.1f} {y - s:.1f}l{s} {1.8 * s:.1f}h{-2 * s:.1f}z"
    if kind == 2:
        s = round(0.88 * r, 2)
        return f"M{x - s:.1f} {y - s:.1f}h{2 * s}v{2 * s}h{-2 * s}z"
    if kind == 3:
        s = round(1.25 * r, 2)
        return f"M{x:.1f} {y - s:.1f}l{s} {s}l{-s} {s}l{-s} {-s}z"
    s = round(1.2 * r, 2)
    return f"M{x:.1f} {y + s:.1f}l{s} {-1.8 * s:.1f}h{-2 * s:.1f}z"


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
        unit = (points - self.low) / (self.high - self.low)
        unit = np.clip(unit, 0.005, 0.995)
        return np.column_stack([unit[:, 0] * WIDTH, (1 - unit[:, 1]) * HEIGHT])

    def grid(self, size: tuple[int, int]) -> tuple[Array, Array, Array]:
        """Return the x and y of a grid in pixels, and its points, row by row."""
        xs, ys = (np.linspace(a, b, m) for a, b, m in zip(self.low, self.high, size, strict=True))
        xx, yy = np.meshgrid(xs, ys)
        points = np.column_stack([xx.ravel(), yy.ravel()])
        return np.linspace(0, WIDTH, size[0]), np.linspace(HEIGHT, 0, size[1]), points


@dataclass(frozen=True)
class Axes:
    """Two directions to look along.

    Parameters
    ----------
    names : tuple of two str
        What the axes show.
    points : ndarray of shape (n, 2)
        Where the rows lie.
    rows_at : callable
        From points of the map to rows: in all other directions they are as the mean row.
    """

    names: tuple[str, str]
    points: Array
    rows_at: Callable[[Array], Array]

    @classmethod
    def principal(cls, X: Array) -> Axes:
        """Look along the two principal directions."""
        found = PCA(min(2, *X.shape), random_state=0).fit(X)
        directions, ratio = np.zeros((2, X.shape[1])), np.zeros(2)
        directions[: len(found.components_)] = found.components_
        ratio[: len(found.components_)] = np.nan_to_num(found.explained_variance_ratio_)
        names = (
            f"principal direction 1 ({ratio[0]:.0%} of the spread)",
            f"principal direction 2 ({ratio[1]:.0%})",
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
    model: Any,
    frame: Frame,
    rows_at: Callable[[Array], Array],
    prefix: str,
    size: tuple[int, int] = GRID,
) -> str:
    """Draw the regions of the classes, the planes (f = 0) and their bands (|f| <= g).

    `prefix` begins the names of parts, which must differ between the maps of a page.
    """
    contour = need("contourpy", "studio", "a map").contour_generator
    xs, ys, points = frame.grid(size)
    rows = rows_at(points)
    u = model.predict_membership(rows)
    f, g = model.plane_values(rows)
    shape, parts = size[::-1], []
    for k in range(u.shape[1]):
        others = np.delete(u, k, axis=1).max(axis=1)
        lead = (u[:, k] - others).reshape(shape)
        d = _filled(contour(xs, ys, lead, fill_type="OuterOffset"), 0.0, 2.0)
        parts.append(f'<path class="region c{k % 7}" d="{d}"/>')
    if f.shape[1] <= max(u.shape[1], MOST_PLANES):
        for p, own in enumerate(model.plane_classes_[:, 0]):
            center = f[:, p].reshape(shape)
            if g is not None and (g[:, p] > 0).any():
                width = g[:, p].reshape(shape)
                for part in (1.0, 0.5):
                    parts.append(_band(contour, xs, ys, center, part * width, own, prefix, p, part))
            d = "".join(_path(line) for line in contour(xs, ys, center).lines(0.0))
            parts.append(f'<path class="plane c{own % 7}" d="{d}"/>')
    return "".join(parts)


def _band(
    contour: Any,
    xs: Array,
    ys: Array,
    f: Array,
    g: Array,
    own: int,
    prefix: str,
    p: int,
    part: float,
) -> str:
    """Draw where -g <= f <= g: below the upper edge, cut off at the lower one."""
    most = float(np.abs(f).max() + g.max()) + 1.0
    name = f"{prefix}-{p}-{int(10 * part)}"
    below = _filled(contour(xs, ys, f - g, fill_type="OuterOffset"), -most, 0.0)
    above = _filled(contour(xs, ys, f + g, fill_type="OuterOffset"), 0.0, most)
    return (
        f'<clipPath id="{name}"><path d="{above}"/></clipPath>'
        f'<path class="band c{own % 7}" clip-path="url(#{name})" d="{below}"/>'
    )


def points_svg(pixels: Array, codes: Array, r: float | Array = 3.2, kind: str = "points") -> str:
    """Draw points, one path for each class."""
    parts = []
    size = np.broadcast_to(np.asarray(r, dtype=float), (len(pixels),))
    for k in np.unique(codes):
        here = codes == k
        d = "".join(
            marker(int(k), x, y, round(float(s), 1))
            for (x, y), s in zip(pixels[here], size[here], strict=True)
        )
        parts.append(f'<path class="{kind} c{int(k) % 7}" d="{d}"/>')
    return "".join(parts)


def rings_svg(pixels: Array, r: float, kind: str) -> str:
    """Draw a ring around each point."""
    d = "".join(marker(0, x, y, r) for x, y in pixels)
    return f'<path class="{kind}" d="{d}"/>'


def layer(content: str, alt: str = "") -> str:
    """Wrap what is drawn as one layer of a map; the first layer has the words."""
    words = f'role="img" aria-label="{alt}"' if alt else 'aria-hidden="true"'
    return f'<svg class="layer" viewBox="0 0 {WIDTH} {HEIGHT}" {words}>{content}</svg>'


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


def _filled(generator: Any, low: float, high: float) -> str:
    polygons, offsets = generator.filled(low, high)
    return "".join(
        _path(points[a:b]) + "z"
        for points, cuts in zip(polygons, offsets, strict=True)
        for a, b in pairwise(cuts)
    )


def _path(points: Array) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
