r"""From planes and rows to fuzzy distances, memberships and labels.

The value of plane k at x is the fuzzy number with centre f = w.x + b and width
g = c.|x| + d. Its fuzzy distance (Definition 1, with the width that was meant) is
delta = |f| / |w|, gamma = g / |w|. The membership (eq29, for any number of classes) is

    u_k = (1 / a_k) / sum_j (1 / a_j),
    a_k = delta_k + gamma_k  where delta_k >= gamma_k,  else delta_k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.threads import run_blocks
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, block_rows
from fuzzytwin.core.pairs import cubed_ratios
from fuzzytwin.core.planes import Planes


def plane_values(X: Any, coef: Array, intercept: Array, *, absolute: bool = False) -> Array:
    """``X @ coef.T + intercept`` (or with abs(X)) in float64, block by block."""
    out = np.empty((X.shape[0], len(coef)))

    def fill(here: slice) -> None:
        block = X[here]
        if not sparse.issparse(block):
            block = np.asarray(block, dtype=np.float64)
        block = abs(block) if absolute else block
        out[here] = block @ coef.T if sparse.issparse(block) else np.dot(block, coef.T)
        out[here] += intercept

    run_blocks(fill, row_slices(X, 1))
    return out


def row_memberships(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Compute memberships of rows in all classes, a block of rows at a time.

    Parameters
    ----------
    X, Z : ndarray or CSR matrix of shape (n, d) and (n, r)
        Rows, which widths are functions of, and their features, which centres are.
    planes : Planes
        One per class, or two for each pair of classes; `in_units`.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (n, K)
    """
    if n_classes > 2 and len(planes.coef) > n_classes:
        return paired_memberships(X, Z, planes, n_classes)
    return _by_blocks(X, Z, planes, n_classes, _shares)


def paired_memberships(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """`row_memberships` by two planes `in_units` for each pair of more than two classes."""

    def shares(a: Array) -> Array:
        u = 1.0 / cubed_ratios(a, n_classes)
        u /= u.sum(axis=0)
        return u

    return _by_blocks(X, Z, planes, n_classes, shares)


def _by_blocks(
    X: Any, Z: Any, planes: Planes, n_classes: int, shares: Callable[[Array], Array]
) -> Array:
    """Compute shares (K, m) of the distances (n_planes, m) of every block of m rows."""
    out = np.empty((Z.shape[0], n_classes))

    def block(here: slice) -> None:
        x = None if planes.width_coef is None else X[here]
        out[here] = shares(plane_distances(x, Z[here], planes)).T

    run_blocks(block, row_slices(Z, len(planes.coef)))
    return out


def row_slices(Z: Any, n_values: int) -> list[slice]:
    """Cut rows into blocks that stay in bounds, with so many values computed for each row."""
    n, d = Z.shape
    rows = max(256, min(block_rows(d, 8), BLOCK_NUMBERS // n_values))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def in_units(planes: Planes, rule: str) -> Planes:
    """Divide planes by |w|, so that their values are distances; "residual" leaves them.

    A plane without direction has no width, and a centre of zero or infinity, as its distance is
    (see `fuzzy_distances`).
    """
    if rule != "distance":
        return planes
    norms = plane_norms(planes.coef)
    if not norms.any():
        return planes
    flat = norms == 0
    safe = np.where(flat, 1.0, norms)
    with np.errstate(over="ignore"):
        intercept = np.where(flat & (planes.intercept != 0), np.inf, planes.intercept / safe)
        unit = replace(planes, coef=planes.coef / safe[:, None], intercept=intercept)
        if planes.width_coef is None or planes.width_intercept is None:
            return unit
        width = np.where(flat[:, None], 0.0, planes.width_coef / safe[:, None])
        constant = np.where(flat, 0.0, planes.width_intercept / safe)
        return replace(unit, width_coef=width, width_intercept=constant)


def plane_distances(X: Any, Z: Any, planes: Planes, at: Array | slice = slice(None)) -> Array:
    """Compute effective distances of a block of rows to planes `in_units`: (n_planes, n)."""
    a = _products(Z, planes.coef[at])
    a += planes.intercept[at][:, None]
    np.abs(a, out=a)
    if planes.width_coef is None or planes.width_intercept is None:
        return a
    g = _products(abs(X), planes.width_coef[at])
    g += planes.width_intercept[at][:, None]
    return effective_distances(a, np.abs(g, out=g))


def _products(Z: Any, coef: Array) -> Array:
    """``coef @ Z.T`` in float64, of dense or sparse rows."""
    if sparse.issparse(Z):
        return np.ascontiguousarray((Z @ coef.T).T)
    # `dot` lets other threads run; `@` of two matrices does not.
    return np.asarray(np.dot(coef, np.asarray(Z, dtype=np.float64).T))


def plane_norms(coef: Array) -> Array:
    """|w| of each plane, safe from overflow and underflow."""
    top = np.abs(coef).max(axis=1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    norms: Array = np.linalg.norm(coef / safe[:, None], axis=1) * safe
    return norms


def fuzzy_distances(f: Array, g: Array | None, norms: Array) -> tuple[Array, Array]:
    """Distance ``delta`` and its width ``gamma``, each (n, K).

    A plane without direction (|w| = 0) is infinitely far from where f is not zero. Where no
    plane has a direction, distances are abs(f): norms of one are used.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.distances import fuzzy_distances
    >>> f, g = np.array([[3.0, -1.0]]), np.array([[0.5, 2.0]])
    >>> fuzzy_distances(f, g, norms=np.array([2.0, 1.0]))
    (array([[1.5, 1. ]]), array([[0.25, 2.  ]]))
    """
    if not norms.any():
        norms = np.ones_like(norms)
    delta = plane_ratio(np.abs(f), norms)
    gamma = np.zeros_like(delta) if g is None else plane_ratio(np.abs(g), norms)
    return delta, gamma


def effective_distances(delta: Array, gamma: Array) -> Array:
    """Compute the a_k of eq29."""
    return np.where(delta >= gamma, delta + gamma, delta)


def memberships(a: Array) -> Array:
    """Memberships u (n, K) from effective distances a (n, K); rows sum to one.

    A distance of zero takes all; several of them share.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.distances import memberships
    >>> memberships(np.array([[1.0, 3.0], [0.0, 2.0], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """
    return _shares(a.T).T


def _shares(a: Array) -> Array:
    """Compute `memberships` of distances with a row for each class, as the results have."""
    nearest = a.min(axis=0)
    # nearest / a lies in [0, 1]; where a is zero or nearest infinite it stands for one.
    u = np.divide(nearest, a, out=np.ones_like(a), where=(a > 0) & np.isfinite(nearest))
    u /= u.sum(axis=0)
    return u


def plane_ratio(values: Array, norms: Array) -> Array:
    """Divide by norms; a plane without direction is infinitely far, or at 0 where the value is."""
    flat = np.where(values > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # overflow means infinitely far
        return np.divide(values, norms, out=flat, where=norms > 0)
