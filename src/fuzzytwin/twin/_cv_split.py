"""Score the grid of one kernel on a split: training moments, planes, scores."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fuzzytwin._rows import Rows
from fuzzytwin._utils.threads import map_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.core import planes as core_planes
from fuzzytwin.core import row_space as gram
from fuzzytwin.core.blocks import cut, dense_block, row_slices
from fuzzytwin.core.distances import distance_ratios, plane_norms, plane_ratio, plane_values
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._grid import (
    Grid,
    GridPlanes,
    PointDistances,
    ScoringRows,
    SplitScores,
    grid_scores,
)
from fuzzytwin.twin._loo import row_spaces
from fuzzytwin.twin._loo_systems import loo_grid
from fuzzytwin.twin._param_grid import Splits
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

# Limits on the numbers held in memory: moments of all splits, and planes of more than two classes
# that are scored at once.
MOST_NUMBERS = 1 << 26
MOST_PLANES = 1 << 24
# Kernel features of up to this many numbers are kept for all memberships of a split.
MOST_FEATURES = 1 << 24
# A pair of classes is solved in row space if it has at most this many rows per column.
FEW_PAIR_ROWS = 0.7


@dataclass(frozen=True, eq=False)
class Search:
    """What the grids of all kernels share: rows, splits, scoring and selection."""

    shared: dict[str, Any]  # parameters that are the same at every point
    rows: Rows
    splits: Splits  # of all rounds
    n_folds: int  # splits of one round
    scoring: Any  # the score by name, or a scorer
    scorer: Any
    selection: str
    by_loo: bool  # leave-one-out, or leave-one-group-out
    groups: Array | None
    verbose: bool

    def model(self, point: dict[str, Any]) -> FuzzyTwinSVC:
        """Make the unfitted model of a point or grid, with its own copy of the random state."""
        state = copy.deepcopy(self.shared["random_state"])
        return FuzzyTwinSVC(**self.shared | point | {"random_state": state})


def score_split(
    search: Search, grid: Grid, train: Array, test: Array, own: TwinMoments | None
) -> SplitScores:
    """Score every membership and point on one split."""
    split_start = time.perf_counter()
    rows = search.rows
    settings = FitSettings.of(search.model(grid.kernel))
    shape = (len(grid.memberships), *grid.shape)
    result = SplitScores(np.empty(shape), np.full(shape, np.nan), [None] * shape[0])
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test rows with positive weight; use fewer splits, or give its test "
            "rows a sample_weight above 0."
        )
    Z: Any = rows.X
    Z_train: Any = None
    train_rows: Any = None
    phi: Any = None
    if own is None or grid.memberships != [None] or rows.degree is not None:
        train_rows = rows.take(train)
        phi = fitting.landmark_map(settings, train_rows)
        Z = fitting.features(rows.X, phi)
        Z_train = fitting.features(train_rows.X, phi)
        if phi is not None and Z.shape[0] * Z.shape[1] <= MOST_FEATURES:
            blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
            Z = np.concatenate(list(blocks))  # once for all memberships
            Z_train = Z[train]
    tests = ScoringRows(rows.X, Z, rows.codes, rows.weight, test)
    # Compute Brier scores at once if that is cheaper than later: with a kernel the features would
    # be computed again, and with more than two classes the labels need the memberships anyway.
    losses = phi is not None or grid.n_classes > 2
    in_pairs = isinstance(Z_train, np.ndarray) and few_pair_rows(settings, train_rows, Z_train)
    for m, membership in enumerate(grid.memberships):
        moments, mu = own, None
        settings = replace(settings, membership=check_membership(membership))
        if in_pairs and settings.solver == "gram":
            mu, _ = fitting.degrees(settings, train_rows, Z_train, solver="gram")
        elif train_rows is not None:
            moments, mu = fitting.degree_moments(settings, train_rows, phi, Z_train, own)
        pair_rows = (Z_train, train_rows, mu) if in_pairs else None
        solve = _solver(settings, rows, grid, moments, pair_rows)
        for alphas, Cs in _blocks_of_points(grid, Z.shape[1]):
            block = slice(None), alphas, slice(None), Cs
            part = replace(grid, alphas=grid.alphas[alphas], Cs=grid.Cs[Cs])
            planes = None
            if solve is not None:
                coef, intercept = solve(alphas, Cs)[:2]
                planes = _planes(settings, rows.classes, part, moments, coef, intercept)
            score_start = time.perf_counter()
            scores = None
            if planes is not None:
                scores, brier = grid_scores(
                    search.scoring, part, planes, tests, rows.classes, losses=losses
                )
                if brier is None:
                    result.planes[m] = planes
                else:
                    result.brier[m][block] = brier
            if scores is not None:
                result.scores[m][block] = scores
            else:
                source: Any = rows.take(train)
                if planes is not None:
                    if moments is None:
                        moments = fitting.twin_moments(settings, train_rows, Z_train, mu)
                    source = moments, phi
                _score_one_by_one(result, search, grid, m, block, rows.take(test), source)
            result.score_time += time.perf_counter() - score_start
    result.fit_time = time.perf_counter() - split_start - result.score_time
    return result


def use_pairwise_loo(settings: FitSettings, rows: Rows, alphas: Any) -> bool:
    """Return whether leave-one-out is computed for each pair of classes in its own row space.

    This needs a ridge, since the minimum-norm solution is defined in the space of the columns, and
    rows that are not all equal.
    """
    ridges = alphas is None or bool(np.all(alphas))
    return ridges and few_pair_rows(settings, rows, rows.X) and bool(np.ptp(rows.X, axis=0).any())


def distances_in_pairs(
    settings: FitSettings,
    rows: Rows,
    weights: RowWeights,
    grid: Grid,
    tests: ScoringRows,
    groups: Array | None,
) -> Iterator[PointDistances]:
    """Compute leave-one-out distances, one pair of classes at a time, without keeping planes.

    By `distances.couple_pairwise`, the membership in class k is proportional to 1 / s_k, with
    s_k = 1 + sum over j of (a_kj / a_jk)^3. As s_k is a sum over pairs, it is used as the distance.
    """
    n = len(rows)
    K = grid.n_classes
    needs_norms = "distance" in grid.rules
    order = np.argsort(tests.cells(np.arange(n), K), kind="stable")
    step = max(1, MOST_NUMBERS // (K * n * len(grid.Cs) * len(grid.rules)))
    for alpha_block in cut(len(grid.alphas), step):
        alphas = grid.alphas[alpha_block]
        sums = np.ones((len(alphas), len(grid.rules), K, len(grid.Cs), n))
        for space in row_spaces(settings, rows, weights, groups):
            assert space.pair is not None
            coef, intercept = core_planes.crisp_grid(
                space.own, space.slack, grid.Cs, alphas, multi_class="ovo"
            )
            flat_coef = coef.reshape(-1, coef.shape[-1])
            w, b = space.features.columns(space.X, flat_coef, intercept.ravel())
            f = np.abs(plane_values(rows.X, w, b)).T.reshape(*intercept.shape, n)
            size = np.tile(plane_norms(w).reshape(*intercept.shape, 1), n)
            blocks = loo_grid(
                space.features.Z,
                space.weights,
                space.own,
                space.slack,
                grid.Cs,
                alphas,
                norms=needs_norms,
                groups=None if groups is None else groups[space.rows],
            )
            for block in blocks:
                index = space.rows[block.index]
                f[..., index] = np.abs(block.f)
                if block.norms is not None:
                    size[..., index] = block.norms
            for r, rule in enumerate(grid.rules):
                if rule == "distance" and not size.any():
                    sums[:, r, space.pair] += 1.0  # zero normals: both classes are equally near
                    continue
                a = plane_ratio(f, size) if rule == "distance" else f
                odds = distance_ratios(a[:, :, 0], a[:, :, 1]) ** 3
                for k, part in zip(space.pair, (odds, 1 / odds), strict=True):
                    sums[:, r, k] += part
        for i, r in np.ndindex(sums.shape[:2]):
            place = (0, range(len(grid.alphas))[alpha_block][i], r)
            yield PointDistances(place, order, sums[i, r][..., order])


def few_pair_rows(settings: FitSettings, rows: Rows | None, Z: Any) -> bool:
    """Return whether pairs of classes have so few rows that each is solved in its row space."""
    if rows is None or settings.multi_class != "ovo" or len(rows.classes) == 2:
        return False
    soft = rows.degree is not None and rows.degree.ndim == 2
    class_counts = np.sort(np.bincount(rows.codes, minlength=len(rows.classes)))
    return not soft and bool(class_counts[-2:].sum() <= FEW_PAIR_ROWS * Z.shape[1])


def _blocks_of_points(grid: Grid, n_columns: int) -> list[tuple[slice, slice]]:
    """Cut alphas, then C, into blocks of at most `MOST_PLANES` numbers; two classes are not cut."""
    K = grid.n_classes
    n_Cs = len(grid.Cs)
    if K == 2:
        return [(slice(None), slice(None))]
    n_planes = K * (K - 1 if grid.multi_class == "ovo" else 1)
    most_points = max(1, MOST_PLANES // (n_planes * n_columns))
    alpha_blocks = cut(len(grid.alphas), max(1, most_points // n_Cs))
    return list(product(alpha_blocks, cut(n_Cs, most_points)))


def _solver(
    settings: FitSettings,
    rows: Rows,
    grid: Grid,
    moments: TwinMoments | None,
    pair_rows: tuple[Array, Rows, Array | None] | None,
) -> Callable[[slice, slice], Any] | None:
    """Return a function that solves for the planes of a block of alphas and C.

    Return None if points must be fitted one by one: if the training rows lack a class (their
    model has fewer planes), or if the columns are too small for an alpha of 0.
    """
    options: Any = {"isotropic": settings.uses_kernel, "multi_class": grid.multi_class}
    if not grid.alphas.all() and rows.given is not None:
        return None  # the minimum-norm solution is that of the original columns
    if moments is not None:
        if not (moments.own.weight > 0).all():
            return None
        try:
            if not grid.alphas.all():
                fitting.check_size(moments.own)
        except ValueError:
            return None
    if pair_rows is not None:
        Z, train_rows, mu = pair_rows
        if not np.bincount(train_rows.codes, train_rows.weight, grid.n_classes).all():
            return None
        weights = fitting.row_weights(settings, train_rows, mu)
        C = np.repeat(grid.Cs[:, None], grid.n_classes, axis=1)
        return gram.GramGrid(Z, weights, C, grid.alphas, **options).planes
    assert moments is not None
    m = fitting.apply_class_weight(settings, moments, rows.classes)
    return lambda alphas, Cs: core_planes.crisp_grid(
        m.own, m.slack, grid.Cs[Cs], grid.alphas[alphas], **options
    )


def _planes(
    settings: FitSettings,
    classes: Array,
    grid: Grid,
    moments: TwinMoments | None,
    coef: Array,
    intercept: Array,
) -> GridPlanes | None:
    """Add norms and widths to the planes of a block; None if only some normals are zero."""
    norms = plane_norms(coef)
    if not norms.any():  # all normals are zero: distances are abs(f), as in `fuzzy_distances`
        norms = np.ones_like(norms)
    if not norms.all():
        return None
    if moments is None or not settings.has_widths:
        return GridPlanes(coef, intercept, norms)
    m: Any = fitting.apply_class_weight(settings, moments, classes)
    widths = [
        core_planes.widths(
            m.absolute_own,
            m.absolute_slack,
            np.full(grid.n_classes, C),
            settings.tau,
            settings.margin_width,
            multi_class=grid.multi_class,
        )
        for C in grid.Cs
    ]
    return GridPlanes(coef, intercept, norms, *map(np.array, zip(*widths, strict=True)))


def _score_one_by_one(
    result: SplitScores, search: Search, grid: Grid, m: int, block: Any, tests: Rows, source: Any
) -> None:
    """Fit and score each point of a block by the public methods of the model.

    `source` is either a pair of moments and landmark map, or training rows. Only the latter also
    fill Brier scores. Scoring stops if the scorer fails at both the first and the last point.
    """
    classes = search.rows.classes
    scores = result.scores[m]
    n_failed = 0
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    numbers = np.arange(scores.size).reshape(grid.shape)[block].ravel().tolist()
    from_rows = isinstance(source, Rows)
    if from_rows:
        source = replace(source, X=source.original, given=None)
        tests = replace(tests, X=tests.original, given=None)
    scores[block] = np.nan
    for number in numbers if from_rows else [numbers[0], *numbers[:0:-1]]:
        model = search.model(points[number])
        index = np.unravel_index(number, grid.shape)
        try:
            if from_rows:
                model.fit(source.X, source.y, source.weight, source.degree)
            else:
                model.fit_moments(source[0], classes, landmark_map=source[1])
        except ValueError as error:
            result.failures.append(str(error))
            continue
        scores[index], failed = score_model(search.scorer, model, tests)
        n_failed += failed
        if n_failed == 2 and number == numbers[-1]:
            break
        if from_rows:
            u = np.zeros((len(tests.codes), len(classes)))
            u[:, np.searchsorted(classes, model.classes_)] = model.predict_membership(tests.X)
            loss = ((u - (tests.codes[:, None] == np.arange(len(classes)))) ** 2).sum(axis=1)
            result.brier[m][index] = np.average(loss, weights=tests.weight)


def score_model(scorer: Any, model: FuzzyTwinSVC, tests: Rows) -> tuple[float, bool]:
    """Score a model and say whether that failed; then the score is NaN, with a warning.

    Weights are passed to the scorer if there are any.
    """
    weights = {} if tests.weight is None else {"sample_weight": tests.weight}
    try:
        score = scorer(model, tests.X, tests.y, **weights)
    except Exception as error:
        warnings.warn(
            f"Scoring failed; the score of this point on this split is NaN: {error}",
            UserWarning,
            stacklevel=2,
        )
        return float("nan"), True
    try:
        return float(score), False
    except (TypeError, ValueError) as error:
        raise ValueError(f"scoring must return a number, not {score!r}.") from error
