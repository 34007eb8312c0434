r"""Values of planes that were learned without the row itself, from one more pass over the rows.

A plane is a weighted ridge regression: rows z = [x 1] with weights v (s of own rows, C s mu of
rivals) have targets t (0 and -1). With H = sum v z z' + alpha R, where R is 1 on w and 0 on b,
and e = t - f(x), the plane without row i has

    t_i - f_(-i)(x_i) = e_i / (1 - h_i),               h_i = v_i z_i' H^-1 z_i,
    w_(-i) = w - v_i e_i / (1 - h_i) S^-1 (x_i - m).

Here b is eliminated: m is the weighted mean of the plane's rows and S = sum v (x - m)(x - m)' +
alpha I, so that h_i = v_i (1 / sum v + (x_i - m)' S^-1 (x_i - m)) keeps its digits far from zero.

A row of leverage h = 1 is one that the plane goes through whatever its target: without it, the
other rows leave one direction open, g = S^-1 (x_i - m), and of w - t g the shortest is taken (in
the scales of the columns where there is no ridge, as a fit does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import NEAR
from fuzzytwin.core.distances import effective_distances, memberships, plane_norms, plane_ratio
from fuzzytwin.core.factors import Chunk, Factor, values_at
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.pairs import cubed_ratios
from fuzzytwin.core.planes import Pairs, Planes
from fuzzytwin.core.row_weights import RowWeights, refuse_other_weights

# A block of rows holds about so many numbers, and systems are taken together up to so many columns.
BLOCK_NUMBERS = 1 << 18
CHUNK_COLUMNS = 160
# Factors of so many numbers are kept for the next class; others are computed again.
MOST_FACTORS = 1 << 24
# With so many rows for each column, one more decomposition saves a product for each row.
MANY_ROWS = 8
# Values at the means of the rows may differ by so much, in units of the margin, from the fit's.
SAME_VALUE = 1e-6


@dataclass(frozen=True, eq=False)
class LooValues:
    """Values of all planes at some rows, each by planes that were learned without that row.

    ``f`` and ``norms`` have the shape (n_planes, m); norms |w| are None where they were not
    asked for. A plane that loses its only own row is infinitely far, f = -inf; one that loses
    its only rival is everywhere, f = 0.
    """

    index: Array | slice
    f: Array
    norms: Array | None


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Planes and the moments they were learned from, ready to leave rows out.

    Parameters
    ----------
    planes : Planes
        What `fuzzytwin.core.planes.crisp_planes` returned; widths are not used.
    own, slack : ClassMoments
        What they were learned from, class weights included.
    C : ndarray of shape (K,)
        Penalty of each class's planes.
    alpha : float
        Ridge.
    one_unit : bool, default=False
        As in `crisp_planes`.
    """

    planes: Planes
    own: ClassMoments
    slack: ClassMoments
    C: Array
    alpha: float
    one_unit: bool = False

    def values(
        self,
        Z: Any,
        weights: RowWeights,
        *,
        norms: bool = True,
        only: Array | None = None,
        names: Sequence[object] | Array | None = None,
    ) -> Iterator[LooValues]:
        """Compute plane values of every row, by planes that never saw it, in blocks of rows.

        Parameters
        ----------
        Z : ndarray, CSR matrix or mapped rows of shape (n, d)
            Features of the rows of the fit.
        weights : RowWeights
            Their classes and weights.
        norms : bool, default=True
            Whether |w| is needed.
        only : ndarray of int, default=None
            The rows to compute values of; None: all.
        names : sequence, default=None
            Names of the classes for an error.

        Yields
        ------
        LooValues
            Together they cover these rows.

        Raises
        ------
        ValueError
            Where total weights or means of a class are not those of the moments: at once, or
            after the last block.
        """
        (n, d), classes = Z.shape, self.planes.classes
        names = range(weights.n_classes) if names is None else names
        refuse_other_weights(weights, self.own, self.slack, names)
        systems = Systems(self, many_rows=n > MANY_ROWS * d * weights.n_classes)
        counts = weights.counts(classes)
        few = (counts == 1).any(axis=0)
        sums, checked = np.zeros((2, len(classes))), only is None and weights.part is None
        for rows, use in weights.groups(classes, only):
            chunks = systems.chunks(use)
            columns = max(d + 1, len(classes))
            size = max(256, BLOCK_NUMBERS // columns)
            buffer = np.empty((min(size, n), d))
            for index in cut(rows, n, size):
                B = centred(Z, index, systems.centre, buffer)
                f = values_at(systems.values, B)
                lengths = np.empty_like(f) if norms else None
                if lengths is not None and len(use) < len(f):
                    lengths[...] = systems.norms[:, None]
                for chunk in chunks:
                    some = chunk.planes
                    v, t = weights.in_planes(index, classes[some], *chunk.units)
                    before = f[chunk.at]
                    if checked:
                        weighted = v * before
                        sums[0, some] += weighted.sum(axis=1)
                        sums[1, some] += np.einsum("pm,pm->p", weighted, t)
                    found = chunk.leave_out(B, v, t, before, norms)
                    f[chunk.at] = found[0]
                    if lengths is not None:
                        lengths[chunk.at] = found[1]
                if few[use].any():
                    lost = weights.lonely(index, classes[use], counts[:, use])
                    for some, value in zip(lost, (0.0, -np.inf), strict=True):
                        plane, row = np.nonzero(some)
                        f[use[plane], row] = value
                        if lengths is not None:
                            lengths[use[plane], row] = 0.0
                yield LooValues(index, f, lengths)
        if checked:
            systems.refuse_other_rows(sums, names)


class LooDistances(NamedTuple):
    """Values and effective distances of some rows, each (n_planes, m): see `LooValues`."""

    index: Any
    f: Array
    a: Array


def loo_distances(
    blocks: Iterable[LooValues], widths: Callable[[Any], Array] | None = None
) -> Iterator[LooDistances]:
    """Compute effective distances (eq29) from `LeaveOneOut.values`.

    Parameters
    ----------
    blocks : iterable of LooValues
        With norms for the rule "distance", without for "residual".
    widths : callable, default=None
        From indices of rows to widths g of shape (m, n_planes), of fuzzy planes.
    """
    for block in blocks:
        a, norms = np.abs(block.f), block.norms
        g = None if widths is None else np.abs(widths(block.index)).T
        if norms is not None and norms.all():
            a /= norms
            g = None if g is None else g / norms
        elif norms is not None:
            # Where no plane has a direction, distances are abs(f), as in `fuzzy_distances`.
            norms = np.where(norms.any(axis=0), norms, 1.0)
            a = plane_ratio(a, norms)
            g = None if g is None else plane_ratio(g, norms)
        yield LooDistances(block.index, block.f, a if g is None else effective_distances(a, g))


def combined(a: Array, n_classes: int) -> Array:
    """Combine effective distances (n_planes, m) into memberships (K, m)."""
    if len(a) > n_classes:
        u = 1.0 / cubed_ratios(a, n_classes)
        return np.asarray(u / u.sum(axis=0))
    if n_classes == 2:
        with np.errstate(invalid="ignore"):
            u = a[::-1] / (a[0] + a[1])
        if np.isfinite(u.sum()):
            return np.asarray(u)
    return memberships(a.T).T


class Systems:
    """The systems of all planes about one centre, factorised where they are used.

    A row is [x - centre, 1] here, so that ``values`` (n_planes, d + 1) gives f of all planes; the
    one is never written down.
    """

    def __init__(self, model: LeaveOneOut, *, many_rows: bool) -> None:
        self.model, self.many_rows = model, many_rows
        planes, own, slack = model.planes, model.own, model.slack
        # With C = 1 and no degrees the two planes of a pair have one system.
        self.mirrored = slack is own and bool((model.C == 1).all() and (planes.classes >= 0).all())
        self.pairs = pairs = Pairs.of(own, slack, planes.classes)
        C, alpha = model.C[planes.classes[:, :1]], np.array([[model.alpha]])
        self.coefficients = a, c, _ = pairs.coefficients(C, alpha)
        self.total = np.where(a + c > 0, a + c, 1.0)[:, 0]
        self.share = share = a[:, 0] / self.total
        self.own_unit, self.rival_unit = (
            np.divide(part, weight, out=np.zeros_like(part), where=weight > 0)[:, 0]
            for part, weight in ((a, pairs.own_weight), (c, pairs.rival_weight))
        )
        self.centre = common_centre(own)
        # What means and centre have in common cancels before anything is rounded.
        own_mean = (own.origin - self.centre) + own.offset
        self.middle = own_mean[pairs.k] - (1 - share)[:, None] * pairs.D
        constant = share - 1 - (self.middle * planes.coef).sum(axis=1)
        self.values = np.column_stack([planes.coef, constant])
        self.norms = plane_norms(planes.coef)
        self.unit = np.where(self.norms > 0, self.norms, 1.0)
        self.known: dict[int, Factor] = {}

    def chunks(self, planes: Array) -> list[Chunk]:
        """Take together so many planes that one product serves them all."""
        step = max(1, CHUNK_COLUMNS // (len(self.centre) + 1)) * (2 if self.mirrored else 1)
        return [self.chunk(planes[i : i + step]) for i in range(0, len(planes), step)]

    def chunk(self, planes: Array) -> Chunk:
        """Factorise the systems of some planes."""
        places, system = np.unique(
            planes - planes % 2 if self.mirrored else planes, return_inverse=True
        )
        factors = [self.factor(i) for i in places.tolist()]
        coef, unit = self.model.planes.coef[planes], self.unit[planes, None]
        along = [
            (coef[mine] / unit[mine]) @ factor.w_root
            for mine, factor in ((system == u, factor) for u, factor in enumerate(factors))
        ]
        first, last = int(planes[0]), int(planes[-1])
        following = last - first + 1 == len(planes)
        return Chunk(
            planes, slice(first, last + 1) if following else planes,
            system, coef, unit, factors, along,
            (self.own_unit[planes], self.rival_unit[planes]),
        )  # fmt: skip

    def factor(self, i: int) -> Factor:
        """Factorise one system, or take it from those that are kept."""
        if i not in self.known:
            if (len(self.known) + 1) * len(self.centre) ** 2 > MOST_FACTORS:
                self.known.clear()
            S = self.pairs.hessian(i, *(float(part[i, 0]) for part in self.coefficients))
            scaled = self.model.alpha == 0 and not self.model.one_unit
            factor = Factor.of(
                S, self.middle[i], self.total[i], scaled=scaled, rotate=self.many_rows
            )
            self._refuse_other_plane(i, S)
            self.known[i] = factor
        return self.known[i]

    def refuse_other_rows(self, sums: Array, names: Sequence[object] | Array) -> None:
        """Raise a ValueError unless planes have the values at class means that they had then.

        `sums` are those of v f and v t f: a f(p) + c f(q) and -c f(q), with f(p) =
        t_mean + c / (a + c) w.D and f(q) = t_mean - a / (a + c) w.D.
        """
        a, c, _ = (part[:, 0] for part in self.coefficients)
        wD = (self.model.planes.coef * self.pairs.D).sum(axis=1)
        at_rivals = -(c / self.total) * (c + a * wD)
        room = SAME_VALUE * (self.total + a * (c / self.total) * np.abs(wD))
        other = np.abs(sums[1] + at_rivals) > room
        other |= np.abs(sums[0] + c) > room
        if other.any():
            k = self.model.planes.classes[np.flatnonzero(other)[0], 0]
            raise ValueError(
                f"the rows of class {names[k]} or of its rivals have another mean than those that "
                "the model was fitted on; give all rows of that fit, with the labels they had."
            )

    def _refuse_other_plane(self, i: int, S: Array) -> None:
        """Raise a ValueError unless w minimises the objective, as it did when it was learned.

        That is S w = a c / (a + c) D, to the rounding of its terms: w itself may have lost digits
        where S is nearly singular.
        """
        a, c, _ = (float(part[i, 0]) for part in self.coefficients)
        w, right = self.model.planes.coef[i], (a * (c / self.total[i])) * self.pairs.D[i]
        size = np.abs(S) @ np.abs(w) + np.abs(right)
        if (np.abs(S @ w - right) > SAME_VALUE * size.max(initial=0.0)).any():
            raise ValueError(
                f"C={self.model.C.tolist()} and alpha={self.model.alpha:g} are not those that the "
                "planes were learned with; set them back or fit again."
            )


def common_centre(own: ClassMoments) -> Array:
    """Choose a point near to all rows: their mean, or zero where that is as near."""
    share = own.weight / (own.weight.sum() or 1.0)
    mean = np.asarray(share @ own.origin + share @ own.offset)
    spread = share @ np.diagonal(own.covariance, axis1=1, axis2=2)
    return np.zeros_like(mean) if (mean**2 <= NEAR * spread).all() else mean


def cut(rows: Array | None, n: int, size: int) -> list[Any]:
    """Cut rows (None: all) into blocks."""
    if rows is None:
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def centred(Z: Any, index: Any, centre: Array, buffer: Array) -> Array:
    """Return rows less the centre in float64: in the buffer, or as they are where it is zero."""
    block = Z[index]
    if sparse.issparse(block):
        block = block.toarray()
    if block.dtype == np.float64 and not centre.any():
        return np.asarray(block)
    return np.subtract(block, centre, out=buffer[: len(block)])
