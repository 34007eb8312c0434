"""The grid of one kernel, scored on one split after another: training moments, planes, scores."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._utils.threads import map_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.core import gram
from fuzzytwin.core import planes as core_planes
from fuzzytwin.core.blocks import dense_block, row_slices
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.leave_one_out import loo_grid
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.fit import fitting
from fuzzytwin.fit.rows import Rows
from fuzzytwin.fit.settings import FitSettings, check_membership
from fuzzytwin.search.axes import Splits
from fuzzytwin.search.grid import (
    Grid,
    GridPlanes,
    ScoredRows,
    SplitScores,
    add_up,
    grid_scores,
    group_scores,
    left_out_distances,
)

# The parts of all splits together may hold this many numbers; the planes of a split as many.
MOST_NUMBERS = 1 << 26
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
    began, rows, settings = (
        time.perf_counter(),
        search.rows,
        FitSettings.of(search.model(grid.kernel)),
    )
    shape = (len(grid.memberships), *grid.shape)
    result = SplitScores(np.empty(shape), np.full(shape, np.nan), [None] * shape[0])
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    Z, Z_train, train_rows, phi = rows.X, None, None, None
    if own is None or grid.memberships != [None] or rows.degree is not None:
        train_rows = rows.take(train)
        phi = fitting.landmark_map(settings, train_rows)
        Z, Z_train = (fitting.features(X, phi) for X in (rows.X, train_rows.X))
        if phi is not None and Z.shape[0] * Z.shape[1] <= MOST_FEATURES:
            blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
            Z = np.concatenate(list(blocks))  # once for all memberships
            Z_train = Z[train]
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, test)
    # Brier scores of curved planes cost less than features to compute them from later; those of
    # more than two classes cost little beside their labels.
    losses = phi is not None or grid.n_classes > 2
    for m, membership in enumerate(grid.memberships):
        moments, mu = own, None
        if train_rows is not None:
            settings = replace(settings, membership=check_membership(membership))
            moments, mu = fitting.degree_moments(settings, train_rows, phi, Z_train, own)
        assert moments is not None
        pair_rows = _pair_rows(settings, grid, train_rows, Z_train, mu)
        for some in _blocks_of_alphas(grid, moments):
            part = replace(grid, alphas=grid.alphas[some])
            planes = _solve(settings, rows, part, moments, pair_rows)
            start, scores, brier = time.perf_counter(), None, None
            if planes is not None:
                scores, brier = grid_scores(
                    search.scoring, part, planes, tests, rows.classes, losses=losses
                )
                if brier is None:
                    result.planes[m] = planes
                else:
                    result.brier[m][:, some] = brier
            if scores is None:
                given: Any = rows.take(train) if planes is None else (moments, phi)
                _score_one_by_one(result, search, grid, m, some, rows.take(test), given)
            else:
                result.scores[m][:, some] = scores
            result.score_time += time.perf_counter() - start
    result.fit_time = time.perf_counter() - began - result.score_time
    return result


def score_left_out(search: Search, grid: Grid) -> list[SplitScores]:
    """Score every membership and point by planes learned without each row, or without its group.

    Memberships, landmarks and gamma are those of all rows.
    """
    start, rows, settings = (
        time.perf_counter(),
        search.rows,
        FitSettings.of(search.model(grid.kernel)),
    )
    n, n_splits, n_memberships = len(rows), len(search.splits), len(grid.memberships)
    phi = fitting.landmark_map(settings, rows)
    Z, fold = fitting.features(rows.X, phi), np.empty(n, dtype=np.intp)
    for g, (_, test) in enumerate(search.splits):
        fold[test] = g
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, np.arange(n), fold, n_splits)
    total = tests.totals(grid.n_classes)
    scores, briers = np.empty((2, n_splits, n_memberships, *grid.shape))
    for m, membership in enumerate(grid.memberships):
        settings = replace(settings, membership=check_membership(membership))
        moments, mu = fitting.degree_moments(settings, rows, phi)
        fitting.check_rivals(settings, moments.slack.weight)
        weights = fitting.row_weights(settings, rows, mu)
        both = fitting.apply_class_weight(settings, moments, rows.classes)
        values = loo_grid(
            Z, weights, both.own, both.slack, grid.Cs, grid.alphas, multi_class=grid.multi_class,
            same_scale=settings.curved, norms="distance" in grid.rules, groups=search.groups,
        )  # fmt: skip
        hits, losses = add_up(grid, left_out_distances(grid, values, tests), tests)
        scores[:, m] = group_scores(search.scoring, hits, total)
        with np.errstate(invalid="ignore"):  # a fold without weight
            briers[:, m] = losses / total.sum(axis=1).reshape(-1, *(1,) * len(grid.shape))
    spent = (time.perf_counter() - start) / n_splits / 2
    return [
        SplitScores(*found, [None] * n_memberships, fit_time=spent, score_time=spent)
        for found in zip(scores, briers, strict=True)
    ]


def _pair_rows(
    settings: FitSettings, grid: Grid, train_rows: Rows | None, Z: Any, mu: Array | None
) -> tuple[Array, RowWeights] | None:
    """Weigh the rows where pairs of classes have fewer rows than columns; else None."""
    if train_rows is None or not isinstance(Z, np.ndarray) or (mu is not None and mu.ndim == 2):
        return None
    of_class = np.sort(np.bincount(train_rows.codes, minlength=grid.n_classes))
    many = of_class[-2:].sum() > FEW_PAIR_ROWS * Z.shape[1]
    if many or grid.n_classes == 2 or grid.multi_class != "ovo":
        return None
    return Z, fitting.row_weights(settings, train_rows, mu)


def _blocks_of_alphas(grid: Grid, moments: TwinMoments) -> list[Array]:
    """Cut the alphas so that the planes of each part stay in bounds; those of two classes do."""
    K, d = moments.own.origin.shape
    n_planes = K * (K - 1 if grid.multi_class == "ovo" else 1)
    most = max(1, MOST_NUMBERS // (n_planes * len(grid.Cs) * d)) if K > 2 else len(grid.alphas)
    places = np.arange(len(grid.alphas))
    return [places[start : start + most] for start in range(0, len(places), most)]


def _solve(
    settings: FitSettings,
    rows: Rows,
    grid: Grid,
    moments: TwinMoments,
    pair_rows: tuple[Array, RowWeights] | None,
) -> GridPlanes | None:
    """Solve for the planes of all points; None where points must be fitted one by one.

    That is where the training rows lack a class (their model has fewer planes), where a plane
    has no direction, and where columns are too small for an alpha of 0.
    """
    if not (moments.own.weight > 0).all():
        return None
    if not grid.alphas.all():
        if rows.given is not None:
            return None  # the least norm is that of the columns as given
        try:
            fitting.check_size(moments.own)
        except ValueError:
            return None
    moments = fitting.apply_class_weight(settings, moments, rows.classes)
    axes: Any = grid.Cs, grid.alphas
    same: Any = {"same_scale": settings.curved, "multi_class": grid.multi_class}
    if pair_rows is not None:
        coef, intercept = gram.crisp_grid(*pair_rows, *axes, **same)
    else:
        coef, intercept = core_planes.crisp_grid(moments.own, moments.slack, *axes, **same)
    norms = plane_norms(coef)
    if not norms.any():  # as in `distances.fuzzy_distances`: then distances are abs(f)
        norms = np.ones_like(norms)
    if not norms.all():
        return None
    if moments.absolute_own is None or moments.absolute_slack is None:
        return GridPlanes(coef, intercept, norms)
    widths = [
        core_planes.widths(
            moments.absolute_own, moments.absolute_slack, np.full(grid.n_classes, C), settings.tau,
            settings.margin_width, multi_class=grid.multi_class,
        )
        for C in grid.Cs
    ]  # fmt: skip
    return GridPlanes(coef, intercept, norms, *map(np.array, zip(*widths, strict=True)))


def _score_one_by_one(
    result: SplitScores, search: Search, grid: Grid, m: int, some: Array, tests: Rows, given: Any
) -> None:
    """Fit and score each point of some alphas, as a user would.

    Models are learned from `given` moments and a landmark map, or from rows as they were given,
    with Brier scores. It stops where the scorer fails at the first and the last point.
    """
    classes, scores, errors = search.rows.classes, result.scores[m], 0
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    indices = [index for index in np.ndindex(grid.shape) if index[1] in some]
    by_rows = isinstance(given, Rows)
    if by_rows:
        given, tests = (replace(part, X=part.original, given=None) for part in (given, tests))
    scores[:, some] = np.nan
    for index in indices if by_rows else [indices[0], *indices[:0:-1]]:
        model = search.model(points[np.ravel_multi_index(index, grid.shape)])
        try:
            if by_rows:
                model.fit(given.X, given.y, given.weight, given.degree)
            else:
                model.fit_moments(given[0], classes, landmark_map=given[1])
        except ValueError as error:
            result.failures.append(str(error))
            continue
        scores[index], failed = _score(search.scorer, model, tests)
        errors += failed
        if errors == 2 and index == indices[-1]:
            break
        if by_rows:
            u = np.zeros((len(tests.codes), len(classes)))
            u[:, np.searchsorted(classes, model.classes_)] = model.predict_membership(tests.X)
            loss = ((u - (tests.codes[:, None] == np.arange(len(classes)))) ** 2).sum(axis=1)
            result.brier[m][index] = np.average(loss, weights=tests.weight)


def _score(scorer: Any, model: FuzzyTwinSVC, tests: Rows) -> tuple[float, bool]:
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
