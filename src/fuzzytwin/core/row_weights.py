"""Weights of the rows of a fit, by plane: what is left out with a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows of a fit, class weights included.

    Parameters
    ----------
    codes : ndarray of shape (n,) or None
        Classes; None where the weights are tables.
    own, slack : ndarray of shape (n,) or (n, K)
        Weights s and s mu.
    n_classes : int
        Number of classes K.
    part : ndarray of shape (n,), default=None
        The part of each row that is left out, above 0; None: all of it. (Of a row that stands
        for several, one.)
    """

    codes: Array | None
    own: Array
    slack: Array
    n_classes: int
    part: Array | None = None

    def totals(self, weight: Array) -> Array:
        """Add up weights by class."""
        if self.codes is None:
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, minlength=self.n_classes)

    def counts(self, classes: Array) -> Array:
        """Count the rivals and the own rows of each plane that have weight: (2, n_planes)."""
        k, j = classes.T
        own = self.totals((self.own > 0).astype(float))
        if self.codes is None:
            return np.array([(_rivals_of(self.slack, k, j) > 0).sum(axis=0), own[k]])
        same = self.slack is self.own
        slack = own if same else self.totals((self.slack > 0).astype(float))
        return np.array([_rivals_of(slack[None], k, j)[0], own[k]])

    def groups(self, classes: Array, only: Array | None) -> Iterator[tuple[Array | None, Array]]:
        """Yield rows (None: all) and the planes that they take part in."""
        if self.codes is None or len(classes) <= self.n_classes:
            yield only, np.arange(len(classes))
            return
        codes = self.codes if only is None else self.codes[only]
        few = self.n_classes <= np.iinfo(np.uint16).max  # small numbers are sorted much faster
        order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=self.n_classes))
        ends = np.concatenate([[0], ends])
        for k in range(self.n_classes):
            rows = order[ends[k] : ends[k + 1]]
            rows = rows if only is None else only[rows]
            yield rows, np.flatnonzero((classes == k).any(axis=1))

    def in_planes(
        self, index: Any, classes: Array, own_unit: Array, rival_unit: Array
    ) -> tuple[Array, Array]:
        """Return weights v (what is left out) and targets t of some rows in planes, each (p, m).

        Soft labels make a row own and rival at the same time: that is one row with the sum of
        both weights and their mean target.
        """
        k, j = classes.T
        own = self.own[index]
        slack = own if self.slack is self.own else self.slack[index]
        if self.part is not None:
            part = self.part[index] if self.codes is not None else self.part[index][:, None]
            own, slack = own * part, own * part if slack is own else slack * part
        if self.codes is not None:
            mine = self.codes[index] == k[:, None]
            t = mine.astype(np.float64)
            v = t * own_unit[:, None]
            t -= 1
            v -= t * rival_unit[:, None]
            v *= own if slack is own else np.where(mine, own, slack)
            return v, t
        v_own = own[:, k].T * own_unit[:, None]
        v = v_own + _rivals_of(slack, k, j).T * rival_unit[:, None]
        return v, np.divide(v_own, v, out=np.zeros_like(v), where=v > 0) - 1

    def lonely(self, index: Any, classes: Array, counts: Array) -> list[Array]:
        """Find the planes (p, m) that lose their only rival, or their only own row, with a row."""
        k, j = classes.T
        own, slack = self.own[index], self.slack[index]
        if self.codes is None:
            parts = [_rivals_of(slack, k, j).T, own[:, k].T]
        else:
            mine = self.codes[index] == k[:, None]
            parts = [np.where(mine, 0.0, slack), np.where(mine, own, 0.0)]
        whole = True if self.part is None else self.part[index] >= 1
        return [
            (part > 0) & (count == 1)[:, None] & whole
            for part, count in zip(parts, counts, strict=True)
        ]


def refuse_other_weights(
    weights: RowWeights, own: ClassMoments, slack: ClassMoments, names: Sequence[object] | Array
) -> None:
    """Raise a ValueError unless total weights by class are those of the fit."""
    parts = [(weights.own, own)]
    if weights.slack is not weights.own:
        parts.append((weights.slack, slack))
    for given, moments in parts:
        total, fitted = weights.totals(given), moments.weight
        other = np.flatnonzero(np.abs(total - fitted) > 1e-9 * np.maximum(total, fitted))
        if len(other):
            k = int(other[0])
            raise ValueError(
                f"the rows of class {names[k]} weigh {total[k]:g} with their degrees and class "
                f"weights, but the model was fitted on {fitted[k]:g} of that class; give all rows "
                "of that fit, with the sample_weight and membership they had."
            )


def _rivals_of(table: Array, k: Array, j: Array) -> Array:
    """Take columns j of a table by class; where j is -1, add up all columns but k."""
    if (j < 0).any():
        return np.asarray(table @ (1.0 - np.eye(table.shape[1])))[:, k]
    return table[:, j]
