"""Estimators with a plane between classes: proximal and least-squares support vector machines."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin._params import check_number, class_factors
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._nearest_plane import WeightedMomentClassifier
from fuzzytwin.classics.planes import (
    least_squares_planes,
    pair_votes,
    proximal_planes,
    separating,
    twin_planes,
)
from fuzzytwin.core.distances import labels_of
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.twin._settings import FitSettings


class SeparatingPlanes(WeightedMomentClassifier):
    """Base of classifiers whose planes have the own class at f > 0 and its rivals at f < 0."""

    C: float

    def decision_function(self, X: Any) -> Array:
        """Compute w.x + b, or scores of the classes where there is a plane per pair of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes positive for ``classes_[1]``; for more, one column per class.
        """
        f, _ = self.plane_values(X)
        return self._scores(f)

    def _scores(self, f: Array) -> Array:
        """Turn the values of all planes into scores of the classes."""
        if len(self.classes_) == 2:
            return f[:, 0]
        if (self.plane_classes_[:, 1] < 0).all():
            return f
        return pair_votes(f, self.plane_classes_, len(self.classes_))

    def predict(self, X: Any) -> Array:
        """Predict the label of each row: the class of greatest value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.decision_function(X)
        codes = labels_of(np.column_stack([-f, f]) if f.ndim == 1 else f)
        labels: Array = self.classes_[codes]
        return labels

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters; C is one number for all classes."""
        check_number("C", self.C, above=0.0)
        return super().fit_settings()


class ProximalSVC(SeparatingPlanes):
    r"""Proximal support vector machine (P-SVM), for two classes or each against all others.

    With y = 1 for a class, y = -1 for the others, and the importance s of each sample,

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2

    (Fung and Mangasarian: nu = C, gamma = -b). The penalty on b is theirs: unlike the twin
    SVMs, this model changes when all data are shifted.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, nu in the original.
    solver : {"auto", "moments", "gram"}, default="auto"
        How planes are found, as for `FuzzyTwinSVC`; both give the same ones.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" gives all classes the same total
        weight.
    n_jobs : int, default=None
        Threads, as for `FuzzyTwinSVC`.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks, which goes by what rows hold and not by their order. None is
        the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (1, d) and (1,), or (K, d) and (K,) for K > 2
        w and b.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, of which ``coef_`` then has a column each; not
        for the linear kernel.
    moments_ : ClassMoments
        All that the model keeps of the training rows; only of the solver "moments".
    solver_ : str
        The solver that was used.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

    References
    ----------
    G. Fung, O. L. Mangasarian: Proximal support vector machine classifiers. KDD 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import ProximalSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ProximalSVC().fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    _centred = False

    def __init__(
        self,
        C: float = 1.0,
        *,
        solver: str = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
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

    @staticmethod
    def _solve(settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        factor = class_factors(settings.class_weight, moments.weight, classes)
        return proximal_planes(moments.scaled(factor), settings.C)


class LeastSquaresSVC(SeparatingPlanes):
    r"""Least-squares support vector machine (LS-SVM), for two or more classes.

    With f = w.x + b, y = 1 for one class, y = -1 for the other, and the importance s of each
    sample,

        1/2 |w|^2 + C/2 sum s (1 - y f)^2

    (Suykens and Vandewalle: gamma = C). It has one plane where a twin SVM has two, and no
    penalty on b, so that shifting the data shifts nothing else.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, gamma in the original.
    multi_class : {"ovo", "ovr"}, default="ovo"
        For more than two classes, one plane for each pair of classes, which then vote as those
        of `sklearn.svm.SVC` do, or one plane per class against all others. Both come from one
        pass over the rows.
    solver : {"auto", "moments", "gram"}, default="auto"
        How planes are found, as for `FuzzyTwinSVC`; both give the same ones.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" gives all classes the same total
        weight.
    n_jobs : int, default=None
        Threads, as for `FuzzyTwinSVC`.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes. With all
        rows as landmarks the answer is that of the dual system of the original.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks, which goes by what rows hold and not by their order. None is
        the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        w and b; one plane for two classes.
    plane_classes_ : ndarray of shape (n_planes, 2)
        Index of the class at f = 1 and of that at f = -1; -1 stands for all others.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, of which ``coef_`` then has a column each; not
        for the linear kernel.
    moments_ : ClassMoments
        All that the model keeps of the training rows; only of the solver "moments".
    solver_ : str
        The solver that was used.
    rank_ : int
        Least numerical rank of the systems for w.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Two classes: this is least-squares classification, that is `LeastSquaresTwinSVC` with both
    penalties 1 and ``alpha = 1/C``, whose two planes are then parallel.

    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

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
    >>> LeastSquaresSVC().fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        multi_class: str = "ovo",
        solver: str = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.multi_class = multi_class
        self.solver = solver
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def loo_decision_function(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Array:
        """Compute the scores of the fitted rows, each by planes learned without it.

        Exact, in closed form and at the cost of a few fits for all rows together; landmarks,
        gamma and the factors of ``class_weight="balanced"`` stay those of all rows.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All rows of the fit, in any order. Other rows get a ValueError.
        groups : array-like of shape (n,), default=None
            Rows that belong together, by a label of their group: the whole group is left out.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            As `decision_function`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.preprocessing import scale
        >>> from fuzzytwin import LeastSquaresSVC
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> score = LeastSquaresSVC().fit(scale(X), y).loo_decision_function(scale(X), y)
        >>> float(((score > 0) == y).mean().round(3))
        0.956
        """
        held_out = self._held_out(X, y, sample_weight, groups=groups)
        keep = separating(held_out.planes.classes)
        f = np.empty((len(held_out.rows), len(self.coef_)))
        for index, values, _ in held_out.distances():
            f[index] = 2 * values[keep].T + 1
        return self._scores(f)

    def _twin(self, settings: FitSettings) -> tuple[FitSettings, Planes]:
        """Return the twin SVM that this model is: penalties of 1 and alpha = 1 / C."""
        planes = twin_planes(self._planes(), len(self.classes_), settings.multi_class)
        alpha = min(1 / settings.C, sys.float_info.max)
        return replace(settings, C=1.0, alpha=alpha, rule="residual"), planes

    @staticmethod
    def _solve(settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        factor = class_factors(settings.class_weight, moments.weight, classes)
        return least_squares_planes(
            moments.scaled(factor), settings.C,
            isotropic=settings.uses_kernel, multi_class=settings.multi_class,
        )  # fmt: skip
