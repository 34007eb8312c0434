"""Least-squares SVM: a plane between two classes."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np

from fuzzytwin._params import class_factors, number
from fuzzytwin._utils.docstrings import substitute
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._base import SeparatingPlanes
from fuzzytwin.classics._docstrings import PARAGRAPHS
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes, crisp_planes
from fuzzytwin.twin._settings import FitSettings


@substitute(**PARAGRAPHS)
class LeastSquaresSVC(SeparatingPlanes):
    r"""Least-squares support vector machine (LS-SVM), for two or more classes.

    With f = w.x + b, y = 1 for one class, y = -1 for the other, and the weight s of each row,
    this model minimises

        1/2 |w|^2 + C/2 sum s (1 - y f)^2

    (Suykens and Vandewalle: gamma = C). It has one plane instead of the two of a twin SVM, and
    no penalty on b, so that shifting the data changes only the intercept. With more than two
    classes, there is a plane for each pair of them, and the pairs vote as in `sklearn.svm.SVC`.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, gamma in the original.
    {solver}
    {class_weight}
    {n_jobs}
    {kernel}
        With all rows as landmarks the solution is that of the dual system of the original.
    {random_state}

    Attributes
    ----------
    {classes_}
    coef_, intercept_ : ndarray of shape (n_pairs, d) and (n_pairs,)
        w and b of each plane.
    plane_classes_ : ndarray of shape (n_pairs, 2)
        Index of the class at f = 1 and of that at f = -1.
    {landmark_map_}
    {moments_}
    {rank_}
    {features_in_}

    Notes
    -----
    For two classes this is least-squares classification: `LeastSquaresTwinSVC` with both
    penalties 1 and ``alpha = 1/C``, whose two planes are then parallel.

    {errors}

    References
    ----------
    J. A. K. Suykens, J. Vandewalle: Least squares support vector machine classifiers. Neural
    Processing Letters 9 (1999).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import LeastSquaresSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(LeastSquaresSVC().fit(scale(X), y).score(scale(X), y), 3)
    0.968
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        solver: str = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.solver = solver
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    _constraints: ClassVar = {"C": number(above=0.0)}

    @staticmethod
    def _solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
        factor = class_factors(settings.class_weight, moments.own.weight, classes)
        return least_squares_planes(
            moments.own.scaled(factor),
            settings.C,
            isotropic=settings.uses_kernel,
        )


def least_squares_planes(moments: ClassMoments, C: float, *, isotropic: bool = False) -> Planes:
    r"""Compute the planes of LS-SVM, one for each pair of classes.

    With f = w.x + b, y = 1 for the own class and y = -1 for its rivals, they minimise

        1/2 |w|^2 + C/2 sum s (1 - y f)^2.

    With f = 2 g + 1 this is 4 C times J_k of model M1 for g, without degrees, with a penalty
    of 1 and alpha = 1/C: own rows have the target g = 0 and rivals g = -1. Each pair has one
    plane, that of its second class.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classics._least_squares_svc import least_squares_planes
    >>> planes = least_squares_planes(moments, 1.0)
    >>> (X @ planes.coef[0] + planes.intercept[0]).round(2)  # below 0 on the first class
    array([-0.61, -0.93, -0.85,  0.98,  0.66,  0.74])
    """
    ones = np.ones(len(moments.weight))
    alpha = min(1 / C, sys.float_info.max)
    twin = crisp_planes(moments, moments, ones, alpha, isotropic=isotropic)
    coef = 2 * twin.coef[1::2]
    intercept = 2 * twin.intercept[1::2] + 1
    return Planes(coef, intercept, twin.classes[1::2], twin.rank)
