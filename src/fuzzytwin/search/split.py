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
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.fit import fitting
from fuzzytwin.fit.kernels import LandmarkMap
from fuzzytwin.fit.rows import Rows, encode
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
# Brier scores of grids with no more points than this are computed at once.
FEW_POINTS = 16
# Pairs with fewer rows than this share of the columns are solved in the space of their rows.
FEW_PAIR_ROWS = 0.7

OwnMoments = tuple[ClassMoments, ClassMoments | None]


@dataclass(eq=False)
class SplitScores:
    """Scores of one split at every membership and point of the grid."""

    scores: Array
    planes: list[GridPlanes | None]  # for each membership; None where `brier` is filled
    brier: Array
    phi: LandmarkMap | None = None  # of the training rows; None where planes are linear
    failures: list[str] = field(default_factory=list)
    fit_time: float = 0.0
    score_time: float = 0.0

    def at_alphas(self, some: Array) -> SplitScores:
        """Keep the points of some alphas."""
        return replace(
            self, scores=self.scores[:, :, some], brier=self.brier[:, :, some],
            planes=[found and found.at_alphas(some) for found in self.planes],
        )  # fmt: skip


@dataclass(eq=False)
class KernelGrid:
    """The grid of one kernel and gamma: what all splits share, and the scores of each."""

    kernel: dict[str, Any]  # parameters that all its points have in common, such as gamma
    template: FuzzyTwinSVC  # unfitted, with the parameters that are the same at every point
    settings: FitSettings  # those of the template
    memberships: list[Any]  # as given, one for each place on the first axis of the scores
    grid: Grid  # the other axes
    rows: Rows
    scoring: Any  # the score by name, or a scorer
    scorer: Any
    train_moments: list[OwnMoments]  # empty if each split computes its own
    split_scores: list[SplitScores] = field(default_factory=list)

    def without(self, alphas: Array) -> KernelGrid:
        """Leave out the points of some alphas, which another grid lists."""
        keep = ~np.isin(self.grid.alphas, alphas)
        grid = replace(self.grid, alphas=self.grid.alphas[keep])
        return replace(
            self, grid=grid, split_scores=[split.at_alphas(keep) for split in self.split_scores]
        )

    def points(self) -> list[dict[str, Any]]:
        """Name the parameters of each point, in the order of the scores."""
        points = [self.grid.parameters(index) for index in np.ndindex(self.grid.shape)]
        return [
            {**self.kernel, "membership": membership, **point}
            for membership in self.memberships
            for point in points
        ]

    def model(self, membership: Any, index: tuple[int, ...]) -> FuzzyTwinSVC:
        """Make the unfitted model of one point."""
        point = self.grid.parameters(index) | {"membership": membership}
        return FuzzyTwinSVC(**self.template.get_params(deep=False) | point)

    def brier(self, splits: Splits, wanted: Array) -> Array:
        """Compute the mean Brier scores (n_splits, n_points) at the wanted points."""
        rows, found = self.rows, []
        for (_, test), split in zip(splits, self.split_scores, strict=True):
            brier, asked = split.brier.copy(), wanted.reshape(split.brier.shape)
            features = fitting.features(rows.X, split.phi)
            tests = ScoredRows(rows.X, features, rows.codes, rows.weight, test)
            for m, planes in enumerate(split.planes):
                if planes is not None and asked[m].any():
                    _, losses = hits_and_losses(self.grid, planes, tests, asked[m], hits=False)
                    brier[m] = losses[0] / tests.totals(self.grid.n_classes).sum()
            found.append(brier.ravel())
        return np.array(found)


