r"""Score a grid by pooled leave-one-out predictions, and say how much such a score would vary.

All predictions are scored together, by the metric itself. A mean over parts of the rows would be
another metric: balanced accuracy, f1 and areas under curves are not means over rows.

The standard error of a pooled score theta is that of the jackknife over units (rows, or groups of
rows that are left out together), where theta_(-g) is the score of all predictions but those of
unit g:

    SE^2 = (G - 1) / G  sum_g (theta_(-g) - mean theta_(-))^2.

A Brier score is a weighted mean of losses, B = sum_i w_i l_i / W, so that the standard error of a
difference D of two of them follows from the losses of the rows directly:

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
from fuzzytwin.twin._cv_split import Search, distances_in_pairs, left_out_in_pairs, score_model
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
    left_out_distances,
    roc_area,
)
from fuzzytwin.twin._loo_systems import loo_grid
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

# A score that no formula knows is computed again without each of so many parts of the units.
MOST_PARTS = 200


class PooledPredictions(FuzzyTwinSVC):
    """The model of one point as a scorer sees it: it predicts each row as if left out.

    A scorer hands over the rows of the table, all of them and in their order.
    """

    memberships_: Array

    def predict_membership(self, X: Any) -> Array:
        """Return the memberships of the rows, each by planes learned without it."""
        if np.shape(X)[0] != len(self.memberships_):
            raise ValueError(
                f"cv='loo' predicts the {len(self.memberships_)} rows of the table at once, not "
                f"{np.shape(X)[0]} of them; give a scoring that scores all rows, or a number of "
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
        """Return u_2 - u_1 of two classes, memberships of more."""
        u = self.predict_membership(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u


@dataclass(frozen=True, eq=False)
class PooledRows:
    """The rows that count (those with weight), with the unit that each is left out with."""

    rows: Rows
    index: Array  # of these rows in the table
    unit: Array  # of each of them, from 0 on
    n_units: int

    @classmethod
    def of(cls, search: Search) -> PooledRows:
        """Find the rows with weight, and number the rows or groups that are left out."""
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
        given = self.rows.weight
        return np.ones(len(self.index)) if given is None else given


def n_units(search: Search) -> int:
    """Count the rows, or groups of rows, that are left out one after the other."""
    return PooledRows.of(search).n_units


def score_left_out(search: Search, grid: Grid) -> SplitScores:
    """Score every membership and point by pooled predictions of planes learned without each row.

    Or without its group. Memberships, landmarks and gamma are those of all rows.
    """
    start, shape = time.perf_counter(), (len(grid.memberships), *grid.shape)
    scores, brier = np.full(shape, np.nan), np.full(shape, np.nan)
    rows = search.rows
    tests = ScoringRows(rows.X, rows.X, rows.codes, rows.weight, np.arange(len(rows)))
    total = tests.totals(grid.n_classes)
    for m in range(len(grid.memberships)):
        if is_confusion_based(search.scoring, total[0], rows.classes):
            hits, losses = accumulate_scores(grid, _distances(search, grid, m), tests)
            scores[m] = group_scores(search.scoring, hits, total)[0]
            brier[m] = losses[0] / total.sum()
        else:
            _score_whole_tables(search, grid, m, scores[m], brier[m])
    spent = (time.perf_counter() - start) / 2
    nothing_kept: list[Any] = [None] * len(grid.memberships)
    return SplitScores(scores, brier, nothing_kept, fit_time=spent, score_time=spent)


def _distances(search: Search, grid: Grid, m: int) -> Iterator[PointDistances]:
    """Compute distances of all rows to planes that were learned without them, of one membership.

    Landmarks and degrees are computed once for a grid and parts of it.
    """
    rows, settings = search.rows, FitSettings.of(search.model(grid.kernel))
    settings = replace(settings, membership=check_membership(grid.memberships[m]))
    if "landmarks" not in grid.kept:
        grid.kept["landmarks"] = fitting.landmark_map(settings, rows)
    phi = grid.kept["landmarks"]
    Z, key = fitting.features(rows.X, phi), id(grid.memberships[m])
    in_pairs = settings.solver == "gram" and left_out_in_pairs(settings, rows, grid.alphas)
    moments = None
    if key not in grid.kept and in_pairs:
        grid.kept[key], _ = fitting.degrees(settings, rows, Z, solver="gram")
    elif key not in grid.kept:
        moments, grid.kept[key] = fitting.degree_moments(settings, rows, phi, Z)
    mu = grid.kept[key]
    weights = fitting.row_weights(settings, rows, mu)
    fitting.check_opposing_weight(settings, weights.totals(weights.slack))
    tests = ScoringRows(rows.X, Z, rows.codes, rows.weight, np.arange(len(rows)))
    if in_pairs:
        return distances_in_pairs(settings, rows, weights, grid, tests, search.groups)
    if moments is None:
        moments = fitting.twin_moments(settings, rows, Z, mu)
    both = fitting.apply_class_weight(settings, moments, rows.classes)
    values = loo_grid(
        Z, weights, both.own, both.slack, grid.Cs, grid.alphas, multi_class=grid.multi_class,
        isotropic=settings.uses_kernel, norms="distance" in grid.rules, groups=search.groups,
    )  # fmt: skip
    return left_out_distances(grid, values, tests)


def _score_whole_tables(search: Search, grid: Grid, m: int, scores: Array, brier: Array) -> None:
    """Score the points of one membership by scores that need the predictions of all rows at once.

    It stops if the scorer fails at the first two points: it would at all others.
    """
    pooled = PooledRows.of(search)
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    codes, weight = pooled.rows.codes, pooled.weight
    quick = search.scoring == "roc_auc" and bool(np.bincount(codes, minlength=2).all())
    quick = quick and grid.n_classes == 2
    n_failed = 0
    for place, u in _whole_memberships(search, grid, m, pooled):
        loss = ((u - np.eye(grid.n_classes)[codes]) ** 2).sum(axis=1)
        brier[place] = np.average(loss, weights=weight)
        if quick:
            scores[place] = roc_area(u[:, 1], codes, weight)
            continue
        if n_failed == 2:
            continue
        model = _predictions(search, points[int(np.ravel_multi_index(place, grid.shape))], u)
        scores[place], failed = score_model(search.scorer, model, pooled.rows)
        n_failed += failed and n_failed < 2


def _whole_memberships(
    search: Search, grid: Grid, m: int, pooled: PooledRows
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield the place of every point of one membership, and memberships of the rows that count.

    Some ridges are held at a time.
    """
    K, n = grid.n_classes, len(search.rows)
    numbers = K * n * len(grid.Cs) * len(grid.rules)
    for some in cut(len(grid.alphas), max(1, MOST_DISTANCES // numbers)):
        part = replace(grid, alphas=grid.alphas[some])
        tables = np.empty((len(part.alphas), len(grid.rules), K, len(grid.Cs), n))
        for (_, alpha, rule), index, a in _distances(search, part, m):
            tables[alpha, rule][..., index] = a if K == 2 else memberships_of(a, K)
        tables = tables[..., pooled.index]
        for place in np.ndindex(part.shape):
            _, alpha, rule, *at = place
            table = tables[alpha, rule]
            u = table[:, at[0]] if K > 2 else memberships_of(table[[0, 1], at], 2)
            yield (0, range(len(grid.alphas))[some][alpha], rule, *at), u.T


def _predictions(search: Search, point: dict[str, Any], u: Array) -> PooledPredictions:
    """Make what a scorer takes for the fitted model of a point."""
    model = PooledPredictions(**search.model(point).get_params(deep=False))
    n_columns = search.rows.original.shape[1]
    set_fitted_attributes(
        model, memberships_=u, classes_=search.rows.classes, n_features_in_=n_columns,
        feature_names_in_=search.rows.names,
    )  # fmt: skip
    return model


@dataclass(frozen=True, eq=False)
class LeftOutPoint:
    """One point: its parameters, and the memberships of the rows that count, each left out."""

    params: dict[str, Any]
    memberships: Array

    @classmethod
    def of(cls, search: Search, grids: list[Grid], point: int) -> LeftOutPoint:
        """Compute the memberships of one point of all grids."""
        for grid in grids:
            size = grid.splits[0].scores.size
            if point < size:
                break
            point -= size
        wanted = np.zeros((len(grid.memberships), *grid.shape), dtype=bool)
        m, *place = np.unravel_index(point, wanted.shape)
        wanted[m][*place] = True
        part, wanted = _part_of(grid, int(m), wanted[m])
        found = _whole_memberships(search, part, 0, PooledRows.of(search))
        u = next(u for at, u in found if wanted[at])
        return cls(grid.points()[point], u)

    def losses(self, pooled: PooledRows) -> Array:
        """Compute the Brier score of each row."""
        truth = np.eye(self.memberships.shape[1])[pooled.rows.codes]
        return np.asarray(((self.memberships - truth) ** 2).sum(axis=1))


def _part_of(grid: Grid, m: int, wanted: Array) -> tuple[Grid, Array]:
    """Return the smallest grid with the wanted points of one membership, and which they are there.

    A point has a C of each of two classes: its values on both axes are kept on both.
    """
    kinds, alphas, rules, *Cs = (np.unique(axis) for axis in np.nonzero(wanted))
    of_C = np.unique(np.concatenate(Cs))
    part = replace(
        grid, alphas=grid.alphas[alphas], rules=tuple(grid.rules[i] for i in rules),
        Cs=grid.Cs[of_C], memberships=[grid.memberships[m]], splits=[],
    )  # fmt: skip
    return part, wanted[np.ix_(kinds, alphas, rules, *[of_C] * len(Cs))]


def standard_error(search: Search, point: LeftOutPoint) -> float:
    """Compute the standard error of a pooled score, by the jackknife over rows or groups."""
    pooled = PooledRows.of(search)
    if pooled.n_units < 2:
        return 0.0
    K, codes, weight = len(search.rows.classes), pooled.rows.codes, pooled.weight
    if is_confusion_based(search.scoring, np.bincount(codes, weight, K), search.rows.classes):
        hit = labels_of(point.memberships) == codes
        cells, size = pooled.unit * K + codes, pooled.n_units * K
        total = np.bincount(cells, weight, size).reshape(-1, K)
        hits = np.bincount(cells, weight * hit, size).reshape(-1, K)
        # Differences of sums leave rounding errors where a class has no other row.
        left, right = (np.maximum(part.sum(axis=0) - part, 0.0) for part in (total, hits))
        left[np.isclose(total, total.sum(axis=0), rtol=1e-12, atol=0.0)] = 0.0
        scores = group_scores(search.scoring, right, left)
    else:
        part_of_row = _parts(pooled, point.memberships)[pooled.unit]
        scores = np.array(
            [
                _score_without(search, point, pooled, part_of_row != part)
                for part in range(min(MOST_PARTS, pooled.n_units))
            ]
        )
    scores = scores[~np.isnan(scores)]
    if len(scores) < 2:
        return 0.0
    G = len(scores)
    return float(np.sqrt((G - 1) / G * np.square(scores - scores.mean()).sum()))


def _score_without(search: Search, point: LeftOutPoint, pooled: PooledRows, kept: Array) -> float:
    """Score the predictions of the rows that are kept; NaN if their classes allow no score."""
    index = np.flatnonzero(kept)
    if len(np.unique(pooled.rows.codes[index])) < len(search.rows.classes):
        return float("nan")
    model = _predictions(search, point.params, point.memberships[index])
    with warnings.catch_warnings():  # the score of all rows has warned
        warnings.simplefilter("ignore")
        return score_model(search.scorer, model, pooled.rows.take(index))[0]


def _parts(pooled: PooledRows, u: Array) -> Array:
    """Deal the units into at most `MOST_PARTS` parts, at random and whatever the order of the rows.

    Rows are sorted by what is known of them, and units by the first of their rows.
    """
    order = np.lexsort((*u.T, pooled.weight, pooled.rows.codes))
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    first = np.full(pooled.n_units, len(order))
    np.minimum.at(first, pooled.unit, place)
    part = np.empty(pooled.n_units, dtype=np.intp)
    shuffled = np.random.default_rng(0).permutation(pooled.n_units)
    part[np.argsort(first)] = shuffled % min(MOST_PARTS, pooled.n_units)
    return part


def brier_gap_errors(
    search: Search, grids: list[Grid], wanted: list[Array], reference: LeftOutPoint
) -> Array:
    """Compute the standard errors of differences of Brier scores to those of a reference.

    Of the wanted points, in their order; each of `wanted` has the shape of a grid's scores.
    """
    pooled = PooledRows.of(search)
    least = np.zeros(len(search.rows))
    least[pooled.index] = reference.losses(pooled)
    mean_least = float(np.average(least[pooled.index], weights=pooled.weight))
    units = np.full(len(search.rows), -1)
    units[pooled.index] = pooled.unit
    weight = np.zeros(len(search.rows))
    weight[pooled.index] = pooled.weight / pooled.weight.sum()
    errors = []
    for grid, asked in zip(grids, wanted, strict=True):
        squares, brier = np.zeros(asked.shape), grid.splits[0].brier
        for m in np.flatnonzero(asked.reshape(len(asked), -1).any(axis=1)).tolist():
            part, here = _part_of(grid, m, asked[m])
            gap = np.zeros(here.shape)
            gap[here] = brier[m][asked[m]] - mean_least
            sums = np.zeros(here.shape)
            for block in _distances(search, part, 0):
                at = np.argwhere(here[block.place]).T
                for some in cut(at.shape[1], max(1, PAIRS_AT_ONCE // len(block.rows))):
                    points = (*block.place, *at[:, some])
                    codes = search.rows.codes[block.rows]
                    loss = _row_losses(block.a, grid.n_classes, codes, at[:, some])
                    loss -= least[block.rows]
                    loss -= gap[points][:, None]
                    loss *= weight[block.rows]
                    sums[points] += _sum_of_squares(loss, units[block.rows], search.groups)
            squares[m][asked[m]] = sums[here]
        errors.append(squares[asked])
    G = pooled.n_units
    return np.sqrt(np.concatenate(errors) * G / max(G - 1, 1))


def _row_losses(a: Array, n_classes: int, codes: Array, at: Array) -> Array:
    """Compute the Brier scores (n_points, m) of rows at some values of C, or pairs of them."""
    if n_classes == 2:
        u = memberships_of(np.stack([a[0, at[0]], a[1, at[1]]]), 2)
        return np.asarray(2 * np.square(np.where(codes == 0, u[1], u[0])))
    u = memberships_of(a[:, at[0]], n_classes)
    u[codes, :, np.arange(len(codes))] -= 1.0
    return np.einsum("kcm,kcm->cm", u, u)


def _sum_of_squares(values: Array, units: Array, groups: Array | None) -> Array:
    """Add up the squares of sums over units, which are whole in a block of rows."""
    if groups is None:
        return np.einsum("pm,pm->p", values, values)
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(units[order]) != 0))
    return np.square(np.add.reduceat(values[:, order], starts, axis=1)).sum(axis=1)
