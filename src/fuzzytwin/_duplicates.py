"""Groups of rows, and a warning of duplicates that are in no group."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from fuzzytwin._rows import is_missing
from fuzzytwin._utils.types import Array

FEWEST_ROWS = 100  # too few rows for a test otherwise
MOST_ROWS = 100_000  # only the first ones are tested
# Largest shares of equal and nearly equal rows without a warning.
LARGEST_EQUAL = 0.1
LARGEST_NEAR = 0.4
# Columns with fewer values, or more rows per value on average, are taken as categories.
FEWEST_VALUES = 20
MOST_ROWS_PER_VALUE = 50
SAMPLE = 2000  # rows in which values are counted
# Number of rows whose neighbours are searched, limited by the numbers read.
FEWEST_QUERIES, MOST_QUERIES = 30, 100
MOST_WORK = 3e7
MOST_COPIES = 12  # near copies of a row
FAR = (15, 30)  # neighbours from which the dimension is estimated
# Least ratio of the distances of two successive neighbours, and least exponent of the p-value of
# this ratio for uniformly distributed rows, that separate copies from other rows.
GAP = 2.0
CHANCE = 6.0
# Categories are taken as independent of the other columns if those of neighbours differ at least
# this many times as often as those of any two rows.
INDEPENDENT = 0.7


def encode_groups(
    groups: Any, n: int, codes: Array | None = None, classes: Any = None, stacklevel: int = 4
) -> Array:
    """Return the number of the group of each of n rows, counted from 0.

    Warns if all rows of a class are in one group, if `codes` and `classes` are given.
    """
    cells = np.asarray(groups, dtype=object).ravel().tolist()
    if any(map(is_missing, cells)):
        raise ValueError(
            "groups holds missing values; give each row a group, if necessary one of its own."
        )
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}; give one group per row, shape ({n},).")
    try:
        numbers = np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            "groups holds labels of several kinds; convert all to one type (e.g. text)."
        ) from error
    if numbers.max() == 0:
        raise ValueError("groups has one group only, which cannot be left out; give at least two.")
    if codes is not None:
        class_of_pair = np.unique(np.column_stack([codes, numbers]), axis=0)[:, 0]
        one_group = np.bincount(class_of_pair, minlength=len(classes)) == 1
        several_rows = np.bincount(codes, minlength=len(classes)) > 1
        single = classes[one_group & several_rows].tolist()
        if single:
            warnings.warn(
                f"all rows of class {single[0]!r} are in one group: when it is left out, the class "
                "has no rows; give groups that do not follow the labels.",
                UserWarning,
                stacklevel=stacklevel,
            )
    return numbers


def warn_of_duplicates(X: Any, what: str, stacklevel: int = 4) -> None:
    """Warn of many equal or nearly equal rows, which make leave-one-out values optimistic.

    `what` names the overconfident results, for the message.
    """
    n = min(X.shape[0], MOST_ROWS)
    equal, near = count_duplicates(X[:n])
    if not (equal or near):
        return
    tested = f"of {n} rows" if n == X.shape[0] else f"of the first {n} rows"
    duplicates = f"{equal} {tested} equal" if equal else f"{near} {tested} nearly equal"
    warnings.warn(
        f"about {duplicates} another row: when one is left out, its copies remain, and {what} are "
        "overconfident. If they belong together (visits of a patient, copies of a record), give "
        "groups=, one label per row, to leave out whole groups.",
        UserWarning,
        stacklevel=stacklevel,
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
    if n < FEWEST_ROWS or sparse.issparse(X):
        return 0, 0
    X = np.asarray(X, dtype=np.float64)
    with np.errstate(all="ignore"):  # columns that overflow are rejected below
        scale = X.std(axis=0)
        # In units of each column, as large columns would hide the others.
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=np.ptp(X, axis=0) > 0)
        key = X @ (unit * np.random.default_rng(0).normal(size=X.shape[1]))
    if not (np.isfinite(key).all() and np.isfinite(scale).all() and scale.any()):
        return 0, 0
    _, first, spot, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    sampled_rows = X[:: -(-n // SAMPLE)]
    numeric = [j for j in np.flatnonzero(scale > 0) if _is_numeric(sampled_rows[:, j])]
    repeated = np.flatnonzero(count[spot] > 1)
    if len(repeated) > LARGEST_EQUAL * n:
        chosen = _evenly(repeated, MOST_WORK / X.size)
        n_different = np.array([(X[i] != X).sum(axis=1) for i in chosen])
        similar = (n_different > 0) & (n_different <= max(1, min(2, X.shape[1] // 3)))
        share = float((similar.sum(axis=1) < count[spot[chosen]] - 1).mean())
        if share * len(repeated) > LARGEST_EQUAL * n:
            return round(share * len(repeated)), 0
    distinct = X[np.sort(first)]
    Z = (distinct[:, numeric] - distinct[:, numeric].mean(axis=0)) / scale[numeric]
    share = _near_duplicate_share(Z) if len(numeric) > 1 else 0.0
    categorical = np.setdiff1d(np.flatnonzero(scale > 0), numeric)
    if share <= LARGEST_NEAR and len(numeric) and len(categorical):
        share = _same_category_share(Z, distinct[:, categorical] / scale[categorical])
    return 0, round(share * n) if share > LARGEST_NEAR else 0


def _evenly(rows: Array, wanted: float) -> Array:
    """Choose evenly spaced rows, as many as wanted, within bounds."""
    number = int(np.clip(wanted, min(FEWEST_QUERIES, len(rows)), min(MOST_QUERIES, len(rows))))
    return rows[np.linspace(0, len(rows) - 1, number).round().astype(int)]


def _is_numeric(column: Array) -> bool:
    """Return whether a column has so many values that it holds numbers rather than categories."""
    return len(np.unique(column)) > max(FEWEST_VALUES, len(column) / MOST_ROWS_PER_VALUE)


def _near_duplicate_share(Z: Array) -> float:
    """Estimate the share of rows that nearly equal another, from distinct, scaled rows Z.

    If rows are uniformly distributed in m dimensions, and r_j is the distance to neighbour j,
    (r_j / r_(j+1))^(m j) is uniform. m is estimated from neighbours beyond possible copies.
    """
    if len(Z) <= FAR[1] + 1:
        return 0.0
    chosen = _evenly(np.arange(len(Z)), MOST_WORK / Z.size)
    search = NearestNeighbors(n_neighbors=FAR[1] + 1, algorithm="brute")
    r = search.fit(Z).kneighbors(Z[chosen])[0][:, 1:]
    r = np.maximum(r, np.finfo(float).tiny)
    spread = np.log(r[:, FAR[1] - 1] / r[:, FAR[0] - 1])
    m = np.log(FAR[1] / FAR[0]) / max(float(np.mean(spread)), 1e-12)
    step = np.log(r[:, 1 : MOST_COPIES + 1] / r[:, :MOST_COPIES])
    gaps = (step > np.log(GAP)) & (m * np.arange(1, MOST_COPIES + 1) * step > CHANCE)
    return float(gaps.any(axis=1).mean())


def _same_category_share(Z: Array, categories: Array) -> float:
    """Estimate the share of duplicates among rows with the same categories as few other rows.

    It is 0 if categories depend on the other columns: the nearest row with other categories then
    shares more of them than an arbitrary row does.
    """
    key = categories @ np.random.default_rng(0).normal(size=categories.shape[1])
    profile = np.unique(key, return_inverse=True)[1]
    chosen = _evenly(np.arange(len(Z)), MOST_WORK / Z.size)
    r = euclidean_distances(Z[chosen], Z)
    same_profile = profile[chosen, None] == profile
    r_other = np.where(same_profile, np.inf, r)
    nearest = r_other.argmin(axis=1)
    any_row = np.roll(chosen, len(chosen) // 2)
    differ_nearest = (categories[chosen] != categories[nearest]).mean()
    differ_any = (categories[chosen] != categories[any_row]).mean()
    if differ_nearest < INDEPENDENT * differ_any:
        return 0.0
    same_profile[np.arange(len(chosen)), chosen] = False
    copies = same_profile.sum(axis=1)
    near = np.where(same_profile, r, np.inf).min(axis=1) < r_other.min(axis=1)
    return float((near & (copies <= MOST_COPIES)).mean())
