r"""Score a grid by pooled leave-one-out predictions, and estimate standard errors of the scores.

All predictions are scored together, by the metric itself. A mean over parts of the rows would be
another metric, since balanced accuracy, f1 and areas under curves are not means over rows.

    g = 1 .. G      units: rows, or groups of rows that are held out together
    theta           score of all predictions, and theta_(-g) without those of unit g
    w_i, W          weight of row i, and the sum of all weights
    l_i, l'_i       Brier losses of row i at two points of the grid
    B, D            Brier score sum_i w_i l_i / W, and the difference of two of them

The standard error of a score is that of the jackknife (Efron and Tibshirani, 1993, chapter 11):

    SE^2 = (G - 1) / G  sum_g (theta_(-g) - mean theta_(-))^2.

That of a difference of Brier scores, which are weighted means, follows directly from the losses:

    SE^2 = G / (G - 1)  sum_g (sum_(i in g) w_i (l_i - l'_i - D))^2 / W^2.

Neither depends on the order of the rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._params import set_fitted_attributes
from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import cut
from fuzzytwin.core.distances import labels_of, memberships_of
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._cv_split import Search, distances_in_pairs, score_model, use_pairwise_loo
from fuzzytwin.twin._grid import (
    MOST_DISTANCES,
    PAIRS_AT_ONCE,
    Grid,
    PointDistances,
    ScoringRows,
    SplitScores,
    accumulate_scores,
    group_scores,
    is_confusion_based,
    loo_distances,
    roc_area,
)
from fuzzytwin.twin._loo_systems import loo_grid
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

# For scores without a formula, the jackknife is grouped: it leaves out this many parts at most.
MOST_PARTS = 200


class PooledPredictions(FuzzyTwinSVC):
    """Model of one point that returns stored leave-one-out predictions to a scorer.

    The scorer must pass all rows of the table, in their order.
    """

    memberships_: Array

    def predict_membership(self, X: Any) -> Array:
        """Return the leave-one-out memberships of all rows."""
        if np.shape(X)[0] != len(self.memberships_):
            raise ValueError(
                f"cv='loo' predicts the {len(self.memberships_)} rows of the table at once, not "
                f"{np.shape(X)[0]}; give a scoring that scores all rows, or a number of "
                "folds as cv."
            )
        return self.memberships_

    def predict(self, X: Any) -> Array:
        """Return the labels of greatest membership."""
        return np.asarray(self.classes_[labels_of(self.predict_membership(X))])

    def predict_proba(self, X: Any) -> Array:
        """Return the memberships."""
        return self.predict_membership(X)

    def decision_function(self, X: Any) -> Array:
        """Return u_2 - u_1 for two classes, or the memberships for more."""
        u = self.predict_membership(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u


@dataclass(frozen=True, eq=False)
class PooledRows:
    """Rows with positive weight, and the unit (row or group) that each is held out with."""

    rows: Rows
    index: Array  # indices of these rows in the table
    unit: Array  # unit of each row, numbered from 0
    n_units: int

    @classmethod
    def of(cls, search: Search) -> PooledRows:
        """Find the rows with positive weight, and number their units."""
        rows = search.rows
        index = np.arange(len(rows)) if rows.weight is None else np.flatnonzero(rows.weight)
        unit = np.arange(len(index))
        if search.groups is not None:
            unit = np.unique(search.groups[index], return_inverse=True)[1]
        kept = rows.take(index)
        return cls(replace(kept, X=kept.original, given=None), index, unit, int(unit.max()) + 1)

    @property
    def weight(self) -> Array:
        """Return the weights of the rows, 1 if none were given."""
        weight = self.rows.weight
        return np.ones(len(self.index)) if weight is None else weight


def n_units(search: Search) -> int:
    """Count the rows, or groups of rows, that are held out in turn."""
    return PooledRows.of(search).n_units


def score_by_loo(search: Search, grid: Grid) -> SplitScores:
    """Score every membership and point by pooled leave-one-out predictions.

    With groups, leave-one-group-out. Memberships, landmarks and gamma are computed from all rows.
    """
    start = time.perf_counter()
    shape = (len(grid.memberships), *grid.shape)
    scores = np.full(shape, np.nan)
    brier = np.full(shape, np.nan)
    rows = search.rows
    tests = ScoringRows(rows.X, rows.X, rows.codes, rows.weight, np.arange(len(rows)))
    total = tests.totals(grid.n_classes)
    for m in range(len(grid.memberships)):
        if is_confusion_based(search.scoring, total[0], rows.classes):
            hits, losses = accumulate_scores(grid, _loo_distances(search, grid, m), tests)
            scores[m] = group_scores(search.scoring, hits, total)[0]
            brier[m] = losses[0] / total.sum()
        else:
            _score_point_by_point(search, grid, m, scores[m], brier[m])
    half_time = (time.perf_counter() - start) / 2
    no_planes: list[Any] = [None] * len(grid.memberships)
    return SplitScores(scores, brier, no_planes, fit_time=half_time, score_time=half_time)


def _loo_distances(search: Search, grid: Grid, m: int) -> Iterator[PointDistances]:
    """Compute leave-one-out distances of all rows to the planes of one membership.

    Landmarks and degrees are cached in the grid, which shares them with its parts.
    """
    rows = search.rows
    settings = FitSettings.of(search.model(grid.kernel))
    settings = replace(settings, membership=check_membership(grid.memberships[m]))
    if "landmarks" not in grid.cache:
        grid.cache["landmarks"] = fitting.landmark_map(settings, rows)
    phi = grid.cache["landmarks"]
    Z = fitting.features(rows.X, phi)
    key = id(grid.memberships[m])
    in_pairs = settings.solver == "gram" and use_pairwise_loo(settings, rows, grid.alphas)
    moments = None
    if key not in grid.cache and in_pairs:
        grid.cache[key], _ = fitting.degrees(settings, rows, Z, solver="gram")
    elif key not in grid.cache:
        moments, grid.cache[key] = fitting.degree_moments(settings, rows, phi, Z)
    mu = grid.cache[key]
    weights = fitting.row_weights(settings, rows, mu)
    fitting.check_opposing_weight(settings, weights.totals(weights.slack))
    tests = ScoringRows(rows.X, Z, rows.codes, rows.weight, np.arange(len(rows)))
    if in_pairs:
        return distances_in_pairs(settings, rows, weights, grid, tests, search.groups)
    if moments is None:
        moments = fitting.twin_moments(settings, rows, Z, mu)
    weighted = fitting.apply_class_weight(settings, moments, rows.classes)
    values = loo_grid(
        Z,
        weights,
        weighted.own,
        weighted.slack,
        grid.Cs,
        grid.alphas,
        multi_class=grid.multi_class,
        isotropic=settings.uses_kernel,
        norms="distance" in grid.rules,
        groups=search.groups,
    )
    return loo_distances(grid, values, tests)


def _score_point_by_point(search: Search, grid: Grid, m: int, scores: Array, brier: Array) -> None:
    """Score the points of one membership by metrics that need the predictions of all rows.

    The scorer is not called again after two failures, since it would fail at all other points.
    """
    pooled = PooledRows.of(search)
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    codes = pooled.rows.codes
    weight = pooled.weight
    by_roc_area = search.scoring == "roc_auc" and bool(np.bincount(codes, minlength=2).all())
    by_roc_area = by_roc_area and grid.n_classes == 2
    n_failed = 0
    for place, u in _point_memberships(search, grid, m, pooled):
        loss = ((u - np.eye(grid.n_classes)[codes]) ** 2).sum(axis=1)
        brier[place] = np.average(loss, weights=weight)
        if by_roc_area:
            scores[place] = roc_area(u[:, 1], codes, weight)
            continue
        if n_failed == 2:
            continue
        model = _predictions(search, points[int(np.ravel_multi_index(place, grid.shape))], u)
        scores[place], failed = score_model(search.scorer, model, pooled.rows)
        n_failed += failed and n_failed < 2


def _point_memberships(
    search: Search, grid: Grid, m: int, pooled: PooledRows
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield the index of every point of one membership, and its memberships of the pooled rows.

    Alphas are processed in blocks, to limit memory.
    """
    K = grid.n_classes
    n = len(search.rows)
    size_per_alpha = K * n * len(grid.Cs) * len(grid.rules)
    for alpha_block in cut(len(grid.alphas), max(1, MOST_DISTANCES // size_per_alpha)):
        part = replace(grid, alphas=grid.alphas[alpha_block])
        tables = np.empty((len(part.alphas), len(grid.rules), K, len(grid.Cs), n))
        for (_, alpha, rule), index, a in _loo_distances(search, part, m):
            tables[alpha, rule][..., index] = a if K == 2 else memberships_of(a, K)
        tables = tables[..., pooled.index]
        for place in np.ndindex(part.shape):
            _, alpha, rule, *C_index = place
            table = tables[alpha, rule]
            u = memberships_of(table[[0, 1], C_index], 2) if K == 2 else table[:, C_index[0]]
            yield (0, range(len(grid.alphas))[alpha_block][alpha], rule, *C_index), u.T


def _predictions(search: Search, point: dict[str, Any], u: Array) -> PooledPredictions:
    """Make a fitted model of a point from its leave-one-out memberships, for a scorer."""
    model = PooledPredictions(**search.model(point).get_params(deep=False))
    set_fitted_attributes(
        model,
        memberships_=u,
        classes_=search.rows.classes,
        n_features_in_=search.rows.original.shape[1],
        feature_names_in_=search.rows.names,
    )
    return model


@dataclass(frozen=True, eq=False)
class LooPoint:
    """One point: its parameters, and the leave-one-out memberships of the pooled rows."""

    params: dict[str, Any]
    memberships: Array

    @classmethod
    def of(cls, search: Search, grids: list[Grid], point: int) -> LooPoint:
        """Compute the memberships of a point, which is numbered through all grids."""
        for grid in grids:
            size = grid.splits[0].scores.size
            if point < size:
                break
            point -= size
        wanted = np.zeros((len(grid.memberships), *grid.shape), dtype=bool)
        m, *place = np.unravel_index(point, wanted.shape)
        wanted[m][*place] = True
        part, wanted = _part_of(grid, int(m), wanted[m])
        candidates = _point_memberships(search, part, 0, PooledRows.of(search))
        u = next(u for index, u in candidates if wanted[index])
        return cls(grid.points()[point], u)

    def losses(self, pooled: PooledRows) -> Array:
        """Compute the Brier score of each row."""
        truth = np.eye(self.memberships.shape[1])[pooled.rows.codes]
        return np.asarray(((self.memberships - truth) ** 2).sum(axis=1))


def _part_of(grid: Grid, m: int, wanted: Array) -> tuple[Grid, Array]:
    """Return the smallest grid that contains the wanted points of one membership, and their mask.

    The two C of a point of two classes come from one list, so that both axes get both values.
    """
    kinds, alphas, rules, *Cs = (np.unique(axis) for axis in np.nonzero(wanted))
    all_Cs = np.unique(np.concatenate(Cs))
    part = replace(
        grid,
        alphas=grid.alphas[alphas],
        rules=tuple(grid.rules[i] for i in rules),
        Cs=grid.Cs[all_Cs],
        memberships=[grid.memberships[m]],
        splits=[],
    )
    return part, wanted[np.ix_(kinds, alphas, rules, *[all_Cs] * len(Cs))]


def standard_error(search: Search, point: LooPoint) -> float:
    """Compute the standard error of a pooled score, by the jackknife over rows or groups."""
    pooled = PooledRows.of(search)
    if pooled.n_units < 2:
        return 0.0
    K = len(search.rows.classes)
    codes = pooled.rows.codes
    weight = pooled.weight
    if is_confusion_based(search.scoring, np.bincount(codes, weight, K), search.rows.classes):
        is_correct = labels_of(point.memberships) == codes
        cells = pooled.unit * K + codes
        n_cells = pooled.n_units * K
        total = np.bincount(cells, weight, n_cells).reshape(-1, K)
        hits = np.bincount(cells, weight * is_correct, n_cells).reshape(-1, K)
        other_total = np.maximum(total.sum(axis=0) - total, 0.0)
        other_hits = np.maximum(hits.sum(axis=0) - hits, 0.0)
        # If a class has rows in one unit only, the difference is a rounding error, not 0.
        other_total[np.isclose(total, total.sum(axis=0), rtol=1e-12, atol=0.0)] = 0.0
        scores = group_scores(search.scoring, other_hits, other_total)
    else:
        part_of_row = _jackknife_parts(pooled, point.memberships)[pooled.unit]
        scores = np.array(
            [
                _score_subset(search, point, pooled, part_of_row != part)
                for part in range(min(MOST_PARTS, pooled.n_units))
            ]
        )
    scores = scores[~np.isnan(scores)]
    if len(scores) < 2:
        return 0.0
    G = len(scores)
    return float(np.sqrt((G - 1) / G * np.square(scores - scores.mean()).sum()))


def _score_subset(search: Search, point: LooPoint, pooled: PooledRows, mask: Array) -> float:
    """Score the predictions of the rows of a mask; NaN if they lack a class."""
    index = np.flatnonzero(mask)
    if len(np.unique(pooled.rows.codes[index])) < len(search.rows.classes):
        return float("nan")
    model = _predictions(search, point.params, point.memberships[index])
    with warnings.catch_warnings():  # the score of all rows has warned already
        warnings.simplefilter("ignore")
        return score_model(search.scorer, model, pooled.rows.take(index))[0]


def _jackknife_parts(pooled: PooledRows, u: Array) -> Array:
    """Assign the units at random to at most `MOST_PARTS` parts, independent of the row order.

    Rows are ranked by class, weight and memberships, and units by the first of their rows.
    """
    order = np.lexsort((*u.T, pooled.weight, pooled.rows.codes))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    unit_rank = np.full(pooled.n_units, len(order))
    np.minimum.at(unit_rank, pooled.unit, rank)
    part = np.empty(pooled.n_units, dtype=np.intp)
    shuffled = np.random.default_rng(0).permutation(pooled.n_units)
    part[np.argsort(unit_rank)] = shuffled % min(MOST_PARTS, pooled.n_units)
    return part


def brier_gap_errors(
    search: Search, grids: list[Grid], wanted: list[Array], reference: LooPoint
) -> Array:
    """Compute standard errors of the differences in Brier score between points and a reference.

    They are returned for the wanted points, in their order. Each of the masks `wanted` has the
    shape of a grid's scores.
    """
    pooled = PooledRows.of(search)
    reference_loss = np.zeros(len(search.rows))
    reference_loss[pooled.index] = reference.losses(pooled)
    reference_brier = float(np.average(reference_loss[pooled.index], weights=pooled.weight))
    units = np.full(len(search.rows), -1)
    units[pooled.index] = pooled.unit
    weight = np.zeros(len(search.rows))
    weight[pooled.index] = pooled.weight / pooled.weight.sum()
    errors = []
    for grid, mask in zip(grids, wanted, strict=True):
        squares = np.zeros(mask.shape)
        brier = grid.splits[0].brier
        for m in np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)).tolist():
            part, part_mask = _part_of(grid, m, mask[m])
            gap = np.zeros(part_mask.shape)
            gap[part_mask] = brier[m][mask[m]] - reference_brier
            sums = np.zeros(part_mask.shape)
            for block in _loo_distances(search, part, 0):
                C_indices = np.argwhere(part_mask[block.place]).T
                codes = search.rows.codes[block.rows]
                step = max(1, PAIRS_AT_ONCE // len(block.rows))
                for point_block in cut(C_indices.shape[1], step):
                    C_index = C_indices[:, point_block]
                    points = (*block.place, *C_index)
                    loss = _row_losses(block.a, grid.n_classes, codes, C_index)
                    loss -= reference_loss[block.rows]
                    loss -= gap[points][:, None]
                    loss *= weight[block.rows]
                    sums[points] += _sum_of_squares(loss, units[block.rows], search.groups)
            squares[m][mask[m]] = sums[part_mask]
        errors.append(squares[mask])
    G = pooled.n_units
    return np.sqrt(np.concatenate(errors) * G / max(G - 1, 1))


def _row_losses(a: Array, n_classes: int, codes: Array, C_index: Array) -> Array:
    """Compute the Brier losses (n_points, m) of rows at the given C, or pairs of C."""
    if n_classes == 2:
        u = memberships_of(np.stack([a[0, C_index[0]], a[1, C_index[1]]]), 2)
        return np.asarray(2 * np.square(np.where(codes == 0, u[1], u[0])))
    u = memberships_of(a[:, C_index[0]], n_classes)
    u[codes, :, np.arange(len(codes))] -= 1.0
    return np.einsum("kcm,kcm->cm", u, u)


def _sum_of_squares(values: Array, units: Array, groups: Array | None) -> Array:
    """Add up the squared sums of units; a block of rows contains whole units only."""
    if groups is None:
        return np.einsum("pm,pm->p", values, values)
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(units[order]) != 0))
    return np.square(np.add.reduceat(values[:, order], starts, axis=1)).sum(axis=1)
