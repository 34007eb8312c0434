"""All points of a grid at once: planes from one set of moments, scores from tables of distances.

Scores here are those of two classes; `many_classes` has the others. Plane k of two depends on
C_k alone. So ``len(Cs)`` planes of each class serve ``len(Cs) ** 2`` points, and a point is
scored by comparing two rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.threads import each
from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances, iterative, planes
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.pair_rows import WeighedRows, pair_grid
from fuzzytwin.core.plane_rows import PlaneRows

# A table of distances has so many rows, a multiple of those that are counted at once: enough to
# hide Python's overhead, few enough for the cache.
COUNTED = 8 * 255
TABLE_ROWS = 4 * COUNTED
TABLE_NUMBERS = 1 << 20
FEW_ROWS = 512
# So many comparisons are held at once; and so many shares.
MOST_AT_ONCE = 1 << 20
PAIRS_AT_ONCE = 1 << 17
# One thread scores so many rows at a time.
ROWS_PER_THREAD = 1 << 15


@dataclass(frozen=True, eq=False)
class Grid:
    """The axes whose points share one set of moments.

    Points are numbered along the axes kind, alpha, rule, C (of the first class, then of the
    second, where there are two classes; one common C where there are more).
    """

    kinds: tuple[str, ...]
    alphas: Array
    rules: tuple[str, ...]
    Cs: Array
    n_classes: int
    multi_class: str
    tau: float
    margin_width: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points along each axis."""
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
    """Planes for every alpha, C and plane; widths do not depend on alpha."""

    coef: Array
    intercept: Array
    norms: Array
    width_coef: Array | None
    width_intercept: Array | None

    def at_alphas(self, some: Array) -> GridPlanes:
        """Keep the planes of some alphas."""
        of_alpha = {name: getattr(self, name)[some] for name in ("coef", "intercept", "norms")}
        return replace(self, **of_alpha)


def solve_grid(
    grid: Grid,
    own: ClassMoments,
    slack: ClassMoments,
    absolute_own: ClassMoments | None,
    absolute_slack: ClassMoments | None,
    *,
    one_unit: bool = False,
    pair_rows: WeighedRows | None = None,
) -> GridPlanes:
    """Solve for the planes of all points, in the space of the rows of each pair if given."""
    found = None
    if pair_rows is not None:
        found = pair_grid(pair_rows, grid.n_classes, grid.Cs, grid.alphas)
    coef, intercept = found or planes.crisp_grid(
        own, slack, grid.Cs, grid.alphas, one_unit=one_unit, multi_class=grid.multi_class
    )
    d = coef.shape[-1]
    norms = distances.plane_norms(coef.reshape(-1, d)).reshape(intercept.shape)
    if not norms.any():  # as in `distances.fuzzy_distances`: then distances are abs(f)
        norms = np.ones_like(norms)
    widths: list[Array | None] = [None, None]
    if absolute_own is not None and absolute_slack is not None:
        K = grid.n_classes
        each = [
            planes.widths(
                absolute_own,
                absolute_slack,
                np.full(K, C),
                grid.tau,
                grid.margin_width,
                multi_class=grid.multi_class,
            )
            for C in grid.Cs
        ]
        widths = [np.array(part) for part in zip(*each, strict=True)]
    return GridPlanes(coef, intercept, norms, *widths)


