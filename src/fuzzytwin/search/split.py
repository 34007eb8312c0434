"""The grid of one kernel, scored on one split after another: training moments, planes, scores."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, field, replace
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
    add_up,
    grid_scores,
    group_scores,
    hits_and_losses,
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

    template: FuzzyTwinSVC  # unfitted, with the parameters that are the same at every point
    rows: Rows
    rounds: list[Splits]  # the folds, and those of further rounds
    scoring: Any  # the score by name, or a scorer
    scorer: Any
    selection: str
    by_loo: bool  # whether rows are left out one by one, or by groups
    groups: Array | None
    verbose: bool

    @property
    def splits(self) -> Splits:
        """Return the splits of all rounds."""
        return [split for one_round in self.rounds for split in one_round]


@dataclass(eq=False)
class SplitScores:
    """Scores of one split at every membership and point of the grid."""

    scores: Array
    brier: Array
    planes: list[GridPlanes | None]  # for each membership; None where `brier` is filled
    failures: list[str] = field(default_factory=list)
    fit_time: float = 0.0
    score_time: float = 0.0


@dataclass(eq=False)
class KernelGrid:
    """The grid of one kernel and gamma, and its scores of each split."""

    search: Search
    kernel: dict[str, Any]  # parameters that all its points have in common, such as gamma
    settings: FitSettings  # of the template with these parameters
    memberships: list[Any]  # as given, one for each place on the first axis of the scores
    grid: Grid  # the other axes
    split_scores: list[SplitScores] = field(default_factory=list)

    def without(self, alphas: Array) -> KernelGrid:
        """Leave out the points of some alphas, which another grid lists; planes are not kept."""
        keep = ~np.isin(self.grid.alphas, alphas)
        kept = [
            replace(split, scores=split.scores[:, :, keep], brier=split.brier[:, :, keep])
            for split in self.split_scores
        ]
        grid = replace(self.grid, alphas=self.grid.alphas[keep])
        return replace(self, grid=grid, split_scores=kept)

    def points(self) -> list[dict[str, Any]]:
        """Name the parameters of each point, in the order of the scores."""
        points = [self.grid.parameters(index) for index in np.ndindex(self.grid.shape)]
        return [
            {**self.kernel, "membership": membership, **point}
            for membership in self.memberships
            for point in points
        ]

    def brier(self, wanted: Array) -> Array:
        """Compute the mean Brier scores (n_splits, n_points) at the wanted points."""
        rows, found = self.search.rows, []
        for (_, test), split in zip(self.search.splits, self.split_scores, strict=True):
            brier, asked = split.brier.copy(), wanted.reshape(split.brier.shape)
            tests = ScoredRows(rows.X, rows.X, rows.codes, rows.weight, test)
            for m, planes in enumerate(split.planes):
                if planes is not None and asked[m].any():
                    _, losses = hits_and_losses(self.grid, planes, tests, asked[m], hits=False)
                    brier[m] = losses[0] / tests.totals(self.grid.n_classes).sum()
            found.append(brier.ravel())
        return np.array(found)


def copy_random_state(settings: FitSettings) -> FitSettings:
    """Copy the random state, so that every fit draws what a clone of the estimator would."""
    return replace(settings, random_state=copy.deepcopy(settings.random_state))


def score_split(
    points: KernelGrid, train: Array, test: Array, own: TwinMoments | None
) -> SplitScores:
    """Score every membership and point on one split."""
    began, search, grid = time.perf_counter(), points.search, points.grid
    rows, shape = search.rows, (len(points.memberships), *points.grid.shape)
    result = SplitScores(np.empty(shape), np.full(shape, np.nan), [None] * shape[0])
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    Z, Z_train, train_rows, phi = rows.X, None, None, None
    if own is None or points.memberships != [None] or rows.degree is not None:
        train_rows = rows.take(train)
        phi = fitting.landmark_map(copy_random_state(points.settings), train_rows)
        Z, Z_train = (fitting.features(X, phi) for X in (rows.X, train_rows.X))
        if phi is not None and Z.shape[0] * Z.shape[1] <= MOST_FEATURES:
            blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
            Z = np.concatenate(list(blocks))  # once for all memberships
            Z_train = Z[train]
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, test)
    # Brier scores of curved planes cost less than features to compute them from later; those of
    # more than two classes cost little beside their labels.
    losses = phi is not None or grid.n_classes > 2
    for m, membership in enumerate(points.memberships):
        mu, moments = None, own
        if train_rows is not None:
            mu, moments = _degrees(points, membership, train_rows, Z_train, own)
        assert moments is not None
        pair_rows = _pair_rows(points, train_rows, Z_train, mu)
        for some in _blocks_of_alphas(grid, moments):
            part = replace(grid, alphas=grid.alphas[some])
            planes = _solve(points, part, moments, pair_rows)
            start = time.perf_counter()
            if planes is None:
                _score_one_by_one(result, points, m, some, rows.take(test), rows.take(train))
            else:
                scores, brier = grid_scores(
                    search.scoring, part, planes, tests, rows.classes, losses=losses
                )
                if scores is None:
                    given = moments, phi
                    _score_one_by_one(result, points, m, some, rows.take(test), given)
                else:
                    result.scores[m][:, some] = scores
                if brier is None:
                    result.planes[m] = planes
                else:
                    result.brier[m][:, some] = brier
            result.score_time += time.perf_counter() - start
    result.fit_time = time.perf_counter() - began - result.score_time
    return result


def _degrees(
    points: KernelGrid, membership: Any, rows: Rows, Z: Any, own: TwinMoments | None = None
) -> tuple[Array | None, TwinMoments]:
    """Compute degrees and moments of the features `Z` of rows; `own` are those without degrees."""
    settings = replace(points.settings, membership=check_membership(membership))
    known, absolute = (None, None) if own is None else (own.own, own.absolute_own)
    mu, known = fitting.degrees(settings, rows, Z, known)
    return mu, fitting.twin_moments(settings, rows, Z, mu, known, absolute)


def score_left_out(points: KernelGrid) -> list[SplitScores]:
    """Score every membership and point by planes learned without each row, or without its group.

    Memberships, landmarks and gamma are those of all rows.
    """
    search, grid, settings, start = points.search, points.grid, points.settings, time.perf_counter()
    rows, n_splits = search.rows, len(search.splits)
    Z = fitting.features(rows.X, fitting.landmark_map(copy_random_state(settings), rows))
    all_rows, fold = np.arange(len(rows.codes)), np.empty(len(rows.codes), dtype=np.intp)
    for g, (_, test) in enumerate(search.splits):
        fold[test] = g
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, all_rows, fold, n_splits)
    total = tests.totals(grid.n_classes)
    scores, briers = np.empty((2, n_splits, len(points.memberships), *grid.shape))
    for m, membership in enumerate(points.memberships):
        mu, moments = _degrees(points, membership, rows, Z)
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
        SplitScores(*found, [None] * len(points.memberships), fit_time=spent, score_time=spent)
        for found in zip(scores, briers, strict=True)
    ]


def _pair_rows(
    points: KernelGrid, train_rows: Rows | None, Z: Any, mu: Array | None
) -> tuple[Array, RowWeights] | None:
    """Weigh the rows where pairs of classes have fewer rows than columns; else None."""
    grid = points.grid
    if train_rows is None or not isinstance(Z, np.ndarray) or (mu is not None and mu.ndim == 2):
        return None
    of_class = np.sort(np.bincount(train_rows.codes, minlength=grid.n_classes))
    many = of_class[-2:].sum() > FEW_PAIR_ROWS * Z.shape[1]
    if many or grid.n_classes == 2 or grid.multi_class != "ovo":
        return None
    return Z, fitting.row_weights(points.settings, train_rows, mu)


def _blocks_of_alphas(grid: Grid, moments: TwinMoments) -> list[Array]:
    """Cut the alphas so that the planes of each part stay in bounds; those of two classes do."""
    K, d = moments.own.origin.shape
    n_planes = K * (K - 1 if grid.multi_class == "ovo" else 1)
    most = max(1, MOST_NUMBERS // (n_planes * len(grid.Cs) * d)) if K > 2 else len(grid.alphas)
    places = np.arange(len(grid.alphas))
    return [places[start : start + most] for start in range(0, len(places), most)]


def _solve(
    points: KernelGrid, grid: Grid, moments: TwinMoments, pair_rows: tuple[Array, RowWeights] | None
) -> GridPlanes | None:
    """Solve for the planes of all points; None where points must be fitted one by one.

    That is where the training rows lack a class (their model has fewer planes), where a plane
    has no direction, and where columns are too small for an alpha of 0.
    """
    if not (moments.own.weight > 0).all():
        return None
    settings = points.settings
    if not points.grid.alphas.all():
        if points.search.rows.given is not None:
            return None  # the least norm is that of the columns as given
        try:
            fitting.check_size(moments.own)
        except ValueError:
            return None
    moments = fitting.apply_class_weight(settings, moments, points.search.rows.classes)
    axes: Any = grid.Cs, grid.alphas
    same: Any = {"same_scale": settings.curved, "multi_class": grid.multi_class}
    if pair_rows is not None:
        coef, intercept = gram.crisp_grid(*pair_rows, *axes, **same)
    else:
        coef, intercept = core_planes.crisp_grid(moments.own, moments.slack, *axes, **same)
    norms = plane_norms(coef.reshape(-1, coef.shape[-1])).reshape(intercept.shape)
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
    result: SplitScores, points: KernelGrid, m: int, some: Array, tests: Rows, given: Any
) -> None:
    """Fit and score each point of some alphas, as a user would.

    Models are learned from `given` moments and a landmark map, or from rows as they were given,
    with Brier scores. It stops where the scorer fails at the first and the last point.
    """
    grid, scores, errors = points.grid, result.scores[m], 0
    classes = points.search.rows.classes
    indices = [index for index in np.ndindex(grid.shape) if index[1] in some]
    by_rows = isinstance(given, Rows)
    if by_rows:
        given, tests = (replace(part, X=part.original, given=None) for part in (given, tests))
    scores[:, some] = np.nan
    for index in indices if by_rows else [indices[0], *indices[:0:-1]]:
        point = grid.parameters(index) | points.kernel | {"membership": points.memberships[m]}
        model = FuzzyTwinSVC(**points.search.template.get_params(deep=False) | point)
        try:
            if by_rows:
                model.fit(given.X, given.y, given.weight, given.degree)
            else:
                model.fit_moments(given[0], classes, landmark_map=given[1])
        except ValueError as error:
            result.failures.append(str(error))
            continue
        scores[index], failed = _score(points.search.scorer, model, tests)
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
