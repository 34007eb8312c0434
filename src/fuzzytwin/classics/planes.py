r"""From moments to the planes of the classic estimators, and to those that the paper prints.

About the own mean p, with c = b + w.p, the own-class term of a twin SVM has no mixed part:

    sum_own s (w.x + b)^2 + alpha |w|^2 = w' (a V_own + alpha I) w + a c^2,   a = sum_own s.

So `own_whitening` turns it into |u|^2, and every shift of the data leaves it alone.
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
    """Compute T with ``T' (a V + ridge I) T = I``: w = T u and |u|^2 is the own-class term.

    `alpha` and `label` are for the error: where the own samples do not span the space and
    the ridge is lost in rounding, the plane is not determined.
    """
    M = a * covariance
    M[np.diag_indices(len(M))] += ridge
    values, vectors, scale = decompose(M)
    if len(values) < len(M):
        raise ValueError(
            f"alpha={alpha!r} leaves the plane of class {label} undetermined, because its samples "
            f"span only {len(values)} of {len(M)} dimensions; give a larger alpha or scale the "
            "columns."
        )
    return np.asarray(vectors / np.sqrt(values) / scale[:, None])


def eigen_planes(
    moments: ClassMoments, alpha: float, labels: Array, *, multi_class: str = "ovr"
) -> Planes:
    r"""Planes of GEP-SVM: plane k minimises

        (sum_own s f^2 + alpha |w|^2) / sum_rivals s f^2,    f = w.x + b,

    scaled to |w| = 1 and turned so that the mean of the rivals lies at f <= 0.

    The denominator is maximised where the numerator is 1, which `own_whitening` makes the
    greatest eigenvalue of one symmetric matrix.

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
    coef, intercept = np.zeros((len(classes), d)), np.zeros(len(classes))
    intercept[pairs.own_weight[:, 0] == 0] = -1.0
    for i in np.flatnonzero((pairs.own_weight > 0) & (pairs.rival_weight > 0)).tolist():
        k, gap = pairs.k[i], -pairs.D[i]
        a, _, ridge = fractions(1.0, moments.weight[k], 0.0, alpha)
        T = own_whitening(moments.covariance[k], a, ridge, alpha, labels[k])
        away = np.append(gap @ T, 1 / np.sqrt(a))  # the rivals' mean, whitened
        H = np.outer(away, away)
        H[:d, :d] += T.T @ pairs.rival[pairs.j[i]] @ T
        u = linalg.eigh(H, subset_by_index=[d, d], check_finite=False)[1][:, 0]
        w, c = T @ u[:d], u[d] / np.sqrt(a)
        side = w @ gap + c
        turn = -side if side else w[np.abs(w).argmax()]  # a rule that leaves no sign to chance
        size = np.copysign(np.linalg.norm(w) or abs(c), turn)
        coef[i], intercept[i] = w / size, (c - w @ pairs.p[i]) / size
    return Planes(coef, intercept, classes)


def proximal_planes(moments: ClassMoments, C: float) -> Planes:
    r"""Planes of P-SVM, each class against all others (the second against the first if K = 2).

    With y = 1 for the class and y = -1 for the others,

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2.

    Let n = C sum s, m the mean and V the covariance of all samples, q the mean of y and t
    that of y (x - m). The best b is n (q - w.m) / (1 + n), and what is left is solved by

        (I + n V + h m m') w = n t + h q m,    h = n / (1 + n),

    the rank-one part by the formula of Sherman and Morrison, so that a mean far from zero
    costs no digits.

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
    m, weight = total.mean[0], float(total.weight[0])
    coef, intercept = [], []
    one, n = fractions(C, 1.0, weight)  # both over the greater, so that nothing overflows
    A = n * total.covariance[0]
    A[np.diag_indices(d)] += one
    scale = np.sqrt(np.diag(A))
    factor = linalg.cho_factor(A / scale / scale[:, None], lower=True, check_finite=False)

    def solve(rhs: Array) -> Array:
        return np.asarray(linalg.cho_solve(factor, rhs / scale, check_finite=False) / scale)

    h = one * (n / (one + n))
    towards = solve(m)
    for part in single[1:] if K == 2 else single:
        share = part.weight[0] / (weight or 1.0)
        q = 2 * share - 1
        v = solve(2 * n * share * part.mean_from(total)[0])
        bend = 1 + h * (m @ towards)
        coef.append(v + towards * (h * (q - m @ v) / bend))
        at_mean = (m @ v + h * q * (m @ towards)) / bend
        intercept.append(n * (q - at_mean) / (one + n))
    classes = plane_classes(K, "ovr")[K - len(coef) :]
    return Planes(np.array(coef), np.array(intercept), classes)


def least_squares_planes(
    moments: ClassMoments, C: float, *, isotropic: bool = False, multi_class: str = "ovo"
) -> Planes:
    r"""Planes of LS-SVM: one for each pair of classes, or one per class against all others.

    With f = w.x + b, y = 1 for the own class and y = -1 for its rivals,

        1/2 |w|^2 + C/2 sum s (1 - y f)^2.

    With f = 2 g + 1 that is four times J_k of model M1 for g, with no degrees, a penalty of 1
    and alpha = 1/C: own samples have g = 0 and rivals g = -1. Two classes have one plane, that
    of the second class.

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
    ones, alpha = np.ones(len(moments.weight)), min(1 / C, sys.float_info.max)
    found = crisp_planes(
        moments, moments, ones, alpha, isotropic=isotropic, multi_class=multi_class
    )
    keep = separating(found.classes)
    return Planes(
        2 * found.coef[keep], 2 * found.intercept[keep] + 1, found.classes[keep], found.rank
    )


def twin_planes(planes: Planes, n_classes: int, multi_class: str) -> Planes:
    """Return the twin planes g = (f - 1) / 2 that `least_squares_planes` were taken from.

    The other plane of a pair is -1 - g: it has the same weights, and own and rival exchanged.
    """
    classes = plane_classes(n_classes, multi_class)
    coef, intercept = planes.coef / 2, (planes.intercept - 1) / 2
    if len(coef) < len(classes):
        coef = np.stack([-coef, coef], axis=1).reshape(len(classes), -1)
        intercept = np.stack([-1 - intercept, intercept], axis=1).ravel()
    return Planes(coef, intercept, classes)


def separating(classes: Array) -> slice:
    """Take one of the two planes of each pair, or all where each is against all others."""
    pairs = (classes[:, 1] >= 0).all() or len(classes) == 2
    return slice(1, None, 2) if pairs else slice(None)


def pair_votes(f: Array, classes: Array, n_classes: int) -> Array:
    """Turn the values of one separating plane per pair into scores of the classes.

    A score is the number of pairs that a class wins, plus at most 1/3 by the sum of its values:
    a tie of votes is settled by the values, and nothing else is.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.classics.planes import pair_votes
    >>> classes = np.array([[1, 0], [2, 0], [2, 1]])
    >>> pair_votes(np.array([[-1.0, -0.5, 2.0]]), classes, 3).round(2).tolist()
    [[2.2, -0.25, 1.2]]
    """
    own, rival = (classes[:, side, None] == np.arange(n_classes) for side in (0, 1))
    votes = np.where(f > 0, 1.0, 0.0) @ own + np.where(f > 0, 0.0, 1.0) @ rival
    total = f @ (own.astype(float) - rival)
    return np.asarray(votes + total / (3 * (np.abs(total) + 1)))


# Model M2 as the paper prints it, kept to show what its formulas do (two classes only).
