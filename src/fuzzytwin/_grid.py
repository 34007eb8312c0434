"""All points of a grid at once: planes from one set of moments, scores from tables of distances.

With two classes plane k depends on C_k alone. So ``len(Cs)`` planes of each class serve
``len(Cs) ** 2`` points, and a point is scored by comparing two rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fuzzytwin import distances, planes
from fuzzytwin.moments import ClassMoments

Array = NDArray[Any]

# Below this many rows, one broadcast comparison beats a loop over pairs of planes.
FEW_ROWS = 512
# Rows of a table of distances: enough to forget Python, few enough for the cache.
TABLE_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Grid:
    """The part of a search that is algebra: all points share the moments.

    Points are numbered along the axes kind, alpha, rule, C (of the first class, then of the
    second, where there are two classes; one common C where there are more).
    """

    kinds: tuple[str, ...]
    alphas: Array
    rules: tuple[str, ...]
    Cs: Array
    n_classes: int
    tau: float
    margin_width: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points along each axis."""
        of_C = (len(self.Cs),) * (2 if self.n_classes == 2 else 1)
        return (len(self.kinds), len(self.alphas), len(self.rules), *of_C)

    def penalties(self, place: tuple[int, ...]) -> Any:
        """C at a place on the last axes: a number, or one per class where there are two."""
        Cs = tuple(float(self.Cs[j]) for j in place)
        return Cs if self.n_classes == 2 else Cs[0]


@dataclass(frozen=True, eq=False)
class GridPlanes:
    """Planes for every alpha, C and class; widths do not depend on alpha."""

    coef: Array
    intercept: Array
    norms: Array
    width_coef: Array | None
    width_intercept: Array | None

    def at(self, grid: Grid, index: tuple[int, ...]) -> planes.Planes:
        """The planes of one point."""
        K = grid.n_classes
        j = np.array(index[3:]) if K == 2 else np.full(K, index[3])
        k = np.arange(K)
        alpha = index[1]
        found = planes.Planes(self.coef[alpha, j, k], self.intercept[alpha, j, k], 0)
        if grid.kinds[index[0]] == "crisp":
            return found
        assert self.width_coef is not None
        assert self.width_intercept is not None
        return planes.Planes(
            found.coef, found.intercept, 0, self.width_coef[j, k], self.width_intercept[j, k]
        )


def solve_grid(
    grid: Grid,
    own: ClassMoments,
    slack: ClassMoments,
    absolute_own: ClassMoments | None,
    absolute_slack: ClassMoments | None,
    *,
    one_unit: bool = False,
) -> GridPlanes:
    """Planes of all points."""
    coef, intercept = planes.crisp_grid(own, slack, grid.Cs, grid.alphas, one_unit=one_unit)
    d = coef.shape[-1]
    norms = distances.plane_norms(coef.reshape(-1, d)).reshape(intercept.shape)
    widths: list[Array | None] = [None, None]
    if absolute_own is not None and absolute_slack is not None:
        K = grid.n_classes
        each = [
            planes.widths(absolute_own, absolute_slack, np.full(K, C), grid.tau, grid.margin_width)
            for C in grid.Cs
        ]
        widths = [np.array(part) for part in zip(*each, strict=True)]
    return GridPlanes(coef, intercept, norms, *widths)


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows to score: X as it is, `seen` as the planes see it (X itself for linear planes)."""

    X: Any
    seen: Any
    codes: Array
    weight: Array | None
    index: Array


def count_hits(grid: Grid, found: GridPlanes, rows: TestRows) -> Array:
    """Number, or weight, of the test rows that each point labels right."""
    hits = np.zeros(grid.shape)
    everything = np.ones(grid.shape, dtype=bool)
    for index, label, v, _, a in _tables(grid, found, rows, everything):
        if grid.n_classes == 2:
            hits[index] += _pair_hits(a, label, v)
        else:
            right = a.argmin(axis=1) == label
            hits[index] += right.sum(axis=-1) if v is None else right @ v
    return hits


def sum_brier(grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array) -> Array:
    """Sum of the test rows' Brier scores (of eq29 memberships), at the wanted points only."""
    total = np.zeros(grid.shape)
    for index, label, v, used, a in _tables(grid, found, rows, wanted):
        row_of = {int(c): row for row, c in enumerate(used)}
        for place in zip(*np.nonzero(wanted[index]), strict=True):
            row = [row_of[int(c)] for c in place]
            if grid.n_classes == 2:
                # The two parts of the score are equal: the squared share of the wrong class.
                near = a[row[0], 0], a[row[1], 1]
                loss = near[0] + near[1]
                with np.errstate(invalid="ignore"):
                    np.divide(near[label], loss, out=loss)
                if np.isnan(loss @ loss):  # on both planes: half to each class
                    loss[np.isnan(loss)] = 0.5
                loss *= np.sqrt(2.0)
                total[index][place] += loss @ loss if v is None else (loss * loss) @ v
                continue
            u = distances.memberships(a[row[0]].T)
            u[:, label] -= 1.0
            loss = np.einsum("ij,ij->i", u, u)
            total[index][place] += loss.sum() if v is None else loss @ v
    return total


