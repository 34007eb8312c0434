"""The grid of one kernel, scored on one split after another: training moments, planes, scores."""

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

# The parts of all splits together may hold this many numbers; planes that are scored at once, of
# more than two classes, this many.
MOST_NUMBERS = 1 << 26
MOST_PLANES = 1 << 24
# Features of this many numbers are kept for all memberships of a split; more are computed again.
MOST_FEATURES = 1 << 24
# Pairs with fewer rows than this share of the columns are solved in the space of their rows.
FEW_PAIR_ROWS = 0.7


@dataclass(frozen=True, eq=False)
class Search:
    """What the grids of all kernels share: rows, splits, scores, and how to choose among points."""

    shared: dict[str, Any]  # parameters that are the same at every point
    rows: Rows
    splits: Splits  # of all rounds
    n_folds: int  # splits of one round
    scoring: Any  # the score by name, or a scorer
    scorer: Any
    selection: str
    by_loo: bool  # whether rows are left out one by one, or by groups
    groups: Array | None
    verbose: bool

    def model(self, point: dict[str, Any]) -> FuzzyTwinSVC:
        """Make the unfitted model of a point or grid, which draws what a clone of it would."""
        state = copy.deepcopy(self.shared["random_state"])
        return FuzzyTwinSVC(**self.shared | point | {"random_state": state})


def score_split(
    search: Search, grid: Grid, train: Array, test: Array, own: TwinMoments | None
) -> SplitScores:
    """Score every membership and point on one split."""
    began, rows = time.perf_counter(), search.rows
    settings = FitSettings.of(search.model(grid.kernel))
    shape = (len(grid.memberships), *grid.shape)
    result = SplitScores(np.empty(shape), np.full(shape, np.nan), [None] * shape[0])
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    Z, Z_train, train_rows, phi = rows.X, None, None, None  # type: Any, Any, Any, Any
    if own is None or grid.memberships != [None] or rows.degree is not None:
        train_rows = rows.take(train)
        phi = fitting.landmark_map(settings, train_rows)
        Z, Z_train = (fitting.features(X, phi) for X in (rows.X, train_rows.X))
        if phi is not None and Z.shape[0] * Z.shape[1] <= MOST_FEATURES:
            blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
            Z = np.concatenate(list(blocks))  # once for all memberships
            Z_train = Z[train]
    tests = ScoringRows(rows.X, Z, rows.codes, rows.weight, test)
    # Brier scores of curved planes cost less than features to compute them from later; those of
    # more than two classes cost little beside their labels.
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
            here = slice(None), alphas, slice(None), Cs
            part = replace(grid, alphas=grid.alphas[alphas], Cs=grid.Cs[Cs])
            found = solve and solve(alphas, Cs)[:2]
            planes = found and _planes(settings, rows.classes, part, moments, *found)
            start, scores, brier = time.perf_counter(), None, None
            if planes is not None:
                scores, brier = grid_scores(
                    search.scoring, part, planes, tests, rows.classes, losses=losses
                )
                if brier is None:
                    result.planes[m] = planes
                else:
                    result.brier[m][here] = brier
            if scores is not None:
                result.scores[m][here] = scores
            else:
                given: Any = rows.take(train)
                if planes is not None:
                    if moments is None:
                        moments = fitting.twin_moments(settings, train_rows, Z_train, mu)
                    given = moments, phi
                _score_one_by_one(result, search, grid, m, here, rows.take(test), given)
            result.score_time += time.perf_counter() - start
    result.fit_time = time.perf_counter() - began - result.score_time
    return result


