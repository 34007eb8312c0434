"""Choose a point among the scored grids of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.rows import Rows
from fuzzytwin.search.plan import Plan
from fuzzytwin.search.selection import band, choose_point, close_to_least


@dataclass(frozen=True, eq=False)
class Choice:
    """The place of the best point among all, and the mean Brier scores of all (NaN: not asked)."""

    index: int
    mean_brier: Array


def split_scores(plans: list[Plan]) -> Array:
    """Put the scores of all plans side by side, of shape (n_splits, n_points)."""
    return np.hstack([[split.scores.ravel() for split in plan.split_scores] for plan in plans])


def choose(
    plans: list[Plan], rows: Rows, splits: list[Any], n_folds: int, selection: str
) -> Choice | None:
    """Choose the best point by the band or by the score; None where no point has a score.

    A split without any score cannot compare points and is left out.
    """
    scores = split_scores(plans)
    scored = ~np.isnan(scores).all(axis=1)
    if not scored.any() or np.isnan(scores[scored]).any(axis=0).all():
        return None
    params = [point for plan in plans for point in plan.points()]
    memberships = [membership for plan in plans for membership in plan.task.memberships]
    mean_brier = np.full(len(params), np.nan)
    if selection == "score":
        mean_score = scores[scored].mean(axis=0)
        best = np.flatnonzero(mean_score >= np.nanmax(mean_score) - 1e-12)
        return Choice(choose_point(params, memberships, best, -mean_score), mean_brier)
    inside = band(scores[scored], n_folds)
    ends = np.cumsum([plan.split_scores[0].scores.size for plan in plans])
    briers = [
        plan.brier(rows, splits, wanted)
        for plan, wanted in zip(plans, np.split(inside, ends[:-1]), strict=True)
    ]
    brier = np.hstack(briers)[scored]
    candidates = np.flatnonzero(inside)
    mean_brier[candidates] = brier[:, candidates].mean(axis=0)
    near = candidates[close_to_least(brier[:, candidates], n_folds)]
    return Choice(choose_point(params, memberships, near, mean_brier), mean_brier)


def plan_of(plans: list[Plan], index: int) -> tuple[Plan, int]:
    """Find the plan of a point, and its place there."""
    for plan in plans:
        size = plan.split_scores[0].scores.size
        if index < size:
            return plan, index
        index -= size
    raise IndexError(index)