def iterated_grid(grid: Grid, train: PlaneRows, X: Any, tol: float) -> tuple[Array, GridPlanes]:
    """Solve for the planes of all points by conjugate gradients, the largest alpha first.

    Planes of many columns are not kept: their values at the test rows `X` are.

    Returns
    -------
    values : ndarray of shape (n, n_alphas * n_C * n_planes)
        Values of all planes at the test rows.
    found : GridPlanes
        The same planes as functions of these values; crisp ones.
    """
    n_planes = len(planes.plane_classes(grid.n_classes, grid.multi_class))
    shape = (len(grid.alphas), len(grid.Cs), n_planes)
    values, norms = np.empty((*shape, X.shape[0])), np.empty(shape)
    start: list[Array | None] = [None] * len(grid.Cs)
    for i in np.argsort(-grid.alphas).tolist():
        for j, C in enumerate(grid.Cs.tolist()):
            # Without a ridge, the least norm is that of a start at zero.
            first = start[j] if start[j] is not None else start[j - 1] if j else None
            one, _ = iterative.crisp_planes(
                train, np.full(grid.n_classes, C), grid.alphas[i], multi_class=grid.multi_class,
                tol=tol, start=first if grid.alphas[i] > 0 else None,
            )  # fmt: skip
            start[j] = one.coef
            values[i, j] = distances.plane_values(X, one.coef, one.intercept).T
            norms[i, j] = distances.plane_norms(one.coef)
    count = norms.size
    itself = np.eye(count).reshape(*shape, count)
    table = np.ascontiguousarray(values.reshape(count, -1).T)
    return table, GridPlanes(itself, np.zeros(shape), norms, None, None)


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows to score: X, and the features in which planes are linear (X itself without a kernel)."""

    X: Any
    features: Any
    codes: Array
    weight: Array | None
    index: Array


@dataclass(frozen=True, eq=False)
class Table:
    """Effective distances of rows of one label to the planes of one kind, alpha and rule.

    Parameters
    ----------
    place : tuple of int
        Index of kind, alpha and rule on the axes of the grid.
    label : int
        Class of the rows.
    weight : ndarray of shape (m,) or None
        Their weights.
    used : list of ndarray
        For each axis of C, which of its values have a plane here.
    distances : ndarray of shape (n, m)
        Distances to these planes and others. It is a buffer, which the next block overwrites.
    start : int
        Where the planes of the first class begin; those of the second follow.
    """

    place: tuple[int, int, int]
    label: int
    weight: Array | None
    used: list[Array]
    distances: Array
    start: int

    @property
    def near(self) -> tuple[Array, Array]:
        """For each class, the distances to its planes: one for each value of C in `used`."""
        bound, end = self.start + np.cumsum([len(part) for part in self.used])
        return self.distances[self.start : bound], self.distances[bound:end]

    def pairs(self, wanted: Array) -> tuple[Array, Array]:
        """Return the places in `distances` of the two planes of each wanted pair."""
        i, j = np.nonzero(wanted[self.place])
        first, second = np.searchsorted(self.used[0], i), np.searchsorted(self.used[1], j)
        return self.start + first, self.start + len(self.used[0]) + second


def count_hits(grid: Grid, found: GridPlanes, rows: TestRows) -> Array:
    """Count, or weigh, the test rows of both labels that each point labels right."""
    hits = np.zeros((grid.n_classes, *grid.shape))
    everything = np.ones(grid.shape, dtype=bool)
    buffer = np.empty(max(MOST_AT_ONCE, len(grid.Cs) * 2 * TABLE_ROWS), dtype=bool)
    for table in chain.from_iterable(blocks(grid, found, rows, everything)):
        first, second = table.near
        right = _pair_hits(first, second, table.label, table.weight, buffer)
        hits[table.label][table.place] += right
    return hits


@np.errstate(invalid="ignore")  # rows at distance 0 from both planes give 0/0
def sum_brier(grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array) -> Array:
    """Add up the test rows' Brier scores (of eq29 memberships), at the wanted points only."""
    total = np.zeros(grid.shape)
    for block in blocks(grid, found, rows, wanted):
        for _, group in groupby(block, lambda table: id(table.distances)):
            tables = list(group)
            pairs = [table.pairs(wanted) for table in tables]
            first, second = (np.concatenate(part) for part in zip(*pairs, strict=True))
            briers = _briers(tables[0], first, second)
            if np.isnan(briers).any():  # some rows lie on both planes: half to each class
                briers = _briers(tables[0], first, second, halves=True)
            ends = np.cumsum([len(i) for i, _ in pairs])
            for table, part in zip(tables, np.split(briers, ends[:-1]), strict=True):
                total[table.place][wanted[table.place]] += part
    return total


