"""What reads well but may not mean what it seems to: sentinels, IDs, leaks, groups, spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin._utils.types import Array
from fuzzytwin.tables._findings import Finding, spelling_key
from fuzzytwin.tables._infer import CODES
from fuzzytwin.tables._parse import EXACT
from fuzzytwin.tables._schema import TableSchema

MIN_MARKS = 3  # cells of a number that stands for a missing value
MAX_MARKS = 3  # such numbers at one end of a column
N_NEIGHBORS = 20  # different numbers next to it
LEAK = 0.97  # balanced accuracy of one column
MIN_ROWS = 20  # to check a column by
MIN_GROUPS = 20  # values; by chance, as many hardly ever have one label each
MAX_ROWS = 2000  # that are looked at for a leak
MAX_COLUMNS = 1000


def check_table(X: Any, y: Array, schema: TableSchema, *, grouped: bool = True) -> list[Finding]:
    """Find sentinels, record numbers, target leaks, groups and spellings of labels.

    `X` holds the features as `TableSchema.decode` reads them. Without groups, columns by which rows
    may belong together are named. Nothing is changed.
    """
    found = label_spellings(y)
    numbers = [c.name for c in schema.features if c.kind == "number" and c.name in X.columns]
    for name in numbers:
        values = X[name].to_numpy(dtype=np.float64)
        found += [*sentinels(name, values), *unique_integers(name, values)]
    for name in () if grouped else X.columns[:MAX_COLUMNS]:
        found += group_candidates(name, X[name], y)
    plain = np.array([spelling_key(label) for label in y.tolist()])
    return found + target_leaks(X, plain)


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
    """Find numbers such as -999 that stand for a missing value: see `far_marks`."""
    values = values[~np.isnan(values)]
    if len(values) < MIN_ROWS:
        return
    distinct, counts = np.unique(values, return_counts=True)
    marks = far_marks(distinct, counts) | far_marks(distinct[::-1], counts[::-1])
    for mark, count in marks.items():
        whole = mark == round(mark) and abs(mark) < EXACT
        word = f"{mark:.0f}" if whole else repr(mark)
        yield Finding("sentinel", name, {"word": word, "value": word, "count": count})


def far_marks(distinct: Array, counts: Array) -> dict[float, int]:
    """Find repeated values at one end of a column, far from all others, and how often they occur.

    `distinct` are the different values from that end inwards. A value that is written in nines
    (-999) is far if it is three times as far from the next value as those next to it lie apart;
    any other value, except 0, if it lies farther from the others than these reach. Up to two other
    values may lie beside a mark (998 and 999).
    """
    marks: dict[float, int] = {}
    start = 0
    while start < len(distinct) and len(marks) < MAX_MARKS:
        size = _marks_at(distinct[start:], counts[start:])
        if not size:
            break
        for place in range(start, start + size):
            if counts[place] >= MIN_MARKS:
                marks[float(distinct[place])] = int(counts[place])
        start += size
    return marks


def _marks_at(distinct: Array, counts: Array) -> int:
    """Return how many of the first values are marks: see `far_marks`."""
    for size in range(1, min(MAX_MARKS, len(distinct) - 1) + 1):
        repeated = distinct[:size][counts[:size] >= MIN_MARKS]
        others = distinct[size:]
        gap = abs(others[0] - distinct[size - 1])
        near = others[:N_NEIGHBORS]
        apart = np.abs(np.diff(near)).max(initial=0.0)
        nines = any(_is_nines(mark) for mark in repeated) and gap > 3 * apart
        many = len(others) > max(CODES)
        reach = abs(others[-1] - others[0])
        if nines or (many and gap > reach and np.any(repeated != 0)):
            return size
    return 0


def _is_nines(mark: float) -> bool:
    """Return whether a number consists of nines only, such as 99, -9 or -999.99."""
    digits = f"{abs(mark):.10g}".replace(".", "")
    return set(digits) == {"9"} and (mark < 0 or len(digits) > 1)


def unique_integers(name: str, values: Array) -> Iterator[Finding]:
    """Find whole numbers, all different, that look like numbers of records.

    They rise or fall from row to row, or all have the same number of digits, at least four.
    """
    whole = len(values) >= MIN_ROWS and bool((values == np.round(values)).all())
    if not whole or len(np.unique(values)) < len(values):
        return
    steps = np.diff(values)
    digits = {len(f"{abs(value):.0f}") for value in values.tolist()}
    if (steps > 0).all() or (steps < 0).all() or (len(digits) == 1 and min(digits) >= 4):
        yield Finding("unique_integers", name, {"example": f"{values[0]:.0f}"})


def group_candidates(name: str, column: Any, y: Array) -> Iterator[Finding]:
    """Find text or whole numbers that come several times, each with one label only."""
    if column.dtype.kind == "f" and not (column.dropna() % 1 == 0).all():
        return
    value, values = column.factorize()
    known = value >= 0
    if not MIN_GROUPS <= len(values) <= known.sum() / 2:
        return
    label = np.unique(y, return_inverse=True)[1]
    of_value = np.unique(np.column_stack([value, label])[known], axis=0)[:, 0]
    if (np.bincount(of_value)[np.bincount(value[known]) > 1] == 1).all():
        yield Finding("group_candidate", name, {"count": len(values)})


def target_leaks(X: Any, y: Array) -> list[Finding]:
    """Find columns that give the label away: a small tree on one of them separates the classes."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(codes) < MIN_ROWS or len(classes) < 2 or X.shape[1] < 2:
        return []
    rows = np.arange(len(codes))
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False))
    codes = codes[rows]
    found = []
    for name in X.columns[:MAX_COLUMNS]:
        column = X[name].iloc[rows]
        if column.dtype.kind not in "biuf":
            column = column.fillna("").astype("category").cat.codes
        values = column.to_numpy(dtype=np.float64)
        # Ranks, as trees take no numbers beyond single precision; missing values come last.
        ranks = np.unique(values, return_inverse=True)[1][:, None]
        tree = DecisionTreeClassifier(
            max_leaf_nodes=2 * len(classes),
            min_samples_leaf=3,
            class_weight="balanced",
            random_state=0,
        ).fit(ranks, codes)
        score = float(balanced_accuracy_score(codes, tree.predict(ranks)))
        if score >= LEAK:
            found.append(Finding("target_leak", name, {"score": score}))
    return found
