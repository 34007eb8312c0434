"""Check a table for sentinels, IDs, target leaks, groups of rows and spellings of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin._rows import is_missing
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._findings import Finding, TableWarning, spelling_key, warn_of
from fuzzytwin.tables._infer import FEW
from fuzzytwin.tables._parse import EXACT
from fuzzytwin.tables._schema import TableSchema

MIN_CELLS = 3  # occurrences of a sentinel
MAX_SENTINELS = 3  # at one end of a column
N_NEIGHBORS = 20  # different numbers that a sentinel is compared with
LEAK = 0.97  # balanced accuracy of one column
MIN_ROWS = 20  # fewer rows are not checked
MIN_GROUPS = 20  # different values; so many seldom have one label each by chance
MAX_ROWS = 2000  # sampled to search for a leak
MAX_COLUMNS = 1000  # that are checked


def check_table(X: Any, y: Array, schema: TableSchema, *, grouped: bool = True) -> list[Finding]:
    """Find sentinels, record numbers, target leaks, groups and spellings of labels.

    `X` holds the features as `TableSchema.decode` reads them. Columns that may group rows are
    searched for only if the rows have no groups yet. Nothing is changed.
    """
    findings = label_spellings(y)
    numbers = [c.name for c in schema.features if c.kind == "number" and c.name in X.columns]
    for name in numbers:
        values = X[name].to_numpy(dtype=np.float64)
        findings += [*sentinels(name, values), *unique_integers(name, values)]
    if not grouped:
        for name in X.columns[:MAX_COLUMNS]:
            findings += group_candidates(name, X[name], y)
    return findings + target_leaks(X, _spelling_keys(y))


def warn_of_labels(X: Any, y: Array, columns: Iterable[Column] | None = None) -> None:
    """Warn of spellings of labels and, if X is a data frame, of target leaks.

    The command line shows the same findings of `check_table` as notes. `columns` says which columns
    of X are features; None if all are.
    """
    leaks = target_leaks(X, _spelling_keys(y), columns=columns)
    warn_of_findings(X, [*label_spellings(y), *leaks])


def warn_of_findings(X: Any, findings: list[Finding]) -> None:
    """Warn of findings about a data frame in Python, where a column is left out by `drop`."""
    names = {str(name): name for name in frame_names(X)}

    def option(_: str, column: str) -> str:
        return f"X.drop(columns={names[column]!r})"

    warn_of(findings, option)


def warn_of_row_names(columns: Iterable[Column], remedy: str) -> None:
    """Warn that columns of numbers are not used because they name rows. `remedy` keeps them."""
    codes = {"row_counter", "id_by_name", "long_integers"}
    names = [c.name for c in columns if codes & {finding.code for finding in c.findings}]
    if names:
        warn_user(
            f"whole numbers that name rows are not used: {', '.join(map(repr, names[:5]))}"
            f"{', ...' if len(names) > 5 else ''}; {remedy} keeps them.",
            TableWarning,
        )


def frame_names(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none for other rows."""
    names = getattr(X, "column_names", None)  # an Arrow table has its columns in `columns`
    return list(getattr(X, "columns", ()) if names is None else names)


def _spelling_keys(y: Array) -> Array:
    return np.array([spelling_key(label) for label in y.tolist()])


def label_spellings(y: Array) -> list[Finding]:
    """Find classes that differ only in case or spaces: ja, JA, Ja.

    >>> import numpy as np
    >>> [finding.values["labels"] for finding in label_spellings(np.array(["ja", "JA", "nein"]))]
    [['JA', 'ja']]
    """
    by_key: dict[str, list[str]] = {}
    for label in map(str, np.unique(y).tolist()):
        by_key.setdefault(spelling_key(label), []).append(label)
    return [
        Finding("label_spellings", values={"labels": labels, "count": len(labels)})
        for labels in by_key.values()
        if len(labels) > 1
    ]


def sentinels(name: str, values: Array) -> Iterator[Finding]:
    """Find numbers such as -999 that may stand for missing values: see `far_values`."""
    values = values[~np.isnan(values)]
    if len(values) < MIN_ROWS:
        return
    distinct, counts = np.unique(values, return_counts=True)
    far = far_values(distinct, counts) | far_values(distinct[::-1], counts[::-1])
    for value, count in far.items():
        is_integer = value == round(value) and abs(value) < EXACT
        word = f"{value:.0f}" if is_integer else repr(value)
        yield Finding("sentinel", name, {"word": word, "value": word, "count": count})


