r"""From moments to the planes of the classic estimators.

About the own mean p, with c = b + w.p, the own-class term of a twin SVM has no mixed part:

    sum_own s (w.x + b)^2 + alpha |w|^2 = w' (a V_own + alpha I) w + a c^2,   a = sum_own s.

So `own_whitening` turns it into |u|^2, and every shift of the data leaves it alone.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fuzzytwin.core.leave_one_out import LeaveOneOut
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, crisp_planes, cutoff, fractions, plane_classes
from fuzzytwin.core.row_weights import RowWeights

Array = NDArray[Any]


def own_whitening(covariance: Array, a: float, ridge: float, alpha: float, label: Any) -> Array:
    """Compute T with ``T' (a V + ridge I) T = I``: w = T u and |u|^2 is the own-class term.

    `alpha` and `label` are for the error: where the own samples do not span the space and
    the ridge is lost in rounding, the plane is not determined.
    """
    M = a * covariance
    M[np.diag_indices(len(M))] += ridge
    scale = np.sqrt(np.diag(M))
    scale[scale == 0] = 1.0
    values, vectors = linalg.eigh(M / scale / scale[:, None], check_finite=False)
    rank = int((values > cutoff(len(M)) * values[-1]).sum())
    if rank < len(M):
        raise ValueError(
            f"alpha={alpha!r} leaves the plane of class {label} undetermined, because its samples "
            f"span only {rank} of {len(M)} dimensions; give a larger alpha or scale the columns."
        )
    T: Array = vectors / np.sqrt(values) / scale[:, None]
    return T


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
    >>> from fuzzytwin.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classic_planes import eigen_planes
    >>> eigen_planes(moments, 0.01, np.array([0, 1])).coef.round(2)
    array([[-0.6,  0.8],
           [ 0.6, -0.8]])
    """
    K, d = moments.origin.shape
    classes = plane_classes(K, multi_class)
    rivals = moments.rivals() if multi_class == "ovr" else moments
    coef, intercept = np.zeros((len(classes), d)), np.zeros(len(classes))
    own_mean = moments.mean
    for i, (k, j) in enumerate(classes.tolist()):
        j = k if j < 0 else j
        a, _, ridge = fractions(1.0, moments.weight[k], 0.0, alpha)
        if not (moments.weight[k] and rivals.weight[j]):  # no own rows, or no rivals
            intercept[i] = -1.0 if moments.weight[k] == 0 else 0.0
            continue
        gap = (rivals.origin[j] - moments.origin[k]) + (rivals.offset[j] - moments.offset[k])
        T = own_whitening(moments.covariance[k], a, ridge, alpha, labels[k])
        away = np.append(gap @ T, 1 / np.sqrt(a))  # the rivals' mean, whitened
        H = np.outer(away, away)
        H[:d, :d] += T.T @ rivals.covariance[j] @ T
        u = linalg.eigh(H, subset_by_index=[d, d], check_finite=False)[1][:, 0]
        w, c = T @ u[:d], u[d] / np.sqrt(a)
        side = w @ gap + c
        turn = -side if side else w[np.abs(w).argmax()]  # a rule that leaves no sign to chance
        size = np.copysign(np.linalg.norm(w) or abs(c), turn)
        coef[i], intercept[i] = w / size, (c - w @ own_mean[k]) / size
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
    >>> from fuzzytwin.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classic_planes import proximal_planes
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
        solution: Array = linalg.cho_solve(factor, rhs / scale, check_finite=False) / scale
        return solution

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
    moments: ClassMoments, C: float, *, one_unit: bool = False, multi_class: str = "ovo"
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
    >>> from fuzzytwin.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classic_planes import least_squares_planes
    >>> planes = least_squares_planes(moments, 1.0)
    >>> (X @ planes.coef[0] + planes.intercept[0]).round(2)  # below 0 on the first class
    array([-0.61, -0.93, -0.85,  0.98,  0.66,  0.74])
    """
    found = _twin_planes(moments, C, one_unit, multi_class).planes
    keep = _separating(found)
    return Planes(
        2 * found.coef[keep], 2 * found.intercept[keep] + 1, found.classes[keep], found.rank
    )


def least_squares_loo(
    moments: ClassMoments,
    C: float,
    Z: Any,
    codes: Array,
    weight: Array,
    names: Array,
    *,
    one_unit: bool = False,
    multi_class: str = "ovo",
) -> Array:
    """Compute values of `least_squares_planes` at the rows of the fit, each without the row itself.

    Parameters
    ----------
    moments, C, one_unit, multi_class
        As for `least_squares_planes`.
    Z : ndarray, CSR matrix or mapped rows of shape (n, d)
        Features of the rows.
    codes, weight : ndarray of shape (n,)
        Their classes and weights, class weights included.
    names : ndarray of shape (K,)
        Names of the classes for an error.

    Returns
    -------
    ndarray of shape (n, n_planes)
    """
    model = _twin_planes(moments, C, one_unit, multi_class)
    weights, keep = RowWeights(codes, weight, weight, len(names)), _separating(model.planes)
    f = np.empty((len(codes), len(model.planes.classes[keep])))
    for block in model.values(Z, weights, norms=False, names=names):
        f[block.index] = 2 * block.f[keep].T + 1
    return f


def _twin_planes(moments: ClassMoments, C: float, one_unit: bool, multi_class: str) -> LeaveOneOut:
    """Return the twin planes that are those of LS-SVM, with what they were learned from."""
    ones, alpha = np.ones(len(moments.weight)), min(1 / C, sys.float_info.max)
    found = crisp_planes(moments, moments, ones, alpha, one_unit=one_unit, multi_class=multi_class)
    return LeaveOneOut(found, moments, moments, ones, alpha, one_unit)


def _separating(planes: Planes) -> slice:
    """Take one of the two planes of each pair, or all where each is against all others."""
    pairs = (planes.classes[:, 1] >= 0).all() or len(planes.classes) == 2
    return slice(1, None, 2) if pairs else slice(None)
