"""Score the grid of one kernel on the folds: training moments, planes, scores of test rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.core.blocks import block_slices, dense_block, row_slices
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.planes import crisp_grid
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._grid import Grid, SplitScores, score_from_hits, score_points
from fuzzytwin.twin._loo import row_spaces
from fuzzytwin.twin._make_grid import MAX_PLANES, Search, solves_pairwise
from fuzzytwin.twin._settings import FitSettings

# Kernel features of up to this many numbers are kept for all memberships of a split.
MAX_FEATURES = 1 << 24

# Solves for the planes of a block of alphas and a block of C.
Solve = Callable[[slice, slice], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and test rows of a split, and their features in which planes are linear.

    Training rows are None if their moments without degrees, ``own``, are all that is needed.
    """

    train: Rows | None
    tests: Rows
    own: TwinMoments | None
    phi: LandmarkMap | None = None
    Z_train: Any = None
    Z_test: Any = None

    @classmethod
    def of(
        cls,
        search: Search,
        grid: Grid,
        settings: FitSettings,
        split: tuple[Array, Array],
        own: TwinMoments | None,
    ) -> Fold:
        """Select the rows of a split, and map them to features of training landmarks."""
        train_index, test_index = split
        rows = search.original
        tests = rows.take(test_index)
        in_row_space = search.rows is not rows
        Z_test = search.rows.X[test_index] if in_row_space else tests.X
        if own is not None and grid.memberships == [None] and rows.degree is None:
            return cls(None, tests, own, Z_test=Z_test)
        train = rows.take(train_index)
        if in_row_space:
            return cls(train, tests, own, None, search.rows.X[train_index], Z_test)
        phi = fitting.landmark_map(settings, train)
        Z_train = _kept_features(fitting.features(train.X, phi), phi)
        Z_test = _kept_features(fitting.features(tests.X, phi), phi)
        return cls(train, tests, own, phi, Z_train, Z_test)


def score_split(
    search: Search, grid: Grid, split: tuple[Array, Array], own: TwinMoments | None
) -> SplitScores:
    """Score every membership and point on one split.

    `own` are the moments of the training rows without degrees, if already computed.
    """
    start = time.perf_counter()
    failure = _split_failure(search.rows, *split)
    shape = (len(grid.memberships), *grid.shape)
    result = SplitScores(np.full(shape, np.nan), np.full(shape, np.nan))
    if failure is not None:
        result.failures.append(failure)
        return result
    settings = FitSettings.of(search.model(grid.kernel))
    fold = Fold.of(search, grid, settings, split, own)
    total = np.bincount(fold.tests.codes, fold.tests.weight, grid.n_classes)
    for m, membership in enumerate(grid.memberships):
        settings = replace(settings, membership=check_membership(membership))
        try:
            solve = _solver(settings, fold, grid)
        except fitting.ImpossiblePlanesError as error:
            result.failures.append(str(error))
            continue
        for alphas, Cs in _blocks_of_points(grid, fold.Z_test.shape[1]):
            part = replace(grid, alphas=grid.alphas[alphas], Cs=grid.Cs[Cs])
            planes = solve(alphas, Cs)
            score_start = time.perf_counter()
            hits, losses = score_points(
                part, *planes, fold.Z_test, fold.tests.codes, fold.tests.weights
            )
            at = (m, alphas, slice(None), Cs)
            result.scores[at] = score_from_hits(search.scoring, hits, total)
            result.brier[at] = losses / total.sum()
            result.score_time += time.perf_counter() - score_start
    result.fit_time = time.perf_counter() - start - result.score_time
    return result


def _split_failure(rows: Rows, train: Array, test: Array) -> str | None:
    """Return why a split cannot be scored, if so. Raise a ValueError if it has no test rows."""
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test rows with positive weight; use fewer splits, or give its test "
            "rows a sample_weight above 0."
        )
    weight = None if rows.weight is None else rows.weight[train]
    total = np.bincount(rows.codes[train], weight, minlength=len(rows.classes))
    if rows.soft:
        degree: Any = rows.degree
        degree = degree[train]
        total = degree.sum(axis=0) if weight is None else weight @ degree
    if total.all():
        return None
    missing = rows.classes[total == 0].tolist()[0]
    return (
        f"the training rows of a split have no row of class {missing!r}; use stratified folds, "
        "fewer of them, or GridSearchCV over FuzzyTwinSVC."
    )


def _kept_features(Z: Any, phi: LandmarkMap | None) -> Any:
    """Compute kernel features once for all memberships, if they are few enough to be kept."""
    if phi is None or Z.shape[0] * Z.shape[1] > MAX_FEATURES:
        return Z
    blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
    return np.concatenate(list(blocks))


def _solver(settings: FitSettings, fold: Fold, grid: Grid) -> Solve:
    """Return a function that solves for the planes of a block of alphas and C."""
    isotropic = settings.uses_kernel
    train = fold.train
    if train is not None and solves_pairwise(settings, train, fold.Z_train):
        solver = "moments" if settings.uses_kernel else "gram"
        mu, _ = fitting.degrees(settings, train, fold.Z_train, solver=solver)
        weights = fitting.row_weights(settings, train, mu)
        fitting.check_opposing_weight(weights.totals(weights.slack))
        train = replace(train, X=fold.Z_train)

        def solve_pairs(alphas: slice, Cs: slice) -> tuple[Array, Array]:
            parts = []
            for space in row_spaces(train, weights):
                parts.append(
                    space.crisp_grid(grid.Cs[Cs], grid.alphas[alphas], isotropic=isotropic)
                )
            coef, intercept = (np.concatenate(part, axis=2) for part in zip(*parts, strict=True))
            return coef, intercept

        return solve_pairs
    moments = fold.own
    if train is not None:
        moments, _ = fitting.degree_moments(settings, train, fold.phi, fold.Z_train, fold.own)
    assert moments is not None
    fitting.check_opposing_weight(moments.slack.weight)
    if not grid.alphas.all():
        fitting.check_underflow(moments.own)
    m = fitting.apply_class_weight(settings, moments, fold.tests.classes)
    return lambda alphas, Cs: crisp_grid(
        m.own, m.slack, grid.Cs[Cs], grid.alphas[alphas], isotropic=isotropic
    )


def _blocks_of_points(grid: Grid, n_columns: int) -> list[tuple[slice, slice]]:
    """Split alphas, then C, into blocks of at most `MAX_PLANES` numbers, if K is above 2."""
    K = grid.n_classes
    n_Cs = len(grid.Cs)
    if K == 2:
        return [(slice(None), slice(None))]
    n_planes = K * (K - 1)
    max_points = max(1, MAX_PLANES // (n_planes * n_columns))
    blocks = block_slices(len(grid.alphas), max(1, max_points // n_Cs))
    return list(product(blocks, block_slices(n_Cs, max_points)))
