"""Proximal support vector machine."""

from __future__ import annotations

from typing import Any

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.types import Array
from fuzzytwin.classics.separating import SeparatingPlanes
from fuzzytwin.core.classic_planes import proximal_planes
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.estimators.streaming import WeightedMomentClassifier
from fuzzytwin.rows import Rows
from fuzzytwin.settings import FitSettings, check_number


@public_in("fuzzytwin")
class ProximalSVC(SeparatingPlanes, WeightedMomentClassifier):
    r"""Proximal support vector machine (P-SVM), for two classes or each against all others.

    With y = 1 for a class, y = -1 for the others, and the importance s of each sample,

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2

    (Fung and Mangasarian: nu = C, gamma = -b). The penalty on b is theirs: unlike the twin
    SVMs, this model changes when all data are shifted.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, nu in the original.
    solver : {"auto", "moments", "rows"}, default="auto"
        How planes are found, as for `FuzzyTwinSVC`; both give the same ones.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" gives all classes the same total
        weight.
    n_jobs : int, default=None
        Threads, as for `FuzzyTwinSVC`.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks.

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

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters; C is one number for all classes."""
        check_number("C", self.C, above=0.0)
        return super().fit_settings()

    def _solve_rows(self, settings: FitSettings, rows: Rows, solver: str) -> Planes:
        return row_fitting.fit_features(
            settings, rows, lambda moments: self._solve(settings, moments, rows.classes),
            centred=False,
        )  # fmt: skip

    def _solve(self, settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        factor = fitting.class_factors(settings, moments, classes)
        return proximal_planes(moments.scaled(factor), settings.C)
