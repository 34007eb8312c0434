"""TwinSVC: twin SVM with hinge loss, solved by LIBLINEAR after a change of variables."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from fuzzytwin._params import class_factors, number
from fuzzytwin._rows import Rows, validate_rows
from fuzzytwin._utils.docstrings import substitute
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._docstrings import PARAGRAPHS
from fuzzytwin.classics._whitening import own_whitening
from fuzzytwin.core.blocks import row_blocks
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, plane_classes, rescale
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._settings import FitSettings


@substitute(**PARAGRAPHS)
class TwinSVC(NearestPlane):
    r"""Twin support vector machine (T-SVM) with sample weights, for two or more classes.

    Plane k, f = w.x + b, minimises over its own rows and its rivals, with the weight s of each
    row,

        1/2 sum_own s f^2 + C_k sum_rivals s max(0, 1 + f) + alpha/2 |w|^2

    (eq2 and eq3 of the paper for two classes and alpha = 0). With memberships as weights it is the
    fuzzy twin SVM. A row is assigned to the class whose plane is nearest.

    Parameters
    ----------
    C : float or array-like of shape (K,), default=1.0
        Penalty of each plane, in the order of ``classes_``. If classes overlap and C is
        large, the optimum is the degenerate plane w = 0, b = -1. Then lower C.
    alpha : float, default=0.001
        Small Tikhonov term that makes the plane unique if own rows do not span the space. The
        literature applies it to w and b. Here it applies only to w, so that shifting the data
        changes only the intercepts. Zero is allowed if every class spans the space.
    {rule}
    {class_weight}
    max_iter : int, default=10000
        Maximum number of passes of LIBLINEAR over the rivals of a class. A
        ConvergenceWarning is raised if they are not enough.
    tol : float, default=1e-8
        Tolerance of the optimality conditions, in units of the margin, which is 1.
    {kernel}
    random_state : int, RandomState instance or None, default=0
        Seed of the order in which LIBLINEAR visits the rivals (without effect beyond `tol`),
        and of the sample of landmarks. None is random.

    Attributes
    ----------
    {classes_}
    {planes_}
    {landmark_map_}
    n_iter_ : ndarray of shape (n_planes,)
        Number of passes of LIBLINEAR for each plane.
    {features_in_}

    Notes
    -----
    About the own mean, and with the own-class term as |u|^2 (see `classics._whitening`), this is a
    hinge-loss problem for LIBLINEAR whose points all have one label. LIBLINEAR requires both
    labels, so a zero point of the other label is added, which costs a constant. The fit needs one
    dense copy of the rivals of one class at a time, and LIBLINEAR's own. Sparse input raises an
    error.

    {errors}

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
    >>> round(TwinSVC().fit(scale(X), y).score(scale(X), y), 3)
    0.963
    """

    def __init__(
        self,
        *,
        C: Any = 1.0,
        alpha: float = 1e-3,
        rule: str = "distance",
        class_weight: Any = None,
        max_iter: int = 10_000,
        tol: float = 1e-8,
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
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    _constraints: ClassVar = {
        "alpha": number(),
        "max_iter": number(above=0.0, whole=True),
        "tol": number(above=0.0),
    }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the planes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any type, with at least two classes.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, at least 0. A weight of zero is the same as omitting the row.

        Returns
        -------
        self
        """
        settings = FitSettings.of(self)
        rows = validate_rows(self, X, y, sample_weight)
        with settings.thread_pool(rows.X):
            phi = fitting.landmark_map(settings, rows)
            Z = fitting.features(rows.X, phi)
            own = own_moments(rows, Z)
            planes, n_iter = self._solve(settings, rows, Z, own)
        return self._store(
            planes,
            feature_names_in_=rows.names,
            classes_=rows.classes,
            n_features_in_=rows.X.shape[1],
            landmark_map_=phi,
            n_iter_=n_iter,
        )

    def _solve(
        self, settings: FitSettings, rows: Rows, Z: Any, own: ClassMoments
    ) -> tuple[Planes, Array]:
        """Solve for the planes, and return the number of passes for each too."""
        C = settings.penalties(rows.classes)
        factor = class_factors(settings.class_weight, own.weight, rows.classes)
        own = own.scaled(factor)
        weight = factor[rows.codes]
        if rows.weight is not None:
            weight = rows.weight * weight
        K, d = own.origin.shape
        classes = plane_classes(K)
        # One seed for all planes, as the order of classes depends on their names.
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        n = len(classes)
        coef = np.zeros((n, d))
        intercept = np.zeros(n)
        n_iter = np.zeros(n, dtype=int)
        for i, (k, j) in enumerate(classes.tolist()):
            a, c, ridge = rescale(C[k], own.weight[k], own.weight[j], settings.alpha)
            if a == 0 or c == 0:  # no own rows, or no rivals: nothing to separate
                intercept[i] = -1.0 if a == 0 else 0.0
                continue
            T = own_whitening(own.covariance[k], a, ridge, settings.alpha, rows.classes[k])
            chosen = (rows.codes == j) & (weight > 0)
            white = _whitened_rows(Z, chosen, own.origin[k], own.offset[k], T, 1 / np.sqrt(a))
            price = c * (weight[chosen] / own.weight[j])
            u, n_iter[i] = _minimise_hinge(white, price, self.tol, self.max_iter, seed)
            coef[i] = T @ u[:d]
            at_mean = u[d] / np.sqrt(a)
            intercept[i] = at_mean - coef[i] @ own.offset[k] - coef[i] @ own.origin[k]
        slow = rows.classes[np.unique(classes[n_iter >= self.max_iter, 0])]
        if len(slow):
            warn_user(
                f"LIBLINEAR did not converge in max_iter={self.max_iter} passes for the plane of "
                f"class {', '.join(map(str, slow))}; raise max_iter or tol, lower C, or scale the "
                "columns.",
                ConvergenceWarning,
            )
        return Planes(coef, intercept, classes), n_iter


