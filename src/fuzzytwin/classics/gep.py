"""Generalised eigenvalue proximal support vector machine."""

from __future__ import annotations

from typing import Any

from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.classics.base import WeightedMomentClassifier
from fuzzytwin.core.classic_planes import eigen_planes
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.estimators.prediction import NearestPlane
from fuzzytwin.fit.fitting import check_size
from fuzzytwin.fit.settings import FitSettings, check_number


@public_in("fuzzytwin")
class GEPSVC(NearestPlane, WeightedMomentClassifier):
    r"""Generalised eigenvalue proximal support vector machine (GEP-SVM).

    Plane k, f = w.x + b, minimises over its own samples and its rivals, with the importance
    s of each sample,

        (sum_own s f^2 + alpha |w|^2) / sum_rivals s f^2,

    a generalised eigenvalue problem. A sample belongs to the class whose plane is nearest.
    There is no class_weight: with two classes a factor on either one cancels out.

    Parameters
    ----------
    alpha : float, default=0.001
        Tikhonov term, delta in the original, which puts it on w and b; here it is on w alone,
        so that shifting the data shifts nothing else. Zero is allowed where the own samples
        of every class span the space.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Two planes for each pair of classes, or one per class against all others.
    solver : {"auto", "moments", "gram"}, default="auto"
        How planes are found, as for `FuzzyTwinSVC`; both give the same ones.
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
    coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The planes, with |w| = 1 and the mean of the rivals at f <= 0.
    plane_classes_ : ndarray of shape (n_planes, 2)
        Index of the own and of the rival class of each plane; -1 stands for all others.
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
    O. L. Mangasarian, E. W. Wild: Multisurface proximal support vector machine
    classification via generalized eigenvalues. IEEE TPAMI 28 (2006).

    Examples
    --------
    Two lines that cross, which no single plane separates:

    >>> import numpy as np
    >>> from fuzzytwin import GEPSVC
    >>> t = np.linspace(-1, 1, 50)
    >>> X = np.vstack([np.column_stack([t, t]), np.column_stack([t, -t])])
    >>> GEPSVC().fit(X, np.repeat([0, 1], 50)).score(X, np.repeat([0, 1], 50))
    1.0
    """

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        multi_class: str = "ovo",
        solver: str = "auto",
        n_jobs: int | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.multi_class = multi_class
        self.solver = solver
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit_settings(self) -> FitSettings:
        """Check the parameters; alpha must be a number."""
        check_number("alpha", self.alpha)
        return super().fit_settings()

    @staticmethod
    def _solve(settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        if settings.alpha == 0:
            check_size(moments)
        return eigen_planes(moments, settings.alpha, classes, multi_class=settings.multi_class)
