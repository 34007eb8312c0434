r"""The class of greatest membership, without all memberships where there are many classes.

With s_k = 1 + sum_j (a_kj / a_jk)^3 the label is the class of least s_k (`fuzzytwin.core.pairs`).
The sum of one class takes the planes of its K - 1 pairs, and each of these gives one term of the
rival's sum too: the inverse. A rival whose terms so far exceed the sum of the best class so far
is out. With a good guess to begin with, few rivals are left to try, and K planes a row do what
K (K - 1) would.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import (
    paired_memberships,
    plane_distances,
    row_memberships,
    row_slices,
)
from fuzzytwin.core.pairs import distance_ratios
from fuzzytwin.core.planes import Planes

# With fewer classes, all memberships are as fast.
MANY_CLASSES = 12
# So many classes are tried before all memberships of a row are computed.
MOST_TRIALS = 4
# So many numbers for all rows that are labelled at a time: some rows for each class.
BLOCK_NUMBERS = 1 << 21
# With few classes, so many: they are read twice, so most should stay in the cache. Fewer would
# make calls so short that threads wait for each other.
IN_CACHE = 1 << 18
# Sums that differ by less than this, relatively, are compared as memberships are.
TIE = 1e-9


def row_labels(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Find the class of greatest membership of each row.

    Parameters are those of `fuzzytwin.core.distances.row_memberships`.

    Returns
    -------
    ndarray of int of shape (n,)
    """
    if n_classes > 2 and (n_classes < MANY_CLASSES or len(planes.coef) == n_classes):
        return np.asarray(row_memberships(X, Z, planes, n_classes).argmax(axis=1))
    labels = np.empty(Z.shape[0], dtype=np.intp)
    if n_classes == 2:
        # The nearer plane has the greater membership; where they are equally near, the first.
        for here in row_slices(Z, 2):
            x = None if planes.width_coef is None else X[here]
            first, second = plane_distances(x, Z[here], planes)
            np.less(second, first, out=labels[here])
        return labels
    search = _Search(planes, n_classes)
    for here in label_slices(len(labels), Z.shape[1], n_classes):
        z, x = Z[here], None if planes.width_coef is None else X[here]
        if not sparse.issparse(z):
            z = np.asarray(z, dtype=np.float64)
        labels[here], undecided = search.labels(x, z)
        if len(undecided):
            x = None if x is None else x[undecided]
            u = paired_memberships(x, z[undecided], planes, n_classes)
            labels[here.start + undecided] = u.argmax(axis=1)
    return labels


def label_slices(n: int, n_features: int, n_classes: int) -> list[slice]:
    """Cut n rows into blocks to label: with many classes, some rows for each of them."""
    numbers = BLOCK_NUMBERS if n_classes >= MANY_CLASSES else IN_CACHE
    rows = max(256, numbers // max(n_classes, n_features))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


class _Search:
    """Planes of all pairs, grouped by class."""

    def __init__(self, planes: Planes, n_classes: int) -> None:
        self.planes, self.n_classes = planes, n_classes
        own, rival = planes.classes.T
        self.at = np.zeros((n_classes, n_classes), dtype=np.intp)
        self.at[own, rival] = np.arange(len(own))
        # f_kj - f_jk is about 1 on class k and -1 on class j; its sum over j is linear.
        coef, intercept = np.zeros((n_classes, planes.coef.shape[1])), np.zeros(n_classes)
        finite = np.where(np.isfinite(planes.intercept), planes.intercept, 0.0)
        for part, sign in ((own, 1.0), (rival, -1.0)):
            np.add.at(coef, part, sign * planes.coef)
            np.add.at(intercept, part, sign * finite)
        self.guess = Planes(coef, intercept, planes.classes)

    def labels(self, X: Any, Z: Any) -> tuple[Array, Array]:
        """Return labels, and the rows for which they are not certain."""
        labels = np.asarray((Z @ self.guess.coef.T + self.guess.intercept).argmax(axis=1))
        least, tied = np.full(len(labels), np.inf), np.zeros(len(labels), dtype=bool)
        rows, trial, bounds = np.arange(len(labels)), labels, np.zeros((self.n_classes, 1))
        some = np.argsort(trial, kind="stable")  # places among `rows`: those to try, in order
        for turn in range(MOST_TRIALS):
            rows, trial, Z = rows[some], trial[some], Z[some]
            X = None if X is None else X[some]
            total, terms = self._sums(X, Z, trial)
            terms += bounds[:, some] if turn else bounds
            bounds, before = terms, least[rows]
            tied[rows] |= np.abs(total - before) <= TIE * total
            labels[rows] = np.where(total < before, trial, labels[rows])
            least[rows] = np.minimum(total, before)
            some = np.flatnonzero(bounds.min(axis=0) <= (1 + TIE) * least[rows])
            trial = np.zeros(len(rows), dtype=np.intp)
            trial[some] = bounds[:, some].argmin(axis=0)
            some = some[np.argsort(trial[some], kind="stable")]
        tied[rows[some]] = True
        return labels, np.flatnonzero(tied)

    def _sums(self, X: Any, Z: Any, trial: Array) -> tuple[Array, Array]:
        """Compute the sum of the class that each row tries, and the terms of its rivals.

        `trial` ascends. A class is not a rival of itself: its term is infinite.
        """
        total, terms = np.empty(len(trial)), np.empty((self.n_classes, len(trial)))
        ends = np.searchsorted(trial, np.arange(self.n_classes + 1)).tolist()
        for k in np.flatnonzero(np.diff(ends)).tolist():
            here = slice(ends[k], ends[k + 1])
            x = None if X is None else X[here]
            own = plane_distances(x, Z[here], self.planes, self.at[k])
            ratio = distance_ratios(own, plane_distances(x, Z[here], self.planes, self.at[:, k]))
            ratio[k] = 1.0
            cube = np.multiply(ratio, ratio, out=own)
            cube *= ratio
            total[here] = cube.sum(axis=0)
            np.divide(1.0, cube, out=terms[:, here])
            terms[k, here] = np.inf
        return total, terms
