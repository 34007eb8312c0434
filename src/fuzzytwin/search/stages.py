"""Curved planes in stages: gamma and ridge first, the rest where these do best.

Gamma and the ridge matter most. So they are searched first, with C = 1 and no membership, where
one system serves both planes of a pair of classes. Gammas begin around the median heuristic and
go on, by factors of four, as long as the best point lies at an end. Learned relevances of the
columns follow in the same way, from the best gamma on and with ridges near the best. Other values
of C, memberships and rules are then tried at the best gamma, relevance and ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.search.choice import Choice, plan_of, split_scores
from fuzzytwin.search.plan import Axes, Plan

STEP = 4.0  # from one gamma to the next
NEAREST = (-1, 0, 1)  # steps from the median heuristic to begin with
FARTHEST = 4  # steps at most
FINE_CS = 2.0 ** np.arange(-2, 3, 2)
NEAR_ALPHAS = 10.0 ** np.arange(-1, 2)  # of learned relevances, times the best alpha of equal ones

# Make and score one plan for each kernel; choose among plans.
Score: TypeAlias = Callable[[Axes, list[dict[str, Any]]], list[Plan]]
Choose: TypeAlias = Callable[[list[Plan]], Choice | None]


def score_in_stages(
    kernel: Any,
    gammas: list[Any] | None,
    relevances: list[dict[str, Any]],
    median_gamma: Callable[[], float],
    axes: Axes,
    n_classes: int,
    score: Score,
    choose: Choose,
) -> list[Plan]:
    """Score the points of one kernel that are worth it.

    Parameters
    ----------
    kernel : str or callable
        Its name, or the kernel itself.
    gammas : list or None
        Its gammas; None: as many as it takes.
    relevances : list of dict
        Values of the parameter `relevance`; the others than the first begin at its best gamma.
    median_gamma : callable
        The gamma to begin with where none are given.
    axes : Axes
        All that the second stage tries.
    n_classes : int
        Number of classes K.
    score, choose : callable
        What makes and scores plans, and what chooses a point of them.
    """
    coarse = replace(axes, Cs=np.ones(1), memberships=[None], rules=axes.rules[:1])
    first, *others = relevances
    if gammas is None:
        plans = _climb({"kernel": kernel, **first}, median_gamma(), coarse, score, NEAREST)
    else:
        plans = score(coarse, [{"kernel": kernel, "gamma": gamma, **first} for gamma in gammas])
    found = choose(plans)
    if found is None:
        return plans
    if others:
        best, alphas = _best(plans, found)
        near = coarse if axes.alphas is not None else replace(coarse, alphas=alphas * NEAR_ALPHAS)
        for other in others:
            if gammas is None:
                plans += _climb(best.kernel | other, best.kernel["gamma"], near, score, (0,))
            else:
                plans += score(near, [best.kernel | other])
        found = choose(plans)
        assert found is not None
    best, alphas = _best(plans, found)
    fine = replace(axes, Cs=FINE_CS if n_classes == 2 else FINE_CS[FINE_CS <= 1], alphas=alphas)
    rest = [best.without(alphas) if plan is best else plan for plan in plans]
    return [plan for plan in rest if len(plan.task.grid.alphas)] + score(fine, [best.kernel])


def _best(plans: list[Plan], found: Choice) -> tuple[Plan, Array]:
    """Find the plan of the point that was chosen, and its alpha."""
    best, index = plan_of(plans, found.index)
    at = int(np.unravel_index(index, best.split_scores[0].scores.shape)[2])
    return best, best.task.grid.alphas[at : at + 1]


def _climb(
    kernel: dict[str, Any], middle: float, axes: Axes, score: Score, nearest: tuple[int, ...]
) -> list[Plan]:
    """Score gammas around the middle one, and farther ones while the best lies at an end."""
    plans: dict[int, Plan] = {}
    todo = list(nearest)
    while todo:
        kernels = [kernel | {"gamma": middle * STEP**step} for step in todo]
        plans |= dict(zip(todo, score(axes, kernels), strict=True))
        means = {step: np.max(_means(plan), initial=-np.inf) for step, plan in plans.items()}
        best = max(sorted(plans, key=abs), key=lambda step: means[step])
        todo = [
            step
            for step in (best - 1, best + 1)
            if step not in plans and abs(step) <= FARTHEST and np.isfinite(means[best])
        ]
    return [plans[step] for step in sorted(plans)]


def _means(plan: Plan) -> Any:
    """Return the mean scores of the points that every split could score."""
    scores = split_scores([plan])
    return scores[:, ~np.isnan(scores).any(axis=0)].mean(axis=0)
