"""Read the rows to learn from, and what is known about each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.data import cells
from fuzzytwin.data import columns as _columns
from fuzzytwin.data.batches import Selection
from fuzzytwin.data.cells import missing_marks, pa
from fuzzytwin.data.columns import TableError
from fuzzytwin.data.files import Table, index_columns, open_table
from fuzzytwin.data.schema import Column, OddCells, Schema
from fuzzytwin.data.sources import Source, open_source

# Columns that `fuzzytwin doubts` writes beside a table, and what is said of them.
DOUBTS = ("suggested", "degree", "doubtful", "rank")
WRITTEN = "written by fuzzytwin doubts; --numeric keeps it"
ONE_COLUMN = ("target", "weight", "degree", "groups", "id")  # settings that name a column


@dataclass(frozen=True)
class Settings:
    """Options of a training run, as on the command line."""

    target: str | None = None
    model: str = "committee"  # or "search" (tuned planes), "planes"
    planes: str = "crisp"
    membership: str | None = None
    kernel: str = "linear"
    solver: str = "auto"
    class_weight: str | Mapping[str, float] | None = None
    noise: str | None = None  # or "auto": the committee models label errors
    scoring: str | None = None
    calibrate: bool = False
    weight: str | None = None
    degree: str | None = None
    groups: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    numeric: Sequence[str] = ()
    category: Sequence[str] = ()
    sheet: str | None = None
    votes: Sequence[str] = ()  # patterns of the columns of annotators
    missing: Sequence[str] = ()  # marks for missing values; none for the usual ones
    folds: int = 5
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """Name the columns that are not features."""
        named = (getattr(self, field) for field in ONE_COLUMN)
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def marks(self) -> tuple[str, ...]:
        """Return all marks for missing values: empty cells always are."""
        return missing_marks(self.missing)

    def named(self) -> dict[str, Sequence[str]]:
        """Give all columns that are named, by their option."""
        one = {f"--{field}": getattr(self, field) for field in ONE_COLUMN}
        many = {f"--{field}": getattr(self, field) for field in ("drop", "numeric", "category")}
        return {option: [name] for option, name in one.items() if name is not None} | many


@dataclass(frozen=True)
class Rows:
    """Rows of a table: a frame or a sparse matrix, labels, and a value for each row."""

    X: Any
    y: Array
    schema: Schema
    weight: Array | None = None
    degrees: Array | None = None
    groups: Array | None = None
    id: str | None = None  # the column that names the rows
    names: Array | None = None
    notes: list[str] = field(default_factory=list)
    unlabelled: int = 0  # rows that are left out, as they have no label

    @property
    def fit_params(self) -> dict[str, Array]:
        """Return what `fit` is told about the rows beside their labels."""
        given = {"sample_weight": self.weight, "membership": self.degrees, "groups": self.groups}
        return {name: value for name, value in given.items() if value is not None}

    def take(self, index: Any) -> Rows:
        """Take some of the rows."""
        X = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        names = ("y", "weight", "degrees", "groups", "names")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(self, X=X, **{name: value[index] for name, value in given.items()})


def without_doubts(settings: Settings, names: Sequence[str]) -> tuple[Settings, set[str]]:
    """Drop what `fuzzytwin doubts` wrote beside a table, unless it is named; return its columns.

    What it says of the labels is not learned from.
    """
    asked = {*settings.columns, *settings.drop, *settings.numeric, *settings.category}
    written: set[str] = set()
    for end in ("", "_", "__"):  # each run over what another wrote adds a set of its own
        found = {f"{name}{end}" for name in DOUBTS}
        if found - {f"degree{end}"} <= set(names):
            written |= found & (set(names) - asked)
    return replace(settings, drop=[*settings.drop, *sorted(written)]), written


def rows_of(table: Table, settings: Settings) -> Rows:
    """Take the rows of a table that have a label, and learn how to read others like them."""
    target, path, raw = str(settings.target), table.path, table.cells
    for option, names in settings.named().items():
        for name in names:
            _columns.need_column(raw.schema.names, name, option, path)
    settings, written = without_doubts(settings, raw.schema.names)
    first = raw.num_rows if table.more else 0
    asked = raw.column(target)
    unlabelled = _columns.read_text(target, asked, settings.marks).null_count
    if unlabelled == raw.num_rows:
        where = f"each of the first {first:,} rows" if first else "every row"
        remedy = _columns.SORTED if first else "give labels"
        raise TableError(f"the target {target!r} is missing in {where}; {remedy}.")
    learned = _columns.learn(
        raw, table.decimal, settings.columns, drop=settings.drop, numeric=settings.numeric,
        category=settings.category, index=index_columns(table.file.schema),
        missing=settings.marks, first=first,
    )  # fmt: skip
    schema = Schema(
        tuple(replace(c, note=WRITTEN) if c.name in written else c for c in learned),
        target=target,
        weight=settings.weight,
        degree=settings.degree,
        labels=_columns.learn_classes(asked, target, table.decimal, first, settings.marks),
        decimal=table.decimal,
        separator=table.separator,
        missing=settings.marks,
    )
    found = (column.name for column in schema.columns if column.kind == "id")
    named = replace(settings, id=settings.id or next(found, None))
    X = schema.frame(raw, table.decimal, OddCells(path))
    rows = labelled(X, raw, schema, table.decimal, path, named, table.numbers)
    notes = [] if settings.id is None else _repeated_names(rows, settings)
    return replace(rows, y=as_array(rows.y, schema), unlabelled=unlabelled, notes=notes)


def _repeated_names(rows: Rows, settings: Settings) -> list[str]:
    """Notice that a column that is to name the rows has values that come more than once."""
    names = rows.names[rows.names != ""] if rows.names is not None else np.empty(0)
    distinct = len(np.unique(names))
    if distinct == len(names) or settings.groups is not None:
        return []
    return [
        f"column {settings.id!r} of --id holds {distinct:,} different values in {len(names):,} "
        "rows: if rows with the same value belong together (visits of a patient), say so by "
        f"--groups {settings.id!r}; scores, sets and doubts are too sure otherwise"
    ]


def labelled(
    X: Any, table: Any, schema: Schema, decimal: str, path: str, settings: Settings, number: Any
) -> Rows:
    """Take the rows of a table that have a label, with what the named columns hold of them.

    `X` has the features of all rows; labels that the schema does not know are given as their text.
    `number` gives the number of a row in errors.
    """
    labels, used = schema.read_labels(table.column(settings.target), decimal)

    def numbers(name: str | None, what: str, most: float, allowed: str) -> Array | None:
        if name is None:
            return None
        with _columns.naming(name):
            values = cells.numbers(table.column(name), decimal, schema.missing).values
        bad = used & ~((values >= 0) & (values <= most) & np.isfinite(values))
        if bad.any():
            row = int(bad.argmax())
            raise TableError(
                f"column {name!r} holds {table.column(name)[row].as_py()} in row {number(row)}; "
                f"{what} must be numbers {allowed}."
            )
        return values[used]

    def words(name: str | None, what: str, may_lack: bool = False) -> Array | None:
        if name is None:
            return None
        text = _columns.read_text(name, table.column(name), schema.missing)
        missing = text.is_null().to_numpy() & used
        if missing.any() and not may_lack:
            raise TableError(
                f"column {name!r} of {path} has no value in row {number(int(missing.argmax()))}; "
                f"every row needs one as {what}."
            )
        return np.array(text.fill_null("").to_pylist())[used]

    return Rows(
        X=X[used],
        y=labels[used],
        schema=schema,
        weight=numbers(settings.weight, "weights", np.inf, "of at least 0"),
        degrees=numbers(settings.degree, "degrees", 1.0, "from 0 to 1"),
        groups=words(settings.groups, "groups"),
        id=settings.id,
        names=words(settings.id, "id", may_lack=True),
    )


def read_features(
    path: str, schema: Schema, n_features: int, keep: Sequence[str] = (), sheet: str | None = None
) -> tuple[Any, Any, Source]:
    """Read a file as the schema says, `n_features` of LIBSVM text.

    Returns the columns to predict from, the other ones that are asked for (of LIBSVM text, the
    labels), and the source, with the file's decimal mark and its unusual cells.
    """
    wanted = Selection(keep=tuple(keep), labelled=False, as_text=True)
    source = open_source(path, wanted, None, schema, n_features, sheet)
    return *_whole(source, path), source


def _whole(source: Source, path: str) -> tuple[Any, Any]:
    """Read all rows of a source, and what is kept of them (of LIBSVM text, the labels)."""
    batches = list(source.batches())
    if not batches:
        raise TableError(f"{path} has no rows; give some.")
    parts = [batch.X for batch in batches]
    if source.schema.zero_based is not None:
        return sparse.vstack(parts, format="csr"), pa.array(np.concatenate([b.y for b in batches]))
    X = need("pandas", "cli", "a table").concat(parts, ignore_index=True)
    return X, None if batches[0].kept is None else pa.concat_tables([b.kept for b in batches])


def labelled_rows(
    path: str,
    schema: Schema,
    n_features: int,
    target: str | None = None,
    groups: str | None = None,
    may_group: str | None = None,
    sheet: str | None = None,
) -> Rows:
    """Read the rows of a file that have a label as the schema says.

    `target` is the column of labels (None: that of the schema), `groups` the column of groups, and
    `may_group` one to take if there is such a column. Labels that the schema does not know are
    given as their text.
    """
    if schema.zero_based is not None:
        if target or groups:
            option = "--target" if target else "--groups"
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")
        X, words, _ = read_features(path, schema, n_features)
        return Rows(X, schema.read_labels(words)[0], schema)
    target = target or schema.target
    if target is None:
        raise TableError(f"which column of {path} holds the labels? Name it: --target NAME.")
    file = open_table(path, [target], schema.separator, sheet)
    names = file.schema.names
    _columns.need_column(names, target, "--target", path)
    weight = schema.weight if schema.weight in names else None
    groups = groups or (may_group if may_group in names else None)
    settings = Settings(target, weight=weight, groups=groups)
    X, table, source = read_features(path, schema, n_features, settings.columns, sheet)
    rows = labelled(X, table, schema, source.schema.decimal, path, settings, file.numbers)
    if not len(rows.y):
        raise TableError(f"the target {target!r} is missing in every row of {path}.")
    return replace(rows, notes=source.odd_cells.notes())


def as_array(labels: Array, schema: Schema) -> Array:
    """Labels of the schema as integers or as text."""
    whole = all(isinstance(label, int) for label in schema.labels.values())
    return labels.astype(np.int64 if whole else str)


def read_libsvm(path: str, settings: Settings) -> Rows:
    """Read a file of LIBSVM text."""
    refuse_names(path, settings)
    source = open_source(path, Selection(as_text=True), None)
    X, words = _whole(source, path)
    schema = sparse_schema(source, words)
    return Rows(X, as_array(schema.read_labels(words)[0], schema), schema)


def refuse_names(path: str, settings: Settings) -> None:
    """Refuse names of columns for LIBSVM text."""
    for option, names in settings.named().items():
        if names:
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")


def sparse_schema(source: Source, words: Any) -> Schema:
    """Describe LIBSVM text: its features as one column, and its labels by their `words`."""
    if source.width > _columns.MOST_FEATURES:
        raise TableError(
            f"{source.paths[0]} has {source.width:,} features, more than "
            f"{_columns.MOST_FEATURES:,}; choose some."
        )
    zero_based = source.schema.zero_based
    note = f"scaled by their greatest; counted from {int(not zero_based)}"
    return Schema(
        (Column(f"{source.width} sparse features", "number", note=note),),
        labels=_columns.learn_classes(words, "label"),
        zero_based=zero_based,
    )
