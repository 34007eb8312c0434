r"""Weights of rows in the two terms of every plane.

With weights u of the own-class term and q of the slack term, plane k of model M1 minimises

    1/2 sum u f^2 + C/2 sum q (1 + f)^2 + alpha/2 |w|^2,        f = w.x + b,

which is, up to a constant, ridge regression with an intercept, of weights v and targets t:

    1/2 sum v (f - t)^2 + alpha/2 |w|^2,        v = u + C q,   t = -C q / v.

The two planes of a pair of classes use the rows of these two alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import cut
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import plane_classes


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows of a fit: their classes, and the weights s and s mu of the two terms.

    Weights are (n,), one object where they are the same, and None where all are 1; or, where
    ``codes`` is None, a table (n, K) that gives every row a weight in every class.
    """

    codes: Array | None
    own: Any
    slack: Any
    n_classes: int

    @classmethod
    def of(
        cls, codes: Array, s: Array | None, mu: Array | None, n_classes: int, *, both: bool
    ) -> RowWeights:
        """Combine sample weights and degrees, or soft labels (n, K), which weigh `both` terms."""
        if mu is None:
            return cls(codes, s, s, n_classes)
        soft = mu.ndim == 2
        slack = mu if s is None else (s[:, None] if soft else s) * mu
        return cls(None if soft else codes, slack if soft or both else s, slack, n_classes)

    def scaled(self, factor: Array) -> RowWeights:
        """Multiply every weight of class k by ``factor[k]``; no weight is None afterwards."""
        of_row = factor if self.codes is None else factor[self.codes]
        own = of_row if self.own is None else self.own * of_row
        if self.slack is self.own:
            return replace(self, own=own, slack=own)
        return replace(self, own=own, slack=of_row if self.slack is None else self.slack * of_row)

    def totals(self, weight: Any) -> Array:
        """Add up weights by class."""
        if self.codes is None:
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, minlength=self.n_classes).astype(np.float64)

    def moments(
        self, Z: Any, own: ClassMoments | None = None, *, absolute: bool = False,
        groups: Array | None = None,
    ) -> tuple[ClassMoments, ClassMoments]:  # fmt: skip
        """Compute the moments of features Z in both terms; one object where weights are the same.

        `own` are those of the first term, if they are known; `absolute` ones are those of abs(Z).
        """

        def weighed(weight: Any) -> ClassMoments:
            return ClassMoments.from_rows(
                Z, self.codes, weight, n_classes=self.n_classes, absolute=absolute, groups=groups
            )

        own = weighed(self.own) if own is None else own
        return own, own if self.slack is self.own else weighed(self.slack)

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
        """Take some rows as those of two classes; rows of others have no weight."""
        assert self.codes is not None
        codes = self.codes[index]
        use = (codes == k) | (codes == j)
        own = use * self.own[index]
        slack = own if self.slack is self.own else use * self.slack[index]
        return RowWeights((codes == j).astype(np.intp), own, slack, 2)

    # Leaving rows out.

    def counts(self, classes: Array) -> Array:
        """Count the rivals and the own rows of each plane that have weight: (2, n_planes)."""
        (k, j), codes = classes.T, self.codes
        if codes is None:
            rivals = _rivals_of(self.slack, k, j) > 0
            return np.array([rivals.sum(axis=0), (self.own > 0).sum(axis=0)[k]])
        slack, own = (
            self.totals(None if weight is None else (weight > 0).astype(float))
            for weight in (self.slack, self.own)
        )
        return np.array([_rivals_of(slack[None], k, j)[0], own[k]])

    def blocks(
        self, classes: Array, only: Array | None, groups: Array | None, n: int, size: int
    ) -> Iterator[tuple[Any, Array, Array | None]]:
        """Yield blocks of rows, the planes that they take part in, and where groups start.

        Groups are never cut; ``only`` (None: all) are the rows that are asked for.
        """
        planes = np.arange(len(classes))
        if groups is not None:
            rows = np.arange(n) if only is None else np.flatnonzero(np.isin(groups, groups[only]))
            rows = rows[np.argsort(groups[rows], kind="stable")]
            first = np.flatnonzero(np.append(True, np.diff(groups[rows]) != 0))
            ends, at = np.append(first[1:], len(rows)), 0
            while at < len(first):
                stop = max(at + 1, int(np.searchsorted(ends, first[at] + size, side="right")))
                yield rows[first[at] : ends[stop - 1]], planes, first[at:stop] - first[at]
                at = stop
        elif self.codes is None or len(classes) <= self.n_classes:
            for here in cut(n if only is None else len(only), size):
                yield here if only is None else only[here], planes, None
        else:
            codes = self.codes if only is None else self.codes[only]
            few = self.n_classes <= np.iinfo(np.uint16).max  # small numbers are sorted faster
            order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=self.n_classes))
            for k, rows in enumerate(np.split(order, ends[:-1])):
                rows, use = rows if only is None else only[rows], (classes == k).any(axis=1)
                for here in cut(len(rows), size):
                    yield rows[here], np.flatnonzero(use), None

    def in_planes(
        self, index: Any, classes: Array, own_unit: Array, rival_unit: Array
    ) -> tuple[Array, Array]:
        """Return weights v and targets t of some rows in planes, each (p, m).

        Rows of other classes than a plane's have no weight. Soft labels make a row own and rival
        at the same time: that is one row with the sum of both weights and their mean target.
        """
        v_own, v_rival = self._terms(index, classes)
        v_own, v_rival = v_own * own_unit[:, None], v_rival * rival_unit[:, None]
        v = v_own + v_rival
        if self.codes is not None:
            return v, (self.codes[index] == classes[:, :1]) - 1.0
        return v, np.divide(v_own, v, out=np.zeros_like(v), where=v > 0) - 1

    def orphaned_planes(
        self, index: Any, classes: Array, counts: Array, starts: Array | None = None
    ) -> list[Array]:
        """Find the planes (p, m) that lose all rivals, or all own rows, with a row or its group."""
        parts = [part > 0 for part in self._terms(index, classes)[::-1]]
        if starts is None:
            starts = np.arange(parts[0].shape[1])
        sizes, lost = np.diff(np.append(starts, parts[0].shape[1])), []
        for part, count in zip(parts, counts, strict=True):
            rows = np.add.reduceat(part, starts, axis=1, dtype=np.intp)
            gone = (rows > 0) & (rows == count[:, None])
            lost.append(np.repeat(gone, sizes, axis=1))
        return lost

    def _terms(self, index: Any, classes: Array) -> tuple[Array, Array]:
        """Return the weights of some rows in the own and in the slack term of planes, (p, m)."""
        k, j = classes.T
        own: Any = 1.0 if self.own is None else self.own[index]
        slack: Any = 1.0 if self.slack is None else self.slack[index]
        if self.codes is None:
            return own[:, k].T, _rivals_of(slack, k, j).T
        codes = self.codes[index]
        mine = codes == k[:, None]
        theirs = np.where(j[:, None] < 0, ~mine, codes == j[:, None])
        return mine * own, theirs * slack

    # Solving from rows.

    def plane_groups(self, multi_class: str) -> Iterator[PlaneGroup]:
        """Yield the planes that use the same rows: those of a pair, or all of them ("ovr")."""
        classes = plane_classes(self.n_classes, multi_class)
        step = 2 if multi_class == "ovo" else len(classes)
        for first in range(0, len(classes), step):
            planes = slice(first, first + step)
            u, q = self._terms(slice(None), classes[planes])
            index = np.flatnonzero((u + q).any(axis=0))
            if len(index) < u.shape[1]:
                yield PlaneGroup(planes, index, u[:, index], q[:, index])
            else:
                yield PlaneGroup(planes, None, u, q)


