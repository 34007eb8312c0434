"""Points of a grid: planes from one set of moments, distances of rows to them, and scores.

A plane depends only on the C of its own class. With two classes, ``len(Cs)`` planes of each class
serve ``len(Cs) ** 2`` points. With more classes, all planes of a point have one C.
`accumulate_scores` adds up hits and Brier losses of the rows of a test fold, for any number of
classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.core.blocks import block_slices
from fuzzytwin.core.distances import (
    labels_of,
    memberships_of,
    plane_norms,
    second_is_nearer,
)

# A table of distances has at most this many rows: enough to hide Python's overhead, few enough for
# the cache. Planes share a table as long as it has at least MIN_TABLE_ROWS rows.
TABLE_ROWS = 8160
TABLE_NUMBERS = 1 << 20
MIN_TABLE_ROWS = 512
MIN_ROWS = 64
# Hits are counted in chunks of this many rows. The buffers hold this many comparisons and shares.
COUNTED = 8 * 255
MAX_AT_ONCE = 1 << 20
PAIRS_AT_ONCE = 1 << 17
# Rows that one thread scores at a time.
ROWS_PER_THREAD = 1 << 15
# Limit on the distances of all rows to planes that are held at once, for scorers and ROC areas.
MAX_DISTANCES = 1 << 25


@dataclass(eq=False)
class SplitScores:
    """Scores of one split at every membership and point of a grid."""

    scores: Array
    brier: Array
    planes: list[GridPlanes | None]  # for each membership; None if `brier` is filled
    failures: list[str] = field(default_factory=list)
    fit_time: float = 0.0
    score_time: float = 0.0


@dataclass(eq=False)
class Grid:
    """The points of one kernel, and their scores on every split.

    Points are numbered along the axes membership, alpha, rule and C. With two classes there are two
    axes of C, of the first and of the second class, and with more classes one of a common C. Points
    of one membership share one set of moments.
    """

    alphas: Array
    rules: tuple[str, ...]
    Cs: Array
    n_classes: int
    memberships: list[Any] = field(default_factory=lambda: [None])
    kernel: dict[str, Any] = field(default_factory=dict)  # parameters of all points, e.g. gamma
    splits: list[SplitScores] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points of one membership along each axis."""
        C_shape = (len(self.Cs),) * (2 if self.n_classes == 2 else 1)
        return (len(self.alphas), len(self.rules), *C_shape)

    def points(self) -> list[dict[str, Any]]:
        """Return the parameters of each point. C is a number, or a pair for two classes."""
        Cs: list[Any] = self.Cs.tolist()
        Cs = list(product(Cs, repeat=2)) if self.n_classes == 2 else Cs
        axes = product(self.memberships, self.alphas.tolist(), self.rules, Cs)
        names = "membership", "alpha", "rule", "C"
        return [self.kernel | dict(zip(names, values, strict=True)) for values in axes]

    def without(self, alphas: Array) -> Grid:
        """Return the grid and its scores without the points of some alphas."""
        keep = ~np.isin(self.alphas, alphas)
        kept = [
            replace(split, scores=split.scores[:, keep], brier=split.brier[:, keep])
            for split in self.splits
        ]
        return replace(self, alphas=self.alphas[keep], splits=kept)


@dataclass(frozen=True, eq=False)
class GridPlanes:
    """Coefficients (n_alphas, n_Cs, n_planes, d) and intercepts (n_alphas, n_Cs, n_planes)."""

    coef: Array
    intercept: Array

    def scaled(self, alpha: int, rule: str) -> Array:
        """Return the planes of one alpha, scaled as by `distances.unit_normals`.

        Rows are ordered by plane, then by C. The last column is the intercept.
        """
        w = self.coef[alpha].swapaxes(0, 1)
        b = self.intercept[alpha].T
        planes = np.empty((*b.shape, w.shape[-1] + 1))
        planes[..., :-1] = w
        planes[..., -1] = b
        norms = plane_norms(w)
        if rule == "distance" and norms.any():  # else distances are abs(f)
            with np.errstate(over="ignore"):
                planes /= np.where(norms > 0, norms, 1.0)[..., None]
            planes[(norms == 0) & (b != 0), -1] = np.inf  # infinitely far
        return planes.reshape(-1, planes.shape[-1])


