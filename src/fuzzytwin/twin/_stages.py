"""Score the grids of all kernels: full grids, or for kernel planes from coarse to fine.

Gamma and the ridge matter most. They are searched first, with C = 1 and no membership, for which
both planes of a pair of classes share one system. Gammas begin around the median heuristic and
continue, by factors of four, as long as the best point lies at an end. Other values of C,
memberships and rules are then tried at the best gamma and ridge.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._params import check_choice, check_number, count_threads
from fuzzytwin._rows import Rows, check_finite, raise_overflow
from fuzzytwin._utils import memory
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.threads import MIN_BLAS_COLUMNS
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.core.blocks import block_slices
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import KERNELS
from fuzzytwin.kernels._bandwidths import default_gammas
from fuzzytwin.kernels._landmark_map import has_gamma
from fuzzytwin.kernels._landmarks import MAX_CENTERS, is_centers, is_count
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._folds import (
    MAX_NUMBERS,
    MAX_PLANES,
    moments_of_splits,
    score_split,
    solves_pairwise,
)
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._loo_scores import score_by_loo, use_pairwise_loo
from fuzzytwin.twin._scoring import Search
from fuzzytwin.twin._selection import choose, split_scores
from fuzzytwin.twin._settings import CHOICES, FitSettings

SMALL_DATA = 2000  # tables with fewer rows get the finer grid
GAMMA_STEP = 4.0  # factor from one gamma to the next
FIRST_STEPS = (-1, 0, 1)  # number of steps from the median heuristic to begin with
MAX_STEPS = 4  # in either direction
FINE_CS = 2.0 ** np.arange(-2, 3, 2)
MAX_ALPHAS = 7  # default values of alpha, at most
# From this many rows on, threads share the rows of one split instead of the splits.
MIN_SHARED_ROWS = 1 << 16


@dataclass(frozen=True)
class Axes:
    """Validated values on the axes of a search. None: they are computed from the data."""

    rules: tuple[str, ...]
    memberships: list[Any]
    Cs: Any
    alphas: Any
    kernels: list[Any]
    gammas: list[Any] | None

    @property
    def in_stages(self) -> bool:
        """Return whether kernel planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, has_degrees: bool) -> Axes:
    """Check the axes of the grid. With `has_degrees`, no membership is tried."""
    memberships = _listed(search, "memberships", check_membership, str, Callable, type(None))
    check_rule = partial(check_choice, "rules", choices=CHOICES["rule"])
    rules = tuple(_listed(search, "rules", check_rule, str))
    Cs = _numbers(search, "Cs", above=0.0)
    alphas = _numbers(search, "alphas")
    kernel_names = (*KERNELS, "auto") if isinstance(search.kernels, str) else KERNELS
    check = partial(check_choice, "kernels", choices=kernel_names)
    kernels = _listed(
        search, "kernels", lambda value: callable(value) or check(value), str, Callable
    )
    if kernels == ["auto"]:
        kernels = ["linear", "rbf"]
    gammas = _numbers(search, "gammas", above=0.0)
    if has_degrees:
        memberships = [None]
    return Axes(rules, memberships, Cs, alphas, kernels, gammas)


def _numbers(search: Any, name: str, above: float | None = None) -> list[float] | None:
    if getattr(search, name) is None:
        return None
    return [float(x) for x in _listed(search, name, partial(check_number, name, above=above))]


def _listed(search: Any, name: str, check: Callable[[Any], Any], *single: Any) -> list[Any]:
    """List and check the values of an axis. A value of a `single` type is a list of one."""
    values = getattr(search, name)
    try:
        listed = [values] if isinstance(values, single) else list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error
    if not listed:
        raise ValueError(f"{name}={values!r} is empty; give at least one value.")
    for value in listed:
        check(value)
    return listed


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
    best, alphas = _grid_of_point(grids, choice.index)
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
            scores = split_scores([grid])
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
        grid, moments = _make_grid(search, kernel, axes)
        grids.append(grid)
        jobs += [(grid, split, own) for split, own in zip(search.splits, moments, strict=True)]
    if search.by_loo:
        for grid in grids:
            grid.splits = [score_by_loo(search, grid)]
        return grids
    # Threads share the rows of one split after another or, if these are few, the splits.
    run = map if len(search.rows) >= MIN_SHARED_ROWS else map_threads
    with Progress("search", len(jobs), "folds", enabled=search.verbose) as bar:
        all_scores = run(lambda job: score_split(search, *job), jobs)
        for job, scores in zip(jobs, all_scores, strict=True):
            job[0].splits.append(scores)
            bar.advance()
    return grids


