"""Least-squares support vector machine."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from fuzzytwin import fitting
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.types import Array
from fuzzytwin.classics.separating import SeparatingPlanes
from fuzzytwin.core.classic_planes import least_squares_loo, least_squares_planes
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.estimators.streaming import WeightedMomentClassifier
from fuzzytwin.rows import validate_rows
from fuzzytwin.settings import FitSettings, check_number


@public_in("fuzzytwin")
class LeastSquaresSVC(SeparatingPlanes, WeightedMomentClassifier):
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
    solver : {"auto", "moments", "rows"}, default="auto"
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
        For the sample of landmarks.

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

    def loo_decision_function(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Compute the scores of the fitted rows, each by planes learned without it.

        Exact, in closed form and at the cost of a few fits for all rows together; landmarks,
        gamma and the factors of ``class_weight="balanced"`` stay those of all rows.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All rows of the fit, in any order. Other rows get a ValueError.

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
        check_is_fitted(self)
        settings = self.fit_settings()
        rows = validate_rows(
            self, settings, X, y, sample_weight, classes=self.classes_, first=False
        )
        Z = fitting.features(rows.X, self._same_landmarks(settings))
        factor = fitting.class_factors(settings, self.moments_, self.classes_)
        weight = factor[rows.codes] if rows.s is None else rows.s * factor[rows.codes]
        f = least_squares_loo(
            self.moments_.scaled(factor), settings.C, Z, rows.codes, weight, self.classes_,
            one_unit=settings.curved, multi_class=settings.multi_class,
        )  # fmt: skip
        return self._scores(f)

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters; C is one number for all classes."""
        check_number("C", self.C, above=0.0)
        return super().fit_settings()

    def _solve(self, settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        factor = fitting.class_factors(settings, moments, classes)
        return least_squares_planes(
            moments.scaled(factor), settings.C,
            one_unit=settings.curved, multi_class=settings.multi_class,
        )  # fmt: skip
