r"""Compute the planes of the classic estimators from moments.

    s, a            weight of a row, and the sum of the weights of the own class
    p, V_own        weighted mean and covariance of the own class
    w, b            normal and intercept of a plane, with c = b + w.p its value at p

About the mean p, the own-class term of a twin SVM has no mixed term of w and c:

    sum_own s (w.x + b)^2 + alpha |w|^2 = w' (a V_own + alpha I) w + a c^2.

`own_whitening` turns its part in w into |u|^2. It is invariant to shifts of the data.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import (
    Pairs,
    Planes,
    crisp_planes,
    decompose,
    fractions,
    plane_classes,
)


def own_whitening(covariance: Array, a: float, ridge: float, alpha: float, label: Any) -> Array:
    """Compute T with ``T' (a V + ridge I) T = I``, so that w = T u has the own-class term |u|^2.

    `alpha` and `label` are named by the error that is raised if the own rows do not span the space
    and the ridge is lost in rounding.
    """
    M = a * covariance
    M[np.diag_indices(len(M))] += ridge
    values, vectors, scale = decompose(M)
    if len(values) < len(M):
        raise ValueError(
            f"alpha={alpha!r} leaves the plane of class {label} undetermined, because its rows "
            f"span only {len(values)} of {len(M)} dimensions; give a larger alpha or scale the "
            "columns."
        )
    return np.asarray(vectors / np.sqrt(values) / scale[:, None])


def eigen_planes(
    moments: ClassMoments, alpha: float, labels: Array, *, multi_class: str = "ovr"
) -> Planes:
    r"""Planes of GEP-SVM: plane k minimises

        (sum_own s f^2 + alpha |w|^2) / sum_rivals s f^2,    f = w.x + b,

    scaled to |w| = 1, with the sign that puts the mean of the rivals at f <= 0.

    The denominator is maximised subject to a numerator of 1. By `own_whitening` this is the largest
    eigenvalue of a symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classics.planes import eigen_planes
    >>> eigen_planes(moments, 0.01, np.array([0, 1])).coef.round(2)
    array([[-0.6,  0.8],
           [ 0.6, -0.8]])
    """
    K, d = moments.origin.shape
    classes = plane_classes(K, multi_class)
    pairs = Pairs.of(moments, moments, classes)
    coef = np.zeros((len(classes), d))
    intercept = np.zeros(len(classes))
    intercept[pairs.own_weight[:, 0] == 0] = -1.0
    for i in np.flatnonzero((pairs.own_weight > 0) & (pairs.rival_weight > 0)).tolist():
        k = pairs.k[i]
        gap = -pairs.D[i]
        a, _, ridge = fractions(1.0, moments.weight[k], 0.0, alpha)
        T = own_whitening(moments.covariance[k], a, ridge, alpha, labels[k])
        rival_mean = np.append(gap @ T, 1 / np.sqrt(a))  # whitened
        H = np.outer(rival_mean, rival_mean)
        H[:d, :d] += T.T @ pairs.rival[pairs.j[i]] @ T
        u = linalg.eigh(H, subset_by_index=[d, d], check_finite=False)[1][:, 0]
        w = T @ u[:d]
        c = u[d] / np.sqrt(a)
        rival_value = w @ gap + c
        sign = -rival_value if rival_value else w[np.abs(w).argmax()]  # deterministic if it is 0
        size = np.copysign(np.linalg.norm(w) or abs(c), sign)
        coef[i] = w / size
        intercept[i] = (c - w @ pairs.p[i]) / size
    return Planes(coef, intercept, classes)


def proximal_planes(moments: ClassMoments, C: float) -> Planes:
    r"""Planes of P-SVM, each class against all others (the second against the first if K = 2).

    With y = 1 for the class and y = -1 for the others,

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2.

    Let n = C sum s, m the mean and V the covariance of all rows, q the mean of y and t that of
    y (x - m). The optimal b is n (q - w.m) / (1 + n), and w solves

        (I + n V + h m m') w = n t + h q m,    h = n / (1 + n).

    The rank-one term is handled by the Sherman-Morrison formula, so that a mean far from zero
    causes no loss of accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classics.planes import proximal_planes
    >>> planes = proximal_planes(moments, 1.0)
    >>> (X @ planes.coef[0] + planes.intercept[0]).round(2)  # below 0 on the first class
    array([-0.66, -0.95, -0.84,  0.93,  0.64,  0.74])
    """
    K, d = moments.origin.shape
    single = [moments.take(np.array([k])) for k in range(K)]
    total = ClassMoments.sum(single)
    m = total.mean[0]
    weight = float(total.weight[0])
    coef = []
    intercept = []
    one, n = fractions(C, 1.0, weight)  # both divided by the larger, to avoid overflow
    A = n * total.covariance[0]
    A[np.diag_indices(d)] += one
    scale = np.sqrt(np.diag(A))
    factor = linalg.cho_factor(A / scale / scale[:, None], lower=True, check_finite=False)

    def solve(rhs: Array) -> Array:
        return np.asarray(linalg.cho_solve(factor, rhs / scale, check_finite=False) / scale)

    h = one * (n / (one + n))
    solved_mean = solve(m)
    for part in single[1:] if K == 2 else single:
        share = part.weight[0] / (weight or 1.0)
        q = 2 * share - 1
        v = solve(2 * n * share * part.mean_from(total)[0])
        denominator = 1 + h * (m @ solved_mean)
        coef.append(v + solved_mean * (h * (q - m @ v) / denominator))
        at_mean = (m @ v + h * q * (m @ solved_mean)) / denominator
        intercept.append(n * (q - at_mean) / (one + n))
    classes = plane_classes(K, "ovr")[K - len(coef) :]
    return Planes(np.array(coef), np.array(intercept), classes)


def least_squares_planes(
    moments: ClassMoments, C: float, *, isotropic: bool = False, multi_class: str = "ovo"
) -> Planes:
    r"""Planes of LS-SVM: one for each pair of classes, or one per class against all others.

    With f = w.x + b, y = 1 for the own class and y = -1 for its rivals,

        1/2 |w|^2 + C/2 sum s (1 - y f)^2.

    With f = 2 g + 1 this is 4 C times J_k of model M1 for g, without degrees, with a penalty
    of 1 and alpha = 1/C: own rows have the target g = 0 and rivals g = -1. Two classes have one
    plane, that of the second class.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classics.planes import least_squares_planes
    >>> planes = least_squares_planes(moments, 1.0)
    >>> (X @ planes.coef[0] + planes.intercept[0]).round(2)  # below 0 on the first class
    array([-0.61, -0.93, -0.85,  0.98,  0.66,  0.74])
    """
    ones = np.ones(len(moments.weight))
    alpha = min(1 / C, sys.float_info.max)
    twin = crisp_planes(moments, moments, ones, alpha, isotropic=isotropic, multi_class=multi_class)
    keep = separating(twin.classes)
    return Planes(2 * twin.coef[keep], 2 * twin.intercept[keep] + 1, twin.classes[keep], twin.rank)


def twin_planes(planes: Planes, n_classes: int, multi_class: str) -> Planes:
    """Return the twin planes g = (f - 1) / 2 from which `least_squares_planes` were computed.

    The other plane of a pair is -1 - g, since own and rival class are swapped.
    """
    classes = plane_classes(n_classes, multi_class)
    coef = planes.coef / 2
    intercept = (planes.intercept - 1) / 2
    if len(coef) < len(classes):
        coef = np.stack([-coef, coef], axis=1).reshape(len(classes), -1)
        intercept = np.stack([-1 - intercept, intercept], axis=1).ravel()
    return Planes(coef, intercept, classes)


def separating(classes: Array) -> slice:
    """Select one of the two planes of each pair, or all if each is against all others."""
    pairs = (classes[:, 1] >= 0).all() or len(classes) == 2
    return slice(1, None, 2) if pairs else slice(None)


def pair_votes(f: Array, classes: Array, n_classes: int) -> Array:
    """Turn the values of one separating plane per pair into scores of the classes.

    A score is the number of pairs that a class wins, plus a term of absolute value below 1/3 from
    the sum of its values, which only breaks ties of votes.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.classics.planes import pair_votes
    >>> classes = np.array([[1, 0], [2, 0], [2, 1]])
    >>> pair_votes(np.array([[-1.0, -0.5, 2.0]]), classes, 3).round(2).tolist()
    [[2.2, -0.25, 1.2]]
    """
    own = classes[:, 0, None] == np.arange(n_classes)
    rival = classes[:, 1, None] == np.arange(n_classes)
    votes = np.where(f > 0, 1.0, 0.0) @ own + np.where(f > 0, 0.0, 1.0) @ rival
    total = f @ (own.astype(float) - rival)
    return np.asarray(votes + total / (3 * (np.abs(total) + 1)))
