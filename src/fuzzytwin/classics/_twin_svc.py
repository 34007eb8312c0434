"""TwinSVC: the twin SVM with a hinge, solved by LIBLINEAR after a change of variables."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from fuzzytwin._params import check_number, class_factors, is_whole, not_allowed
from fuzzytwin._rows import Rows, validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.classics.planes import own_whitening
from fuzzytwin.core.blocks import row_blocks
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, fractions, plane_classes
from fuzzytwin.kernels import seeded
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._settings import FitSettings


class TwinSVC(NearestPlane):
    r"""Twin support vector machine (T-SVM) with sample weights, for two or more classes.

    Plane k, f = w.x + b, minimises over its own samples and its rivals, with the importance
    s of each sample,

        1/2 sum_own s f^2 + C_k sum_rivals s max(0, 1 + f) + alpha/2 |w|^2

    (eq2 and eq3 of the paper for two classes and alpha = 0; with memberships as weights it is
    the fuzzy twin SVM). A sample belongs to the class whose plane is nearest.

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
    multi_class : {"ovo", "ovr"}, default="ovo"
        Two planes for each pair of classes, or one per class against all others.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" gives all classes the same total
        weight.
    max_iter : int, default=10000
        Most passes of LIBLINEAR over the rivals of a class; a ConvergenceWarning
        reports when they were not enough.
    tol : float, default=1e-8
        How far the conditions of optimality may be missed, in units of the margin, which is 1.
    random_state : int, RandomState instance or None, default=0
        Order in which LIBLINEAR visits the rivals (of no effect beyond `tol`), and the sample
        of landmarks. None is the same as 0.
    kernel, gamma, degree, coef0, n_landmarks
        As for `FuzzyTwinSVC`: other kernels than the linear one curve the planes.

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
    n_iter_ : ndarray of shape (n_planes,)
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
        multi_class: str = "ovo",
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
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        settings = self.fit_settings()
        rows = validate_rows(self, X, y, sample_weight)
        with settings.thread_pool(rows.X):
            phi = fitting.landmark_map(settings, rows)
            Z = fitting.features(rows.X, phi)
            own = own_moments(rows, Z)
            planes, n_iter = self._solve(settings, rows, Z, own)
        return self._store(
            planes, feature_names_in_=rows.names, classes_=rows.classes,
            n_features_in_=rows.X.shape[1], landmark_map_=phi, n_iter_=n_iter,
        )  # fmt: skip

    def fit_settings(self) -> FitSettings:
        """Check and freeze the parameters."""
        check_number("max_iter", self.max_iter, above=0.0)
        if not is_whole(self.max_iter):
            raise not_allowed("max_iter", self.max_iter, "give a whole number")
        check_number("alpha", self.alpha)
        return FitSettings.of(self)

    def _solve(
        self, settings: FitSettings, rows: Rows, Z: Any, own: ClassMoments
    ) -> tuple[Planes, Array]:
        """Solve for the planes; also the number of passes for each."""
        C = settings.penalties(rows.classes)
        factor = class_factors(settings.class_weight, own.weight, rows.classes)
        own, weight = own.scaled(factor), factor[rows.codes]
        weight = weight if rows.weight is None else rows.weight * weight
        K, d = own.origin.shape
        classes = plane_classes(K, settings.multi_class)
        rivals = own.rivals().weight
        random = seeded(self.random_state)
        n = len(classes)
        coef, intercept, n_iter = np.zeros((n, d)), np.zeros(n), np.zeros(n, dtype=int)
        for i, (k, j) in enumerate(classes.tolist()):
            rival_weight = rivals[k] if j < 0 else own.weight[j]
            a, c, ridge = fractions(C[k], own.weight[k], rival_weight, settings.alpha)
            if a == 0 or c == 0:  # no own rows, or no rivals: nothing to separate
                intercept[i] = -1.0 if a == 0 else 0.0
                continue
            T = own_whitening(own.covariance[k], a, ridge, settings.alpha, rows.classes[k])
            chosen = (rows.codes != k if j < 0 else rows.codes == j) & (weight > 0)
            white = _whitened_rows(Z, chosen, own.origin[k], own.offset[k], T, 1 / np.sqrt(a))
            price = c * (weight[chosen] / rival_weight)
            u, n_iter[i] = _minimise_hinge(white, price, self.tol, self.max_iter, random)
            coef[i], at_mean = T @ u[:d], u[d] / np.sqrt(a)
            intercept[i] = at_mean - coef[i] @ own.offset[k] - coef[i] @ own.origin[k]
        slow = rows.classes[np.unique(classes[n_iter >= self.max_iter, 0])]
        if len(slow):
            warnings.warn(
                f"LIBLINEAR did not converge in max_iter={self.max_iter} passes for the plane of "
                f"class {', '.join(map(str, slow))}; raise max_iter or tol, lower C, or scale the "
                "columns.",
                ConvergenceWarning,
                stacklevel=3,  # the line that called fit
            )
        return Planes(coef, intercept, classes), n_iter


def _whitened_rows(
    X: Array, chosen: Array, origin: Array, offset: Array, T: Array, constant: float
) -> Array:
    """Chosen rows as ``[(x - origin - offset) T, constant]``, and a row of zeros behind them."""
    d = X.shape[1]
    rows = np.full((int(chosen.sum()) + 1, d + 1), constant)
    done = 0
    for here, block in row_blocks(X):
        part = block[chosen[here]]
        part -= origin
        part -= offset
        rows[done : done + len(part), :d] = part @ T
        done += len(part)
    rows[done] = 0.0
    return rows


def _minimise_hinge(
    rows: Array, price: Array, tol: float, max_iter: int, random: Any
) -> tuple[Array, int]:
    """Minimise 1/2 |u|^2 + sum price max(0, 1 + r.u) over the rows r but the last, a zero.

    Also the number of passes. Where prices are high, what is left of the slack costs more
    than |u|^2 does, so the length of u is found exactly.
    """
    labels = np.zeros(len(rows), dtype=np.int8)
    labels[-1] = 1
    solver = LinearSVC(
        loss="hinge", dual=True, fit_intercept=False, tol=tol, max_iter=max_iter,
        random_state=random,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller gives its own
        solver.fit(rows, labels, np.append(price, price.max()))
    u = solver.coef_[0]
    return _best_length(rows[:-1] @ u, price, u @ u) * u, int(solver.n_iter_)


def _best_length(f: Array, price: Array, square: float) -> float:
    """Minimise t^2/2 square + sum price max(0, 1 + t f) over t >= 0.

    Half the slope of it is known between any two of the points t = -1/f where a term ends.
    """
    if square == 0:
        return 1.0
    ending = f < 0
    ends = -1 / f[ending]
    order = np.argsort(ends, kind="stable")
    pull = -(price * f)
    # behind[j]: pull of the terms that have not ended before the j-th end
    behind = np.append(np.cumsum(pull[ending][order][::-1])[::-1], 0.0) + pull[~ending].sum()
    best = behind / square
    upto = np.append(ends[order], np.inf)
    j = int(np.argmax(best <= upto))
    return float(max(best[j], upto[j - 1] if j else 0.0))
