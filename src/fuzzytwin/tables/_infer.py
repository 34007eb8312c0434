"""Infer what the columns of a table hold.

The rules are the same for every file format. None looks at the order of rows, and only columns at
the threshold of a share are read differently in another sample. The first that applies decides:

1. The user's choice: `drop`, `numeric`, `category`. Otherwise, in files that pandas wrote, the
   index of the frame: *id*, left out (*dropped* if values repeat).
2. No value at all: *empty*, left out.
3. The type category of pandas or Arrow, whatever it holds: *category*. So codes are declared.
4. Cells that are all true or false: *boolean*, 1 or 0.
5. Numbers in at least nine of ten cells: *number*, unless leading zeros (01067) or limits (18+)
   show that they are text. Other cells are parsed (``<0.5``, ``1,234``, ``12 %``) or taken as
   missing. Whole numbers that name rows: *id*, left out. They are present and different in at least
   20 rows, and fill half of their range or have the name of an ID. So are numbers of more digits
   than floats hold.
6. Dates in nine of ten cells: *date*, left out, or days since 1970 with `numeric`.
7. Text. Texts that occur less than twice on average: *id*, left out. More than 1,000 different
   ones: *text*, left out. Others: *category*, a column for each of the 30 most frequent.

Lists of numbers of equal length, such as embeddings, become a column for each element.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fuzzytwin.tables import _parse
from fuzzytwin.tables._batch import TableBatch, error_context, is_numeric_list, list_width
from fuzzytwin.tables._columns import FEATURE_KINDS, Column, label_key, missing_column
from fuzzytwin.tables._findings import Finding, TableError, find_spellings
from fuzzytwin.tables._numeric import MAX_ONE_HOT
from fuzzytwin.tables._parse import EXACT, Numbers, pa, pc
from fuzzytwin.tables._sniff import ROW_NAMES

MAX_CATEGORIES = 1000  # a column of more different texts is not a category
MAX_FEATURES = 5000  # the moments of each class hold the square of it
MAX_LABELS = 100
FEW = range(3, 11)  # different whole numbers, which may be codes
MIN_ID_ROWS = 20  # fewer numbers are often different by chance
_ID_NAME = re.compile(
    r"(?i:(.*[_ .-])?(id|idx|index|key|nr|no|number|row|row names|unnamed: 0)\.?)|.*[a-z]I[dD]"
)


def infer_columns(
    sample: TableBatch,
    others: Collection[str],
    drop: Collection[str] = (),
    numeric: Collection[str] = (),
    category: Collection[str] = (),
) -> tuple[Column, ...]:
    """Infer what every column holds except the `others` (target, weights, ...).

    `drop` are columns to leave out, `numeric` and `category` columns of that kind, whatever they
    look like. The name of a column of lists stands for all of its elements.
    """
    lists = list_names(sample)
    names = [name for name in sample.flat.schema.names if name not in others]
    index = index_columns(sample.cells.schema)
    left_out = {name for name in names if {name, lists.get(name, "")} & set(drop)}
    check_width(len(names) - len(left_out))
    columns = []
    for name in names:
        own_names = {name, lists.get(name, "")}
        if name in left_out:
            column = Column(name, "dropped", findings=(Finding("dropped", name),))
        elif own_names & set(category):
            column = _category(name, sample)
        elif own_names & set(numeric):
            column = _forced_number(name, sample)
        elif name in index:
            column = _pandas_index(name, sample)
        elif name in lists:
            column = _number(name, "number", sample, in_list=lists[name])
        else:
            column = _infer_column(name, sample)
        columns.append(column)
    _check_features(columns)
    return tuple(columns)


def number_columns(
    sample: TableBatch,
    others: Collection[str],
    features: Sequence[str] | None,
    numeric: Collection[str] = (),
    *,
    text: bool,
) -> tuple[Column, ...]:
    """Take columns of numbers and truth values unchanged: see `TableSchema.of_numbers`."""
    lists = list_names(sample)
    table_names = sample.flat.schema.names
    if features is None:
        skipped = {*others, *index_columns(sample.cells.schema), ROW_NAMES}
        names = [name for name in table_names if not {name, lists.get(name)} & skipped]
    else:
        names = []
        for name in features:
            elements = [element for element, list_name in lists.items() if list_name == name]
            names += elements or [name]
    columns = []
    for name in names:
        if table_names.count(name) != 1:
            raise TableError(missing_column(name, table_names, sample.source))
        is_requested = features is not None or name in numeric
        kind = _kind_of_numbers(sample, name, is_requested=is_requested)
        if kind:
            columns.append(Column(name, kind, list_name=lists.get(name, "")))
        elif text:
            columns.append(Column(name, "category"))
        elif not is_requested:
            columns.append(Column(name, "dropped"))
        else:
            raise TableError(_not_numeric(sample, name))
    if not any(column.used for column in columns):
        except_others = f" except {', '.join(sorted(others))}" if others else ""
        raise TableError(
            f"{sample.source} has no numeric column{except_others}; its columns are "
            f"{', '.join(table_names)}."
        )
    return tuple(columns)


def _kind_of_numbers(sample: TableBatch, name: str, *, is_requested: bool) -> str:
    """Return "number", "boolean", or "" for a column that is not numeric.

    Text that holds codes such as 007, or only missing values, is numeric if the user requests it.
    """
    column = sample.flat.column(name)
    if _parse.is_number(column.type):
        inner = _parse.decoded(column).type
        return "boolean" if inner == pa.bool_() else "number"
    if not _parse.is_text(column.type):
        return ""
    kind = sample.kind(name)
    could_be_numbers = kind == "empty" or (kind == "text" and sample.numbers(name).is_numeric)
    if is_requested and could_be_numbers:
        return "number"
    return kind if kind in ("boolean", "number") else ""


def _not_numeric(sample: TableBatch, name: str) -> str:
    kind = sample.flat.column(name).type
    contents = "text" if _parse.is_text(kind) else f"values of type {kind}"
    return (
        f"{sample.source}: column {name!r} holds {contents}, not numbers; use FuzzyTwinCommittee, "
        "which encodes it, encode it by TablePreprocessor, or leave it out."
    )


def list_names(sample: TableBatch) -> dict[str, str]:
    """Return the column of lists that each column of elements comes from."""
    spread: dict[str, str] = {}
    for name, column in zip(sample.cells.schema.names, sample.cells.columns, strict=True):
        width = list_width(column) if is_numeric_list(column.type) else None
        spread |= {f"{name}_{j}": name for j in range(width or 0)}
    return spread


def _check_features(columns: Sequence[Column]) -> None:
    """Raise a TableError if there are no features, or too many."""
    if not any(column.used for column in columns):
        raise TableError(Finding("no_features", values={"columns": columns[:3]}))
    categories = sum(min(c.distinct + 1, MAX_ONE_HOT) for c in columns if c.kind == "category")
    check_width(categories + sum(c.kind in ("number", "boolean") for c in columns))


def check_width(width: int) -> None:
    """Raise a TableError if a table has more features than moments can hold."""
    if width > MAX_FEATURES:
        values = {"width": width, "limit": MAX_FEATURES, "value": "NAME"}
        raise TableError(Finding("too_wide", values=values))


def _infer_column(name: str, sample: TableBatch) -> Column:
    """Apply rules 2 to 7."""
    column = sample.flat.column(name)
    if not _parse.is_cell(column.type):
        code = "unequal_lists" if is_numeric_list(column.type) else "unsupported_type"
        finding = Finding(code, name, {"type": str(column.type)})
        return Column(name, "dropped", findings=(finding,))
    kind = sample.kind(name)
    if kind == "empty":
        finding = Finding("empty", name, {"rows": _rows(sample)})
        return Column(name, "empty", missing=len(column), findings=(finding,))
    if pa.types.is_dictionary(column.type):
        return _category(name, sample)
    if kind in ("boolean", "number"):
        return _number(name, kind, sample)
    return _text(name, kind, sample)


def _rows(sample: TableBatch) -> str:
    return "any row" if sample.complete else f"the first {len(sample):,} rows"


def _every_row(sample: TableBatch) -> str:
    return "every row" if sample.complete else f"the first {len(sample):,} rows"


def _text(name: str, kind: str, sample: TableBatch) -> Column:
    """Apply rules 6 and 7."""
    words = sample.text(name)
    present = words.drop_null()
    findings = []
    if kind == "text" and (zeros := _zeros_of_code(name, sample)):
        findings.append(Finding("leading_zero_code", name, {"example": zeros[0]}))
    elif kind == "text" and sample.flat.column(name).type != pa.null():
        findings += _brackets(name, sample)
    distinct = pc.count_distinct(present).as_py()
    example = {"example": f"{present[0].as_py():.20}"}
    if kind == "date":
        findings.append(Finding("date", name, example))
    elif 2 * distinct > len(present):
        kind = "id"
        findings.append(Finding("id_like", name, example))
    elif distinct > MAX_CATEGORIES:
        findings.append(Finding("many_values", name, {"limit": MAX_CATEGORIES}))
    else:
        return _category(name, sample, findings)
    return Column(name, kind, distinct, words.null_count, tuple(findings))


def _zeros_of_code(name: str, sample: TableBatch) -> list[str]:
    zeros = sample.leading_zeros(name)
    return zeros if _parse.is_code(sample.flat.column(name), sample.missing, zeros) else []


def _brackets(name: str, sample: TableBatch) -> list[Finding]:
    """Return a finding if a column of text would hold numbers, but for its limits."""
    column = sample.flat.column(name)
    if not _parse.is_text(column.type) or not sample.numbers(name).is_numeric:
        return []
    return [Finding("brackets", name, {"example": sample.numbers(name).issues["limit"][1]})]


def _pandas_index(name: str, sample: TableBatch) -> Column:
    """Leave out the index of a pandas frame, which names rows if its values are unique."""
    words = sample.text(name)
    distinct = len(words.unique())
    kind = "id" if distinct == len(words) else "dropped"
    return Column(name, kind, distinct, words.null_count, (Finding("index", name),))


def _number(name: str, kind: str, sample: TableBatch, in_list: str = "") -> Column:
    """Apply rules 4 and 5. Elements of lists are numbers, whatever they look like."""
    parsed = sample.numbers(name, kind)
    values = parsed.present
    if np.isinf(values).any():
        raise TableError(Finding("infinite", name))
    distinct = np.unique(values)
    if not in_list and kind == "number":
        if np.abs(distinct).max(initial=0.0) >= EXACT:
            n_words = pc.count_distinct(sample.text(name).drop_null()).as_py()
            if n_words > len(distinct) and (distinct == np.round(distinct)).all():
                n_missing = len(parsed.values) - len(values)
                return Column(name, "id", n_words, n_missing, (Finding("long_integers", name),))
        if reason := names_rows(name, parsed.values):
            return _describe_numbers(name, "id", parsed, distinct, [Finding(reason, name)])
    findings = []
    if len(distinct) == 1:
        findings.append(Finding("constant", name, {"rows": _every_row(sample)}))
    is_few = len(distinct) in FEW and len(values) >= 10 * len(distinct)
    if is_few and not in_list and (distinct == np.round(distinct)).all():
        findings.append(Finding("few_integers", name, {"count": len(distinct)}))
    if not in_list and (zeros := sample.leading_zeros(name)):
        shown = {"count": len(zeros), "example": zeros[0]}
        findings.append(Finding("leading_zeros", name, shown))
    return _describe_numbers(name, kind, parsed, distinct, findings, list_name=in_list)


def names_rows(name: str, values: Any) -> str:
    """Return why whole numbers name rows instead of measuring something, "" if they do not."""
    first = values[:MIN_ID_ROWS]
    if len(first) < MIN_ID_ROWS or not (first == np.round(first)).all():  # without a look at all
        return ""
    if not (values == np.round(values)).all() or len(np.unique(values)) < len(values):
        return ""
    if float(values.max()) - float(values.min()) < 2 * len(values):
        return "row_counter"
    return "id_by_name" if _ID_NAME.fullmatch(name) else ""


def _forced_number(name: str, sample: TableBatch) -> Column:
    """Take a column as numbers, as the user requests."""
    column = sample.flat.column(name)
    with error_context(name):
        styles = _parse.date_styles(column, sample.missing)
        style = styles[0] if styles else ""
        kind = "boolean" if sample.kind(name) == "boolean" else "number"
        parsed = sample.numbers(name, kind, style)
    if not len(parsed.present) or np.isinf(parsed.present).any():
        raise TableError(Finding("no_numbers", name))
    findings = [Finding("days", name)] if style else []
    if len(styles) > 1:
        findings.append(Finding("ambiguous_dates", name))
    distinct = np.unique(parsed.present)
    list_name = list_names(sample).get(name, "")
    return _describe_numbers(
        name, kind, parsed, distinct, findings, style=style, list_name=list_name
    )


def _describe_numbers(
    name: str,
    kind: str,
    parsed: Numbers,
    distinct: Any,
    findings: Sequence[Finding] = (),
    style: str = "",
    list_name: str = "",
) -> Column:
    """Describe a column of numbers: unusual cells, other findings, and missing values."""
    issues = [
        Finding(code, name, {"count": count, "example": example})
        for code, (count, example) in parsed.issues.items()
    ]
    n_missing = len(parsed.values) - len(parsed.present)
    filled = [Finding(FEATURE_KINDS[kind], name)] if n_missing and kind in FEATURE_KINDS else []
    return Column(
        name,
        kind,
        len(distinct),
        n_missing,
        (*issues, *findings, *filled),
        style=style,
        list_name=list_name,
    )


def _category(name: str, sample: TableBatch, findings: Sequence[Finding] = ()) -> Column:
    words = sample.keys(name)
    values = words.drop_null().unique().to_pylist()
    all_findings = list(findings)
    if len(values) == 1 and not words.null_count:
        all_findings.append(Finding("constant", name, {"rows": _every_row(sample)}))
    for labels in find_spellings(values):
        all_findings.append(Finding("spellings", name, {"labels": labels}))
    if words.null_count:
        all_findings.append(Finding("missing_category", name))
    if len(values) > MAX_ONE_HOT:
        n_rare = len(values) - MAX_ONE_HOT + 1
        all_findings.append(Finding("rare_categories", name, {"count": n_rare}))
    categories = tuple(sorted(values))
    return Column(name, "category", len(values), words.null_count, tuple(all_findings), categories)


def index_columns(schema: Any) -> set[str]:
    """Return the columns that hold the index of a pandas frame.

    The metadata that pandas adds to an Arrow schema name them. A file without these metadata may
    still have the names that pandas gives to an index without a name.
    """
    try:
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError):
        described = []
    stored = {name for name in described if isinstance(name, str)}  # others are ranges, not stored
    unnamed = {name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)}
    return (stored | unnamed) & set(schema.names)


# Labels


def spell(words: Any, decimal: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the most frequent spelling of each label, and its number of cells, by its key.

    The labels are integers if all of them are spelled as integers.
    """
    counted = words.drop_null().value_counts().to_pylist()
    spellings: dict[str, Counter[str]] = {}  # of each key, with their counts
    for word, count in sorted((entry["values"], entry["counts"]) for entry in counted):
        spellings.setdefault(label_key(word, decimal), Counter())[word] = count
    labels: dict[str, Any] = {key: counts.most_common(1)[0][0] for key, counts in spellings.items()}
    integer = re.compile(r"0|-?[1-9]\d{0,18}")
    if all(integer.fullmatch(word) and -(2**63) <= int(word) < 2**63 for word in labels.values()):
        labels = {key: int(word) for key, word in labels.items()}
    return labels, {key: counts.total() for key, counts in spellings.items()}


