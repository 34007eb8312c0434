"""All points of a grid at once: planes from one set of moments, scores from tables of distances.

With two classes plane k depends on C_k alone. So ``len(Cs)`` planes of each class serve
``len(Cs) ** 2`` points, and a point is scored by comparing two rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances, planes
from fuzzytwin.core.moments import ClassMoments

# Below this many rows, one broadcast comparison beats a loop over pairs of planes.
FEW_ROWS = 512
# What Python takes for a point by itself, in numbers that could be met meanwhile.
ONE_POINT = 4096
MOST_AT_ONCE = 1 << 20
# Rows of a table of distances: enough to forget Python, few enough for the cache.
TABLE_ROWS = 8192
TABLE_NUMBERS = 1 << 21


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

    def parameters(self, index: tuple[int, ...]) -> dict[str, Any]:
        """Name the parameters of a point; C is a number, or one per class where there are two."""
        kind, alpha, rule, *place = index
        Cs = tuple(float(self.Cs[j]) for j in place)
        return {
            "planes": self.kinds[kind],
            "alpha": float(self.alphas[alpha]),
            "rule": self.rules[rule],
            "C": Cs if self.n_classes == 2 else Cs[0],
        }


@dataclass(frozen=True, eq=False)
class GridPlanes:
    """Planes for every alpha, C and class; widths do not depend on alpha."""

    coef: Array
    intercept: Array
    norms: Array
    width_coef: Array | None
    width_intercept: Array | None


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
    """Number, or weight, of the test rows of each label that each point labels right."""
    hits = np.zeros((grid.n_classes, *grid.shape))
    everything = np.ones(grid.shape, dtype=bool)
    for index, label, v, _, near in tables(grid, found, rows, everything):
        if grid.n_classes == 2:
            hits[label][index] += _pair_hits(near[0], near[1], label, v)
        else:
            right = np.argmin(near, axis=0) == label
            hits[label][index] += right.sum(axis=-1) if v is None else right @ v
    return hits


@np.errstate(invalid="ignore")  # rows on both planes have a share of 0/0
def sum_brier(grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array) -> Array:
    """Sum of the test rows' Brier scores (of eq29 memberships), at the wanted points only."""
    total = np.zeros(grid.shape)
    for index, label, v, used, near in tables(grid, found, rows, wanted):
        if grid.n_classes == 2 and _best_at_once(near, int(wanted[index].sum())):
            among = np.ix_(*used)
            total[index][among] += wanted[index][among] * _pair_briers(near, label, v)
            continue
        places = np.nonzero(wanted[index])
        Cs = places if grid.n_classes == 2 else places * grid.n_classes
        rows_of = [np.searchsorted(*pair) for pair in zip(used, Cs, strict=True)]
        for place, *at in zip(zip(*places, strict=True), *rows_of, strict=True):
            if grid.n_classes == 2:
                pair = [a[row : row + 1] for a, row in zip(near, at, strict=True)]
                loss = _pair_briers(pair, label, v)[0, 0]
            else:
                u = distances.memberships(
                    np.transpose([a[row] for a, row in zip(near, at, strict=True)])
                )
                u[:, label] -= 1.0
                each = np.einsum("ij,ij->i", u, u)
                loss = each.sum() if v is None else each @ v
            total[index][place] += loss
    return total


def _best_at_once(near: list[Array], points: int) -> bool:
    """Whether all pairs of planes take less time than some by themselves."""
    numbers = len(near[0]) * near[1].size
    return numbers <= min(points * (near[1].shape[1] + ONE_POINT), MOST_AT_ONCE)


def _pair_briers(near: list[Array], label: int, v: Array | None) -> Array:
    """Brier scores of all pairs of a plane of the first and a plane of the second class.

    The two parts of a score are equal: the squared share of the wrong class.
    """
    share = near[0][:, None] + near[1]
    np.divide(near[1] if label else near[0][:, None], share, out=share)
    root = 1.0 if v is None else np.sqrt(v)
    if v is not None:
        share *= root
    briers = 2 * np.einsum("ijm,ijm->ij", share, share)
    if np.isnan(briers).any():  # some rows lie on both planes: half to each class
        share = np.where(np.isnan(share), 0.5 * root, share)
        briers = 2 * np.einsum("ijm,ijm->ij", share, share)
    return np.asarray(briers)


