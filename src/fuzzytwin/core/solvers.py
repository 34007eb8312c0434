r"""Which solver: by the shape of the table and the memory at hand.

moments     d x d covariances of every class: any number of rows, up to some thousand columns
gram        n x n Gram matrix of the rows of a plane: fewer rows than columns
iterative   products with X alone: many rows and many sparse columns

Costs are multiply-adds of dense products of matrices, in which time other work is expressed.
Moments are preferred, because rows can be added to them: another solver is taken where it costs
a quarter or less, and never where moments cost next to nothing. No solver may take more than
`MOST_MEMORY` of the memory that is available when the fit begins.
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
# Moments of no more multiply-adds are always taken: some hundredths of a second.
NEXT_TO_NOTHING = 5e8
LITTLE_MEMORY = 1 << 24  # bytes, for which the system need not be asked
PREFERENCE = 4.0
# Multiply-adds of a dense product of matrices that take the time of one ...
OF_DENSE_VECTOR = 12.0  # ... of a dense matrix and a vector,
OF_SPARSE_VECTOR = 25.0  # ... of a sparse matrix and a vector,
OF_SPARSE_PRODUCT = 80.0  # ... of two sparse matrices.
ITERATIONS = 50  # of conjugate gradients: a guess
NUMBER = 8  # bytes


class NotEnoughMemoryError(ValueError, MemoryError):
    """No solver fits into the memory that is available."""


@dataclass(frozen=True)
class ProblemSize:
    """What costs depend on: stored numbers, multiply-adds of X'X and XX', moments of a class."""

    n_rows: int
    n_columns: int
    n_classes: int
    multi_class: str
    stored: int
    row_products: float
    column_products: float
    is_sparse: bool
    parts: int  # moments of weights s, of s mu, of abs(X)

    @classmethod
    def of(cls, X: Any, n_classes: int, multi_class: str = "ovo", parts: int = 1) -> ProblemSize:
        """Measure a table."""
        n, d = X.shape
        stored, is_sparse = n * d, sparse.issparse(X)
        products = float(n) * d * d, float(n) * d * n
        if is_sparse:
            stored, rows = X.nnz, np.diff(X.indptr).astype(np.float64)
            columns = np.bincount(X.indices, minlength=d).astype(np.float64)
            products = float(rows @ rows), float(columns @ columns)
        return cls(n, d, n_classes, multi_class, stored, *products, is_sparse, parts)

    @property
    def n_planes(self) -> int:
        """Return the number of planes."""
        return self.n_classes * (self.n_classes - 1 if self.multi_class == "ovo" else 1)

    @property
    def group(self) -> tuple[int, float]:
        """Return how many sets of rows planes use, and the rows of one, classes being alike."""
        if self.n_classes > 2 and self.multi_class == "ovo":
            return self.n_planes // 2, 2.0 * self.n_rows / self.n_classes
        return 1, float(self.n_rows)

    def cost(self, solver: str) -> float:
        """Estimate the time of a solver."""
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
    stored, together = shape.stored * m / shape.n_rows, shape.n_planes / groups
    product = OF_SPARSE_VECTOR if shape.is_sparse else OF_DENSE_VECTOR
    copied = stored * (12 if shape.is_sparse else NUMBER) if groups > 1 else 0.0
    memory = NUMBER * (together * (6.0 * shape.n_columns + 8 * m) + stored) + copied
    return 2 * ITERATIONS * product * stored * shape.n_planes, memory


class Solver(NamedTuple):
    """One way to find planes."""

    needs: Callable[[ProblemSize], tuple[float, float]]  # time, and bytes beyond X and the planes
    # Whether it does all that is done with moments (a search, classic planes), be it those of
    # features of the rows.
    by_moments: bool
    # Planes of model M1 from rows, a bound of their relative error, and iterations; None: none.
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
    """Choose one of the solvers that can do what is asked for, or check that `wanted` fits.

    Where the solver, or each of them, would take more than `MOST_MEMORY` of the available memory,
    a NotEnoughMemoryError (a ValueError and a MemoryError) says how much each needs.
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
        f"{shape.n_columns:,} columns in {shape.n_classes} classes need about {needs}; "
        f"{as_text(limit)} may be taken, {MOST_MEMORY:.0%} of what is available. Remedy: {remedy}."
    )


def crisp_planes(
    solver: str, X: Any, weights: RowWeights, C: Array, alpha: float,
    *, multi_class: str, tol: float,
) -> tuple[Planes, float]:  # fmt: skip
    """Solve for the planes of model M1 from rows, by one of `OF_ROWS`.

    Also returned is a bound of the relative error, which is zero for exact solvers.
    """
    solve = SOLVERS[solver].of_rows
    if solve is None:
        raise ValueError(f"solver={solver!r} takes no rows; use one of {', '.join(OF_ROWS)}.")
    return solve(X, weights, C, alpha, multi_class=multi_class, tol=tol)[:2]


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Weight and mean of the rows of each class: all that memberships need of moments.

    It stands in for `ClassMoments` where there are too many columns for covariances, and holds
    the rows, from which planes follow by one of `OF_ROWS`.
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
        """Compute the means of the rows of X; zero for a class without weight."""
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
        """Add up squared distances from the means of the classes, weighted, of each column.

        Those of sparse rows are of stored numbers, plus mean^2 of all others: the sum over all
        rows less that over the stored ones, where some row lacks the column.
        """
        X, codes, v = self.X, self.weights.codes, self.weights.own
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
        """Solve for the planes of these rows without memberships."""
        solver = self.solver
        if solver == "auto":
            solver = choose_solver(ProblemSize.of(self.X, len(C), multi_class), possible=OF_ROWS)
        same: Any = {"multi_class": multi_class, "tol": self.tol}
        return crisp_planes(solver, self.X, self.weights, C, alpha, **same)[0]


def _mean(X: Any, index: Array, share: Array) -> Array:
    """Compute the mean of some rows; that of equal numbers is exactly this number."""
    if sparse.issparse(X):
        some = X[index]
        low, high = (np.ravel(part.toarray()) for part in (some.min(axis=0), some.max(axis=0)))
        return np.where(low == high, low, some.T @ share)
    mean = np.empty(X.shape[1])
    for columns, block in column_blocks(X, index):
        mean[columns] = np.add(*centre(block, share))
    return mean


ClassSummary: TypeAlias = ClassMoments | ClassMeans
