"""Symmetric systems that may be singular: tolerance of the rank, decomposition, solution."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array


def rank_tol(size: int) -> float:
    """Return the relative size below which an eigenvalue or pivot counts as zero."""
    return float(10 * size * np.finfo(float).eps)


def decompose(A: Array, isotropic: bool = False) -> tuple[Array, Array, Array]:
    """Decompose a positive semi-definite A = S V diag(l) V' S into l, V and S.

    S are the sizes of the columns, or 1 if `isotropic`. Eigenvalues below `rank_tol` are dropped.
    """
    scale = np.ones(len(A)) if isotropic else np.sqrt(np.diag(A))
    scale[scale == 0] = 1.0
    values, vectors = linalg.eigh(A / scale / scale[:, None], check_finite=False)
    keep = values > rank_tol(len(A)) * max(values[-1], 0.0)
    return values[keep], vectors[:, keep], scale


def solve_symmetric(A: Array, rhs: Array, isotropic: bool = False) -> tuple[Array, int]:
    """Compute the least-norm solution of a positive semi-definite system, and its rank."""
    values, V, scale = decompose(A, isotropic)
    return (V @ ((V.T @ (rhs / scale)) / values)) / scale, len(values)