def tables(
    grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array
) -> Iterator[tuple[tuple[int, int, int], int, Array | None, list[Array], list[Array]]]:
    """Effective distances of rows of one label, for each kind, alpha and rule that is wanted.

    Yields these three as an index, the label, the rows' weights, and for each class which of
    the C are used and a table (C, row), which is a buffer that the next step overwrites.
    """
    K, d = found.coef.shape[2:]
    some: Array = np.any(wanted.reshape(*grid.shape[:3], -1), axis=-1)
    sides = [
        _Side.of(grid, found, wanted, i, r)
        for i in range(len(grid.alphas))
        for r in range(len(grid.rules))
        if some[:, i, r].any()
    ]
    # All planes that are used, one below the other: one product per block of rows.
    coef = np.concatenate([side.coef for side in sides])
    size = min(TABLE_ROWS, max(TABLE_NUMBERS // len(coef), FEW_ROWS), len(rows.index))
    values, buffer = np.empty((len(coef), size)), np.empty((size, d))
    labels = rows.codes[rows.index]
    order = rows.index[np.argsort(labels, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=K))])
    for label in range(K):
        for start in range(ends[label], ends[label + 1], size):
            here = order[start : min(start + size, ends[label + 1])]
            m = len(here)
            v = None if rows.weight is None else rows.weight[here]
            Z = _dense(rows.seen, here, buffer).T
            width = None if found.width_coef is None else np.abs(_dense(rows.X, here)).T
            table = np.matmul(coef, Z, out=values[:, :m])
            end = 0
            for side in sides:
                delta = table[end : end + len(side.coef)]
                delta += side.intercept
                np.abs(delta, out=delta)
                if side.per_unit is not None:
                    delta *= side.per_unit
                end += len(side.coef)
                for k in np.flatnonzero(some[:, side.alpha, side.rule]):
                    near = delta
                    if grid.kinds[k] == "fuzzy":
                        gamma = side.width_coef @ width + side.width_intercept
                        near = distances.effective_distances(delta, gamma)
                    index = int(k), side.alpha, side.rule
                    yield index, label, v, side.used, np.split(near, side.bounds)


@dataclass(frozen=True, eq=False)
class _Side:
    """Planes of one alpha, those of a class one below the other, and the unit of one rule."""

    alpha: int
    rule: int
    used: list[Array]  # for each class, which of the C
    bounds: Array  # where the next class begins
    coef: Array
    intercept: Array
    per_unit: Array | None  # None where residuals count as they are
    width_coef: Any = None
    width_intercept: Any = None

    @classmethod
    def of(cls, grid: Grid, found: GridPlanes, wanted: Array, alpha: int, rule: int) -> _Side:
        K = grid.n_classes
        here = np.any(wanted[:, alpha, rule], axis=0)
        on_axis = [np.any(here, axis=1), np.any(here, axis=0)] if K == 2 else [here] * K
        used = [np.flatnonzero(of_class) for of_class in on_axis]
        c, k = np.concatenate(used), np.repeat(np.arange(K), [len(part) for part in used])
        per_unit = None
        if grid.rules[rule] == "distance":
            per_unit = 1.0 / found.norms[alpha, c, k][:, None]
        parts = [found.coef[alpha, c, k], found.intercept[alpha, c, k][:, None], per_unit]
        if found.width_coef is not None and found.width_intercept is not None:
            widths = [found.width_coef[c, k], found.width_intercept[c, k][:, None]]
            parts += widths if per_unit is None else [per_unit * part for part in widths]
        return cls(alpha, rule, used, np.cumsum([len(part) for part in used])[:-1], *parts)


def _dense(X: Any, index: Array, buffer: Array | None = None) -> Array:
    """Rows as float64, in the buffer where there is one and it serves."""
    if buffer is not None and isinstance(X, np.ndarray) and X.dtype == buffer.dtype:
        return X.take(index, axis=0, out=buffer[: len(index)], mode="clip")
    rows = X[index].toarray() if sparse.issparse(X) else X.take(index, axis=0)
    return np.asarray(rows, dtype=np.float64)


def _pair_hits(first: Array, second: Array, label: int, v: Array | None) -> Array:
    """Hits of all pairs of a plane of the first and a plane of the second class."""
    m = first.shape[1]
    # How many rows, or how much weight, go to the second class.
    said: Array = np.zeros((len(first), len(second)))
    if v is not None:
        said = (second < first[:, None]) @ v
    elif m < FEW_ROWS:
        said = np.count_nonzero(second < first[:, None], axis=-1)
    else:
        nearer = np.empty(second.shape, dtype=bool)
        for i, row in enumerate(first):
            np.less(second, row, out=nearer)
            said[i] = [np.count_nonzero(one) for one in nearer]
    return said if label == 1 else (m if v is None else v.sum()) - said
