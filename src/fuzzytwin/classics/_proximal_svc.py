"""Proximal SVM: a plane between a class and all others, with a penalty on the intercept."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from fuzzytwin._params import class_factors, number
from fuzzytwin._utils.docstrings import substitute
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._base import SeparatingPlanes
from fuzzytwin.classics._docstrings import PARAGRAPHS
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes, plane_classes, rescale
from fuzzytwin.twin._settings import FitSettings


@substitute(**PARAGRAPHS)
class ProximalSVC(SeparatingPlanes):
    r"""Proximal support vector machine (P-SVM), for two classes or each against all others.

    With y = 1 for a class, y = -1 for the others, and the weight s of each row, it minimises

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2

    (Fung and Mangasarian: nu = C, gamma = -b). The original also penalises b: unlike the twin
    SVMs, this model changes if all rows are shifted.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, nu in the original.
    {solver}
    {class_weight}
    {n_jobs}

    Attributes
    ----------
    {classes_}
    coef_, intercept_ : ndarray of shape (1, d) and (1,), or (K, d) and (K,) for K > 2
        w and b of each plane.
    plane_classes_ : ndarray of shape (1, 2) or (K, 2)
        Index of the own and of the rival class of each plane. -1 stands for all other classes.
    {moments_}
    {features_in_}

    Notes
    -----
    {errors}

    References
    ----------
    G. Fung, O. L. Mangasarian: Proximal support vector machine classifiers. KDD 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import ProximalSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(ProximalSVC().fit(scale(X), y).score(scale(X), y), 3)
    0.968
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        solver: str = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.solver = solver
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    _constraints: ClassVar = {"C": number(above=0.0)}
    _shift_invariant = False

    @staticmethod
    def _solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
        factor = class_factors(settings.class_weight, moments.own.weight, classes)
        return proximal_planes(moments.own.scaled(factor), settings.C)


def proximal_planes(moments: ClassMoments, C: float) -> Planes:
    r"""Compute the planes of P-SVM, of each class against all others. If K = 2, only of the second.

    With y = 1 for the class and y = -1 for the others, they minimise

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
    >>> from fuzzytwin.classics._proximal_svc import proximal_planes
    >>> planes = proximal_planes(moments, 1.0)
    >>> (X @ planes.coef[0] + planes.intercept[0]).round(2)  # below 0 on the first class
    array([-0.66, -0.95, -0.84,  0.93,  0.64,  0.74])
    """
    K, d = moments.origin.shape
    class_moments = [moments.take(np.array([k])) for k in range(K)]
    total = ClassMoments.sum(class_moments)
    m = total.mean[0]
    weight = float(total.weight[0])
    coef = []
    intercept = []
    unit, n = rescale(C, 1.0, weight)  # 1 and C sum s, both divided by the larger
    A = n * total.covariance[0]
    A[np.diag_indices(d)] += unit
    scale = np.sqrt(np.diag(A))
    factor = linalg.cho_factor(A / scale / scale[:, None], lower=True, check_finite=False)

    def solve(rhs: Array) -> Array:
        return np.asarray(linalg.cho_solve(factor, rhs / scale, check_finite=False) / scale)

    h = unit * (n / (unit + n))
    solved_mean = solve(m)
    for part in class_moments[1:] if K == 2 else class_moments:
        share = part.weight[0] / (weight or 1.0)
        q = 2 * share - 1
        v = solve(2 * n * share * part.mean_from(total)[0])
        denominator = 1 + h * (m @ solved_mean)
        coef.append(v + solved_mean * (h * (q - m @ v) / denominator))
        at_mean = (m @ v + h * q * (m @ solved_mean)) / denominator
        intercept.append(n * (q - at_mean) / (unit + n))
    classes = plane_classes(K, "ovr")[K - len(coef) :]
    return Planes(np.array(coef), np.array(intercept), classes)
