r"""Compute distances to planes, memberships from distances, and labels from memberships.

Symbols

    w, b            coefficients and intercept of the centre of a plane
    c, d            coefficients and intercept of its width
    f, g            w.x + b and c.|x| + d: centre and width of its value at x
    delta, gamma    |f| / |w| and g / |w|: fuzzy distance of x from the plane
    a_k             effective distance of x from plane k
    u_k             membership of x in class k

The fuzzy distance is Definition 1 of the paper, with the width corrected. The effective distance is

    a_k = delta_k + gamma_k  if delta_k >= gamma_k,  else delta_k.

For two classes, memberships are (the paper's equation 29)

    u_k = (1 / a_k) / sum_j (1 / a_j).

With more, there are two planes for each pair: plane (k, j) is near class k and has the value -1 on
class j only. Memberships couple the pairs:

    u_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j (a_kj / a_jk)^3).

For two classes and a power of one that is the first formula. Among eleven rules, the power of three
matched the best accuracy and had by far the best log loss (``python -m benchmarks pairs``).

The label is the class of greatest membership, and the first one in a tie. `labels_of` applies that
rule to scores of classes, `second_is_nearer` to distances from the planes of two classes, and
`LAST_OF_EQUAL` to ONNX graphs. Functions of arrays have planes or classes on the first axis:
`memberships_of` takes (n_planes, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import run_blocks
from fuzzytwin.core.blocks import row_slices
from fuzzytwin.core.planes import Planes

# From this number of classes on, labels are predicted without computing all memberships.
MANY_CLASSES = 12
# Classes that are tried before all memberships of a row are computed.
MAX_TRIALS = 4
# Numbers in a block of rows to label. With many classes, a block has several rows of each. With
# few, rows are read twice and should mostly stay in the cache. Smaller blocks leave threads idle.
MANY_CLASS_NUMBERS = 1 << 21
IN_CACHE = 1 << 18
# Sums with a smaller relative difference are a tie, decided by all memberships.
TIE = 1e-9
# The argument `select_last_index` of ONNX's ArgMax that gives the same rule.
LAST_OF_EQUAL = 0


def memberships_of(a: Array, n_classes: int) -> Array:
    """Turn effective distances (n_planes, ...) into memberships (K, ...), which sum to 1.

    There are two planes for each pair of classes, in the order of `plane_classes`. For two classes,
    a distance of zero gets a membership of 1, or 1/2 if both are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.distances import memberships_of
    >>> memberships_of(np.array([1.0, 3.0]), 2).tolist()
    [0.75, 0.25]
    >>> memberships_of(np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0]), 3).round(3).tolist()
    [0.865, 0.1, 0.035]
    """
    if n_classes > 2:
        ratio = distance_ratios(a[::2], a[1::2])
        cube = ratio * ratio
        cube *= ratio
        return couple_pairwise(cube, n_classes)
    with np.errstate(invalid="ignore", over="ignore"):
        u: Array = a[::-1] / (a[0] + a[1])
    if np.isfinite(u.sum()):
        return u
    nearest = a.min(axis=0)
    # nearest / a lies in [0, 1]. It counts as 1 if a is zero or nearest is infinite.
    u = np.divide(nearest, a, out=np.ones_like(a), where=(a > 0) & np.isfinite(nearest))
    u /= u.sum(axis=0)
    return u


def labels_of(scores: Array, axis: int = 1) -> Array:
    """Find the class of greatest membership, probability or score, the first one in a tie."""
    return np.asarray(scores.argmax(axis=axis))


def second_is_nearer(first: Array, second: Array) -> Array:
    """Return whether the plane of the second of two classes is nearer. Ties go to the first."""
    return np.less(second, first)


def nearest_labels(a: Array, n_classes: int) -> Array:
    """Find the labels of effective distances (n_planes, ...)."""
    if n_classes == 2:
        return second_is_nearer(a[0], a[1]).astype(np.intp)
    return labels_of(memberships_of(a, n_classes), axis=0)


def couple_pairwise(odds: Array, n_classes: int) -> Array:
    """Couple odds (n_pairs, ...) against the first class of every pair into shares (K, ...).

    With q_kj the odds of j against k, u_k = v_k / sum_l v_l and v_k = 1 / (1 + sum_j q_kj), which
    is exact if the pairs are consistent.
    """
    inverse = 1.0 / odds
    against = np.ones((n_classes, *odds.shape[1:]))
    start = 0
    for k in range(n_classes - 1):
        end = start + n_classes - 1 - k
        against[k] += odds[start:end].sum(axis=0)
        against[k + 1 :] += inverse[start:end]
        start = end
    u = np.divide(1.0, against, out=against)
    u /= u.sum(axis=0)
    return u


def distance_ratios(a: Array, b: Array) -> Array:
    """Compute a / b, clipped to [1e-50, 1e50]. Two zeros or two infinities have the ratio 1."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.asarray(a / b)
    np.clip(ratio, 1e-50, 1e50, out=ratio)
    if np.isnan(ratio.min(initial=1.0)):
        ratio[np.isnan(ratio)] = 1.0
    return ratio