def _tables(
    grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array
) -> Iterator[tuple[tuple[int, int, int], int, Array | None, Array, Array]]:
    """Effective distances of rows of one label, for each kind, alpha and rule that is wanted.

    Yields these three as an index, the label, the rows' weights, which of the C are used, and
    a table (C, class, row), which is a buffer that the next step overwrites.
    """
    _, n_C, K, d = found.coef.shape
    some: Array = np.any(wanted.reshape(*grid.shape[:3], -1), axis=-1)
    by_C: Array = np.any(wanted, axis=(0, 2))  # alpha, C (of the first class, of the second)
    if K == 2:
        by_C = np.any(by_C, axis=1) | np.any(by_C, axis=2)
    used = [np.flatnonzero(row) for row in by_C]
    # All planes that are used, one below the other: one product per block of rows.
    coef = np.concatenate([found.coef[i, c].reshape(-1, d) for i, c in enumerate(used)])
    intercept = np.concatenate([found.intercept[i, c].ravel() for i, c in enumerate(used)])
    bounds = np.concatenate([[0], np.cumsum([len(c) * K for c in used])])
    size = min(TABLE_ROWS, len(rows.index))
    values, buffer = np.empty((len(coef), size)), np.empty((n_C * K, size))
    labels = rows.codes[rows.index]
    order = rows.index[np.argsort(labels, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=K))])
    for label in range(K):
        for start in range(ends[label], ends[label + 1], size):
            here = order[start : min(start + size, ends[label + 1])]
            m = len(here)
            v = None if rows.weight is None else rows.weight[here]
            Z = _dense(rows.seen, here).T
            f = np.matmul(coef, Z, out=values[:, :m])
            g = None
            if found.width_coef is not None and found.width_intercept is not None:
                g = (
                    found.width_coef @ np.abs(_dense(rows.X, here)).T
                    + found.width_intercept[..., None]
                )
            for i in np.flatnonzero(some.any(axis=(0, 2))):
                c, part = used[i], slice(bounds[i], bounds[i + 1])
                value = f[part]
                value += intercept[part, None]
                np.abs(value, out=value)
                for r, rule in enumerate(grid.rules):
                    delta, gamma = value, None if g is None else g[c]
                    if rule == "distance":
                        norms = found.norms[i, c]
                        delta = np.divide(value, norms.reshape(-1, 1), out=buffer[: len(value), :m])
                        gamma = None if gamma is None else gamma / norms[..., None]
                    delta = delta.reshape(len(c), K, m)
                    for k in np.flatnonzero(some[:, i, r]):
                        near = delta
                        if grid.kinds[k] == "fuzzy" and gamma is not None:
                            near = distances.effective_distances(delta, gamma)
                        yield (int(k), int(i), r), label, v, c, near


def _dense(X: Any, index: Array) -> Array:
    rows = X[index].toarray() if sparse.issparse(X) else X.take(index, axis=0)
    return np.asarray(rows, dtype=np.float64)


def _pair_hits(a: Array, label: int, v: Array | None) -> Array:
    """Hits of all pairs of a plane of the first and a plane of the second class."""
    n_C, _, m = a.shape
    said: Array = np.zeros((n_C, n_C))  # how many rows, or how much weight, go to the second class
    if v is not None:
        said = (a[:, 1] < a[:, :1]) @ v
    elif m < FEW_ROWS:
        said = np.count_nonzero(a[:, 1] < a[:, :1], axis=-1)
    else:
        nearer = np.empty(m, dtype=bool)
        for i in range(n_C):
            for j in range(n_C):
                np.less(a[j, 1], a[i, 0], out=nearer)
                said[i, j] = np.count_nonzero(nearer)
    return said if label == 1 else (m if v is None else v.sum()) - said
