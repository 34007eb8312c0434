"""A panel of a search: one kernel and gamma, its grid, and what the splits said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzzytwin import fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.fitting import Rows
from fuzzytwin.search.axes import Axes
from fuzzytwin.search.grid import Grid
from fuzzytwin.search.splits import SplitScores, Task, fresh, own_moments, split_brier
from fuzzytwin.validation import check_moments, refuse_gaps


@dataclass(eq=False)
class Panel:
    """The grid of one kernel and gamma, and what the splits said of it."""

    view: dict[str, Any]
    task: Task
    own: list[Any]  # moments of each split's training rows; empty where each split finds its own
    whole: ClassMoments
    done: list[SplitScores] = field(default_factory=list)

    def points(self) -> list[dict[str, Any]]:
        """Name the parameters of each point, in the order of the scores."""
        grid = self.task.grid
        points = [grid.parameters(index) for index in np.ndindex(grid.shape)]
        return [
            {**self.view, "membership": membership, **point}
            for membership in self.task.memberships
            for point in points
        ]

    def brier(self, rows: Rows, splits: list[Any], wanted: Array) -> Array:
        """Mean Brier scores of every split at the wanted points."""
        shape = self.done[0].scores.shape
        return np.array(
            [
                split_brier(self.task.grid, rows, test, split, wanted.reshape(shape)).ravel()
                for (_, test), split in zip(splits, self.done, strict=True)
            ]
        )


def make_panel(
    view: dict[str, Any],
    template: FuzzyTwinSVC,
    axes: Axes,
    fine: bool,
    rows: Rows,
    rounds: list[Any],
    scoring: Any,
    scorer: Any,
) -> Panel:
    """Read the rows once for all splits (linear planes only) and lay out the grid."""
    settings = template.fit_settings()
    own: list[Any] = []
    whole = None
    if not settings.curved:
        parts = [own_moments(settings, rows, [train for train, _ in turn]) for turn in rounds]
        if parts[0] is not None and all(parts):
            whole = parts[0][0]
            own = [known for part in parts if part for known in part[1]]
    if whole is None:
        refuse_gaps(rows.X, rows.names)
        Z = fitting.features(rows.X, fitting.landmark_map(fresh(settings), rows))
        whole = fitting.own_moments(rows, Z)
    check_moments(whole, rows.X, rows.names)
    Cs, alphas = axes.values(fine, len(rows.classes))
    if alphas is None:
        factor = fitting.class_factors(settings, whole, rows.classes)
        alphas = _default_alphas(whole.scaled(factor), fine, settings.curved)
    grid = Grid(
        axes.kinds,
        alphas,
        axes.rules,
        Cs,
        len(rows.classes),
        settings.multi_class,
        settings.tau,
        settings.margin_width,
    )
    task = Task(template, settings, axes.memberships, grid, rows, scoring, scorer)
    return Panel(view, task, own, whole)


def _default_alphas(own: ClassMoments, fine: bool, curved: bool) -> Array:
    """Powers of ten around the mean scatter of a column within the classes.

    Features of landmarks differ in size by orders of magnitude, the greatest far above the
    mean: curved planes get more ridge.
    """
    trace = np.trace(own.covariance, axis1=1, axis2=2)
    scatter = float(own.weight @ trace) / own.origin.shape[1]
    powers = np.arange(-3, 3) if curved else np.arange(-4, 1)
    return (scatter or 1.0) * 10.0 ** (np.arange(-5, 2) if fine else powers)
