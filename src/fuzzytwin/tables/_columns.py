"""The description of a column, the key of a label, and the message about a missing column."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from fuzzytwin.tables._findings import Finding, describe_all

# Kinds of columns that are features, and the finding that says how missing values are handled.
FEATURE_KINDS = {
    "number": "impute_median",
    "boolean": "impute_mode",
    "category": "missing_category",
}
MAX_NAMES = 9  # columns that a message lists
MAX_LETTERS = 120  # of the names in such a list


@dataclass(frozen=True)
class Column:
    """What a column holds and how it is used.

    The kinds "number", "boolean" and "category" are features. The kinds "id", "date", "text",
    "empty" and "dropped" are left out.
    """

    name: str
    kind: str
    distinct: int = 0  # number of different values in the sample
    missing: int = 0  # number of missing values in the sample
    findings: tuple[Finding, ...] = ()  # why the column has this kind, or how it is read
    categories: tuple[str, ...] = ()  # values of a category as `label_key`, sorted
    style: str = ""  # format of the day of dates that are read as numbers
    list_name: str = ""  # the column of lists, if this column is one element of them

    @property
    def used(self) -> bool:
        """Return whether the column is a feature."""
        return self.kind in FEATURE_KINDS

    @property
    def note(self) -> str:
        """Return the findings in words."""
        return describe_all(self.findings)


def label_key(word: str, decimal: str = ".") -> str:
    """Return a key that identifies a label or a category: its number, its truth value, or its text.

    >>> label_key("1.50"), label_key("+1"), label_key("TRUE"), label_key("01")
    ('1.5', '1', 'true', '01')
    """
    if decimal == "," and re.fullmatch(r"[+-]?(?:0|[1-9]\d*)?,\d+(?:[eE][+-]?\d+)?", word):
        word = word.replace(",", ".")
    if re.fullmatch(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", word):
        number = Decimal(word)
        exact = Context(prec=len(word) + 100)
        return format(number.normalize(exact), "f") if number else "0"
    return word.lower() if word.lower() in ("true", "false") else word


def missing_column(
    name: str,
    names: Sequence[str],
    source: object,
    needed: Sequence[str] = (),
    training_names: Collection[str] = (),
) -> str:
    """Return the message that a column is missing or occurs twice.

    `names` are the columns of the table. If the column is one of those that the model `needed`, the
    message counts all that are missing, and suggests only names that are not among the
    `training_names`: the column was probably renamed. The most similar names come first.
    """
    if name in names:
        return (
            f"{source} has several columns named {name!r}. Its columns are {_nearest(name, names)}."
        )
    if name not in needed:
        return (
            f"{source} has no column {name!r}{_meant(name, names)} Its columns are "
            f"{_nearest(name, names)}."
        )
    new = [
        candidate for candidate in map(str, names) if candidate not in {*needed, *training_names}
    ]
    listed = f" Its new columns are {_nearest(name, new)}." if new else ""
    missing = [column for column in needed if column not in names]
    if len(missing) == 1:
        return f"{source} has no column {name!r}, which the model needs{_meant(name, new)}{listed}"
    more = f" and {len(missing) - 6:,} more" if len(missing) > 6 else ""
    return (
        f"{source} lacks {len(missing):,} columns that the model needs: "
        f"{', '.join(map(repr, missing[:6]))}{more}.{listed}"
    )


def _meant(name: str, names: Sequence[str]) -> str:
    """Suggest the most similar name, if it is similar enough."""
    by_lower = {candidate.lower(): candidate for candidate in reversed(list(map(str, names)))}
    similar = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    similar += [lower for lower in by_lower if name.lower() in lower.split("_")]  # age: age_years
    return f"; did you mean {by_lower[similar[0]]!r}?" if similar else "."


def _nearest(name: str, names: Sequence[str]) -> str:
    """List names, the most similar ones first."""

    def similarity(candidate: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), candidate.lower()).ratio()

    ranked = sorted(map(str, names), key=similarity, reverse=True)
    shown = ranked[:1]
    while len(shown) < min(len(ranked), MAX_NAMES) and sum(map(len, shown)) < MAX_LETTERS:
        shown.append(ranked[len(shown)])
    more = f" and {len(ranked) - len(shown):,} more" if len(ranked) > len(shown) else ""
    return ", ".join(shown) + more
