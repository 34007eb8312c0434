"""One split of a search: its training moments, its grid of planes, its scores."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.threads import each
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import dense_block, row_slices
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.pair_rows import WeighedRows, most_pair_rows
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import LandmarkMap, MappedRows
from fuzzytwin.rows import Rows, encode
from fuzzytwin.search import grid as two_classes
from fuzzytwin.search import many_classes
from fuzzytwin.search.grid import (
    Grid,
    GridPlanes,
    TestRows,
    iterated_grid,
    over_parts,
    solve_grid,
)
from fuzzytwin.search.scores import grid_scores
from fuzzytwin.settings import FitSettings, check_membership

# The parts of all splits together may hold this many numbers.
MOST_NUMBERS = 1 << 26
# Features of this many numbers are kept for all memberships of a split; more are computed again.
MOST_FEATURES = 1 << 24

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


def moments_of_splits(
    settings: FitSettings, rows: Rows, trains: list[Array]
) -> tuple[ClassMoments, list[OwnMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups), and a split's
    moments are the sum of its parts: nothing is ever subtracted. None where there are too many
    parts, or where soft labels make other moments necessary.
    """
    n, K = len(rows), len(rows.classes)
    if (rows.mu is not None and rows.mu.ndim == 2) or len(trains) > 62:
        return None
    # A smaller integer type is grouped faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(trains) <= 16 else np.int64)

    def mark(train: Array) -> Array:
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        return inside

    for i, inside in enumerate(each(mark, trains)):
        if np.count_nonzero(inside) != len(trains[i]):
            return None  # a row occurs twice in a training set
        signature |= np.left_shift(inside, i, dtype=signature.dtype)
    # Group rows by the set of splits that train on them.
    kinds, part = encode(signature, None)
    d = rows.X.shape[1]
    if len(kinds) > 4 * len(trains) or len(kinds) * K * d * d > MOST_NUMBERS:
        return None
    group_and_class = part.astype(np.min_scalar_type(len(kinds) * K)) * K + rows.codes

    def sums(absolute: bool) -> list[ClassMoments]:
        all_parts = ClassMoments.from_rows(
            rows.X, group_and_class, rows.s, n_classes=len(kinds) * K, absolute=absolute
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


# Brier scores of grids with no more points than this are computed at once.
FEW_POINTS = 16
# Pairs with fewer rows than this share of the columns are solved in the space of their rows.
FEW_PAIR_ROWS = 0.7


@dataclass(frozen=True, eq=False)
class Task:
    """What all splits of one kernel and gamma share.

    Parameters
    ----------
    template : FuzzyTwinSVC
        Unfitted, with the parameters that are the same at every point.
    settings : FitSettings
        Those of the template.
    memberships : list
        As given, one for each place on the first axis of the scores.
    grid : Grid
        The other axes.
    rows : Rows
        All rows.
    scoring : str or callable
        The score by name, or a scorer.
    scorer : callable
        scikit-learn's scorer of it.
    """

    template: FuzzyTwinSVC
    settings: FitSettings
    memberships: list[Any]
    grid: Grid
    rows: Rows
    scoring: Any
    scorer: Any


def score_split(task: Task, train: Array, test: Array, own: OwnMoments | None) -> SplitScores:
    """Score every membership and point on one split."""
    rows, grid = task.rows, task.grid
    shape = (len(task.memberships), *grid.shape)
    result = SplitScores(np.empty(shape), [], np.full(shape, np.nan))
    if _weight(rows, test) == 0:
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    if task.settings.solver == "iterative":
        _score_by_iterations(result, task, train, test)
        return result
    start = time.perf_counter()
    moments_known = own is not None and task.memberships == [None] and rows.mu is None
    train_rows = None if moments_known else rows.take(train)
    Z, Z_train = rows.X, None
    if train_rows is not None:
        result.phi = fitting.landmark_map(copy_random_state(task.settings), train_rows)
        Z = _features(rows.X, result.phi)
        lazy = isinstance(Z, MappedRows)
        Z_train = fitting.features(train_rows.X, result.phi)
        Z_train = Z_train if lazy or result.phi is None else Z[train]
    result.fit_time = time.perf_counter() - start
    for m, membership in enumerate(task.memberships):
        start = time.perf_counter()
        moments, mu = _moments(task, membership, train_rows, own, Z_train)
        found = _grid_planes(task, moments, _pair_rows(task, train_rows, Z_train, mu))
        result.fit_time += time.perf_counter() - start
        start = time.perf_counter()
        # The Brier scores of few points cost less than features to compute them from later.
        few = result.phi is not None and np.prod(grid.shape) <= FEW_POINTS
        result.planes.append(None if few else found)
        if found is None:
            _score_one_by_one(result, task, m, rows.take(train), rows.take(test))
        else:
            tests = TestRows(rows.X, Z, rows.codes, rows.s, test)
            scores = None
            if isinstance(task.scoring, str):
                scores = grid_scores(task.scoring, grid, found, tests, rows.classes)
            if scores is None:
                scores = _score_points(task, membership, moments, result.phi, rows.take(test))
            result.scores[m] = scores
            if few:
                result.brier[m] = _mean_brier(grid, found, tests, np.ones(grid.shape, dtype=bool))
        result.score_time += time.perf_counter() - start
    return result


def _score_by_iterations(result: SplitScores, task: Task, train: Array, test: Array) -> None:
    """Score every membership and point on one split by the solver "iterative"."""
    rows, grid = task.rows, task.grid
    train_rows, everything = rows.take(train), np.ones(grid.shape, dtype=bool)
    complete = bool((np.bincount(train_rows.codes, train_rows.s, len(rows.classes)) > 0).all())
    for m, membership in enumerate(task.memberships):
        start = time.perf_counter()
        settings = replace(task.settings, membership=check_membership(membership))
        result.planes.append(None)
        found = None
        if complete and isinstance(task.scoring, str):
            mu = row_fitting.degrees(settings, train_rows, "iterative")
            weighed = row_fitting.plane_rows(settings, train_rows, train_rows.X, mu)
            values, found = iterated_grid(grid, weighed, rows.X[test], settings.tol)
        result.fit_time += time.perf_counter() - start
        start = time.perf_counter()
        scores = None
        if found is not None and found.norms.all():
            weight = None if rows.s is None else rows.s[test]
            tests = TestRows(rows.X, values, rows.codes[test], weight, np.arange(len(test)))
            scores = grid_scores(str(task.scoring), grid, found, tests, rows.classes)
        if scores is None or found is None:
            _score_one_by_one(result, task, m, train_rows, rows.take(test))
        else:
            result.scores[m] = scores
            result.brier[m] = _mean_brier(grid, found, tests, everything)
        result.score_time += time.perf_counter() - start


def copy_random_state(settings: FitSettings) -> FitSettings:
    """Copy the random state, so that every fit draws what a clone of the estimator would."""
    return replace(settings, random_state=copy.deepcopy(settings.random_state))


def class_weights(rows: Rows) -> ClassMoments:
    """Add up the weights of each class: moments of no columns."""
    K = len(rows.classes)
    return replace(
        ClassMoments.zeros(K, 0), weight=np.bincount(rows.codes, rows.s, minlength=K).astype(float)
    )


def _weight(rows: Rows, index: Array) -> float:
    """Add up the weights of some of the rows."""
    return float(len(index) if rows.s is None else rows.s[index].sum())


def split_brier(grid: Grid, rows: Rows, test: Array, done: SplitScores, wanted: Array) -> Array:
    """Compute the mean Brier score of one split's test rows at the wanted points."""
    brier = done.brier.copy()
    features = rows.X if done.phi is None else MappedRows(rows.X, done.phi)
    tests = TestRows(rows.X, features, rows.codes, rows.s, test)
    for m, found in enumerate(done.planes):
        if found is not None and wanted[m].any():
            brier[m] = _mean_brier(grid, found, tests, wanted[m])
    return brier


def _mean_brier(grid: Grid, found: GridPlanes, tests: TestRows, wanted: Array) -> Array:
    """Compute the mean Brier scores of test rows at the wanted points."""
    sum_brier = two_classes.sum_brier if grid.n_classes == 2 else many_classes.sum_brier
    weight = len(tests.index) if tests.weight is None else tests.weight[tests.index].sum()
    return over_parts(sum_brier, grid, found, tests, wanted) / float(weight)


def _features(X: Any, phi: LandmarkMap | None) -> Any:
    """Compute the features of all rows once for all memberships, unless they are too many."""
    mapped = fitting.features(X, phi)
    if phi is None or mapped.shape[0] * mapped.shape[1] > MOST_FEATURES:
        return mapped
    slices = row_slices(*mapped.shape)
    return np.concatenate(list(each(lambda here: dense_block(mapped, here), slices)))


def _moments(
    task: Task, membership: Any, train_rows: Rows | None, own: OwnMoments | None, Z: Any
) -> tuple[TwinMoments, Array | None]:
    """Compute the moments of the training rows with one of the memberships, and the degrees."""
    if train_rows is None:
        assert own is not None
        return TwinMoments(own[0], own[0], own[1], own[1]), None
    settings = replace(task.settings, membership=check_membership(membership))
    known, absolute = own or (None, None)
    mu, known = fitting.degrees(settings, train_rows, Z, known)
    return fitting.twin_moments(settings, train_rows, Z, mu, known, absolute), mu


def _pair_rows(task: Task, train_rows: Rows | None, Z: Any, mu: Array | None) -> WeighedRows | None:
    """Weigh the rows where pairs of classes have fewer rows than columns; else None."""
    few = train_rows is not None and task.grid.multi_class == "ovo" and isinstance(Z, np.ndarray)
    if not few or task.grid.n_classes == 2 or (mu is not None and mu.ndim == 2):
        return None
    assert train_rows is not None
    K, codes = task.grid.n_classes, train_rows.codes
    if most_pair_rows(codes, K) > FEW_PAIR_ROWS * Z.shape[1]:
        return None
    own = np.ones(len(codes)) if train_rows.s is None else train_rows.s
    slack = own if mu is None else own * mu
    own = slack if task.settings.membership_scope == "both" else own
    if task.settings.class_weight is not None:
        weight = class_weights(replace(train_rows, s=own))
        factor = fitting.class_factors(task.settings, weight, task.rows.classes)[codes]
        own, slack = own * factor, slack * factor
    return WeighedRows(Z, codes, own, own if mu is None else slack)


def _grid_planes(
    task: Task, moments: TwinMoments, pair_rows: WeighedRows | None
) -> GridPlanes | None:
    """Solve for the planes of all points; None where points must be fitted one by one.

    That is where the training rows lack a class (their model has fewer planes), where a plane
    has no direction, and where columns are too small for an alpha of 0.
    """
    if not (moments.own.weight > 0).all():
        return None
    if not task.grid.alphas.all():
        if task.rows.given is not None:
            return None  # the least norm is that of the columns as given
        try:
            fitting.check_size(moments.own)
        except ValueError:
            return None
    m = fitting.apply_class_weight(task.settings, moments, task.rows.classes)
    found = solve_grid(
        task.grid, m.own, m.slack, m.absolute_own, m.absolute_slack,
        one_unit=task.settings.curved, pair_rows=pair_rows,
    )  # fmt: skip
    return found if found.norms.all() else None


def _model_at(task: Task, membership: Any, index: tuple[int, ...]) -> FuzzyTwinSVC:
    """Make the unfitted model of one point."""
    return FuzzyTwinSVC(
        **task.template.get_params(deep=False)
        | task.grid.parameters(index)
        | {"membership": membership}
    )


def _score_points(
    task: Task, membership: Any, moments: TwinMoments, phi: LandmarkMap | None, test_rows: Rows
) -> Array:
    """Score every point; stop if the scorer fails at the first and the last point."""
    scores = np.full(task.grid.shape, np.nan)
    indices = list(np.ndindex(task.grid.shape))
    errors = 0
    for index in [indices[0], *indices[:0:-1]]:
        model = _model_at(task, membership, index)
        model.fit_moments(moments, task.rows.classes, landmark_map=phi)
        scores[index], failed = _score(task.scorer, model, test_rows)
        errors += failed
        if errors == 2 and index == indices[-1]:
            break
    return scores


def _score(scorer: Any, model: FuzzyTwinSVC, test_rows: Rows) -> tuple[float, bool]:
    """Score a model, with weights where they are given; NaN with a warning where that fails."""
    weights = {} if test_rows.s is None else {"sample_weight": test_rows.s}
    try:
        score = scorer(model, test_rows.X, test_rows.y, **weights)
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
    result: SplitScores, task: Task, m: int, train_rows: Rows, test_rows: Rows
) -> None:
    """Fit and score each point as a user would, on rows as they were given."""
    train_rows, test_rows = (replace(r, X=r.original, given=None) for r in (train_rows, test_rows))
    classes = task.rows.classes
    truth = test_rows.codes[:, None] == np.arange(len(classes))
    for index in np.ndindex(task.grid.shape):
        model = _model_at(task, task.memberships[m], index)
        try:
            model.fit(train_rows.X, train_rows.y, train_rows.s, train_rows.mu)
        except ValueError as error:
            result.scores[m][index] = np.nan
            result.failures.append(str(error))
            continue
        result.scores[m][index], _ = _score(task.scorer, model, test_rows)
        u = np.zeros(truth.shape)
        known = np.searchsorted(classes, model.classes_)
        u[:, known] = model.predict_membership(test_rows.X)
        loss = ((u - truth) ** 2).sum(axis=1)
        result.brier[m][index] = np.average(loss, weights=test_rows.s)
