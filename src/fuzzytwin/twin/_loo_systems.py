r"""Leave-one-out values of planes, from the moments that they were learned from.

A plane is a weighted ridge regression: rows [x 1] with weights v (s of own rows, C s mu of rivals)
have targets t (0 and -1). About the weighted mean m of the plane's rows, its Hessian is

    S = sum v (x - m)(x - m)' + alpha I,

which follows from the moments of the two classes. `fuzzytwin.core.ridge` leaves rows out of it. For
many ridges, one decomposition S_0 = U L U' serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, NEAR, dense_block
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Pairs, Planes, crisp_grid, decompose, plane_classes, rank_tol
from fuzzytwin.core.ridge import LooFactor
from fuzzytwin.core.weights import RowWeights, refuse_other_weights

# A block of rows has at least this many.
MIN_BLOCK = 128
# Factors of this many numbers are kept for the next class; others are computed again.
MOST_FACTORS = 1 << 24
# Values at the means of the rows may differ by this, in units of the margin, from the fit's.
SAME_VALUE = 1e-6
# Below this part of the greatest eigenvalue, a ridge is solved for by itself, with more digits.
SMALL_RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class LooValues:
    """Values of planes at some rows, each by planes that were learned without that row.

    ``f`` and ``norms`` have the shape (n_planes, m), or (n_alphas, n_Cs, n_planes, m) of a grid;
    norms |w| are None where they were not asked for. A plane that loses its only own row is
    infinitely far, f = -inf; one that loses its only rival is everywhere, f = 0.
    """

    index: Any
    f: Array
    norms: Array | None


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Planes of `crisp_planes` and what they were learned from, ready to leave rows out."""

    planes: Planes
    own: ClassMoments
    slack: ClassMoments
    C: Array
    alpha: float
    isotropic: bool = False

    def systems(self) -> LooSystems:
        """Prepare the systems of all planes."""
        return LooSystems(
            self.own, self.slack, self.planes.classes, self.C, np.array([self.alpha]),
            self.planes.coef[None], isotropic=self.isotropic, check=True,
        )  # fmt: skip

    def values(
        self, Z: Any, weights: RowWeights, *, norms: bool = True, only: Array | None = None,
        groups: Array | None = None, names: Sequence[object] | Array | None = None,
    ) -> Iterator[LooValues]:  # fmt: skip
        """Compute values of the planes at `only` (None: all) rows of the fit, in blocks of rows.

        ``Z`` are the features of all rows, ``norms`` says whether |w| is needed. The rows of one of
        the ``groups`` are left out together. Where total weights or means of a class are not those
        of the moments, a ValueError says so, by the ``names`` of the classes: at once, or after
        the last block.
        """
        names = range(weights.n_classes) if names is None else names
        refuse_other_weights(weights, self.own, self.slack, names)
        systems = self.systems()
        sums = np.zeros((2, len(self.planes.classes))) if only is None else None
        for block in _values([systems], Z, weights, norms, only, groups, sums):
            lengths = None if block.norms is None else block.norms[0, 0]
            yield LooValues(block.index, block.f[0, 0], lengths)
        if sums is not None:
            systems.refuse_other_rows(sums, names)


