"""Nearest neighbours, where rows at the last distance share the places that are left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from fuzzytwin._utils.types import Array

# Numbers of a block of gathered rows: enough for vectors, few enough for memory.
BLOCK_NUMBERS = 1 << 21


def neighbor_shares(X: Any, codes: Array, s: Array, k: int, n_classes: int) -> Array:
    """Compute the share of each label among a sample's k nearest neighbours and itself.

    There are k + 1 places. The sample takes the first; then rows come nearest first, and a row
    of weight w takes max(1, w) places and counts w. Rows at the last distance that are more
    than the places left count by one common fraction. So neither the order of rows nor a shift
    of all rows matters, and an integer weight is the same as repeating the row. A sample of weight
    zero is not a neighbour, and has none but itself. Rows of the shares (n, K) sum to 1.
    """
    shares = np.zeros((len(codes), n_classes))
    shares[np.arange(len(codes)), codes] = 1.0
    rows = np.flatnonzero(s > 0)
    eps = np.finfo(X.dtype).eps
    X, codes, s = X[rows].astype(np.float64, copy=False), codes[rows], s[rows]
    first, spot = distinct_rows(X)
    # Of each distinct row: the weight of every label, and in the last column the places.
    table = np.zeros((len(first), n_classes + 1))
    np.add.at(table, (spot, codes), s)
    np.add.at(table[:, -1], spot, np.maximum(s, 1.0))
    nearer, tied, on_top = _last_distance(X[first], table, k, eps)

    # Where the last distance is zero, only the sample itself comes before the ties.
    own = np.zeros((len(codes), n_classes + 1))
    own[np.arange(len(codes)), codes] = np.minimum(s, 1.0)
    own[:, -1] = 1.0
    on_top = on_top[spot, None]
    counted = np.where(on_top, own, nearer[spot])
    rest = np.maximum(np.where(on_top, tied[spot] - own, tied[spot]), 0.0)
    fraction = np.divide(
        k + 1 - counted[:, -1], rest[:, -1], out=np.zeros(len(codes)), where=rest[:, -1] > 0
    )
    counted += np.minimum(fraction, 1.0)[:, None] * rest
    shares[rows] = counted[:, :-1] / counted[:, :-1].sum(axis=1, keepdims=True)
    return shares


def _last_distance(X: Any, table: Array, k: int, eps: float) -> tuple[Array, Array, Array]:
    """Find for each of some distinct rows the distance at which k + 1 places are taken.

    Returns the sums of `table` over the rows that are nearer and over those at that distance,
    and whether it is zero (or no more than rounding).
    """
    n = len(table)
    nearer, tied, on_top = np.zeros_like(table), table.copy(), table[:, -1] >= k + 1
    Z = about_mean(X)
    norms = np.sqrt(row_sums(Z, Z))
    search = NearestNeighbors().fit(Z)
    open_rows = np.flatnonzero(~on_top)
    m = min(k + 2, n)  # one more than needed shows whether the last one is tied
    while len(open_rows):
        settled = []
        for here in blocks(open_rows, m * max(row_numbers(X), table.shape[1])):
            if m < n:
                beyond, near = search.kneighbors(Z[here], m)
            else:
                beyond, near = np.full((1, 1), np.inf), np.tile(np.arange(n), (len(here), 1))
            nearer[here], tied[here], reach, slack = _among(X, table, here, near, k, eps)
            on_top[here] = reach <= slack
            doubt = slack + search_error(norms[here], np.sqrt(reach), X.shape[1])
            settled.append(beyond[:, -1] ** 2 > reach + doubt)
        open_rows = open_rows[~np.concatenate(settled)]
        m = min(8 * m, n)
    return nearer, tied, on_top


def _among(
    X: Any, table: Array, here: Array, near: Array, k: int, eps: float
) -> tuple[Array, Array, Array, Array]:
    """Fill k + 1 places from the rows `near` to each of the rows `here`.

    Returns the sums of `table` over those nearer than the last distance and over those at it,
    the square of that distance, and what rounding may have done to it.
    """
    every, m = np.arange(len(here)), near.shape[1]
    square = squares(X[here.repeat(m)], X[near.ravel()]).reshape(near.shape)
    order = np.argsort(square, axis=1)
    places = np.cumsum(np.take_along_axis(table[near, -1], order, axis=1), axis=1)
    full = places >= k + 1
    last = order[every, np.where(full.any(axis=1), full.argmax(axis=1), m - 1)]
    reach = square[every, last]
    slack = rounding(X[here], X[near[every, last]], eps)
    inside = square < (reach - slack)[:, None]
    equal = ~inside & (square <= (reach + slack)[:, None])
    sums = np.stack([inside, equal], axis=1).astype(float) @ table[near]
    return sums[:, 0], sums[:, 1], reach, slack


def weights_within(X: Any, table: Array, reach: Array, slack: Array) -> Array:
    """Sum `table` over the rows within `reach` of each row.

    A row at the very reach is within it, whatever rounding did to either: distances are first
    computed by products, and where these leave doubt by differences. ``slack`` is what rounding
    may have done to the square of ``reach``.
    """
    eps = np.finfo(X.dtype).eps
    X = X.astype(np.float64, copy=False)
    Z = about_mean(X)
    limit, d = reach**2, X.shape[1]
    doubt = slack + search_error(np.sqrt(row_sums(Z, Z)), reach, d)
    doubt += _unit(eps, d) * reach * (2 * np.sqrt(row_sums(X, X)) + reach)

    def sums(square: Array, start: int) -> Array:
        here = slice(start, start + len(square))
        square -= limit[here, None]
        near = square <= 0
        row, other = np.nonzero(np.abs(square, out=square) <= doubt[here, None])
        for pair in blocks(np.arange(len(row)), row_numbers(X)):
            i, j = row[pair], other[pair]
            A, B = X[start + i], X[j]
            most = limit[start + i] + slack[start + i] + rounding(A, B, eps)
            near[i, j] = squares(A, B) <= most
        return near @ table

    # 64 MiB of distances at once
    parts = pairwise_distances_chunked(Z, reduce_func=sums, working_memory=64, squared=True)
    return np.concatenate(list(parts))


def distinct_rows(X: Any) -> tuple[Array, Array]:
    """Find one index for each set of equal rows, and for every row the number of its set.

    Equal rows are found by a projection and then compared; a few may stay apart, which costs
    time and changes no result.
    """
    key = X @ np.random.default_rng(0).normal(size=X.shape[1])
    _, first, spot = np.unique(key, return_index=True, return_inverse=True)
    unlike = X[first[spot]] != X
    odd = np.flatnonzero(np.asarray(unlike.sum(axis=1)).ravel())
    spot[odd] = len(first) + np.arange(len(odd))
    return np.concatenate([first, odd]), spot


def about_mean(X: Any) -> Any:
    """Centre dense rows: scikit-learn's distances lose their digits far from zero."""
    return X if sparse.issparse(X) else X - X.mean(axis=0)


