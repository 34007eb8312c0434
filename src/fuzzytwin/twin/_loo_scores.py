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

from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import block_slices
from fuzzytwin.core.distances import (
    distance_ratios,
    labels_of,
    memberships_of,
    plane_norms,
    plane_ratio,
    plane_values,
)
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._folds import score_points, score_predictions
from fuzzytwin.twin._grid import (
    PAIRS_AT_ONCE,
    Grid,
    PointDistances,
    SplitScores,
    accumulate_scores,
    alpha_blocks,
    class_totals,
    is_confusion_based,
    loo_distances,
    point_memberships,
    score_from_hits,
)
from fuzzytwin.twin._loo import row_spaces
from fuzzytwin.twin._loo_systems import loo_grid
from fuzzytwin.twin._make_grid import MAX_NUMBERS, Search, use_pairwise_loo
from fuzzytwin.twin._settings import FitSettings

# For scores without a formula, the jackknife is grouped: it leaves out this many parts at most.
MAX_PARTS = 200


def score_by_loo(search: Search, grid: Grid) -> SplitScores:
    """Score every membership and point by pooled leave-one-out predictions.

    With groups, whole groups are left out. Memberships, landmarks and gamma are computed from all
    rows.
    """
    start = time.perf_counter()
    rows = search.rows
    shape = (len(grid.memberships), *grid.shape)
    scores = np.full(shape, np.nan)
    brier = np.full(shape, np.nan)
    total = class_totals(rows.codes, rows.weight, grid.n_classes)
    for m in range(len(grid.memberships)):
        if is_confusion_based(search.scoring, total, rows.classes):
            blocks = _loo_distances(search, grid, m)
            hits, losses = accumulate_scores(grid, blocks, rows.codes, rows.weight)
            scores[m] = score_from_hits(search.scoring, hits, total)
            brier[m] = losses / total.sum()
            continue
        for alphas in alpha_blocks(grid, len(rows)):
            part = replace(grid, alphas=grid.alphas[alphas])
            blocks = _loo_distances(search, part, m)
            score_points(
                search, part, m, blocks, search.original, scores[m, alphas], brier[m, alphas]
            )
    half_time = (time.perf_counter() - start) / 2
    no_planes: list[Any] = [None] * len(grid.memberships)
    return SplitScores(scores, brier, no_planes, fit_time=half_time, score_time=half_time)


def n_units(rows: Rows) -> int:
    """Count the rows, or groups of rows, that are held out in turn."""
    return len(rows) if rows.groups is None else int(rows.groups.max()) + 1


def _unit_of_row(rows: Rows) -> Array:
    """Return the number of the row, or of its group, for each row."""
    return np.arange(len(rows)) if rows.groups is None else rows.groups


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
    pairwise = use_pairwise_loo(settings, rows, grid.alphas)
    moments = None
    if key not in grid.cache and pairwise:
        grid.cache[key], _ = fitting.degrees(settings, search.original, Z, solver="gram")
    elif key not in grid.cache:
        moments, grid.cache[key] = fitting.degree_moments(settings, search.original, phi, Z)
    mu = grid.cache[key]
    weights = fitting.row_weights(settings, rows, mu)
    fitting.check_opposing_weight(settings, weights.totals(weights.slack))
    if pairwise:
        return _distances_in_pairs(settings, rows, weights, grid)
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
        groups=rows.groups,
    )
    return loo_distances(grid, values, rows.codes)