def _whitened_rows(
    X: Array, chosen: Array, origin: Array, offset: Array, T: Array, constant: float
) -> Array:
    """Return chosen rows as ``[(x - origin - offset) T, constant]``, followed by a row of zeros."""
    d = X.shape[1]
    rows = np.full((int(chosen.sum()) + 1, d + 1), constant)
    n_filled = 0
    for span, block in row_blocks(X):
        part = block[chosen[span]]
        part -= origin
        part -= offset
        rows[n_filled : n_filled + len(part), :d] = part @ T
        n_filled += len(part)
    rows[n_filled] = 0.0
    return rows


def _minimise_hinge(
    rows: Array, price: Array, tol: float, max_iter: int, seed: int
) -> tuple[Array, int]:
    """Minimise 1/2 |u|^2 + sum price max(0, 1 + r.u) over all rows r except the last, a zero.

    Also return the number of passes. If prices are high, the remaining slack costs more than
    |u|^2, so the length of u is optimised exactly.
    """
    labels = np.zeros(len(rows), dtype=np.int8)
    labels[-1] = 1
    solver = LinearSVC(
        loss="hinge",
        dual=True,
        fit_intercept=False,
        tol=tol,
        max_iter=max_iter,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller warns
        solver.fit(rows, labels, np.append(price, price.max()))
    u = solver.coef_[0]
    return _best_length(rows[:-1] @ u, price, u @ u) * u, int(solver.n_iter_)


def _best_length(f: Array, price: Array, square: float) -> float:
    """Minimise t^2/2 square + sum price max(0, 1 + t f) over t >= 0.

    The derivative is linear between the points t = -1/f at which terms become zero.
    """
    if square == 0:
        return 1.0
    ending = f < 0
    ends = -1 / f[ending]
    order = np.argsort(ends, kind="stable")
    pull = -(price * f)
    # active_pull[j]: pull of the terms that are positive before the j-th end
    active_pull = np.append(np.cumsum(pull[ending][order][::-1])[::-1], 0.0) + pull[~ending].sum()
    best = active_pull / square
    upper = np.append(ends[order], np.inf)
    j = int(np.argmax(best <= upper))
    return float(max(best[j], upper[j - 1] if j else 0.0))
