r"""How far a kernel reaches: one gamma by distances, or one for each column, by the labels.

A kernel with one gamma for all columns measures distances in columns that have nothing to do with
the labels as well, which blurs the planes. So first planes f_k are learned with it, by least
squares on the labels, and columns then count as much as these planes change along them:

    gamma_j = c M_j,      M_j = mean over rows i and classes k of (df_k(x_i) / dx_j)^2

(the diagonal of the average gradient outer product; Trivedi et al. 2014, Radhakrishnan et al.
2024). The factor c keeps the mean squared distance between rows as it was, so that gamma still sets
how far the kernel reaches. The ridge of the first planes is the one of least squared error at rows
that are left out, in closed form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import column_means, dense_block, row_slices
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.fit.kernels import DISTANCES, Gamma, LandmarkMap, narrow, sample_rows

MOST_ROWS = 2000  # rows that are read at most
MOST_LANDMARKS = 150  # those that span the first planes at most
MOST_FUNCTIONS = 16  # of more classes, the directions in which planes vary most
RIDGES = 10.0 ** np.arange(-5, 3.5, 0.5)  # those tried, times the mean scatter of a row or group
TIED = 1e-9  # sums of weights that differ by less, relative, are the same


def learned_gammas(
    landmarks: Any, gamma: Gamma, X: Any, codes: Array, s: Array | None, *, rounds: int = 1,
    groups: Array | None = None,
) -> Gamma:  # fmt: skip
    """Learn how much each column counts in an RBF kernel from how planes change along it.

    One gamma for each column (d,) is returned, or `gamma`, where to begin, if planes change
    nowhere: of one class, or of equal rows. Of many rows X and landmarks a part is read. More
    rounds begin where one ended, and read twice as many of both: they pay where rows are many.
    Rows of one number in `groups` are left out together.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.fit.relevance import learned_gammas
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> gammas = learned_gammas(X, 0.3, X, (X[:, 1] > 0).astype(int), None)  # the second column
    >>> (gammas / gammas.sum() > 0.8).tolist()
    [False, True, False]
    """
    more = 2 if rounds > 1 else 1
    some = _some(landmarks, more * MOST_LANDMARKS)
    chosen = sample_rows(X, codes, s, more * MOST_ROWS, np.random.RandomState(0))
    largest = 1.0 if s is None else float(s[chosen].max())
    share = np.ones(len(chosen)) if s is None else s[chosen] / largest
    v = share / share.sum()
    X, codes = X[chosen], codes[chosen]
    groups = None if groups is None else groups[chosen]
    classes = np.unique(codes)
    T = (codes[:, None] == (classes[1:] if len(classes) <= 2 else classes)).astype(float)
    for _ in range(rounds):
        gamma = _learned(LandmarkMap.of(some, "rbf", gamma, 3, 0.0), X, T, v, groups)
    return gamma


def _learned(phi: LandmarkMap, X: Any, T: Array, v: Array, groups: Array | None) -> Gamma:
    """Learn gammas from planes with the present ones."""
    K = phi.kernel_values(X)
    Z = K @ phi.root
    w = _first_planes(Z, T, v, groups)
    if w.shape[1] > MOST_FUNCTIONS:
        values = (Z - v @ Z) @ w
        w = w @ np.linalg.eigh((values * v[:, None]).T @ values)[1][:, -MOST_FUNCTIONS:]
    change, variance = _change(phi, X, K, phi.root @ w, v)
    before = np.broadcast_to(np.asarray(phi.gamma, dtype=np.float64), variance.shape)
    change *= before * before
    total = float(change @ variance)
    if not (np.isfinite(total) and total > 0):
        return phi.gamma
    return np.asarray(change * (float(before @ variance) / total))


def _some(landmarks: Any, most: int) -> Any:
    """Choose some of the landmarks, whatever their order and however often they are repeated."""
    if sparse.issparse(landmarks):
        ends = landmarks.indptr
        keys = [
            (landmarks.indices[i:j].tobytes(), landmarks.data[i:j].tobytes())
            for i, j in pairwise(ends)
        ]
        place = {key: i for i, key in enumerate(keys)}
        distinct = np.array([place[key] for key in sorted(place)])
    else:
        distinct = np.unique(landmarks, axis=0, return_index=True)[1]
    return landmarks[distinct[:: -(-len(distinct) // most)]]


def _first_planes(Z: Array, T: Array, v: Array, groups: Array | None) -> Array:
    """Fit planes w (r, q) to targets T (n, q) by least squares, with the best of `RIDGES`.

    `v` are the weights of the rows, which add up to 1.
    """
    path = RidgePath.of(RidgeSums.of(Z, T, v))
    alphas = RIDGES * path.sizes.sum() * mean_weight(v, groups)
    if not alphas.all():
        return np.zeros((Z.shape[1], T.shape[1]))
    left_out = path.left_out(path.coordinates(Z), T, v, alphas, groups)
    errors = [float(v @ ((values - T) ** 2).sum(axis=1)) for values in left_out]
    return path.planes(float(alphas[int(np.argmin(errors))]))[0]


def _change(phi: LandmarkMap, X: Any, K: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """Compute the mean squared change of functions along each column, and the columns' variances.

    A function is sum_l u_l k(x, l); its change is (df/dx_j)^2 but for a factor of 4 gamma_j^2.
    """
    L: Any = phi.landmarks
    d = X.shape[1]
    # Far from zero, differences lose their digits, and a shift changes none.
    dense = not (sparse.issparse(X) or sparse.issparse(L))
    center = column_means(L) if dense else np.zeros(d)
    L = L - center if dense else L
    change, first, second = np.zeros((3, d))
    for here in row_slices(*X.shape):
        Z, share = dense_block(X, here) - center, v[here]
        first += share @ Z
        second += share @ (Z * Z)
        for k in range(u.shape[1]):
            of_landmark = K[here] * u[:, k]
            slope = Z * of_landmark.sum(axis=1)[:, None] - of_landmark @ L
            change += share @ (slope * slope)
    return change, np.maximum(second - first * first, 0.0)


def default_gammas(X: Any, s: Array | None) -> Array:
    """Choose five powers of four around the median heuristic, from at most 500 weighted rows.

    Pairs weigh as their rows do, and pairs of equal rows do not count.
    """
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    rows = sample_rows(X, one_class, s, 500, np.random.RandomState(0))
    Z = narrow(X[rows])
    if not sparse.issparse(Z):  # far from zero, squared distances lose their digits
        Z = Z - column_means(Z)
    middle = median_apart(DISTANCES["squared"][0](Z, Z), s if s is None else s[rows])
    return 4.0 ** np.arange(-2, 3) / middle


def median_apart(apart: Array, s: Array | None) -> float:
    """Compute the weighted median of distances (n, n) of different rows; 1 if all are equal."""
    different = apart > 1e-12 * apart.max()
    values = apart[different]
    if not len(values):
        return 1.0
    if s is None or (s == s[0]).all():
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])
    order, share = np.argsort(values), s / s.max()
    upto = np.cumsum(np.multiply.outer(share, share)[different][order])
    return float(values[order[np.searchsorted(upto, (1 - TIED) * upto[-1] / 2)]])
