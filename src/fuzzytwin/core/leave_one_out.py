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
from scipy import linalg, sparse
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import effective_distances, memberships, plane_norms, plane_ratio
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.pairs import cubed_ratios
from fuzzytwin.core.planes import Pairs, Planes, cutoff

# Leverages nearer to 1 than this are 1: of their difference no digit would be right.
FULL_LEVERAGE = 1e-12
# A block of rows holds about so many numbers, and systems are taken together up to so many columns.
BLOCK_NUMBERS = 1 << 17
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
class RowWeights:
    """Weights of the rows of a fit, class weights included.

    Parameters
    ----------
    codes : ndarray of shape (n,) or None
        Classes; None where the weights are tables.
    own, slack : ndarray of shape (n,) or (n, K)
        Weights s and s mu.
    n_classes : int
        Number of classes K.
    part : ndarray of shape (n,), default=None
        The part of each row that is left out, above 0; None: all of it. (Of a row that stands
        for several, one.)
    """

    codes: Array | None
    own: Array
    slack: Array
    n_classes: int
    part: Array | None = None

    def totals(self, weight: Array) -> Array:
        """Add up weights by class."""
        if self.codes is None:
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, minlength=self.n_classes)

    def counts(self, classes: Array) -> Array:
        """Count the rivals and the own rows of each plane that have weight: (2, n_planes)."""
        k, j = classes.T
        own = self.totals((self.own > 0).astype(float))
        if self.codes is None:
            return np.array([(_rivals_of(self.slack, k, j) > 0).sum(axis=0), own[k]])
        same = self.slack is self.own
        slack = own if same else self.totals((self.slack > 0).astype(float))
        return np.array([_rivals_of(slack[None], k, j)[0], own[k]])

    def groups(self, classes: Array, only: Array | None) -> Iterator[tuple[Array | None, Array]]:
        """Yield rows (None: all) and the planes that they take part in."""
        if self.codes is None or len(classes) <= self.n_classes:
            yield only, np.arange(len(classes))
            return
        codes = self.codes if only is None else self.codes[only]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(self.n_classes + 1))
        for k in range(self.n_classes):
            rows = order[ends[k] : ends[k + 1]]
            rows = rows if only is None else only[rows]
            yield rows, np.flatnonzero((classes == k).any(axis=1))

    def in_planes(
        self, index: Any, classes: Array, own_unit: Array, rival_unit: Array
    ) -> tuple[Array, Array]:
        """Return weights v (what is left out) and targets t of some rows in planes, each (p, m).

        Soft labels make a row own and rival at the same time: that is one row with the sum of
        both weights and their mean target.
        """
        k, j = classes.T
        own, slack = self.own[index], self.slack[index]
        if self.part is not None:
            part = self.part[index] if self.codes is not None else self.part[index][:, None]
            own, slack = own * part, slack * part
        if self.codes is not None:
            mine = self.codes[index] == k[:, None]
            v = np.where(mine, own * own_unit[:, None], slack * rival_unit[:, None])
            return v, np.subtract(mine, 1.0)
        v_own = own[:, k].T * own_unit[:, None]
        v = v_own + _rivals_of(slack, k, j).T * rival_unit[:, None]
        return v, np.divide(v_own, v, out=np.zeros_like(v), where=v > 0) - 1

    def lonely(self, index: Any, classes: Array, counts: Array) -> list[Array]:
        """Find the planes (p, m) that lose their only rival, or their only own row, with a row."""
        k, j = classes.T
        own, slack = self.own[index], self.slack[index]
        if self.codes is None:
            parts = [_rivals_of(slack, k, j).T, own[:, k].T]
        else:
            mine = self.codes[index] == k[:, None]
            parts = [np.where(mine, 0.0, slack), np.where(mine, own, 0.0)]
        whole = True if self.part is None else self.part[index] >= 1
        return [
            (part > 0) & (count == 1)[:, None] & whole
            for part, count in zip(parts, counts, strict=True)
        ]


