"""Score the grids of all kernels: whole ones, or in stages where planes are curved.

Gamma and the ridge matter most. So they are searched first, with C = 1 and no membership, where
one system serves both planes of a pair of classes. Gammas begin around the median heuristic and
go on, by factors of four, as long as the best point lies at an end. Learned relevances of the
columns follow in the same way, from the best gamma on and with ridges near the best. Other values
of C, memberships and rules are then tried at the best gamma, relevance and ridge.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin._params import count_threads
from fuzzytwin._rows import Rows, check_finite, encode
from fuzzytwin._utils.memory import as_text, available_memory
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.threads import MANY_COLUMNS, map_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import cut
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.solvers import LITTLE_MEMORY, MOST_MEMORY, NotEnoughMemoryError
from fuzzytwin.kernels import MOST_CENTERS, default_gammas, has_gamma, is_centers, is_count
from fuzzytwin.memberships._degrees import check_moments, own_moments
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._cv_loo import score_left_out
from fuzzytwin.twin._cv_split import (
    MOST_NUMBERS,
    MOST_PLANES,
    Search,
    few_pair_rows,
    left_out_in_pairs,
    score_split,
)
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._param_grid import SMALL_DATA, Axes, Splits
from fuzzytwin.twin._selection import choose, split_scores
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

STEP = 4.0  # from one gamma to the next
NEAREST = (-1, 0, 1)  # steps from the median heuristic to begin with
FARTHEST = 4  # steps at most
FINE_CS = 2.0 ** np.arange(-2, 3, 2)
NEAR_ALPHAS = 10.0 ** np.arange(-1, 2)  # of learned relevances, times the best alpha of equal ones
MOST_ALPHAS = 7  # where none are given
# With this many rows, threads share the rows of one split after another.
MANY_ROWS = 1 << 16


def score_kernels(search: Search, axes: Axes) -> list[Grid]:
    """Score the grids of all kernels: whole ones, or in stages where planes are curved."""
    if axes.kernels == ["linear"]:
        return score(search, axes, [{}])
    rows = search.rows
    check_finite(rows.X, rows.names)
    listed = "rbf" in axes.kernels and axes.relevances != [None]  # else no point names it
    whole, staged = [], []
    for kernel in axes.kernels:
        values = axes.gammas if has_gamma(kernel) else ["scale"]
        some = axes.relevances if kernel == "rbf" else [None]
        named = [{"relevance": value} if listed else {} for value in some]
        if kernel != "linear" and axes.in_stages:
            staged += _score_in_stages(search, {"kernel": kernel}, values, named, axes)
            continue
        if values is None:
            values = default_gammas(rows.X, rows.weight).tolist()
        whole += [{"kernel": kernel, "gamma": gamma, **one} for gamma in values for one in named]
    return (score(search, axes, whole) if whole else []) + staged


def _score_in_stages(
    search: Search,
    kernel: dict[str, Any],
    gammas: list[Any] | None,
    relevances: list[dict[str, Any]],
    axes: Axes,
) -> list[Grid]:
    """Score the points of one kernel that are worth it.

    Relevances other than the first begin at its best gamma.
    """
    rows = search.rows
    coarse = replace(axes, Cs=np.ones(1), memberships=[None], rules=axes.rules[:1])
    first, *others = relevances
    if gammas is None:
        middle = float(np.median(default_gammas(rows.X, rows.weight)))
        grids = _climb(search, kernel | first, middle, coarse, NEAREST)
    else:
        grids = score(search, coarse, [kernel | {"gamma": gamma, **first} for gamma in gammas])
    found = choose(search, grids)
    if found is None:
        return grids
    best, alphas = _best(grids, found.index)
    near = coarse if axes.alphas is not None else replace(coarse, alphas=alphas * NEAR_ALPHAS)
    for other in others:
        if gammas is None:
            grids += _climb(search, best.kernel | other, best.kernel["gamma"], near, (0,))
        else:
            grids += score(search, near, [best.kernel | other])
    if others:
        found = choose(search, grids)
        assert found is not None
        best, alphas = _best(grids, found.index)
    Cs = FINE_CS if len(rows.classes) == 2 else FINE_CS[FINE_CS <= 1]
    rest = [best.without(alphas) if grid is best else grid for grid in grids]
    rest = [grid for grid in rest if len(grid.alphas)]
    return rest + score(search, replace(axes, Cs=Cs, alphas=alphas), [best.kernel])


def _climb(
    search: Search, kernel: dict[str, Any], middle: float, axes: Axes, nearest: tuple[int, ...]
) -> list[Grid]:
    """Score gammas around the middle one, and farther ones while the best lies at an end."""
    grids: dict[int, Grid] = {}
    means: dict[int, float] = {}
    todo = list(nearest)
    while todo:
        kernels = [kernel | {"gamma": middle * STEP**step} for step in todo]
        for step, grid in zip(todo, score(search, axes, kernels), strict=True):
            scores = split_scores([grid])
            scored = ~np.isnan(scores).any(axis=0)  # by every split
            grids[step] = grid
            best_mean = float(np.max(scores[:, scored].mean(axis=0), initial=-np.inf))
            means[step] = round(best_mean, 12)  # whatever the order of the rows
        best = max(sorted(grids, key=abs), key=lambda step: means[step])
        todo = [
            step
            for step in (best - 1, best + 1)
            if step not in grids and abs(step) <= FARTHEST and np.isfinite(means[best])
        ]
    return [grids[step] for step in sorted(grids)]


def _best(grids: list[Grid], chosen: int) -> tuple[Grid, Array]:
    """Find the grid of the point that was chosen, and its alpha."""
    for grid in grids:
        scores = grid.splits[0].scores
        if chosen < scores.size:
            break
        chosen -= scores.size
    alpha = int(np.unravel_index(chosen, scores.shape)[2])
    return grid, grid.alphas[alpha : alpha + 1]


def score(search: Search, axes: Axes, kernels: list[dict[str, Any]]) -> list[Grid]:
    """Make the grid of every kernel and gamma, and score it on every split."""
    grids, jobs = [], []
    for kernel in kernels:
        grid, known = _make_grid(search, kernel, axes)
        grids.append(grid)
        jobs += [(grid, *split, own) for split, own in zip(search.splits, known, strict=True)]
    if search.by_loo:
        for grid in grids:
            grid.splits = [score_left_out(search, grid)]
        return grids
    # Threads share the rows of one split after another or, where these are few, the splits.
    run = map if len(search.rows) >= MANY_ROWS else map_threads
    with Progress("search", len(jobs), "folds", wanted=search.verbose) as bar:
        for job, found in zip(jobs, run(lambda job: score_split(search, *job), jobs), strict=True):
            job[0].splits.append(found)
            bar.advance()
    return grids


def _make_grid(
    search: Search, kernel: dict[str, Any], axes: Axes
) -> tuple[Grid, list[TwinMoments | None]]:
    """Make the grid of one kernel; for linear planes, read the rows once for all splits.

    Also return the moments of each split's training rows; None where a split computes its own.
    """
    settings, rows = FitSettings.of(FuzzyTwinSVC(**search.shared | kernel)), search.rows
    K, fine = len(rows.classes), len(rows.codes) < SMALL_DATA and not settings.uses_kernel
    powers = np.arange(-8, 9, 2) if fine else np.arange(-4, 5, 2)
    if K > 2:  # one C for all pairs: above 1 it hardly ever helps
        powers = np.arange(-4, 3, 2)
    Cs, alphas = np.asarray(2.0**powers if axes.Cs is None else axes.Cs), axes.alphas
    n_points = len(Cs) * (MOST_ALPHAS if alphas is None else len(alphas))
    in_pairs = settings.solver == "gram" and few_pair_rows(settings, rows, rows.X)
    if search.by_loo:
        in_pairs = in_pairs and left_out_in_pairs(settings, rows, alphas)
    _check_memory(settings, rows, n_points, search.by_loo, in_pairs)
    all_moments: ClassMoments | None = None
    train_moments: list[TwinMoments | None] = [None] * len(search.splits)
    if not (settings.uses_kernel or in_pairs):
        rounds = cut(len(search.splits), search.n_folds)
        parts = [moments_of_splits(settings, rows, search.splits[one]) for one in rounds]
        if parts[0] is not None and all(parts):
            all_moments = parts[0][0]
            train_moments = [known for part in parts if part for known in part[1]]
        else:
            check_finite(rows.X, rows.names)
            all_moments = own_moments(rows, rows.X)
        check_moments(all_moments, rows)
    if alphas is None:
        alphas = _default_alphas(settings, rows, all_moments, fine)
    values = axes.kinds, np.asarray(alphas), axes.rules, Cs, K, settings.multi_class
    return Grid(*values, axes.memberships, kernel), train_moments


def _check_memory(
    settings: FitSettings, rows: Rows, n_points: int, by_loo: bool, in_pairs: bool
) -> None:
    """Refuse a search whose moments and planes do not fit into memory, before it begins."""
    K, d = len(rows.classes), rows.X.shape[1]
    if settings.uses_kernel:
        given = MOST_CENTERS if is_centers(settings.n_landmarks) else settings.n_landmarks
        d = int(given) if is_count(given) else int(np.shape(given)[0])
    of_point = float(d) * K * (K - 1 if settings.multi_class == "ovo" else 1)
    planes = of_point * n_points
    if K > 2 and not by_loo:  # some points after the others
        planes = min(planes, max(of_point, MOST_PLANES))
    # Moments of all rows, of a split with and without degrees, and of a block; or the rows of each
    # pair that its planes are combinations of.
    moments = 2.0 * n_points * (K - 1) * len(rows) if in_pairs else 4.0 * K * d * d
    if in_pairs and by_loo:  # planes are not kept, but what they say of every row
        moments, planes = min(2.0 * moments, float(MOST_NUMBERS)), 0.0
    threads = 1 if d >= MANY_COLUMNS else count_threads(settings.n_jobs)
    needed = 8.0 * threads * (moments + 3.0 * planes)
    limit = MOST_MEMORY * available_memory() if needed > LITTLE_MEMORY else np.inf
    if needed > limit:
        raise NotEnoughMemoryError(
            f"the search does not fit into memory: {K} classes and {d:,} columns need about "
            f"{as_text(needed)}; {as_text(limit)} may be taken, {MOST_MEMORY:.0%} of what is "
            "available. Remedy: use fewer columns (SelectKBest, TruncatedSVD), "
            "multi_class='ovr', fewer values of C, or n_jobs=1."
        )


def moments_of_splits(
    settings: FitSettings, rows: Rows, splits: Splits
) -> tuple[ClassMoments, list[TwinMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups), and a split's
    moments are the sum of its parts: nothing is ever subtracted. None where there are too many
    parts, or where soft labels make other moments necessary.
    """
    n, K = len(rows.codes), len(rows.classes)
    if (rows.degree is not None and rows.degree.ndim == 2) or len(splits) > 62:
        return None
    # A smaller integer type is grouped faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(splits) <= 16 else np.int64)
    for i, (train, _) in enumerate(splits):
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if np.count_nonzero(inside) != len(train):
            return None  # a row occurs twice in a training set
        signature |= np.left_shift(inside, i, dtype=signature.dtype)
    kinds, part = encode(signature, None)
    d = rows.X.shape[1]
    if len(kinds) > 4 * len(splits) or len(kinds) * K * d * d > MOST_NUMBERS:
        return None
    group_and_class = part.astype(np.min_scalar_type(len(kinds) * K)) * K + rows.codes

    def sums(absolute: bool) -> list[ClassMoments]:
        all_parts = ClassMoments.from_rows(
            rows.X, group_and_class, rows.weight, n_classes=len(kinds) * K, absolute=absolute
        )
        parts = [all_parts.take(np.arange(K) + i * K) for i in range(len(kinds))]
        chosen = [parts] + [
            [part for part, kind in zip(parts, kinds.tolist(), strict=True) if kind >> i & 1]
            for i in range(len(splits))
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # check_moments reports it
            return [ClassMoments.sum([ClassMoments.zeros(K, d), *some]) for some in chosen]

    all_moments, *own = sums(False)
    absolute: Any = sums(True)[1:] if settings.has_widths else [None] * len(own)
    both = zip(own, absolute, strict=True)
    return all_moments, [TwinMoments(one, one, part, part) for one, part in both]


def _default_alphas(
    settings: FitSettings, rows: Rows, moments: ClassMoments | None, fine: bool
) -> Array:
    """Choose powers of ten around the mean scatter of a column within the classes.

    For curved planes, around the scatter of the landmarks' features, a landmark each. Features
    of landmarks differ in size by orders of magnitude, the greatest far above the mean: curved
    planes get more ridge.
    """
    powers = np.arange(-5, 2) if fine else np.arange(-4, 1)
    if moments is not None:
        both = TwinMoments(moments, moments)
        own = fitting.apply_class_weight(settings, both, rows.classes).own
        trace = np.trace(own.covariance, axis1=1, axis2=2)
        scatter = float(own.weight @ trace) / own.origin.shape[1]
        return (scatter or 1.0) * 10.0**powers
    if not settings.uses_kernel:
        scatter = fitting.scatter_of_rows(rows, fitting.row_weights(settings, rows, None))
        return (scatter / rows.X.shape[1] or 1.0) * 10.0**powers
    check_finite(rows.X, rows.names)
    # Relevances hardly change the scatter. What is drawn here is drawn again by every split.
    phi = fitting.landmark_map(replace(copy.deepcopy(settings), relevance=None), rows)
    assert phi is not None
    K = phi.kernel_values(phi.landmarks)
    total = float(np.sum(fitting.row_weights(settings, rows, None).own))
    spread = float(np.trace(K) / len(K) - K.mean())
    scatter = total * max(spread, 0.0) / len(K)
    return (scatter or 1.0) * 10.0 ** np.arange(-3, 3)
