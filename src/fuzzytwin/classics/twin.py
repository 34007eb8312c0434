"""TwinSVC: the twin machine with a hinge, solved by LIBLINEAR after a change of variables."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from fuzzytwin._utils.public import public_in
from fuzzytwin.classics.hinge import minimise_hinge, whitened_rows
from fuzzytwin.core.classic_planes import own_whitening
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import _fractions
from fuzzytwin.estimators.base import NearestPlane
from fuzzytwin.estimators.labels import encode, present
from fuzzytwin.validation import (
    check_choice,
    check_kernel,
    check_moments,
    check_number,
    check_penalties,
    check_weights,
)

Array = NDArray[Any]


@public_in("fuzzytwin")
class TwinSVC(NearestPlane):
    r"""Twin support vector machine (T-SVM) with sample weights, for two or more classes.

    Plane k, f = w.x + b, minimises over its own samples and its rivals, with the importance
    s of each sample,

        1/2 sum_own s f^2 + C_k sum_rivals s max(0, 1 + f) + alpha/2 |w|^2

    (eq2 and eq3 of the paper for two classes and alpha = 0; with memberships as weights it is
    the fuzzy twin machine). A sample belongs to the class whose plane is nearest.

    Parameters
    ----------
    C : float or array-like of shape (K,), default=1.0
        Penalty of each plane, in the order of ``classes_``. Where classes overlap and C is
        large, w = 0 and b = -1 is the best plane there is: lower C then.
    alpha : float, default=0.001
        The small Tikhonov term that makes the plane unique where own samples do not span the
        space. The literature puts it on w and b; here it is on w alone, so that shifting the
        data shifts nothing else. Zero is allowed where every class spans the space.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` or by ``|f|``.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" goes by total weight.
    max_iter : int, default=10000
        Most passes of LIBLINEAR over the rivals of a class; a ConvergenceWarning tells where
        they did not do.
    tol : float, default=1e-8
        How far the conditions of optimality may be missed, in units of the margin, which is 1.
    random_state : int, RandomState instance or None, default=0
        Order in which LIBLINEAR visits the rivals (of no effect beyond `tol`), and the sample
        of landmarks.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (K, d) and (K,)
        The planes.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, of which ``coef_`` then has a column each; not
        for the linear kernel.
    n_iter_ : ndarray of shape (K,)
        Passes of LIBLINEAR for each plane.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    About the own mean, and with the own-class term as |u|^2 (see `classic_planes`), this is a
    hinge-loss problem for LIBLINEAR whose points all carry one label; a point of the other
    label that is zero costs a constant and makes it legal. It needs one dense copy of the
    rivals of one class at a time, and what LIBLINEAR makes of it; sparse input is refused.

    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

    References
    ----------
    Jayadeva, R. Khemchandani, S. Chandra: Twin support vector machines for pattern
    classification. IEEE TPAMI 29 (2007).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import TwinSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> TwinSVC().fit(scale(X), y).score(scale(X), y) > 0.95
    True
    """

    def __init__(
        self,
        C: Any = 1.0,
        *,
        alpha: float = 1e-3,
        rule: str = "distance",
        class_weight: Any = None,
        max_iter: int = 10_000,
        tol: float = 1e-8,
        random_state: Any = 0,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
    ) -> None:
        self.C = C
        self.alpha = alpha
        self.rule = rule
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn the planes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out.

        Returns
        -------
        self
        """
        return self._start(X, y, sample_weight)

    def _check_params(self) -> None:
        check_choice("rule", self.rule, ("distance", "residual"))
        check_number("alpha", self.alpha)
        check_number("tol", self.tol, above=0.0)
        check_number("max_iter", self.max_iter, above=0.0)
        if not isinstance(self.max_iter, Integral):
            raise ValueError(f"max_iter={self.max_iter!r} is not allowed; give a whole number.")
        self._check_class_weight()
        check_kernel(self)

    def _learn(self, X: Any, y: Any, classes: Any, *given: Any) -> None:
        self._check_params()
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the pass over the rows finds out: check_moments
        )  # fmt: skip
        s = check_weights(given[0], len(y))
        classes, codes = encode(y, classes)
        self.classes_, codes, _ = present(classes, codes, s, None)
        C = check_penalties(self.C, self.classes_)
        seen = self._features(X, codes, s)
        moments = ClassMoments.from_rows(seen, codes, s, n_classes=len(self.classes_))
        check_moments(moments, X)
        factor = self._class_factors(moments)
        weight = factor[codes] if s is None else s * factor[codes]
        self._solve(seen, codes, weight, moments.scaled(factor), C)

    def _solve(self, X: Any, codes: Array, weight: Array, own: ClassMoments, C: Array) -> None:
        K, d = own.origin.shape
        rivals = own.rivals().weight
        random = check_random_state(self.random_state)
        self.coef_, self.intercept_ = np.zeros((K, d)), np.zeros(K)
        self.n_iter_ = np.zeros(K, dtype=int)
        for k, label in enumerate(self.classes_):
            a, c, ridge = _fractions(C[k], own.weight[k], rivals[k], self.alpha)
            if a == 0 or c == 0:  # nobody here, or nobody to keep away from: nothing to separate
                self.intercept_[k] = -1.0 if a == 0 else 0.0
                continue
            T = own_whitening(own.covariance[k], a, ridge, self.alpha, label)
            chosen = (codes != k) & (weight > 0)
            rows = whitened_rows(X, chosen, own.origin[k], own.offset[k], T, 1 / np.sqrt(a))
            price = c * (weight[chosen] / rivals[k])
            u, self.n_iter_[k] = minimise_hinge(rows, price, self.tol, self.max_iter, random)
            w, at_mean = T @ u[:d], u[d] / np.sqrt(a)
            self.coef_[k] = w
            self.intercept_[k] = at_mean - w @ own.offset[k] - w @ own.origin[k]
        slow = self.classes_[self.n_iter_ >= self.max_iter]
        if len(slow):
            warnings.warn(
                f"LIBLINEAR did not converge in max_iter={self.max_iter} passes for the plane of "
                f"class {', '.join(map(str, slow))}; raise max_iter or tol, lower C, or scale the "
                "columns.",
                ConvergenceWarning,
                stacklevel=5,  # the line that called fit
            )
