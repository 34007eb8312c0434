"""Least-squares twin support vector machine."""

from __future__ import annotations

from typing import Any

from fuzzytwin._utils.types import Array, public_in
from fuzzytwin.classics.base import WeightedMomentClassifier
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.estimators.prediction import NearestPlane
from fuzzytwin.fit import fitting
from fuzzytwin.fit.settings import FitSettings


@public_in("fuzzytwin")
class LeastSquaresTwinSVC(NearestPlane, WeightedMomentClassifier):
    r"""Least-squares twin support vector machine (LST-SVM), for two or more classes.

    Plane k, f = w.x + b, minimises over its own samples and its rivals, with the importance
    s of each sample,

        1/2 sum_own s f^2 + C_k/2 sum_rivals s (1 + f)^2 + alpha/2 |w|^2

    (eq6 and eq7 of the paper for two classes and alpha = 0). A sample belongs to the class
    whose plane is nearest. It is `FuzzyTwinSVC` without memberships.

    Parameters
    ----------
    C : float or array-like of shape (K,), default=1.0
        Penalty of each plane, in the order of ``classes_``. With two classes and C = 1 the
        planes are parallel: tune C.
    alpha : float or "auto", default=0.0
        Ridge on w, never on b. Where it is 0 and columns depend on each other, the solution
        of least norm is taken. With a kernel give a ridge: without, planes go through all
        landmarks, and neither C nor weights have any effect. "auto" as for `FuzzyTwinSVC`.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` or by ``|f|``.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Two planes for each pair of classes, or one per class against all others.
    solver, tol
        How planes are found, as for `FuzzyTwinSVC`: "auto", "moments", "gram" or "iterative".
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
    coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The planes.
    plane_classes_ : ndarray of shape (n_planes, 2)
        Index of the own and of the rival class of each plane; -1 stands for all others.
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
    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

    References
    ----------
    M. A. Kumar, M. Gopal: Least squares twin support vector machines for pattern
    classification. Expert Systems with Applications 36 (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin import LeastSquaresTwinSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> LeastSquaresTwinSVC(C=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        C: Any = 1.0,
        *,
        alpha: float | str = 0.0,
        rule: str = "distance",
        multi_class: str = "ovo",
        solver: str = "auto",
        tol: float = 1e-6,
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
        self.alpha = alpha
        self.rule = rule
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def loo_membership(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Array:
        """Compute the memberships of the fitted rows, each by planes learned without it.

        Exact, in closed form: see `FuzzyTwinSVC.loo_membership`.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All rows of the fit, in any order.
        groups : array-like of shape (n,), default=None
            Rows that belong together, by a label of their group: the whole group is left out.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._held_out(X, y, sample_weight, groups=groups).memberships()

    _solvers = SOLVERS
    _solve_rows = staticmethod(fitting.fit_rows)

    @staticmethod
    def _solve(settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        return fitting.solve(settings, TwinMoments(moments, moments), classes)
