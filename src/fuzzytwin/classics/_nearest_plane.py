"""The base of classic estimators from moments, and those that label by the nearest plane."""

from __future__ import annotations

from typing import Any, Self

from fuzzytwin._params import check_number
from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.classics.planes import eigen_planes
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.solvers import BY_MOMENTS, SOLVERS
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._streaming import MomentClassifier, available_if_streamable


class WeightedMomentClassifier(MomentClassifier):
    """Base of classifiers from moments that take rows, labels and weights, and no degrees."""

    _solvers: tuple[str, ...] = BY_MOMENTS
    _moments = staticmethod(fitting.weighted_moments)
    # Whether shifting all rows changes nothing but the intercepts.
    _centred = True

    def _solve_rows(
        self, settings: FitSettings, rows: Rows, solver: str
    ) -> tuple[Array | None, Planes]:
        """Fit in the space of the rows what `_solve` does with moments."""
        in_rows = fitting.row_features(rows, centred=self._centred)
        found = self._solve(settings, own_moments(rows, in_rows.Z), rows.classes)
        coef, intercept = in_rows.columns(rows.X, found.coef, found.intercept)
        return None, Planes(coef, intercept, found.classes, found.rank)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the planes from all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @available_if_streamable
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows. Exact: the result is that of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are those of the first batch: see
        `FuzzyTwinSVC.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; labels may be missing from a batch.
        classes : array-like of shape (K,), default=None
            All labels; needed in the first call only.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)

    @available_if_streamable
    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows. The result is that of one `fit` on the rows that remain.

        Refused, with the model left as it was, where too many digits would cancel or the rows
        cannot have been learned: see `FuzzyTwinSVC.forget`.

        Parameters
        ----------
        X, y, sample_weight
            The rows, just as they were given to `fit` or `partial_fit`.

        Returns
        -------
        self
        """
        return self._forget(X, y, sample_weight)


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
        L2 regularisation of the coefficients, not of the intercept. Where it is 0 and columns
        depend on each other, the solution of least norm is taken. With a kernel give a ridge:
        without, planes go through all landmarks, and neither C nor weights have any effect.
        "auto" as for `FuzzyTwinSVC`.
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
        For the sample of landmarks, which goes by what rows hold and not by their order. None is
        the same as 0.

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

    _solvers = tuple(SOLVERS)
    _solve_rows = staticmethod(fitting.fit_rows)

    @staticmethod
    def _solve(settings: FitSettings, moments: ClassMoments, classes: Array) -> Planes:
        return fitting.solve(settings, TwinMoments(moments, moments), classes)


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
        For the sample of landmarks, which goes by what rows hold and not by their order. None is
        the same as 0.

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
            fitting.check_size(moments)
        return eigen_planes(moments, settings.alpha, classes, multi_class=settings.multi_class)
