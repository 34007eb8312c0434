"""Score the grids of all kernels: full grids, or for kernel planes from coarse to fine.

Gamma and the ridge matter most. They are searched first, with C = 1 and no membership, for which
both planes of a pair of classes share one system. Gammas begin around the median heuristic and
continue, by factors of four, as long as the best point lies at an end. Other values of C,
memberships and rules are then tried at the best gamma and ridge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin._rows import check_finite
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.kernels._bandwidths import default_gammas
from fuzzytwin.kernels._landmark_map import has_gamma
from fuzzytwin.twin._axes import Axes
from fuzzytwin.twin._folds import score_split
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._make_grid import Search, make_grid
from fuzzytwin.twin._selection import choose, split_scores

GAMMA_STEP = 4.0  # factor from one gamma to the next
FIRST_STEPS = (-1, 0, 1)  # number of steps from the median heuristic to begin with
MAX_STEPS = 4  # in either direction
FINE_CS = 2.0 ** np.arange(-2, 3, 2)
# From this many rows on, threads share the rows of one split instead of the splits.
MIN_SHARED_ROWS = 1 << 16


def score_kernels(search: Search, axes: Axes) -> list[Grid]:
    """Score the grids of all kernels: full grids, or in stages for kernel planes."""
    if axes.kernels == ["linear"]:
        return score(search, axes, [{}])
    rows = search.rows
    check_finite(rows.X, rows.names)
    full_grids: list[dict[str, Any]] = []
    staged: list[Grid] = []
    for kernel in axes.kernels:
        gammas = axes.gammas if has_gamma(kernel) else ["scale"]
        if kernel != "linear" and axes.in_stages:
            staged += _score_in_stages(search, kernel, gammas, axes)
            continue
        if gammas is None:
            gammas = default_gammas(rows.X, rows.weight).tolist()
        full_grids += [{"kernel": kernel, "gamma": gamma} for gamma in gammas]
    return (score(search, axes, full_grids) if full_grids else []) + staged


def _score_in_stages(
    search: Search, kernel: Any, gammas: list[Any] | None, axes: Axes
) -> list[Grid]:
    """Search one kernel from coarse to fine."""
    rows = search.rows
    coarse = replace(axes, Cs=np.ones(1), memberships=[None], rules=axes.rules[:1])
    if gammas is None:
        grids = _search_gammas(search, kernel, coarse)
    else:
        grids = score(search, coarse, [{"kernel": kernel, "gamma": gamma} for gamma in gammas])
    choice = choose(search, grids)
    if choice is None:
        return grids
    best, alphas = _grid_of_point(grids, choice[0])
    Cs = FINE_CS if len(rows.classes) == 2 else FINE_CS[FINE_CS <= 1]
    # The fine grid contains the points of the best alpha: list them only once.
    coarse_grids = [best.without(alphas) if grid is best else grid for grid in grids]
    coarse_grids = [grid for grid in coarse_grids if len(grid.alphas)]
    return coarse_grids + score(search, replace(axes, Cs=Cs, alphas=alphas), [best.kernel])


def _search_gammas(search: Search, kernel: Any, axes: Axes) -> list[Grid]:
    """Score gammas around the median heuristic, and further ones while the best is at an end."""
    rows = search.rows
    median_gamma = float(np.median(default_gammas(rows.X, rows.weight)))
    grids: dict[int, Grid] = {}
    means: dict[int, float] = {}
    next_steps = list(FIRST_STEPS)
    while next_steps:
        gammas = [median_gamma * GAMMA_STEP**step for step in next_steps]
        kernels = [{"kernel": kernel, "gamma": gamma} for gamma in gammas]
        for step, grid in zip(next_steps, score(search, axes, kernels), strict=True):
            scores, _ = split_scores([grid])
            is_scored = ~np.isnan(scores).any(axis=0)  # on every split
            grids[step] = grid
            best_mean = float(np.max(scores[:, is_scored].mean(axis=0), initial=-np.inf))
            means[step] = round(best_mean, 12)  # independent of the order of the rows
        best = max(sorted(grids, key=abs), key=lambda step: means[step])
        next_steps = [
            step
            for step in (best - 1, best + 1)
            if step not in grids and abs(step) <= MAX_STEPS and np.isfinite(means[best])
        ]
    return [grids[step] for step in sorted(grids)]


def _grid_of_point(grids: list[Grid], point: int) -> tuple[Grid, Array]:
    """Find the grid and the alpha of a point, which is numbered through all grids."""
    for grid in grids:
        scores = grid.splits[0].scores
        if point < scores.size:
            break
        point -= scores.size
    alpha = int(np.unravel_index(point, scores.shape)[1])
    return grid, grid.alphas[alpha : alpha + 1]


def score(search: Search, axes: Axes, kernels: list[dict[str, Any]]) -> list[Grid]:
    """Make the grid of every kernel and gamma, and score it on every split."""
    grids: list[Grid] = []
    jobs: list[tuple[Any, ...]] = []
    for kernel in kernels:
        grid, moments = make_grid(search, kernel, axes)
        grids.append(grid)
        jobs += [(grid, split, own) for split, own in zip(search.splits, moments, strict=True)]
    # Threads share the rows of one split after another or, if these are few, the splits.
    run = map if len(search.rows) >= MIN_SHARED_ROWS else map_threads
    with Progress("search", len(jobs), "folds", enabled=search.verbose) as bar:
        all_scores = run(lambda job: score_split(search, *job), jobs)
        for job, scores in zip(jobs, all_scores, strict=True):
            job[0].splits.append(scores)
            bar.advance()
    return grids
