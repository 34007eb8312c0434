"""What is known of a column, the key of a label, and what to say of a column that is not there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from fuzzytwin.tables._findings import Finding, describe_all

# Kinds of columns that are features, and the finding that says what becomes of missing values.
FEATURE_KINDS = {
    "number": "impute_median",
    "code": "impute_mode",
    "boolean": "impute_mode",
    "category": "missing_category",
}
MAX_NAMES, MAX_LETTERS = 9, 120  # of columns in a message


@dataclass(frozen=True)
class Column:
    """What a column holds and what becomes of it.

    The kinds "number", "code" (whole numbers that stand for something), "boolean" and "category"
    are features; "id", "date", "text", "constant", "empty" and "dropped" are left out.
    """

    name: str
    kind: str
    distinct: int = 0  # different values among the rows that it was inferred from
    missing: int = 0  # missing ones among them
    findings: tuple[Finding, ...] = ()  # why it is of this kind, or how it is read
    categories: tuple[Any, ...] = ()  # values of a code or a category, sorted
    style: str = ""  # how its dates are written, if they are read as numbers
    list_name: str = ""  # the column of lists that it is an element of

    @property
    def used(self) -> bool:
        """Return whether the column is a feature."""
        return self.kind in FEATURE_KINDS

    @property
    def note(self) -> str:
        """Return the findings in words."""
        return describe_all(self.findings)


def label_key(word: str, decimal: str = ".") -> str:
    """Return a key that identifies a label: its number, its truth value, or its text.

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
    known: Collection[str] = (),
) -> str:
    """Say that a column is not there, or twice, or that many of those needed are not.

    `names` are the columns that are there, `known` those that a model knows: a new name is probably
    among the others. The nearest ones come first.
    """
    if name in names:
        return f"{source} has column {name!r} twice. Its columns are {_nearest(name, names)}."
    if name not in needed:
        return (
            f"{source} has no column {name!r}{_meant(name, names)} Its columns are "
            f"{_nearest(name, names)}."
        )
    new = [other for other in map(str, names) if other not in {*needed, *known}]
    listed = f" Its new columns are {_nearest(name, new)}." if new else ""
    lost = [one for one in needed if one not in names]
    if len(lost) == 1:
        return f"{source} has no column {name!r}, which the model needs{_meant(name, new)}{listed}"
    more = f" and {len(lost) - 6:,} more" if len(lost) > 6 else ""
    return (
        f"{source} lacks {len(lost):,} columns that the model needs: "
        f"{', '.join(map(repr, lost[:6]))}{more}.{listed}"
    )


def _meant(name: str, names: Sequence[str]) -> str:
    """Ask whether the name that is most like a name was meant, if it is like enough."""
    lower = {other.lower(): other for other in reversed(list(map(str, names)))}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    near += [other for other in lower if name.lower() in other.split("_")]  # age_years for age
    return f"; did you mean {lower[near[0]]!r}?" if near else "."


def _nearest(name: str, names: Sequence[str]) -> str:
    """List names, those most like a name first."""

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()

    words = sorted(map(str, names), key=likeness, reverse=True)
    shown = words[:1]
    while len(shown) < min(len(words), MAX_NAMES) and sum(map(len, shown)) < MAX_LETTERS:
        shown.append(words[len(shown)])
    more = f" and {len(words) - len(shown):,} more" if len(words) > len(shown) else ""
    return ", ".join(shown) + more