def infer_labels(sample: TableBatch, target: str) -> dict[str, Any]:
    """Return the labels of a target as `TableSchema.labels`.

    A TableError is raised if the column does not hold classes.
    """
    words = sample.text(target)
    if words.null_count == len(words):
        values = {"rows": _every_row(sample), **_remedy(sample, "give labels")}
        raise TableError(Finding("no_label", target, values))
    labels, sizes = spell(words, sample.decimal)
    if len(labels) > 10 and all(re.fullmatch(r"-?\d+(\.\d+)?", key) for key in labels):
        measured = [key for key in labels if "." in key][:2]
        if measured:
            raise TableError(Finding("no_classes", target, {"listed": ", ".join(measured)}))
    counts = {label: sizes[key] for key, label in labels.items()}
    among = "" if sample.complete else f" among the first {len(sample):,} rows"
    if len(counts) < 2:
        remedy = _remedy(sample, "give rows of at least two")
        values = {"label": next(iter(counts)), "among": among, **remedy}
        raise TableError(Finding("one_class", target, values))
    if len(counts) > MAX_LABELS:
        raise TableError(
            Finding("many_classes", target, {"count": len(counts), "limit": MAX_LABELS})
        )
    rarest = min(counts, key=lambda label: counts[label])
    if counts[rarest] < 2:
        remedy = _remedy(sample, "give it more rows or leave it out")
        values = {"label": str(rarest), "among": among, **remedy}
        raise TableError(Finding("rare_class", target, values))
    return labels


def _remedy(sample: TableBatch, text: str) -> dict[str, str]:
    """Return the remedy `text` if the sample has all rows. Otherwise `describe` suggests more."""
    return {"remedy": text} if sample.complete else {}
