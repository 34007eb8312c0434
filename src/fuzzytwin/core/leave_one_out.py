r"""Values of planes that were learned without the row itself, from one more pass over the rows.

A plane is a weighted ridge regression: rows z = [x 1] with weights v (s of own rows, C s mu of
rivals) have targets t (0 and -1). With H = sum v z z' + alpha R, where R is 1 on w and 0 on b,
and e = t - f(x), the plane without the rows I (one row, or all rows of a group) has

    t_I - f_(-I)(x_I) = (1 - K_II V_I)^-1 e_I,         K_II = z_I' H^-1 z_I,
    w_(-I) = w - S^-1 (x_I - m)' V_I (t_I - f_(-I)),

which for one row is e / (1 - h) with the leverage h = v K. Here b is eliminated: m is the weighted
mean of the plane's rows and S = sum v (x - m)(x - m)' + alpha I, so that
K = 1 / sum v + (x - m)' S^-1 (x - m) keeps its digits far from zero.

With a root S^-1 = Q Q' and y = [Q' (x - m), (sum v)^-1/2], K_II = y_I y_I': a plane moves by c,
f_(-I) = f - y.c, where c = y_I' V_I (t_I - f_(-I)). For many ridges the root is U (L + alpha)^-1/2
with S_0 = U L U': one decomposition serves them all.

Where an eigenvalue of V^1/2 K_II V^1/2 is 1, the plane goes through the rows I whatever their
targets: without them, the other rows leave a direction open, and the shortest w is taken (in the
scales of the columns where there is no ridge, as a fit does).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS, NEAR, dense_block
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Pairs, Planes, crisp_grid, cutoff, decompose, plane_classes
from fuzzytwin.core.weights import RowWeights, refuse_other_weights

# A block of rows has at least this many.
MIN_BLOCK = 128
# Factors of this many numbers are kept for the next class; others are computed again.
MOST_FACTORS = 1 << 24
# Values at the means of the rows may differ by this, in units of the margin, from the fit's.
SAME_VALUE = 1e-6
# Leverages nearer to 1 than this are 1: of their difference no digit would be right.
FULL_LEVERAGE = 1e-12
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
    same_scale: bool = False

    def systems(self) -> Systems:
        """Prepare the systems of all planes."""
        return Systems(
            self.own, self.slack, self.planes.classes, self.C, np.array([self.alpha]),
            self.planes.coef[None], same_scale=self.same_scale, check=True,
        )  # fmt: skip

    def values(
        self, Z: Any, weights: RowWeights, *, norms: bool = True, only: Array | None = None,
        groups: Array | None = None, names: Sequence[object] | Array | None = None,
    ) -> Iterator[LooValues]:  # fmt: skip
        """Compute values of the planes at `only` (None: all) rows of the fit, in blocks of rows.

        ``Z`` are the features of all rows, ``norms`` says whether |w| is needed. The rows of one of
        the ``groups`` are left out together and whole (``weights.part`` does not count). Where
        total weights or means of a class are not those of the moments, a ValueError says so, by
        the ``names`` of the classes: at once, or after the last block.
        """
        names = range(weights.n_classes) if names is None else names
        refuse_other_weights(weights, self.own, self.slack, names)
        systems = self.systems()
        complete = only is None and (weights.part is None or groups is not None)
        sums = np.zeros((2, len(self.planes.classes))) if complete else None
        for block in _values([systems], Z, weights, norms, only, groups, sums):
            lengths = None if block.norms is None else block.norms[0, 0]
            yield LooValues(block.index, block.f[0, 0], lengths)
        if sums is not None:
            systems.refuse_other_rows(sums, names)


def loo_grid(
    Z: Any, weights: RowWeights, own: ClassMoments, slack: ClassMoments, Cs: Array, alphas: Array,
    *, multi_class: str = "ovo", same_scale: bool = False, norms: bool = True,
    groups: Array | None = None,
) -> Iterator[LooValues]:  # fmt: skip
    """Compute `LeaveOneOut.values` for every alpha and C, from the moments of all rows.

    A plane depends on the C of its own class alone, so these values serve a grid over the C of
    each class too.
    """
    K = weights.n_classes
    classes = plane_classes(K, multi_class)
    coef, _ = crisp_grid(own, slack, Cs, alphas, same_scale=same_scale, multi_class=multi_class)
    systems = [
        Systems(own, slack, classes, np.full(K, C), alphas, coef[:, j], same_scale=same_scale)
        for j, C in enumerate(Cs.tolist())
    ]
    yield from _values(systems, Z, weights, norms, None, groups)


def _values(
    systems: list[Systems], Z: Any, weights: RowWeights, norms: bool, only: Array | None,
    groups: Array | None, sums: Array | None = None,
) -> Iterator[LooValues]:  # fmt: skip
    """Compute values of the planes of several C: f has the shape (n_alphas, n_Cs, n_planes, m).

    The sums of v f and v t f over all rows are added to `sums`, if given, of the first C. Groups of
    one row each are rows that are left out whole, which takes a fraction of the time of groups.
    """
    if groups is not None and len(np.unique(groups)) == len(groups):
        groups, weights = None, replace(weights, part=None)
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
                    here = factor.alphas, j, some
                    rows = one.coef[factor.alphas, some], B, v[at], t[at], f[here]
                    f[here], length = factor.leave(*rows, starts, norms=norms)
                    if norms:
                        lengths[here] = length
        if few:
            lost = weights.lonely(index, classes[use], counts[:, use], starts)
            for gone, value in zip(lost, (0.0, -np.inf), strict=True):
                plane, row = np.nonzero(gone)
                f[:, :, use[plane], row] = value
                if norms:
                    lengths[:, :, use[plane], row] = 0.0
        if only is not None and starts is not None:
            keep = np.isin(index, only)
            index, f, lengths = index[keep], f[..., keep], lengths[..., keep] if norms else lengths
        yield LooValues(index, f, lengths if norms else None)


@dataclass(frozen=True, eq=False)
class Factor:
    """The inverse of one plane's H about the centre, for some ridges.

    ``root`` (d + 1, r) has rows for w, then one for b: with y = [x - centre, 1] @ root, the
    product z_i' H^-1 z_j is ``floor`` plus the sum of y_i y_j times ``inverse`` (n_ridges, r).
    ``alphas`` are the places of the ridges; where they are several, the root is orthogonal.
    ``scale`` are the units of the columns in which |w| is least where the rank is not full.
    """

    alphas: Array | slice
    root: Array
    floor: float
    scale: Array
    inverse: Array

    @property
    def w_root(self) -> Array:
        """Return the rows of the root that belong to w."""
        return self.root[:-1]

    def leave(
        self, coef: Array, B: Array, v: Array, t: Array, f: Array, starts: Array | None,
        *, norms: bool,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Compute values and norms (a, p, m) of planes `coef` (a, p, d) without the row itself.

        ``B`` (m, d) are rows less the centre, ``v`` and ``t`` (p, m) their weights and targets, and
        ``f`` (a, p, m) the values of the planes of all rows. Where groups of rows begin at
        ``starts``, the whole group is left out.
        """
        if starts is not None:
            return self._leave_groups(coef, B, v, t, f, starts, norms=norms)
        y = B @ self.w_root
        y += self.root[-1]
        squares = np.square(y).T
        rest = 1.0 - v * (self.inverse @ squares + self.floor)[:, None]
        full = np.zeros(0, dtype=np.intp)
        if rest.min(initial=1.0) <= FULL_LEVERAGE:
            wrong = (rest <= FULL_LEVERAGE) & (v > 0)
            rest[wrong] = 1.0
            full = np.flatnonzero(wrong.any(axis=(0, 1)))
        error = (t - f) / rest
        values = t - error
        error *= v
        lengths = self._lengths(coef, y, squares, error) if norms else np.empty(0)
        if len(full):
            some = coef, B[full], v[:, full], t[:, full], f[..., full], np.arange(len(full))
            values[..., full], again = self._leave_groups(*some, norms=norms)
            if norms:
                lengths[..., full] = again
        return values, lengths

    def _lengths(self, coef: Array, y: Array, squares: Array, step: Array) -> Array:
        """Compute |w - step S^-1 (x - m)| of planes (a, p, d) and steps (a, p, m)."""
        unit = plane_norms(coef)[..., None]
        unit[unit == 0] = 1.0  # so that no square overflows
        w = coef / unit
        step /= unit
        along = ((w @ self.w_root) * self.inverse[:, None]) @ y.T
        if len(self.inverse) > 1:
            own = self.inverse**2 @ squares
        else:
            G = (y * self.inverse[0]) @ self.w_root.T
            own = np.einsum("ij,ij->i", G, G)[None]
        lengths = own[:, None] * step
        lengths -= 2 * along
        lengths *= step
        lengths += (w * w).sum(axis=-1)[..., None]
        np.sqrt(np.maximum(lengths, 0.0, out=lengths), out=lengths)
        lengths *= unit
        return lengths

    def _leave_groups(
        self, coef: Array, B: Array, v: Array, t: Array, f: Array, starts: Array, *, norms: bool
    ) -> tuple[Array, Array]:
        """Compute what `leave` does without the whole group."""
        Y = B @ self.w_root
        Y += self.root[-1]
        R, Re = np.sqrt(v), np.sqrt(v) * (t - f)
        values, lengths = f.copy(), np.empty(f.shape if norms else 0)
        sizes = np.diff(np.append(starts, len(B)))
        for i, inverse in enumerate(np.sqrt(self.inverse)):
            y = np.column_stack([Y * inverse, np.full(len(B), np.sqrt(self.floor))])
            Q = self.w_root * inverse
            for size in np.unique(sizes).tolist():
                rows = starts[sizes == size, None] + np.arange(size)
                for p, w in enumerate(coef[i]):
                    c = _moves(y[rows], R[p, rows], Re[i, p, rows], w, Q, self.scale)
                    values[i, p, rows] -= np.matmul(y[rows], c[..., None])[..., 0]
                    if norms:
                        lengths[i, p, rows] = plane_norms(w - c[:, :-1] @ Q.T)[:, None]
        return values, lengths


