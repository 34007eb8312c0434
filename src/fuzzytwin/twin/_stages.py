"""Score the grids of all kernels: full grids, or for kernel planes from coarse to fine.

Gamma and the ridge matter most. They are searched first, with C = 1 and no membership, for which
both planes of a pair of classes share one system. Gammas begin around the median heuristic and
continue, by factors of four, as long as the best point lies at an end. Per-feature bandwidths
follow in the same way, from the best gamma on and with ridges close to the best. Other values of C,
memberships and rules are then tried at the best gamma, bandwidths and ridge.
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
from fuzzytwin.twin._cv_loo import score_by_loo
from fuzzytwin.twin._cv_split import (
    MOST_NUMBERS,
    MOST_PLANES,
    Search,
    few_pair_rows,
    score_split,
    use_pairwise_loo,
)
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._param_grid import SMALL_DATA, Axes, Splits
from fuzzytwin.twin._selection import choose, split_scores
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

STEP = 4.0  # factor from one gamma to the next
FIRST_STEPS = (-1, 0, 1)  # number of steps from the median heuristic to begin with
MAX_STEPS = 4  # in either direction
FINE_CS = 2.0 ** np.arange(-2, 3, 2)
NEAR_ALPHAS = 10.0 ** np.arange(-1, 2)  # per-feature bandwidths: factors of the best alpha so far
MOST_ALPHAS = 7  # default values of alpha, at most
# From this many rows on, threads share the rows of one split instead of the splits.
MANY_ROWS = 1 << 16


def score_kernels(search: Search, axes: Axes) -> list[Grid]:
    """Score the grids of all kernels: full grids, or in stages for kernel planes."""
    if axes.kernels == ["linear"]:
        return score(search, axes, [{}])
    rows = search.rows
    check_finite(rows.X, rows.names)
    is_listed = "rbf" in axes.kernels and axes.relevances != [None]  # as a parameter of points
    full_grids: list[dict[str, Any]] = []
    staged: list[Grid] = []
    for kernel in axes.kernels:
        gammas = axes.gammas if has_gamma(kernel) else ["scale"]
        values = axes.relevances if kernel == "rbf" else [None]
        relevances = [{"relevance": value} if is_listed else {} for value in values]
        if kernel != "linear" and axes.in_stages:
            staged += _score_in_stages(search, {"kernel": kernel}, gammas, relevances, axes)
            continue
        if gammas is None:
            gammas = default_gammas(rows.X, rows.weight).tolist()
        full_grids += [
            {"kernel": kernel, "gamma": gamma, **relevance}
            for gamma in gammas
            for relevance in relevances
        ]
    return (score(search, axes, full_grids) if full_grids else []) + staged


def _score_in_stages(
    search: Search,
    kernel: dict[str, Any],
    gammas: list[Any] | None,
    relevances: list[dict[str, Any]],
    axes: Axes,
) -> list[Grid]:
    """Search one kernel from coarse to fine.

    The search of each further value of `relevances` begins at the best gamma of the first.
    """
    rows = search.rows
    coarse = replace(axes, Cs=np.ones(1), memberships=[None], rules=axes.rules[:1])
    first, *further = relevances
    if gammas is None:
        middle = float(np.median(default_gammas(rows.X, rows.weight)))
        grids = _climb(search, kernel | first, middle, coarse, FIRST_STEPS)
    else:
        grids = score(search, coarse, [kernel | {"gamma": gamma, **first} for gamma in gammas])
    choice = choose(search, grids)
    if choice is None:
        return grids
    best, alphas = _best(grids, choice.index)
    near = coarse if axes.alphas is not None else replace(coarse, alphas=alphas * NEAR_ALPHAS)
    for relevance in further:
        if gammas is None:
            grids += _climb(search, best.kernel | relevance, best.kernel["gamma"], near, (0,))
        else:
            grids += score(search, near, [best.kernel | relevance])
    if further:
        choice = choose(search, grids)
        assert choice is not None
        best, alphas = _best(grids, choice.index)
    Cs = FINE_CS if len(rows.classes) == 2 else FINE_CS[FINE_CS <= 1]
    # The fine grid contains the points of the best alpha: list them only once.
    coarse_grids = [best.without(alphas) if grid is best else grid for grid in grids]
    coarse_grids = [grid for grid in coarse_grids if len(grid.alphas)]
    return coarse_grids + score(search, replace(axes, Cs=Cs, alphas=alphas), [best.kernel])


def _climb(
    search: Search, kernel: dict[str, Any], middle: float, axes: Axes, first_steps: tuple[int, ...]
) -> list[Grid]:
    """Score gammas around the middle one, and further ones as long as the best lies at an end."""
    grids: dict[int, Grid] = {}
    means: dict[int, float] = {}
    next_steps = list(first_steps)
    while next_steps:
        kernels = [kernel | {"gamma": middle * STEP**step} for step in next_steps]
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


def _best(grids: list[Grid], point: int) -> tuple[Grid, Array]:
    """Find the grid of a point, which is numbered through all grids, and its alpha."""
    for grid in grids:
        scores = grid.splits[0].scores
        if point < scores.size:
            break
        point -= scores.size
    alpha = int(np.unravel_index(point, scores.shape)[2])
    return grid, grid.alphas[alpha : alpha + 1]


def score(search: Search, axes: Axes, kernels: list[dict[str, Any]]) -> list[Grid]:
    """Make the grid of every kernel and gamma, and score it on every split."""
    grids: list[Grid] = []
    jobs: list[tuple[Any, ...]] = []
    for kernel in kernels:
        grid, moments = _make_grid(search, kernel, axes)
        grids.append(grid)
        jobs += [(grid, *split, own) for split, own in zip(search.splits, moments, strict=True)]
    if search.by_loo:
        for grid in grids:
            grid.splits = [score_by_loo(search, grid)]
        return grids
    # Threads share the rows of one split after another or, if these are few, the splits.
    run = map if len(search.rows) >= MANY_ROWS else map_threads
    with Progress("search", len(jobs), "folds", wanted=search.verbose) as bar:
        all_scores = run(lambda job: score_split(search, *job), jobs)
        for job, scores in zip(jobs, all_scores, strict=True):
            job[0].splits.append(scores)
            bar.advance()
    return grids


def _make_grid(
    search: Search, kernel: dict[str, Any], axes: Axes
) -> tuple[Grid, list[TwinMoments | None]]:
    """Make the grid of one kernel; for linear planes, read the rows once for all splits.

    Also return the moments of each split's training rows; None if a split computes its own.
    """
    settings = FitSettings.of(FuzzyTwinSVC(**search.shared | kernel))
    rows = search.rows
    K = len(rows.classes)
    fine = len(rows.codes) < SMALL_DATA and not settings.uses_kernel
    powers = np.arange(-8, 9, 2) if fine else np.arange(-4, 5, 2)
    if K > 2:  # one C for all pairs: values above 1 hardly ever help
        powers = np.arange(-4, 3, 2)
    Cs = np.asarray(2.0**powers if axes.Cs is None else axes.Cs)
    alphas = axes.alphas
    n_points = len(Cs) * (MOST_ALPHAS if alphas is None else len(alphas))
    in_pairs = settings.solver == "gram" and few_pair_rows(settings, rows, rows.X)
    if search.by_loo:
        in_pairs = in_pairs and use_pairwise_loo(settings, rows, alphas)
    _check_memory(settings, rows, n_points, search.by_loo, in_pairs)
    all_moments: ClassMoments | None = None
    train_moments: list[TwinMoments | None] = [None] * len(search.splits)
    if not (settings.uses_kernel or in_pairs):
        rounds = cut(len(search.splits), search.n_folds)
        parts = [moments_of_splits(settings, rows, search.splits[folds]) for folds in rounds]
        if parts[0] is not None and all(parts):
            all_moments = parts[0][0]
            train_moments = [moments for part in parts if part for moments in part[1]]
        else:
            check_finite(rows.X, rows.names)
            all_moments = own_moments(rows, rows.X)
        check_moments(all_moments, rows)
    if alphas is None:
        alphas = _default_alphas(settings, rows, all_moments, fine)
    grid = Grid(
        kinds=axes.kinds,
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
    settings: FitSettings, rows: Rows, n_points: int, by_loo: bool, in_pairs: bool
) -> None:
    """Raise an error, before the search begins, if moments and planes do not fit into memory."""
    K = len(rows.classes)
    d = rows.X.shape[1]
    if settings.uses_kernel:
        landmarks = MOST_CENTERS if is_centers(settings.n_landmarks) else settings.n_landmarks
        d = int(landmarks) if is_count(landmarks) else int(np.shape(landmarks)[0])
    point_size = float(d) * K * (K - 1 if settings.multi_class == "ovo" else 1)
    planes = point_size * n_points
    if K > 2 and not by_loo:  # points are scored in blocks
        planes = min(planes, max(point_size, MOST_PLANES))
    # Moments of all rows, of a split with and without degrees, and of a block. In pairs, the
    # coefficients of planes as combinations of rows instead.
    moments = 2.0 * n_points * (K - 1) * len(rows) if in_pairs else 4.0 * K * d * d
    if in_pairs and by_loo:  # distances of all rows are kept instead of planes
        moments = min(2.0 * moments, float(MOST_NUMBERS))
        planes = 0.0
    threads = 1 if d >= MANY_COLUMNS else count_threads(settings.n_jobs)
    needed = 8.0 * threads * (moments + 3.0 * planes)
    limit = MOST_MEMORY * available_memory() if needed > LITTLE_MEMORY else np.inf
    if needed > limit:
        raise NotEnoughMemoryError(
            f"the search does not fit into memory: {K} classes and {d:,} columns need about "
            f"{as_text(needed)}, but the limit is {as_text(limit)}, {MOST_MEMORY:.0%} of the "
            "available memory. Remedy: use fewer columns (SelectKBest, TruncatedSVD), "
            "multi_class='ovr', fewer values of C, or n_jobs=1."
        )


def moments_of_splits(
    settings: FitSettings, rows: Rows, splits: Splits
) -> tuple[ClassMoments, list[TwinMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups). The moments of a
    split are the sum of those of its groups, so that nothing is subtracted. Return None if there
    are too many groups, if a split trains on a row twice, or for soft labels.
    """
    n = len(rows.codes)
    K = len(rows.classes)
    if (rows.degree is not None and rows.degree.ndim == 2) or len(splits) > 62:
        return None
    # Bit i of a row's signature says whether split i trains on it. Small types are grouped faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(splits) <= 16 else np.int64)
    for i, (train, _) in enumerate(splits):
        in_train = np.zeros(n, dtype=bool)
        in_train[train] = True
        if np.count_nonzero(in_train) != len(train):
            return None  # a row occurs twice in a training set
        signature |= np.left_shift(in_train, i, dtype=signature.dtype)
    signatures, group = encode(signature, None)
    n_groups = len(signatures)
    d = rows.X.shape[1]
    if n_groups > 4 * len(splits) or n_groups * K * d * d > MOST_NUMBERS:
        return None
    group_and_class = group.astype(np.min_scalar_type(n_groups * K)) * K + rows.codes

    def sum_groups(absolute: bool) -> list[ClassMoments]:
        """Return the moments of all rows, then of each split's training rows."""
        all_groups = ClassMoments.from_rows(
            rows.X, group_and_class, rows.weight, n_classes=n_groups * K, absolute=absolute
        )
        parts = [all_groups.take(np.arange(K) + i * K) for i in range(n_groups)]
        terms = [parts] + [
            [part for part, bits in zip(parts, signatures.tolist(), strict=True) if bits >> i & 1]
            for i in range(len(splits))
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # check_moments reports it
            return [ClassMoments.sum([ClassMoments.zeros(K, d), *summands]) for summands in terms]

    all_moments, *own = sum_groups(False)
    absolute: Any = sum_groups(True)[1:] if settings.has_widths else [None] * len(own)
    pairs = zip(own, absolute, strict=True)
    return all_moments, [TwinMoments(m, m, m_absolute, m_absolute) for m, m_absolute in pairs]


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
        scatter = fitting.scatter_of_rows(rows, fitting.row_weights(settings, rows, None))
        return (scatter / rows.X.shape[1] or 1.0) * 10.0**powers
    check_finite(rows.X, rows.names)
    # Per-feature bandwidths hardly change the scatter. Splits draw from the same random state.
    phi = fitting.landmark_map(replace(copy.deepcopy(settings), relevance=None), rows)
    assert phi is not None
    K = phi.kernel_values(phi.landmarks)
    total = float(np.sum(fitting.row_weights(settings, rows, None).own))
    spread = float(np.trace(K) / len(K) - K.mean())
    scatter = total * max(spread, 0.0) / len(K)
    return (scatter or 1.0) * 10.0 ** np.arange(-3, 3)
