"""Degrees in the own label from memberships alone, quickly: for the demonstration and the studio.

`fuzzytwin.doubts.find_doubtful` does more with more: it estimates how labels came about.
"""

from __future__ import annotations

import numpy as np

from fuzzytwin._utils.types import Array


def own_degrees(memberships: Array, codes: Array) -> Array:
    r"""Compute how well each row fits its own label, fairly to small classes.

    A model that is rarely sure of a class gives all of its rows small memberships. Each one is
    therefore compared with what is usual for its class, as confident learning does: with
    :math:`t_k` the mean membership in k of the rows labelled k,

    .. math:: v_{ik} = \frac{u_{ik} / t_k}{\sum_l u_{il} / t_l} .

    Parameters
    ----------
    memberships : ndarray of shape (n, K)
        Membership of each row in each class, by a model that was fitted without the row.
    codes : ndarray of shape (n,)
        Column of the label of each row.

    Returns
    -------
    ndarray of shape (n, K)
        v; in column ``codes[i]`` of row i stands the degree in its own label.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.report.doubts import own_degrees
    >>> u = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> own_degrees(u, np.array([0, 0, 1, 1])).argmax(axis=1)
    array([0, 0, 1, 1])
    """
    usual = np.ones(memberships.shape[1])
    for k in range(len(usual)):
        own = memberships[codes == k, k]
        usual[k] = own.mean() if len(own) else 1.0
    share = memberships / np.maximum(usual, np.finfo(float).tiny)
    return np.asarray(share / share.sum(axis=1, keepdims=True))
