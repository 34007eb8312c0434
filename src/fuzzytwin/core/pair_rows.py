r"""Planes of pairs of classes in the space of the pair's rows.

A pair of classes with n rows in r > n columns is solved in n dimensions. Plane (k, j) is a ridge
regression of the targets t (0 on own rows, -1 on rivals) with the weights v (s on own rows,
C s mu on rivals). With Z the rows centred about their weighted mean, t' the targets about theirs
and S the diagonal matrix of the roots of v,

    w = Z' S y,    (S Z Z' S + alpha I) y = S t',

and a row's value is f = w.z + b with b such that the weighted means of f and t agree: the same
planes as `fuzzytwin.core.planes` computes from moments. All values of C and alpha share Z Z'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.planes import cutoff


@dataclass(frozen=True, eq=False)
class WeighedRows:
    """Rows, their classes, and their weights in the own-class term and in the slack term."""

    Z: Array
    codes: Array
    own: Array
    slack: Array


def most_pair_rows(codes: Array, n_classes: int) -> int:
    """Count the rows of the two largest classes together."""
    return int(np.sort(np.bincount(codes, minlength=n_classes))[-2:].sum())


def pair_grid(
    rows: WeighedRows, n_classes: int, Cs: Array, alphas: Array
) -> tuple[Array, Array] | None:
    """Solve for the planes of every alpha, C and pair, as `planes.crisp_grid` does.

    Parameters
    ----------
    rows : WeighedRows
        Training rows; every class has some weight.
    n_classes : int
        Number of classes K.
    Cs, alphas : ndarray
        Values of C and of the ridge.

    Returns
    -------
    coef : ndarray of shape (len(alphas), len(Cs), K (K - 1), r)
    intercept : ndarray of shape (len(alphas), len(Cs), K (K - 1))
        None instead of both where an alpha is so small that a system may be singular.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> from fuzzytwin.core.pair_rows import WeighedRows, pair_grid
    >>> from fuzzytwin.core.planes import crisp_grid
    >>> Z, codes = np.random.default_rng(0).normal(size=(9, 20)), np.arange(9) % 3
    >>> rows = WeighedRows(Z, codes, np.ones(9), np.ones(9))
    >>> Cs, alphas = np.array([0.5, 2.0]), np.array([0.1, 1.0])
    >>> coef, _ = pair_grid(rows, 3, Cs, alphas)
    >>> moments = ClassMoments.from_rows(Z, codes, n_classes=3)
    >>> same, _ = crisp_grid(moments, moments, Cs, alphas, multi_class="ovo")
    >>> np.allclose(coef, same, rtol=1e-9)
    True
    """
    members = [np.flatnonzero(rows.codes == k) for k in range(n_classes)]
    shape, r = (len(alphas), len(Cs)), rows.Z.shape[1]
    n_planes = n_classes * (n_classes - 1)
    coef, intercept = np.empty((*shape, n_planes, r)), np.empty((*shape, n_planes))
    one_weight = rows.slack is rows.own
    plane = 0
    for k in range(n_classes):
        for j in range(k + 1, n_classes):
            index = np.concatenate([members[k], members[j]])
            Z = rows.Z[index]
            middle = Z.mean(axis=0)
            Z = Z - middle
            G = Z @ Z.T
            for own in (k, j):
                rival = rows.codes[index] != own
                for c, C in enumerate(Cs):
                    first = plane - (own == j)
                    if one_weight and C == 1 and own == j:
                        # Both planes have one system: the second is the first with other signs.
                        coef[:, c, plane] = -coef[:, c, first]
                        intercept[:, c, plane] = -1.0 - intercept[:, c, first]
                        continue
                    v = np.where(rival, C * rows.slack[index], rows.own[index])
                    found = _solve(G, v, np.where(rival, -1.0, 0.0), alphas)
                    if found is None:
                        return None
                    w = found[0] @ Z
                    coef[:, c, plane] = w
                    intercept[:, c, plane] = found[1] - w @ middle
                plane += 1
    return coef, intercept


def _solve(G: Array, v: Array, t: Array, alphas: Array) -> tuple[Array, Array] | None:
    """Solve for one plane at every alpha: coefficients of the rows, and the intercept."""
    top = float(v.max())
    v, ridges = v / top, alphas / top
    share = v / v.sum()
    about = G @ share
    centered = G - about - about[:, None] + share @ about
    root = np.sqrt(v)
    A = root[:, None] * centered * root
    if ridges.min() <= cutoff(len(A)) * max(float(np.trace(A)), 0.0):
        return None
    mean = float(share @ t)
    rhs = root * (t - mean)
    found, diagonal = np.empty((len(ridges), len(A))), np.diag(A).copy()
    for i, ridge in enumerate(ridges):
        M = A.copy()
        M.reshape(-1)[:: len(A) + 1] = diagonal + ridge
        _, y, failed = lapack.dposv(M, rhs, lower=True, overwrite_a=True)
        if failed:
            return None
        y *= root
        found[i] = y - share * y.sum()
    return found, mean - found @ about
