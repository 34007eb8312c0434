"""Rows that belong together: groups as given, and a warning where rows repeat unannounced."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from fuzzytwin._rows import is_missing
from fuzzytwin._utils.types import Array

# Of fewer rows, no more can be said than that some are alike.
FEWEST_ROWS = 100
MOST_ROWS = 100_000  # looked at: the first ones
# Rows that equal others, or nearly, must be more than this share of all to be worth a warning.
LARGEST_EQUAL = 0.1
LARGEST_NEAR = 0.4
# Columns with fewer values, or more rows for each value on average, are taken for categories.
FEWEST_VALUES = 20
MOST_ROWS_PER_VALUE = 50
SAMPLE = 2000  # rows that show it
# Rows whose neighbours are looked at, by the work (numbers read) that it is.
FEWEST_QUERIES, MOST_QUERIES = 30, 100
MOST_WORK = 3e7
# A row has this many near copies at most; neighbours from the one place on to the other show how
# fast rows thin out with distance.
MOST_COPIES = 12
FAR = (15, 30)
# A gap between two neighbours counts from this ratio of distances on, and from this exponent of the
# chance of a larger one among rows that are spread evenly.
GAP = 2.0
CHANCE = 6.0
INDEPENDENT = 0.7  # categories of neighbours differ as often as those of any rows, by this factor


def encode_groups(
    groups: Any, n: int, codes: Array | None = None, classes: Any = None, stacklevel: int = 4
) -> Array:
    """Give each of n rows the number of its group, from 0 on.

    Where all rows of a class are in one group, a warning says so, if their classes are given.
    """
    cells = np.asarray(groups, dtype=object).ravel().tolist()
    if any(map(is_missing, cells)):
        raise ValueError(
            "groups holds missing values; give each row a group, if need be one of its own."
        )
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}; give one group per row, shape ({n},).")
    try:
        numbers = np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            "groups holds labels of several kinds; write all of them alike (e.g. as text)."
        ) from error
    if numbers.max() == 0:
        raise ValueError("groups has one group only, which cannot be left out; give at least two.")
    if codes is not None:
        held = np.unique(np.column_stack([codes, numbers]), axis=0)[:, 0]
        one = np.bincount(held, minlength=len(classes)) == 1
        single = classes[one & (np.bincount(codes, minlength=len(classes)) > 1)].tolist()
        if single:
            warnings.warn(
                f"all rows of class {single[0]!r} are in one group: where it is left out, nothing "
                "is known of the class; give groups that do not follow the labels.",
                UserWarning,
                stacklevel=stacklevel,
            )
    return numbers


def warn_of_duplicates(X: Any, what: str, stacklevel: int = 4) -> None:
    """Warn where many rows are equal or nearly so: left out one by one, they vouch for themselves.

    `what` is then too sure, for the text.
    """
    n = min(X.shape[0], MOST_ROWS)
    equal, near = count_duplicates(X[:n])
    if not (equal or near):
        return
    those = f"of {n} rows" if n == X.shape[0] else f"of the first {n} rows"
    which = f"{equal} {those} equal" if equal else f"{near} {those} nearly equal"
    warnings.warn(
        f"about {which} another row: where one is left out, its copies remain, and {what} are too "
        "sure. If they belong together (visits of a patient, copies of a record), give groups=, "
        "one label per row; the whole group is then left out.",
        UserWarning,
        stacklevel=stacklevel,
    )


def count_duplicates(X: Any) -> tuple[int, int]:
    """Count rows that equal another row, and estimate how many nearly equal one.

    Either is 0 unless it is a large share of the rows. Equal rows count unless as many others
    differ from them in a column or two only: then equality is a coincidence, as in a table of a
    few categories. Nearly equal rows are those whose nearest neighbours are much nearer than the
    next ones, by more than chance allows in rows that thin out with distance as these do.
    Columns of few values, which say nothing about that, show repetitions of another kind: rows that
    are equal in all of these are nearer in the others than any other row, though they are few.

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
    with np.errstate(all="ignore"):  # what is too large for this is not looked at
        scale = X.std(axis=0)
        # In units of the columns, or large ones would hide the others.
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=np.ptp(X, axis=0) > 0)
        key = X @ (unit * np.random.default_rng(0).normal(size=X.shape[1]))
    if not (np.isfinite(key).all() and np.isfinite(scale).all() and scale.any()):
        return 0, 0
    _, first, spot, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    some = X[:: -(-n // SAMPLE)]
    fine = [j for j in np.flatnonzero(scale > 0) if _is_fine(some[:, j])]
    repeated = np.flatnonzero(count[spot] > 1)
    if len(repeated) > LARGEST_EQUAL * n:
        chosen = _evenly(repeated, MOST_WORK / X.size)
        unlike = np.array([(X[i] != X).sum(axis=1) for i in chosen])
        alike = (unlike > 0) & (unlike <= max(1, min(2, X.shape[1] // 3)))
        share = float((alike.sum(axis=1) < count[spot[chosen]] - 1).mean())
        if share * len(repeated) > LARGEST_EQUAL * n:
            return round(share * len(repeated)), 0
    distinct = X[np.sort(first)]
    Z = (distinct[:, fine] - distinct[:, fine].mean(axis=0)) / scale[fine]
    share = _near_repeats(Z) if len(fine) > 1 else 0.0
    rough = np.setdiff1d(np.flatnonzero(scale > 0), fine)
    if share <= LARGEST_NEAR and len(fine) and len(rough):
        share = _alike_repeats(Z, distinct[:, rough] / scale[rough])
    return 0, round(share * n) if share > LARGEST_NEAR else 0


def _evenly(rows: Array, wanted: float) -> Array:
    """Choose rows, evenly spaced: as many as wanted, within bounds."""
    many = int(np.clip(wanted, min(FEWEST_QUERIES, len(rows)), min(MOST_QUERIES, len(rows))))
    return rows[np.linspace(0, len(rows) - 1, many).round().astype(int)]


def _is_fine(column: Array) -> bool:
    """Return whether a column holds numbers rather than categories, going by how many values."""
    return len(np.unique(column)) > max(FEWEST_VALUES, len(column) / MOST_ROWS_PER_VALUE)


def _near_repeats(Z: Array) -> float:
    """Estimate the share of rows that nearly equal another: distinct rows Z in units of columns.

    Among rows spread evenly in m dimensions, (r_j / r_(j+1))^(m j) of the distances r_j to the
    neighbours is uniform. m is taken from distances beyond those of near copies.
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


def _alike_repeats(Z: Array, categories: Array) -> float:
    """Estimate the share of rows that repeat another: of few that have all categories in common.

    Categories that follow from the other columns say nothing: there, the nearest of all other rows
    has more of them in common than any row has.
    """
    key = categories @ np.random.default_rng(0).normal(size=categories.shape[1])
    profile = np.unique(key, return_inverse=True)[1]
    chosen = _evenly(np.arange(len(Z)), MOST_WORK / Z.size)
    r, alike = euclidean_distances(Z[chosen], Z), profile[chosen, None] == profile
    others = np.where(alike, np.inf, r)
    nearest, any_row = others.argmin(axis=1), np.roll(chosen, len(chosen) // 2)
    unlike = [(categories[chosen] != categories[row]).mean() for row in (nearest, any_row)]
    if unlike[0] < INDEPENDENT * unlike[1]:
        return 0.0
    alike[np.arange(len(chosen)), chosen] = False
    copies = alike.sum(axis=1)
    near = np.where(alike, r, np.inf).min(axis=1) < others.min(axis=1)
    return float((near & (copies <= MOST_COPIES)).mean())
