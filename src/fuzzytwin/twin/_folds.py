"""Score the grid of one kernel on the folds: training moments, planes, scores of test rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fuzzytwin._rows import Rows, encode
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.core.blocks import block_slices, dense_block, row_slices
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import crisp_grid
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._grid import (
    Grid,
    GridPlanes,
    SplitScores,
    alpha_blocks,
    class_totals,
    fold_distances,
    hits_and_losses,
)
from fuzzytwin.twin._loo import row_spaces
from fuzzytwin.twin._metrics import is_confusion_based, score_from_hits
from fuzzytwin.twin._scoring import Search, Splits, score_points
from fuzzytwin.twin._settings import FitSettings

# Limits on the numbers held in memory: moments of all splits, and planes of more than two classes
# that are scored at once.
MAX_NUMBERS = 1 << 26
MAX_PLANES = 1 << 24
# Kernel features of up to this many numbers are kept for all memberships of a split.
MAX_FEATURES = 1 << 24
# A pair of classes is solved in row space if it has at most this many rows per column.
MAX_PAIR_ROWS_PER_COLUMN = 0.7

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
    shape = (len(grid.memberships), *grid.shape)
    result = SplitScores(np.full(shape, np.nan), np.full(shape, np.nan), [None] * shape[0])
    failure = _split_failure(search.rows, *split)
    if failure:
        result.failures.append(failure)
        return result
    settings = FitSettings.of(search.model(grid.kernel))
    fold = Fold.of(search, grid, settings, split, own)
    for m, membership in enumerate(grid.memberships):
        settings = replace(settings, membership=check_membership(membership))
        try:
            solve = _solver(settings, fold, grid)
        except ImpossiblePlanesError as error:
            result.failures.append(str(error))
            continue
        for alphas, Cs in _blocks_of_points(grid, fold.Z_test.shape[1]):
            part = replace(grid, alphas=grid.alphas[alphas], Cs=grid.Cs[Cs])
            planes = GridPlanes(*solve(alphas, Cs))
            score_start = time.perf_counter()
            at = (m, alphas, slice(None), Cs)
            keep_planes = _score_part(search, part, m, planes, fold, result, at)
            if keep_planes:
                result.planes[m] = planes
            result.score_time += time.perf_counter() - score_start
    result.fit_time = time.perf_counter() - start - result.score_time
    return result


class ImpossiblePlanesError(ValueError):
    """The training rows of a split do not allow the planes of the grid."""


def _split_failure(rows: Rows, train: Array, test: Array) -> str | None:
    """Return why a split cannot be scored, if so. Raise a ValueError if it has no test rows."""
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test rows with positive weight; use fewer splits, or give its test "
            "rows a sample_weight above 0."
        )
    weight = None if rows.weight is None else rows.weight[train]
    total = class_totals(rows.codes[train], weight, len(rows.classes))
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
    options: Any = {"isotropic": settings.uses_kernel, "multi_class": grid.multi_class}
    train = fold.train
    if train is not None and solves_pairwise(settings, train, fold.Z_train):
        solver = "moments" if settings.uses_kernel else "gram"
        mu, _ = fitting.degrees(settings, train, fold.Z_train, solver=solver)
        weights = fitting.row_weights(settings, train, mu)
        _check_opposing_weight(settings, weights.totals(weights.slack))
        train = replace(train, X=fold.Z_train)

        def solve_pairs(alphas: slice, Cs: slice) -> tuple[Array, Array]:
            parts = []
            for space in row_spaces(settings, train, weights):
                parts.append(space.crisp_grid(grid.Cs[Cs], grid.alphas[alphas], **options))
            coef, intercept = (np.concatenate(part, axis=2) for part in zip(*parts, strict=True))
            return coef, intercept

        return solve_pairs
    moments = fold.own
    if train is not None:
        moments, _ = fitting.degree_moments(settings, train, fold.phi, fold.Z_train, fold.own)
    assert moments is not None
    _check_opposing_weight(settings, moments.slack.weight)
    if not grid.alphas.all():
        try:
            fitting.check_size(moments.own)
        except ValueError as error:
            raise ImpossiblePlanesError(str(error)) from error
    m = fitting.apply_class_weight(settings, moments, fold.tests.classes)
    return lambda alphas, Cs: crisp_grid(
        m.own, m.slack, grid.Cs[Cs], grid.alphas[alphas], **options
    )


def _check_opposing_weight(settings: FitSettings, slack_weight: Array) -> None:
    try:
        fitting.check_opposing_weight(settings, slack_weight)
    except ValueError as error:
        raise ImpossiblePlanesError(str(error)) from error


def solves_pairwise(settings: FitSettings, rows: Rows, Z: Any) -> bool:
    """Return whether each pair of classes is solved in its row space, as it has few rows."""
    is_wide = settings.uses_kernel or settings.solver == "gram"
    if not is_wide or settings.multi_class != "ovo" or len(rows.classes) == 2:
        return False
    if not isinstance(Z, np.ndarray) or rows.soft:
        return False
    class_counts = np.sort(np.bincount(rows.codes, minlength=len(rows.classes)))
    return bool(class_counts[-2:].sum() <= MAX_PAIR_ROWS_PER_COLUMN * Z.shape[1])


def _blocks_of_points(grid: Grid, n_columns: int) -> list[tuple[slice, slice]]:
    """Cut alphas, then C, into blocks of at most `MAX_PLANES` numbers; two classes are not cut."""
    K = grid.n_classes
    n_Cs = len(grid.Cs)
    if K == 2:
        return [(slice(None), slice(None))]
    n_planes = K * (K - 1 if grid.multi_class == "ovo" else 1)
    max_points = max(1, MAX_PLANES // (n_planes * n_columns))
    blocks = block_slices(len(grid.alphas), max(1, max_points // n_Cs))
    return list(product(blocks, block_slices(n_Cs, max_points)))


def _score_part(
    search: Search,
    grid: Grid,
    m: int,
    planes: GridPlanes,
    fold: Fold,
    result: SplitScores,
    at: tuple[Any, ...],
) -> bool:
    """Fill in the scores of a part of a grid, and return whether Brier scores are left for later.

    Brier scores are computed at once if that is cheaper than later: with a kernel the features
    would be computed again, and with more than two classes the labels need the memberships anyway.
    """
    scores = result.scores[at]
    brier = result.brier[at]
    codes = fold.tests.codes
    weight = fold.tests.weight
    total = class_totals(codes, weight, grid.n_classes)
    if is_confusion_based(search.scoring, total, fold.tests.classes):
        losses = fold.phi is not None or grid.n_classes > 2
        hits, loss = hits_and_losses(grid, planes, fold.Z_test, codes, weight, losses=losses)
        scores[...] = score_from_hits(search.scoring, hits, total)
        if losses:
            brier[...] = loss / total.sum()
        return not losses
    for alphas in alpha_blocks(grid, len(codes)):
        part = replace(grid, alphas=grid.alphas[alphas])
        part_planes = GridPlanes(planes.coef[alphas], planes.intercept[alphas])
        blocks = fold_distances(part, part_planes, fold.Z_test, codes)
        score_points(search, part, m, blocks, fold.tests, scores[alphas], brier[alphas])
    return False


def moments_of_splits(rows: Rows, splits: Splits) -> tuple[ClassMoments, list[TwinMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups). The moments of a
    split are the sum of those of its groups, so that nothing is subtracted. Return None if there
    are too many groups, if a split trains on a row twice, or for soft labels.
    """
    n, d = rows.X.shape
    K = len(rows.classes)
    if rows.soft or len(splits) > 62:
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
    if n_groups > 4 * len(splits) or n_groups * K * d * d > MAX_NUMBERS:
        return None
    group_and_class = group.astype(np.min_scalar_type(n_groups * K)) * K + rows.codes
    all_groups = ClassMoments.from_rows(
        rows.X, group_and_class, rows.weight, n_classes=n_groups * K
    )
    parts = [all_groups.take(np.arange(K) + i * K) for i in range(n_groups)]
    own = []
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports it
        for i in range(len(splits)):
            bits = zip(parts, signatures.tolist(), strict=True)
            train_parts = [part for part, signature_bits in bits if signature_bits >> i & 1]
            own.append(ClassMoments.sum([ClassMoments.zeros(K, d), *train_parts]))
        all_moments = ClassMoments.sum(parts)
    return all_moments, [TwinMoments(moments, moments) for moments in own]
