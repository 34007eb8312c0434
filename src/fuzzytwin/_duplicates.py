"""Warn about equal rows without groups, and about groups that hold all rows of a class."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._rows import Rows
from fuzzytwin._utils.notices import warn_user
from fuzzytwin.core.hashing import row_hashes

MIN_TESTED_ROWS = 100
MAX_TESTED_ROWS = 100_000  # only the first ones are tested
MAX_EQUAL_SHARE = 0.1  # largest share of equal rows without a warning
MAX_COMPARED = 50  # rows that are compared with all others, as each costs a pass over the table


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
    """Warn about many equal rows, which make leave-one-out values optimistic.

    `results` names the overconfident results, for the message.
    """
    n = min(X.shape[0], MAX_TESTED_ROWS)
    equal = count_duplicates(X[:n])
    if not equal:
        return
    tested = f"of {n} rows" if n == X.shape[0] else f"of the first {n} rows"
    warn_user(
        f"about {equal} {tested} equal another row: when one is held out, its copies remain, and "
        f"{results} are overconfident. If they belong together (visits of a patient, copies of a "
        "record), give groups=, one value per row, to hold out whole groups.",
    )


def count_duplicates(X: Any) -> int:
    """Count the rows that equal another row. The count is 0 unless it is a large share of the rows.

    Equal rows do not count if as many rows differ from them in only one or two columns: equality
    is then a coincidence, as in a table of a few categories.
    """
    n, d = X.shape
    if n < MIN_TESTED_ROWS or sparse.issparse(X):
        return 0
    X = np.asarray(X)
    _, inverse, counts = np.unique(row_hashes(X), return_inverse=True, return_counts=True)
    copies = counts[inverse] - 1
    repeated = np.flatnonzero(copies)
    if len(repeated) <= MAX_EQUAL_SHARE * n or len(counts) == 1:
        return 0
    compared = repeated[:: -(-len(repeated) // MAX_COMPARED)]
    n_different = np.array([(X[i] != X).sum(axis=1) for i in compared])
    similar = (n_different > 0) & (n_different <= max(1, min(2, d // 3)))
    share = float((similar.sum(axis=1) < copies[compared]).mean())
    equal = share * len(repeated)
    return round(equal) if equal > MAX_EQUAL_SHARE * n else 0
