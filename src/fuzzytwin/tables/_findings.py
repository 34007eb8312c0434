"""What is worth knowing about a table, as data: a code, a column and values.

`describe` puts a finding into words. The caller chooses how parameters are written: Python writes
``drop=['age']``, the command line ``--drop age``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.text import count
from fuzzytwin._utils.text import listed as listed_names

# Writes a parameter and its value: ("drop", "age") -> "drop=['age']".
Option = Callable[[str, str], str]

TEMPLATES = {
    # How a column is used
    "dropped": "not used as a feature",
    "written_by_us": "written by a search for label issues; {numeric} keeps it",
    "index": "the index of a pandas frame, not used; {numeric} or {category} keeps it",
    "unsupported_type": "holds values of type {type}, not used",
    "unequal_lists": "holds lists of different lengths, not used",
    "empty": "no value in {rows}",
    "constant": "the same value in {rows}",
    "long_integers": "looks like an ID: more digits than floating-point numbers hold, not used",
    "row_counter": "numbers the rows, not used; {numeric} keeps it",
    "id_by_name": "an ID by its name, not used; {numeric} keeps it",
    "id_like": "looks like an ID ({example}), not used; {category} keeps it",
    "date": "dates such as {example}, not used; {numeric} reads days",
    "many_values": "more than {limit:,} different texts, not used; {category} keeps it",
    "few_integers": "{count} different whole numbers; if they are codes, use {category}",
    "brackets": "limits such as {example}, taken as categories; {numeric} reads numbers",
    "leading_zero_code": "a code, as {example} begins with a zero; {numeric} reads numbers",
    "leading_zeros": "{count:,} begin with zeros, such as {example}; {category} keeps them",
    "days": "days since 1970",
    "ambiguous_dates": "read as day/month, although month/day fits too: write dates as 2025-12-31",
    "impute_median": "missing values replaced by the median",
    "impute_mode": "missing values replaced by the most frequent value",
    "missing_category": "missing values are a category",
    "rare_categories": "the {count:,} rarest share one column",
    "spellings": "{listed} may be one category spelled differently; they are kept apart",
    # Cells of a column
    "limit": "{cells} read as a limit",
    "percentage": "{cells} read as a percentage",
    "thousands": "{cells} read as thousands",
    "other_decimal": "{cells} read with another decimal mark",
    "na_marker": "{cells} taken as missing",
    "unparsed": "{cells} not readable, taken as missing",
    "unknown_category": "{cells} not among the training rows",
    "new_missing": "{n_cells} missing (none in training), {filled}",
    "absent": "not there, {filled}",
    # What a reader should check
    "sentinel": (
        "holds {word} in {count:,} cells, far from all other numbers: if it stands for a missing "
        "value, leave these cells empty or use {missing}"
    ),
    "unique_integers": (
        "is a unique integer in every row, such as {example}: if it is an ID, leave it out: {drop}"
    ),
    "group_candidate": (
        "has {count:,} values, most of them in several rows, and rows that share a value share "
        "their label: if such rows belong together (visits of a patient), set {groups}"
    ),
    "target_leak": (
        "by itself gives a balanced accuracy of {score:.2f}, possibly target leakage: make sure "
        "that it is known before the label is, or leave it out: {drop}"
    ),
    "label_spellings": (
        "the labels {listed} differ only in case or spaces, but count as {count} classes; use one "
        "spelling"
    ),
    # Errors
    "infinite": "column {column!r} holds infinite numbers; fix them or leave it out: {drop}",
    "too_large": (
        "column {column!r} holds numbers so large that their squares overflow; divide them by a "
        "power of ten or leave it out: {drop}"
    ),
    "too_small": (
        "column {column!r} holds numbers so small that their squares underflow; multiply them by a "
        "power of ten or leave it out: {drop}"
    ),
    "infinite_cell": (
        "{source}, row {row}: column {column!r} holds infinite numbers; fix them or leave it out: "
        "{drop}"
    ),
    "no_numbers": "column {column!r} holds no finite numbers; {numeric} cannot be used for it",
    "bad_column": "column {column!r} {reason}; use another one, or leave it out: {drop}",
    "not_numbers": (
        "column {column!r} of {source} holds text such as {example!r}, but the model was trained "
        "on numbers in this column"
    ),
    "list_length": (
        "column {column!r} of {source} holds a list of {length} numbers in row {row}, but lists of "
        "{expected} in the first rows; make all lists equally long"
    ),
    "no_features": (
        "no column is left to learn from; the table needs one in addition to the target{examples}"
    ),
    "too_wide": (
        "the table would become {width:,} columns of numbers or more, but the limit is {limit:,}; "
        "leave columns out: {drop}"
    ),
    "missing_columns": (
        "{text} Rename columns that have another name here, or take absent columns as missing "
        "values: {allow_missing}"
    ),
    "sheet": "{text}; the workbook has the sheets {listed}: choose one by {sheet}",
    "too_little_memory": (
        "there is too little memory to read {source}{reason}; use {stream}, or read fewer "
        "columns of it"
    ),
    "no_label": "the target {column!r} is missing in {rows}; {remedy}",
    "no_classes": (
        "the target {column!r} holds measurements ({listed}, ...), not classes; bin them into "
        "classes first"
    ),
    "one_class": "the target {column!r} holds one class only ({label}){among}; {remedy}",
    "many_classes": (
        "the target {column!r} holds {count:,} different values, more than {limit}; is it the "
        "right column?"
    ),
    "rare_class": "class {label!r} of the target {column!r} has one row only{among}; {remedy}",
    "new_label": (
        "the target {column!r} holds the label {label} in row {row} of {source}, which is not "
        "among the rows that the classes were inferred from; {remedy}"
    ),
}
MAX_SPELLINGS = 3  # groups of spellings in a remark

# Findings whose sentence already names the column.
_NAMES_COLUMN = frozenset(
    code
    for code, template in TEMPLATES.items()
    if "{column" in template or code.startswith("label")
)

# Findings about the cells of a column, whose sentence fits several columns together.
ABOUT_CELLS = frozenset(
    code for code, template in TEMPLATES.items() if "{cells}" in template or "{n_cells}" in template
) | {"absent"}


@dataclass(frozen=True)
class Finding:
    """One observation about a table: a code, the column, and the values of the message.

    Examples
    --------
    >>> from fuzzytwin.tables import Finding, describe
    >>> finding = Finding("limit", "dose", {"count": 2, "example": "<0.5"})
    >>> describe(finding)
    "2 cells such as '<0.5' read as a limit"
    """

    code: str
    column: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


_PYTHON = {
    "stream": "fuzzytwin.files to read batches",
    "all_rows": "infer the schema from all of them",
}


def python_option(name: str, value: str) -> str:
    """Write a remedy in Python that helps whichever function was called.

    >>> python_option("drop", "age"), python_option("groups", "patient")
    ("TablePreprocessor(drop=['age'])", "groups=X['patient']")
    """
    if name in _PYTHON:
        return _PYTHON[name]
    if name == "missing":
        return f"NaN instead of {value}"
    if name == "allow_missing":
        return f"add an empty column {value!r}"
    if name in ("drop", "numeric", "category"):
        return f"TablePreprocessor({name}=[{value!r}])"
    if name == "groups":
        return f"groups=X[{value!r}]"
    return f"{name}={value!r}"


def describe(finding: Finding, option: Option = python_option, *, full: bool = False) -> str:
    """Put a finding into words.

    Parameters
    ----------
    finding : Finding
        The observation to describe.
    option : callable, default=python_option
        Function of the name and the value of a parameter that returns both as the reader would
        write them. The command line has its own.
    full : bool, default=False
        Whether to name the column first.

    Returns
    -------
    str

    Examples
    --------
    >>> from fuzzytwin.tables import Finding, describe
    >>> describe(Finding("constant", "ward", {"rows": "20 rows"}), full=True)
    "column 'ward': the same value in 20 rows"
    """
    text = TEMPLATES[finding.code].format_map(_Fields(finding, option))
    if full and finding.column and finding.code not in _NAMES_COLUMN:
        return f"column {finding.column!r}{':' if _is_remark(finding) else ''} {text}"
    return text


def describe_all(findings: Iterable[Finding], option: Option = python_option) -> str:
    """Put the findings of one column into words. All groups of spellings share one remark."""
    findings = list(findings)
    spellings = [finding for finding in findings if finding.code == "spellings"]
    if len(spellings) < 2:
        return "; ".join(describe(finding, option) for finding in findings)
    groups = ", ".join("/".join(map(str, s.values["labels"])) for s in spellings[:MAX_SPELLINGS])
    more = ", ..." if len(spellings) > MAX_SPELLINGS else ""
    remark = f"spellings that may mean the same are kept apart: {groups}{more}"
    remarks = [describe(finding, option) for finding in findings if finding.code != "spellings"]
    return "; ".join([remark, *remarks])


def describe_together(
    findings: Iterable[Finding],
    option: Option,
    describe_one: Callable[[Finding], str],
    at_least: int,
) -> list[str]:
    """Put findings into words. `at_least` so many of one kind, about columns, share a sentence."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        values = finding.values
        alone = () if finding.column else (number,)
        key = (finding.code, values.get("filled"), values.get("word"), *alone)
        groups.setdefault(key, []).append(finding)
    sentences = []
    for group in groups.values():
        first, *others = group
        names = [finding.column for finding in group]
        if len(group) < at_least:
            sentences += [describe_one(finding) for finding in group]
        elif first.code in ABOUT_CELLS:
            total = {"count": sum(finding.values.get("count", 0) for finding in group)}
            text = describe(replace(first, values={**first.values, **total}), option)
            sentences.append(f"{len(names):,} columns ({listed_names(names)}): {text}")
        else:
            more = f"{count(len(others), 'more column')}: {listed_names(names[1:])}"
            sentences.append(f"{describe_one(first)}. Also {more}")
    return sentences


