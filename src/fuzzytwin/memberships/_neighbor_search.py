"""Label shares among the k nearest neighbours, with fractional counts of ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from fuzzytwin._utils.types import Array

GATHERED_NUMBERS = 1 << 21  # numbers in a block of gathered rows
WORKING_MEMORY = 64  # MiB of distances at once


def neighbor_shares(X: Any, codes: Array, s: Array, k: int, n_classes: int) -> Array:
    """Compute the share of each label among a row's k nearest neighbours and itself, (n, K).

    There are k + 1 places. The row itself takes the first. Its neighbours follow, nearest first: a
    row of weight w takes max(1, w) places and counts w. Ties at the last distance that exceed the
    remaining places count by a common fraction. So neither the order of rows nor a shift of all
    rows matters, and an integer weight is equivalent to repeating the row. A row of weight zero is
    not a neighbour, and has only itself. Shares sum to 1.
    """
    shares = np.zeros((len(codes), n_classes))
    shares[np.arange(len(codes)), codes] = 1.0
    rows = np.flatnonzero(s > 0)
    eps = np.finfo(X.dtype).eps
    X = X[rows].astype(np.float64, copy=False)
    codes = codes[rows]
    s = s[rows]
    first, inverse = distinct_rows(X)
    # The weight of every label for each distinct row, and in the last column the places it takes.
    counts = np.zeros((len(first), n_classes + 1))
    np.add.at(counts, (inverse, codes), s)
    np.add.at(counts[:, -1], inverse, np.maximum(s, 1.0))
    nearer, tied, at_zero = _last_distance(X[first], counts, k, eps)

    # If the last distance is zero, only the row itself comes before the ties.
    own = np.zeros((len(codes), n_classes + 1))
    own[np.arange(len(codes)), codes] = np.minimum(s, 1.0)
    own[:, -1] = 1.0
    at_zero = at_zero[inverse, None]
    counted = np.where(at_zero, own, nearer[inverse])
    ties = np.maximum(np.where(at_zero, tied[inverse] - own, tied[inverse]), 0.0)
    fraction = np.divide(
        k + 1 - counted[:, -1], ties[:, -1], out=np.zeros(len(codes)), where=ties[:, -1] > 0
    )
    counted += np.minimum(fraction, 1.0)[:, None] * ties
    shares[rows] = counted[:, :-1] / counted[:, :-1].sum(axis=1, keepdims=True)
    return shares


def _last_distance(X: Any, counts: Array, k: int, eps: float) -> tuple[Array, Array, Array]:
    """Find the distance from each distinct row at which k + 1 places are taken.

    Return the sums of `counts` over the rows that are nearer and over those at that distance,
    and whether it is zero up to rounding.
    """
    n = len(counts)
    nearer = np.zeros_like(counts)
    tied = counts.copy()
    at_zero = counts[:, -1] >= k + 1
    Z = about_mean(X)
    norms = np.sqrt(row_products(Z, Z))
    search = NearestNeighbors().fit(Z)
    unresolved = np.flatnonzero(~at_zero)
    m = min(k + 2, n)  # one more than needed shows whether the last one is tied
    while len(unresolved):
        is_resolved = []
        for rows in row_blocks(unresolved, m * max(numbers_per_row(X), counts.shape[1])):
            if m < n:
                distance, candidates = search.kneighbors(Z[rows], m)
                beyond = distance[:, -1] ** 2
            else:
                candidates = np.tile(np.arange(n), (len(rows), 1))
                beyond = np.full(len(rows), np.inf)
            nearer[rows], tied[rows], square, error = _fill_places(
                X, counts, rows, candidates, k, eps
            )
            at_zero[rows] = square <= error
            error = error + product_error_bound(norms[rows], np.sqrt(square), X.shape[1])
            is_resolved.append(beyond > square + error)
        unresolved = unresolved[~np.concatenate(is_resolved)]
        m = min(8 * m, n)
    return nearer, tied, at_zero


def _fill_places(
    X: Any, counts: Array, rows: Array, candidates: Array, k: int, eps: float
) -> tuple[Array, Array, Array, Array]:
    """Fill the k + 1 places of each row from its candidates.

    Return the sums of `counts` over the candidates nearer than the last distance and over those at
    it, the square of that distance, and a bound of its rounding error.
    """
    index = np.arange(len(rows))
    m = candidates.shape[1]
    squares = squared_distances(X[rows.repeat(m)], X[candidates.ravel()])
    squares = squares.reshape(candidates.shape)
    order = np.argsort(squares, axis=1)
    places = np.cumsum(np.take_along_axis(counts[candidates, -1], order, axis=1), axis=1)
    full = places >= k + 1
    last = order[index, np.where(full.any(axis=1), full.argmax(axis=1), m - 1)]
    last_square = squares[index, last]
    error = rounding_bound(X[rows], X[candidates[index, last]], eps)
    inside = squares < (last_square - error)[:, None]
    equal = ~inside & (squares <= (last_square + error)[:, None])
    sums = np.stack([inside, equal], axis=1).astype(float) @ counts[candidates]
    return sums[:, 0], sums[:, 1], last_square, error


def weights_within(X: Any, label_weight: Array, radius: Array, error: Array) -> Array:
    """Sum `label_weight` over the rows within the radius of each row.

    Rows at the boundary are included, up to rounding. Distances are first computed by products, and
    again by differences if they are too close to the boundary to decide. `error` bounds the
    rounding error of the square of the radius.
    """
    eps = np.finfo(X.dtype).eps
    X = X.astype(np.float64, copy=False)
    Z = about_mean(X)
    limit = radius**2
    d = X.shape[1]
    uncertainty = error + product_error_bound(np.sqrt(row_products(Z, Z)), radius, d)
    uncertainty += _relative_error(eps, d) * radius * (2 * np.sqrt(row_products(X, X)) + radius)

    def sums(squares: Array, start: int) -> Array:
        block = slice(start, start + len(squares))
        squares -= limit[block, None]
        near = squares <= 0
        row, other = np.nonzero(np.abs(squares, out=squares) <= uncertainty[block, None])
        for pair in row_blocks(np.arange(len(row)), numbers_per_row(X)):
            i = row[pair]
            j = other[pair]
            A = X[start + i]
            B = X[j]
            greatest = limit[start + i] + error[start + i] + rounding_bound(A, B, eps)
            near[i, j] = squared_distances(A, B) <= greatest
        return near @ label_weight

    parts = pairwise_distances_chunked(
        Z, reduce_func=sums, working_memory=WORKING_MEMORY, squared=True
    )
    return np.concatenate(list(parts))


def distinct_rows(X: Any) -> tuple[Array, Array]:
    """Find one index for each set of duplicates, and for every row the number of its set.

    Duplicates are found by a projection and then compared. A few may be missed, which costs time
    and changes no result.
    """
    key = X @ np.random.default_rng(0).normal(size=X.shape[1])
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    unequal = X[first[inverse]] != X
    collided = np.flatnonzero(np.asarray(unequal.sum(axis=1)).ravel())
    inverse[collided] = len(first) + np.arange(len(collided))
    return np.concatenate([first, collided]), inverse


def about_mean(X: Any) -> Any:
    """Centre dense rows, because scikit-learn's distances lose precision far from zero."""
    return X if sparse.issparse(X) else X - X.mean(axis=0)