@dataclass(frozen=True, eq=False)
class PlaneGroup:
    """Planes that use the same rows (None: all): their places, and weights (n_planes, n_rows)."""

    planes: slice
    index: Array | None
    u: Array  # of the own-class term
    q: Array  # of the slack term

    @property
    def weight(self) -> Array:
        """Return the mean weight of each row over all planes; it sums to 1."""
        total = (self.u + self.q).sum(axis=0)
        total /= total.max() or 1.0
        return np.asarray(total / (total.sum() or 1.0))

    def flat(self, i: int) -> float | None:
        """Return the intercept of a plane without own rows (-1) or rivals (0): w is zero."""
        if not self.u[i].any():
            return -1.0
        return None if self.q[i].any() else 0.0

    def regression(self, i: int, C: Any, alpha: Any) -> tuple[Array, Array, float]:
        """Return weights, targets and ridge of a plane, over the greatest of them: no overflow."""
        u, q = self.u[i], self.q[i]
        top = max(u.max(), q.max(), alpha) or 1.0
        u, q = u / top, C * (q / top)
        v = u + q
        most = max(v.max(), alpha / top) or 1.0
        t = -np.divide(q, v, out=np.zeros_like(v), where=v > 0)
        return v / most, t, alpha / top / most


def refuse_other_weights(
    weights: RowWeights, own: ClassMoments, slack: ClassMoments, names: Sequence[object] | Array
) -> None:
    """Raise a ValueError unless total weights by class are those of the fit."""
    for given, moments in ((weights.own, own), (weights.slack, slack)):
        total, fitted = weights.totals(given), moments.weight
        other = np.flatnonzero(np.abs(total - fitted) > 1e-9 * np.maximum(total, fitted))
        if len(other):
            k = int(other[0])
            raise ValueError(
                f"the rows of class {names[k]} weigh {total[k]:g} with their degrees and class "
                f"weights, but the model was fitted on {fitted[k]:g} of that class; give all rows "
                "of that fit, with the sample_weight and membership they had."
            )


def mean_weight(weight: Array, groups: Array | None = None) -> float:
    """Compute the mean weight of rows, or of groups: that of one drawn as often as it weighs.

    That is sum w^2 / sum w: the sum of all weights over the effective number of rows.

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


def _rivals_of(table: Array, k: Array, j: Array) -> Array:
    """Take columns j of a table by class; where j is -1, add up all columns but k."""
    if (j < 0).any():
        return np.asarray(table @ (1.0 - np.eye(table.shape[1])))[:, k]
    return table[:, j]
