"""``cv="loo"``: every point of a grid scored on every row, by planes learned without that row.

Rows are put into ten groups with equal shares of the classes; the scores of a group take the
place of those of a fold, so that choices know how far scores scatter.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin import fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core.leave_one_out import combined
from fuzzytwin.core.loo_grid import LooGridValues, loo_grid
from fuzzytwin.held_out import loo_weights
from fuzzytwin.rows import Rows
from fuzzytwin.search.grid import Grid
from fuzzytwin.search.splits import SplitScores, Task, copy_random_state
from fuzzytwin.settings import check_membership

GROUPS = 10
SCORES = ("accuracy", "balanced_accuracy")


def loo_groups(codes: Array) -> list[tuple[Array, Array]]:
    """Put rows into groups, as splits that train on all rows and test on a group."""
    order = np.argsort(codes, kind="stable")
    group = np.empty(len(codes), dtype=np.intp)
    group[order] = np.arange(len(codes)) % GROUPS
    everything = np.arange(len(codes))
    return [(everything, np.flatnonzero(group == g)) for g in range(min(GROUPS, len(codes)))]


def check_loo(scoring: Any, kinds: tuple[str, ...], solver: str) -> None:
    """Refuse what a search by leave-one-out cannot do."""
    if scoring not in SCORES:
        raise ValueError(
            f"cv='loo' does not work with scoring={scoring!r}; use None, 'balanced_accuracy', or a "
            "number of folds as cv."
        )
    if "fuzzy" in kinds:
        raise ValueError(
            "cv='loo' does not work with planes='fuzzy', whose widths have no closed form without "
            "a row; use planes='crisp', or a number of folds as cv."
        )
    if solver == "iterative":
        raise ValueError(
            "cv='loo' does not work with solver='iterative'; use a number of folds as cv."
        )


def score_loo(task: Task, groups: list[tuple[Array, Array]]) -> list[SplitScores]:
    """Score every membership and point by leave-one-out, group by group of the rows.

    Memberships, landmarks and gamma are those of all rows.
    """
    rows, grid = task.rows, task.grid
    start = time.perf_counter()
    phi = fitting.landmark_map(copy_random_state(task.settings), rows)
    Z = fitting.features(rows.X, phi)
    group = np.empty(len(rows), dtype=np.intp)
    for g, (_, test) in enumerate(groups):
        group[test] = g
    shape = (len(groups), len(task.memberships), *grid.shape)
    scores, briers = np.empty(shape), np.empty(shape)
    for m, membership in enumerate(task.memberships):
        settings = replace(task.settings, membership=check_membership(membership))
        mu, own = fitting.degrees(settings, rows, Z)
        moments = fitting.twin_moments(settings, rows, Z, mu, own)
        fitting.check_complete(settings, moments)
        weights = loo_weights(settings, rows, mu, moments)
        both = fitting.apply_class_weight(settings, moments, rows.classes)
        blocks = loo_grid(
            Z, weights, both.own, both.slack, grid.Cs, grid.alphas,
            multi_class=grid.multi_class, one_unit=settings.curved, norms="distance" in grid.rules,
        )  # fmt: skip
        hits, loss = np.zeros((2, len(groups), grid.n_classes, *grid.shape))
        for block in blocks:
            _add(grid, rows, group, block, hits, loss)
        total = np.zeros(hits.shape[:2])
        np.add.at(total, (group, rows.codes), 1.0 if rows.s is None else rows.s)
        scores[:, m], briers[:, m] = _means(task.scoring, hits, loss, total)
    each = (time.perf_counter() - start) / len(groups)
    none: list[Any] = [None] * len(task.memberships)
    return [
        SplitScores(scores[g], none, briers[g], phi, fit_time=each / 2, score_time=each / 2)
        for g in range(len(groups))
    ]


def _means(scoring: str, hits: Array, loss: Array, total: Array) -> tuple[Array, Array]:
    """Compute scores and Brier scores of each group; NaN where it has no weight."""
    weight = total.reshape(*total.shape, *(1,) * (hits.ndim - 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        brier = loss.sum(axis=1) / weight.sum(axis=1)
        if scoring == "accuracy":
            return hits.sum(axis=1) / weight.sum(axis=1), brier
        present = (weight > 0).sum(axis=1)
        return np.where(weight > 0, hits / weight, 0.0).sum(axis=1) / present, brier


def _add(
    grid: Grid, rows: Rows, group: Array, block: LooGridValues, hits: Array, loss: Array
) -> None:
    """Add the hits and Brier scores of some rows, by group and class."""
    codes, K = rows.codes[block.index], grid.n_classes
    of_row = np.zeros((len(codes), hits.shape[0] * K))
    place = group[block.index] * K + codes
    of_row[np.arange(len(codes)), place] = 1.0 if rows.s is None else rows.s[block.index]

    def summed(values: Array) -> Array:
        return (values @ of_row).T.reshape(hits.shape[0], K, *values.shape[:-1])

    for i in range(len(grid.alphas)):
        for r, rule in enumerate(grid.rules):
            a = np.abs(block.f[i])  # (n_C, n_planes, m)
            if rule == "distance" and block.norms is not None:
                norms = block.norms[i]
                a = np.divide(a, norms, out=np.where(a > 0, np.inf, 0.0), where=norms > 0)
            if K == 2:
                u = _pairs_of_C(a)  # (n_C, n_C, m): share of the second class
                right = (u > 0.5) == (codes == 1)
                wrong = np.where(codes == 1, 1 - u, u)
                brier = 2 * wrong * wrong
            else:
                n_C, n_planes, m = a.shape
                u = combined(a.swapaxes(0, 1).reshape(n_planes, -1), K).reshape(K, n_C, m)
                right = u.argmax(axis=0) == codes
                u[codes, :, np.arange(m)] -= 1.0
                brier = np.einsum("kcm,kcm->cm", u, u)
            hits[:, :, 0, i, r] += summed(right.astype(float))
            loss[:, :, 0, i, r] += summed(brier)


def _pairs_of_C(a: Array) -> Array:
    """Compute the membership in the second class for every C of the first and of the second."""
    first, second = a[:, 0][:, None], a[:, 1][None]
    with np.errstate(invalid="ignore"):
        u = first / (first + second)
    # Equal distances share; an infinite distance to the first plane gives all to the second.
    even = np.where(first == second, 0.5, (first > second).astype(float))
    return np.where(np.isnan(u), even, u)