class PointDistances(NamedTuple):
    """Effective distances (n_planes, n_C, m) of rows to the planes of one alpha and rule.

    ``grid_index`` is the index of alpha and rule on the axes of the grid. The ``rows`` are sorted
    by class. ``a`` is a buffer that the next block overwrites.
    """

    grid_index: tuple[int, int]
    rows: Array
    a: Array


def fold_distances(
    grid: Grid,
    planes: GridPlanes,
    Z: Any,
    codes: Array,
    point_mask: Array | None = None,
    rows: slice = slice(None),
) -> Iterator[PointDistances]:
    """Compute distances of rows of Z to the planes of the points in the mask, in blocks."""
    if point_mask is None:
        point_mask = np.ones(grid.shape, dtype=bool)
    is_needed: Array = np.any(point_mask.reshape(*grid.shape[:2], -1), axis=-1)
    alphas_and_rules = np.argwhere(is_needed).tolist()
    order = np.arange(len(codes))[rows][np.argsort(codes[rows], kind="stable")]
    _, n_C, n_planes = planes.intercept.shape
    d = planes.coef.shape[-1]
    group_size = max(1, TABLE_NUMBERS // (MIN_TABLE_ROWS * n_C * n_planes))
    for group_slice in block_slices(len(alphas_and_rules), group_size):
        group = alphas_and_rules[group_slice]
        # Stack all planes of a group, for one product per block of rows.
        stack = np.concatenate([planes.scaled(alpha, grid.rules[rule]) for alpha, rule in group])
        n = len(stack)
        size = min(max(TABLE_NUMBERS // n, MIN_ROWS), TABLE_ROWS, len(order))
        values = np.empty(n * size)
        extended = np.ones((size, d + 1))  # a column of ones for the intercepts
        for index in np.array_split(order, -(-len(order) // size)):
            m = len(index)
            rows_at = Z[index].toarray() if sparse.issparse(Z) else Z.take(index, axis=0)
            extended[:m, :d] = rows_at
            a = values[: n * m].reshape(n, m)
            np.dot(stack, extended[:m].T, out=a)  # unlike `@`, releases the GIL
            np.abs(a, out=a)
            distances = a.reshape(len(group), n_planes, n_C, m)
            for i, (alpha, rule) in enumerate(group):
                yield PointDistances((alpha, rule), index, distances[i])


def class_totals(codes: Array, weight: Array | None, n_classes: int) -> Array:
    """Add up the weights of each class."""
    return np.bincount(codes, weight, minlength=n_classes).astype(np.float64)


def hits_and_losses(
    grid: Grid,
    planes: GridPlanes,
    Z: Any,
    codes: Array,
    weight: Array | None,
    point_mask: Array | None = None,
    **outputs: bool,
) -> tuple[Array, Array]:
    """Run `accumulate_scores` for the rows of a test fold, with threads."""

    def score_block(block: slice) -> tuple[Array, Array]:
        distances = fold_distances(grid, planes, Z, codes, point_mask, block)
        return accumulate_scores(grid, distances, codes, weight, point_mask, **outputs)

    totals, *others = map_threads(score_block, block_slices(len(codes), ROWS_PER_THREAD))
    for block_sums in others:
        for total, block_sum in zip(totals, block_sums, strict=True):
            total += block_sum
    return totals


def accumulate_scores(
    grid: Grid,
    blocks: Iterable[PointDistances],
    codes: Array,
    weight: Array | None,
    point_mask: Array | None = None,
    *,
    hits: bool = True,
    losses: bool = True,
) -> tuple[Array, Array]:
    """Accumulate correct weight (K, *grid.shape) and Brier loss (*grid.shape) per point.

    Outputs that are switched off, and points outside of `point_mask` (None: all), may be zero.
    """
    K = grid.n_classes
    right = np.zeros((K, *grid.shape))
    loss = np.zeros(grid.shape)
    buffer = np.empty(MAX_AT_ONCE if hits and K == 2 else 0, dtype=bool)
    pairs = np.indices(grid.shape[2:]).reshape(len(grid.shape) - 2, -1)
    index: Array | None = None
    for block in blocks:
        if block.rows is not index:  # many planes share a block of rows
            index = block.rows
            labels = codes[index]
            row_weight = None if weight is None else weight[index]
            starts = np.flatnonzero(np.append(True, np.diff(labels) != 0))
            ends = np.append(starts[1:], len(labels))
        if K > 2:
            u = memberships_of(block.a, K)
            correct = (labels_of(u, axis=0) == labels).astype(np.float64)
            u[labels, :, np.arange(len(labels))] -= 1.0
            square = np.einsum("kcm,kcm->cm", u, u)
        elif point_mask is not None:
            pairs = np.argwhere(point_mask[block.grid_index]).T
        block_loss = loss[block.grid_index]
        for start, end in zip(starts, ends, strict=True):
            span = slice(start, end)
            label = int(labels[start])
            v = None if row_weight is None else row_weight[span]
            class_hits = right[label][block.grid_index]
            if K > 2:
                for sums, values in ((class_hits, correct[:, span]), (block_loss, square[:, span])):
                    sums += values.sum(axis=1) if v is None else values @ v
                continue
            a = block.a[..., span]
            if hits:
                class_hits += _pair_hits(a[0], a[1], label, v, buffer)
            if losses:
                block_loss[*pairs] += _pair_losses(a, pairs, label, v)
    return right, loss


def _pair_hits(first: Array, second: Array, label: int, v: Array | None, buffer: Array) -> Array:
    """Count the rows of one label that each pair of a first and a second plane labels correctly.

    Comparisons are written to the buffer if it is large enough, to avoid allocations. They are
    counted eight bytes at a time, as one integer, which cannot overflow within 255 additions.
    """
    m = first.shape[1]
    padded = -(-m // COUNTED) * COUNTED
    n_second: Array = np.empty((len(first), len(second)))
    step = max(1, MAX_AT_ONCE // (len(second) * padded))
    if len(buffer) < step * len(second) * padded:
        buffer = np.empty(step * len(second) * padded, dtype=bool)
    for span in block_slices(len(first), step):
        planes = first[span, None]
        # Whether each row is nearer to the second plane, padded with False.
        shape = (len(planes), len(second), padded)
        nearer = buffer[: len(planes) * len(second) * padded].reshape(shape)
        second_is_nearer(planes, second, out=nearer[:, :, :m])
        nearer[:, :, m:] = False
        if v is None:
            eights = nearer.view(np.uint64).reshape(*nearer.shape[:2], -1, COUNTED // 8)
            counts = np.add.reduce(eights, axis=-1).view(np.uint8)
            n_second[span] = counts.sum(axis=-1)
        else:
            n_second[span] = nearer[:, :, :m] @ v
    if label == 1:
        return n_second
    return (m if v is None else v.sum()) - n_second


def _pair_losses(a: Array, pairs: Array, label: int, v: Array | None) -> Array:
    """Add up the Brier losses of rows of one label at the given pairs of C.

    The two terms of a loss are equal: the squared membership in the wrong class.
    """
    own, rival = pairs[::-1] if label == 1 else pairs
    step = max(1, PAIRS_AT_ONCE // a.shape[-1])
    sums = np.empty(len(own))
    for span in block_slices(len(own), step):
        share = _rival_membership(a[label, own[span]], a[1 - label, rival[span]])
        np.einsum("pm,pm->p", share, share if v is None else share * v, out=sums[span])
    return 2 * sums


def _rival_membership(own: Array, rival: Array) -> Array:
    """Compute own / (own + rival): 1/2 for equal distances, 1 or 0 if one is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = own + rival
        np.divide(own, share, out=share)
    if np.isnan(share.sum()):
        undefined = np.isnan(share)
        share[undefined] = np.where(own == rival, 0.5, own > rival)[undefined]
    return share


def point_memberships(
    grid: Grid, blocks: Iterable[PointDistances], n_rows: int
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield the index of every point of one membership, and its memberships (n_rows, K).

    The first and the last point come first.
    """
    K = grid.n_classes
    tables = np.empty((*grid.shape[:2], K, len(grid.Cs), n_rows))
    for block in blocks:
        tables[block.grid_index][..., block.rows] = (
            block.a if K == 2 else memberships_of(block.a, K)
        )
    first, *others = np.ndindex(grid.shape)
    for point in (first, *others[::-1]):
        alpha, rule, *C_index = point
        table = tables[alpha, rule]
        u = memberships_of(table[[0, 1], C_index], 2) if K == 2 else table[:, C_index[0]]
        yield point, u.T


def alpha_blocks(grid: Grid, n_rows: int) -> list[slice]:
    """Split the alphas so that the distances of all rows have at most `MAX_DISTANCES` numbers."""
    size_per_alpha = grid.n_classes * n_rows * len(grid.Cs) * len(grid.rules)
    return block_slices(len(grid.alphas), max(1, MAX_DISTANCES // size_per_alpha))


def is_confusion_based(name: Any, total: Array, classes: Array) -> bool:
    """Return whether a score is a function of hits, if the classes have these total weights.

    Otherwise it is left to scikit-learn's scorer, which may warn or fail.
    """
    return isinstance(name, str) and name in SCORES and SCORES[name][1](total, classes)


def score_from_hits(name: str, hits: Array, total: Array) -> Array:
    """Compute a score from hits (K, ...) and total weights (K, ...) of the classes, by `SCORES`."""
    weight = total.reshape(*total.shape, *(1,) * (hits.ndim - total.ndim))
    with np.errstate(invalid="ignore", divide="ignore"):  # no rows with weight: NaN
        return np.asarray(SCORES[name][0](hits, weight))


def _balanced_accuracy(hits: Array, weight: Array) -> Array:
    present = (weight > 0).sum(axis=0)
    return np.asarray(np.where(weight > 0, hits / weight, 0.0).sum(axis=0) / present)


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _has_positive_label(total: Array, classes: Array) -> bool:
    """Return whether there are two classes, of which the second has the positive label 1."""
    return len(total) == 2 and bool(total.all()) and bool(classes[1] == 1)


# Scores that are functions of the hits h and the weights w of the classes. The first entry is the
# formula, the second says whether it applies to these total weights and labels.
SCORES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], bool]]] = {
    "accuracy": (lambda h, w: h.sum(axis=0) / w.sum(axis=0), lambda *_: True),
    "balanced_accuracy": (_balanced_accuracy, lambda total, _: bool(total.all())),
    "recall": (lambda h, w: _ratio(h[1], w[1]), _has_positive_label),
    "precision": (lambda h, w: _ratio(h[1], h[1] + w[0] - h[0]), _has_positive_label),
    "f1": (lambda h, w: _ratio(2 * h[1], h[1] + w[0] - h[0] + w[1]), _has_positive_label),
}


def roc_area(share: Array, codes: Array, weight: Array) -> float:
    """Compute the area under the ROC curve of the membership in the second of two classes.

    It is the weighted fraction of pairs in the right order, where a tie counts half (the
    Mann-Whitney statistic).
    """
    is_first = codes == 0
    is_second = codes == 1
    order = share[is_first].argsort()
    sorted_first = share[is_first][order]
    cumulative = np.append(0.0, np.cumsum(weight[is_first][order]))
    below = cumulative[np.searchsorted(sorted_first, share[is_second], side="left")]
    not_above = cumulative[np.searchsorted(sorted_first, share[is_second], side="right")]
    total = 2 * cumulative[-1] * weight[is_second].sum()
    return float((below + not_above) @ weight[is_second] / total)
