r"""Solve for the planes of least-squares twin SVMs from the moments of the classes.

Symbols

    s, mu       sample weight and membership degree of a row
    w, b        coefficients (d,) and intercept of a plane
    C, alpha    penalty of the slack, ridge on w
    a, c        sum_own s, C sum_rivals s mu
    p, q, D     own mean, rival mean, p - q
    V           weighted covariances, with the weights s of own rows and s mu of rivals

Plane k minimises, over the rows of its own class and of its rivals (model M1; without mu: Kumar
and Gopal, Least squares twin support vector machines for pattern classification, 2009),

    1/2 sum_own s (w.x + b)^2 + C/2 sum_rivals s mu (1 + w.x + b)^2 + alpha/2 |w|^2.

The optimal b is -(a w.p + c (1 + w.q)) / (a + c). What remains is to minimise over w

    1/2 w' M w + h/2 (w.D - 1)^2,
    M = a V_own + c V_rivals + alpha I,   h = a c / (a + c),

so w = h u / (1 + h D.u) with M u = D. That is one symmetric system of size d about the class
means, which a shift of the data does not affect.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import optimize
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import block_slices
from fuzzytwin.core.linalg import decompose, rank_tol, solve_symmetric
from fuzzytwin.core.moments import ClassMoments

# Systems of a grid are set up together, up to this many numbers, so that they stay in the cache.
MAX_SYSTEMS = 1 << 17


@dataclass(frozen=True, eq=False)
class Planes:
    """Planes with centres ``coef, intercept`` and, for fuzzy planes, their widths.

    ``classes`` are the own and the rival class of each plane, as in `plane_classes`. ``rank`` is
    the least numerical rank among the systems of size d, ``loss`` the greatest factor by which they
    amplify rounding errors, and ``alpha`` the ridge they were solved with.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.planes import Planes
    >>> Planes(np.array([[1.0, 0.0]]), np.array([-2.0]), np.array([[0, 1]])).coef
    array([[1., 0.]])
    """

    coef: Array
    intercept: Array
    classes: Array
    rank: int | None = None
    width_coef: Any = None  # an array, or None for crisp planes
    width_intercept: Any = None
    loss: float = field(default=1.0, kw_only=True)
    alpha: float | None = field(default=None, kw_only=True)


def plane_classes(n_classes: int) -> Array:
    """List the own and the rival class of every plane.

    There are two consecutive planes for each pair of classes. For three classes these are (0, 1),
    (1, 0), (0, 2), (2, 0), (1, 2), (2, 1).
    """
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    return np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)


def crisp_planes(
    own: ClassMoments,
    slack: ClassMoments,
    C: Array,
    alpha: float,
    *,
    isotropic: bool = False,
) -> Planes:
    """Solve for the planes of model M1.

    Parameters
    ----------
    own : ClassMoments
        Moments with the weights s of the own-class term.
    slack : ClassMoments
        Moments with the weights s mu of the slack term.
    C : ndarray of shape (K,)
        Penalty of the slack of each class's planes.
    alpha : float
        Ridge on w; zero is allowed. If the system is singular, the solution of least
        norm (columns scaled to equal size) is taken and ``rank`` is less than d.
    isotropic : bool, default=False
        Whether all columns have the same unit, as features of a kernel do. The norm is then that
        of the unscaled w, which is invariant to rotations.

    Returns
    -------
    Planes

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.core.planes import crisp_planes
    >>> planes = crisp_planes(moments, moments, np.ones(2), 0.1)
    >>> (X @ planes.coef.T + planes.intercept).round(1)  # near 0 on the own class, -1 on the other
    array([[-0.1, -0.9],
           [ 0.1, -1.1],
           [-0.1, -0.9],
           [-1. ,  0. ],
           [-0.9, -0.1],
           [-1. ,  0. ]])
    """
    classes = plane_classes(len(C))
    pairs = PlaneProblems.of(own, slack, classes)
    w, b, rank, loss = pairs.planes(C[classes[:, :1]], np.array([[alpha]]), isotropic)
    return Planes(w[:, 0], b[:, 0], classes, rank, loss=loss, alpha=alpha)


def crisp_grid(
    own: ClassMoments,
    slack: ClassMoments,
    Cs: Array,
    alphas: Array,
    *,
    isotropic: bool = False,
) -> tuple[Array, Array]:
    """Solve for the planes of model M1 for every alpha and C, from one set of moments.

    A plane depends only on the C of its own class, so this also covers grids with a different C
    for every class. Each system takes one Cholesky factorisation. For fewer than about thirty
    values of C that is cheaper than one generalised eigendecomposition for all of them, and the
    results are identical to those of `crisp_planes`.

    Returns
    -------
    coef : ndarray of shape (len(alphas), len(Cs), n_planes, d)
    intercept : ndarray of shape (len(alphas), len(Cs), n_planes)

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.core.planes import crisp_grid
    >>> Cs, alphas = np.array([0.5, 1.0, 2.0]), np.array([0.1, 1.0])
    >>> coef, intercept = crisp_grid(moments, moments, Cs, alphas)
    >>> coef.shape, intercept.shape
    ((2, 3, 2, 2), (2, 3, 2))
    """
    K, d = own.origin.shape
    classes = plane_classes(K)
    shape = (len(alphas), len(Cs))
    alpha, C = (part.reshape(1, -1) for part in np.meshgrid(alphas, Cs, indexing="ij"))
    w, b, *_ = PlaneProblems.of(own, slack, classes).planes(C, alpha, isotropic)
    coef = np.ascontiguousarray(w.swapaxes(0, 1)).reshape(*shape, len(classes), d)
    return coef, np.ascontiguousarray(b.T).reshape(*shape, len(classes))


@dataclass(frozen=True, eq=False)
class PlaneProblems:
    """The problems of all planes: weights, means p and q, D = p - q, and classes k and j.

    These have one entry per plane, the covariances ``own`` and ``rival`` one per class. ``twins``
    says whether slack and own moments are the same, so that both planes of a pair share one system
    if C is 1.
    """

    own_weight: Array
    rival_weight: Array
    p: Array
    q: Array
    D: Array
    k: Array
    j: Array
    own: Array
    rival: Array
    twins: bool

    @classmethod
    def of(cls, own: ClassMoments, slack: ClassMoments, classes: Array) -> PlaneProblems:
        """Pair the own class of each plane with its rivals."""
        k, j = classes.T
        D = (own.origin[k] - slack.origin[j]) + (own.offset[k] - slack.offset[j])
        return cls(
            own.weight[k][:, None],
            slack.weight[j][:, None],
            own.mean[k],
            slack.mean[j],
            D,
            k,
            j,
            own.covariance,
            slack.covariance,
            slack is own,
        )

    def planes(self, C: Array, alpha: Array, isotropic: bool) -> tuple[Array, Array, int, float]:
        """Solve for w (n_planes, m, d) and b (n_planes, m) at m values of C and alpha.

        `C` and `alpha` have the shape (n_planes, m) or (1, m). Also returned are the least rank and
        the greatest loss. If there are no own rows or no rivals, w is zero.
        """
        a, c, ridge = self.coefficients(C, alpha)
        n, m = a.shape
        d = self.D.shape[1]
        both = np.where(a + c > 0, a + c, 1.0)
        h = a * (c / both)
        rank = d
        w = np.zeros((n, m, d))
        pivots = np.ones((n, m))
        to_solve = np.ones((n, m), dtype=bool)
        # The second plane of twins is minus the first if both have a C of 1.
        mirrored = (C == 1).all(axis=0) & self.twins
        to_solve[1::2, mirrored] = False
        to_solve &= (self.own_weight > 0) & (self.rival_weight > 0)
        planes, points = np.nonzero(to_solve)
        for block in block_slices(len(planes), max(1, MAX_SYSTEMS // (d * d))):
            i = planes[block]
            at = (i, points[block])
            M = self._systems(i, a[at], c[at], ridge[at])
            w[at], pivots[at] = _solve_directions(M, self.D[i], h[at])
        solved = pivots > rank_tol(d)
        for i, t in zip(*np.nonzero(~solved), strict=True):
            hessian = self.hessian(i, a[i, t], c[i, t], ridge[i, t])
            w[i, t], rank_i = solve_symmetric(hessian, h[i, t] * self.D[i], isotropic)
            rank = min(rank, rank_i)
        if self.twins:
            w[1::2, mirrored] = -w[::2, mirrored]
        b = -(a * _dots(w, self.p[:, None]) + c * (1 + _dots(w, self.q[:, None]))) / both
        b = np.where(self.own_weight == 0, -1.0, np.where(self.rival_weight == 0, 0.0, b))
        return w, b, rank, float(1 / pivots[solved].min(initial=1.0))

    def _systems(self, i: Array, a: Array, c: Array, ridge: Array) -> Array:
        """Compute M = a V_own + c V_rivals + ridge I of planes i, with one a, c and ridge each."""
        M = self.own[self.k[i]]
        M *= a[:, None, None]
        M += c[:, None, None] * self.rival[self.j[i]]
        M.reshape(len(M), -1)[:, :: M.shape[-1] + 1] += ridge[:, None]
        return M

    def hessian(self, i: int, a: float, c: float, ridge: float) -> Array:
        """Compute M + h D D' of plane i: the scatter of its rows about their common mean."""
        M = self._systems(*(np.array([part]) for part in (i, a, c, ridge)))
        h = a * (c / (a + c)) if a + c > 0 else 0.0
        return np.asarray(M[0] + h * np.outer(self.D[i], self.D[i]))

    def coefficients(self, C: Array, alpha: Array) -> tuple[Array, Array, Array]:
        """Divide own weight, C times the rivals' weight, and alpha by the greatest of them."""
        a, c, ridge = rescale(C, self.own_weight, self.rival_weight, alpha)
        return a, c, ridge

    def widths(self, i: int, C: float, tau: float, margin: float) -> tuple[Array, float]:
        """Compute the non-negative widths c and d of plane i.

        A free d is eliminated like b of a crisp plane, which centres the problem in c. If the
        optimal d is negative, then d = 0, because the problem is convex, and c is solved for
        without centring.
        """
        p = self.p[i]
        q = self.q[i]
        D = self.D[i]
        a, c, tau = rescale(C, self.own_weight[i, 0], self.rival_weight[i, 0], tau)
        if a + c == 0:
            return np.zeros(len(p)), 0.0
        middle = (a / (a + c)) * p + (c / (a + c)) * q
        h = a * (c / (a + c))
        slope = _nonnegative(self.hessian(i, a, c, tau), tau * middle - h * margin * D)
        constant = (c * margin - tau) / (a + c) - slope @ middle
        if constant >= 0:
            return slope, float(constant)
        Q = self._systems(*(np.array([part]) for part in (i, a, c, tau)))[0]
        return _nonnegative(Q + a * np.outer(p, p) + c * np.outer(q, q), c * margin * q), 0.0


