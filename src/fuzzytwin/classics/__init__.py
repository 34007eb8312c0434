"""The machines that the fuzzy one is measured against, for those who only want one of these.

Three of them are functions of the class moments, so they stream and merge exactly. `TwinSVC`
needs the rows themselves: LIBLINEAR solves it, after a change of variables.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fuzzytwin._utils.public import public_in
from fuzzytwin.classics.twin import TwinSVC
from fuzzytwin.core.classic_planes import eigen_planes, proximal_planes
from fuzzytwin.core.planes import crisp_planes
from fuzzytwin.estimators.base import NearestPlane, WeightedStreamer
from fuzzytwin.validation import (
    check_choice,
    check_kernel,
    check_number,
    check_penalties,
    check_size,
)

Array = NDArray[Any]

__all__ = ["GEPSVC", "LeastSquaresTwinSVC", "ProximalSVC", "TwinSVC"]


@public_in("fuzzytwin")
class LeastSquaresTwinSVC(NearestPlane, WeightedStreamer):
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
    alpha : float, default=0.0
        Ridge on w, never on b. Where it is 0 and columns depend on each other, the solution
        of least norm is taken. With a kernel give a ridge: without, planes go through all
        landmarks, and neither C nor weights have a say.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` or by ``|f|``.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" goes by total weight.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (K, d) and (K,)
        The planes.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, of which ``coef_`` then has a column each; not
        for the linear kernel.
    moments_ : ClassMoments
        All that is kept of the rows.
    rank_ : int
        Least numerical rank of the K systems for w.
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
        alpha: float = 0.0,
        rule: str = "distance",
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def _check_params(self) -> None:
        check_choice("rule", self.rule, ("distance", "residual"))
        check_number("alpha", self.alpha)
        self._check_class_weight()
        check_kernel(self)

    def _solve(self) -> None:
        C = check_penalties(self.C, self.classes_)
        if self.alpha == 0:
            check_size(self.moments_)
        own = self.moments_.scaled(self._class_factors(self.moments_))
        found = crisp_planes(own, own, C, self.alpha, one_unit=self.kernel != "linear")
        self.coef_, self.intercept_, self.rank_ = found.coef, found.intercept, found.rank


@public_in("fuzzytwin")
class ProximalSVC(WeightedStreamer):
    r"""Proximal support vector machine (P-SVM), for two classes or each against all others.

    With y = 1 for a class, y = -1 for the others, and the importance s of each sample,

        1/2 (|w|^2 + b^2) + C/2 sum s (1 - y (w.x + b))^2

    (Fung and Mangasarian: nu = C, gamma = -b). The penalty on b is theirs: unlike the twin
    machines, this one changes when all data are shifted.

    Parameters
    ----------
    C : float, default=1.0
        Penalty, nu in the original.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" goes by total weight.
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
        All that is kept of the rows.
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
        class_weight: Any = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def decision_function(self, X: Any) -> Array:
        """Value of w.x + b.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes positive for ``classes_[1]``; for more, one column per class.
        """
        f = self._plane_values(X)[1]
        return f[:, 0] if len(self.classes_) == 2 else f

    def predict(self, X: Any) -> Array:
        """Labels: for each row of X the class of greatest value."""
        f = self.decision_function(X)
        codes = (f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels

    def _check_params(self) -> None:
        check_number("C", self.C, above=0.0)
        self._check_class_weight()
        check_kernel(self)

    def _solve(self) -> None:
        weighted = self.moments_.scaled(self._class_factors(self.moments_))
        self.coef_, self.intercept_ = proximal_planes(weighted, self.C)


@public_in("fuzzytwin")
class GEPSVC(NearestPlane, WeightedStreamer):
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
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (K, d) and (K,)
        The planes, with |w| = 1 and the mean of the rivals at f <= 0.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, of which ``coef_`` then has a column each; not
        for the linear kernel.
    moments_ : ClassMoments
        All that is kept of the rows.
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
    Two lines that cross, which no single plane tells apart:

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
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def _check_params(self) -> None:
        check_number("alpha", self.alpha)
        check_kernel(self)

    def _solve(self) -> None:
        if self.alpha == 0:
            check_size(self.moments_)
        found = eigen_planes(self.moments_, self.alpha, self.classes_)
        self.coef_, self.intercept_ = found.coef, found.intercept