def _is_remark(finding: Finding) -> bool:
    """Return whether the sentence of a finding has no verb for the column."""
    return finding.code not in ("sentinel", "unique_integers", "group_candidate", "target_leak")


class _Fields(dict[str, Any]):
    """The fields of a template: values of a finding, and parameters as the caller writes them."""

    def __init__(self, finding: Finding, option: Option) -> None:
        super().__init__(finding.values)
        self["column"] = finding.column
        self.option = option

    def __missing__(self, name: str) -> str:
        if name == "cells":
            return _cells(self["count"], self["example"])
        if name == "n_cells":
            return f"{self['count']:,} cells are" if self["count"] > 1 else "1 cell is"
        if name == "remedy":
            return f"shuffle the rows of the file, or {self.option('all_rows', '')}"
        if name == "listed":
            return listed(self["labels"])
        if name == "examples":
            return _left_out(self["columns"], self.option)
        return self.option(name, str(self.get("value", self["column"])))


def _left_out(columns: Iterable[Any], option: Option) -> str:
    """Describe columns that are not features, in parentheses."""
    shown = "; ".join(f"{c.name}: {c.kind}, {describe_all(c.findings, option)}" for c in columns)
    return f" ({shown})" if shown else ""


def _cells(count: int, example: object) -> str:
    """Count cells and show one of them."""
    shown = f"{str(example)!r:.40}"
    return f"{count:,} cells such as {shown}" if count > 1 else f"1 cell, {shown},"


