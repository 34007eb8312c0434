"""Choose landmarks: a sample refined by k-means, centres of clusters, or those of the user."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_random_state

from fuzzytwin._utils.types import Array, Matrix, canonical
from fuzzytwin.core.blocks import column_means, dense_block
from fuzzytwin.core.hashing import content_keys, content_order

RandomState: TypeAlias = int | np.random.RandomState | None

# Landmarks are refined by k-means if there are at least this many rows per landmark, and at most
# this many columns. k-means reads at most this many rows per landmark, and numbers in total.
MIN_ROWS_PER_LANDMARK = 4
MAX_KMEANS_COLUMNS = 1000
MAX_ROWS_PER_LANDMARK = 30
MAX_KMEANS_NUMBERS = 1 << 22
KMEANS_ITERATIONS = 5  # iterations of k-means
# Centres are means of at least this many rows, from a sample of this many rows or more.
MIN_ROWS_PER_CENTER = 5
MIN_CENTERS_SAMPLE = 10_000
ROWS_PER_CENTER = 5  # rows per centre on average, before smaller clusters are dropped
MAX_CENTERS = 300  # default number of centres


def kmeans_landmarks(
    X: Matrix,
    codes: Array,
    s: Array | None,
    n_landmarks: int,
    random_state: RandomState,
    content: Any = None,
) -> Any:
    """Choose landmarks by stratified sampling and k-means within the classes.

    k-means is run only if there are many rows per landmark. Clustered rows are then covered by far
    fewer landmarks. If X has features of the rows, `content` are the original rows, by which the
    sample is drawn.
    """
    rng = check_random_state(random_state)
    content = X if content is None else content
    rows = _shuffled_rows(content, s, n_landmarks, rng)
    chosen = _stratified(rows, codes, n_landmarks)
    n = X.shape[0] if s is None else np.count_nonzero(s > 0)
    d = X.shape[1]
    if n < MIN_ROWS_PER_LANDMARK * len(chosen) or d > MAX_KMEANS_COLUMNS:
        return X[chosen]
    n_sampled = min(MAX_ROWS_PER_LANDMARK * len(chosen), MAX_KMEANS_NUMBERS // d)
    n_sampled = max(MIN_ROWS_PER_LANDMARK * len(chosen), n_sampled)
    sampled = _stratified(rows, codes, n_sampled)
    centers = dense_block(X, chosen)
    Z = dense_block(X, sampled)
    weight = None if s is None else s[sampled]
    centers = _class_means(centers, codes[chosen], Z, codes[sampled], weight)
    form: Any = type(X)
    return form(centers) if sparse.issparse(X) else centers


def center_landmarks(
    X: Matrix,
    s: Array | None,
    max_centers: int,
    random_state: RandomState,
    content: Any = None,
    groups: Array | None = None,
) -> Any:
    """Choose landmarks as centres of k-means, each the mean of at least `MIN_ROWS_PER_CENTER` rows.

    Labels are not used. Duplicates count once, and so do rows of one of the `groups`, so that no
    mean discloses a single row, or a single patient. Smaller clusters are dropped. Weights are
    ignored, except that rows of weight 0 are excluded.
    """
    rng = check_random_state(random_state)
    content = X if content is None else content
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    n_sampled = max(MIN_CENTERS_SAMPLE, MAX_KMEANS_NUMBERS // X.shape[1])
    rows = sample_rows(content, one_class, s, n_sampled, rng)
    rows = rows[np.unique(content_keys(content[rows]), return_index=True)[1]]
    units = np.arange(len(rows))
    if groups is not None:
        units = np.unique(groups[rows], return_inverse=True)[1]
    n_units = int(units.max()) + 1
    if n_units < MIN_ROWS_PER_CENTER:
        raise ValueError(
            f"n_landmarks='centers' needs {MIN_ROWS_PER_CENTER} different rows (of different "
            f"groups) for each landmark, but X has {n_units}; give more rows, or an array of "
            "landmarks."
        )
    Z = dense_block(X, rows)
    mean = column_means(Z)  # far from zero, squared distances lose their digits
    m = max(1, min(max_centers, n_units // ROWS_PER_CENTER))
    centers = _large_clusters(Z - mean, units, rng.choice(len(rows), m, replace=False)) + mean
    form: Any = type(X)
    return form(centers) if sparse.issparse(X) else centers


def check_landmarks(landmarks: Any, n_columns: int | None = None) -> Any:
    """Validate landmarks of the user, for rows of `n_columns` columns (None: any number)."""
    try:
        # A copy, since the model keeps it.
        checked = check_array(landmarks, accept_sparse="csr", dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise ValueError(
            f"n_landmarks={landmarks!r} is not an array of landmarks ({reason}); give finite "
            "numbers of shape (m, d), or the number of landmarks."
        ) from error
    if n_columns is not None and checked.shape[1] != n_columns:
        raise ValueError(
            f"n_landmarks holds landmarks of {checked.shape[1]} columns, but X has {n_columns}; "
            "give landmarks with the columns of X."
        )
    return canonical(checked)


def is_centers(n_landmarks: Any) -> bool:
    """Return whether landmarks are centres of clusters instead of rows."""
    return isinstance(n_landmarks, str) and n_landmarks == "centers"


def is_all(n_landmarks: Any) -> bool:
    """Return whether every training row is a landmark."""
    return isinstance(n_landmarks, str) and n_landmarks == "all"


def is_count(n_landmarks: Any) -> TypeGuard[int]:
    """Return whether this is a number of landmarks (valid or not), not the landmarks themselves."""
    return not isinstance(n_landmarks, list | tuple) and np.ndim(n_landmarks) == 0


def sample_rows(
    X: Any, codes: Array, s: Array | None, max_rows: int, rng: np.random.RandomState
) -> Array:
    """Sample rows of positive weight, stratified by class, or return all if they are few.

    Rows are sorted by content and then shuffled once, before they are divided into classes, so that
    the order of rows and columns and the names of labels do not matter.
    """
    return _stratified(_shuffled_rows(X, s, max_rows, rng), codes, max_rows)


def _shuffled_rows(X: Any, s: Array | None, max_rows: int, rng: np.random.RandomState) -> Array:
    """Shuffle the rows of positive weight, in an order of their content if they are many."""
    rows = np.arange(X.shape[0]) if s is None else np.flatnonzero(s > 0)
    if len(rows) <= max_rows:
        return rows
    has_all = len(rows) == X.shape[0]
    order = content_order(X if has_all else X[rows], None if s is None else s[rows])
    return np.asarray(rng.permutation(rows[order]))


def _stratified(rows: Array, codes: Array, max_rows: int) -> Array:
    """Take the first rows of each class, in proportion to the classes, or all if they are few."""
    if len(rows) <= max_rows:
        return rows
    labels = codes[rows]
    counts = np.bincount(labels)
    share = np.maximum(1, np.floor(max_rows * counts / len(rows)))
    by_class = np.argsort(labels, kind="stable")
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    rank_in_class = np.empty(len(rows), dtype=np.intp)
    rank_in_class[by_class] = np.arange(len(rows)) - starts
    return np.asarray(rows[rank_in_class < share[labels]])


def _class_means(
    centers: Array, center_codes: Array, rows: Array, codes: Array, weight: Array | None
) -> Array:
    """Move centres by k-means among the rows of their class."""
    mean = column_means(rows)  # far from zero, squared distances lose their digits
    centers = centers - mean
    rows = rows - mean
    weight = np.ones(len(rows)) if weight is None else weight / weight.max()
    for k in np.unique(center_codes):
        class_centers = np.flatnonzero(center_codes == k)
        m = len(class_centers)
        in_class = codes == k
        Z = rows[in_class]
        v = weight[in_class]
        for _ in range(KMEANS_ITERATIONS):
            nearest = _nearest(Z, centers[class_centers])
            members = sparse.csr_array((v, (nearest, np.arange(len(Z)))), shape=(m, len(Z)))
            total = np.bincount(nearest, v, minlength=m)
            filled = total > 0
            centers[class_centers[filled]] = (members @ Z)[filled] / total[filled, None]
    return np.asarray(centers + mean)


def _large_clusters(Z: Array, units: Array, first: Array) -> Array:
    """Run k-means from the rows `first`, and return the centres of clusters of enough units.

    `units` are the numbers of rows or of their groups. Clusters of fewer than
    `MIN_ROWS_PER_CENTER` units are dropped. If all are, return the overall
    mean.
    """
    centers = Z[first]
    for _ in range(KMEANS_ITERATIONS):
        clusters = _nearest(Z, centers)
        centers = _cluster_means(Z, clusters)
    of_cluster = np.unique(np.column_stack([clusters, units]), axis=0)[:, 0]
    sizes = np.unique(of_cluster, return_counts=True)[1]
    large = sizes >= MIN_ROWS_PER_CENTER
    return centers[large] if large.any() else Z.mean(axis=0, keepdims=True)


def _cluster_means(Z: Array, clusters: Array) -> Array:
    """Compute the mean of the rows of each cluster that has any."""
    _, clusters, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    entries = np.ones(len(Z)), (clusters, np.arange(len(Z)))
    members = sparse.csr_array(entries, shape=(len(sizes), len(Z)))
    return np.asarray((members @ Z) / sizes[:, None])


def _nearest(Z: Array, centers: Array) -> Array:
    """Find the centre nearest to each row, by |z - c|^2 - |z|^2."""
    distances = Z @ (-2.0 * centers.T)
    distances += (centers * centers).sum(axis=1)
    return np.asarray(distances.argmin(axis=1))