def _briers(table: Table, first: Array, second: Array, *, halves: bool = False) -> Array:
    """Add up the Brier scores of the rows of a table at some pairs of planes.

    The two parts of a score are equal: the squared share of the wrong class. A row on both planes
    makes the sum NaN, unless half of it goes to each class.
    """
    root = None if table.weight is None else np.sqrt(table.weight)
    own, rival = (second, first) if table.label else (first, second)
    step = max(1, PAIRS_AT_ONCE // table.distances.shape[1])
    sums = np.empty(len(own))
    for start in range(0, len(own), step):
        here = slice(start, start + step)
        share, total = table.distances[own[here]], table.distances[rival[here]]
        total += share
        share /= total
        if halves:
            share[np.isnan(share)] = 0.5
        if root is not None:
            share *= root
        np.einsum("pm,pm->p", share, share, out=sums[here])
    return 2 * sums


def over_parts(
    function: Callable[..., Array], grid: Grid, found: GridPlanes, rows: TestRows, *more: Any
) -> Array:
    """Add up a function of test rows over parts of them, on threads and in their order."""
    parts = [
        replace(rows, index=rows.index[start : start + ROWS_PER_THREAD])
        for start in range(0, len(rows.index), ROWS_PER_THREAD)
    ]
    first, *rest = each(lambda part: function(grid, found, part, *more), parts)
    for result in rest:
        first += result
    return first


def blocks(grid: Grid, found: GridPlanes, rows: TestRows, wanted: Array) -> Iterator[list[Table]]:
    """Compute tables of distances, of each kind, alpha and rule, for blocks of rows of a label."""
    d = found.coef.shape[-1]
    some: Array = np.any(wanted.reshape(*grid.shape[:3], -1), axis=-1)
    stacks = [
        _Stack.of(grid, found, wanted, i, r)
        for i in range(len(grid.alphas))
        for r in range(len(grid.rules))
        if some[:, i, r].any()
    ]
    labels = rows.codes[rows.index]
    order = rows.index[np.argsort(labels, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=grid.n_classes))])
    for group in _groups(stacks):
        # All planes of a group, one below the other: one product per block of rows.
        coef = np.concatenate([stack.coef for stack in group])
        size = min(TABLE_ROWS, max(TABLE_NUMBERS // len(coef), FEW_ROWS), len(rows.index))
        values, buffer = np.empty(len(coef) * size), np.empty((size, d))
        extended = np.ones((size, d + 1))  # rows and 1, for the intercepts
        for label in range(grid.n_classes):
            for here in _even(order[ends[label] : ends[label + 1]], size):
                v = None if rows.weight is None else rows.weight[here]
                extended[: len(here), :d] = dense_rows(rows.features, here, buffer)
                width: Any = None
                if found.width_coef is not None:
                    width = np.abs(dense_rows(rows.X, here)).T
                f = values[: len(coef) * len(here)].reshape(len(coef), -1)
                np.dot(coef, extended[: len(here)].T, out=f)  # unlike `@`, it lets threads run
                np.abs(f, out=f)
                end, block = 0, []
                for stack in group:
                    start, end = end, end + len(stack.coef)
                    for kind in np.flatnonzero(some[:, stack.alpha, stack.rule]).tolist():
                        place = kind, stack.alpha, stack.rule
                        if grid.kinds[kind] == "fuzzy":
                            gamma = np.dot(stack.width_coef, width) + stack.width_intercept
                            near = distances.effective_distances(f[start:end], gamma)
                            block.append(Table(place, label, v, stack.used, near, 0))
                        else:
                            block.append(Table(place, label, v, stack.used, f, start))
                yield block


def _even(index: Array, size: int) -> list[Array]:
    """Cut into the fewest parts of at most this size, as even as can be."""
    return np.array_split(index, -(-len(index) // size)) if len(index) else []


def _groups(stacks: list[_Stack]) -> Iterator[list[_Stack]]:
    """Group stacks of planes so that the distances of a block of rows stay in bounds."""
    group: list[_Stack] = []
    for stack in stacks:
        planes_before = sum(len(other.coef) for other in group)
        if group and (planes_before + len(stack.coef)) * FEW_ROWS > TABLE_NUMBERS:
            yield group
            group = []
        group.append(stack)
    yield group


@dataclass(frozen=True, eq=False)
class _Stack:
    """Planes of one alpha, all values of C of one plane below each other, scaled for one rule."""

    alpha: int
    rule: int
    used: list[Array]  # for each axis of C, which of its values
    coef: Array  # with the intercepts as the last column
    width_coef: Any = None
    width_intercept: Any = None

    @classmethod
    def of(cls, grid: Grid, found: GridPlanes, wanted: Array, alpha: int, rule: int) -> _Stack:
        """Select the planes that the wanted points use, as `distances.in_units` scales them."""
        here = np.any(wanted[:, alpha, rule], axis=0)
        used = [np.flatnonzero(np.any(here, axis=axis)) for axis in (1, 0)]
        c = np.concatenate(used)
        p = np.repeat([0, 1], [len(part) for part in used])
        parts = [np.column_stack([found.coef[alpha, c, p], found.intercept[alpha, c, p]])]
        if found.width_coef is not None and found.width_intercept is not None:
            parts += [found.width_coef[c, p], found.width_intercept[c, p][:, None]]
        if grid.rules[rule] == "distance":
            with np.errstate(over="ignore"):
                parts = [part / found.norms[alpha, c, p][:, None] for part in parts]
        return cls(alpha, rule, used, *parts)


def dense_rows(X: Any, index: Array, buffer: Array | None = None) -> Array:
    """Return rows as float64, in the buffer if it has the right type."""
    if buffer is not None and isinstance(X, np.ndarray) and X.dtype == buffer.dtype:
        return X.take(index, axis=0, out=buffer[: len(index)], mode="clip")
    rows = X[index].toarray() if sparse.issparse(X) else X.take(index, axis=0)
    return np.asarray(rows, dtype=np.float64)


def _pair_hits(
    first: Array, second: Array, label: int, v: Array | None, buffer: Array | None = None
) -> Array:
    """Count the hits of all pairs of a plane of the first and one of the second class.

    The buffer holds comparisons: it spares the time to get memory.
    """
    m = first.shape[1]
    padded = -(-m // COUNTED) * COUNTED
    n_second: Array = np.empty((len(first), len(second)))
    step = max(1, MOST_AT_ONCE // (len(second) * padded))
    if buffer is None or len(buffer) < step * len(second) * padded:
        buffer = np.empty(step * len(second) * padded, dtype=bool)
    for start in range(0, len(first), step):
        some = first[start : start + step, None]
        # Whether each row is nearer to the second plane; there are no rows behind the last.
        nearer = buffer[: len(some) * len(second) * padded].reshape(len(some), len(second), padded)
        np.less(second, some, out=nearer[:, :, :m])
        nearer[:, :, m:] = False
        n_second[start : start + step] = _count(nearer) if v is None else nearer[:, :, :m] @ v
    return n_second if label == 1 else (m if v is None else v.sum()) - n_second


def _count(true: Array) -> Array:
    """Count what is true along the last axis, whose length is a multiple of `COUNTED`.

    Eight bytes are added at once, as one integer: after 255 times none of them exceeds 255.
    """
    eights = true.view(np.uint64).reshape(*true.shape[:-1], -1, COUNTED // 8)
    return np.asarray(np.add.reduce(eights, axis=-1).view(np.uint8).sum(axis=-1))
