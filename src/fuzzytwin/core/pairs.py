r"""More than two classes: two planes for each pair of classes, and memberships from all pairs.

Plane (k, j) is near to class k and at -1 on class j alone. With a_kj the effective distance of a
row to it, eq29 gives for each pair

    r_kj = a_jk / (a_kj + a_jk),    r_jk = 1 - r_kj,

and the membership in class k is the mean of r_kj over all other classes j, out of their sum:

    u_k = 2 / (K (K - 1)) sum_j r_kj.

For two classes this is eq29 as it stands.
"""

from __future__ import annotations

import numpy as np

from fuzzytwin._utils.types import Array


def plane_classes(n_classes: int, multi_class: str) -> Array:
    """List the own and the rival class of every plane.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    multi_class : {"ovo", "ovr"}
        Two planes for each pair of classes, one after the other, or one plane per class
        against all others.

    Returns
    -------
    ndarray of shape (n_planes, 2)
        Indices of classes; a rival of -1 stands for all others.

    Examples
    --------
    >>> from fuzzytwin.core.pairs import plane_classes
    >>> plane_classes(3, "ovo").tolist()
    [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
    >>> plane_classes(3, "ovr").tolist()
    [[0, -1], [1, -1], [2, -1]]
    """
    if multi_class == "ovr":
        return np.column_stack([np.arange(n_classes), np.full(n_classes, -1)])
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    return np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)


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
    >>> pair_memberships(np.array([[1.0, 3.0, 1.0, 1.0, 3.0, 1.0]]), 3).round(3)
    array([[0.417, 0.167, 0.417]])
    """
    r = first_shares(a[:, ::2], a[:, 1::2])
    u = np.zeros((len(a), n_classes))
    start = 0
    for k in range(n_classes - 1):
        end = start + n_classes - 1 - k
        part = r[:, start:end]
        u[:, k] += part.sum(axis=1)
        u[:, k + 1 :] += 1.0 - part
        start = end
    u *= 2.0 / (n_classes * (n_classes - 1))
    return u


def first_shares(a: Array, b: Array) -> Array:
    """Compute b / (a + b), the membership in the first of two classes.

    A distance of zero takes all, and so does a finite one against an infinite one; equal ones
    share.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        share = b / total
        if not total.size or (total.min() > 0 and np.isfinite(total.max())):
            return share
        # Over the greater, so that the sum does not overflow.
        top = np.maximum(a, b)
        share = (b / top) / (a / top + b / top)
    equal = np.where(a < b, 1.0, np.where(a > b, 0.0, 0.5))
    return np.where(np.isfinite(share) & np.isfinite(top), share, equal)