def _make_grid(
    search: Search, kernel: dict[str, Any], axes: Axes
) -> tuple[Grid, list[TwinMoments | None]]:
    """Make the grid of one kernel. For linear planes, read the rows once for all splits.

    Also return the moments of each split's training rows, or None if a split computes its own.
    """
    settings = FitSettings.of(search.model(kernel))
    rows = search.rows
    K = len(rows.classes)
    fine = len(rows.codes) < SMALL_DATA and not settings.uses_kernel
    powers = np.arange(-8, 9, 2) if fine else np.arange(-4, 5, 2)
    if K > 2:  # one C for all pairs: values above 1 hardly ever help
        powers = np.arange(-4, 3, 2)
    Cs = np.asarray(2.0**powers if axes.Cs is None else axes.Cs)
    alphas = axes.alphas
    n_points = len(Cs) * (MAX_ALPHAS if alphas is None else len(alphas))
    pairwise = solves_pairwise(settings, rows, rows.X) and not settings.uses_kernel
    if search.by_loo:
        pairwise = use_pairwise_loo(settings, rows, alphas)
    _check_memory(settings, rows, n_points, search.by_loo, pairwise)
    all_moments: ClassMoments | None = None
    train_moments: list[TwinMoments | None] = [None] * len(search.splits)
    if not (settings.uses_kernel or pairwise):
        rounds = block_slices(len(search.splits), search.n_folds)
        parts = [moments_of_splits(rows, search.splits[folds]) for folds in rounds]
        if parts[0] is not None and all(parts):
            all_moments = parts[0][0]
            train_moments = [moments for part in parts if part for moments in part[1]]
        else:
            check_finite(rows.X, rows.names)
            all_moments = own_moments(rows, rows.X)
        if not all_moments.is_finite:
            raise_overflow(rows)
    if alphas is None:
        alphas = _default_alphas(settings, rows, all_moments, fine)
    grid = Grid(
        alphas=np.asarray(alphas),
        rules=axes.rules,
        Cs=Cs,
        n_classes=K,
        multi_class=settings.multi_class,
        memberships=axes.memberships,
        kernel=kernel,
    )
    return grid, train_moments


def _check_memory(
    settings: FitSettings, rows: Rows, n_points: int, by_loo: bool, pairwise: bool
) -> None:
    """Raise an error, before the search begins, if moments and planes do not fit into memory."""
    K = len(rows.classes)
    d = rows.X.shape[1]
    if settings.uses_kernel:
        landmarks = MAX_CENTERS if is_centers(settings.n_landmarks) else settings.n_landmarks
        d = int(landmarks) if is_count(landmarks) else int(np.shape(landmarks)[0])
    point_size = float(d) * K * (K - 1 if settings.multi_class == "ovo" else 1)
    planes = point_size * n_points
    if K > 2 and not by_loo:  # points are scored in blocks
        planes = min(planes, max(point_size, MAX_PLANES))
    # Moments of all rows, of a split with and without degrees, and of a block. In pairs, the
    # coefficients of planes as combinations of rows instead.
    moments = 2.0 * n_points * (K - 1) * len(rows) if pairwise else 4.0 * K * d * d
    if pairwise and by_loo:  # distances of all rows are kept instead of planes
        moments = min(2.0 * moments, float(MAX_NUMBERS))
        planes = 0.0
    threads = 1 if d >= MIN_BLAS_COLUMNS else count_threads(settings.n_jobs)
    needed = 8.0 * threads * (moments + 3.0 * planes)
    if not memory.fits_memory(needed):
        limit = memory.MAX_MEMORY_SHARE * memory.available_memory()
        raise memory.NotEnoughMemoryError(
            f"the search does not fit into memory: {K} classes and {d:,} columns need about "
            f"{memory.format_bytes(needed)}, but the limit is {memory.format_bytes(limit)}, "
            f"{memory.MAX_MEMORY_SHARE:.0%} of the available memory. Remedy: use fewer columns "
            "(SelectKBest, TruncatedSVD), multi_class='ovr', fewer values of C, or n_jobs=1."
        )


def _default_alphas(
    settings: FitSettings, rows: Rows, moments: ClassMoments | None, fine: bool
) -> Array:
    """Return powers of ten times the mean scatter of a column within the classes.

    With a kernel, the scatter is that of the landmarks in feature space, per landmark. Kernel
    features differ in size by orders of magnitude, and the largest are far above the mean, so that
    kernel planes get more ridge.
    """
    powers = np.arange(-5, 2) if fine else np.arange(-4, 1)
    if moments is not None:
        twin = TwinMoments(moments, moments)
        own = fitting.apply_class_weight(settings, twin, rows.classes).own
        trace = np.trace(own.covariance, axis1=1, axis2=2)
        scatter = float(own.weight @ trace) / own.origin.shape[1]
        return (scatter or 1.0) * 10.0**powers
    if not settings.uses_kernel:
        scatter = _row_fit.scatter_of_rows(rows, fitting.row_weights(settings, rows, None))
        return (scatter / rows.X.shape[1] or 1.0) * 10.0**powers
    check_finite(rows.X, rows.names)
    # A copy, because splits draw from the same random state.
    phi = fitting.landmark_map(copy.deepcopy(settings), rows)
    assert phi is not None
    K = phi.kernel_values(phi.landmarks)
    total = float(np.sum(fitting.row_weights(settings, rows, None).own))
    spread = float(np.trace(K) / len(K) - K.mean())
    scatter = total * max(spread, 0.0) / len(K)
    return (scatter or 1.0) * 10.0 ** np.arange(-3, 3)
