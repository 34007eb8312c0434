r"""More than two classes: two planes for each pair of classes, and memberships from all pairs.

Plane (k, j) is near to class k and at -1 on class j alone. With a_kj the effective distance of a
row to it, eq29 gives for each pair the membership r_kj = 1 / (1 + a_kj / a_jk). Memberships of K
classes put the other classes j side by side,

    u_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j (a_kj / a_jk)^p).

For two classes and p = 1 this is eq29 as it stands. For more, p = 3: of eleven rules to combine
pairs (their mean, votes, coupling, ...) it was level with the best in accuracy and far ahead in
log loss and Brier score on sixteen tables (``python -m benchmarks pairs``), at the price of two
divisions a pair.
"""

from __future__ import annotations

import numpy as np

from fuzzytwin._utils.types import Array


def pair_memberships(a: Array, n_classes: int) -> Array:
    """Combine the effective distances to the planes of all pairs into memberships.

    Parameters
    ----------
    a : ndarray of shape (n, K (K - 1))
        Effective distances, in the order of `plane_classes`.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (n, K)
        Rows sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.pairs import pair_memberships
    >>> pair_memberships(np.array([[1.0, 2.0, 1.0, 3.0, 1.0, 1.0]]), 3).round(3)
    array([[0.865, 0.1  , 0.035]])
    """
    u = np.ascontiguousarray((1.0 / cubed_ratios(a.T, n_classes)).T)
    u /= u.sum(axis=1, keepdims=True)
    return u


def cubed_ratios(a: Array, n_classes: int) -> Array:
    """Compute 1 + sum_j (a_kj / a_jk)^3 of each class k, the least for the nearest class.

    Parameters
    ----------
    a : ndarray of shape (K (K - 1), ...)
        Effective distances, planes first, in the order of `plane_classes`.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (K, ...)
    """
    ratio = distance_ratios(a[::2], a[1::2])
    cube = ratio * ratio
    cube *= ratio
    inverse = np.divide(1.0, cube, out=ratio)
    against, start = np.ones((n_classes, *a.shape[1:])), 0
    for k in range(n_classes - 1):
        end = start + n_classes - 1 - k
        against[k] += cube[start:end].sum(axis=0)
        against[k + 1 :] += inverse[start:end]
        start = end
    return against


def distance_ratios(a: Array, b: Array) -> Array:
    """Compute a / b, within 1e-50 and 1e50; equal distances, be they zero or infinite, have 1."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = a / b
    np.clip(ratio, 1e-50, 1e50, out=ratio)
    if np.isnan(ratio.min(initial=1.0)):
        ratio[np.isnan(ratio)] = 1.0
    return ratio