def left_out_in_pairs(settings: FitSettings, rows: Rows, alphas: Any) -> bool:
    """Return whether rows are left out of one pair of classes after the other.

    Without a ridge the least norm is that of the columns, and equal rows have no direction.
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
    """Compute distances from planes of one pair of classes after the other; no plane is kept.

    Class k has the share 1 / s_k, s_k = 1 + sum over j of (a_kj / a_jk)^3, as
    `distances.couple_pairwise` has it: s_k, which adds up over pairs, stands for a distance.
    """
    (n, K), norms = (len(rows), grid.n_classes), "distance" in grid.rules
    order = np.argsort(tests.cells(np.arange(n), K), kind="stable")
    step = max(1, MOST_NUMBERS // (K * n * len(grid.Cs) * len(grid.rules)))
    for some in cut(len(grid.alphas), step):
        alphas = grid.alphas[some]
        sums = np.ones((len(alphas), len(grid.rules), K, len(grid.Cs), n))
        for space in row_spaces(settings, rows, weights, groups):
            assert space.pair is not None
            coef, intercept = core_planes.crisp_grid(
                space.own, space.slack, grid.Cs, alphas, multi_class="ovo"
            )
            flat = coef.reshape(-1, coef.shape[-1]), intercept.ravel()
            w, b = space.features.columns(space.X, *flat)
            f = np.abs(plane_values(rows.X, w, b)).T.reshape(*intercept.shape, n)
            size = np.tile(plane_norms(w).reshape(*intercept.shape, 1), n)
            for block in loo_grid(
                space.features.Z, space.weights, space.own, space.slack, grid.Cs, alphas,
                norms=norms, groups=None if groups is None else groups[space.rows],
            ):  # fmt: skip
                index = space.rows[block.index]
                f[..., index] = np.abs(block.f)
                if block.norms is not None:
                    size[..., index] = block.norms
            for r, rule in enumerate(grid.rules):
                if rule == "distance" and not size.any():
                    sums[:, r, space.pair] += 1.0  # of no direction: both as near
                    continue
                a = plane_ratio(f, size) if rule == "distance" else f
                odds = distance_ratios(a[:, :, 0], a[:, :, 1]) ** 3
                for k, part in zip(space.pair, (odds, 1 / odds), strict=True):
                    sums[:, r, k] += part
        for i, r in np.ndindex(sums.shape[:2]):
            place = (0, range(len(grid.alphas))[some][i], r)
            yield PointDistances(place, order, sums[i, r][..., order])


def few_pair_rows(settings: FitSettings, rows: Rows | None, Z: Any) -> bool:
    """Return whether pairs of classes have fewer rows than columns: each is solved by itself."""
    if rows is None or settings.multi_class != "ovo" or len(rows.classes) == 2:
        return False
    soft = rows.degree is not None and rows.degree.ndim == 2
    of_class = np.sort(np.bincount(rows.codes, minlength=len(rows.classes)))
    return not soft and bool(of_class[-2:].sum() <= FEW_PAIR_ROWS * Z.shape[1])


def _blocks_of_points(grid: Grid, n_columns: int) -> list[tuple[slice, slice]]:
    """Cut alphas, then C, so that planes of each part stay in bounds; those of two classes do."""
    K, n_Cs = grid.n_classes, len(grid.Cs)
    if K == 2:
        return [(slice(None), slice(None))]
    n_planes = K * (K - 1 if grid.multi_class == "ovo" else 1)
    most = max(1, MOST_PLANES // (n_planes * n_columns))  # points
    return list(product(cut(len(grid.alphas), max(1, most // n_Cs)), cut(n_Cs, most)))


def _solver(
    settings: FitSettings,
    rows: Rows,
    grid: Grid,
    moments: TwinMoments | None,
    pair_rows: tuple[Array, Rows, Array | None] | None,
) -> Callable[[slice, slice], Any] | None:
    """Return a function that solves for the planes of some alphas and C, from moments or rows.

    It is None where points must be fitted one by one: where the training rows lack a class (their
    model has fewer planes), and where columns are too small for an alpha of 0.
    """
    same: Any = {"isotropic": settings.uses_kernel, "multi_class": grid.multi_class}
    if not grid.alphas.all() and rows.given is not None:
        return None  # the least norm is that of the columns as given
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
        return gram.GramGrid(Z, weights, C, grid.alphas, **same).planes
    assert moments is not None
    m = fitting.apply_class_weight(settings, moments, rows.classes)
    return lambda alphas, Cs: core_planes.crisp_grid(
        m.own, m.slack, grid.Cs[Cs], grid.alphas[alphas], **same
    )


def _planes(
    settings: FitSettings,
    classes: Array,
    grid: Grid,
    moments: TwinMoments | None,
    coef: Array,
    intercept: Array,
) -> GridPlanes | None:
    """Complete the planes of some points; None where one of them has no direction."""
    norms = plane_norms(coef)
    if not norms.any():  # as in `distances.fuzzy_distances`: then distances are abs(f)
        norms = np.ones_like(norms)
    if not norms.all():
        return None
    if moments is None or not settings.has_widths:
        return GridPlanes(coef, intercept, norms)
    m: Any = fitting.apply_class_weight(settings, moments, classes)
    widths = [
        core_planes.widths(
            m.absolute_own, m.absolute_slack, np.full(grid.n_classes, C), settings.tau,
            settings.margin_width, multi_class=grid.multi_class,
        )
        for C in grid.Cs
    ]  # fmt: skip
    return GridPlanes(coef, intercept, norms, *map(np.array, zip(*widths, strict=True)))


def _score_one_by_one(
    result: SplitScores, search: Search, grid: Grid, m: int, here: Any, tests: Rows, given: Any
) -> None:
    """Fit and score each point of a block, as a user would.

    Models are learned from `given` moments and a landmark map, or from rows as they were given,
    with Brier scores. It stops where the scorer fails at the first and the last point.
    """
    classes, scores, errors = search.rows.classes, result.scores[m], 0
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    block = np.arange(scores.size).reshape(grid.shape)[here].ravel().tolist()
    by_rows = isinstance(given, Rows)
    if by_rows:
        given, tests = (replace(part, X=part.original, given=None) for part in (given, tests))
    scores[here] = np.nan
    for number in block if by_rows else [block[0], *block[:0:-1]]:
        model, index = search.model(points[number]), np.unravel_index(number, grid.shape)
        try:
            if by_rows:
                model.fit(given.X, given.y, given.weight, given.degree)
            else:
                model.fit_moments(given[0], classes, landmark_map=given[1])
        except ValueError as error:
            result.failures.append(str(error))
            continue
        scores[index], failed = score_model(search.scorer, model, tests)
        errors += failed
        if errors == 2 and number == block[-1]:
            break
        if by_rows:
            u = np.zeros((len(tests.codes), len(classes)))
            u[:, np.searchsorted(classes, model.classes_)] = model.predict_membership(tests.X)
            loss = ((u - (tests.codes[:, None] == np.arange(len(classes)))) ** 2).sum(axis=1)
            result.brier[m][index] = np.average(loss, weights=tests.weight)


def score_model(scorer: Any, model: FuzzyTwinSVC, tests: Rows) -> tuple[float, bool]:
    """Score a model, with weights where they are given; NaN with a warning where that fails."""
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
        raise ValueError(f"scoring must give a number, not {score!r}.") from error
