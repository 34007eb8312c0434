"""Bandwidths: gamma as in scikit-learn, by the median heuristic, or learned per feature (ARD)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import column_means, dense_block, row_blocks, row_slices
from fuzzytwin.core.hashing import content_keys, rank_hashes, varying
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.kernels._landmark_map import DISTANCES, Gamma, LandmarkMap, narrow
from fuzzytwin.kernels._landmarks import sample_rows

MAX_ARD_ROWS = 2000  # rows sampled at most
MAX_ARD_LANDMARKS = 150  # landmarks of the first planes at most
MAX_ARD_FUNCTIONS = 16  # with more classes, the principal directions of the planes' values
# Ridges that are tried, in units of the mean scatter of a row or group.
ARD_RIDGES = 10.0 ** np.arange(-5, 3.5, 0.5)
WEIGHT_TOLERANCE = 1e-9  # relative tolerance of equal sums of weights


def resolve_gamma(gamma: Any, X: Any, s: Array | None) -> Gamma:
    """Return the number that "scale" (1 / (d var)) or "auto" (1 / d) stands for, as in `SVC`.

    The variance is that of all numbers in the columns that vary, each with the weight of its row,
    and d is the number of these columns, so that a constant column changes nothing. Per-feature
    gammas are returned unchanged.
    """
    d = X.shape[1]
    if not isinstance(gamma, str):
        if np.ndim(gamma) == 0:
            return float(gamma)
        if np.shape(gamma) != (d,):
            raise ValueError(
                f"gamma={gamma!r:.80} holds {len(gamma)} numbers, but X has {d} columns; give one "
                "finite number above 0, or one for each column."
            )
        return np.array(gamma, dtype=np.float64)  # a copy, since the model keeps it
    if gamma == "auto":
        return 1.0 / d
    share = np.full(X.shape[0], 1.0) if s is None else s / s.max()
    share = share / share.sum()
    columns = np.flatnonzero(varying(X if share.all() else X[share > 0]))
    if not len(columns):
        return 1.0 / d
    with np.errstate(over="ignore"):  # `kernel_values` reports a gamma of zero or infinity
        variance = _variance(X, share, columns)
    return 1.0 / (len(columns) * variance) if variance > 0 else 1.0 / d


def default_gammas(X: Any, s: Array | None) -> Array:
    """Return five powers of four around the median heuristic, from at most 500 rows.

    The weight of a pair is the product of those of its rows. Pairs of equal rows are ignored.
    """
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    rows = sample_rows(X, one_class, s, 500, np.random.RandomState(0))
    Z = narrow(X[rows])
    if not sparse.issparse(Z):  # far from zero, squared distances lose their digits
        Z = Z - column_means(Z)
    median = median_distance(DISTANCES["squared"][0](Z, Z), s if s is None else s[rows])
    return 4.0 ** np.arange(-2, 3) / median


def median_distance(distances: Array, s: Array | None) -> float:
    """Compute the weighted median of the nonzero distances (n, n) of rows, 1 if all are zero."""
    different = distances > 1e-12 * distances.max()
    values = distances[different]
    if not len(values):
        return 1.0
    if s is None or (s == s[0]).all():
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])
    order = np.argsort(values)
    share = s / s.max()
    cumulative = np.cumsum(np.multiply.outer(share, share)[different][order])
    return float(
        values[order[np.searchsorted(cumulative, (1 - WEIGHT_TOLERANCE) * cumulative[-1] / 2)]]
    )


def learn_feature_gammas(
    landmarks: Any,
    gamma: Gamma,
    X: Any,
    codes: Array,
    s: Array | None,
    *,
    kernel: str = "rbf",
    rounds: int = 1,
    groups: Array | None = None,
) -> Gamma:
    """Learn per-feature gammas of an RBF or Laplacian kernel from the gradients of planes.

    Gammas become proportional to the mean squared gradients along the columns (RBF), or to their
    roots (Laplacian). The mean distance, which gamma multiplies, stays the same.

    Return one gamma per column (d,), or the initial `gamma` if the planes are constant, as for one
    class or equal rows. If there are many rows and landmarks, they are sampled. Each further round
    begins with the gammas of the previous one. More than one round doubles the samples, which pays
    off with many rows. Rows of one of the `groups` are held out together. A Laplacian kernel takes
    one round more. Its rows must not be sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.kernels._bandwidths import learn_feature_gammas
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> by_second_column = (X[:, 1] > 0).astype(int)
    >>> learn_feature_gammas(X, 0.3, X, by_second_column, None).round(2)
    array([0.03, 0.83, 0.03])
    """
    factor = 2 if rounds > 1 else 1
    sampled_landmarks = _sample_landmarks(landmarks, factor * MAX_ARD_LANDMARKS)
    sampled_rows = sample_rows(X, codes, s, factor * MAX_ARD_ROWS, np.random.RandomState(0))
    share = np.ones(len(sampled_rows))
    if s is not None:
        share = s[sampled_rows] / float(s[sampled_rows].max())
    v = share / share.sum()
    X = X[sampled_rows]
    codes = codes[sampled_rows]
    groups = None if groups is None else groups[sampled_rows]
    classes = np.unique(codes)
    T = (codes[:, None] == (classes[1:] if len(classes) <= 2 else classes)).astype(float)
    for _ in range(rounds + (kernel == "laplacian")):
        phi = LandmarkMap.of(sampled_landmarks, kernel, gamma, 3, 0.0)
        gamma = _update_gammas(phi, X, T, v, groups)
    return gamma


def _update_gammas(phi: LandmarkMap, X: Any, T: Array, v: Array, groups: Array | None) -> Gamma:
    """Compute new per-feature gammas from planes fitted with the current ones."""
    K = phi.kernel_values(X)
    Z = K @ phi.root
    w = _fit_planes(Z, T, v, groups)
    if w.shape[1] > MAX_ARD_FUNCTIONS:
        values = (Z - v @ Z) @ w
        w = w @ np.linalg.eigh((values * v[:, None]).T @ values)[1][:, -MAX_ARD_FUNCTIONS:]
    old = np.broadcast_to(np.asarray(phi.gamma, dtype=np.float64), X.shape[1:])
    if phi.kernel == "laplacian":
        squares, distances = _mean_squared_steps(phi, X, K, phi.root @ w, v)
        new = old * np.sqrt(squares)
    else:
        squares, distances = _mean_squared_gradients(phi, X, K, phi.root @ w, v)
        new = old * old * squares
    total = float(new @ distances)
    if not (np.isfinite(total) and total > 0):
        return phi.gamma
    return np.asarray(new * (float(old @ distances) / total))


def _fit_planes(Z: Array, T: Array, v: Array, groups: Array | None) -> Array:
    """Fit planes w (r, q) to targets T (n, q) by least squares, with the best of `ARD_RIDGES`.

    `v` are the weights of the rows, which add up to 1.
    """
    path = RidgePath.of(RidgeSums.of(Z, T, v))
    alphas = ARD_RIDGES * path.sizes.sum() * mean_weight(v, groups)
    if not alphas.all():
        return np.zeros((Z.shape[1], T.shape[1]))
    loo_values = path.left_out(path.coordinates(Z), T, v, alphas, groups)
    errors = [float(v @ ((values - T) ** 2).sum(axis=1)) for values in loo_values]
    return path.planes(float(alphas[int(np.argmin(errors))]))[0]


def _mean_squared_gradients(
    phi: LandmarkMap, X: Any, K: Array, u: Array, v: Array
) -> tuple[Array, Array]:
    """Compute the mean squared gradient of functions along each column, and column variances.

    A function is f(x) = sum_l u_l k(x, l). The result is (df/dx_j)^2 / (4 gamma_j^2).
    """
    L: Any = phi.landmarks
    d = X.shape[1]
    # Differences far from the origin cancel, and are invariant to a shift.
    dense = not (sparse.issparse(X) or sparse.issparse(L))
    center = column_means(L) if dense else np.zeros(d)
    L = L - center if dense else L
    gradient_squares, means, mean_squares = np.zeros((3, d))
    for span in row_slices(*X.shape):
        Z = dense_block(X, span) - center
        share = v[span]
        means += share @ Z
        mean_squares += share @ (Z * Z)
        for k in range(u.shape[1]):
            terms = K[span] * u[:, k]
            slope = Z * terms.sum(axis=1)[:, None] - terms @ L
            gradient_squares += share @ (slope * slope)
    return gradient_squares, np.maximum(mean_squares - means * means, 0.0)


def _mean_squared_steps(
    phi: LandmarkMap, X: Array, K: Array, u: Array, v: Array
) -> tuple[Array, Array]:
    """Compute mean squared gradients and mean distances per column, for a Laplacian kernel.

    A function is f(x) = sum_l u_l k(x, l). The first result is (df/dx_j)^2 / gamma_j^2, the second
    the mean of |x_j - l_j| over rows and landmarks l.
    """
    squares, distances = np.zeros((2, X.shape[1]))
    for span in row_slices(len(X), K.shape[1]):
        values = K[span]
        share = v[span]
        for j, landmark_values in enumerate(phi.landmarks.T):
            differences = X[span, j, None] - landmark_values
            slopes = (values * np.sign(differences)) @ u
            squares[j] += share @ (slopes * slopes).sum(axis=1)
            distances[j] += share @ np.abs(differences).mean(axis=1)
    return squares, distances


def _sample_landmarks(landmarks: Any, max_landmarks: int) -> Any:
    """Choose at most `max_landmarks` landmarks, independent of duplicates and of their order.

    The order of columns does not matter either.
    """
    is_sparse = sparse.issparse(landmarks)
    keys = content_keys(landmarks) if is_sparse else rank_hashes(landmarks)[0]
    distinct = np.unique(keys, return_index=True)[1]
    return landmarks[distinct[:: -(-len(distinct) // max_landmarks)]]


def _variance(X: Any, share: Array, columns: Array) -> float:
    """Compute the variance of all numbers in the given columns, each with the share of its row.

    One of the numbers is subtracted first, so that equal numbers have a variance of exactly zero.
    """
    n = X.shape[0]
    d = len(columns)
    all_columns = d == X.shape[1]
    if sparse.issparse(X):
        X = X if all_columns else X[:, columns]
        # The deviation of zeros that are not stored is -mean.
        mean = float(share @ np.asarray(X.mean(axis=1, dtype=np.float64)).ravel())
        stored = X.copy().astype(np.float64)
        if X.nnz == n * d and (X.data == X.data[0]).all():
            return 0.0
        stored.data = (stored.data - mean) ** 2 - mean**2
        return float(share @ (np.asarray(stored.sum(axis=1)).ravel() / d + mean**2))

    def blocks() -> Iterator[tuple[Array, Array]]:
        for span, block in row_blocks(X):
            yield share[span], block if all_columns else block[:, columns]

    first = float(X[0, columns[0]])
    mean = sum(float(part @ (block - first).mean(axis=1)) for part, block in blocks())
    return sum(float(part @ ((block - first - mean) ** 2).mean(axis=1)) for part, block in blocks())
