r"""Leave-one-out of a whole grid: for each plane and C, one decomposition serves every ridge.

About the mean m of a plane's rows, S = S_0 + alpha I. With S_0 = U L U' and y = U' (x - m),

    (x - m)' S^-1 (x - m) = sum_j y_j^2 / (L_j + alpha),
    |S^-1 (x - m)|^2 = sum_j y_j^2 / (L_j + alpha)^2,

so that leverages and norms (see `fuzzytwin.core.leave_one_out`) of all ridges are two products of
the rows' squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.factors import affine
from fuzzytwin.core.leave_one_out import (
    BLOCK_NUMBERS,
    MOST_FACTORS,
    LeaveOneOut,
    Systems,
    centred,
    cut,
)
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, crisp_grid, plane_classes
from fuzzytwin.core.row_weights import RowWeights, refuse_other_weights

# Below this part of the greatest eigenvalue, a ridge is solved for by itself, with more digits.
SMALL_RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class LooGridValues:
    """Values of the planes of all points at some rows, by planes learned without that row.

    ``f`` and ``norms`` have the shape (n_alphas, n_Cs, n_planes, m); norms are None where they
    were not asked for. See `fuzzytwin.core.leave_one_out.LooValues`.
    """

    index: Any
    f: Array
    norms: Array | None


def loo_grid(
    Z: Any,
    weights: RowWeights,
    own: ClassMoments,
    slack: ClassMoments,
    Cs: Array,
    alphas: Array,
    *,
    multi_class: str = "ovo",
    one_unit: bool = False,
    norms: bool = True,
    names: Sequence[object] | Array | None = None,
) -> Iterator[LooGridValues]:
    """Compute leave-one-out values of all planes for every alpha and C, in blocks of rows.

    A plane depends on the C of its own class alone, so these values serve a grid over the C of
    each class too.

    Parameters
    ----------
    Z : ndarray, CSR matrix or mapped rows of shape (n, d)
        Features of the rows.
    weights : RowWeights
        Their classes and weights, class weights included.
    own, slack : ClassMoments
        Moments of these rows with these weights.
    Cs, alphas : ndarray
        Axes of the grid.
    multi_class, one_unit
        As in `fuzzytwin.core.planes.crisp_grid`.
    norms : bool, default=True
        Whether |w| is needed.
    names : sequence, default=None
        Names of the classes for an error.

    Yields
    ------
    LooGridValues
        Together they cover all rows.
    """
    (n, d), K = Z.shape, weights.n_classes
    names = range(K) if names is None else names
    refuse_other_weights(weights, own, slack, names)
    classes = plane_classes(K, multi_class)
    coef, intercept = crisp_grid(own, slack, Cs, alphas, one_unit=one_unit, multi_class=multi_class)
    systems = [
        _OneC(coef[:, j], intercept[:, j], classes, own, slack, C, alphas, one_unit)
        for j, C in enumerate(Cs.tolist())
    ]
    counts = weights.counts(classes)
    few = (counts == 1).any(axis=0)
    per_row = intercept.size
    size = max(64, 4 * BLOCK_NUMBERS // max(per_row, d + 1))
    buffer = np.empty((min(size, n), d))
    for rows, use in weights.groups(classes, None):
        for index in cut(rows, n, size):
            B = centred(Z, index, systems[0].centre, buffer)
            f = np.stack([one.values(B) for one in systems], axis=1)
            lengths = np.stack([one.norms for one in systems], axis=1)[..., None] if norms else None
            if lengths is not None:
                lengths = np.repeat(lengths, len(B), axis=-1)
            for j, one in enumerate(systems):
                v, t = weights.in_planes(index, classes[use], *one.units(use))
                for place, p in enumerate(use.tolist()):
                    found = one.leave_out(p, B, v[place], t[place], f[:, j, p], norms)
                    f[:, j, p] = found[0]
                    if lengths is not None:
                        lengths[:, j, p] = found[1]
            if few[use].any():
                lost = weights.lonely(index, classes[use], counts[:, use])
                for some, value in zip(lost, (0.0, -np.inf), strict=True):
                    plane, row = np.nonzero(some)
                    f[:, :, use[plane], row] = value
                    if lengths is not None:
                        lengths[:, :, use[plane], row] = 0.0
            yield LooGridValues(index, f, lengths)


class _OneC:
    """The planes of one C and all ridges; weights and targets are those of the least ridge."""

    def __init__(
        self,
        coef: Array,
        intercept: Array,
        classes: Array,
        own: ClassMoments,
        slack: ClassMoments,
        C: float,
        alphas: Array,
        one_unit: bool,
    ) -> None:
        self.coef = coef
        K, least = len(own.weight), int(alphas.argmin())
        self.single = [
            LeaveOneOut(
                Planes(coef[i], intercept[i], classes),
                own, slack, np.full(K, C), float(alpha), one_unit,
            )
            for i, alpha in enumerate(alphas)
        ]  # fmt: skip
        self.base = Systems(self.single[least], many_rows=False)
        self.centre = self.base.centre
        self.norms = plane_norms(coef.reshape(-1, coef.shape[-1])).reshape(intercept.shape)
        # Ridges in the units of the least one's system, of shape (n_planes, n_alphas).
        a, c, ridge = self.base.pairs.coefficients(np.array([[C]]), alphas[None])
        a_least, c_least, _ = self.base.coefficients
        scale = np.where(
            a > 0, a_least / np.where(a > 0, a, 1.0), c_least / np.where(c > 0, c, 1.0)
        )
        self.ridges = ridge * scale
        constant = self.base.share - 1 - (self.base.middle * coef).sum(axis=-1)
        self.linear = np.concatenate([coef, constant[..., None]], axis=-1)
        self.known: dict[int, tuple[Array, Array]] = {}
        self.small: dict[int, Systems] = {}

    def values(self, B: Array) -> Array:
        """Compute the values (n_alphas, n_planes, m) of the planes of all rows."""
        f: Array = np.matmul(self.linear[..., :-1], B.T)
        f += self.linear[..., -1:]
        return f

    def units(self, planes: Array) -> tuple[Array, Array]:
        """Return what weights of own rows and of rivals are multiplied by."""
        return self.base.own_unit[planes], self.base.rival_unit[planes]

    def decomposed(self, p: int) -> tuple[Array, Array]:
        """Decompose S_0 of one plane: eigenvalues, and vectors about the centre."""
        if p not in self.known:
            if (len(self.known) + 1) * len(self.centre) ** 2 > MOST_FACTORS:
                self.known.clear()
            a, c, _ = (float(part[p, 0]) for part in self.base.coefficients)
            values, vectors = linalg.eigh(self.base.pairs.hessian(p, a, c, 0.0), check_finite=False)
            self.known[p] = values, np.vstack([vectors, -self.base.middle[p] @ vectors])
        return self.known[p]

    def leave_out(
        self, p: int, B: Array, v: Array, t: Array, f: Array, norms: bool
    ) -> tuple[Array, Array]:
        """Compute values and norms of one plane, for every ridge, without the row itself.

        Parameters
        ----------
        p : int
            The plane.
        B : ndarray of shape (m, d)
            Rows, less the centre.
        v, t : ndarray of shape (m,)
            Their weights and targets.
        f : ndarray of shape (n_alphas, m)
            Values of the planes of all rows.
        norms : bool
            Whether norms are needed.
        """
        values, vectors = self.decomposed(p)
        ridges = self.ridges[p]
        top = max(float(values[-1]), 0.0)
        small = ridges <= SMALL_RIDGE * top
        inverse = 1 / (np.maximum(values, 0.0) + np.where(small, top or 1.0, ridges)[:, None])
        Y = affine(B, vectors)
        squares = Y * Y
        h = np.matmul(inverse, squares.T)
        error = (t - f) / (1 - v * (h + 1 / self.base.total[p]))
        found, lengths = t - error, error
        if norms:
            unit = np.where(self.norms[:, p] > 0, self.norms[:, p], 1.0)[:, None]
            w = self.coef[:, p] / unit
            step = v * error / unit
            wg = np.matmul(inverse * (w @ vectors[:-1]), Y.T)
            gg = np.matmul(inverse * inverse, squares.T)
            square = (w * w).sum(axis=1)[:, None] - step * (2 * wg - step * gg)
            lengths = unit * np.sqrt(np.maximum(square, 0.0))
        for i in np.flatnonzero(small).tolist():
            if i not in self.small:
                self.small[i] = Systems(self.single[i], many_rows=False)
            systems = self.small[i]
            # In units of this ridge's own system.
            own_v = v * (systems.total[p] / self.base.total[p])
            chunk = systems.chunk(np.array([p]))
            one = chunk.leave_out(B, own_v[None], t[None], f[[i]], norms)
            found[i], lengths[i] = one[0][0], one[1][0]
        return found, lengths
