"""The points of the view Draw, and the model on them; plain Python."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC

SIZE = np.array([10.0, 7.0])
LETTERS = "ABC"
MOST_POINTS = 300
CHOICES: dict[str, tuple[str, ...]] = {
    "planes": ("crisp", "fuzzy"),
    "kernel": ("linear", "rbf", "poly"),
    "rule": ("distance", "residual"),
    "scope": ("slack", "both"),
}
RANGES = {"C": (-6.0, 6.0), "alpha": (-3.0, 2.0)}  # exponents of 2 and of 10


@dataclass(frozen=True)
class Point:
    """A point with its class and degree."""

    x: float
    y: float
    k: int
    degree: float = 1.0


class Board:
    """Points of up to three classes, and the settings of the model on them.

    Examples
    --------
    >>> from fuzzytwin.studio.board import Board
    >>> board = Board()
    >>> board.example("groups")
    >>> model = board.model()
    >>> float(model.score(*board.rows()[:2]))
    1.0
    """

    def __init__(self) -> None:
        self.points: dict[int, Point] = {}
        self.settings = {
            "planes": "fuzzy",
            "kernel": "linear",
            "rule": "distance",
            "scope": "slack",
        }
        self.C, self.alpha = 0.5, 0.1
        self.chosen: int | None = None
        self._next = 0

    def add(self, x: float, y: float, k: int, degree: float = 1.0) -> int | None:
        """Put a point on the board; None where it is full."""
        if len(self.points) >= MOST_POINTS:
            return None
        self._next += 1
        self.points[self._next] = Point(*self._inside(x, y), k, degree)
        self.chosen = self._next
        return self._next

    def move(self, number: int, x: float, y: float) -> None:
        """Move a point; one that does not exist is ignored."""
        if number in self.points:
            x, y = self._inside(x, y)
            self.points[number] = replace(self.points[number], x=x, y=y)

    def remove(self) -> None:
        """Remove the chosen point."""
        if self.chosen is not None:
            self.points.pop(self.chosen, None)
            self.chosen = None

    def change(self, **values: float) -> None:
        """Change the class or the degree of the chosen point."""
        if self.chosen in self.points:
            self.points[self.chosen] = replace(self.points[self.chosen], **values)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Remove all points."""
        self.points.clear()
        self.chosen = None

    def example(self, name: str) -> None:
        """Put one of the examples on the board: groups, outlier, three or ring."""
        self.clear()
        self.settings["kernel"] = "rbf" if name == "ring" else "linear"
        for x, y, k in _examples()[name]:
            self.add(float(x), float(y), int(k))
        self.chosen = None

    def rows(self) -> tuple[Array, Array, Array]:
        """Return the points as rows, labels and degrees."""
        points = list(self.points.values())
        X = np.array([[p.x, p.y] for p in points], dtype=np.float64).reshape(-1, 2)
        y = np.array([LETTERS[p.k] for p in points], dtype=str)
        return X, y, np.array([p.degree for p in points], dtype=np.float64)

    def model(self) -> FuzzyTwinSVC:
        """Fit a model on the points; a ValueError says what is missing."""
        X, y, degrees = self.rows()
        if len(np.unique(y)) < 2:
            raise ValueError("Put points of two classes on the plane.")
        model = FuzzyTwinSVC(
            self.settings["planes"], C=self.C, alpha=self.alpha, rule=self.settings["rule"],
            membership_scope=self.settings["scope"], kernel=self.settings["kernel"],
            random_state=0,
        )  # fmt: skip
        return model.fit(X, y, membership=degrees)

    @staticmethod
    def _inside(x: float, y: float) -> tuple[float, float]:
        a, b = np.clip(np.nan_to_num([x, y]), 0.0, SIZE)
        return float(a), float(b)


def _examples() -> dict[str, Array]:
    rng = np.random.default_rng(3)

    def cloud(
        x: float, y: float, k: int, n: int = 14, wide: float = 0.8, high: float = 0.8
    ) -> Array:
        at = rng.normal([x, y], [wide, high], (n, 2))
        return np.column_stack([np.clip(at, 0.3, SIZE - 0.3), np.full(n, k)])

    t = np.arange(18) / 18 * 2 * np.pi
    radius = rng.normal(2.6, 0.15, 18)
    ring = np.column_stack([5 + radius * np.cos(t), 3.5 + radius * np.sin(t), np.ones(18)])
    groups = np.vstack([cloud(3.2, 4.4, 0), cloud(6.8, 2.6, 1)])
    return {
        "groups": groups,
        "outlier": np.vstack([groups, [[8.6, 1.2, 0]]]),
        "three": np.vstack([cloud(2.6, 2.2, 0), cloud(7.4, 2.2, 1), cloud(5.0, 5.4, 2)]),
        "ring": np.vstack([cloud(5.0, 3.5, 0, 12, 0.6, 0.5), ring]),
    }