def squares(A: Any, B: Any) -> Array:
    """Compute the squared distance of each row of A from the same row of B, by differences."""
    return row_sums(A - B, A - B)


def rounding(A: Any, B: Any, eps: float) -> Array:
    """Bound what rounding can do to `squares`, where rows were given in the precision `eps`.

    A column that is equal in both rows carries no error; another carries that of its own size.
    """
    return _unit(eps, A.shape[1]) * row_sums(abs(A - B), abs(A) + abs(B))


def _unit(eps: float, n_features: int) -> float:
    """Bound some roundings of the rows as given, and those of a sum in double precision."""
    return float(8 * eps + (64 + n_features) * np.finfo(np.float64).eps)


def search_error(norms: Array, reach: Array, n_features: int) -> Array:
    """Bound the error of a squared distance that is computed as |a|^2 + |b|^2 - 2 a.b.

    `norms` are those of the rows a; a row b within `reach` is longer by that much at most.
    """
    return (n_features + 16) * np.finfo(np.float64).eps * (2 * norms + reach) ** 2


def row_sums(A: Any, B: Any) -> Array:
    """Sum the products of two tables over each row."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, B)


def row_numbers(X: Any) -> int:
    """Count the numbers that a row holds, on average."""
    return 1 + X.nnz // X.shape[0] if sparse.issparse(X) else X.shape[1]


def blocks(rows: Array, numbers: int) -> Iterator[Array]:
    """Cut row indices so that a block of rows of `numbers` numbers fits into memory."""
    size = max(1, BLOCK_NUMBERS // numbers)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
