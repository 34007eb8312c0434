"""Parse cells of text as numbers, truth values and dates, and count unusual cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzytwin._utils.extras import import_optional

Floats = NDArray[np.float64]


class _Lazy:
    """A module that is imported at its first use, with an error that says how to install it."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_optional(self.module, "files", "a file"), name)
        setattr(self, name, value)  # the next access is direct
        return value


pa: Any = _Lazy("pyarrow")
pc: Any = _Lazy("pyarrow.compute")

# Markers of missing values in every column: those of pandas except "None", which may be a class,
# and UCI's.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "#N/A",
    "#NA", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip
# Markers of missing values in columns of numbers, in lower case.
NO_NUMBER = (
    "-", "--", "---", "–", "—", ".", "..", "...", "*", "na", "n.a.", "n.a", "nd", "n.d.", "none",
    "nil", "missing", "unknown", "not available", "#div/0!", "#value!", "#ref!", "#num!", "#name?",
    "#null!",
)  # fmt: skip
MAX_TEXT = 0.1  # share of the cells of a column of numbers that may be text
MAX_LIMITS = 1 / 3  # share of the cells of a column of numbers that may be limits such as <0.5
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")  # after a date
_CLOCK = (  # a date and time with parts of a second and a time zone
    r"^(?P<plain>[^:]*:\d\d(?::\d\d)?)(?P<part>\.\d+)?"
    r" ?(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?$"
)
WHOLE = r"^-?(?:0|[1-9]\d*)$"
EXACT = 2.0**53  # doubles do not hold all whole numbers beyond this one
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LIMIT = r"(?:[<>≤≥]=?\s*)?"
_THOUSAND = rf"^{_LIMIT}[+-]?[1-9]\d{{0,2}}"  # digits before the first mark of thousands
_END = r"(?:[eE][+-]?\d+)?\s*%?"
_SPACES = r"'’\x{00a0}\x{2009}\x{202f} "  # between thousands
# Signs around a number, and ways to write the number itself: for each, the pattern of such cells,
# and what to replace by what.
_SIGNS = {
    "": ("", "", ""),
    "limit": (r"^[<>≤≥]|\+$", r"^[<>≤≥]=?\s*|\+$", ""),
    "percentage": (r"%$", r"\s*%$", ""),
}
_NOTATIONS = {
    "": (rf"^{NUMBER}$|^(?i:[+-]?inf(?:inity)?)$", "", ""),
    "thousands": (
        rf"^[+-]?[1-9]\d{{0,2}}(?:(?:,\d{{3}})+|(?:[{_SPACES}]\d{{3}})+)(?:\.\d*)?$",
        rf"[,{_SPACES}]",
        "",
    ),
    "other_decimal": (r"^[+-]?\d*,\d+(?:[eE][+-]?\d+)?$", ",", "."),
}
TRUE = ("true", "1", "1.0")
FALSE = ("false", "0", "0.0")


# Unusual cells by the code of their finding: (how many, an example).
Issues = dict[str, tuple[int, str]]
NA_MARKER, UNPARSED = "na_marker", "unparsed"


@dataclass
class Numbers:
    """Numbers that were read from a column, and its unusual cells.

    Cells of the kinds `NA_MARKER` and `UNPARSED` are NaN, as missing cells are.
    """

    values: Floats
    issues: Issues = field(default_factory=dict)

    @cached_property
    def present(self) -> Floats:
        """Return the numbers that are not missing."""
        return self.values if self.is_finite else self.values[~np.isnan(self.values)]

    @cached_property
    def is_finite(self) -> bool:
        """Return whether all numbers are finite. It tests their sum, and is False on overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(self.values.sum()))

    @property
    def is_numeric(self) -> bool:
        """Return whether at least 90% of the cells that are not missing hold numbers."""
        n_numbers = len(self.present)
        n_unparsed = self.issues.get(UNPARSED, (0, ""))[0]
        return n_numbers > 0 and n_unparsed <= MAX_TEXT * (n_numbers + n_unparsed)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type holds text, with or without a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind).endswith(("string", "string_view"))


def is_cell(kind: Any) -> bool:
    """Return whether a cell of a text file can hold an Arrow type: all except lists and bytes."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def decoded(column: Any) -> Any:
    """Return a column as a chunked array without a dictionary, and text of the type `string`."""
    if not hasattr(column, "chunks"):
        column = pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type) and column.type != pa.string():
        column = column.cast(pa.string())
    return column