def _dots(u: Array, v: Array) -> Array:
    """Compute scalar products along the last axis.

    A matrix product would round a row differently depending on the other rows.
    """
    return np.asarray((u * v).sum(axis=-1))


def fuzzy_planes(
    planes: Planes,
    own: ClassMoments,
    slack: ClassMoments,
    C: Array,
    tau: float,
    margin_width: float,
) -> Planes:
    """Return the same planes with `widths` (model M2).

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> codes = np.array([0, 0, 0, 1, 1, 1])
    >>> moments = ClassMoments.from_rows(X, codes, n_classes=2)
    >>> from fuzzytwin.core.planes import crisp_planes, fuzzy_planes
    >>> planes = crisp_planes(moments, moments, np.ones(2), 0.1)
    >>> absolute = ClassMoments.from_rows(X, codes, n_classes=2, absolute=True)
    >>> fuzzy = fuzzy_planes(planes, absolute, absolute, np.ones(2), 0.1, 0.5)
    >>> fuzzy.width_coef.round(2)
    array([[0.02, 0.  ],
           [0.  , 0.22]])
    """
    width = widths(own, slack, C, tau, margin_width)
    return replace(planes, width_coef=width[0], width_intercept=width[1])


def widths(
    own: ClassMoments, slack: ClassMoments, C: Array, tau: float, margin_width: float
) -> tuple[Array, Array]:
    r"""Compute the widths c (n_planes, d) and d (n_planes,) of fuzzy planes.

    Plane k's widths minimise, over c >= 0 and d >= 0 and with g = c.|x| + d,

        1/2 sum_own s g^2 + C/2 sum_rivals s mu (O - g)^2 + tau (1/2 |c|^2 + d).

    `own` and `slack` are the moments of abs(X).
    """
    classes = plane_classes(len(C))
    pairs = PlaneProblems.of(own, slack, classes)
    solved = [pairs.widths(i, C[k], tau, margin_width) for i, k in enumerate(classes[:, 0])]
    return np.array([c for c, _ in solved]), np.array([d for _, d in solved])


