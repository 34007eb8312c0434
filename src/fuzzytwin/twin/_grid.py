"""Points of a grid: planes from one set of moments, distances of rows to them, and scores.

A plane depends only on the C of its own class. With two classes, ``len(Cs)`` planes of each class
serve ``len(Cs) ** 2`` points. With more classes, all planes of a point have one C.
`score_points` adds up hits and Brier losses of the rows of a test fold, for any number of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.core.blocks import block_slices, dense_block
from fuzzytwin.core.distances import (
    labels_of,
    memberships_of,
    plane_norms,
    second_is_nearer,
)

# Rows of one class are scored in blocks of at least and at most so many rows, and points in blocks
# of this many numbers, so that they stay in the cache.
MIN_ROWS = 64
MAX_ROWS = 2048
BLOCK_NUMBERS = 1 << 16


@dataclass(eq=False)
class SplitScores:
    """Scores of one split at every membership and point of a grid."""

    scores: Array
    brier: Array
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


def score_points(
    grid: Grid, coef: Array, intercept: Array, Z: Any, codes: Array, weight: Array
) -> tuple[Array, Array]:
    """Add up the correct weight (K, *grid.shape) and the Brier loss (*grid.shape) of every point.

    Planes have coefficients (n_alphas, n_Cs, n_planes, d) and intercepts. Z are features of rows,
    with their codes and weights.
    """
    K = grid.n_classes
    coef = np.moveaxis(coef, 2, 0)
    intercept = np.moveaxis(intercept, 2, 0)
    norms = plane_norms(coef)
    # A plane without direction is infinitely far, unless it contains the row or all planes are so.
    has_direction = norms.any(axis=(0, 2), keepdims=True)
    norms[(norms == 0) & ((intercept == 0) | ~has_direction)] = 1.0
    numbers_per_row = len(grid.Cs) * max(len(coef), len(grid.Cs))
    class_weight = np.eye(K)[codes] * weight[:, None]

    def score_block(block: slice) -> tuple[Array, Array]:
        x = dense_block(Z, block)
        block_weight = class_weight[block]
        # The two terms of the loss of a pair are equal.
        row_weight = block_weight.sum(axis=1) * (2 if K == 2 else 1)
        right = np.empty((*grid.shape, K))
        loss = np.empty(grid.shape)
        step = max(1, BLOCK_NUMBERS // (numbers_per_row * len(x)))
        for at in block_slices(len(grid.alphas), step):
            # `dot` lets other threads run, `@` of two matrices does not.
            f = np.dot(coef[:, at].reshape(-1, x.shape[1]), x.T)
            f = f.reshape(len(coef), -1, len(grid.Cs), len(x))
            f += intercept[:, at, :, None]
            np.abs(f, out=f)
            for r, rule in enumerate(grid.rules):
                a = f
                if rule == "distance":
                    with np.errstate(divide="ignore", over="ignore"):
                        a = f / norms[:, at, :, None]
                score_rows = _score_pairs if K == 2 else _score_classes
                correct, losses = score_rows(a, codes[block], K)
                shape = correct.shape[:-1]
                sums = np.dot(correct.reshape(-1, len(x)), block_weight)
                right[at, r] = sums.reshape(*shape, K)
                loss[at, r] = np.dot(losses.reshape(-1, len(x)), row_weight).reshape(shape)
        return right, loss

    size = min(max(BLOCK_NUMBERS // numbers_per_row, MIN_ROWS), MAX_ROWS)
    hits = np.zeros((*grid.shape, K))
    losses = np.zeros(grid.shape)
    for right, loss in map_threads(score_block, block_slices(len(codes), size)):
        hits += right
        losses += loss
    return np.moveaxis(hits, -1, 0), losses


def _score_pairs(a: Array, codes: Array, n_classes: int) -> tuple[Array, Array]:
    """Return whether rows are correct, and their losses, at all pairs of C of two classes."""
    first = a[0, :, :, None]
    second = a[1, :, None]
    u = first + second  # becomes the membership in the second class, then the loss
    with np.errstate(invalid="ignore", over="ignore"):
        np.divide(first, u, out=u)
    if not (a.min() > 0 and a.max() < np.inf):
        np.copyto(u, np.where(first == second, 0.5, first > second), where=np.isnan(u))
    correct = second_is_nearer(first, second) == (codes == 1)
    u -= codes
    np.square(u, out=u)
    return correct, u


def _score_classes(a: Array, codes: Array, n_classes: int) -> tuple[Array, Array]:
    """Return whether rows are correct, and their losses, at every C of more than two classes."""
    u = memberships_of(a, n_classes)
    correct = labels_of(u, axis=0) == codes
    u[codes, ..., np.arange(len(codes))] -= 1.0
    return correct, np.einsum("kacm,kacm->acm", u, u)


def score_from_hits(name: str, hits: Array, total: Array) -> Array:
    """Compute a score from hits (K, ...) and total weights (K,) of the classes, by `SCORES`."""
    return np.asarray(SCORES[name](hits, total.reshape(-1, *(1,) * (hits.ndim - 1))))


def _balanced_accuracy(hits: Array, weight: Array) -> Array:
    present = weight.ravel() > 0
    return np.asarray((hits[present] / weight[present]).mean(axis=0))


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


# Scores as functions of the hits h and the weights w of the classes.
SCORES: dict[str, Callable[[Array, Array], Array]] = {
    "accuracy": lambda h, w: h.sum(axis=0) / w.sum(axis=0),
    "balanced_accuracy": _balanced_accuracy,
    "f1": lambda h, w: _ratio(2 * h[1], h[1] + w[0] - h[0] + w[1]),
    "precision": lambda h, w: _ratio(h[1], h[1] + w[0] - h[0]),
    "recall": lambda h, w: _ratio(h[1], w[1]),
}
