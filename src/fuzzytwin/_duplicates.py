"""Warn about duplicates without groups, and about groups that hold all rows of a class."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from fuzzytwin._rows import Rows
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array

MIN_TESTED_ROWS = 100
MAX_TESTED_ROWS = 100_000  # only the first ones are tested
# Largest shares of equal and nearly equal rows without a warning.
MAX_EQUAL_SHARE = 0.1
MAX_NEAR_SHARE = 0.4
# Columns with fewer values, or more rows per value on average, are taken as categories.
MIN_NUMERIC_VALUES = 20
MAX_ROWS_PER_VALUE = 50
COUNTED_ROWS = 2000  # rows in which values are counted
# Number of rows whose neighbours are searched, limited by the numbers read.
MIN_QUERIES = 30
MAX_QUERIES = 100
MAX_QUERY_NUMBERS = 3e7
MAX_COPIES = 12  # near copies of a row
DIMENSION_NEIGHBORS = (15, 30)  # neighbours from which the dimension is estimated
# Least ratio of the distances of two successive neighbours, and least exponent of the p-value of
# this ratio for uniformly distributed rows, that separate copies from other rows.
MIN_DISTANCE_RATIO = 2.0
MIN_P_EXPONENT = 6.0
# Categories are taken as independent of the other columns if those of neighbours differ at least
# this many times as often as those of any two rows.
MIN_INDEPENDENCE = 0.7


def warn_of_leakage(rows: Rows, results: str) -> None:
    """Warn about rows that make leave-one-out values optimistic, or groups that hold a class.

    `results` names the results that depend on leave-one-out, for the message.
    """
    if rows.groups is None:
        warn_of_duplicates(rows.X, results)
    else:
        warn_of_single_groups(rows)


def warn_of_single_groups(rows: Rows) -> None:
    """Warn if all rows of a class are in one group, so that the class is left out as a whole."""
    assert rows.groups is not None
    K = len(rows.classes)
    pairs = np.unique(np.column_stack([rows.codes, rows.groups]), axis=0)
    one_group = np.bincount(pairs[:, 0], minlength=K) == 1
    several_rows = np.bincount(rows.codes, minlength=K) > 1
    single = rows.classes[one_group & several_rows].tolist()
    if single:
        warn_user(
            f"all rows of class {single[0]!r} are in one group, so the class has no rows when the "
            "group is held out; give groups that do not follow the labels.",
        )


def warn_of_duplicates(X: Any, results: str) -> None:
    """Warn about many equal or nearly equal rows, which make leave-one-out values optimistic.

    `results` names the overconfident results, for the message.
    """
    n = min(X.shape[0], MAX_TESTED_ROWS)
    equal, near = count_duplicates(X[:n])
    if not (equal or near):
        return
    tested = f"of {n} rows" if n == X.shape[0] else f"of the first {n} rows"
    duplicates = f"{equal} {tested} equal" if equal else f"{near} {tested} nearly equal"
    warn_user(
        f"about {duplicates} another row: when one is held out, its copies remain, and {results} "
        "are overconfident. If they belong together (visits of a patient, copies of a record), "
        "give groups=, one value per row, to hold out whole groups.",
    )


def count_duplicates(X: Any) -> tuple[int, int]:
    """Count rows that equal another row, and estimate how many nearly equal one.

    Either is 0 unless it is a large share of the rows. Equal rows do not count if as many rows
    differ from them in only one or two columns: equality is then a coincidence, as in a table of a
    few categories. Nearly equal rows are those whose nearest neighbours are much nearer than the
    next ones, by more than is plausible at the local dimension of the rows. Columns of few values
    are not used for this, but show other duplicates: rows that are equal in all of these, and
    nearer in the other columns than any other row, although they are few.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin._duplicates import count_duplicates
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> count_duplicates(X), count_duplicates(np.repeat(X, 2, axis=0))
    ((0, 0), (200, 0))
    """
    n = X.shape[0]
    if n < MIN_TESTED_ROWS or sparse.issparse(X):
        return 0, 0
    X = np.asarray(X, dtype=np.float64)
    with np.errstate(all="ignore"):  # columns that overflow are rejected below
        scale = X.std(axis=0)
        # In units of each column, as large columns would hide the others.
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=np.ptp(X, axis=0) > 0)
        key = X @ (unit * np.random.default_rng(0).normal(size=X.shape[1]))
    if not (np.isfinite(key).all() and np.isfinite(scale).all() and scale.any()):
        return 0, 0
    _, first, inverse, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    sampled_rows = X[:: -(-n // COUNTED_ROWS)]
    numeric = [j for j in np.flatnonzero(scale > 0) if _is_numeric(sampled_rows[:, j])]
    repeated = np.flatnonzero(count[inverse] > 1)
    if len(repeated) > MAX_EQUAL_SHARE * n:
        chosen = _evenly_spaced(repeated, MAX_QUERY_NUMBERS / X.size)
        n_different = np.array([(X[i] != X).sum(axis=1) for i in chosen])
        similar = (n_different > 0) & (n_different <= max(1, min(2, X.shape[1] // 3)))
        share = float((similar.sum(axis=1) < count[inverse[chosen]] - 1).mean())
        if share * len(repeated) > MAX_EQUAL_SHARE * n:
            return round(share * len(repeated)), 0
    distinct = X[np.sort(first)]
    Z = (distinct[:, numeric] - distinct[:, numeric].mean(axis=0)) / scale[numeric]
    share = _near_duplicate_share(Z) if len(numeric) > 1 else 0.0
    categorical = np.setdiff1d(np.flatnonzero(scale > 0), numeric)
    if share <= MAX_NEAR_SHARE and len(numeric) and len(categorical):
        share = _same_category_share(Z, distinct[:, categorical] / scale[categorical])
    return 0, round(share * n) if share > MAX_NEAR_SHARE else 0


def _evenly_spaced(rows: Array, count: float) -> Array:
    """Choose evenly spaced rows, about `count` of them within bounds."""
    n_chosen = int(np.clip(count, min(MIN_QUERIES, len(rows)), min(MAX_QUERIES, len(rows))))
    return rows[np.linspace(0, len(rows) - 1, n_chosen).round().astype(int)]


def _is_numeric(column: Array) -> bool:
    """Return whether a column has so many values that it holds numbers rather than categories."""
    return len(np.unique(column)) > max(MIN_NUMERIC_VALUES, len(column) / MAX_ROWS_PER_VALUE)


def _near_duplicate_share(Z: Array) -> float:
    """Estimate the share of rows that nearly equal another, from distinct, scaled rows Z.

    If rows are uniformly distributed in m dimensions, and r_j is the distance to neighbour j,
    (r_j / r_(j+1))^(m j) is uniform. m is estimated from neighbours beyond possible copies.
    """
    if len(Z) <= DIMENSION_NEIGHBORS[1] + 1:
        return 0.0
    chosen = _evenly_spaced(np.arange(len(Z)), MAX_QUERY_NUMBERS / Z.size)
    search = NearestNeighbors(n_neighbors=DIMENSION_NEIGHBORS[1] + 1, algorithm="brute")
    r = search.fit(Z).kneighbors(Z[chosen])[0][:, 1:]
    r = np.maximum(r, np.finfo(float).tiny)
    low, high = DIMENSION_NEIGHBORS
    log_ratio = np.log(r[:, high - 1] / r[:, low - 1])
    m = np.log(high / low) / max(float(np.mean(log_ratio)), 1e-12)
    step = np.log(r[:, 1 : MAX_COPIES + 1] / r[:, :MAX_COPIES])
    exponent = m * np.arange(1, MAX_COPIES + 1) * step
    gaps = (step > np.log(MIN_DISTANCE_RATIO)) & (exponent > MIN_P_EXPONENT)
    return float(gaps.any(axis=1).mean())


def _same_category_share(Z: Array, categories: Array) -> float:
    """Estimate the share of duplicates among rows with the same categories as few other rows.

    It is 0 if categories depend on the other columns: the nearest row with other categories then
    shares more of them than an arbitrary row does.
    """
    key = categories @ np.random.default_rng(0).normal(size=categories.shape[1])
    profile = np.unique(key, return_inverse=True)[1]
    chosen = _evenly_spaced(np.arange(len(Z)), MAX_QUERY_NUMBERS / Z.size)
    r = euclidean_distances(Z[chosen], Z)
    same_profile = profile[chosen, None] == profile
    r_other = np.where(same_profile, np.inf, r)
    nearest = r_other.argmin(axis=1)
    any_row = np.roll(chosen, len(chosen) // 2)
    differ_nearest = (categories[chosen] != categories[nearest]).mean()
    differ_any = (categories[chosen] != categories[any_row]).mean()
    if differ_nearest < MIN_INDEPENDENCE * differ_any:
        return 0.0
    same_profile[np.arange(len(chosen)), chosen] = False
    copies = same_profile.sum(axis=1)
    near = np.where(same_profile, r, np.inf).min(axis=1) < r_other.min(axis=1)
    return float((near & (copies <= MAX_COPIES)).mean())