def text(column: Any, missing: Sequence[str] = MISSING) -> Any:
    """Return cells as trimmed text, null if they are one of the markers `missing`.

    Cells of other types are written as in a CSV file.
    """
    column = decoded(column)
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        return pc.if_else(pc.is_in(column, value_set=pa.array(missing)), None, column)
    if not is_cell(column.type):
        raise ValueError(f"holds values of type {column.type}, which cannot be table cells")
    # Floats go through numpy, which writes those of single precision with fewer digits.
    values = column.to_numpy() if pa.types.is_floating(column.type) else column.to_pylist()
    markers = {*missing, *marker_numbers(missing)}
    cells = [None if v is None or v != v or v in markers else str(v) for v in values]
    return pa.chunked_array([pa.array(cells, pa.string())])


def missing_markers(chosen: Iterable[object]) -> tuple[str, ...]:
    """Return the user's markers of missing values, or the default ones if there are none."""
    markers = tuple(map(str, chosen))
    return tuple(dict.fromkeys(["", *markers])) if markers else MISSING


def marker_numbers(missing: Sequence[str]) -> list[float]:
    """Return the markers of missing values that are numbers, such as -999."""
    return [float(marker) for marker in missing if re.fullmatch(NUMBER, marker)]


def numbers(column: Any, decimal: str = ".", missing: Sequence[str] = MISSING) -> Numbers:
    """Read a column as numbers, and truth values as 1 and 0."""
    parsed = _numbers(decoded(column), decimal, missing)
    if markers := marker_numbers(missing):
        parsed.values = np.where(np.isin(parsed.values, markers), np.nan, parsed.values)
    return parsed


def _numbers(column: Any, decimal: str, missing: Sequence[str]) -> Numbers:
    if not is_text(column.type):
        if not is_number(column.type) and column.null_count < len(column):
            raise ValueError(f"holds values of type {column.type}, which are not numbers")
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        return Numbers(_floats(column.cast(pa.float64(), safe=False)))
    if decimal == ".":
        plain = cast(column, pa.float64(), missing)
        if plain is not None:
            return Numbers(_floats(plain))
    return _parse_distinct(text(column, missing), decimal)


