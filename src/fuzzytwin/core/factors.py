"""Planes with the inverses of their systems, as products of roots: ready to leave rows out.

See `fuzzytwin.core.leave_one_out` for the formulas. A plane's leverages and norms cost one product
of the rows with a root, 2 n d^2 operations; both planes of a pair share it where C = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.planes import cutoff

# Leverages nearer to 1 than this are 1: of their difference no digit would be right.
FULL_LEVERAGE = 1e-12
# A strip of a block holds so many numbers, but no fewer rows than this.
STRIP_NUMBERS = 1 << 14
MIN_STRIP = 128


@dataclass(frozen=True, eq=False)
class Factor:
    """The inverse of one plane's H about the centre, ``root root'`` but for 1 / sum v of b alone.

    ``root`` (d + 1, r) has rows for w, then one for b, so that z' H^-1 z of a row [x - centre, 1]
    is ``floor`` plus the squared length of its product with the root. ``scale`` are the units of
    the columns in which |w| is least where the rank is not full; ``diagonal`` that of
    w_root' w_root, where its columns are orthogonal.
    """

    root: Array
    floor: float
    scale: Array
    diagonal: Array | None

    @classmethod
    def of(cls, S: Array, middle: Array, total: float, *, scaled: bool, rotate: bool) -> Factor:
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
            root = root @ vectors
        return cls(np.vstack([root, -middle @ root]), 1 / total, scale, diagonal)

    @property
    def sums(self) -> Array:
        """Return what turns squares of ``[x - centre, 1] @ root`` into lengths.

        The first row gives z' H^-1 z; the second, where columns are orthogonal, |g|^2.
        """
        ones = np.ones((1, self.root.shape[1]))
        return ones if self.diagonal is None else np.vstack([ones, self.diagonal])

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


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some planes, and their systems, factorised."""

    planes: Array
    at: Array | slice  # the planes, as a slice where they follow each other
    system: Array  # of each plane, its place among the factors
    coef: Array
    unit: Array  # |w|, so that no square overflows
    factors: list[Factor]
    along: list[Array]  # of each factor, w.g of its planes by the product with the root
    units: tuple[Array, Array]

    def leave_out(self, B: Array, v: Array, t: Array, f: Array, norms: bool) -> tuple[Array, Array]:
        """Compute values and norms of the planes without the row itself; all are (p, m).

        Parameters
        ----------
        B : ndarray of shape (m, d)
            Rows, less the centre.
        v, t : ndarray
            Their weights and targets.
        f : ndarray
            Values of the planes of all rows.
        norms : bool
            Whether norms are needed.
        """
        h, gg, wg = self._products(B, norms)
        rest = h[self.system] if len(h) < len(v) else h
        rest *= v
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
            lengths = gg[self.system] if len(gg) < len(v) else gg
            lengths *= step
            lengths -= np.multiply(2, wg, out=wg)
            lengths *= step
            lengths += ((self.coef / self.unit) ** 2).sum(axis=1)[:, None]
            np.sqrt(np.maximum(lengths, 0.0, out=lengths), out=lengths)
            lengths *= self.unit
        for p in np.flatnonzero(full.any(axis=1)).tolist():
            factor, row, w = self.factors[self.system[p]], full[p], self.coef[p]
            open_t, G = factor.open_direction(affine(B[row], factor.root), w)
            values[p, row] = f[p, row] - open_t / v[p, row]
            if norms:
                lengths[p, row] = plane_norms(w - open_t[:, None] * G)
        return values, lengths

    def _products(self, B: Array, norms: bool) -> tuple[Array, Array, Array]:
        """Compute z' H^-1 z and |g|^2 of rows in each system, and w.g / |w| in each plane.

        Strip by strip of the rows, so that all products of a strip find it in the cache.
        """
        m, d = B.shape
        both, wg = np.empty((len(self.factors), 2, m)), np.empty((len(self.planes) * norms, m))
        size = min(strip_rows(d), m)
        ranks = [factor.root.shape[1] for factor in self.factors]
        room = np.empty((2, size * max(ranks)))
        sums = [factor.sums for factor in self.factors]
        # Planes of one system follow each other.
        ends = np.searchsorted(self.system, np.arange(len(self.factors) + 1)).tolist()
        for start in range(0, m, size):
            here = slice(start, min(start + size, m))
            rows = B[here]
            for u, (factor, r) in enumerate(zip(self.factors, ranks, strict=True)):
                y, yy = room[:, : len(rows) * r].reshape(2, len(rows), r)
                np.matmul(rows, factor.w_root, out=y)
                y += factor.root[-1]
                np.multiply(y, y, out=yy)
                np.matmul(sums[u], yy.T, out=both[u, : len(sums[u]), here])
                if norms:
                    np.matmul(self.along[u], y.T, out=wg[ends[u] : ends[u + 1], here])
                    if factor.diagonal is None:
                        G = y @ factor.w_root.T
                        np.einsum("ij,ij->i", G, G, out=both[u, 1, here])
        both[:, 0] += np.array([[factor.floor] for factor in self.factors])
        return both[:, 0], both[:, 1], wg


def strip_rows(n_features: int) -> int:
    """Choose how many rows to multiply at once: few, so that products stay in the nearest cache."""
    return max(MIN_STRIP, STRIP_NUMBERS // max(n_features, 1))


def values_at(values: Array, B: Array) -> Array:
    """Compute the values (n_planes, m) of planes given as rows [w, b], strip by strip."""
    m, size = len(B), strip_rows(B.shape[1])
    f = np.empty((len(values), m))
    for start in range(0, m, size):
        np.matmul(values[:, :-1], B[start : start + size].T, out=f[:, start : start + size])
    f += values[:, -1:]
    return f


def affine(B: Array, L: Array) -> Array:
    """Multiply rows [b, 1] by a matrix."""
    Y: Array = B @ L[:-1]
    Y += L[-1]
    return Y