def far_values(distinct: Array, counts: Array) -> dict[float, int]:
    """Find repeated values at one end of a column, far from all others, and count their cells.

    `distinct` are the different values from that end inwards. A value that consists of nines
    (-999) is far if its distance from the next value is three times the largest distance between
    the values next to it. Any other value, except 0, is far if its distance from the others exceeds
    their range. Up to two other values may lie beside a far one (998 and 999).
    """
    far: dict[float, int] = {}
    start = 0
    while start < len(distinct) and len(far) < MAX_SENTINELS:
        size = _count_far(distinct[start:], counts[start:])
        if not size:
            break
        for i in range(start, start + size):
            if counts[i] >= MIN_CELLS:
                far[float(distinct[i])] = int(counts[i])
        start += size
    return far


def _count_far(distinct: Array, counts: Array) -> int:
    """Return how many of the first values are far from all others: see `far_values`."""
    for size in range(1, min(MAX_SENTINELS, len(distinct) - 1) + 1):
        repeated = distinct[:size][counts[:size] >= MIN_CELLS]
        remaining = distinct[size:]
        distance = abs(remaining[0] - distinct[size - 1])
        largest_step = np.abs(np.diff(remaining[:N_NEIGHBORS])).max(initial=0.0)
        if any(map(_is_nines, repeated)) and distance > 3 * largest_step:
            return size
        value_range = abs(remaining[-1] - remaining[0])
        has_many_values = len(remaining) > max(FEW)
        if has_many_values and distance > value_range and np.any(repeated != 0):
            return size
    return 0


def _is_nines(value: float) -> bool:
    """Return whether a number consists of nines only, such as 99, -9 or -999.99."""
    digits = f"{abs(value):.10g}".replace(".", "")
    return set(digits) == {"9"} and (value < 0 or len(digits) > 1)


def unique_integers(name: str, values: Array) -> Iterator[Finding]:
    """Find a column of unique integers that look like record numbers.

    They rise or fall from row to row, or all have the same number of digits, at least four.
    """
    if len(values) < MIN_ROWS or not (values == np.round(values)).all():
        return
    if len(np.unique(values)) < len(values):
        return
    steps = np.diff(values)
    digits = {len(f"{abs(value):.0f}") for value in values.tolist()}
    if (steps > 0).all() or (steps < 0).all() or (len(digits) == 1 and min(digits) >= 4):
        yield Finding("unique_integers", name, {"example": f"{values[0]:.0f}"})


def group_candidates(name: str, column: Any, y: Array) -> Iterator[Finding]:
    """Find text or whole numbers that occur several times, each with one label only."""
    if column.dtype.kind == "f" and not (column.dropna() % 1 == 0).all():
        return
    codes, values = column.factorize()
    is_present = codes >= 0
    if not MIN_GROUPS <= len(values) <= is_present.sum() / 2:
        return
    label_codes = np.unique(y, return_inverse=True)[1]
    pairs = np.unique(np.column_stack([codes, label_codes])[is_present], axis=0)
    n_labels = np.bincount(pairs[:, 0])
    n_rows = np.bincount(codes[is_present])
    if (n_labels[n_rows > 1] == 1).all():
        yield Finding("group_candidate", name, {"count": len(values)})


def target_leaks(
    X: Any, y: Array, rows: Array | None = None, columns: Iterable[Column] | None = None
) -> list[Finding]:
    """Find columns that give the label away: a small tree on one of them separates the classes.

    X is a data frame of pandas, polars or Arrow. Rows without names of columns have no findings.
    `rows` are those with a label, by default all. `columns` are those of a schema, of which only
    features are searched.
    """
    names = frame_names(X)
    if columns is not None:
        used = {column.name for column in columns if column.used}
        names = [name for name in names if str(name) in used]
    rows = np.arange(len(y)) if rows is None else rows
    if len(rows) < MIN_ROWS or len(names) < 2:
        return []
    classes = np.unique(y[rows])
    if len(classes) < 2:
        return []
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False))
    codes = np.searchsorted(classes, y[rows])
    findings = []
    for name in names[:MAX_COLUMNS]:
        tree = DecisionTreeClassifier(
            max_leaf_nodes=2 * len(classes),
            min_samples_leaf=3,
            class_weight="balanced",
            random_state=0,
        )
        ranks = _ranks(np.asarray(X[name])[rows])[:, None]
        score = float(balanced_accuracy_score(codes, tree.fit(ranks, codes).predict(ranks)))
        if score >= LEAK:
            findings.append(Finding("target_leak", str(name), {"score": score}))
    return findings


def _ranks(values: Array) -> Array:
    """Return the rank of each value, because trees use single precision only.

    Missing numbers come last. Values of other types are ranked as text.
    """
    if values.dtype.kind == "O":
        missing = np.array([not hasattr(v, "__len__") and is_missing(v) for v in values])
        numbers = all(isinstance(value, Real) for value in values[~missing])
        texts = np.array([str(value) for value in values])
        texts[missing] = ""
        values = np.where(missing, np.nan, values).astype(np.float64) if numbers else texts
    return np.asarray(np.unique(values, return_inverse=True)[1])