def squared_distances(A: Any, B: Any) -> Array:
    """Compute the squared distances between corresponding rows of A and B, by differences."""
    return row_products(A - B, A - B)


def rounding_bound(A: Any, B: Any, eps: float) -> Array:
    """Bound the rounding error of `squared_distances` for rows of the precision `eps`.

    A column that is equal in both rows has no error. Others have an error relative to their size.
    """
    return _relative_error(eps, A.shape[1]) * row_products(abs(A - B), abs(A) + abs(B))


def _relative_error(eps: float, n_features: int) -> float:
    """Bound the relative rounding errors of the rows and of a sum in double precision."""
    return float(8 * eps + (64 + n_features) * np.finfo(np.float64).eps)


def product_error_bound(norms: Array, radius: Array, n_features: int) -> Array:
    """Bound the error of a squared distance that is computed as |a|^2 + |b|^2 - 2 a.b.

    `norms` are those of the rows a. A row b within the radius is longer by at most that much.
    """
    return (n_features + 16) * np.finfo(np.float64).eps * (2 * norms + radius) ** 2


def row_products(A: Any, B: Any) -> Array:
    """Compute the scalar products of corresponding rows of A and B."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, B)


def numbers_per_row(X: Any) -> int:
    """Count the numbers that a row holds, on average."""
    return 1 + X.nnz // X.shape[0] if sparse.issparse(X) else X.shape[1]


def row_blocks(rows: Array, n_numbers: int) -> Iterator[Array]:
    """Split row indices into blocks that fit into memory, with `n_numbers` numbers per row."""
    size = max(1, GATHERED_NUMBERS // n_numbers)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
