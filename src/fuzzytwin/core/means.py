"""Weight and mean of every class: what memberships need of moments, without covariances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.plane_rows import row_products
from fuzzytwin.core.planes import Planes


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Weight and mean of the rows of each class, and a way to planes of these rows.

    It stands in for `ClassMoments` where there are too many columns for covariances.

    Parameters
    ----------
    weight : ndarray of shape (K,)
        Total weight of each class.
    mean : ndarray of shape (K, d)
        Weighted mean of each class; zero for a class without weight.
    solve : callable
        ``(factor, C, alpha, multi_class) -> Planes``: planes without memberships, with the
        weights of class k multiplied by ``factor[k]``.
    factor : ndarray of shape (K,)
        Factors on the weights.
    """

    weight: Array
    mean: Array
    solve: Callable[[Array, Array, float, str], Planes]
    factor: Array

    @classmethod
    def from_rows(
        cls,
        X: Any,
        codes: Array,
        weight: Array,
        *,
        n_classes: int,
        solve: Callable[[Array, Array, float, str], Planes],
    ) -> ClassMeans:
        """Compute the means of the rows of X."""
        top = weight.max(initial=0.0) or 1.0
        total = np.bincount(codes, weight / top, n_classes)
        share = weight / top / np.where(total > 0, total, 1.0)[codes]
        of_class = (np.where(codes == k, share, 0.0)[None] for k in range(n_classes))
        mean = np.concatenate([row_products(X, None, part) for part in of_class])
        return cls(top * total, mean, solve, np.ones(n_classes))

    def scaled(self, factor: Array) -> ClassMeans:
        """Multiply every weight of class k by ``factor[k]``."""
        return replace(self, weight=self.weight * factor, factor=self.factor * factor)

    def crisp_planes(self, C: Array, alpha: float, multi_class: str) -> Planes:
        """Solve for the planes of these rows without memberships."""
        return self.solve(self.factor, C, alpha, multi_class)


ClassSummary: TypeAlias = ClassMoments | ClassMeans
