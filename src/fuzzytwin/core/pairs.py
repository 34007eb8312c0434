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


def pair_votes(f: Array, classes: Array, n_classes: int) -> Array:
    """Turn the values of one separating plane per pair into scores of the classes.

    A score is the number of pairs that a class wins, plus at most 1/3 by the sum of its values:
    a tie of votes is settled by the values, and nothing else is.

    Parameters
    ----------
    f : ndarray of shape (n, n_planes)
        Values, above 0 for the own class of the plane.
    classes : ndarray of shape (n_planes, 2)
        Own and rival class of each plane.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (n, K)

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.pairs import pair_votes
    >>> classes = np.array([[1, 0], [2, 0], [2, 1]])
    >>> pair_votes(np.array([[-1.0, -0.5, 2.0]]), classes, 3).round(2).tolist()
    [[2.2, -0.25, 1.2]]
    """
    own, rival = (classes[:, side, None] == np.arange(n_classes) for side in (0, 1))
    votes = np.where(f > 0, 1.0, 0.0) @ own + np.where(f > 0, 0.0, 1.0) @ rival
    total = f @ (own.astype(float) - rival)
    return np.asarray(votes + total / (3 * (np.abs(total) + 1)))


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
