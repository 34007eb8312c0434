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
(Cook and Weisberg: Residuals and influence in regression, 1982). For several alphas, one
decomposition S_0 = U L U' of the Hessian with alpha = 0 serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, MAX_SHIFT, dense_block
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.linalg import decompose, rank_tol
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import PlaneProblems, Planes, crisp_grid, plane_classes
from fuzzytwin.core.ridge import LooFactor
from fuzzytwin.core.weights import RowWeights, check_same_weights

# Minimum number of rows in a block.
MIN_BLOCK = 128
# Maximum number of matrix elements of cached factors. If there are more, they are recomputed.
MAX_FACTORS = 1 << 24
# Tolerance, in units of the margin, on plane values at class means compared with the fit.
SAME_VALUE = 1e-6
# Ridges below this fraction of the largest eigenvalue are factorised separately, for accuracy.
SMALL_RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class LooValues:
    """Leave-one-out values of planes at m rows.

    ``index`` are the rows. ``f`` and ``norms`` have the shape (n_planes, m), or
    (n_alphas, n_Cs, n_planes, m) for a grid. Norms |w| are None if they were not requested. A plane
    that loses its only own row has f = -inf (infinitely far), one that loses its only rival f = 0.
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

    def systems(self) -> LooSystems:
        """Return the linear systems of all planes."""
        return LooSystems(
            self.own,
            self.slack,
            self.planes.classes,
            self.C,
            np.array([self.alpha]),
            self.planes.coef[None],
            isotropic=self.isotropic,
            check=True,
        )

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
        systems = self.systems()
        sums = np.zeros((2, len(self.planes.classes))) if only is None else None
        for block in _values([systems], Z, weights, norms, only, groups, sums):
            lengths = None if block.norms is None else block.norms[0, 0]
            yield LooValues(block.index, block.f[0, 0], lengths)
        if sums is not None:
            systems.check_same_rows(sums, names)


def loo_grid(
    Z: Any,
    weights: RowWeights,
    own: ClassMoments,
    slack: ClassMoments,
    Cs: Array,
    alphas: Array,
    *,
    multi_class: str = "ovo",
    isotropic: bool = False,
    norms: bool = True,
    groups: Array | None = None,
) -> Iterator[LooValues]:
    """Yield `LeaveOneOut.values` for every alpha and C, from the moments of all rows.

    A plane depends only on the C of its own class, so that these values also serve a grid over the
    C of each class.
    """
    K = weights.n_classes
    classes = plane_classes(K, multi_class)
    coef, _ = crisp_grid(own, slack, Cs, alphas, isotropic=isotropic, multi_class=multi_class)
    systems = [
        LooSystems(own, slack, classes, np.full(K, C), alphas, coef[:, j], isotropic=isotropic)
        for j, C in enumerate(Cs.tolist())
    ]
    yield from _values(systems, Z, weights, norms, None, groups)


def _values(
    systems: list[LooSystems],
    Z: Any,
    weights: RowWeights,
    norms: bool,
    only: Array | None,
    groups: Array | None,
    sums: Array | None = None,
) -> Iterator[LooValues]:
    """Yield leave-one-out values for several C: f has the shape (n_alphas, n_Cs, n_planes, m).

    The in-sample sums of v f and v t f over all rows are added to `sums`, if given. Groups of one
    row each are treated as single rows, which is much faster.
    """
    if groups is not None and len(np.unique(groups)) == len(groups):
        groups = None
    n, d = Z.shape
    classes = systems[0].classes
    centre = systems[0].centre
    shape = (len(systems[0].ridges[0]), len(systems), len(classes))
    counts = weights.counts(classes)
    may_orphan = groups is not None or bool((counts == 1).any())
    size = max(MIN_BLOCK, BLOCK_NUMBERS // max(d + 1, int(np.prod(shape))))
    for index, use, starts in weights.blocks(classes, only, groups, n, size):
        B = dense_block(Z, index)
        if centre.any():
            B = B - centre
        m = len(B)
        f = np.empty((*shape, m))
        lengths = np.empty((*shape, m) if norms else 0)
        for j, system in enumerate(systems):
            f[:, j] = system.values_at(B)
            if norms and len(use) < len(classes):
                lengths[:, j] = system.norms[..., None]
            v, t = weights.in_planes(
                index, classes[use], system.own_unit[use], system.rival_unit[use]
            )
            if sums is not None:
                weighted = v * f[0, j, use]
                sums[0, use] += weighted.sum(axis=1)
                sums[1, use] += np.einsum("pm,pm->p", weighted, t)
            system.leave_out(B, v, t, use, starts, f[:, j], lengths[:, j] if norms else None)
        if may_orphan:
            orphaned = weights.orphaned_planes(index, classes[use], counts[:, use], starts)
            for is_orphaned, value in zip(orphaned, (0.0, -np.inf), strict=True):
                plane, row = np.nonzero(is_orphaned)
                f[:, :, use[plane], row] = value
                if norms:
                    lengths[:, :, use[plane], row] = 0.0
        if only is not None and starts is not None:
            keep = np.isin(index, only)
            index = index[keep]
            f = f[..., keep]
            if norms:
                lengths = lengths[..., keep]
        yield LooValues(index, f, lengths if norms else None)


class LooSystems:
    """Linear systems of all planes for one C per class, factorised on demand.

    Rows are [x - centre, 1], with one centre for all planes, so that ``values``
    (n_alphas, n_planes, d + 1) gives f of all planes. The column of ones is implicit. Weights are
    in units of the system of the smallest alpha.
    """

    def __init__(
        self,
        own: ClassMoments,
        slack: ClassMoments,
        classes: Array,
        C: Array,
        alphas: Array,
        coef: Array,
        *,
        isotropic: bool = False,
        check: bool = False,
    ) -> None:
        self.classes = classes
        self.C = C
        self.alphas = alphas
        self.coef = coef
        self.isotropic = isotropic
        self.check = check
        self.pairs = pairs = PlaneProblems.of(own, slack, classes)
        self.mirrored = pairs.twins and bool((C == 1).all())
        a, c, ridge = pairs.coefficients(C[classes[:, :1]], alphas[None])
        total = a + c
        smallest = alphas.argmin()
        self.a = a[:, smallest]
        self.c = c[:, smallest]
        self.total = np.where(total[:, smallest] > 0, total[:, smallest], 1.0)
        unit = np.divide(self.total[:, None], total, out=np.ones_like(total), where=total > 0)
        self.ridges = ridge * unit
        share = self.a / self.total
        self.own_unit = _ratio(self.a, pairs.own_weight[:, 0])
        self.rival_unit = _ratio(self.c, pairs.rival_weight[:, 0])
        self.centre = _common_centre(own)
        # The difference of origins comes first, so that it cancels without rounding.
        own_mean = (own.origin - self.centre) + own.offset
        self.middle = own_mean[pairs.k] - (1 - share)[:, None] * pairs.D
        constant = share - 1 - (self.middle * coef).sum(axis=-1)
        self.values = np.concatenate([coef, constant[..., None]], axis=-1)
        self.norms = plane_norms(coef)
        self.cached_factors: dict[int, list[LooFactor]] = {}

    def values_at(self, B: Array) -> Array:
        """Compute the in-sample values (n_alphas, n_planes, m) of all planes."""
        return np.asarray(self.values[..., :-1] @ B.T + self.values[..., -1:])

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
        ``starts`` the positions where groups begin, ``f`` and ``lengths`` (n_alphas, n_planes, m).
        """
        for first, planes, at in self.shared(use):
            for factor in self.factors(first):
                part: Any = factor.alphas, planes
                f[part], part_lengths = factor.leave_out(
                    factor.coordinates(B),
                    v[at],
                    t[at],
                    f[part],
                    starts,
                    coef=self.coef[part],
                    norms=lengths is not None,
                )
                if lengths is not None:
                    lengths[part] = part_lengths

    def shared(self, use: Array) -> Iterator[tuple[int, slice, slice]]:
        """Yield the systems of the planes `use`: first plane, its planes, their slice of `use`."""
        step = 2 if self.mirrored else 1
        for at in range(0, len(use), step):
            i = int(use[at])
            yield i, slice(i, i + step), slice(at, at + step)

    def factors(self, i: int) -> list[LooFactor]:
        """Return the factors of the system of plane i for all alphas, cached if possible."""
        if i not in self.cached_factors:
            if (len(self.cached_factors) + 1) * len(self.centre) ** 2 > MAX_FACTORS:
                self.cached_factors.clear()
            self.cached_factors[i] = list(self._factors(i))
        return self.cached_factors[i]

    def _factors(self, i: int) -> Iterator[LooFactor]:
        """Factorise the system of plane i: once for all large ridges, and for each small one."""
        ridges = self.ridges[i]
        middle = self.middle[i]
        floor = 1 / self.total[i]
        small_index = np.arange(len(ridges))
        if len(ridges) > 1:
            S = self.pairs.hessian(i, self.a[i], self.c[i], 0.0)
            L, U = linalg.eigh(S, check_finite=False)
            large = ridges > SMALL_RIDGE * max(float(L[-1]), 0.0)
            large_index = np.flatnonzero(large)
            small_index = np.flatnonzero(~large)
            inverse = 1 / (np.maximum(L, 0.0) + ridges[large, None])
            if len(large_index):
                at = slice(None) if large.all() else large_index
                root = np.vstack([U, -middle @ U])
                yield LooFactor(inverse, floor, root, alphas=at)
        for index in small_index.tolist():
            S = self.pairs.hessian(i, self.a[i], self.c[i], ridges[index])
            if self.check:
                self._check_same_plane(i, S)
            # Planes of less than full rank have the least norm in units of the columns.
            size = np.diag(S)
            scaled = self.alphas[index] == 0 and not self.isotropic
            scale = np.sqrt(np.where(size > 0, size, 1.0)) if scaled else np.ones(len(S))
            lower, failed = lapack.dpotrf(S, lower=True, clean=True)
            if not failed and (np.diag(lower) ** 2 > rank_tol(len(S)) * size).all():
                root = lapack.dtrtri(lower, lower=True)[0].T
            else:
                values, vectors, _ = decompose(S, not scaled)
                root = vectors / np.sqrt(values) / scale[:, None]
            root = np.vstack([root, -middle @ root])
            ones = np.ones((1, root.shape[1]))
            yield LooFactor(ones, floor, root, scale, slice(index, index + 1))

    def check_same_rows(self, sums: Array, names: Sequence[object] | Array) -> None:
        """Raise a ValueError unless planes have the values at class means that the fit gave them.

        `sums` are those of v f and v t f. With the means p of own rows and q of rivals, they are
        a f(p) + c f(q) and -c f(q), where f(p) = t_mean + c / (a + c) w.D and
        f(q) = t_mean - a / (a + c) w.D.
        """
        a = self.a
        c = self.c
        wD = (self.coef[0] * self.pairs.D).sum(axis=1)
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
        w = self.coef[0, i]
        right = (self.a[i] * (self.c[i] / self.total[i])) * self.pairs.D[i]
        size = np.abs(S) @ np.abs(w) + np.abs(right)
        if (np.abs(S @ w - right) > SAME_VALUE * size.max(initial=0.0)).any():
            raise ValueError(
                f"C={self.C.tolist()} and alpha={self.alphas[0]:g} differ from those of the fit; "
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