def rescale(C: Any, own: Any, rivals: Any, *ridges: Any) -> list[Any]:
    """Divide the coefficients own, C rivals, ridges of an objective by the greatest of them.

    The minimiser stays the same and nothing overflows.
    """

    def over_greatest(parts: list[Any]) -> list[Any]:
        top = reduce(np.maximum, parts)
        return [part / np.where(top > 0, top, 1.0) for part in parts]

    own, rivals, *ridges_ = over_greatest([own, rivals, *ridges])
    return over_greatest([own, C * rivals, *ridges_])


def _solve_directions(M: Array, D: Array, h: Array) -> tuple[Array, Array]:
    """Minimise 1/2 w'Mw + h/2 (w.D - 1)^2 over w for each M, D and h. M is overwritten.

    Also returned is the least pivot of each M, relative to its diagonal. It is zero if M is
    singular.
    """
    size = np.diagonal(M, axis1=-2, axis2=-1).copy()
    solved = size.min(axis=-1) > 0
    u = D.copy()
    for i in np.flatnonzero(solved).tolist():
        _, u[i], failed = lapack.dposv(M[i].T, u[i], lower=True, overwrite_a=True)
        solved[i] = not failed
    # Pivots relative to the diagonal, as if columns had been scaled to equal size first.
    factor = np.diagonal(M, axis1=-2, axis2=-1) ** 2
    ratio = np.divide(factor, size, out=np.zeros_like(size), where=solved[..., None])
    u *= (h / (1 + h * _dots(u, D)))[..., None]
    return u, ratio.min(axis=-1, initial=1.0)


def _nonnegative(Q: Array, r: Array) -> Array:
    """Minimise 1/2 v'Qv - r.v over v >= 0, as non-negative least squares of a factor of Q."""
    values, V, scale = decompose(Q)
    root = np.sqrt(values)
    target = (V.T @ (r / scale)) / root
    return np.asarray(optimize.nnls(root[:, None] * V.T, target, maxiter=30 * len(r))[0] / scale)