def _rivals_of(table: Array, k: Array, j: Array) -> Array:
    """Take columns j of a table by class; where j is -1, add up all columns but k."""
    if (j < 0).any():
        return np.asarray(table @ (1.0 - np.eye(table.shape[1])))[:, k]
    return table[:, j]


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
            columns = max(*(chunk.root.shape[1] for chunk in chunks), len(classes))
            size = max(256, BLOCK_NUMBERS // columns)
            buffer = np.empty((min(size, n), d + 1))
            for index in cut(rows, n, size):
                B = centred(Z, index, systems.centre, buffer)
                f = np.matmul(systems.values, B.T)
                lengths = np.empty_like(f) if norms else None
                if lengths is not None:
                    lengths[...] = systems.norms[:, None]
                for chunk in chunks:
                    some = chunk.planes
                    v, t = weights.in_planes(index, classes[some], *chunk.units)
                    before = f[chunk.at]
                    if checked:
                        sums[0, some] += np.einsum("pm,pm->p", v, before)
                        sums[1, some] += np.einsum("pm,pm,pm->p", v, before, t)
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

    A row is [x - centre, 1] here, so that ``values`` (n_planes, d + 1) gives f of all planes.
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
        self.known: dict[int, _Factor] = {}

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
            factors[u].root @ (w @ factors[u].w_root)
            for u, w in zip(system, coef / unit, strict=True)
        ]
        ends = np.cumsum([0, *(factor.root.shape[1] for factor in factors)])
        parts = [slice(*ends[u : u + 2]) for u in range(len(factors))]
        select = np.zeros((2, len(factors), ends[-1]))
        for u, (at, factor) in enumerate(zip(parts, factors, strict=True)):
            select[0, u, at] = 1.0
            select[1, u, at] = 0.0 if factor.diagonal is None else factor.diagonal
        first, last = int(planes[0]), int(planes[-1])
        following = last - first + 1 == len(planes)
        return Chunk(
            planes, slice(first, last + 1) if following else planes,
            system, coef, unit, factors, parts,
            np.concatenate([factor.root for factor in factors], axis=1),
            np.array(along), select.reshape(-1, ends[-1]),
            (self.own_unit[planes], self.rival_unit[planes]), self.many_rows,
        )  # fmt: skip

    def factor(self, i: int) -> _Factor:
        """Factorise one system, or take it from those that are kept."""
        if i not in self.known:
            if (len(self.known) + 1) * len(self.centre) ** 2 > MOST_FACTORS:
                self.known.clear()
            S = self.pairs.hessian(i, *(float(part[i, 0]) for part in self.coefficients))
            scaled = self.model.alpha == 0 and not self.model.one_unit
            factor = _Factor.of(
                S, self.middle[i], self.total[i], scaled=scaled, rotate=self.many_rows
            )
            self._refuse_other_plane(i, factor)
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

    def _refuse_other_plane(self, i: int, factor: _Factor) -> None:
        """Raise a ValueError unless w minimises the objective, as it did when it was learned."""
        a, c, _ = (float(part[i, 0]) for part in self.coefficients)
        w, D = self.model.planes.coef[i], self.pairs.D[i]
        best = (a * (c / self.total[i])) * (factor.w_root @ (D @ factor.w_root))
        if np.abs(w - best).max(initial=0.0) > 1e-4 * np.abs(best).max(initial=0.0):
            raise ValueError(
                f"C={self.model.C.tolist()} and alpha={self.model.alpha:g} are not those that the "
                "planes were learned with; set them back or fit again."
            )


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some planes, and their systems, factorised."""

    planes: Array
    at: Array | slice  # the planes, as a slice where they follow each other
    system: Array  # of each plane, its place among the factors
    coef: Array
    unit: Array  # |w|, so that no square overflows
    factors: list[_Factor]
    parts: list[slice]  # of each factor, its columns of the root
    root: Array
    along: Array  # w.g of a row is the product with this, in units of |w|
    select: Array
    units: tuple[Array, Array]
    rotated: bool

    def leave_out(self, B: Array, v: Array, t: Array, f: Array, norms: bool) -> tuple[Array, Array]:
        """Compute values and norms of the planes without the row itself; all are (p, m).

        Parameters
        ----------
        B : ndarray of shape (m, d + 1)
            Rows.
        v, t : ndarray
            Their weights and targets.
        f : ndarray
            Values of the planes of all rows.
        norms : bool
            Whether norms are needed.
        """
        h, gg = self._squares(B, norms)
        rest = v * h[self.system]
        np.subtract(1.0, rest, out=rest)
        full = np.zeros((len(v), 0), dtype=bool)
        if rest.min(initial=1.0) <= FULL_LEVERAGE:
            full = (rest <= FULL_LEVERAGE) & (v > 0)
            rest[full] = 1.0
        error = t - f
        error /= rest
        values, lengths = t - error, error
        if norms:
            step = np.multiply(v, error, out=rest)
            step /= self.unit
            lengths = gg[self.system] * step
            lengths -= 2 * np.matmul(self.along, B.T)
            lengths *= step
            lengths += ((self.coef / self.unit) ** 2).sum(axis=1)[:, None]
            np.sqrt(np.maximum(lengths, 0.0, out=lengths), out=lengths)
            lengths *= self.unit
        for p in np.flatnonzero(full.any(axis=1)).tolist():
            factor, row, w = self.factors[self.system[p]], full[p], self.coef[p]
            open_t, G = factor.open_direction(B[row] @ factor.root, w)
            values[p, row] = f[p, row] - open_t / v[p, row]
            if norms:
                lengths[p, row] = plane_norms(w - open_t[:, None] * G)
        return values, lengths

    def _squares(self, B: Array, norms: bool) -> tuple[Array, Array]:
        """Compute z' H^-1 z and |g|^2 of rows for each system, each (n_systems, m)."""
        Y = B @ self.root
        if norms and not self.rotated:
            h = np.array([np.einsum("ij,ij->i", Y[:, at], Y[:, at]) for at in self.parts])
            pairs = zip(self.parts, self.factors, strict=True)
            G = [Y[:, at] @ factor.w_root.T for at, factor in pairs]
            return h, np.array([np.einsum("ij,ij->i", g, g) for g in G])
        Y *= Y
        both = np.matmul(self.select, Y.T)
        return both[: len(self.factors)], both[len(self.factors) :]