def effective_distances(delta: Array, gamma: Array) -> Array:
    """Compute the effective distances a_k of fuzzy distances."""
    return np.where(delta >= gamma, delta + gamma, delta)


def fuzzy_distances(f: Array, g: Array | None, norms: Array) -> tuple[Array, Array]:
    """Compute distances ``delta`` and their widths ``gamma``, each (n, K).

    A plane without direction (|w| = 0) is infinitely far from all rows with f != 0. If no plane
    has a direction, norms of 1 are used, and distances are abs(f).

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.distances import fuzzy_distances
    >>> f, g = np.array([[3.0, -1.0]]), np.array([[0.5, 2.0]])
    >>> fuzzy_distances(f, g, norms=np.array([2.0, 1.0]))
    (array([[1.5, 1. ]]), array([[0.25, 2.  ]]))
    """
    delta = plane_ratio(np.abs(f), norms)
    gamma = np.zeros_like(delta) if g is None else plane_ratio(np.abs(g), norms)
    return delta, gamma


def plane_ratio(values: Array, norms: Array | None, axis: Any = None) -> Array:
    """Divide by norms, which have the planes on the given axes (None: on all axes).

    A plane without direction is infinitely far, or at a distance of 0 if the value is 0. Norms
    are 1 if no plane has a direction, or if `norms` is None.
    """
    if norms is None:
        return values
    norms = np.where(norms.any(axis=axis), norms, 1.0)
    flat = np.where(values > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # overflow means infinitely far
        return np.divide(values, norms, out=flat, where=norms > 0)


def plane_norms(coef: Array) -> Array:
    """Compute |w| along the last axis, safe from overflow and underflow."""
    top = np.abs(coef).max(axis=-1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    return np.asarray(np.linalg.norm(coef / safe[..., None], axis=-1) * safe)


def unit_normals(planes: Planes, rule: str) -> Planes:
    """Divide planes by |w|, so that their values are distances. The rule "residual" does not.

    A plane without direction gets no width and an intercept of zero or infinity, which is its
    distance (see `fuzzy_distances`).
    """
    norms = plane_norms(planes.coef)
    if rule != "distance" or not norms.any():
        return planes
    flat = norms == 0
    size = np.where(flat, 1.0, norms)
    with np.errstate(over="ignore"):
        intercept = np.where(flat & (planes.intercept != 0), np.inf, planes.intercept / size)
        unit = replace(planes, coef=planes.coef / size[:, None], intercept=intercept)
        if planes.width_coef is None:
            return unit
        size[flat] = np.inf
        width_coef = planes.width_coef / size[:, None]
        width_intercept = planes.width_intercept / size
    return replace(unit, width_coef=width_coef, width_intercept=width_intercept)


def plane_values(X: Any, coef: Array, intercept: Array, *, absolute: bool = False) -> Array:
    """Compute ``X @ coef.T + intercept`` (or with abs(X)) in float64, block by block."""
    out = np.empty((X.shape[0], len(coef)))

    def fill(block: slice) -> None:
        out[block] = _products(abs(X[block]) if absolute else X[block], coef).T
        out[block] += intercept

    run_blocks(fill, row_slices(*X.shape))
    return out


def plane_distances(X: Any, Z: Any, planes: Planes, at: Array | slice = slice(None)) -> Array:
    """Compute effective distances (n_planes, m) of a block of rows to planes of `unit_normals`.

    Centres depend on the features Z, widths on the rows X, which crisp planes do not need. `at`
    selects planes.
    """
    a = _products(Z, planes.coef[at])
    a += planes.intercept[at][:, None]
    np.abs(a, out=a)
    if planes.width_coef is None:
        return a
    g = _products(abs(X), planes.width_coef[at])
    g += planes.width_intercept[at][:, None]
    return effective_distances(a, np.abs(g, out=g))


def _products(Z: Any, coef: Array) -> Array:
    """Compute ``coef @ Z.T`` in float64, of dense or sparse rows."""
    if sparse.issparse(Z):
        return np.ascontiguousarray((Z @ coef.T).T)
    # `dot` lets other threads run; `@` of two matrices does not.
    return np.asarray(np.dot(coef, np.asarray(Z, dtype=np.float64).T))


def row_memberships(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Compute memberships (n, K) of rows X with features Z, block by block.

    `planes` are those of `unit_normals`.
    """
    out = np.empty((Z.shape[0], n_classes))
    return _fill(out, X, Z, planes, lambda a: memberships_of(a, n_classes).T)


def row_labels(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Find the class of greatest membership (n,) of each row: see `row_memberships`."""
    labels = np.empty(Z.shape[0], dtype=np.intp)
    if n_classes < MANY_CLASSES:
        return _fill(labels, X, Z, planes, lambda a: nearest_labels(a, n_classes))
    x = None if planes.width_coef is None else X
    z = Z[0 : len(labels)]
    if not sparse.issparse(z):
        z = np.asarray(z, dtype=np.float64)
    labels, undecided = _search_labels(x, z, planes, n_classes)
    if len(undecided):
        x = None if x is None else x[undecided]
        labels[undecided] = labels_of(row_memberships(x, z[undecided], planes, n_classes))
    return labels


def _fill(out: Array, X: Any, Z: Any, planes: Planes, function: Callable[[Array], Array]) -> Array:
    """Fill an array with a function of effective distances, block by block."""

    def fill(block: slice) -> None:
        x = None if planes.width_coef is None else X[block]
        out[block] = function(plane_distances(x, Z[block], planes))

    run_blocks(fill, row_slices(len(out), max(planes.coef.shape)))
    return out


def label_slices(n: int, n_features: int, n_classes: int) -> list[slice]:
    """Split n rows into blocks to label, with several rows of each class if classes are many."""
    numbers = MANY_CLASS_NUMBERS if n_classes >= MANY_CLASSES else IN_CACHE
    return row_slices(n, max(n_classes, n_features), numbers)


def _search_labels(X: Any, Z: Any, planes: Planes, n_classes: int) -> tuple[Array, Array]:
    """Find the class of least s_k = 1 + sum_j (a_kj / a_jk)^3 without the sums of all classes.

    The sum of one class takes the planes of its K - 1 pairs. The inverse of each term is a term of
    the rival's sum, hence a lower bound of it. A rival whose bound exceeds the least sum so far is
    ruled out. With a good first guess, about 2 K instead of K (K - 1) planes are evaluated per row.
    Returned are the labels, and the rows whose label is not certain.
    """
    own, rival = planes.classes.T
    plane_of = np.zeros((n_classes, n_classes), dtype=np.intp)
    plane_of[own, rival] = np.arange(len(own))
    # f_kj - f_jk is about 1 on class k and -1 on class j. Its sum over j is linear.
    coef = np.zeros((n_classes, planes.coef.shape[1]))
    intercept = np.zeros(n_classes)
    finite = np.where(np.isfinite(planes.intercept), planes.intercept, 0.0)
    for part, sign in ((own, 1.0), (rival, -1.0)):
        np.add.at(coef, part, sign * planes.coef)
        np.add.at(intercept, part, sign * finite)
    labels = labels_of(Z @ coef.T + intercept)
    least = np.full(len(labels), np.inf)
    undecided = np.zeros(len(labels), dtype=bool)
    rows = np.arange(len(labels))
    trial = labels
    bounds = np.zeros((n_classes, 1))
    to_try = np.argsort(trial, kind="stable")  # positions in `rows`, in the order of `trial`
    for turn in range(MAX_TRIALS):
        rows = rows[to_try]
        trial = trial[to_try]
        Z = Z[to_try]
        X = None if X is None else X[to_try]
        total, terms = _trial_sums(X, Z, planes, plane_of, trial)
        terms += bounds[:, to_try] if turn else bounds
        bounds = terms
        before = least[rows]
        undecided[rows] |= np.abs(total - before) <= TIE * total
        labels[rows] = np.where(total < before, trial, labels[rows])
        least[rows] = np.minimum(total, before)
        to_try = np.flatnonzero(bounds.min(axis=0) <= (1 + TIE) * least[rows])
        trial = np.zeros(len(rows), dtype=np.intp)
        trial[to_try] = bounds[:, to_try].argmin(axis=0)
        to_try = to_try[np.argsort(trial[to_try], kind="stable")]
    undecided[rows[to_try]] = True
    return labels, np.flatnonzero(undecided)


def _trial_sums(
    X: Any, Z: Any, planes: Planes, plane_of: Array, trial: Array
) -> tuple[Array, Array]:
    """Compute the sum of the class that each row tries, and the inverse terms of its rivals.

    `plane_of[k, j]` is the plane of class k against class j. `trial`, the class that each row
    tries, ascends. The term of the tried class itself is infinite.
    """
    total = np.empty(len(trial))
    terms = np.empty((len(plane_of), len(trial)))
    ends = np.searchsorted(trial, np.arange(len(plane_of) + 1)).tolist()
    for k in np.flatnonzero(np.diff(ends)).tolist():
        block = slice(ends[k], ends[k + 1])
        x = None if X is None else X[block]
        own = plane_distances(x, Z[block], planes, plane_of[k])
        ratio = distance_ratios(own, plane_distances(x, Z[block], planes, plane_of[:, k]))
        ratio[k] = 1.0
        cube = np.multiply(ratio, ratio, out=own)
        cube *= ratio
        total[block] = cube.sum(axis=0)
        np.divide(1.0, cube, out=terms[:, block])
        terms[k, block] = np.inf
    return total, terms