def _distances_in_pairs(
    settings: FitSettings, rows: Rows, weights: RowWeights, grid: Grid
) -> Iterator[PointDistances]:
    """Compute leave-one-out distances, one pair of classes at a time, without keeping planes.

    By `distances.couple_pairwise`, the membership in class k is proportional to 1 / s_k, with
    s_k = 1 + sum over j of (a_kj / a_jk)^3. As s_k is a sum over pairs, it is used as the distance.
    """
    n = len(rows)
    K = grid.n_classes
    order = np.argsort(rows.codes, kind="stable")
    step = max(1, MAX_NUMBERS // (K * n * len(grid.Cs) * len(grid.rules)))
    for alpha_block in block_slices(len(grid.alphas), step):
        alphas = grid.alphas[alpha_block]
        sums = np.ones((len(alphas), len(grid.rules), K, len(grid.Cs), n))
        for space in row_spaces(settings, rows, weights):
            assert space.pair is not None
            w, b = space.crisp_grid(grid.Cs, alphas)
            f = np.abs(plane_values(rows.X, w.reshape(-1, w.shape[-1]), b.ravel())).T
            f = f.reshape(*b.shape, n)
            size = np.tile(plane_norms(w)[..., None], n)
            blocks = loo_grid(
                space.features.Z,
                space.weights,
                space.own,
                space.slack,
                grid.Cs,
                alphas,
                norms="distance" in grid.rules,
                groups=space.groups,
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
            grid_index = (range(len(grid.alphas))[alpha_block][i], r)
            yield PointDistances(grid_index, order, sums[i, r][..., order])


@dataclass(frozen=True, eq=False)
class LooPoint:
    """One point: its parameters, and the leave-one-out memberships of all rows."""

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
        selected = np.zeros((len(grid.memberships), *grid.shape), dtype=bool)
        m, *index_in_grid = np.unravel_index(point, selected.shape)
        selected[m][*index_in_grid] = True
        part, selected = _smallest_part(grid, int(m), selected[m])
        blocks = _loo_distances(search, part, 0)
        candidates = point_memberships(part, blocks, len(search.rows))
        u = next(u for index, u in candidates if selected[index])
        return cls(grid.points()[point], u)

    def losses(self, codes: Array) -> Array:
        """Compute the Brier score of each row."""
        truth = np.eye(self.memberships.shape[1])[codes]
        return np.asarray(((self.memberships - truth) ** 2).sum(axis=1))


def _smallest_part(grid: Grid, m: int, selected: Array) -> tuple[Grid, Array]:
    """Return the smallest grid that contains the selected points of one membership, and their mask.

    The two C of a point of two classes come from one list, so that both axes get both values.
    """
    alphas, rules, *Cs = (np.unique(axis) for axis in np.nonzero(selected))
    all_Cs = np.unique(np.concatenate(Cs))
    part = replace(
        grid,
        alphas=grid.alphas[alphas],
        rules=tuple(grid.rules[i] for i in rules),
        Cs=grid.Cs[all_Cs],
        memberships=[grid.memberships[m]],
        splits=[],
    )
    return part, selected[np.ix_(alphas, rules, *[all_Cs] * len(Cs))]


def standard_error(search: Search, point: LooPoint) -> float:
    """Compute the standard error of a pooled score, by the jackknife over rows or groups."""
    rows = search.rows
    G = n_units(rows)
    if G < 2:
        return 0.0
    K = len(rows.classes)
    codes = rows.codes.astype(np.intp)
    weight = rows.weights
    unit = _unit_of_row(rows)
    if is_confusion_based(search.scoring, class_totals(codes, weight, K), rows.classes):
        is_correct = labels_of(point.memberships) == codes
        cells = codes * G + unit
        total = np.bincount(cells, weight, K * G).reshape(K, G)
        hits = np.bincount(cells, weight * is_correct, K * G).reshape(K, G)
        all_rows = total.sum(axis=1, keepdims=True)
        other_total = np.maximum(all_rows - total, 0.0)
        other_hits = np.maximum(hits.sum(axis=1, keepdims=True) - hits, 0.0)
        # If a class has rows in one unit only, the difference is a rounding error, not 0.
        other_total[np.isclose(total, all_rows, rtol=1e-12, atol=0.0)] = 0.0
        scores = score_from_hits(search.scoring, other_hits, other_total)
    else:
        n_parts = min(MAX_PARTS, G)
        part_of_row = _jackknife_parts(rows, point.memberships)[unit]
        kept = [np.flatnonzero(part_of_row != part) for part in range(n_parts)]
        scores = np.array([_score_subset(search, point, index) for index in kept])
    scores = scores[~np.isnan(scores)]
    if len(scores) < 2:
        return 0.0
    n = len(scores)
    return float(np.sqrt((n - 1) / n * np.square(scores - scores.mean()).sum()))


def _score_subset(search: Search, point: LooPoint, index: Array) -> float:
    """Score the predictions of the rows `index`, or return NaN if a class is missing."""
    subset = search.original.take(index)
    if len(np.unique(subset.codes)) < len(subset.classes):
        return float("nan")
    with warnings.catch_warnings():  # the score of all rows has warned already
        warnings.simplefilter("ignore")
        return score_predictions(search, point.params, point.memberships[index], subset)


def _jackknife_parts(rows: Rows, u: Array) -> Array:
    """Assign the units at random to at most `MAX_PARTS` parts, independent of the row order.

    Rows are ranked by class, weight and memberships, and units by the first of their rows.
    """
    G = n_units(rows)
    order = np.lexsort((*u.T, rows.weights, rows.codes))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    unit_rank = np.full(G, len(order))
    np.minimum.at(unit_rank, _unit_of_row(rows), rank)
    part = np.empty(G, dtype=np.intp)
    shuffled = np.random.default_rng(0).permutation(G)
    part[np.argsort(unit_rank)] = shuffled % min(MAX_PARTS, G)
    return part


def brier_gap_errors(
    search: Search, grids: list[Grid], selected: list[Array], reference: LooPoint
) -> Array:
    """Compute standard errors of the differences in Brier score between points and a reference.

    They are returned for the selected points, in their order. `selected` has a mask for each grid,
    of the shape of its scores.
    """
    rows = search.rows
    weight = rows.weights / rows.weights.sum()
    reference_loss = reference.losses(rows.codes)
    reference_brier = float(weight @ reference_loss)
    errors = []
    for grid, mask in zip(grids, selected, strict=True):
        squares = np.zeros(mask.shape)
        brier = grid.splits[0].brier
        for m in np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)).tolist():
            part, part_mask = _smallest_part(grid, m, mask[m])
            gap = np.zeros(part_mask.shape)
            gap[part_mask] = brier[m][mask[m]] - reference_brier
            sums = np.zeros(part_mask.shape)
            for block in _loo_distances(search, part, 0):
                C_indices = np.argwhere(part_mask[block.grid_index]).T
                codes = rows.codes[block.rows]
                step = max(1, PAIRS_AT_ONCE // len(block.rows))
                for point_block in block_slices(C_indices.shape[1], step):
                    C_index = C_indices[:, point_block]
                    points = (*block.grid_index, *C_index)
                    loss = _row_losses(block.a, grid.n_classes, codes, C_index)
                    loss -= reference_loss[block.rows]
                    loss -= gap[points][:, None]
                    loss *= weight[block.rows]
                    sums[points] += _sum_of_squares(loss, rows, block.rows)
            squares[m][mask[m]] = sums[part_mask]
        errors.append(squares[mask])
    G = n_units(rows)
    return np.sqrt(np.concatenate(errors) * G / max(G - 1, 1))


def _row_losses(a: Array, n_classes: int, codes: Array, C_index: Array) -> Array:
    """Compute the Brier losses (n_points, m) of rows at the given C, or pairs of C."""
    if n_classes == 2:
        u = memberships_of(np.stack([a[0, C_index[0]], a[1, C_index[1]]]), 2)
        return np.asarray(2 * np.square(np.where(codes == 0, u[1], u[0])))
    u = memberships_of(a[:, C_index[0]], n_classes)
    u[codes, :, np.arange(len(codes))] -= 1.0
    return np.einsum("kcm,kcm->cm", u, u)


def _sum_of_squares(values: Array, rows: Rows, index: Array) -> Array:
    """Add up the squared sums of units. A block of rows contains only whole units."""
    if rows.groups is None:
        return np.einsum("pm,pm->p", values, values)
    groups = rows.groups[index]
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(groups[order]) != 0))
    return np.square(np.add.reduceat(values[:, order], starts, axis=1)).sum(axis=1)