def cast(column: Any, kind: Any, missing: Sequence[str] = MISSING) -> Any | None:
    """Cast cells of text to an Arrow type. Return None if Arrow cannot read one of them."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        pass
    try:
        return text(column, missing).cast(kind)
    except pa.ArrowInvalid:
        return None


def _parse_distinct(cells: Any, decimal: str) -> Numbers:
    """Parse cells of which some are unusual, equal cells only once if there are many."""
    encoded = cells.combine_chunks().dictionary_encode()
    if 2 * len(encoded.dictionary) > len(cells):
        return _parse_cells(cells, decimal, None)
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    counts = np.bincount(codes, minlength=len(encoded.dictionary) + 1)[:-1]
    parsed = _parse_cells(pa.chunked_array([encoded.dictionary]), decimal, counts)
    return Numbers(np.append(parsed.values, np.nan)[codes], parsed.issues)


def _parse_cells(cells: Any, decimal: str, counts: Any) -> Numbers:
    """Parse cells by all patterns. `counts` says how often each cell occurs, None for once."""
    plain = pc.replace_substring(cells, "\u2212", "-")  # the typographic minus sign
    if decimal == ",":  # 1.234,5 -> 1,234.5
        for old, new in ((".", "\0"), (",", "."), ("\0", ",")):
            plain = pc.replace_substring(plain, old, new)
    clean = pa.chunked_array([pa.nulls(len(plain), pa.string())])
    done = pc.is_null(plain)
    issues = Issues()
    for sign, (sign_pattern, *sign_removed) in _SIGNS.items():
        signed = pc.match_substring_regex(plain, sign_pattern)
        if not pc.any(signed).as_py():
            continue
        bare = pc.replace_substring_regex(plain, *sign_removed) if sign else plain
        for notation, (pattern, *removed) in _NOTATIONS.items():
            matches = pc.and_(signed, pc.match_substring_regex(bare, pattern))
            matches = pc.and_not(matches, done)
            if _count(issues, sign or notation, cells, matches, counts):
                number = pc.replace_substring_regex(bare, *removed) if notation else bare
                clean = pc.if_else(matches, number, clean)
                done = pc.or_(done, matches)
    is_marker = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(NO_NUMBER))
    # The user's markers are null by now, and the default ones may not be among them.
    is_marker = pc.or_(is_marker, pc.is_in(cells, value_set=pa.array(MISSING)))
    _count(issues, NA_MARKER, cells, is_marker, counts)
    _count(issues, UNPARSED, cells, pc.invert(pc.or_(done, is_marker)), counts)
    return Numbers(_floats(clean.cast(pa.float64())), issues)


def _count(issues: Issues, kind: str, cells: Any, matches: Any, counts: Any = None) -> bool:
    """Add cells of a kind to the issues, and return whether there are any.

    Plain cells, of the kind "", are not issues.
    """
    count = pc.sum(matches).as_py() or 0
    if count and counts is not None:
        count = int(counts[matches.fill_null(False).to_numpy()].sum())
    if count and kind:
        earlier, example = issues.get(kind, (0, None))
        issues[kind] = (earlier + count, example or pc.filter(cells, matches)[0].as_py())
    return bool(count)


def booleans(column: Any, missing: Sequence[str] = MISSING) -> Numbers:
    """Read true and false, in any case, as 1 and 0."""
    column = decoded(column)
    if not is_text(column.type):
        return numbers(column, missing=missing)
    cells = text(column, missing)
    index = pc.index_in(pc.utf8_lower(cells), value_set=pa.array(FALSE + TRUE))
    return _read_as(pc.greater_equal(index, len(FALSE)).cast(pa.int8()), cells)


def dates(column: Any, style: str, missing: Sequence[str] = MISSING) -> Numbers:
    """Read dates in a style of `date_styles` as days since 1970. Numbers are already days."""
    column = decoded(column)
    if is_number(column.type):
        return numbers(column, missing=missing)
    if not is_text(column.type):
        ticks = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return Numbers(_floats(ticks.cast(pa.float64(), safe=False)) / 86_400e6)
    cells = text(column, missing)
    seconds = _read_as(_seconds(cells, style), cells)
    return Numbers(seconds.values / 86_400, seconds.issues)


def _read_as(values: Any, cells: Any) -> Numbers:
    """Return values as numbers, and count the cells that have no value."""
    issues: Issues = {}
    _count(issues, UNPARSED, cells, pc.and_(values.is_null(), cells.is_valid()))
    return Numbers(_floats(values.cast(pa.float64())), issues)


def date_styles(column: Any, missing: Sequence[str] = MISSING) -> list[str]:
    """Infer the format of the dates of a column. The list is empty if it does not hold dates.

    The format is the one that leaves the fewest cells unreadable. If no cell distinguishes
    day/month from month/day, both are returned.
    """
    column = decoded(column)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return [DATES[0]]
    if not is_text(column.type):
        return []
    cells = text(column, missing).drop_null()
    sample = cells.take(np.arange(0, len(cells), 1 + len(cells) // 1000))
    likely = [style for style in DATES if _seconds(sample, style).null_count < len(sample)]
    unreadable = {style: _seconds(cells, style).null_count for style in likely}
    fewest = min(unreadable.values(), default=len(cells))
    if not unreadable or fewest > MAX_TEXT * len(cells):
        return []
    return [style for style, count in unreadable.items() if count == fewest]


def _seconds(cells: Any, style: str) -> Any:
    """Read dates, with or without a time, as seconds since 1970. Without a zone they are UTC."""
    cells = pc.replace_substring_regex(cells, r"^(\d{4}-\d\d-\d\d)T", r"\1 ")
    parts = pc.extract_regex(cells, _CLOCK)
    plain = pc.coalesce(pc.struct_field(parts, "plain"), cells)
    read = [pc.strptime(plain, f"{style}{time}", "s", error_is_null=True) for time in TIMES]
    seconds = pc.coalesce(*read).cast(pa.int64()).cast(pa.float64())
    for name, factor in (("part", 1.0), ("hours", 3600.0), ("minutes", 60.0)):
        text = pc.struct_field(parts, name)
        value = pc.if_else(pc.equal(text, ""), "0", text).cast(pa.float64())
        if name != "part":  # 12:00+02:00 is 10:00 UTC
            east = pc.equal(pc.struct_field(parts, "sign"), "+")
            value = pc.if_else(east, pc.negate(value), value)
        seconds = pc.add(seconds, pc.multiply(pc.coalesce(value, 0.0), factor))
    return seconds


def kind_of(
    column: Any,
    decimal: str = ".",
    missing: Sequence[str] = MISSING,
    parse: Callable[[], Numbers] | None = None,
    zeros: Callable[[], list[str]] | None = None,
) -> str:
    """Return what a column holds: "empty", "boolean", "number", "date" or "text".

    ``parse()`` returns its cells as numbers, and ``zeros()`` its `leading_zeros`, if the caller
    caches them.
    """
    column = decoded(column)
    if pa.types.is_boolean(column.type) and column.null_count < len(column):
        return "boolean"
    if is_text(column.type) or is_number(column.type):
        parsed = parse() if parse else numbers(column, decimal, missing)
        if parsed.is_numeric:
            leading = zeros() if zeros else leading_zeros(column, missing)
            is_label = is_code(column, missing, leading) or has_brackets(column, parsed, missing)
            return "text" if is_label else "number"
        cells = text(column, missing).drop_null()
        if not len(cells):
            return "empty"
        words = {"true", "false"}
        if cells[0].as_py().lower() in words and not booleans(cells, missing).issues:
            return "boolean"
    elif column.null_count == len(column):
        return "empty"
    return "date" if date_styles(column, missing) else "text"


def leading_zeros(column: Any, missing: Sequence[str] = MISSING) -> list[str]:
    """Return the cells of digits that begin with a zero, such as 007."""
    if not is_text(column.type):
        return []
    column = decoded(column)
    zeros = pc.filter(column, pc.match_substring_regex(column, r"^\s*0\d+\s*$"))
    return [cell for cell in map(str.strip, zeros.drop_null().to_pylist()) if cell not in missing]


def is_code(column: Any, missing: Sequence[str] = MISSING, zeros: list[str] | None = None) -> bool:
    """Return whether a column holds codes of digits such as 01067 rather than numbers.

    At least one cell in ten begins with a zero, or any cell if all have the same number of digits.
    `zeros` are these cells, if the caller has them.
    """
    zeros = leading_zeros(column, missing) if zeros is None else zeros
    if not zeros:
        return False
    cells = text(column, missing).drop_null()
    digits = pc.filter(cells, pc.match_substring_regex(cells, r"^\d+$"))
    one_width = len(pc.unique(pc.utf8_length(digits))) == 1
    return len(digits) >= (1 - MAX_TEXT) * len(cells) and (
        one_width or len(zeros) >= MAX_TEXT * len(digits)
    )


def has_brackets(column: Any, parsed: Numbers, missing: Sequence[str] = MISSING) -> bool:
    """Return whether limits such as <18 and 18+ are categories rather than numbers.

    They are if more than a third of the numbers are limits, or if a number occurs with different
    signs or without one. Texts that mostly occur once are no categories, so these are numbers.
    """
    n_limits = parsed.issues.get("limit", (0, ""))[0]
    if not n_limits:
        return False
    words, first, codes = np.unique(
        text(column, missing).fill_null("").to_numpy().astype(str),
        return_index=True,
        return_inverse=True,
    )
    if 2 * len(words) > len(codes):
        return False
    signs = [re.sub(r"[^<>≤≥=+]|^\+|(?<!^)\+(?!$)", "", word) for word in words]
    read = ~np.isnan(parsed.values[first])
    pairs = set(zip(parsed.values[first][read].tolist(), np.array(signs)[read], strict=True))
    clash = len(pairs) > len({value for value, _ in pairs})
    return clash or n_limits > MAX_LIMITS * len(parsed.present)


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type holds numbers or truth values."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def label_type(column: Any) -> Any:
    """Infer the Arrow type of a column of numbers that are labels.

    Whole numbers stay whole. Labels such as 007 are text, and so are numbers that no type holds
    exactly.
    """
    cells = text(column)
    if pc.all(pc.match_substring_regex(cells, WHOLE)).as_py():
        return pa.string() if cast(cells, pa.int64()) is None else pa.int64()
    has_zeros = pc.any(pc.match_substring_regex(cells, r"^[+-]?0\d")).as_py()
    return pa.string() if has_zeros else pa.float64()


def decimal_mark(columns: Sequence[Any], separator: str = ",") -> str:
    """Infer the decimal mark: that of most columns of numbers written as text.

    Cells such as "1,234" may hold thousands. A column of only such cells counts if no other column
    decides, and it counts for the comma only if the separator is a semicolon. A mark that occurs
    twice in a cell, as in "1,234,567", is not the decimal mark.
    """
    texts = [decoded(column) for column in columns if is_text(column.type)]
    commas = [column for column in texts if _any(column, ",")]
    if all(_number_cells(column) is None for column in commas):
        return "."
    votes = {(strong, mark): 0 for strong in (True, False) for mark in ".,"}
    for column in texts:
        cells = _number_cells(column)
        if cells is None:
            continue
        matches = {m: pc.match_substring_regex(cells, rf"^[^{m}]*\{m}\d+{_END}$") for m in ".,"}
        counts = {mark: pc.sum(matching).as_py() for mark, matching in matches.items()}
        mark = max(counts, key=lambda mark: counts[mark])
        twice = [m for m in ".," if _any(cells, rf"{_THOUSAND}(?:\{m}\d{{3}}){{2}}")]
        if len(twice) == 1:
            votes[True, "." if twice == [","] else ","] += 1
        elif counts[mark]:
            ambiguous = pc.match_substring_regex(cells, rf"{_THOUSAND}\{mark}\d{{3}}$")
            strong = pc.any(pc.and_not(matches[mark], ambiguous)).as_py()
            votes[strong, mark] += 1
    for strong in (True, False):
        if not strong and separator != ";":
            votes[strong, ","] = 0
        if votes[strong, "."] != votes[strong, ","]:
            return max(".,", key=lambda mark: votes[strong, mark])
    return "."


def _any(cells: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _number_cells(column: Any) -> Any | None:
    """Return the cells of a column as text if most of them are digits and marks, else None."""
    cells = text(column).drop_null()
    digits = pc.match_substring_regex(cells, rf"^{_LIMIT}[+-]?[\d.,]*\d[\d.,]*{_END}$")
    n_numbers = pc.sum(digits).as_py() or 0
    return cells if n_numbers and n_numbers >= (1 - MAX_TEXT) * len(cells) else None


def _floats(column: Any) -> Floats:
    return np.asarray(column.to_numpy(), dtype=np.float64)
