"""Judge what the columns of a table hold.

The rules, the same for every number of rows and every kind of file; the first that fits decides:

1. What the user says: ``--drop``, ``--numeric``, ``--category``. Else, of files that pandas wrote,
   the index of the frame: *id*, left out (*dropped* if values repeat).
2. No value at all: *empty*, left out.
3. Cells that are all true or false: *boolean*, 1 or 0.
4. Numbers in at least nine of ten cells, unless zeros before them (01067) say that they are codes,
   which are texts: the others are understood (``<0.5``, ``1,234``, ``12 %``)
   or taken as missing. The same number throughout: *constant*, left out. Whole numbers that rise by
   one from row to row, or that are all different in a column that is named as an id: *id*, left
   out. Three to ten different whole numbers that occur ten times on average: *code*, a column for
   each of them (with other texts among them: *category*). Others: *number*.
5. Dates in nine of ten cells: *date*, left out; days since 1970 with ``--numeric``.
6. Texts. The same throughout: *constant*, left out. Texts that occur less than twice on average:
   *id*, left out. More than 1,000 different ones: *text*, left out. Others: *category*, a column
   for each of the 30 most frequent.

`notices` names what reads well but may not mean what it seems to; nothing is changed by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from fuzzytwin._utils.types import Array
from fuzzytwin.data import cells
from fuzzytwin.data.cells import EXACT, MISSING, STRANGE, Numbers
from fuzzytwin.data.encoding import MOST_SHOWN
from fuzzytwin.data.schema import Column, Schema, in_words, label_key, missing_column
from fuzzytwin.data.schema import TableError as TableError

MOST_CATEGORIES = 1000  # beyond that, texts are not categories
MOST_FEATURES = 5000  # the moments hold the square of it, for each class
MOST_LABELS = 100
# Few whole numbers are codes more often than amounts: a column for each did better on the UCI
# tables that have them (heart 0.83 -> 0.85, others alike).
CODES = range(3, 11)
FEWEST_MARKS = 3  # cells of a number that stands for a missing value
MOST_MARKS = 3  # such numbers at one end of a column
NEIGHBOURS = 20  # different numbers next to it
LEAK = 0.97  # balanced accuracy of a column alone
FEW_ROWS = 20  # or too little is known
FEWEST_OWNERS = 20  # values; by chance, as many hardly ever have one label each
MOST_ROWS, MOST_COLUMNS = 2000, 1000  # that are looked at for a leak
CODE = "a code, as {} begins with a zero; --numeric reads numbers"
SORTED = "shuffle the rows of the file, or have it read whole: --no-stream"
_ID = re.compile(
    r"(?i:(.*[_ .-])?(id|idx|index|key|nr|no|row|row names|unnamed: 0)\.?)|.*[a-z]I[dD]"
)


def need_column(names: Sequence[str], name: str, what: str, path: object) -> None:
    """Refuse a table that lacks a column, naming those that it has."""
    if list(names).count(name) != 1:
        raise TableError(f"{missing_column(name, list(names), path)} ({what})")


def learn(
    table: Any,
    decimal: str,
    others: Collection[str],
    *,
    drop: Collection[str] = (),
    numeric: Collection[str] = (),
    category: Collection[str] = (),
    index: Collection[str] = (),
    missing: Sequence[str] = MISSING,
    first: int = 0,
) -> tuple[Column, ...]:
    """Judge every column of an Arrow table but the `others` (target, weights, ...).

    `drop`, `numeric` and `category` are columns to leave out and to take as such, whatever they
    look like. `index` are those that hold the index of a pandas frame. `missing` are the marks for
    missing values. `first` is how many rows
    there are, where the file has more of them.
    """
    names = [name for name in table.schema.names if name not in others]
    check_width(len(names) - len(drop))
    columns = []
    for name in names:
        column = table.column(name)
        if name in drop:
            columns.append(Column(name, "dropped", note="as asked"))
        elif name in category:
            columns.append(_category(name, read_text(name, column, missing)))
        elif name in numeric:
            columns.append(_forced(name, column, decimal, missing))
        elif name in index:
            columns.append(_index(name, read_text(name, column, missing)))
        else:
            columns.append(_judge(name, column, decimal, missing, first))
    if not any(column.used for column in columns):
        examples = "; ".join(f"{c.name}: {c.kind}, {c.note}" for c in columns[:3])
        raise TableError(
            "no column is left to learn from; the table needs one besides the target"
            + (f" ({examples}); --numeric or --category takes one as it is." if examples else ".")
        )
    widths = {"code": MOST_SHOWN, "category": MOST_SHOWN}  # at most; 1 of others
    check_width(sum(min(c.distinct + 1, widths.get(c.kind, 1)) for c in columns if c.used))
    return tuple(columns)


def _judge(name: str, column: Any, decimal: str, missing: Sequence[str], first: int) -> Column:
    """Apply rules 2 to 6."""
    if not cells.is_cell(column.type):
        return Column(name, "dropped", note=f"holds {column.type}: spread it over columns")
    kind = cells.kind_of(column, decimal, missing)
    same = "the same in the first rows" if first else "the same in every row"
    if kind == "empty":
        note = "no value in the first rows" if first else "no value in any row"
        return Column(name, "empty", missing=len(column), note=note)
    if kind in ("boolean", "number"):
        return _number(name, kind, column, decimal, missing, same)
    words = read_text(name, column, missing)
    code = kind == "text" and cells.is_code(column, missing)
    because = [CODE.format(cells.leading_zeros(column, missing)[0])] if code else []
    example = f"{words.drop_null()[0].as_py():.20}"
    distinct, found = len(words.drop_null().unique()), len(words) - words.null_count
    if kind == "date":
        note = f"left out: dates such as {example}; --numeric reads days"
    elif distinct == 1 and found == len(words):
        kind, note = "constant", same
    elif 2 * distinct > found:
        kind, note = "id", f"names rows, such as {example}; --category keeps it"
    elif distinct > MOST_CATEGORIES:
        note = f"more than {MOST_CATEGORIES:,} different texts; --category keeps it"
    else:
        return _category(name, words, because)
    return Column(name, kind, distinct, words.null_count, "; ".join([*because, note]))


def _index(name: str, words: Any) -> Column:
    """Leave out the index of a pandas frame, which names rows if no value comes twice."""
    distinct = len(words.unique())
    kind = "id" if distinct == len(words) else "dropped"
    note = "the index of a pandas frame; --numeric or --category keeps it"
    return Column(name, kind, distinct, words.null_count, note)


def _number(
    name: str, kind: str, column: Any, decimal: str, missing: Sequence[str], same: str
) -> Column:
    """Apply rules 3 and 4."""
    read = Column(name, kind).numbers(column, decimal, missing)
    values = read.found
    if np.isinf(values).any():
        raise TableError(
            f"column {name!r} holds infinite numbers; fix them or leave it out: --drop {name!r}."
        )
    distinct = np.unique(values)
    whole = bool((values == np.round(values)).all())
    if whole and np.abs(values).max() >= EXACT:
        words = read_text(name, column, missing).drop_null().unique()
        if len(words) > len(distinct):
            note = "names rows: more digits than numbers keep"
            return Column(name, "id", len(words), len(read.values) - len(values), note)
    if len(distinct) == 1:
        return _numeric(name, "constant", read, same)
    if kind == "boolean":
        return _numeric(name, "boolean", read, "missing: the most frequent")
    if whole and len(distinct) == len(read.values):
        if (np.diff(read.values) == 1).all():
            return _numeric(name, "id", read, "counts the rows; --numeric keeps it")
        if _ID.fullmatch(name):
            return _numeric(name, "id", read, "an id by its name; --numeric keeps it")
    if whole and len(distinct) in CODES and len(values) >= 10 * len(distinct):
        if STRANGE in read.odd:
            return _category(name, read_text(name, column, missing))
        code = _numeric(name, "code", read, "missing: the most frequent")
        note = "; ".join(filter(None, [code.note, "--numeric keeps their order"]))
        return replace(code, note=note, categories=tuple(distinct.tolist()))
    number = _numeric(name, "number", read, "missing: the median")
    if zeros := cells.leading_zeros(column, missing):
        some = f"{len(zeros):,} begin with zeros, such as {zeros[0]}; --category keeps them"
        number = replace(number, note="; ".join(filter(None, [some, number.note])))
    return number


def _forced(name: str, column: Any, decimal: str, missing: Sequence[str]) -> Column:
    """Take a column as numbers, because the user says so."""
    with naming(name):
        styles = cells.date_styles(column, missing)
        style = styles[0] if styles else ""
        kind = "boolean" if cells.kind_of(column, decimal, missing) == "boolean" else "number"
        read = Column(name, kind, style=style).numbers(column, decimal, missing)
    if not len(read.found) or np.isinf(read.found).any():
        raise TableError(f"column {name!r} holds no finite numbers; leave out --numeric {name!r}.")
    asked = _numeric(name, kind, read, "missing: the median")
    notes = ["days since 1970"] if style else []
    if len(styles) > 1:
        notes.append("read as day/month, though month/day fits too: write dates as 2025-12-31")
    return replace(asked, style=style, note="; ".join(filter(None, [*notes, asked.note])))


def _numeric(name: str, kind: str, read: Numbers, note: str) -> Column:
    """Describe a column of numbers, with a note on missing values or the given one."""
    missing = len(read.values) - len(read.found)
    notes = [in_words(what, *some) for what, some in read.odd.items()]
    if missing or not note.startswith("missing"):
        notes.append(note)
    distinct = len(np.unique(read.found))
    return Column(name, kind, distinct, missing, "; ".join(notes), dict(read.odd))


def _category(name: str, words: Any, because: Sequence[str] = ()) -> Column:
    values = words.drop_null().unique().to_pylist()
    notes = list(because)
    if words.null_count:
        notes.append("missing: a category of its own")
    if len(values) > MOST_SHOWN:
        notes.append(f"the {len(values) - MOST_SHOWN + 1} rarest together")
    return Column(name, "category", len(values), words.null_count, "; ".join(notes),
                  categories=tuple(sorted(values)))  # fmt: skip


def read_text(name: str, column: Any, missing: Sequence[str] = MISSING) -> Any:
    """Read cells as text; an error names the column."""
    with naming(name):
        return cells.text(column, missing)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name the column where its cells cannot be read."""
    try:
        yield
    except TableError:
        raise
    except ValueError as error:
        raise TableError(
            f"column {name!r} {error}; name another one, or leave it out: --drop {name!r}."
        ) from error