@dataclass(frozen=True, eq=False)
class _Factor:
    """The inverse of one plane's H about the centre: ``root root'``, rows for w, then for b.

    ``scale`` are the units of the columns in which |w| is least where the rank is not full;
    ``diagonal`` that of w_root' w_root, where its columns are orthogonal.
    """

    root: Array
    scale: Array
    diagonal: Array | None

    @classmethod
    def of(cls, S: Array, middle: Array, total: float, *, scaled: bool, rotate: bool) -> _Factor:
        """Factorise S, and move from the plane's own mean to the centre.

        Parameters
        ----------
        S : ndarray of shape (d, d)
            See `fuzzytwin.core.planes.Pairs.hessian`.
        middle : ndarray of shape (d,)
            Mean of the plane's rows, from the centre.
        total : float
            Sum of their weights.
        scaled : bool
            Whether a plane of less than full rank is the shortest in units of its columns.
        rotate : bool
            Whether to make the columns of the root orthogonal: then |g| needs no product.
        """
        d = len(S)
        size = np.diag(S).copy()
        scale = np.sqrt(size) if scaled else np.ones(d)
        scale[scale == 0] = 1.0
        L, failed = lapack.dpotrf(S, lower=True, clean=True)
        if not failed and (np.diag(L) ** 2 > cutoff(d) * size).all():
            root = lapack.dtrtri(L, lower=True)[0].T
        else:
            values, vectors = linalg.eigh(S / scale / scale[:, None], check_finite=False)
            keep = values > cutoff(d) * max(values[-1], 0.0)
            root = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
        diagonal = None
        if rotate:
            diagonal, vectors = linalg.eigh(root.T @ root, check_finite=False)
            root, diagonal = root @ vectors, np.append(diagonal, 0.0)
        of_b = np.zeros((d + 1, 1))
        of_b[-1] = 1 / np.sqrt(total)
        return cls(np.hstack([np.vstack([root, -middle @ root]), of_b]), scale, diagonal)

    @property
    def w_root(self) -> Array:
        """Return the rows of the root that belong to w."""
        return self.root[:-1]

    def open_direction(self, Y: Array, w: Array) -> tuple[Array, Array]:
        """Compute g of rows given as ``[x - centre, 1] @ root``, and t of the shortest w - t g."""
        G = Y @ self.w_root.T
        gg = np.einsum("ij,ij->i", G * self.scale, G * self.scale)
        t = np.divide(G @ (self.scale**2 * w), gg, out=np.zeros_like(gg), where=gg > 0)
        return t, G


def common_centre(own: ClassMoments) -> Array:
    """Choose a point near to all rows: their mean."""
    share = own.weight / (own.weight.sum() or 1.0)
    return np.asarray(share @ own.origin + share @ own.offset)


def cut(rows: Array | None, n: int, size: int) -> list[Any]:
    """Cut rows (None: all) into blocks."""
    if rows is None:
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def centred(Z: Any, index: Any, centre: Array, buffer: Array) -> Array:
    """Return rows as [z - centre, 1] in float64, in the buffer."""
    block = Z[index]
    if sparse.issparse(block):
        block = block.toarray()
    B = buffer[: len(block)]
    np.subtract(block, centre, out=B[:, :-1])
    B[:, -1] = 1.0
    return B


def refuse_other_weights(
    weights: RowWeights, own: ClassMoments, slack: ClassMoments, names: Sequence[object] | Array
) -> None:
    """Raise a ValueError unless total weights by class are those of the fit."""
    parts = [(weights.own, own)]
    if weights.slack is not weights.own:
        parts.append((weights.slack, slack))
    for given, moments in parts:
        total, fitted = weights.totals(given), moments.weight
        other = np.flatnonzero(np.abs(total - fitted) > 1e-9 * np.maximum(total, fitted))
        if len(other):
            k = int(other[0])
            raise ValueError(
                f"the rows of class {names[k]} weigh {total[k]:g} with their degrees and class "
                f"weights, but the model was fitted on {fitted[k]:g} of that class; give all rows "
                "of that fit, with the sample_weight and membership they had."
            )
