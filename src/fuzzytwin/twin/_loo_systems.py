r"""Leave-one-out values of planes, from the moments they were fitted to.

Symbols

    x, s, mu    a row, its weight and its membership degree
    v, t        its weight and target in a plane: s and 0 for own rows, C s mu and -1 for rivals
    m           weighted mean of the rows of a plane
    a, c        total weights v of the own rows and of the rivals
    D           mean of the own rows minus mean of the rivals

A plane is a weighted ridge regression of t on [x 1]. About m, its Hessian is

    S = sum v (x - m)(x - m)' + alpha I,

which follows from the moments of the two classes. `fuzzytwin.core.ridge` leaves rows out of it
(Cook and Weisberg: Residuals and influence in regression, 1982).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, MAX_SHIFT, dense_block
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.linalg import decompose, rank_tol
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import PlaneProblems, Planes
from fuzzytwin.core.ridge import LooFactor
from fuzzytwin.core.weights import RowWeights, check_same_weights

# Minimum number of rows in a block.
MIN_BLOCK = 128
# Maximum number of matrix elements of cached factors. If there are more, they are recomputed.
MAX_FACTORS = 1 << 24
# Tolerance, in units of the margin, on plane values at class means compared with the fit.
SAME_VALUE = 1e-6


@dataclass(frozen=True, eq=False)
class LooValues:
    """Leave-one-out values of planes at m rows.

    ``index`` are the rows. ``f`` and ``norms`` have the shape (n_planes, m). Norms |w| are None if
    they were not requested. A plane that loses its only own row has f = -inf (infinitely far), one
    that loses its only rival f = 0.
    """

    index: Any
    f: Array
    norms: Array | None


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Planes of `crisp_planes` with the moments and parameters they were fitted to."""

    planes: Planes
    own: ClassMoments
    slack: ClassMoments
    C: Array
    alpha: float
    isotropic: bool = False

    def values(
        self,
        Z: Any,
        weights: RowWeights,
        *,
        norms: bool = True,
        only: Array | None = None,
        groups: Array | None = None,
        names: Sequence[object] | Array | None = None,
    ) -> Iterator[LooValues]:
        """Yield leave-one-out values at the rows `only` (None: all rows), in blocks of rows.

        ``Z`` are the features of all rows, and ``norms`` says whether |w| is needed. The rows of
        one of the ``groups`` are left out together. If total weights or means of a class differ
        from those of the moments, a ValueError with the ``names`` of the classes is raised: at
        once for weights, after the last block for means.
        """
        if names is None:
            names = range(weights.n_classes)
        check_same_weights(weights, self.own, self.slack, names)
        if groups is not None and len(np.unique(groups)) == len(groups):
            groups = None  # single rows are much faster
        n, d = Z.shape
        classes = self.planes.classes
        systems = LooSystems(
            self.own,
            self.slack,
            classes,
            self.C,
            self.alpha,
            self.planes.coef,
            isotropic=self.isotropic,
        )
        counts = weights.counts(classes)
        may_orphan = groups is not None or bool((counts == 1).any())
        sums = np.zeros((2, len(classes)))
        size = max(MIN_BLOCK, BLOCK_NUMBERS // max(d + 1, len(classes)))
        for index, use, starts in weights.blocks(classes, only, groups, n, size):
            B = dense_block(Z, index)
            if systems.centre.any():
                B = B - systems.centre
            f = systems.values_at(B)
            lengths = np.repeat(systems.norms[:, None], len(B), axis=1) if norms else None
            v, t = weights.in_planes(
                index, classes[use], systems.own_unit[use], systems.rival_unit[use]
            )
            weighted = v * f[use]
            sums[0, use] += weighted.sum(axis=1)
            sums[1, use] += np.einsum("pm,pm->p", weighted, t)
            systems.leave_out(B, v, t, use, starts, f, lengths)
            if may_orphan:
                orphaned = weights.orphaned_planes(index, classes[use], counts[:, use], starts)
                for is_orphaned, value in zip(orphaned, (0.0, -np.inf), strict=True):
                    plane, row = np.nonzero(is_orphaned)
                    f[use[plane], row] = value
                    if lengths is not None:
                        lengths[use[plane], row] = 0.0
            if only is not None and starts is not None:
                keep = np.isin(index, only)
                index = index[keep]
                f = f[:, keep]
                lengths = None if lengths is None else lengths[:, keep]
            yield LooValues(index, f, lengths)
        if only is None:
            systems.check_same_rows(sums, names)


class LooSystems:
    """Linear systems of all planes, factorised on demand.

    Rows are [x - centre, 1], with one centre for all planes, so that ``values`` (n_planes, d + 1)
    gives f of all planes. The column of ones is implicit. Weights are in units of the system.
    """

    def __init__(
        self,
        own: ClassMoments,
        slack: ClassMoments,
        classes: Array,
        C: Array,
        alpha: float,
        coef: Array,
        *,
        isotropic: bool = False,
    ) -> None:
        self.classes = classes
        self.C = C
        self.alpha = alpha
        self.coef = coef
        self.isotropic = isotropic
        self.pairs = pairs = PlaneProblems.of(own, slack, classes)
        self.mirrored = pairs.twins and bool((C == 1).all())
        a, c, ridge = pairs.coefficients(C[classes[:, :1]], np.array([[alpha]]))
        self.a = a[:, 0]
        self.c = c[:, 0]
        self.ridge = ridge[:, 0]
        total = self.a + self.c
        self.total = np.where(total > 0, total, 1.0)
        share = self.a / self.total
        self.own_unit = _ratio(self.a, pairs.own_weight[:, 0])
        self.rival_unit = _ratio(self.c, pairs.rival_weight[:, 0])
        self.centre = _common_centre(own)
        # The difference of origins comes first, so that it cancels without rounding.
        own_mean = (own.origin - self.centre) + own.offset
        self.middle = own_mean[pairs.k] - (1 - share)[:, None] * pairs.D
        constant = share - 1 - (self.middle * coef).sum(axis=-1)
        self.values = np.column_stack([coef, constant])
        self.norms = plane_norms(coef)
        self.cached_factors: dict[int, LooFactor] = {}

    def values_at(self, B: Array) -> Array:
        """Compute the in-sample values (n_planes, m) of all planes."""
        return np.asarray(self.values[:, :-1] @ B.T + self.values[:, -1:])

    def leave_out(
        self,
        B: Array,
        v: Array,
        t: Array,
        use: Array,
        starts: Array | None,
        f: Array,
        lengths: Array | None,
    ) -> None:
        """Replace in-sample values f and norms of the planes `use` by those with rows left out.

        ``B`` (m, d) are the rows, ``v`` and ``t`` their weights and targets in these planes,
        ``starts`` the positions where groups begin, ``f`` and ``lengths`` (n_planes, m).
        """
        step = 2 if self.mirrored else 1  # planes that share a system
        for at in range(0, len(use), step):
            first = int(use[at])
            planes = slice(first, first + step)
            rows = slice(at, at + step)
            factor = self.factor(first)
            values, norms = factor.leave_out(
                factor.coordinates(B),
                v[rows],
                t[rows],
                f[None, planes],
                starts,
                coef=self.coef[None, planes],
                norms=lengths is not None,
            )
            f[planes] = values[0]
            if lengths is not None:
                lengths[planes] = norms[0]

    def factor(self, i: int) -> LooFactor:
        """Factorise the system of plane i. The factor is cached if possible."""
        if i in self.cached_factors:
            return self.cached_factors[i]
        if (len(self.cached_factors) + 1) * len(self.centre) ** 2 > MAX_FACTORS:
            self.cached_factors.clear()
        S = self.pairs.hessian(i, self.a[i], self.c[i], self.ridge[i])
        self._check_same_plane(i, S)
        # Planes of less than full rank have the least norm in units of the columns.
        size = np.diag(S)
        scaled = self.alpha == 0 and not self.isotropic
        scale = np.sqrt(np.where(size > 0, size, 1.0)) if scaled else np.ones(len(S))
        lower, failed = lapack.dpotrf(S, lower=True, clean=True)
        if not failed and (np.diag(lower) ** 2 > rank_tol(len(S)) * size).all():
            root = lapack.dtrtri(lower, lower=True)[0].T
        else:
            values, vectors, _ = decompose(S, not scaled)
            root = vectors / np.sqrt(values) / scale[:, None]
        root = np.vstack([root, -self.middle[i] @ root])
        factor = LooFactor(np.ones((1, root.shape[1])), 1 / self.total[i], root, scale)
        self.cached_factors[i] = factor
        return factor

    def check_same_rows(self, sums: Array, names: Sequence[object] | Array) -> None:
        """Raise a ValueError unless planes have the values at class means that the fit gave them.

        `sums` are those of v f and v t f. With the means p of own rows and q of rivals, they are
        a f(p) + c f(q) and -c f(q), where f(p) = t_mean + c / (a + c) w.D and
        f(q) = t_mean - a / (a + c) w.D.
        """
        a = self.a
        c = self.c
        wD = (self.coef * self.pairs.D).sum(axis=1)
        at_rivals = -(c / self.total) * (c + a * wD)
        tolerance = SAME_VALUE * (self.total + a * (c / self.total) * np.abs(wD))
        differs = np.abs(sums[1] + at_rivals) > tolerance
        differs |= np.abs(sums[0] + c) > tolerance
        if differs.any():
            k = self.classes[np.flatnonzero(differs)[0], 0]
            raise ValueError(
                f"X and y differ from the training rows: the mean of class {names[k]} or of its "
                "rivals is different; give all rows of the fit, with the same labels."
            )

    def _check_same_plane(self, i: int, S: Array) -> None:
        """Raise a ValueError unless w minimises the objective, as it did in the fit.

        The condition is S w = a c / (a + c) D, up to the rounding of its terms, because w may have
        lost digits if S is nearly singular.
        """
        w = self.coef[i]
        right = (self.a[i] * (self.c[i] / self.total[i])) * self.pairs.D[i]
        size = np.abs(S) @ np.abs(w) + np.abs(right)
        if (np.abs(S @ w - right) > SAME_VALUE * size.max(initial=0.0)).any():
            raise ValueError(
                f"C={self.C.tolist()} and alpha={self.alpha:g} differ from those of the fit; "
                "restore them or fit again."
            )


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide, with 0 for denominators that are not positive."""
    zeros = np.zeros_like(numerator)
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


def _common_centre(own: ClassMoments) -> Array:
    """Choose a point near all rows: zero if their mean is close to it, otherwise the mean."""
    share = own.weight / (own.weight.sum() or 1.0)
    mean = np.asarray(share @ own.origin + share @ own.offset)
    spread = share @ np.diagonal(own.covariance, axis1=1, axis2=2)
    return np.zeros_like(mean) if (mean**2 <= MAX_SHIFT * spread).all() else mean
