r"""From planes and rows to distances, from distances to memberships, from memberships to labels.

The value of plane k at x is the fuzzy number with centre f = w.x + b and width g = c.|x| + d. Its
fuzzy distance (Definition 1 of the paper, with the width that was meant) is delta = |f| / |w|,
gamma = g / |w|, and its effective distance

    a_k = delta_k + gamma_k  where delta_k >= gamma_k,  else delta_k.

With one plane per class, memberships are (the paper's equation 29, for any number of classes)

    u_k = (1 / a_k) / sum_j (1 / a_j).

With two planes for each pair of more than two classes, plane (k, j) is near to class k and at -1 on
class j alone, and memberships put the rivals j of class k side by side:

    u_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j (a_kj / a_jk)^3).

For two classes and a power of one that is the first formula. The power of three was level with the
best of eleven rules in accuracy and far ahead in log loss (``python -m benchmarks pairs``).

The label is the class of greatest membership, the first of equal ones: `labels_of` is that rule for
all that has scores of classes, `second_is_nearer` for distances to the planes of two, and
`LAST_OF_EQUAL` for graphs. Functions of arrays have planes or classes on the first axis:
`memberships_of` takes (n_planes, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.threads import run_blocks
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_slices
from fuzzytwin.core.planes import Planes

# From this number of classes on, labels are found without all memberships.
MANY_CLASSES = 12
# Classes that are tried before all memberships of a row are computed.
MOST_TRIALS = 4
# Numbers of a block of rows to label. With many classes: some rows for each of them. With few,
# rows are read twice, so most should stay in the cache; smaller blocks would make threads wait.
MANY_CLASS_NUMBERS = 1 << 21
IN_CACHE = 1 << 18
# Sums that differ by less than this, relatively, are compared as memberships are.
TIE = 1e-9
# Whether the last of equal classes is taken, as ONNX asks it: the rule of the functions below.
LAST_OF_EQUAL = 0


def memberships_of(a: Array, n_classes: int) -> Array:
    """Turn effective distances (n_planes, ...) into memberships (K, ...), which add up to 1.

    There is one plane per class, or there are those of all pairs, in the order of `plane_classes`.
    A distance of zero takes all; several of them share.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.distances import memberships_of
    >>> memberships_of(np.array([1.0, 3.0]), 2).tolist()
    [0.75, 0.25]
    >>> memberships_of(np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0]), 3).round(3).tolist()
    [0.865, 0.1, 0.035]
    """
    if len(a) > n_classes:
        ratio = distance_ratios(a[::2], a[1::2])
        cube = ratio * ratio
        cube *= ratio
        return couple_pairwise(cube, n_classes)
    if n_classes == 2:
        with np.errstate(invalid="ignore", over="ignore"):
            u: Array = a[::-1] / (a[0] + a[1])
        if np.isfinite(u.sum()):
            return u
    nearest = a.min(axis=0)
    # nearest / a lies in [0, 1]; where a is zero or nearest infinite it stands for one.
    u = np.divide(nearest, a, out=np.ones_like(a), where=(a > 0) & np.isfinite(nearest))
    u /= u.sum(axis=0)
    return u


def labels_of(scores: Array, axis: int = 1) -> Array:
    """Find the class of greatest membership, probability or score; the first of equal ones."""
    return np.asarray(scores.argmax(axis=axis))


def second_is_nearer(first: Array, second: Array, out: Array | None = None) -> Array:
    """Compare distances to the planes of two classes: equal ones have the label of the first."""
    return np.less(second, first, out=out)


def nearest_labels(a: Array, n_classes: int) -> Array:
    """Find the labels of effective distances (n_planes, ...)."""
    if n_classes == 2:
        return second_is_nearer(a[0], a[1]).astype(np.intp)
    return labels_of(memberships_of(a, n_classes), axis=0)


def memberships(a: Array) -> Array:
    """Memberships u (n, K) from effective distances a (n, K); rows sum to one.

    A distance of zero takes all; several of them share.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.distances import memberships
    >>> memberships(np.array([[1.0, 3.0], [0.0, 2.0], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """
    return memberships_of(a.T, a.shape[1]).T


def couple_pairwise(odds: Array, n_classes: int) -> Array:
    """Combine odds (n_pairs, ...) against the first class of every pair into shares (K, ...).

    With q_kj the odds of j against k, u_k = v_k / sum_l v_l and v_k = 1 / (1 + sum_j q_kj), which
    is exact where the pairs agree.
    """
    inverse = 1.0 / odds
    against, start = np.ones((n_classes, *odds.shape[1:])), 0
    for k in range(n_classes - 1):
        end = start + n_classes - 1 - k
        against[k] += odds[start:end].sum(axis=0)
        against[k + 1 :] += inverse[start:end]
        start = end
    u = np.divide(1.0, against, out=against)
    u /= u.sum(axis=0)
    return u


def distance_ratios(a: Array, b: Array) -> Array:
    """Compute a / b, within 1e-50 and 1e50; equal distances, be they zero or infinite, have 1."""
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
    """Distance ``delta`` and its width ``gamma``, each (n, K).

    A plane without direction (|w| = 0) is infinitely far from where f is not zero. Where no
    plane has a direction, distances are abs(f): norms of one are used.

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
    """Divide by norms, which have the planes on the given axes (None: are of planes alone).

    A plane without direction is infinitely far, or at 0 where the value is. Where no plane has
    one, the norms are 1; so they are where none are given.
    """
    if norms is None:
        return values
    norms = np.where(norms.any(axis=axis), norms, 1.0)
    flat = np.where(values > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # overflow means infinitely far
        return np.divide(values, norms, out=flat, where=norms > 0)


def plane_norms(coef: Array) -> Array:
    """|w| of each plane, on any number of axes, safe from overflow and underflow."""
    top = np.abs(coef).max(axis=-1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    return np.asarray(np.linalg.norm(coef / safe[..., None], axis=-1) * safe)


def unit_normals(planes: Planes, rule: str) -> Planes:
    """Divide planes by |w|, so that their values are distances; "residual" leaves them.

    A plane without direction has no width, and a centre of zero or infinity, as its distance is
    (see `fuzzy_distances`).
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
        width, constant = planes.width_coef / size[:, None], planes.width_intercept / size
    return replace(unit, width_coef=width, width_intercept=constant)


def plane_values(X: Any, coef: Array, intercept: Array, *, absolute: bool = False) -> Array:
    """``X @ coef.T + intercept`` (or with abs(X)) in float64, block by block."""
    out = np.empty((X.shape[0], len(coef)))

    def fill(here: slice) -> None:
        out[here] = _products(abs(X[here]) if absolute else X[here], coef).T
        out[here] += intercept

    run_blocks(fill, row_slices(*X.shape))
    return out


def plane_distances(X: Any, Z: Any, planes: Planes, at: Array | slice = slice(None)) -> Array:
    """Compute effective distances (n_planes, m) of a block of rows to planes of `unit_normals`.

    Centres are functions of the features Z, widths of the rows X, which crisp planes do not need.
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
    """``coef @ Z.T`` in float64, of dense or sparse rows."""
    if sparse.issparse(Z):
        return np.ascontiguousarray((Z @ coef.T).T)
    # `dot` lets other threads run; `@` of two matrices does not.
    return np.asarray(np.dot(coef, np.asarray(Z, dtype=np.float64).T))


def row_memberships(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Compute memberships (n, K) of rows X with features Z, a block of rows at a time.

    `planes` are those of `unit_normals`: one per class, or two for each pair of classes.
    """
    out = np.empty((Z.shape[0], n_classes))
    return _fill(out, X, Z, planes, lambda a: memberships_of(a, n_classes).T)


def row_labels(X: Any, Z: Any, planes: Planes, n_classes: int) -> Array:
    """Find the class of greatest membership (n,) of each row, with the arguments above."""
    labels = np.empty(Z.shape[0], dtype=np.intp)
    if n_classes < MANY_CLASSES or len(planes.coef) == n_classes:
        return _fill(labels, X, Z, planes, lambda a: nearest_labels(a, n_classes))
    z, x = Z[0 : len(labels)], None if planes.width_coef is None else X
    if not sparse.issparse(z):
        z = np.asarray(z, dtype=np.float64)
    labels, undecided = _search_labels(x, z, planes, n_classes)
    if len(undecided):
        x = None if x is None else x[undecided]
        labels[undecided] = labels_of(row_memberships(x, z[undecided], planes, n_classes))
    return labels


def _fill(out: Array, X: Any, Z: Any, planes: Planes, function: Callable[[Array], Array]) -> Array:
    """Fill an array with a function of effective distances, a block of rows at a time."""

    def block(here: slice) -> None:
        x = None if planes.width_coef is None else X[here]
        out[here] = function(plane_distances(x, Z[here], planes))

    run_blocks(block, row_slices(len(out), max(planes.coef.shape)))
    return out


def label_slices(n: int, n_features: int, n_classes: int) -> list[slice]:
    """Cut n rows into blocks to label: with many classes, some rows for each of them."""
    numbers = MANY_CLASS_NUMBERS if n_classes >= MANY_CLASSES else IN_CACHE
    return row_slices(n, max(n_classes, n_features), numbers)


def _search_labels(X: Any, Z: Any, planes: Planes, n_classes: int) -> tuple[Array, Array]:
    """Find the class of least s_k = 1 + sum_j (a_kj / a_jk)^3 without the sums of all classes.

    The sum of one class takes the planes of its K - 1 pairs, and each of these gives one term of
    the rival's sum too: the inverse. A rival whose terms so far exceed the least sum so far is out.
    With a good guess to begin with, K planes a row do what K (K - 1) would. Returned are labels,
    and the rows for which they are not certain.
    """
    own, rival = planes.classes.T
    place = np.zeros((n_classes, n_classes), dtype=np.intp)
    place[own, rival] = np.arange(len(own))
    # f_kj - f_jk is about 1 on class k and -1 on class j; its sum over j is linear.
    coef, intercept = np.zeros((n_classes, planes.coef.shape[1])), np.zeros(n_classes)
    finite = np.where(np.isfinite(planes.intercept), planes.intercept, 0.0)
    for part, sign in ((own, 1.0), (rival, -1.0)):
        np.add.at(coef, part, sign * planes.coef)
        np.add.at(intercept, part, sign * finite)
    labels = labels_of(Z @ coef.T + intercept)
    least, tied = np.full(len(labels), np.inf), np.zeros(len(labels), dtype=bool)
    rows, trial, bounds = np.arange(len(labels)), labels, np.zeros((n_classes, 1))
    some = np.argsort(trial, kind="stable")  # places among `rows`: those to try, in order
    for turn in range(MOST_TRIALS):
        rows, trial, Z = rows[some], trial[some], Z[some]
        X = None if X is None else X[some]
        total, terms = _trial_sums(X, Z, planes, place, trial)
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


def _trial_sums(X: Any, Z: Any, planes: Planes, place: Array, trial: Array) -> tuple[Array, Array]:
    """Compute the sum of the class that each row tries, and the terms of its rivals.

    `trial` ascends. A class is not a rival of itself: its term is infinite.
    """
    total, terms = np.empty(len(trial)), np.empty((len(place), len(trial)))
    ends = np.searchsorted(trial, np.arange(len(place) + 1)).tolist()
    for k in np.flatnonzero(np.diff(ends)).tolist():
        here = slice(ends[k], ends[k + 1])
        x = None if X is None else X[here]
        own = plane_distances(x, Z[here], planes, place[k])
        ratio = distance_ratios(own, plane_distances(x, Z[here], planes, place[:, k]))
        ratio[k] = 1.0
        cube = np.multiply(ratio, ratio, out=own)
        cube *= ratio
        total[here] = cube.sum(axis=0)
        np.divide(1.0, cube, out=terms[:, here])
        terms[k, here] = np.inf
    return total, terms
