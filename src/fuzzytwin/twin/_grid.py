"""Points of a grid: planes from one set of moments, distances of rows to them, and scores.

A plane depends only on the C of its own class. With two classes, ``len(Cs)`` planes of each class
serve ``len(Cs) ** 2`` points. With more classes, all planes of a point have one C.
`accumulate_scores` adds up hits and Brier losses for any number of classes, for the rows of a test
fold and for leave-one-out predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._utils.threads import map_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import cut
from fuzzytwin.core.distances import (
    effective_distances,
    labels_of,
    memberships_of,
    plane_ratio,
    second_is_nearer,
)
from fuzzytwin.twin._loo_systems import LooValues

# A table of distances has at most this many rows: enough to hide Python's overhead, few enough for
# the cache. Planes share a table as long as it has at least FEW_ROWS rows.
TABLE_ROWS = 8160
TABLE_NUMBERS = 1 << 20
FEW_ROWS = 512
FEWEST_ROWS = 64
# Hits are counted in chunks of this many rows. The buffers hold this many comparisons and shares.
COUNTED = 8 * 255
MOST_AT_ONCE = 1 << 20
PAIRS_AT_ONCE = 1 << 17
# Rows that one thread scores at a time.
ROWS_PER_THREAD = 1 << 15
# Limit on the distances of all test rows to all planes, which are held for ROC areas.
MOST_DISTANCES = 1 << 25


class GridPlanes(NamedTuple):
    """Coefficients of every alpha, C and plane; widths do not depend on alpha."""

    coef: Array
    intercept: Array
    norms: Array
    width_coef: Array | None = None
    width_intercept: Array | None = None

    def scaled(self, grid: Grid, alpha: int, rule: int) -> list[Array]:
        """Return the planes of one alpha and their widths, scaled as by `distances.unit_normals`.

        Rows are ordered by plane, then by C. The last column is the intercept.
        """
        parts = [(self.coef[alpha], self.intercept[alpha])]
        if self.width_coef is not None and self.width_intercept is not None:
            parts += [(self.width_coef, self.width_intercept)]
        scaled_parts = []
        for w, b in parts:
            part = np.empty((*b.T.shape, w.shape[-1] + 1))
            part[..., :-1] = w.swapaxes(0, 1)
            part[..., -1] = b.T
            if grid.rules[rule] == "distance":
                with np.errstate(over="ignore"):
                    part /= self.norms[alpha].T[..., None]
            scaled_parts.append(part.reshape(-1, part.shape[-1]))
        return scaled_parts


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

    Points are numbered along the axes membership, kind, alpha, rule and C. With two classes there
    are two axes of C, of the first and of the second class, and with more classes one of a common
    C. Points of one membership share one set of moments.
    """

    kinds: tuple[str, ...]
    alphas: Array
    rules: tuple[str, ...]
    Cs: Array
    n_classes: int
    multi_class: str = "ovo"
    memberships: list[Any] = field(default_factory=lambda: [None])
    kernel: dict[str, Any] = field(default_factory=dict)  # parameters of all points, e.g. gamma
    splits: list[SplitScores] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)  # of leave-one-out, shared with parts

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points of one membership along each axis."""
        C_shape = (len(self.Cs),) * (2 if self.n_classes == 2 else 1)
        return (len(self.kinds), len(self.alphas), len(self.rules), *C_shape)

    def points(self) -> list[dict[str, Any]]:
        """Return the parameters of each point; C is a number, or a pair for two classes."""
        Cs: list[Any] = self.Cs.tolist()
        Cs = list(product(Cs, repeat=2)) if self.n_classes == 2 else Cs
        axes = product(self.memberships, self.kinds, self.alphas.tolist(), self.rules, Cs)
        names = "membership", "planes", "alpha", "rule", "C"
        return [self.kernel | dict(zip(names, values, strict=True)) for values in axes]

    def without(self, alphas: Array) -> Grid:
        """Return the grid and its scores without the points of the given alphas."""
        keep = ~np.isin(self.alphas, alphas)
        kept = [
            replace(split, scores=split.scores[:, :, keep], brier=split.brier[:, :, keep])
            for split in self.splits
        ]
        return replace(self, alphas=self.alphas[keep], splits=kept)

    def brier(self, tests: list[ScoringRows], wanted: Array) -> Array:
        """Compute the mean Brier scores (n_splits, n_points) at the wanted points."""
        split_brier = []
        for rows, split in zip(tests, self.splits, strict=True):
            brier = split.brier.copy()
            mask = wanted.reshape(brier.shape)
            for m, planes in enumerate(split.planes):
                if planes is not None and mask[m].any():
                    _, losses = hits_and_losses(self, planes, rows, mask[m], hits=False)
                    brier[m] = losses[0] / rows.totals(self.n_classes).sum()
            split_brier.append(brier.ravel())
        return np.array(split_brier)


@dataclass(frozen=True, eq=False)
class ScoringRows:
    """Rows to score, in groups that are scored separately."""

    X: Any  # all rows
    features: Any  # kernel features of all rows; X itself for linear planes
    codes: Array
    weight: Array | None
    index: Array  # the rows to score
    group: Array | None = None  # group of each row; None: one group
    n_groups: int = 1

    def cells(self, index: Array, n_classes: int) -> Array:
        """Return the cell of each row of the index: group * K + class."""
        codes = self.codes[index]
        return codes if self.group is None else self.group[index] * n_classes + codes

    def totals(self, n_classes: int) -> Array:
        """Add up the weights of each group and class."""
        weight = None if self.weight is None else self.weight[self.index]
        size = self.n_groups * n_classes
        total = np.bincount(self.cells(self.index, n_classes), weight, minlength=size)
        return total.reshape(self.n_groups, n_classes).astype(np.float64)


class PointDistances(NamedTuple):
    """Effective distances (n_planes, n_C, m) of rows to the planes of one kind, alpha and rule.

    ``place`` is the index of kind, alpha and rule on the axes of the grid. The ``rows`` are sorted
    by cell. ``a`` is a buffer that the next block overwrites.
    """

    place: tuple[int, int, int]
    rows: Array
    a: Array


def fold_distances(
    grid: Grid,
    planes: GridPlanes,
    rows: ScoringRows,
    wanted: Array | None = None,
    *,
    one_block: bool = False,
) -> Iterator[PointDistances]:
    """Compute distances to the planes of the wanted points (None: all), in blocks of rows."""
    if wanted is None:
        wanted = np.ones(grid.shape, dtype=bool)
    is_needed: Array = np.any(wanted.reshape(*grid.shape[:3], -1), axis=-1)
    alphas_and_rules = np.argwhere(is_needed.any(axis=0)).tolist()
    order = rows.index[np.argsort(rows.cells(rows.index, grid.n_classes), kind="stable")]
    _, n_C, n_planes = planes.intercept.shape
    d = planes.coef.shape[-1]
    at_once = max(1, TABLE_NUMBERS // (FEW_ROWS * n_C * n_planes))
    for places in cut(len(alphas_and_rules), at_once):
        group = alphas_and_rules[places]
        # Stack all planes of a group, for one product per block of rows.
        stacks = zip(*(planes.scaled(grid, *place) for place in group), strict=True)
        centres, *widths = (np.concatenate(part) if part[1:] else part[0] for part in stacks)
        n = len(centres)
        size = len(order)
        if not one_block:
            size = min(max(TABLE_NUMBERS // n, FEWEST_ROWS), TABLE_ROWS, size)
        values = np.empty(n * size)
        extended = np.ones((size, d + 1))  # a column of ones for the intercepts
        for index in np.array_split(order, -(-len(order) // size)):
            m = len(index)
            extended[:m, :d] = dense_rows(rows.features, index)
            f = values[: n * m].reshape(n, m)
            np.dot(centres, extended[:m].T, out=f)  # unlike `@`, releases the GIL
            np.abs(f, out=f)
            a = {"crisp": f.reshape(len(group), n_planes, n_C, m)}
            if widths:
                x = np.abs(dense_rows(rows.X, index))
                gamma = np.dot(widths[0][:, :-1], x.T) + widths[0][:, -1:]
                a["fuzzy"] = effective_distances(f, gamma).reshape(a["crisp"].shape)
            for i, (alpha, rule) in enumerate(group):
                for kind in np.flatnonzero(is_needed[:, alpha, rule]).tolist():
                    yield PointDistances((kind, alpha, rule), index, a[grid.kinds[kind]][i])


def loo_distances(
    grid: Grid, blocks: Iterable[LooValues], rows: ScoringRows
) -> Iterator[PointDistances]:
    """Compute leave-one-out distances from leave-one-out values and norms of planes."""
    all_rows = np.arange(len(rows.codes))
    for block in blocks:
        index = all_rows[block.index]
        order = np.argsort(rows.cells(index, grid.n_classes), kind="stable")
        for i in range(len(grid.alphas)):
            f = np.abs(block.f[i].swapaxes(0, 1)[..., order])  # (n_planes, n_C, m)
            for r, rule in enumerate(grid.rules):
                a = f
                if rule == "distance" and block.norms is not None:
                    norms = block.norms[i].swapaxes(0, 1)[..., order]
                    a = plane_ratio(f, norms, axis=(0, 1))
                yield PointDistances((0, i, r), index[order], a)


def dense_rows(X: Any, index: Array) -> Array:
    """Return the rows of the index as a dense array."""
    return np.asarray(X[index].toarray() if sparse.issparse(X) else X.take(index, axis=0))


def grid_scores(
    name: Any, grid: Grid, planes: GridPlanes, rows: ScoringRows, classes: Array, *, losses: bool
) -> tuple[Array | None, Array | None]:
    """Compute the scores of all points and, with `losses`, their mean Brier scores.

    Scores are None if they must be left to scikit-learn's scorer: for other names, and if it would
    warn or fail on these test rows or labels.
    """
    total = rows.totals(grid.n_classes)
    scores = None
    brier = None
    counted = is_confusion_based(name, total[0], classes)
    if counted or losses:
        hits, loss = hits_and_losses(grid, planes, rows, hits=counted, losses=losses)
        brier = loss[0] / total.sum() if losses else None
        scores = group_scores(name, hits, total)[0] if counted else None
    n_distances = planes.intercept.size * len(grid.kinds) * len(grid.rules) * len(rows.index)
    has_two_classes = grid.n_classes == 2 and bool(total.all())
    if name == "roc_auc" and has_two_classes and n_distances <= MOST_DISTANCES:
        scores = _roc_aucs(grid, planes, rows)
    return scores, brier


def group_scores(name: str, hits: Array, total: Array) -> Array:
    """Compute the score of each group from hits (G, K, ...) and weights (G, K), by `SCORES`."""
    weight = total.reshape(*total.shape, *(1,) * (hits.ndim - 2))
    with np.errstate(invalid="ignore", divide="ignore"):  # groups without weight: NaN
        return np.asarray(SCORES[name][0](hits, weight))


def is_confusion_based(name: Any, weight: Array, classes: Array) -> bool:
    """Return whether a score is a function of hits, if the classes have these weights."""
    return isinstance(name, str) and name in SCORES and SCORES[name][1](weight, classes)


def _balanced_accuracy(hits: Array, weight: Array) -> Array:
    present = (weight > 0).sum(axis=1)
    return np.asarray(np.where(weight > 0, hits / weight, 0.0).sum(axis=1) / present)


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _positive(weight: Array, classes: Array) -> bool:
    """Return whether there are two classes, of which the second has the positive label 1."""
    return len(weight) == 2 and bool(weight.all()) and bool(classes[1] == 1)


# Scores that are functions of the hits h and the weights w of each group and class. The first entry
# is the formula, the second tells whether it applies to the given class weights and labels.
SCORES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], bool]]] = {
    "accuracy": (lambda h, w: h.sum(axis=1) / w.sum(axis=1), lambda *_: True),
    "balanced_accuracy": (_balanced_accuracy, lambda weight, _: bool(weight.all())),
    "recall": (lambda h, w: _ratio(h[:, 1], w[:, 1]), _positive),
    "precision": (lambda h, w: _ratio(h[:, 1], h[:, 1] + w[:, 0] - h[:, 0]), _positive),
    "f1": (lambda h, w: _ratio(2 * h[:, 1], h[:, 1] + w[:, 0] - h[:, 0] + w[:, 1]), _positive),
}


def hits_and_losses(
    grid: Grid, planes: GridPlanes, rows: ScoringRows, wanted: Array | None = None, **outputs: bool
) -> tuple[Array, Array]:
    """Run `accumulate_scores` for the rows of a test fold, with threads."""

    def score_block(block: slice) -> tuple[Array, Array]:
        part = replace(rows, index=rows.index[block])
        distances = fold_distances(grid, planes, part, wanted)
        return accumulate_scores(grid, distances, part, wanted, **outputs)

    totals, *others = map_threads(score_block, cut(len(rows.index), ROWS_PER_THREAD))
    for block_sums in others:
        for total, block_sum in zip(totals, block_sums, strict=True):
            total += block_sum
    return totals


def accumulate_scores(
    grid: Grid,
    blocks: Iterable[PointDistances],
    rows: ScoringRows,
    wanted: Array | None = None,
    *,
    hits: bool = True,
    losses: bool = True,
) -> tuple[Array, Array]:
    """Accumulate correct weight and Brier loss per point.

    Hits have the shape (n_groups, K, *grid.shape), losses (n_groups, *grid.shape). Outputs that are
    switched off, and points that are not wanted (None: all are), may be zero.
    """
    K = grid.n_classes
    right = np.zeros((rows.n_groups * K, *grid.shape))
    loss = np.zeros((rows.n_groups, *grid.shape))
    buffer = np.empty(MOST_AT_ONCE if hits and K == 2 else 0, dtype=bool)
    pairs = np.indices(grid.shape[3:]).reshape(len(grid.shape) - 3, -1)
    index: Array | None = None
    for block in blocks:
        if block.rows is not index:  # many planes share a block of rows
            index = block.rows
            cells = rows.cells(index, K)
            weight = None if rows.weight is None else rows.weight[index]
            starts = np.flatnonzero(np.append(True, np.diff(cells) != 0))
        if K > 2:
            u = memberships_of(block.a, K)
            labels = cells % K
            correct = (labels_of(u, axis=0) == labels).astype(np.float64)
            u[labels, :, np.arange(len(labels))] -= 1.0
            square = np.einsum("kcm,kcm->cm", u, u)
        elif wanted is not None:
            pairs = np.argwhere(wanted[block.place]).T
        for start, end in zip(starts, np.append(starts[1:], len(cells)), strict=True):
            span = slice(start, end)
            cell = int(cells[start])
            a = block.a[..., span]
            v = None if weight is None else weight[span]
            cell_hits = right[cell][block.place]
            group_loss = loss[cell // K][block.place]
            if K > 2:
                for sums, values in ((cell_hits, correct[:, span]), (group_loss, square[:, span])):
                    sums += values.sum(axis=1) if v is None else values @ v
                continue
            if hits:
                cell_hits += _pair_hits(a[0], a[1], cell % 2, v, buffer)
            if losses:
                group_loss[*pairs] += _pair_losses(a, pairs, cell % 2, v)
    return right.reshape(rows.n_groups, K, *grid.shape), loss


def _pair_hits(first: Array, second: Array, label: int, v: Array | None, buffer: Array) -> Array:
    """Count the rows of one label that each pair of a first and a second plane labels correctly.

    Comparisons are written to the buffer if it is large enough, to avoid allocations. They are
    counted eight bytes at a time, as one integer, which cannot overflow within 255 additions.
    """
    m = first.shape[1]
    padded = -(-m // COUNTED) * COUNTED
    n_second: Array = np.empty((len(first), len(second)))
    step = max(1, MOST_AT_ONCE // (len(second) * padded))
    if len(buffer) < step * len(second) * padded:
        buffer = np.empty(step * len(second) * padded, dtype=bool)
    for span in cut(len(first), step):
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
    own, rival = pairs[:: -1 if label else 1]
    step = max(1, PAIRS_AT_ONCE // a.shape[-1])
    sums = np.empty(len(own))
    for span in cut(len(own), step):
        share = _share(a[label, own[span]], a[1 - label, rival[span]])
        np.einsum("pm,pm->p", share, share if v is None else share * v, out=sums[span])
    return 2 * sums


def _share(near: Array, far: Array) -> Array:
    """Compute near / (near + far); 1/2 for equal distances, 1 or 0 if one is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = near + far
        np.divide(near, share, out=share)
    if np.isnan(share.sum()):
        undefined = np.isnan(share)
        share[undefined] = np.where(near == far, 0.5, near > far)[undefined]
    return share


def _roc_aucs(grid: Grid, planes: GridPlanes, rows: ScoringRows) -> Array:
    """Compute the areas under the ROC curves of all points."""
    areas = np.zeros(grid.shape)
    for place, index, a in fold_distances(grid, planes, rows, one_block=True):
        weight = np.ones(len(index)) if rows.weight is None else rows.weight[index]
        for i, j in np.ndindex(areas[place].shape):
            areas[place][i, j] = roc_area(_share(a[0, i], a[1, j]), rows.codes[index], weight)
    return areas


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
