r"""Choose a solver by the shape of the data and the available memory.

moments     d x d covariances of every class: any number of rows, up to a few thousand columns
gram        n x n Gram matrix of the rows of a plane: fewer rows than columns
iterative   only products with X: many rows and many sparse columns

Costs are in multiply-adds of a dense matrix product. Moments are preferred, because rows can be
added to them: another solver is chosen only if it costs a quarter or less, and never if moments
are cheap. No solver may take more than `MOST_MEMORY` of the memory that is available when the fit
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from fuzzytwin._utils.memory import as_text, available_memory
from fuzzytwin._utils.types import Array
from fuzzytwin.core import iterative
from fuzzytwin.core import row_space as gram
from fuzzytwin.core.blocks import centre, column_blocks
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.weights import RowWeights

FORMER_NAMES = {"rows": "gram"}  # still accepted, with a FutureWarning
MOST_MEMORY = 0.8
# Moments that cost at most this many multiply-adds (hundredths of a second) are always chosen.
NEXT_TO_NOTHING = 5e8
LITTLE_MEMORY = 1 << 24  # bytes that are assumed to be available
PREFERENCE = 4.0  # for moments: another solver must cost this many times less
# Time of one multiply-add, relative to that of a dense matrix product, in the product of
OF_DENSE_VECTOR = 12.0  # a dense matrix and a vector,
OF_SPARSE_VECTOR = 25.0  # a sparse matrix and a vector,
OF_SPARSE_PRODUCT = 80.0  # two sparse matrices.
ITERATIONS = 50  # assumed for conjugate gradients
NUMBER = 8  # bytes of a float64


class NotEnoughMemoryError(ValueError, MemoryError):
    """No solver fits into the memory that is available."""


@dataclass(frozen=True)
class ProblemSize:
    """The size of a problem, from which costs are estimated."""

    n_rows: int
    n_columns: int
    n_classes: int
    multi_class: str
    stored: int  # numbers in X
    row_products: float  # multiply-adds of X'X
    column_products: float  # multiply-adds of XX'
    is_sparse: bool
    parts: int  # moments per class: with weights s, with s mu, of abs(X)

    @classmethod
    def of(cls, X: Any, n_classes: int, multi_class: str = "ovo", parts: int = 1) -> ProblemSize:
        """Measure the rows X."""
        n, d = X.shape
        stored = n * d
        products = float(n) * d * d, float(n) * d * n
        is_sparse = sparse.issparse(X)
        if is_sparse:
            stored = X.nnz
            rows = np.diff(X.indptr).astype(np.float64)
            columns = np.bincount(X.indices, minlength=d).astype(np.float64)
            products = float(rows @ rows), float(columns @ columns)
        return cls(n, d, n_classes, multi_class, stored, *products, is_sparse, parts)

    @property
    def n_planes(self) -> int:
        """Return the number of planes."""
        return self.n_classes * (self.n_classes - 1 if self.multi_class == "ovo" else 1)

    @property
    def group(self) -> tuple[int, float]:
        """Return the number of sets of rows that planes use, and their size in balanced classes."""
        if self.n_classes > 2 and self.multi_class == "ovo":
            return self.n_planes // 2, 2.0 * self.n_rows / self.n_classes
        return 1, float(self.n_rows)

    def cost(self, solver: str) -> float:
        """Estimate the cost of a solver in multiply-adds."""
        return SOLVERS[solver].needs(self)[0]

    def memory(self, solver: str) -> float:
        """Estimate the bytes that a solver takes beyond X."""
        planes = 2.0 * self.n_planes * self.n_columns
        return NUMBER * planes + SOLVERS[solver].needs(self)[1]


def _moments_needs(shape: ProblemSize) -> tuple[float, float]:
    d = float(shape.n_columns)
    copies = 3 if shape.multi_class == "ovr" and shape.n_classes > 2 else 1
    product = OF_SPARSE_PRODUCT if shape.is_sparse else 0.5
    cost = shape.parts * product * shape.row_products + shape.n_planes * d**3 / 6
    return cost, NUMBER * (shape.parts * copies * shape.n_classes + 4) * d * d


def _gram_needs(shape: ProblemSize) -> tuple[float, float]:
    groups, m = shape.group
    product = OF_SPARSE_PRODUCT / 2 if shape.is_sparse else 0.5
    products = groups * (m / shape.n_rows) ** 2 * shape.column_products
    copied = 12 * shape.stored * m / shape.n_rows if shape.is_sparse else 0.0
    cost = product * products + shape.n_planes * m**3 / 6
    return cost, NUMBER * (4 * m * m + 2.0**21) + copied


def _iterative_needs(shape: ProblemSize) -> tuple[float, float]:
    groups, m = shape.group
    stored = shape.stored * m / shape.n_rows
    together = shape.n_planes / groups
    product = OF_SPARSE_VECTOR if shape.is_sparse else OF_DENSE_VECTOR
    copied = stored * (12 if shape.is_sparse else NUMBER) if groups > 1 else 0.0
    memory = NUMBER * (together * (6.0 * shape.n_columns + 8 * m) + stored) + copied
    return 2 * ITERATIONS * product * stored * shape.n_planes, memory


class Solver(NamedTuple):
    """A solver and its costs."""

    needs: Callable[[ProblemSize], tuple[float, float]]  # cost, and bytes beyond X and the planes
    # Whether it supports all that moments do (searches, classic planes), possibly by moments of
    # `RowFeatures`.
    by_moments: bool
    # Solves for planes of model M1 from rows. Returns planes, a bound of their relative error, and
    # the number of iterations.
    of_rows: Callable[..., tuple[Planes, float, int]] | None = None


SOLVERS = {
    "moments": Solver(_moments_needs, by_moments=True),
    "gram": Solver(_gram_needs, by_moments=True, of_rows=gram.crisp_planes),
    "iterative": Solver(_iterative_needs, by_moments=False, of_rows=iterative.crisp_planes),
}
BY_MOMENTS = tuple(name for name, solver in SOLVERS.items() if solver.by_moments)
OF_ROWS = tuple(name for name, solver in SOLVERS.items() if solver.of_rows)


def choose_solver(
    shape: ProblemSize, wanted: str = "auto", possible: Collection[str] = SOLVERS
) -> str:
    """Choose the cheapest of the `possible` solvers, or check that `wanted` fits into memory.

    If no candidate fits into `MOST_MEMORY` of the available memory, a NotEnoughMemoryError (a
    ValueError and a MemoryError) lists how much each solver needs.
    """
    if wanted == "auto" and "moments" in possible and shape.cost("moments") <= NEXT_TO_NOTHING:
        possible = ("moments",)
        if shape.memory("moments") <= LITTLE_MEMORY:
            return "moments"
    candidates = possible if wanted == "auto" else (wanted,)
    limit = MOST_MEMORY * available_memory()
    fitting = [solver for solver in candidates if shape.memory(solver) <= limit]
    if not fitting:
        raise NotEnoughMemoryError(_too_much(shape, wanted, limit))
    preference = {"moments": 1 / PREFERENCE}
    return min(fitting, key=lambda solver: shape.cost(solver) * preference.get(solver, 1.0))


def _too_much(shape: ProblemSize, wanted: str, limit: float) -> str:
    needs = ", ".join(f"{as_text(shape.memory(name))} with solver={name!r}" for name in SOLVERS)
    least = min(SOLVERS, key=shape.memory)
    remedy = "use fewer columns (SelectKBest, TruncatedSVD), fewer rows, or float32"
    if wanted not in ("auto", least) and shape.memory(least) <= limit:
        remedy = f"use solver={least!r}, or fewer columns (SelectKBest, TruncatedSVD)"
    return (
        f"solver={wanted!r} does not fit into memory: {shape.n_rows:,} rows of "
        f"{shape.n_columns:,} columns in {shape.n_classes} classes need about {needs}. The limit "
        f"is {as_text(limit)}, {MOST_MEMORY:.0%} of what is available. Remedy: {remedy}."
    )


def crisp_planes(
    solver: str, X: Any, weights: RowWeights, C: Array, alpha: float,
    *, multi_class: str, tol: float,
) -> tuple[Planes, float]:  # fmt: skip
    """Solve for the planes of model M1 from rows, by one of `OF_ROWS`.

    Also returned is a bound of the relative error, which is zero for direct solvers.
    """
    solve = SOLVERS[solver].of_rows
    if solve is None:
        raise ValueError(f"solver={solver!r} cannot solve from rows; use {', '.join(OF_ROWS)}.")
    return solve(X, weights, C, alpha, multi_class=multi_class, tol=tol)[:2]


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
        cls, X: Any, codes: Array, weight: Array, n_classes: int, solver: str = "auto",
        tol: float = 1e-6,
    ) -> ClassMeans:  # fmt: skip
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
        the stored numbers, except for columns without zeros, which need none.
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
        full = np.bincount(X.indices, minlength=d) == n
        squares = np.where(full, 0.0, self.mean**2)
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        at = codes[row], X.indices
        stored = (X.data - self.mean[at]) ** 2 - squares[at]
        scatter += np.bincount(X.indices, v[row] * stored, d)
        return np.maximum(scatter + self.weight @ squares, 0.0)

    def crisp_planes(self, C: Array, alpha: float, multi_class: str) -> Planes:
        """Solve for the planes of these rows, without membership degrees."""
        solver = self.solver
        if solver == "auto":
            solver = choose_solver(ProblemSize.of(self.X, len(C), multi_class), possible=OF_ROWS)
        planes, _ = crisp_planes(
            solver, self.X, self.weights, C, alpha, multi_class=multi_class, tol=self.tol
        )
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
