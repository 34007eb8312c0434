"""The points of a grid: planes from one set of moments, distances of rows to them, scores.

A plane depends on the C of its own class alone. With two classes, ``len(Cs)`` planes of each class
serve ``len(Cs) ** 2`` points; with more classes, all planes of a point have one C. Hits and Brier
scores are added up in one place (`accumulate_scores`), for two classes and more, for the rows of a
test fold and for rows that are left out one by one.
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

# A table of distances has this many rows: enough to hide Python's overhead, few enough for the
# cache. Planes share a table while it has at least FEW_ROWS rows.
TABLE_ROWS = 8160
TABLE_NUMBERS = 1 << 20
FEW_ROWS = 512
FEWEST_ROWS = 64
# This many rows are counted at once; this many comparisons and this many shares are held at once.
COUNTED = 8 * 255
MOST_AT_ONCE = 1 << 20
PAIRS_AT_ONCE = 1 << 17
# One thread scores this many rows at a time.
ROWS_PER_THREAD = 1 << 15
# Distances of all test rows to all planes are held for areas: at most this many.
MOST_DISTANCES = 1 << 25


class GridPlanes(NamedTuple):
    """Planes for every alpha, C and plane; widths do not depend on alpha."""

    coef: Array
    intercept: Array
    norms: Array
    width_coef: Array | None = None
    width_intercept: Array | None = None

    def scaled(self, grid: Grid, alpha: int, rule: int) -> list[Array]:
        """Return the planes of one alpha and their widths, scaled as by `distances.unit_normals`.

        The values of C of one plane are below each other, intercepts are the last column.
        """
        parts = [(self.coef[alpha], self.intercept[alpha])]
        if self.width_coef is not None and self.width_intercept is not None:
            parts += [(self.width_coef, self.width_intercept)]
        both = []
        for w, b in parts:
            part = np.empty((*b.T.shape, w.shape[-1] + 1))
            part[..., :-1], part[..., -1] = w.swapaxes(0, 1), b.T
            if grid.rules[rule] == "distance":
                with np.errstate(over="ignore"):
                    part /= self.norms[alpha].T[..., None]
            both.append(part.reshape(-1, part.shape[-1]))
        return both


@dataclass(eq=False)
class SplitScores:
    """Scores of one split at every membership and point of a grid."""

    scores: Array
    brier: Array
    planes: list[GridPlanes | None]  # for each membership; None where `brier` is filled
    failures: list[str] = field(default_factory=list)
    fit_time: float = 0.0
    score_time: float = 0.0


@dataclass(eq=False)
class Grid:
    """The points of one kernel, and their scores on every split.

    Points are numbered along the axes membership, kind, alpha, rule, C (of the first class, then of
    the second, where there are two classes; one common C where there are more). Those of one
    membership share one set of moments.
    """

    kinds: tuple[str, ...]
    alphas: Array
    rules: tuple[str, ...]
    Cs: Array
    n_classes: int
    multi_class: str = "ovo"
    memberships: list[Any] = field(default_factory=lambda: [None])
    kernel: dict[str, Any] = field(default_factory=dict)  # what all points share, such as gamma
    splits: list[SplitScores] = field(default_factory=list)
    kept: dict[Any, Any] = field(default_factory=dict)  # by leave-one-out, for parts of the grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points of one membership along each axis."""
        of_C = (len(self.Cs),) * (2 if self.n_classes == 2 else 1)
        return (len(self.kinds), len(self.alphas), len(self.rules), *of_C)

    def points(self) -> list[dict[str, Any]]:
        """Name the parameters of each point; C is a number, or one per class of two."""
        Cs: list[Any] = self.Cs.tolist()
        Cs = list(product(Cs, repeat=2)) if self.n_classes == 2 else Cs
        axes = product(self.memberships, self.kinds, self.alphas.tolist(), self.rules, Cs)
        names = "membership", "planes", "alpha", "rule", "C"
        return [self.kernel | dict(zip(names, values, strict=True)) for values in axes]

    def without(self, alphas: Array) -> Grid:
        """Leave out the points of some alphas, which another grid lists; planes are not kept."""
        keep = ~np.isin(self.alphas, alphas)
        kept = [
            replace(split, scores=split.scores[:, :, keep], brier=split.brier[:, :, keep])
            for split in self.splits
        ]
        return replace(self, alphas=self.alphas[keep], splits=kept)

    def brier(self, tests: list[ScoringRows], wanted: Array) -> Array:
        """Compute the mean Brier scores (n_splits, n_points) at the wanted points."""
        found = []
        for rows, split in zip(tests, self.splits, strict=True):
            brier, asked = split.brier.copy(), wanted.reshape(split.brier.shape)
            for m, planes in enumerate(split.planes):
                if planes is not None and asked[m].any():
                    _, losses = hits_and_losses(self, planes, rows, asked[m], hits=False)
                    brier[m] = losses[0] / rows.totals(self.n_classes).sum()
            found.append(brier.ravel())
        return np.array(found)


