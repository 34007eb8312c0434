"""Proximal SVM: a plane between two classes, with a penalty on the intercept."""

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
    r"""Proximal support vector machine (P-SVM), for two or more classes.

    With y = 1 for one class, y = -1 for the other, and the weight s of each row, it minimises

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2

    (Fung and Mangasarian: nu = C, gamma = -b). The original also penalises b: unlike the twin
    SVMs, this model changes if all rows are shifted. With more than two classes, there is a plane
    for each pair of them, and the pairs vote as in `sklearn.svm.SVC`.

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
    coef_, intercept_ : ndarray of shape (n_pairs, d) and (n_pairs,)
        w and b of each plane.
    plane_classes_ : ndarray of shape (n_pairs, 2)
        Index of the class at f = 1 and of that at f = -1.
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
    r"""Compute the planes of P-SVM, one for each pair of classes.

    With y = 1 for the second class of a pair and y = -1 for the first, they minimise

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2.

    Let n = C sum s, m the mean and V the covariance of the rows of the pair, q the mean of y
    and t that of y (x - m). The optimal b is n (q - w.m) / (1 + n), and w solves

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
    classes = plane_classes(len(moments.weight))[1::2]
    planes = [_pair_plane(moments.take(pair), C) for pair in classes]
    return Planes(np.array([w for w, _ in planes]), np.array([b for _, b in planes]), classes)


def _pair_plane(moments: ClassMoments, C: float) -> tuple[Array, float]:
    """Solve for w and b of the first class, which has y = 1, against the second."""
    own = moments.take(np.array([0]))
    total = own + moments.take(np.array([1]))
    m = total.mean[0]
    weight = float(total.weight[0])
    unit, n = rescale(C, 1.0, weight)  # 1 and C sum s, both divided by the larger
    A = n * total.covariance[0]
    A[np.diag_indices_from(A)] += unit
    scale = np.sqrt(np.diag(A))
    try:
        factor = linalg.cho_factor(A / scale / scale[:, None], lower=True, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(
            f"C={C!r} and a sum of sample_weight of {weight:g} drown the ridge of 1, without which "
            "the plane is undetermined, because the columns are linearly dependent; lower C, or "
            "divide the weights."
        ) from None

    def solve(rhs: Array) -> Array:
        return np.asarray(linalg.cho_solve(factor, rhs / scale, check_finite=False) / scale)

    h = unit * (n / (unit + n))
    share = own.weight[0] / (weight or 1.0)
    q = 2 * share - 1
    v = solve(2 * n * share * own.mean_from(total)[0])
    u = solve(m)
    denominator = 1 + h * (m @ u)
    w = v + u * (h * (q - m @ v) / denominator)
    at_mean = (m @ v + h * q * (m @ u)) / denominator
    return w, float(n * (q - at_mean) / (unit + n))