def _moves(y: Array, R: Array, Re: Array, w: Array, Q: Array, scale: Array) -> Array:
    """Compute c (G, r + 1) of G groups of one size, by which their plane w moves without them.

    ``y`` (G, size, r + 1) are their rows, ``R`` (G, size) the roots of their weights and ``Re``
    these times the errors; ``Q`` is the root.
    """
    A = R[..., None] * y
    few = A.shape[1] <= A.shape[2]
    L, U = np.linalg.eigh(A @ A.swapaxes(1, 2) if few else A.swapaxes(1, 2) @ A)
    full = L >= 1.0 - FULL_LEVERAGE
    stays = np.where(full, np.inf, 1.0 - L)
    right = Re[..., None] if few else A.swapaxes(1, 2) @ Re[..., None]
    c = U @ ((U.swapaxes(1, 2) @ right) / stays[..., None])
    c = (A.swapaxes(1, 2) @ c if few else c)[..., 0]
    for g in np.flatnonzero(full.any(axis=1)).tolist():
        free = U[g][:, full[g]]
        free = A[g].T @ free if few else free
        ways = scale[:, None] * (Q @ free[:-1])
        c[g] += free @ np.linalg.lstsq(ways, scale * (w - Q @ c[g, :-1]), rcond=None)[0]
    return np.asarray(c)