@dataclass(frozen=True, eq=False)
class ScoringRows:
    """Rows to score, in groups that are scored apart."""

    X: Any  # all rows
    features: Any  # in which planes are linear: X itself without a kernel
    codes: Array
    weight: Array | None
    index: Array  # the rows to score
    group: Array | None = None  # of each row; None: all are in one
    n_groups: int = 1

    def cells(self, index: Array, n_classes: int) -> Array:
        """Return the cell of some rows, one for each group and class: group * K + class."""
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

    ``place`` has their indices on the axes of the grid. The ``rows`` are in the order of their
    cells. ``a`` is a buffer: the next block overwrites it.
    """

    place: tuple[int, int, int]
    rows: Array
    a: Array


def fold_distances(
    grid: Grid, planes: GridPlanes, rows: ScoringRows, wanted: Array | None = None,
    *, whole: bool = False,
) -> Iterator[PointDistances]:  # fmt: skip
    """Compute distances to the planes of the wanted points (None: all), in blocks of rows.

    With `whole`, all rows are one block.
    """
    wanted = np.ones(grid.shape, dtype=bool) if wanted is None else wanted
    some: Array = np.any(wanted.reshape(*grid.shape[:3], -1), axis=-1)
    places = np.argwhere(some.any(axis=0)).tolist()
    order = rows.index[np.argsort(rows.cells(rows.index, grid.n_classes), kind="stable")]
    (_, n_C, n_planes), d = planes.intercept.shape, planes.coef.shape[-1]
    at_once = max(1, TABLE_NUMBERS // (FEW_ROWS * n_C * n_planes))
    for some_places in cut(len(places), at_once):
        group = places[some_places]
        # All planes of a group, one below the other: one product per block of rows.
        stacks = zip(*(planes.scaled(grid, *at) for at in group), strict=True)
        centres, *widths = (np.concatenate(part) if part[1:] else part[0] for part in stacks)
        n = len(centres)
        size = min(max(TABLE_NUMBERS // n, FEWEST_ROWS), TABLE_ROWS, len(order))
        size = len(order) if whole else size
        values, extended = np.empty(n * size), np.ones((size, d + 1))  # a 1 for the intercepts
        for index in np.array_split(order, -(-len(order) // size)):
            m = len(index)
            extended[:m, :d] = dense_rows(rows.features, index)
            f = values[: n * m].reshape(n, m)
            np.dot(centres, extended[:m].T, out=f)  # unlike `@`, it lets threads run
            np.abs(f, out=f)
            a = {"crisp": f.reshape(len(group), n_planes, n_C, m)}
            if widths:
                x = np.abs(dense_rows(rows.X, index))
                gamma = np.dot(widths[0][:, :-1], x.T) + widths[0][:, -1:]
                a["fuzzy"] = effective_distances(f, gamma).reshape(a["crisp"].shape)
            for at, (alpha, rule) in enumerate(group):
                for kind in np.flatnonzero(some[:, alpha, rule]).tolist():
                    yield PointDistances((kind, alpha, rule), index, a[grid.kinds[kind]][at])


def left_out_distances(
    grid: Grid, blocks: Iterable[LooValues], rows: ScoringRows
) -> Iterator[PointDistances]:
    """Compute distances from values of planes that were learned without the rows."""
    everything = np.arange(len(rows.codes))
    for block in blocks:
        index = everything[block.index]
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
    """Return some rows as a dense array."""
    return np.asarray(X[index].toarray() if sparse.issparse(X) else X.take(index, axis=0))


def grid_scores(
    name: Any, grid: Grid, planes: GridPlanes, rows: ScoringRows, classes: Array, *, losses: bool
) -> tuple[Array | None, Array | None]:
    """Compute the scores of all points and, if asked for, their mean Brier scores.

    Scores are None if only scikit-learn's scorer can compute them: for other names, and where test
    rows or labels are such that it would warn or fail.
    """
    total, scores, brier = rows.totals(grid.n_classes), None, None
    counted = is_confusion_based(name, total[0], classes)
    if counted or losses:
        hits, loss = hits_and_losses(grid, planes, rows, hits=counted, losses=losses)
        brier = loss[0] / total.sum() if losses else None
        scores = group_scores(name, hits, total)[0] if counted else None
    n_distances = planes.intercept.size * len(grid.kinds) * len(grid.rules) * len(rows.index)
    two = grid.n_classes == 2 and bool(total.all())
    if name == "roc_auc" and two and n_distances <= MOST_DISTANCES:
        scores = _roc_aucs(grid, planes, rows)
    return scores, brier


def group_scores(name: str, hits: Array, total: Array) -> Array:
    """Compute the score of each group from hits (G, K, ...) and weights (G, K), by `SCORES`."""
    weight = total.reshape(*total.shape, *(1,) * (hits.ndim - 2))
    with np.errstate(invalid="ignore", divide="ignore"):  # groups without weight: NaN
        return np.asarray(SCORES[name][0](hits, weight))


def is_confusion_based(name: Any, weight: Array, classes: Array) -> bool:
    """Return whether a score follows from hits where the classes have this weight."""
    return isinstance(name, str) and name in SCORES and SCORES[name][1](weight, classes)


def _balanced_accuracy(hits: Array, weight: Array) -> Array:
    present = (weight > 0).sum(axis=1)
    return np.asarray(np.where(weight > 0, hits / weight, 0.0).sum(axis=1) / present)


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _positive(weight: Array, classes: Array) -> bool:
    """Return whether there are two classes, the second of them 1, the positive label."""
    return len(weight) == 2 and bool(weight.all()) and bool(classes[1] == 1)


# Scores that follow from the hits h and the weights w of each group and class: the formula, and
# whether it holds, by the weights and the labels of the classes.
SCORES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], bool]]] = {
    "accuracy": (lambda h, w: h.sum(axis=1) / w.sum(axis=1), lambda *_: True),
    "balanced_accuracy": (_balanced_accuracy, lambda weight, _: bool(weight.all())),
    "recall": (lambda h, w: _ratio(h[:, 1], w[:, 1]), _positive),
    "precision": (lambda h, w: _ratio(h[:, 1], h[:, 1] + w[:, 0] - h[:, 0]), _positive),
    "f1": (lambda h, w: _ratio(2 * h[:, 1], h[:, 1] + w[:, 0] - h[:, 0] + w[:, 1]), _positive),
}


def hits_and_losses(
    grid: Grid, planes: GridPlanes, rows: ScoringRows, wanted: Array | None = None, **asked: bool
) -> tuple[Array, Array]:
    """Compute what `accumulate_scores` returns for rows of a test fold, on threads."""

    def of_part(here: slice) -> tuple[Array, Array]:
        part = replace(rows, index=rows.index[here])
        return accumulate_scores(
            grid, fold_distances(grid, planes, part, wanted), part, wanted, **asked
        )

    first, *rest = map_threads(of_part, cut(len(rows.index), ROWS_PER_THREAD))
    for other in rest:
        for total, part in zip(first, other, strict=True):
            total += part
    return first


def accumulate_scores(
    grid: Grid, blocks: Iterable[PointDistances], rows: ScoringRows, wanted: Array | None = None,
    *, hits: bool = True, losses: bool = True,
) -> tuple[Array, Array]:  # fmt: skip
    """Weigh the rows that each point labels right, and add up Brier scores.

    Hits have the shape (n_groups, K, *grid.shape), losses (n_groups, *grid.shape); those that are
    not asked for may be zero, as those of points that are not wanted (None: all are).
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
            u, labels = memberships_of(block.a, K), cells % K
            correct = (labels_of(u, axis=0) == labels).astype(np.float64)
            u[labels, :, np.arange(len(labels))] -= 1.0
            square = np.einsum("kcm,kcm->cm", u, u)
        elif wanted is not None:
            pairs = np.argwhere(wanted[block.place]).T
        for start, end in zip(starts, np.append(starts[1:], len(cells)), strict=True):
            here, cell = slice(start, end), int(cells[start])
            a = block.a[..., here]
            v = None if weight is None else weight[here]
            of_hits, of_loss = right[cell][block.place], loss[cell // K][block.place]
            if K > 2:
                for sums, values in ((of_hits, correct[:, here]), (of_loss, square[:, here])):
                    sums += values.sum(axis=1) if v is None else values @ v
                continue
            if hits:
                of_hits += _pair_hits(a[0], a[1], cell % 2, v, buffer)
            if losses:
                of_loss[*pairs] += _pair_losses(a, pairs, cell % 2, v)
    return right.reshape(rows.n_groups, K, *grid.shape), loss


def _pair_hits(first: Array, second: Array, label: int, v: Array | None, buffer: Array) -> Array:
    """Count the rows of one label that pairs of a first and a second plane label right.

    The buffer holds comparisons, if it is large enough: it spares the time to get memory. They are
    counted eight bytes at once, as one integer: after 255 times none of them exceeds 255.
    """
    m = first.shape[1]
    padded = -(-m // COUNTED) * COUNTED
    n_second: Array = np.empty((len(first), len(second)))
    step = max(1, MOST_AT_ONCE // (len(second) * padded))
    if len(buffer) < step * len(second) * padded:
        buffer = np.empty(step * len(second) * padded, dtype=bool)
    for here in cut(len(first), step):
        some = first[here, None]
        # Whether each row is nearer to the second plane; there are no rows behind the last.
        nearer = buffer[: len(some) * len(second) * padded].reshape(len(some), len(second), padded)
        second_is_nearer(some, second, out=nearer[:, :, :m])
        nearer[:, :, m:] = False
        if v is None:
            eights = nearer.view(np.uint64).reshape(*nearer.shape[:2], -1, COUNTED // 8)
            counts = np.add.reduce(eights, axis=-1).view(np.uint8)
            n_second[here] = counts.sum(axis=-1)
        else:
            n_second[here] = nearer[:, :, :m] @ v
    return n_second if label == 1 else (m if v is None else v.sum()) - n_second


def _pair_losses(a: Array, pairs: Array, label: int, v: Array | None) -> Array:
    """Add up the Brier scores of rows of one label at some pairs of C.

    The two parts of a score are equal: the squared share of the wrong class.
    """
    own, rival = pairs[:: -1 if label else 1]
    step = max(1, PAIRS_AT_ONCE // a.shape[-1])
    sums = np.empty(len(own))
    for here in cut(len(own), step):
        share = _share(a[label, own[here]], a[1 - label, rival[here]])
        np.einsum("pm,pm->p", share, share if v is None else share * v, out=sums[here])
    return 2 * sums


def _share(near: Array, far: Array) -> Array:
    """Compute near / (near + far); equal distances share, an infinite one takes all."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = near + far
        np.divide(near, share, out=share)
    if np.isnan(share.sum()):
        odd = np.isnan(share)
        share[odd] = np.where(near == far, 0.5, near > far)[odd]
    return share


def _roc_aucs(grid: Grid, planes: GridPlanes, rows: ScoringRows) -> Array:
    """Compute the areas under the ROC curves of all points."""
    areas = np.zeros(grid.shape)
    for place, index, a in fold_distances(grid, planes, rows, whole=True):
        weight = np.ones(len(index)) if rows.weight is None else rows.weight[index]
        for i, j in np.ndindex(areas[place].shape):
            areas[place][i, j] = roc_area(_share(a[0, i], a[1, j]), rows.codes[index], weight)
    return areas


def roc_area(share: Array, codes: Array, weight: Array) -> float:
    """Compute the area under the ROC curve of the share of the second of two classes.

    It is the share, by weight, of the pairs in the right order; a tie is half a pair.
    """
    first, second = codes == 0, codes == 1
    order = share[first].argsort()
    low, upto = share[first][order], np.append(0.0, np.cumsum(weight[first][order]))
    sides = (np.searchsorted(low, share[second], side=side) for side in ("left", "right"))
    below: Array = np.sum([upto[side] for side in sides], axis=0)
    return float(below @ weight[second] / (2 * upto[-1] * weight[second].sum()))
