"""Least-squares twin SVM: `FuzzyTwinSVC` without memberships."""

from __future__ import annotations

from typing import Any

from fuzzytwin._utils.docstrings import substitute
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._base import WeightedClassifier
from fuzzytwin.classics._docstrings import PARAGRAPHS
from fuzzytwin.twin._prediction import NearestPlane


@substitute(**PARAGRAPHS)
class LeastSquaresTwinSVC(NearestPlane, WeightedClassifier):
    r"""Least-squares twin support vector machine (LST-SVM), for two or more classes.

    Plane k, f = w.x + b, minimises over its own rows and its rivals, with the weight s of each
    row,

        1/2 sum_own s f^2 + C_k/2 sum_rivals s (1 + f)^2 + alpha/2 |w|^2

    (eq6 and eq7 of the paper of `FuzzyTwinSVC`, for two classes and alpha = 0). A row is assigned
    to the class whose plane is nearest. This is `FuzzyTwinSVC` without memberships.

    Parameters
    ----------
    C : float or array-like of shape (K,), default=1.0
        Penalty of each plane, in the order of ``classes_``. With two classes and C = 1 the
        planes are parallel: tune C.
    alpha : float or "auto", default=0.0
        L2 regularisation of the coefficients, not of the intercept. If it is 0 and columns are
        linearly dependent, the minimum-norm solution is used. Give a positive value with a kernel:
        with 0, planes interpolate all landmarks, and neither C nor weights have any effect.
        "auto" as for `FuzzyTwinSVC`.
    {rule}
    solver : {"auto", "moments", "gram", "iterative"}, default="auto"
        How planes are computed, as for `FuzzyTwinSVC`.
    {class_weight}
    {n_jobs}
    {kernel}
    {random_state}

    Attributes
    ----------
    {classes_}
    {planes_}
    {landmark_map_}
    {moments_}
    alpha_ : float
        The L2 penalty that ``alpha="auto"`` resolved to. Only for "auto".
    {rank_}
    {features_in_}

    Notes
    -----
    {errors}

    References
    ----------
    M. A. Kumar, M. Gopal: Least squares twin support vector machines for pattern
    classification. Expert Systems with Applications 36 (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fuzzytwin import LeastSquaresTwinSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(LeastSquaresTwinSVC(C=0.1).fit(X, y).score(X, y), 3)
    0.968
    """

    def __init__(
        self,
        *,
        C: Any = 1.0,
        alpha: float | str = 0.0,
        rule: str = "distance",
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
        self.alpha = alpha
        self.rule = rule
        self.solver = solver
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
        """Compute leave-one-out memberships of the fitted rows.

        They are exact, in closed form: see `FuzzyTwinSVC.loo_membership`.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All rows of the fit, in any order.
        groups : array-like of shape (n,), default=None
            Group of each row. The whole group of a row is held out with it.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._held_out(X, y, sample_weight, groups=groups).memberships()