def check_width(width: int) -> None:
    """Refuse tables whose moments would not fit in memory."""
    if width > MOST_FEATURES:
        raise TableError(
            f"the table would become {width:,} columns of numbers or more, but {MOST_FEATURES:,} "
            "are the most; leave some out (--drop NAME, as often as needed) or choose in Python."
        )


def spell(words: Any, decimal: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return labels as most of their cells spell them, and their numbers of cells, by their keys.

    They are integers where all of them are spelled as such.
    """
    counted = words.drop_null().value_counts().to_pylist()
    spelled: dict[str, Counter[str]] = {}  # counts of the spellings of each
    for word, count in sorted((entry["values"], entry["counts"]) for entry in counted):
        spelled.setdefault(label_key(word, decimal), Counter())[word] = count
    labels: dict[str, Any] = {key: of.most_common(1)[0][0] for key, of in spelled.items()}
    whole = re.compile(r"0|-?[1-9]\d{0,18}")
    if all(whole.fullmatch(word) and -(2**63) <= int(word) < 2**63 for word in labels.values()):
        labels = {key: int(word) for key, word in labels.items()}
    return labels, {key: of.total() for key, of in spelled.items()}


def learn_classes(
    column: Any, name: str, decimal: str = ".", first: int = 0, missing: Sequence[str] = MISSING
) -> dict[str, Any]:
    """Labels of a target as `Schema.labels`; refuse what is not one, of rows as for `learn`."""
    labels, sizes = spell(read_text(name, column, missing), decimal)
    if len(labels) > 10 and all(re.fullmatch(r"-?\d+(\.\d+)?", key) for key in labels):
        measured = [key for key in labels if "." in key][:2]
        if measured:
            raise TableError(
                f"the target {name!r} holds measured numbers ({', '.join(measured)}, ...), no "
                "classes; cut them into classes first."
            )
    counts = {label: sizes[key] for key, label in labels.items()}
    if len(counts) < 2:
        raise TableError(
            f"the target {name!r} holds one class only ({next(iter(counts))}){among(first)}; "
            f"{SORTED if first else 'give rows of at least two'}."
        )
    if len(counts) > MOST_LABELS:
        raise TableError(
            f"the target {name!r} holds {len(counts):,} different values, more than {MOST_LABELS}; "
            "is it the right column?"
        )
    rare = min(counts, key=lambda label: counts[label])
    if counts[rare] < 2:
        raise TableError(
            f"class {str(rare)!r} of the target {name!r} has one row only{among(first)}; "
            f"{SORTED if first else 'give it more rows or leave it out'}."
        )
    return labels


def among(first: int) -> str:
    """Name the rows that a message is about, if it is not about all."""
    return f" in the first {first:,} rows, which --stream uses" if first else ""


def notices(X: Any, y: Array, schema: Schema, *, grouped: bool = True) -> list[str]:
    """Return sentences about sentinels, record numbers, leaks, owners and spellings of labels.

    `X` holds the features as `Schema.frame` reads them; of sparse ones nothing is said. Without
    groups, columns that rows may belong together by are named.
    """
    found = list(label_spellings(y))
    if hasattr(X, "columns"):
        numbers = [c.name for c in schema.features if c.kind == "number" and c.name in X.columns]
        for name in numbers:
            values = X[name].to_numpy(dtype=np.float64)
            found += [*sentinels(name, values), *record_numbers(name, values)]
        for name in () if grouped else X.columns[:MOST_COLUMNS]:
            found += owners(name, X[name], y)
        found += leaks(X, np.array([_plain_label(label) for label in y.tolist()]))
    return found


def _plain_label(label: object) -> str:
    """Write a label without spaces and capitals."""
    return "".join(str(label).casefold().split())


def label_spellings(y: Array) -> Iterator[str]:
    """Notice classes that differ only in capitals or spaces: ja, JA, Ja.

    >>> import numpy as np
    >>> list(label_spellings(np.array(["ja", "JA", "nein"])))
    ["the labels 'JA' and 'ja' differ only in capitals or spaces, but count as 2 classes; spell \
them alike."]
    """
    spelled: dict[str, list[str]] = {}
    for label in map(str, np.unique(y).tolist()):
        spelled.setdefault(_plain_label(label), []).append(label)
    for labels in spelled.values():
        if len(labels) > 1:
            names = f"{', '.join(map(repr, labels[:-1]))} and {labels[-1]!r}"
            yield (
                f"the labels {names} differ only in capitals or spaces, but count as "
                f"{len(labels)} classes; spell them alike."
            )


def sentinels(name: str, values: Array) -> Iterator[str]:
    """Notice numbers such as -999 that stand for a missing value: see `far_marks`."""
    values = values[~np.isnan(values)]
    if len(values) < FEW_ROWS:
        return
    distinct, counts = np.unique(values, return_counts=True)
    marks = far_marks(distinct, counts) | far_marks(distinct[::-1], counts[::-1])
    for mark, count in marks.items():
        whole = mark == round(mark) and abs(mark) < EXACT
        word = f"{mark:.0f}" if whole else repr(mark)
        yield (
            f"column {name!r} holds {word} in {count:,} cells, far from all other numbers: if it "
            f"stands for a missing value, leave these cells empty, or name it: --missing {word}."
        )


def far_marks(distinct: Array, counts: Array) -> dict[float, int]:
    """Find repeated values at one end of a column, far from all others, and how often they occur.

    `distinct` are the different values from that end inwards. A value that is written in nines
    (-999) is far if it is three times as far from the next value as those next to it lie apart;
    any other value, except 0, if it lies farther from the others than these reach. Up to two other
    values may lie beside a mark (998 and 999).
    """
    marks: dict[float, int] = {}
    start = 0
    while start < len(distinct) and len(marks) < MOST_MARKS:
        size = _marks_at(distinct[start:], counts[start:])
        if not size:
            break
        for place in range(start, start + size):
            if counts[place] >= FEWEST_MARKS:
                marks[float(distinct[place])] = int(counts[place])
        start += size
    return marks


def _marks_at(distinct: Array, counts: Array) -> int:
    """Return how many of the first values are marks: see `far_marks`."""
    for size in range(1, min(MOST_MARKS, len(distinct) - 1) + 1):
        repeated = distinct[:size][counts[:size] >= FEWEST_MARKS]
        others = distinct[size:]
        gap = abs(others[0] - distinct[size - 1])
        near = others[:NEIGHBOURS]
        apart = np.abs(np.diff(near)).max(initial=0.0)
        nines = any(_is_nines(mark) for mark in repeated) and gap > 3 * apart
        many = len(others) > max(CODES)
        reach = abs(others[-1] - others[0])
        if nines or (many and gap > reach and np.any(repeated != 0)):
            return size
    return 0


def _is_nines(mark: float) -> bool:
    """Return whether a number is written in nines alone, such as 99, -9 or -999.99."""
    digits = f"{abs(mark):.10g}".replace(".", "")
    return set(digits) == {"9"} and (mark < 0 or len(digits) > 1)


def record_numbers(name: str, values: Array) -> Iterator[str]:
    """Notice whole numbers, all different, that look like numbers of records.

    They rise or fall from row to row, or all have the same number of digits, at least four.
    """
    whole = len(values) >= FEW_ROWS and bool((values == np.round(values)).all())
    if not whole or len(np.unique(values)) < len(values):
        return
    steps = np.diff(values)
    digits = {len(f"{abs(value):.0f}") for value in values.tolist()}
    if (steps > 0).all() or (steps < 0).all() or (len(digits) == 1 and min(digits) >= 4):
        yield (
            f"column {name!r} holds another whole number in every row, such as {values[0]:.0f}: if "
            f"it numbers records, leave it out: --drop {name!r}."
        )


def owners(name: str, column: Any, y: Array) -> Iterator[str]:
    """Notice names or whole numbers that come several times, each with one label only."""
    if column.dtype.kind == "f" and not (column.dropna() % 1 == 0).all():
        return
    value, values = column.factorize()
    known = value >= 0
    if not FEWEST_OWNERS <= len(values) <= known.sum() / 2:
        return
    label = np.unique(y, return_inverse=True)[1]
    of_value = np.unique(np.column_stack([value, label])[known], axis=0)[:, 0]
    if (np.bincount(of_value)[np.bincount(value[known]) > 1] == 1).all():
        yield (
            f"each of the {len(values):,} values of column {name!r} has one label only, and most "
            "come more than once: if their rows belong together (visits of a patient), say so: "
            f"--groups {name!r}."
        )


def leaks(X: Any, y: Array) -> list[str]:
    """Notice columns that give the label away: a small tree on one alone separates the classes."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(codes) < FEW_ROWS or len(classes) < 2:
        return []
    rows = np.arange(len(codes))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
    codes, found = codes[rows], {}
    for name in X.columns[:MOST_COLUMNS]:
        column = X[name].iloc[rows]
        if column.dtype.kind not in "biuf":
            column = column.fillna("").astype("category").cat.codes
        values = column.to_numpy(dtype=np.float64)
        # Ranks, as trees take no numbers beyond single precision; missing values come last.
        ranks = np.unique(values, return_inverse=True)[1][:, None]
        tree = DecisionTreeClassifier(
            max_leaf_nodes=2 * len(classes), min_samples_leaf=3, class_weight="balanced",
            random_state=0,
        ).fit(ranks, codes)  # fmt: skip
        found[name] = float(balanced_accuracy_score(codes, tree.predict(ranks)))
    return [
        f"column {name!r} alone gives a balanced accuracy of {score:.2f}: make sure that it is "
        f"known before the label is; if not, leave it out: --drop {name!r}."
        for name, score in found.items()
        if score >= LEAK and len(found) > 1
    ]