def loo_grid(
    Z: Any, weights: RowWeights, own: ClassMoments, slack: ClassMoments, Cs: Array, alphas: Array,
    *, multi_class: str = "ovo", isotropic: bool = False, norms: bool = True,
    groups: Array | None = None,
) -> Iterator[LooValues]:  # fmt: skip
    """Compute `LeaveOneOut.values` for every alpha and C, from the moments of all rows.

    A plane depends on the C of its own class alone, so these values serve a grid over the C of
    each class too.
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
    systems: list[LooSystems], Z: Any, weights: RowWeights, norms: bool, only: Array | None,
    groups: Array | None, sums: Array | None = None,
) -> Iterator[LooValues]:  # fmt: skip
    """Compute values of the planes of several C: f has the shape (n_alphas, n_Cs, n_planes, m).

    The sums of v f and v t f over all rows are added to `sums`, if given, of the first C. Groups of
    one row each are rows that are left out whole, which takes a fraction of the time of groups.
    """
    if groups is not None and len(np.unique(groups)) == len(groups):
        groups = None
    (n, d), classes = Z.shape, systems[0].classes
    shape = (len(systems[0].ridges[0]), len(systems), len(classes))
    counts = weights.counts(classes)
    few = groups is not None or bool((counts == 1).any())
    size = max(MIN_BLOCK, BLOCK_NUMBERS // max(d + 1, int(np.prod(shape))))
    for index, use, starts in weights.blocks(classes, only, groups, n, size):
        B, centre = dense_block(Z, index), systems[0].centre
        B, m = B - centre if centre.any() else B, len(B)
        f, lengths = np.empty((*shape, m)), np.empty((*shape, m) if norms else 0)
        for j, one in enumerate(systems):
            f[:, j] = one.values_at(B)
            if norms and len(use) < len(classes):
                lengths[:, j] = one.norms[..., None]
            v, t = weights.in_planes(index, classes[use], one.own_unit[use], one.rival_unit[use])
            if sums is not None:
                weighted = v * f[0, j, use]
                sums[0, use] += weighted.sum(axis=1)
                sums[1, use] += np.einsum("pm,pm->p", weighted, t)
            for which, some, at in one.shared(use):
                for factor in one.factors(which):
                    here: Any = factor.alphas, j, some
                    rows = factor.coordinates(B), v[at], t[at], f[here]
                    coef = one.coef[factor.alphas, some]
                    f[here], length = factor.leave_out(*rows, starts, coef=coef, norms=norms)
                    if norms:
                        lengths[here] = length
        if few:
            lost = weights.orphaned_planes(index, classes[use], counts[:, use], starts)
            for gone, value in zip(lost, (0.0, -np.inf), strict=True):
                plane, row = np.nonzero(gone)
                f[:, :, use[plane], row] = value
                if norms:
                    lengths[:, :, use[plane], row] = 0.0
        if only is not None and starts is not None:
            keep = np.isin(index, only)
            index, f, lengths = index[keep], f[..., keep], lengths[..., keep] if norms else lengths
        yield LooValues(index, f, lengths if norms else None)


class LooSystems:
    """The systems of all planes of one C per class, about one centre, factorised where used.

    A row is [x - centre, 1] here, so that ``values`` (n_alphas, n_planes, d + 1) gives f of all
    planes; the one is never written down. Weights are in units of the system of the least ridge.
    """

    def __init__(
        self, own: ClassMoments, slack: ClassMoments, classes: Array, C: Array, alphas: Array,
        coef: Array, *, isotropic: bool = False, check: bool = False,
    ) -> None:  # fmt: skip
        self.classes, self.C, self.alphas, self.coef = classes, C, alphas, coef
        self.isotropic, self.check = isotropic, check
        self.pairs = pairs = Pairs.of(own, slack, classes)
        self.mirrored = pairs.twins and bool((C == 1).all())
        a, c, ridge = pairs.coefficients(C[classes[:, :1]], alphas[None])
        both, least = a + c, alphas.argmin()
        self.a, self.c = a[:, least], c[:, least]
        self.total = np.where(both[:, least] > 0, both[:, least], 1.0)
        unit = np.divide(self.total[:, None], both, out=np.ones_like(both), where=both > 0)
        self.ridges = ridge * unit
        share = self.a / self.total
        self.own_unit, self.rival_unit = (
            np.divide(part, weight[:, 0], out=np.zeros_like(part), where=weight[:, 0] > 0)
            for part, weight in ((self.a, pairs.own_weight), (self.c, pairs.rival_weight))
        )
        self.centre = _common_centre(own)
        # What means and centre have in common cancels before anything is rounded.
        own_mean = (own.origin - self.centre) + own.offset
        self.middle = own_mean[pairs.k] - (1 - share)[:, None] * pairs.D
        constant = share - 1 - (self.middle * coef).sum(axis=-1)
        self.values = np.concatenate([coef, constant[..., None]], axis=-1)
        self.norms = plane_norms(coef)
        self.known: dict[int, list[LooFactor]] = {}

    def values_at(self, B: Array) -> Array:
        """Compute the values (n_alphas, n_planes, m) of the planes of all rows."""
        return np.asarray(self.values[..., :-1] @ B.T + self.values[..., -1:])

    def shared(self, use: Array) -> Iterator[tuple[int, slice, slice]]:
        """Yield the systems of some planes: its place, its planes, and their places in `use`."""
        step = 2 if self.mirrored else 1
        for at in range(0, len(use), step):
            i = int(use[at])
            yield i, slice(i, i + step), slice(at, at + step)

    def factors(self, i: int) -> list[LooFactor]:
        """Factorise the system of plane i, for all ridges, or take it from those that are kept."""
        if i not in self.known:
            if (len(self.known) + 1) * len(self.centre) ** 2 > MOST_FACTORS:
                self.known.clear()
            self.known[i] = list(self._factors(i))
        return self.known[i]

    def _factors(self, i: int) -> Iterator[LooFactor]:
        ridges, middle, floor = self.ridges[i], self.middle[i], 1 / self.total[i]
        alone = np.arange(len(ridges))
        if len(ridges) > 1:
            S = self.pairs.hessian(i, self.a[i], self.c[i], 0.0)
            L, U = linalg.eigh(S, check_finite=False)
            large = ridges > SMALL_RIDGE * max(float(L[-1]), 0.0)
            some, alone = alone[large], alone[~large]
            inverse = 1 / (np.maximum(L, 0.0) + ridges[large, None])
            if len(some):
                every = slice(None) if large.all() else some
                root = np.vstack([U, -middle @ U])
                yield LooFactor(inverse, floor, root, alphas=every)
        for place in alone.tolist():
            S = self.pairs.hessian(i, self.a[i], self.c[i], ridges[place])
            if self.check:
                self._refuse_other_plane(i, S)
            # Planes of less than full rank are the shortest in units of the columns.
            size, scaled = np.diag(S), self.alphas[place] == 0 and not self.isotropic
            scale = np.sqrt(np.where(size > 0, size, 1.0)) if scaled else np.ones(len(S))
            lower, failed = lapack.dpotrf(S, lower=True, clean=True)
            if not failed and (np.diag(lower) ** 2 > rank_tol(len(S)) * size).all():
                root = lapack.dtrtri(lower, lower=True)[0].T
            else:
                values, vectors, _ = decompose(S, not scaled)
                root = vectors / np.sqrt(values) / scale[:, None]
            root, here = np.vstack([root, -middle @ root]), slice(place, place + 1)
            yield LooFactor(np.ones((1, root.shape[1])), floor, root, scale, here)

    def refuse_other_rows(self, sums: Array, names: Sequence[object] | Array) -> None:
        """Raise a ValueError unless planes have the values at class means that they had then.

        `sums` are those of v f and v t f: a f(p) + c f(q) and -c f(q), with f(p) =
        t_mean + c / (a + c) w.D and f(q) = t_mean - a / (a + c) w.D.
        """
        a, c = self.a, self.c
        wD = (self.coef[0] * self.pairs.D).sum(axis=1)
        at_rivals = -(c / self.total) * (c + a * wD)
        room = SAME_VALUE * (self.total + a * (c / self.total) * np.abs(wD))
        other = np.abs(sums[1] + at_rivals) > room
        other |= np.abs(sums[0] + c) > room
        if other.any():
            k = self.classes[np.flatnonzero(other)[0], 0]
            raise ValueError(
                f"the rows of class {names[k]} or of its rivals have another mean than those that "
                "the model was fitted on; give all rows of that fit, with the labels they had."
            )

    def _refuse_other_plane(self, i: int, S: Array) -> None:
        """Raise a ValueError unless w minimises the objective, as it did when it was learned.

        That is S w = a c / (a + c) D, to the rounding of its terms: w itself may have lost digits
        where S is nearly singular.
        """
        w, right = self.coef[0, i], (self.a[i] * (self.c[i] / self.total[i])) * self.pairs.D[i]
        size = np.abs(S) @ np.abs(w) + np.abs(right)
        if (np.abs(S @ w - right) > SAME_VALUE * size.max(initial=0.0)).any():
            raise ValueError(
                f"C={self.C.tolist()} and alpha={self.alphas[0]:g} are not those that the "
                "planes were learned with; set them back or fit again."
            )


def _common_centre(own: ClassMoments) -> Array:
    """Choose a point near to all rows: their mean, or zero where that is as near."""
    share = own.weight / (own.weight.sum() or 1.0)
    mean = np.asarray(share @ own.origin + share @ own.offset)
    spread = share @ np.diagonal(own.covariance, axis1=1, axis2=2)
    return np.zeros_like(mean) if (mean**2 <= NEAR * spread).all() else mean
