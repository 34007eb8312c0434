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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import effective_distances, memberships, plane_norms, plane_ratio
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.pairs import pair_memberships
from fuzzytwin.core.planes import Pairs, Planes, cutoff

# Leverages nearer to 1 than this are 1: of their difference no digit would be right.
FULL_LEVERAGE = 1e-12
# A block of rows holds about so many numbers, and planes are taken together up to so many columns.
BLOCK_NUMBERS = 1 << 17
CHUNK_COLUMNS = 160
# Factors of so many numbers are kept for the next class; others are computed again.
MOST_FACTORS = 1 << 24
# With so many rows for each column, one more decomposition saves a product for each row.
MANY_ROWS = 8
# Means of the rows may differ by so much of the spread from those of the fit.
SAME_MEAN = 1e-6


@dataclass(frozen=True, eq=False)
class LooValues:
    """Values of all planes at some rows, each by planes that were learned without that row.

    ``f`` and ``norms`` have the shape (m, n_planes); norms |w| are None where they were not
    asked for. A plane that loses its only own row is infinitely far, f = -inf; one that loses
    its only rival is everywhere, f = 0.
    """

    index: Array
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
        codes: Array | None,
        own_weight: Array,
        slack_weight: Array,
        *,
        norms: bool = True,
        names: Sequence[object] | Array | None = None,
    ) -> Iterator[LooValues]:
        """Compute plane values of every row, by planes that never saw it, in blocks of rows.

        Parameters
        ----------
        Z : ndarray, CSR matrix or mapped rows of shape (n, d)
            Features of the rows of the fit.
        codes : ndarray of shape (n,) or None
            Classes; None where the weights are tables.
        own_weight, slack_weight : ndarray of shape (n,) or (n, K)
            Weights s and s mu, class weights included.
        norms : bool, default=True
            Whether |w| is needed.
        names : sequence, default=None
            Names of the classes for an error.

        Yields
        ------
        LooValues
            Together they cover all rows.

        Raises
        ------
        ValueError
            Where total weights or means of a class are not those of the moments: at once, or
            after the last block.
        """
        K, (n, d) = len(self.C), Z.shape
        names = range(K) if names is None else names
        weights = _RowWeights(self.planes.classes, codes, own_weight, slack_weight, K)
        _refuse_other_weights(weights.totals(own_weight), self.own.weight, names)
        _refuse_other_weights(weights.totals(slack_weight), self.slack.weight, names)
        systems = _Systems(self, many_rows=n > K * MANY_ROWS * d)
        sums = np.zeros((K, d))
        for k, rows in weights.groups(n):
            use = weights.planes_of(k)
            together = max(1, CHUNK_COLUMNS // (d + 1))
            columns = max(min(len(use), together) * (d + 1), len(self.planes.coef))
            size = max(256, BLOCK_NUMBERS // columns)
            for start in range(0, len(rows), size):
                index = rows[start : start + size]
                B = _centred(Z, index, systems.centre)
                sums[slice(None) if k is None else k] += own_weight[index].T @ B[:, :-1]
                f = B @ systems.values
                lengths = np.tile(systems.norms, (len(B), 1)) if norms else None
                for first in range(0, len(use), together):
                    some = use[first : first + together]
                    v_own, v_rival = weights.of(index, k, some)
                    systems.leave_out(some, B, v_own, v_rival, f, lengths)
                    for part, count, value in (
                        (v_rival, weights.rivals[some], 0.0),
                        (v_own, weights.own[some], -np.inf),
                    ):
                        row, at = np.nonzero((part > 0) & (count == 1))
                        f[row, some[at]] = value
                        if lengths is not None:
                            lengths[row, some[at]] = 0.0
                yield LooValues(index, f, lengths)
        _refuse_other_means(sums, self.own, systems.centre, names)


def loo_memberships(
    blocks: Iterator[LooValues],
    n_rows: int,
    n_classes: int,
    widths: Callable[[Array], Array] | None = None,
) -> Array:
    """Compute memberships (eq29) of every row from `LeaveOneOut.values`.

    Parameters
    ----------
    blocks : iterator of LooValues
        With norms for the rule "distance", without for "residual".
    n_rows, n_classes : int
        Their numbers.
    widths : callable, default=None
        From indices of rows to widths g of shape (m, n_planes), of fuzzy planes.

    Returns
    -------
    ndarray of shape (n, K)
    """
    out = np.empty((n_rows, n_classes))
    for block in blocks:
        a = np.abs(block.f)
        g = None if widths is None else np.abs(widths(block.index))
        if block.norms is not None:
            # Where no plane has a direction, distances are abs(f), as in `fuzzy_distances`.
            norms = np.where(block.norms.any(axis=1, keepdims=True), block.norms, 1.0)
            a = plane_ratio(a, norms)
            g = None if g is None else plane_ratio(g, norms)
        if g is not None:
            a = effective_distances(a, g)
        paired = n_classes > 2 and a.shape[1] > n_classes
        out[block.index] = pair_memberships(a, n_classes) if paired else memberships(a)
    return out


@dataclass(frozen=True, eq=False)
class _RowWeights:
    """Weights of rows in every plane, without the units of the systems."""

    classes: Array
    codes: Array | None
    s: Array
    s_mu: Array
    n_classes: int

    def totals(self, weight: Array) -> Array:
        """Add up weights by class."""
        if self.codes is None:
            return np.asarray(weight.sum(axis=0))
        return np.bincount(self.codes, weight, minlength=self.n_classes)

    @cached_property
    def own(self) -> Array:
        """Count the own rows of each plane that have weight."""
        return self.totals((self.s > 0).astype(float))[self.classes[:, 0]]

    @cached_property
    def rivals(self) -> Array:
        """Count the rivals of each plane that have weight."""
        k, j = self.classes.T
        if self.codes is None:
            return (_rivals_of(self.s_mu, k, j) > 0).sum(axis=0)
        return _rivals_of(self.totals((self.s_mu > 0).astype(float))[None], k, j)[0]

    def groups(self, n_rows: int) -> Iterator[tuple[int | None, Array]]:
        """Yield each class and its rows; all rows at once where they belong to several."""
        if self.codes is None:
            yield None, np.arange(n_rows)
            return
        order = np.argsort(self.codes, kind="stable")
        ends = np.searchsorted(self.codes[order], np.arange(self.n_classes + 1))
        for k in range(self.n_classes):
            yield k, order[ends[k] : ends[k + 1]]

    def planes_of(self, k: int | None) -> Array:
        """Find the planes that rows of class k take part in."""
        if k is None or (self.classes[:, 1] < 0).any():
            return np.arange(len(self.classes))
        return np.flatnonzero((self.classes == k).any(axis=1))

    def of(self, index: Array, k: int | None, planes: Array) -> tuple[Array, Array]:
        """Return the weights of rows as own rows and as rivals of some planes, each (m, p)."""
        own, rival = self.classes[planes].T
        s, s_mu = self.s[index], self.s_mu[index]
        if k is None:
            return s[:, own], _rivals_of(s_mu, own, rival)
        mine = (own == k).astype(float)
        return s[:, None] * mine, s_mu[:, None] * (1 - mine)


def _rivals_of(table: Array, k: Array, j: Array) -> Array:
    """Take columns j of a table by class; where j is -1, add up all columns but k."""
    if (j < 0).any():
        return np.asarray(table @ (1.0 - np.eye(table.shape[1])))[:, k]
    return table[:, j]


class _Systems:
    """The systems of all planes about one centre, factorised where they are used.

    A row is [x - centre, 1] here, so that ``values`` (d + 1, n_planes) gives f of all planes.
    """

    def __init__(self, model: LeaveOneOut, *, many_rows: bool) -> None:
        self.model, self.many_rows = model, many_rows
        planes, own, slack = model.planes, model.own, model.slack
        self.pairs = pairs = Pairs.of(own, slack, planes.classes)
        C, alpha = model.C[planes.classes[:, :1]], np.array([[model.alpha]])
        self.coefficients = a, c, _ = pairs.coefficients(C, alpha)
        self.total = np.where(a + c > 0, a + c, 1.0)[:, 0]
        share = a[:, 0] / self.total
        self.own_unit, self.rival_unit = (
            np.divide(part, weight, out=np.zeros_like(part), where=weight > 0)[:, 0]
            for part, weight in ((a, pairs.own_weight), (c, pairs.rival_weight))
        )
        whole = own.weight / (own.weight.sum() or 1.0)
        self.centre = whole @ own.origin + whole @ own.offset
        # What means and centre have in common cancels before anything is rounded.
        own_mean = (own.origin - self.centre) + own.offset
        self.middle = own_mean[pairs.k] - (1 - share)[:, None] * pairs.D
        constant = share - 1 - (self.middle * planes.coef).sum(axis=1)
        self.values = np.column_stack([planes.coef, constant]).T
        self.norms = plane_norms(planes.coef)
        self.known: dict[int, _Factor] = {}

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

    def _refuse_other_plane(self, i: int, factor: _Factor) -> None:
        """Raise a ValueError unless w minimises the objective, as it did when it was learned."""
        a, c, _ = (float(part[i, 0]) for part in self.coefficients)
        w, D = self.model.planes.coef[i], self.pairs.D[i]
        best = (a * c / self.total[i]) * (factor.w_root @ (D @ factor.w_root))
        if np.abs(w - best).max(initial=0.0) > 1e-4 * np.abs(best).max(initial=0.0):
            raise ValueError(
                f"C={self.model.C.tolist()} and alpha={self.model.alpha:g} are not those that the "
                "planes were learned with; set them back or fit again."
            )

    def leave_out(
        self, some: Array, B: Array, v_own: Array, v_rival: Array, f: Array, norms: Array | None
    ) -> None:
        """Replace values and norms of some planes by those without the row itself."""
        factors = [self.factor(i) for i in some.tolist()]
        v_own, v_rival = v_own * self.own_unit[some], v_rival * self.rival_unit[some]
        v = v_own + v_rival
        t = -np.divide(v_rival, v, out=np.zeros_like(v), where=v > 0)
        roots = [factor.root for factor in factors]
        Y = B @ (roots[0] if len(roots) == 1 else np.concatenate(roots, axis=1))
        ends = np.cumsum([0, *(root.shape[1] for root in roots)]).tolist()
        parts = [Y[:, start:end] for start, end in pairwise(ends)]
        rest = 1 - v * np.column_stack([np.einsum("ij,ij->i", y, y) for y in parts])
        full = (rest <= FULL_LEVERAGE) & (v > 0)
        rest[full] = 1.0
        before = f[:, some]
        error = (t - before) / rest
        f[:, some] = t - error
        if norms is not None:
            # w and g in units of |w|, so that no square overflows
            unit = np.where(self.norms[some] > 0, self.norms[some], 1.0)
            step = v * error / unit
            w = self.model.planes.coef[some] / unit[:, None]
            wg = np.column_stack(
                [
                    y @ (w_i @ factor.w_root)
                    for y, w_i, factor in zip(parts, w, factors, strict=True)
                ]
            )
            gg = np.column_stack(
                [factor.squares(y) for y, factor in zip(parts, factors, strict=True)]
            )
            square = (w * w).sum(axis=1) - step * (2 * wg - step * gg)
            norms[:, some] = unit * np.sqrt(np.maximum(square, 0.0))
        for p in np.flatnonzero(full.any(axis=0)).tolist():
            row, at = full[:, p], some[p]
            G = parts[p][row] @ factors[p].w_root.T
            w_p, scale = self.model.planes.coef[at], factors[p].scale
            gg_p = np.einsum("ij,ij->i", G * scale, G * scale)
            t_p = np.divide(
                G @ (scale * scale * w_p), gg_p, out=np.zeros_like(gg_p), where=gg_p > 0
            )
            f[row, at] = before[row, p] - t_p / v[row, p]
            if norms is not None:
                norms[row, at] = plane_norms(w_p - t_p[:, None] * G)


@dataclass(frozen=True, eq=False)
class _Factor:
    """The inverse of one plane's H about the centre: ``root root'``, rows for w, then for b.

    ``scale`` are the units of the columns in which |w| is least where the rank is not full.
    """

    root: Array
    scale: Array
    diagonal: Array | None  # of w_root' w_root, where its columns are orthogonal

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
        scale = np.sqrt(np.diag(S)) if scaled else np.ones(d)
        scale[scale == 0] = 1.0
        size = np.diag(S).copy()
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
            root = root @ vectors
        of_b = np.zeros((d + 1, 1))
        of_b[-1] = 1 / np.sqrt(total)
        return cls(np.hstack([np.vstack([root, -middle @ root]), of_b]), scale, diagonal)

    @property
    def w_root(self) -> Array:
        """Return the rows of the root that belong to w."""
        return self.root[:-1]

    def squares(self, y: Array) -> Array:
        """Compute |g|^2 of rows given as ``[x - centre, 1] @ root``."""
        if self.diagonal is not None:
            return np.asarray(np.square(y[:, :-1]) @ self.diagonal)
        G = y[:, :-1] @ self.w_root[:, :-1].T
        return np.einsum("ij,ij->i", G, G)


def _centred(Z: Any, index: Array, centre: Array) -> Array:
    """Return rows as [z - centre, 1] in float64."""
    block = Z[index]
    if sparse.issparse(block):
        block = block.toarray()
    B = np.empty((len(index), len(centre) + 1))
    np.subtract(block, centre, out=B[:, :-1])
    B[:, -1] = 1.0
    return B


def _refuse_other_weights(total: Array, fitted: Array, names: Sequence[object] | Array) -> None:
    """Raise a ValueError unless total weights by class are those of the fit."""
    other = np.flatnonzero(np.abs(total - fitted) > 1e-9 * np.maximum(total, fitted))
    if len(other):
        k = int(other[0])
        raise ValueError(
            f"the rows of class {names[k]} weigh {total[k]:g} with their degrees and class "
            f"weights, but the model was fitted on {fitted[k]:g} of that class; give all rows of "
            "that fit, with the sample_weight and membership they had."
        )


def _refuse_other_means(
    sums: Array, own: ClassMoments, centre: Array, names: Sequence[object] | Array
) -> None:
    """Raise a ValueError unless the means of the rows, from the centre, are those of the fit."""
    for k in np.flatnonzero(own.weight > 0).tolist():
        mean = (own.origin[k] - centre) + own.offset[k]
        spread = np.sqrt(np.diag(own.covariance[k])) + np.abs(mean)
        room = SAME_MEAN * spread + 1e-12 * np.abs(own.mean[k])
        other = np.flatnonzero(np.abs(sums[k] / own.weight[k] - mean) > room)
        if len(other):
            raise ValueError(
                f"the rows of class {names[k]} are not those that the model was fitted on (they "
                f"differ in the mean of feature {int(other[0])}); give all rows of that fit."
            )
