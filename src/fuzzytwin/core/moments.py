"""Weight, mean and covariance of every class, computed in one pass over the rows.

Moments of disjoint rows add up: the sum over batches, files, folds or workers equals the moments
of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh

from fuzzytwin._utils.types import Array, Matrix
from fuzzytwin.core.blocks import add_part, class_sums, empty_sums

# Rows are subtracted only if the relative rounding error grows by at most this factor.
MAX_LOSS = 1e4


@dataclass(frozen=True, eq=False)
class ClassMoments:
    r"""First two weighted moments of the rows of each class.

    For class k with weights v_i:

        W_k = sum v_i,   m_k = sum v_i x_i / W_k,
        V_k = sum v_i (x_i - m_k)(x_i - m_k)^T / W_k,    u_k = sum v_i^2 / W_k.

    The mean is stored in two parts, ``origin + offset``, to keep precision for rows far from
    zero, and the scatter as a covariance, so that weights of any size neither overflow nor
    underflow.

    Parameters
    ----------
    weight : ndarray of shape (K,)
        Total weight of each class, zero for a class without rows.
    origin, offset : ndarray of shape (K, d)
        The mean of class k is ``origin[k] + offset[k]``.
    covariance : ndarray of shape (K, d, d)
        Centred second moments, divided by the weight.
    row_weight : ndarray of shape (K,)
        Mean weight u_k of rows drawn in proportion to their weights. W_k / u_k is the effective
        number of rows (Kish), whatever the scale of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0], [7.0, 9.0]])
    >>> whole = ClassMoments.from_rows(X, np.array([0, 0, 1, 1]), n_classes=2)
    >>> whole.mean
    array([[1., 1.],
           [6., 7.]])
    >>> parts = [ClassMoments.from_rows(X[i::2], np.array([0, 1]), n_classes=2) for i in (0, 1)]
    >>> (parts[0] + parts[1]).mean
    array([[1., 1.],
           [6., 7.]])
    """

    weight: Array
    origin: Array
    offset: Array
    covariance: Array
    row_weight: Array

    @classmethod
    def zeros(cls, n_classes: int, n_features: int) -> ClassMoments:
        """Return the moments of no rows, the neutral element of ``+``."""
        return cls(*empty_sums(n_classes, n_features), np.zeros(n_classes))

    @classmethod
    def from_rows(
        cls,
        X: Matrix,
        codes: Array | None,
        weight: Array | None = None,
        *,
        n_classes: int,
        absolute: bool = False,
        groups: Array | None = None,
    ) -> ClassMoments:
        """Compute the moments of the rows of X.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d)
            Rows. They are read in blocks, neither copied nor made dense as a whole.
        codes : ndarray of shape (n,) or None
            Class of each row as an integer in [0, n_classes). None if `weight` has two dimensions.
        weight : ndarray of shape (n,) or (n, K), default=None
            Non-negative weights. With two dimensions, every row has a weight in every class.
        n_classes : int
            Number of classes K.
        absolute : bool, default=False
            Compute the moments of abs(X), which the widths of fuzzy planes need.
        groups : ndarray of shape (n,), default=None
            Number of the group of each row, from 0 on. ``row_weight`` is then computed from the
            weights of groups within a class instead of those of rows.

        Returns
        -------
        ClassMoments
            Not finite if X is not, or if its squares overflow: see `is_finite`.
        """
        sums = class_sums(X, codes, weight, n_classes, absolute)
        return cls(*sums, _row_weights(codes, weight, sums[0], groups))

    def __add__(self, other: ClassMoments) -> ClassMoments:
        """Return the moments of both sets of rows."""
        weight, origin, offset, covariance = (part.copy() for part in self.parts[:4])
        total = weight, origin, offset, covariance
        for k in np.flatnonzero(other.weight).tolist():
            part_covariance = other.covariance[k].copy()
            add_part(total, k, (other.weight[k], other.origin[k], other.offset[k], part_covariance))
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        row_weight = (1 - share) * self.row_weight + share * other.row_weight
        return ClassMoments(*total, row_weight)

    def without(
        self,
        part: ClassMoments,
        loss: Array | None = None,
        names: Sequence[object] | Array | None = None,
    ) -> tuple[ClassMoments, Array]:
        r"""Subtract the rows of `part`: the inverse of ``+``.

        With a = W / W_rest, b = W_part / W_rest and g = m_part - m,

            m_rest = m - b g,    V_rest = a V - b V_part - a b g g^T.

        Subtraction keeps the absolute rounding errors. Relative to what remains they grow by the
        loss max(W / W_rest, max_j W V_jj / (W_rest V_rest_jj)). Losses of repeated calls multiply.

        Parameters
        ----------
        part : ClassMoments
            Moments of a subset of these rows.
        loss : ndarray of shape (K,), default=None
            Losses of earlier calls. None stands for 1.
        names : sequence, default=None
            Names of the classes, for error messages.

        Returns
        -------
        remaining : ClassMoments
        loss : ndarray of shape (K,)
            At most `MAX_LOSS`.

        Raises
        ------
        ValueError
            If a weight or variance would be negative, or the loss greater.

        Examples
        --------
        >>> import numpy as np
        >>> from fuzzytwin.core.moments import ClassMoments
        >>> X = np.array([[1.0], [2.0], [4.0], [9.0]])
        >>> of = lambda X: ClassMoments.from_rows(X, np.zeros(len(X), int), n_classes=1)
        >>> remaining, loss = of(X).without(of(X[3:]))
        >>> remaining.mean, remaining.scatter.round(9)
        (array([[2.33333333]]), array([[[4.66666667]]]))
        """
        names = range(len(self.weight)) if names is None else names
        loss = np.ones(len(self.weight)) if loss is None else loss.copy()
        remaining = self.take(np.arange(len(self.weight)))
        gap = part.mean_from(self)
        for k in np.flatnonzero(part.weight > 0).tolist():
            W = self.weight[k] - part.weight[k]
            if -1e-9 * self.weight[k] > W or self.weight[k] == 0:
                raise ValueError(
                    f"the rows of class {names[k]} have a total weight of {part.weight[k]:g}, but "
                    f"the model was fitted on {self.weight[k]:g} of that class; pass rows of that "
                    "fit."
                )
            if self.weight[k] > MAX_LOSS * W:
                raise ValueError(_too_little(names[k]))
            a = self.weight[k] / W
            b = part.weight[k] / W
            remaining.weight[k] = W
            remaining.offset[k] -= b * gap[k]
            V = a * self.covariance[k] - b * part.covariance[k]
            V -= (a * b * gap[k])[:, None] * gap[k]
            remaining.covariance[k] = V
            remaining.row_weight[k] = max(a * self.row_weight[k] - b * part.row_weight[k], 0.0)
            loss[k] *= max(a, _loss(a * np.diag(self.covariance[k]), np.diag(V), names[k]))
            if loss[k] > MAX_LOSS:
                raise ValueError(_too_little(names[k]))
            root = np.sqrt(np.where(np.diag(V) > 0, np.diag(V), 1.0))
            least = eigvalsh(V / root[:, None] / root, subset_by_index=(0, 0))[0]
            if least < -100 * len(V) * np.finfo(float).eps * loss[k]:
                raise ValueError(_not_of_that_fit(names[k]))
        return remaining, loss

    @classmethod
    def sum(cls, parts: Iterable[ClassMoments]) -> ClassMoments:
        """Add one or more moments, from left to right."""
        total, *others = parts
        for part in others:
            total = total + part
        return total

    @property
    def mean(self) -> Array:
        """Return the mean of each class, of shape (K, d)."""
        return self.origin + self.offset

    @property
    def scatter(self) -> Array:
        """Return the centred scatter ``W_k V_k`` of each class, of shape (K, d, d)."""
        return self.weight[:, None, None] * self.covariance

    @property
    def is_finite(self) -> bool:
        """Return whether all numbers are finite."""
        return all(bool(np.isfinite(part).all()) for part in self.parts)

    @property
    def parts(self) -> tuple[Array, ...]:
        """Return all five arrays, each with one entry per class."""
        return self.weight, self.origin, self.offset, self.covariance, self.row_weight

    def mean_from(self, other: ClassMoments) -> Array:
        """Compute ``self.mean - other.mean`` without cancellation between origins and offsets."""
        return (self.origin - other.origin) + (self.offset - other.offset)

    def scaled(self, factor: Array) -> ClassMoments:
        """Multiply every weight of class k by ``factor[k]``."""
        return replace(self, weight=self.weight * factor, row_weight=self.row_weight * factor)

    def take(self, classes: Array) -> ClassMoments:
        """Return the moments of the given classes, in their order."""
        return ClassMoments(*(part[classes] for part in self.parts))


@dataclass(frozen=True, eq=False)
class TwinMoments:
    """Moments of both terms of the planes: all that a fitted model keeps of its rows.

    ``own`` has the weights s and ``slack`` the weights s mu. ``absolute_own`` and
    ``absolute_slack`` are those of abs(X), for fuzzy planes only.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), [0, 0, 1, 1]
    >>> model = FuzzyTwinSVC().fit(X, y)
    >>> model.moments_.own.weight
    array([2., 2.])
    >>> model.moments_.own.mean.ravel()
    array([0.5, 4.5])
    """

    own: ClassMoments
    slack: ClassMoments
    absolute_own: ClassMoments | None = None
    absolute_slack: ClassMoments | None = None

    def __add__(self, other: TwinMoments) -> TwinMoments:
        return self.combined(ClassMoments.__add__, other)

    def without(
        self,
        part: TwinMoments,
        loss: Array | None = None,
        names: Sequence[object] | Array | None = None,
    ) -> tuple[TwinMoments, Array]:
        """Subtract moments: see `ClassMoments.without`. The loss is the greatest of all parts."""
        losses: list[Array] = []

        def subtract(a: ClassMoments, b: ClassMoments) -> ClassMoments:
            remaining, part_loss = a.without(b, loss, names)
            losses.append(part_loss)
            return remaining

        remaining = self.combined(subtract, part)
        return remaining, np.max(losses, axis=0)

    def combined(self, function: Callable[..., ClassMoments], *others: TwinMoments) -> TwinMoments:
        """Apply a function of moments to each part, once to parts that are the same object."""

        @cache
        def once(*parts: ClassMoments | None) -> Any:
            return None if None in parts else function(*parts)

        return TwinMoments(*map(once, self.parts(), *(other.parts() for other in others)))

    def parts(self) -> tuple[ClassMoments | None, ...]:
        """Return all four moments, None for those that are not needed."""
        return self.own, self.slack, self.absolute_own, self.absolute_slack


def _row_weights(
    codes: Array | None, weight: Array | None, total: Array, groups: Array | None
) -> Array:
    """Compute sum v^2 / W (K,), with the weights v of rows or groups and the totals W (K,)."""
    K = len(total)
    if groups is not None:
        n_groups = int(groups.max(initial=-1)) + 1
        if codes is None:
            assert weight is not None
            weight = np.stack([np.bincount(groups, v, n_groups) for v in weight.T], axis=1)
        else:
            cells = groups * K + codes
            weight = np.bincount(cells, weight, n_groups * K).reshape(n_groups, K).astype(float)
            codes = None
    if weight is None:
        return (total > 0).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        share = np.where(total > 0, 1 / total, 0.0)
        if codes is None:
            return np.asarray((weight * (weight * share)).sum(axis=0))
        return np.bincount(codes, weight * (weight * share[codes]), minlength=K)


def _loss(before: Array, after: Array, name: object) -> float:
    """Compute the greatest factor by which the scatter of a column shrank."""
    if (after < -1e-9 * before).any():
        raise ValueError(_not_of_that_fit(name))
    shrunk = before > 0
    if (after[shrunk] <= 0).any():
        return float(np.inf)
    return float((before[shrunk] / after[shrunk]).max(initial=1.0))


def _too_little(name: object) -> str:
    return (
        f"the weight of class {name}, or the variance of one of its columns, would shrink by a "
        f"factor of more than {MAX_LOSS:g}, which leaves mostly rounding error; fit a new model "
        "on the rows that remain."
    )


def _not_of_that_fit(name: object) -> str:
    return (
        f"the rows of class {name} have a larger scatter than all rows of that class in the fit; "
        "pass rows of that fit, with the weights they had."
    )