class Systems:
    """The systems of all planes of one C per class, about one centre, factorised where used.

    A row is [x - centre, 1] here, so that ``values`` (n_alphas, n_planes, d + 1) gives f of all
    planes; the one is never written down. Weights are in units of the system of the least ridge.
    """

    def __init__(
        self, own: ClassMoments, slack: ClassMoments, classes: Array, C: Array, alphas: Array,
        coef: Array, *, same_scale: bool = False, check: bool = False,
    ) -> None:  # fmt: skip
        self.classes, self.C, self.alphas, self.coef = classes, C, alphas, coef
        self.same_scale, self.check = same_scale, check
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
        self.known: dict[int, list[Factor]] = {}

    def values_at(self, B: Array) -> Array:
        """Compute the values (n_alphas, n_planes, m) of the planes of all rows."""
        return np.asarray(self.values[..., :-1] @ B.T + self.values[..., -1:])

    def shared(self, use: Array) -> Iterator[tuple[int, slice, slice]]:
        """Yield the systems of some planes: its place, its planes, and their places in `use`."""
        step = 2 if self.mirrored else 1
        for at in range(0, len(use), step):
            i = int(use[at])
            yield i, slice(i, i + step), slice(at, at + step)

    def factors(self, i: int) -> list[Factor]:
        """Factorise the system of plane i, for all ridges, or take it from those that are kept."""
        if i not in self.known:
            if (len(self.known) + 1) * len(self.centre) ** 2 > MOST_FACTORS:
                self.known.clear()
            self.known[i] = list(self._factors(i))
        return self.known[i]

    def _factors(self, i: int) -> Iterator[Factor]:
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
                yield Factor(every, root, floor, np.ones(len(L)), inverse)
        for place in alone.tolist():
            S = self.pairs.hessian(i, self.a[i], self.c[i], ridges[place])
            if self.check:
                self._refuse_other_plane(i, S)
            # Planes of less than full rank are the shortest in units of the columns.
            size, scaled = np.diag(S), self.alphas[place] == 0 and not self.same_scale
            scale = np.sqrt(np.where(size > 0, size, 1.0)) if scaled else np.ones(len(S))
            lower, failed = lapack.dpotrf(S, lower=True, clean=True)
            if not failed and (np.diag(lower) ** 2 > cutoff(len(S)) * size).all():
                root = lapack.dtrtri(lower, lower=True)[0].T
            else:
                values, vectors, _ = decompose(S, not scaled)
                root = vectors / np.sqrt(values) / scale[:, None]
            root, here = np.vstack([root, -middle @ root]), slice(place, place + 1)
            yield Factor(here, root, floor, scale, np.ones((1, root.shape[1])))

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
