r"""From planes and rows to fuzzy distances, memberships and labels.

The value of plane k at x is the fuzzy number with centre f = w.x + b and width
g = c.|x| + d. Its fuzzy distance (Definition 1, with the width that was meant) is
delta = |f| / |w|, gamma = g / |w|. The membership (eq29, for any number of classes) is

    u_k = (1 / a_k) / sum_j (1 / a_j),
    a_k = delta_k + gamma_k  where delta_k >= gamma_k,  else delta_k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, block_rows
from fuzzytwin.core.pairs import pair_memberships
from fuzzytwin.core.planes import Planes


def plane_values(X: Any, coef: Array, intercept: Array, *, absolute: bool = False) -> Array:
    """``X @ coef.T + intercept`` (or with abs(X)) in float64, block by block."""
    n, d = X.shape
    out = np.empty((n, len(coef)))
    rows = block_rows(d, 8)
    for start in range(0, n, rows):
        block = X[start : start + rows]
        if not sparse.issparse(block):
            block = np.asarray(block, dtype=np.float64)
        out[start : start + rows] = (abs(block) if absolute else block) @ coef.T
    out += intercept
    return out


def row_memberships(X: Any, Z: Any, planes: Planes, rule: str, n_classes: int) -> Array:
    """Compute memberships of rows in all classes, a block of rows at a time.

    Parameters
    ----------
    X, Z : ndarray or CSR matrix of shape (n, d) and (n, r)
        Rows, which widths are functions of, and their features, which centres are.
    planes : Planes
        One per class, or two for each pair of classes.
    rule : {"distance", "residual"}
        Whether to divide by |w|.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (n, K)
    """
    norms = plane_norms(planes.coef) if rule == "distance" else np.ones(len(planes.coef))
    paired = n_classes > 2 and len(planes.coef) > n_classes
    combine = (lambda a: pair_memberships(a, n_classes)) if paired else memberships
    out = np.empty((Z.shape[0], n_classes))
    rows = max(256, min(block_rows(Z.shape[1], 8), BLOCK_NUMBERS // len(planes.coef)))
    for start in range(0, len(out), rows):
        here = slice(start, start + rows)
        f = plane_values(Z[here], planes.coef, planes.intercept)
        g = None
        if planes.width_coef is not None and planes.width_intercept is not None:
            width = planes.width_coef, planes.width_intercept
            g = plane_values(X[here], *width, absolute=True)
        out[here] = combine(effective_distances(*fuzzy_distances(f, g, norms)))
    return out


def plane_norms(coef: Array) -> Array:
    """|w| of each plane, safe from overflow and underflow."""
    top = np.abs(coef).max(axis=1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    norms: Array = np.linalg.norm(coef / safe[:, None], axis=1) * safe
    return norms


def fuzzy_distances(f: Array, g: Array | None, norms: Array) -> tuple[Array, Array]:
    """Distance ``delta`` and its width ``gamma``, each (n, K).

    A plane without direction (|w| = 0) is infinitely far from where f is not zero. Where no
    plane has a direction there is nothing but f to go by, and norms of one are used.
    """
    if not norms.any():
        norms = np.ones_like(norms)
    delta = _ratio(np.abs(f), norms)
    gamma = np.zeros_like(delta) if g is None else _ratio(np.abs(g), norms)
    return delta, gamma


def effective_distances(delta: Array, gamma: Array) -> Array:
    """The a_k of eq29."""
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
    nearest = a.min(axis=1, keepdims=True)
    # nearest / a lies in [0, 1]; where a is zero or nearest infinite it stands for one.
    u = np.divide(nearest, a, out=np.ones_like(a), where=(a > 0) & np.isfinite(nearest))
    u /= u.sum(axis=1, keepdims=True)
    return u


def _ratio(values: Array, norms: Array) -> Array:
    flat = np.where(values > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # too far to be told apart from infinitely far
        return np.divide(values, norms, out=flat, where=norms > 0)