def moments_of_splits(
    settings: FitSettings, rows: Rows, trains: list[Array]
) -> tuple[ClassMoments, list[OwnMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups), and a split's
    moments are the sum of its parts: nothing is ever subtracted. None where there are too many
    parts, or where soft labels make other moments necessary.
    """
    n, K = len(rows.codes), len(rows.classes)
    if (rows.degree is not None and rows.degree.ndim == 2) or len(trains) > 62:
        return None
    # A smaller integer type is grouped faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(trains) <= 16 else np.int64)
    for i, train in enumerate(trains):
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if np.count_nonzero(inside) != len(train):
            return None  # a row occurs twice in a training set
        signature |= np.left_shift(inside, i, dtype=signature.dtype)
    kinds, part = encode(signature, None)
    d = rows.X.shape[1]
    if len(kinds) > 4 * len(trains) or len(kinds) * K * d * d > MOST_NUMBERS:
        return None
    group_and_class = part.astype(np.min_scalar_type(len(kinds) * K)) * K + rows.codes

    def sums(absolute: bool) -> list[ClassMoments]:
        all_parts = ClassMoments.from_rows(
            rows.X, group_and_class, rows.weight, n_classes=len(kinds) * K, absolute=absolute
        )
        parts = [all_parts.take(np.arange(K) + i * K) for i in range(len(kinds))]
        chosen = [parts] + [
            [part for part, kind in zip(parts, kinds.tolist(), strict=True) if kind >> i & 1]
            for i in range(len(trains))
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # check_moments reports it
            return [ClassMoments.sum([ClassMoments.zeros(K, d), *some]) for some in chosen]

    all_moments, *own = sums(False)
    absolute = sums(True)[1:] if settings.has_widths else [None] * len(own)
    return all_moments, list(zip(own, absolute, strict=True))


def copy_random_state(settings: FitSettings) -> FitSettings:
    """Copy the random state, so that every fit draws what a clone of the estimator would."""
    return replace(settings, random_state=copy.deepcopy(settings.random_state))


def score_split(
    points: KernelGrid, train: Array, test: Array, own: OwnMoments | None
) -> SplitScores:
    """Score every membership and point on one split."""
    rows, grid = points.rows, points.grid
    shape = (len(points.memberships), *grid.shape)
    result = SplitScores(np.empty(shape), [], np.full(shape, np.nan))
    if not (len(test) if rows.weight is None else rows.weight[test].sum()):
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    start = time.perf_counter()
    Z, Z_train, train_rows = rows.X, None, None
    if own is None or points.memberships != [None] or rows.degree is not None:
        train_rows = rows.take(train)
        result.phi = fitting.landmark_map(copy_random_state(points.settings), train_rows)
        Z, Z_train = (fitting.features(X, result.phi) for X in (rows.X, train_rows.X))
        if result.phi is not None and Z.shape[0] * Z.shape[1] <= MOST_FEATURES:
            blocks = map_threads(partial(dense_block, Z), row_slices(*Z.shape))
            Z = np.concatenate(list(blocks))  # once for all memberships
            Z_train = Z[train]
    result.fit_time = time.perf_counter() - start
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, test)
    # The Brier scores of few points cost less than features to compute them from later; those of
    # more than two classes cost little beside their labels.
    few = result.phi is not None and bool(np.prod(grid.shape) <= FEW_POINTS)
    for m, membership in enumerate(points.memberships):
        start = time.perf_counter()
        known, absolute = own or (None, None)
        if train_rows is None:
            assert known is not None
            moments, mu = TwinMoments(known, known, absolute, absolute), None
        else:
            settings = replace(points.settings, membership=check_membership(membership))
            mu, known = fitting.degrees(settings, train_rows, Z_train, known)
            moments = fitting.twin_moments(settings, train_rows, Z_train, mu, known, absolute)
        pair_rows = _pair_rows(points, train_rows, Z_train, mu)
        result.planes.append(None)
        for some in _blocks_of_alphas(grid, moments):
            part = replace(grid, alphas=grid.alphas[some])
            planes = _solve(points, part, moments, pair_rows)
            result.fit_time += time.perf_counter() - start
            start = time.perf_counter()
            if planes is None:
                _score_one_by_one(result, points, m, rows.take(train), rows.take(test))
                break
            scores, brier = grid_scores(
                points.scoring, part, planes, tests, rows.classes, losses=few or grid.n_classes > 2
            )
            if scores is None:
                at = points if part is grid else replace(points, grid=part)
                scores = _score_points(at, membership, moments, result.phi, rows.take(test))
            result.scores[m][:, some] = scores
            if brier is None:
                result.planes[m] = planes
            else:
                result.brier[m][:, some] = brier
            result.score_time += time.perf_counter() - start
            start = time.perf_counter()
    return result


def score_left_out(points: KernelGrid, splits: Splits, groups: Array | None) -> list[SplitScores]:
    """Score every membership and point by planes learned without each row, or without its group.

    Memberships, landmarks and gamma are those of all rows.
    """
    rows, grid, start = points.rows, points.grid, time.perf_counter()
    phi = fitting.landmark_map(copy_random_state(points.settings), rows)
    Z = fitting.features(rows.X, phi)
    fold = np.empty(len(rows), dtype=np.intp)
    for g, (_, test) in enumerate(splits):
        fold[test] = g
    all_rows = np.arange(len(rows))
    tests = ScoredRows(rows.X, Z, rows.codes, rows.weight, all_rows, fold, len(splits))
    total = tests.totals(grid.n_classes)
    scores, briers = np.empty((2, len(splits), len(points.memberships), *grid.shape))
    for m, membership in enumerate(points.memberships):
        settings = replace(points.settings, membership=check_membership(membership))
        mu, own = fitting.degrees(settings, rows, Z)
        moments = fitting.twin_moments(settings, rows, Z, mu, own)
        fitting.check_rivals(settings, moments.slack.weight)
        weights = fitting.row_weights(settings, rows, mu)
        both = fitting.apply_class_weight(settings, moments, rows.classes)
        values = loo_grid(
            Z, weights, both.own, both.slack, grid.Cs, grid.alphas, multi_class=grid.multi_class,
            same_scale=settings.curved, norms="distance" in grid.rules, groups=groups,
        )  # fmt: skip
        hits, losses = add_up(grid, left_out_distances(grid, values, tests), tests)
        scores[:, m] = group_scores(points.scoring, hits, total)
        with np.errstate(invalid="ignore"):  # a fold without weight
            briers[:, m] = losses / total.sum(axis=1).reshape(-1, *(1,) * len(grid.shape))
    spent = (time.perf_counter() - start) / len(splits) / 2
    none: list[Any] = [None] * len(points.memberships)
    return [
        SplitScores(scores[g], none, briers[g], phi, fit_time=spent, score_time=spent)
        for g in range(len(splits))
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
        if points.rows.given is not None:
            return None  # the least norm is that of the columns as given
        try:
            fitting.check_size(moments.own)
        except ValueError:
            return None
    moments = fitting.apply_class_weight(settings, moments, points.rows.classes)
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


def _score_points(
    points: KernelGrid, membership: Any, moments: TwinMoments, phi: LandmarkMap | None, tests: Rows
) -> Array:
    """Score every point; stop if the scorer fails at the first and the last point."""
    scores = np.full(points.grid.shape, np.nan)
    indices = list(np.ndindex(points.grid.shape))
    errors = 0
    for index in [indices[0], *indices[:0:-1]]:
        model = points.model(membership, index)
        model.fit_moments(moments, points.rows.classes, landmark_map=phi)
        scores[index], failed = _score(points.scorer, model, tests)
        errors += failed
        if errors == 2 and index == indices[-1]:
            break
    return scores


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


def _score_one_by_one(
    result: SplitScores, points: KernelGrid, m: int, train_rows: Rows, tests: Rows
) -> None:
    """Fit and score each point as a user would, on rows as they were given."""
    train_rows, tests = (replace(part, X=part.original, given=None) for part in (train_rows, tests))
    classes = points.rows.classes
    truth = tests.codes[:, None] == np.arange(len(classes))
    for index in np.ndindex(points.grid.shape):
        model = points.model(points.memberships[m], index)
        try:
            model.fit(train_rows.X, train_rows.y, train_rows.weight, train_rows.degree)
        except ValueError as error:
            result.scores[m][index] = np.nan
            result.failures.append(str(error))
            continue
        result.scores[m][index], _ = _score(points.scorer, model, tests)
        u = np.zeros(truth.shape)
        u[:, np.searchsorted(classes, model.classes_)] = model.predict_membership(tests.X)
        loss = ((u - truth) ** 2).sum(axis=1)
        result.brier[m][index] = np.average(loss, weights=tests.weight)
