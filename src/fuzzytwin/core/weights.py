r"""Weights of rows in the two terms of every plane, and the regression they amount to.

With weights u of the own-class term and q of the slack term, plane k of model M1 minimises

    1/2 sum u f^2 + C/2 sum q (1 + f)^2 + alpha/2 |w|^2,        f = w.x + b,

which up to a constant is a ridge regression with an intercept, weights v and targets t:

    1/2 sum v (f - t)^2 + alpha/2 |w|^2,        v = u + C q,   t = -C q / v.

The two planes of a pair of classes use only the rows of these two classes. Rows of weight 0 are
handled when rows are validated (`fuzzytwin._rows`) and in the first pass of a committee.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import block_slices
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import plane_classes


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows of a fit: their classes, and the weights s and s mu of the two terms.

    Weights have the shape (n,) and are None if all are 1. With soft labels ``codes`` is None, and
    weights (n, K) give every row a weight in every class. If both terms have the same weights,
    ``own`` and ``slack`` are the same object.
    """

    codes: Array | None
    own: Any
    slack: Any
    n_classes: int

    @classmethod
    def of(cls, codes: Array, s: Array | None, mu: Array | None, n_classes: int) -> RowWeights:
        """Combine sample weights s with degrees mu (n,) or soft labels mu (n, K).

        Degrees weight the slack term, soft labels both terms.
        """
        if mu is None:
            return cls(codes, s, s, n_classes)
        if mu.ndim == 2:
            weight = mu if s is None else s[:, None] * mu
            return cls(None, weight, weight, n_classes)
        return cls(codes, s, mu if s is None else s * mu, n_classes)

    def scaled(self, factor: Array) -> RowWeights:
        """Multiply the weights of class k by ``factor[k]``. Weights of None count as 1."""
        row_factor = factor if self.codes is None else factor[self.codes]
        own = row_factor if self.own is None else self.own * row_factor
        if self.slack is self.own:
            return replace(self, own=own, slack=own)
        slack = row_factor if self.slack is None else self.slack * row_factor
        return replace(self, own=own, slack=slack)

    def totals(self, weight: Any) -> Array:
        """Add up weights by class."""
        if self.codes is None:
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, minlength=self.n_classes).astype(np.float64)

    def moments(
        self,
        Z: Any,
        own: ClassMoments | None = None,
        *,
        absolute: bool = False,
        groups: Array | None = None,
    ) -> tuple[ClassMoments, ClassMoments]:
        """Compute the moments of features Z in both terms, or of abs(Z) if `absolute`.

        They are the same object if the weights are. `own` are those of the first term, if they
        were computed before.
        """

        def weighted_moments(weight: Any) -> ClassMoments:
            return ClassMoments.from_rows(
                Z, self.codes, weight, n_classes=self.n_classes, absolute=absolute, groups=groups
            )

        own = weighted_moments(self.own) if own is None else own
        return own, own if self.slack is self.own else weighted_moments(self.slack)

    def mean_own_weight(self, groups: Array | None) -> float:
        """Compute the `mean_weight` of a row in a class or, with groups, of a group in a class."""
        if self.codes is not None:
            cells = None if groups is None else groups * self.n_classes + self.codes
            return mean_weight(self.own, cells)
        cells = None
        if groups is not None:
            cells = (groups[:, None] * self.n_classes + np.arange(self.n_classes)).ravel()
        return mean_weight(self.own.ravel(), cells)

    def of_pair(self, index: Array, k: int, j: int) -> RowWeights:
        """Return the weights of rows `index` in the pair of classes k and j, coded 0 and 1.

        Rows of other classes get no weight.
        """
        assert self.codes is not None
        codes = self.codes[index]
        in_pair = (codes == k) | (codes == j)
        own = in_pair * self.own[index]
        slack = own if self.slack is self.own else in_pair * self.slack[index]
        return RowWeights((codes == j).astype(np.intp), own, slack, 2)

    # Leave-one-out.

    def counts(self, classes: Array) -> Array:
        """Count the rivals and the own rows of positive weight of each plane, (2, n_planes)."""
        k, j = classes.T
        if self.codes is None:
            rivals = self.slack[:, j] > 0
            return np.array([rivals.sum(axis=0), (self.own > 0).sum(axis=0)[k]])
        slack, own = (
            self.totals(None if weight is None else (weight > 0).astype(float))
            for weight in (self.slack, self.own)
        )
        return np.array([slack[j], own[k]])

    def blocks(
        self, classes: Array, requested: Array | None, groups: Array | None, n: int, size: int
    ) -> Iterator[tuple[Any, Array, Array | None]]:
        """Yield blocks of rows, the planes that use them, and the positions where groups start.

        Groups are never split. ``requested`` are the indices of the rows (None: all rows).
        """
        planes = np.arange(len(classes))
        if groups is not None:
            rows = np.arange(n)
            if requested is not None:
                rows = np.flatnonzero(np.isin(groups, groups[requested]))
            rows = rows[np.argsort(groups[rows], kind="stable")]
            first = np.flatnonzero(np.append(True, np.diff(groups[rows]) != 0))
            ends = np.append(first[1:], len(rows))
            at = 0
            while at < len(first):
                stop = max(at + 1, int(np.searchsorted(ends, first[at] + size, side="right")))
                yield rows[first[at] : ends[stop - 1]], planes, first[at:stop] - first[at]
                at = stop
        elif self.codes is None or len(classes) <= self.n_classes:
            for block in block_slices(n if requested is None else len(requested), size):
                yield block if requested is None else requested[block], planes, None
        else:
            codes = self.codes if requested is None else self.codes[requested]
            narrow = self.n_classes <= np.iinfo(np.uint16).max  # narrow integers sort faster
            order = np.argsort(codes.astype(np.uint16) if narrow else codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=self.n_classes))
            for k, rows in enumerate(np.split(order, ends[:-1])):
                rows = rows if requested is None else requested[rows]
                planes = np.flatnonzero((classes == k).any(axis=1))
                for block in block_slices(len(rows), size):
                    yield rows[block], planes, None

    def in_planes(
        self, index: Any, classes: Array, own_unit: Array, rival_unit: Array
    ) -> tuple[Array, Array]:
        """Return weights v and targets t of rows `index` in planes, each (p, m).

        Rows of classes that a plane does not use have no weight. With soft labels a row is own and
        rival at the same time: its weight is the sum of both, its target their weighted mean.
        """
        v_own, v_rival = self._terms(index, classes)
        v_own = v_own * own_unit[:, None]
        v_rival = v_rival * rival_unit[:, None]
        v = v_own + v_rival
        if self.codes is not None:
            return v, (self.codes[index] == classes[:, :1]) - 1.0
        return v, np.divide(v_own, v, out=np.zeros_like(v), where=v > 0) - 1

    def orphaned_planes(
        self, index: Any, classes: Array, counts: Array, starts: Array | None = None
    ) -> list[Array]:
        """Find the planes (p, m) left without rivals, or own rows, if a row or group is left out.

        Two masks are returned, for the rivals and for the own rows.
        """
        parts = [part > 0 for part in self._terms(index, classes)[::-1]]
        if starts is None:
            starts = np.arange(parts[0].shape[1])
        sizes = np.diff(np.append(starts, parts[0].shape[1]))
        orphaned = []
        for part, count in zip(parts, counts, strict=True):
            rows = np.add.reduceat(part, starts, axis=1, dtype=np.intp)
            all_left_out = (rows > 0) & (rows == count[:, None])
            orphaned.append(np.repeat(all_left_out, sizes, axis=1))
        return orphaned

    def _terms(self, index: Any, classes: Array) -> tuple[Array, Array]:
        """Return the weights of rows `index` in the own and in the slack term of planes, (p, m)."""
        k, j = classes.T
        own: Any = 1.0 if self.own is None else self.own[index]
        slack: Any = 1.0 if self.slack is None else self.slack[index]
        if self.codes is None:
            return own[:, k].T, slack[:, j].T
        codes = self.codes[index]
        return (codes == k[:, None]) * own, (codes == j[:, None]) * slack

    # Solving from rows.

    def plane_groups(self) -> Iterator[PlaneGroup]:
        """Yield the planes that use the same rows, which are those of a pair of classes."""
        classes = plane_classes(self.n_classes)
        for first in range(0, len(classes), 2):
            planes = slice(first, first + 2)
            u, q = self._terms(slice(None), classes[planes])
            index = np.flatnonzero((u + q).any(axis=0))
            if len(index) < u.shape[1]:
                yield PlaneGroup(planes, index, u[:, index], q[:, index])
            else:
                yield PlaneGroup(planes, None, u, q)


