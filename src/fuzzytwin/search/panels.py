"""A panel of a search: one kernel and gamma, its grid, and what the splits said of it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.search.grid import Grid
from fuzzytwin.search.splits import Rows, SplitScores, own_moments, split_brier
from fuzzytwin.validation import check_moments

Array = NDArray[Any]


@dataclass(eq=False)
class Panel:
    """The grid of one kernel and gamma, and what the splits said of it."""

    view: dict[str, Any]
    template: FuzzyTwinSVC
    grid: Grid
    own: list[Any]  # moments of each split's training rows; empty where each split finds its own
    whole: ClassMoments
    done: list[SplitScores] = field(default_factory=list)

    def points(self, ways: list[Any]) -> Iterable[tuple[Any, ...]]:
        """Membership, planes, alpha, rule and C of each point, in the order of the scores."""
        grid = self.grid
        places = [grid.penalties(place) for place in np.ndindex(grid.shape[3:])]
        return itertools.product(ways, grid.kinds, map(float, grid.alphas), grid.rules, places)

    def brier(self, rows: Rows, splits: list[Any], wanted: Array) -> Array:
        """Mean Brier scores of every split at the wanted points."""
        shape = self.done[0].scores.shape
        return np.array(
            [
                split_brier(self.grid, rows, test, split, wanted.reshape(shape)).ravel()
                for (_, test), split in zip(splits, self.done, strict=True)
            ]
        )


def make_panel(
    view: dict[str, Any],
    template: FuzzyTwinSVC,
    kinds: tuple[str, ...],
    rules: tuple[str, ...],
    Cs: Array,
    alphas: Array | None,
    fine: bool,
    rows: Rows,
    rounds: list[Any],
) -> Panel:
    """Meet the rows once for all splits (linear planes only) and lay out the grid."""
    own: list[Any] = []
    whole = None
    if template.kernel == "linear":
        parts = [own_moments(template, rows, [train for train, _ in turn]) for turn in rounds]
        if parts[0] is not None and all(parts):
            whole = parts[0][0]
            own = [known for part in parts if part for known in part[1]]
    if whole is None:
        assert_all_finite(rows.X.data if hasattr(rows.X, "indptr") else rows.X, input_name="X")
        seen = copy.copy(template)._features(rows.X, rows.codes, rows.s)
        whole = ClassMoments.from_rows(seen, rows.codes, rows.s, n_classes=len(template.classes_))
    check_moments(whole, rows.X)
    if alphas is None:
        alphas = _default_alphas(
            whole.scaled(template._class_factors(whole)), fine, template.kernel
        )
    K = len(template.classes_)
    grid = Grid(kinds, alphas, rules, Cs, K, template.tau, template.margin_width)
    return Panel(view, template, grid, own, whole)


def _default_alphas(own: ClassMoments, fine: bool, kernel: Any) -> Array:
    """Powers of ten around the mean scatter of a column within the classes.

    Features of landmarks differ in size by orders of magnitude, the greatest far above the
    mean: curved planes get more ridge.
    """
    trace = np.trace(own.covariance, axis1=1, axis2=2)
    scatter = float(own.weight @ trace) / own.origin.shape[1]
    powers = np.arange(-3, 3) if kernel != "linear" else np.arange(-4, 1)
    return (scatter or 1.0) * 10.0 ** (np.arange(-5, 2) if fine else powers)