def listed(words: Iterable[object], most: int = 6) -> str:
    """Join words by commas and "and".

    >>> listed(["ja", "JA", "Ja"])
    "'ja', 'JA' and 'Ja'"
    """
    shown = [repr(word) for word in words]
    if len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most:,} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


class TableWarning(UserWarning):
    """Warning that a table can be used, but may not mean what it seems to."""


def warn_of(findings: Iterable[Finding], option: Option = python_option) -> None:
    """Warn of findings in Python. Findings of one kind about several columns share a warning."""

    def describe_one(finding: Finding) -> str:
        return describe(finding, option, full=True)

    for sentence in describe_together(findings, option, describe_one, at_least=2):
        warn_user(f"{sentence}.", TableWarning)


class TableError(ValueError):
    """Error that a table cannot be used.

    Its attribute `finding` holds the message as data, for callers that write parameters in another
    way. It is None if the message names no parameter.
    """

    def __init__(self, message: str | Finding) -> None:
        self.finding = message if isinstance(message, Finding) else None
        super().__init__(f"{describe(message)}." if isinstance(message, Finding) else message)

    def __reduce__(self) -> tuple[type, tuple[str | Finding]]:
        return type(self), (self.finding or str(self),)


def find_spellings(words: Iterable[str]) -> Iterator[list[str]]:
    """Find groups of words that differ only in case or spaces, or of which one is an initial.

    >>> list(find_spellings(["f", "m", "F", "female", "New York", "new  york"]))
    [['F', 'f', 'female'], ['New York', 'new  york']]
    """
    by_key: dict[str, list[str]] = {}
    for word in words:
        by_key.setdefault(spelling_key(word), []).append(word)
    initials = [key for key in by_key if len(key) == 1 and key.isalpha()]
    for initial in initials:
        long = [key for key in by_key if key[0:1] == initial and len(key) > 3 and key.isalpha()]
        if len(long) == 1:
            by_key[long[0]] += by_key.pop(initial)
    return (sorted(group) for group in by_key.values() if len(group) > 1)


def spelling_key(word: object) -> str:
    """Return a word in lower case and without spaces."""
    return "".join(str(word).casefold().split())