@dataclass(frozen=True, eq=False)
class PlaneGroup:
    """Planes that use the same rows (None: all), and weights (n_planes, n_rows) of these rows."""

    planes: slice
    index: Array | None
    u: Array  # of the own-class term
    q: Array  # of the slack term

    @property
    def weight(self) -> Array:
        """Return the mean weight of each row over all planes, normalised to a sum of 1."""
        total = (self.u + self.q).sum(axis=0)
        total /= total.max() or 1.0
        return np.asarray(total / (total.sum() or 1.0))

    def constant_value(self, i: int) -> float | None:
        """Return the value of a constant plane, w = 0: -1 without own rows, 0 without rivals.

        None stands for any other plane.
        """
        if not self.u[i].any():
            return -1.0
        return None if self.q[i].any() else 0.0

    def regression(self, i: int, C: Any, alpha: Any) -> tuple[Array, Array, float]:
        """Return weights, targets and ridge of a plane, scaled so that nothing overflows."""
        top = max(self.u[i].max(), self.q[i].max(), alpha) or 1.0
        u = self.u[i] / top
        q = C * (self.q[i] / top)
        v = u + q
        scale = max(v.max(), alpha / top) or 1.0
        t = -np.divide(q, v, out=np.zeros_like(v), where=v > 0)
        return v / scale, t, alpha / top / scale


def check_same_weights(
    weights: RowWeights, own: ClassMoments, slack: ClassMoments, names: Sequence[object] | Array
) -> None:
    """Raise a ValueError if total weights by class differ from those of the fit."""
    for weight, moments in ((weights.own, own), (weights.slack, slack)):
        total = weights.totals(weight)
        fitted = moments.weight
        differing = np.flatnonzero(np.abs(total - fitted) > 1e-9 * np.maximum(total, fitted))
        if len(differing):
            k = int(differing[0])
            raise ValueError(
                f"the rows of class {names[k]} have a total weight of {total[k]:g} (with degrees "
                f"and class weights), but the model was fitted on {fitted[k]:g} of that class; "
                "pass all rows of that fit, with the sample_weight and membership they had."
            )


def mean_weight(weight: Array, groups: Array | None = None) -> float:
    """Compute sum w^2 / sum w of rows or, with `groups`, of groups.

    That is the mean weight of rows drawn in proportion to their weights: the sum of all weights
    over the effective number of rows (Kish).

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.weights import mean_weight
    >>> mean_weight(np.array([2.0, 2.0, 0.0])), mean_weight(np.ones(3), np.array([0, 0, 1]))
    (2.0, 1.6666666666666667)
    """
    weight = weight if groups is None else np.bincount(groups, weight)
    top = float(weight.max(initial=0.0))
    if top == 0:
        return 1.0
    share = weight / top
    return top * float(share @ share) / float(share.sum())
