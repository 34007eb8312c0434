r"""Choose a solver by the shape of the rows, and solve for planes from rows.

moments     d x d covariances of every class: any number of rows, up to a few thousand columns
gram        n x n Gram matrix of the rows of a plane: fewer rows than columns
iterative   only products with X: many rows and many sparse columns

Moments are preferred, because rows can be added to them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core import iterative
from fuzzytwin.core import row_space as gram
from fuzzytwin.core.blocks import centre, column_blocks
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.weights import RowWeights

SOLVERS = ("moments", "gram", "iterative")
# Solvers that support all that moments do (searches, classic planes), "gram" by moments of
# `RowFeatures`, and solvers that solve for planes of model M1 from rows.
BY_MOMENTS = ("moments", "gram")
OF_ROWS = {"gram": gram.crisp_planes, "iterative": iterative.crisp_planes}
# Moments of at most this many columns take hundredths of a second.
MAX_CHEAP_COLUMNS = 512
# Sparse rows of more columns are too wide for moments, and more rows than this for a Gram matrix.
MAX_SPARSE_COLUMNS = 5000
MAX_SPARSE_ROWS = 1000


def choose_solver(X: Any, n_classes: int, possible: Collection[str] = SOLVERS) -> str:
    """Choose one of the possible solvers by the shape of the rows."""
    return preferred_solvers(X, n_classes, possible)[0]


def preferred_solvers(X: Any, n_classes: int, possible: Collection[str] = SOLVERS) -> list[str]:
    """List the possible solvers, the best for the shape of the rows first.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.solvers import preferred_solvers
    >>> preferred_solvers(np.zeros((1000, 20)), 2)
    ['moments', 'gram', 'iterative']
    >>> preferred_solvers(np.zeros((100, 2000)), 2)
    ['gram', 'iterative', 'moments']
    """
    d = X.shape[1]
    n_rows = rows_of_planes(X.shape[0], n_classes)
    order = ["moments", "gram", "iterative"]
    if sparse.issparse(X) and d > MAX_SPARSE_COLUMNS and n_rows > MAX_SPARSE_ROWS:
        order = ["iterative", "gram", "moments"]
    elif d > max(MAX_CHEAP_COLUMNS, n_rows):
        order = ["gram", "iterative", "moments"]
    return [solver for solver in order if solver in possible]


def rows_of_planes(n_rows: int, n_classes: int) -> float:
    """Return the number of rows that a plane uses, assuming balanced classes."""
    return 2.0 * n_rows / n_classes


def memory_of(solver: str, X: Any, n_classes: int, n_moments: int = 1) -> float:
    """Estimate the bytes that a solver takes beyond X.

    `n_moments` is the number of moments per class: with weights s, with s mu, of abs(X).
    """
    n, d = X.shape
    m = rows_of_planes(n, n_classes)
    n_planes = n_classes * (n_classes - 1)
    numbers = 2.0 * n_planes * d
    if solver == "moments":
        numbers += (n_moments * n_classes + 4) * float(d) * d
    elif solver == "gram":
        numbers += 5 * m * m + 2.0**21
    else:
        numbers += 12.0 * d + 16 * m
    if solver != "moments":  # a copy of the rows of a pair
        stored = X.nnz * 1.5 if sparse.issparse(X) else n * d
        numbers += 2 * stored * m / n
    return 8 * numbers


def crisp_planes(
    solver: str,
    X: Any,
    weights: RowWeights,
    C: Array,
    alpha: float,
    *,
    tol: float,
) -> tuple[Planes, float]:
    """Solve for the planes of model M1 from rows, by one of `OF_ROWS`.

    Also returned is a bound of the relative error, which is zero for direct solvers.
    """
    return OF_ROWS[solver](X, weights, C, alpha, tol=tol)[:2]


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Weight and mean of the rows of each class: all that memberships need of moments.

    It replaces `ClassMoments` if there are too many columns for covariances, and keeps the rows,
    from which one of `OF_ROWS` computes planes.
    """

    weight: Array
    mean: Array
    X: Any
    weights: RowWeights
    solver: str
    tol: float

    @classmethod
    def from_rows(
        cls,
        X: Any,
        codes: Array,
        weight: Array,
        n_classes: int,
        solver: str = "auto",
        tol: float = 1e-6,
    ) -> ClassMeans:
        """Compute the means of the rows of X, zero for a class without weight."""
        top = weight.max(initial=0.0) or 1.0
        total = np.bincount(codes, weight / top, n_classes)
        share = weight / top / np.where(total > 0, total, 1.0)[codes]
        mean = np.zeros((n_classes, X.shape[1]))
        for k in np.flatnonzero(total).tolist():
            index = np.flatnonzero((codes == k) & (share > 0))
            mean[k] = _mean(X, index, share[index])
        weights = RowWeights(codes, weight, weight, n_classes)
        return cls(top * total, mean, X, weights, solver, tol)

    def scaled(self, factor: Array) -> ClassMeans:
        """Multiply every weight of class k by ``factor[k]``."""
        return replace(self, weight=self.weight * factor, weights=self.weights.scaled(factor))

    def column_scatter(self) -> Array:
        """Sum the weighted squared distances of each column from the means of the classes.

        With sparse rows, zeros contribute mean^2. Their sum is that over all rows minus that over
        the stored numbers. Columns without zeros are excluded from both.
        """
        X = self.X
        codes = self.weights.codes
        v = self.weights.own
        assert codes is not None
        scatter = np.zeros(X.shape[1])
        if not sparse.issparse(X):
            for k in np.flatnonzero(self.weight).tolist():
                index = np.flatnonzero((codes == k) & (v > 0))
                for columns, block in column_blocks(X, index):
                    block -= self.mean[k, columns]
                    scatter[columns] += v[index] @ np.square(block, out=block)
            return scatter
        n, d = X.shape
        has_no_zeros = np.bincount(X.indices, minlength=d) == n
        squares = np.where(has_no_zeros, 0.0, self.mean**2)
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        cells = codes[row], X.indices
        stored = (X.data - self.mean[cells]) ** 2 - squares[cells]
        scatter += np.bincount(X.indices, v[row] * stored, d)
        return np.maximum(scatter + self.weight @ squares, 0.0)

    def crisp_planes(self, C: Array, alpha: float) -> Planes:
        """Solve for the planes of these rows, without membership degrees."""
        solver = self.solver
        if solver == "auto":
            solver = choose_solver(self.X, len(C), OF_ROWS)
        planes, _ = crisp_planes(solver, self.X, self.weights, C, alpha, tol=self.tol)
        return planes


def _mean(X: Any, index: Array, share: Array) -> Array:
    """Compute the weighted mean of rows `index`. The mean of a constant column is exact."""
    if sparse.issparse(X):
        rows = X[index]
        low = np.ravel(rows.min(axis=0).toarray())
        high = np.ravel(rows.max(axis=0).toarray())
        return np.where(low == high, low, rows.T @ share)
    mean = np.empty(X.shape[1])
    for columns, block in column_blocks(X, index):
        mean[columns] = np.add(*centre(block, share))
    return mean


ClassSummary: TypeAlias = ClassMoments | ClassMeans
