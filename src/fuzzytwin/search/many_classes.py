"""Scores of all points of a grid for more than two classes: one common C, many planes.

For each alpha one product serves all values of C and both rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances
from fuzzytwin.core.pairs import cubed_ratios
from fuzzytwin.search.grid import Grid, GridPlanes, TestRows, dense_rows

# Distances of so many rows to all planes of one alpha are held at once, so that they stay in
# cache; but of no fewer rows than this.
TABLE_NUMBERS = 1 << 18
FEWEST_ROWS = 64


@dataclass(frozen=True, eq=False)
class _Memberships:
    """Memberships u (K, n_C, m) of some test rows at some values of C."""

    place: tuple[int, int, int]  # index of kind, alpha and rule on the axes of the grid
    used: Array  # which values of C
    u: Array
    index: Array  # which rows


def count_hits(grid: Grid, found: GridPlanes, rows: TestRows) -> Array:
    """Count, or weigh, the test rows of each label that each point labels right."""
    hits = np.zeros((grid.n_classes, *grid.shape))
    for part in _memberships(grid, found, rows, np.ones(grid.shape, dtype=bool)):
        labels = rows.codes[part.index]
        right = part.u.argmax(axis=0) == labels
        of_label = (labels[:, None] == np.arange(grid.n_classes)).astype(float)
        if rows.weight is not None:
            of_label *= rows.weight[part.index][:, None]
        hits[(slice(None), *part.place)] += (right @ of_label).T
    return hits


def sum_brier(grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array) -> Array:
    """Add up the test rows' Brier scores of memberships, at the wanted points only."""
    total = np.zeros(grid.shape)
    for part in _memberships(grid, found, rows, wanted):
        u, m = part.u, len(part.index)
        u[rows.codes[part.index], :, np.arange(m)] -= 1.0
        loss = np.einsum("kcm,kcm->cm", u, u)
        summed = loss.sum(axis=1) if rows.weight is None else loss @ rows.weight[part.index]
        total[part.place][part.used] += wanted[part.place][part.used] * summed
    return total


def _memberships(
    grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array
) -> Iterator[_Memberships]:
    """Compute memberships at the wanted points: for each block of rows, alpha, rule and kind."""
    n_planes = found.intercept.shape[2]
    step = max(FEWEST_ROWS, TABLE_NUMBERS // (n_planes * len(grid.Cs)))
    for start in range(0, len(rows.index), step):
        index = rows.index[start : start + step]
        Z = dense_rows(rows.features, index).T
        size = np.abs(dense_rows(rows.X, index)).T if found.width_coef is not None else Z
        for i in range(len(grid.alphas)):
            used = np.flatnonzero(wanted[:, i].any(axis=(0, 1)))
            if not len(used):
                continue
            f = _values(found.coef[i, used], found.intercept[i, used], Z)
            for r, rule in enumerate(grid.rules):
                some: Array = np.any(wanted[:, i, r], axis=0)[used]
                if not some.any():
                    continue
                f_r, at = (f, used) if some.all() else (f[:, some], used[some])
                norms = found.norms[i, at].T[:, :, None]
                delta = f_r / norms if rule == "distance" else f_r
                for kind in np.flatnonzero(wanted[:, i, r].any(axis=-1)).tolist():
                    near = delta
                    if grid.kinds[kind] == "fuzzy":
                        assert found.width_coef is not None
                        assert found.width_intercept is not None
                        g = _values(found.width_coef[at], found.width_intercept[at], size)
                        gamma = g / norms if rule == "distance" else g
                        near = distances.effective_distances(delta, gamma)
                    yield _Memberships((kind, i, r), at, _combined(grid, near), index)


def _values(coef: Array, intercept: Array, Z: Array) -> Array:
    """Compute |w.z + b| of shape (n_planes, n_C, m) from coef (n_C, n_planes, d)."""
    n_C, n_planes, d = coef.shape
    values = coef.swapaxes(0, 1).reshape(-1, d) @ Z
    values += intercept.T.reshape(-1, 1)
    return np.abs(values, out=values).reshape(n_planes, n_C, -1)


def _combined(grid: Grid, near: Array) -> Array:
    """Combine effective distances (n_planes, n_C, m) into memberships (K, n_C, m)."""
    if grid.multi_class == "ovr":
        return distances.memberships(near.reshape(len(near), -1).T).T.reshape(near.shape)
    u = 1.0 / cubed_ratios(near, grid.n_classes)
    u /= u.sum(axis=0)
    return u
