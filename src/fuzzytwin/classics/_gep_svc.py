"""Generalised eigenvalue proximal SVM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from fuzzytwin._rows import Rows
from fuzzytwin._utils.docstrings import substitute
from fuzzytwin._utils.types import Array
from fuzzytwin.classics._base import MomentPlanes
from fuzzytwin.classics._docstrings import PARAGRAPHS
from fuzzytwin.classics._whitening import own_whitening
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import PlaneProblems, Planes, plane_classes, rescale
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._settings import FitSettings


@substitute(**PARAGRAPHS)
class GEPSVC(NearestPlane, MomentPlanes):
    r"""Generalised eigenvalue proximal support vector machine (GEP-SVM).

    Plane k, f = w.x + b, minimises over its own rows and its rivals, with the weight s of each
    row,

        (sum_own s f^2 + alpha |w|^2) / sum_rivals s f^2,

    a generalised eigenvalue problem. A row is assigned to the class whose plane is nearest.
    There is no class_weight, since with two classes a factor on either one cancels out.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Tikhonov term, delta in the original, which applies it to w and b. Here it applies only to
        w, so that shifting the data changes only the intercepts. Zero is allowed if the own rows
        of every class span the space. "auto" as for `FuzzyTwinSVC`: about the squared length of
        one centred row. A small fixed value fails if columns are nearly collinear, as one-hot
        columns of categories are: a plane through all own rows is then as near to the rivals.
    {solver}
    {n_jobs}

    Attributes
    ----------
    {classes_}
    {planes_}
    {moments_}
    alpha_ : float
        The value that ``alpha="auto"`` resolved to. Only for "auto".
    {features_in_}

    Notes
    -----
    Planes are scaled to |w| = 1, with the mean of the rivals at f <= 0.

    {errors}

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
        *,
        alpha: float | str = "auto",
        solver: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.n_jobs = n_jobs

    @staticmethod
    def _solve(settings: FitSettings, moments: TwinMoments, classes: Array) -> Planes:
        if settings.alpha == 0:
            fitting.check_underflow(moments.own)
        # Chosen on every second one of 23 tables (accuracy .812, with 0.001 .670), confirmed on the
        # others (.742, .625). No multiple of it or of the scatter gained 0.4 points on both halves.
        return eigen_planes(moments.own, fitting.ridge(settings, moments.own), classes)

    def _solve_rows(self, settings: FitSettings, rows: Rows, solver: str) -> tuple[None, Planes]:
        # The ridge refers to the columns, not to the features of the row space.
        weights = fitting.row_weights(settings, rows, None)
        alpha = _row_fit.ridge_of_rows(settings, rows, weights)
        _, planes = super()._solve_rows(replace(settings, alpha=alpha), rows, solver)
        return None, replace(planes, alpha=alpha)


def eigen_planes(moments: ClassMoments, alpha: float, labels: Array) -> Planes:
    r"""Compute the planes of GEP-SVM.

    Plane k minimises

        (sum_own s f^2 + alpha |w|^2) / sum_rivals s f^2,    f = w.x + b,

    scaled to |w| = 1, with the sign that puts the mean of the rivals at f <= 0.

    The denominator is maximised subject to a numerator of 1. By `own_whitening` this is the largest
    eigenvalue of a symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.classics._gep_svc import eigen_planes
    >>> eigen_planes(moments, 0.01, np.array([0, 1])).coef.round(2)
    array([[-0.6,  0.8],
           [ 0.6, -0.8]])
    """
    K, d = moments.origin.shape
    classes = plane_classes(K)
    pairs = PlaneProblems.of(moments, moments, classes)
    coef = np.zeros((len(classes), d))
    intercept = np.zeros(len(classes))
    intercept[pairs.own_weight[:, 0] == 0] = -1.0
    for i in np.flatnonzero((pairs.own_weight > 0) & (pairs.rival_weight > 0)).tolist():
        k = pairs.k[i]
        gap = -pairs.D[i]
        a, _, ridge = rescale(1.0, moments.weight[k], 0.0, alpha)
        T = own_whitening(moments.covariance[k], a, ridge, alpha, labels[k])
        rival_mean = np.append(gap @ T, 1 / np.sqrt(a))  # whitened
        H = np.outer(rival_mean, rival_mean)
        H[:d, :d] += T.T @ pairs.rival[pairs.j[i]] @ T
        u = linalg.eigh(H, subset_by_index=[d, d], check_finite=False)[1][:, 0]
        w = T @ u[:d]
        c = u[d] / np.sqrt(a)
        rival_value = w @ gap + c
        sign = -rival_value if rival_value else w[np.abs(w).argmax()]  # deterministic if it is 0
        size = np.copysign(np.linalg.norm(w) or abs(c), sign)
        coef[i] = w / size
        intercept[i] = (c - w @ pairs.p[i]) / size
    return Planes(coef, intercept, classes, alpha=alpha)
