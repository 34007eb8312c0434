"""Read the rows to learn from, and what is known about each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.data import cells
from fuzzytwin.data import columns as _columns
from fuzzytwin.data.batches import Selection
from fuzzytwin.data.cells import pa
from fuzzytwin.data.columns import TableError
from fuzzytwin.data.files import (
    BATCH_ROWS,
    Table,
    first_row,
    libsvm_batches,
    open_table,
    readable,
    scan_libsvm,
)
from fuzzytwin.data.schema import Column, OddCells, Schema
from fuzzytwin.data.sources import Source, open_source


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
    folds: int = 5
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        """Name the columns that are not features."""
        named = (self.target, self.weight, self.degree, self.groups, self.id)
        return list(dict.fromkeys(name for name in named if name is not None))

    def named(self) -> dict[str, Sequence[str]]:
        """Give all columns that are named, by their option."""
        one = {
            "--target": self.target, "--weight": self.weight, "--degree": self.degree,
            "--groups": self.groups, "--id": self.id,
        }  # fmt: skip
        found = {option: [] if name is None else [name] for option, name in one.items()}
        many = {"--drop": self.drop, "--numeric": self.numeric, "--category": self.category}
        return {**found, **many}


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


def rows_of(table: Table, settings: Settings) -> Rows:
    """Take the rows of a table that have a label, and learn how to read others like them."""
    target, path, raw = str(settings.target), table.path, table.cells
    for option, names in settings.named().items():
        for name in names:
            _columns.need_column(raw.schema.names, name, option, path)
    first = raw.num_rows if table.more else 0
    asked = raw.column(target)
    unlabelled = cells.text(asked).null_count
    if unlabelled == raw.num_rows:
        where = f"each of the first {first:,} rows" if first else "every row"
        remedy = _columns.SORTED if first else "give labels"
        raise TableError(f"the target {target!r} is missing in {where}; {remedy}.")
    schema = Schema(
        _columns.learn(
            raw,
            table.decimal,
            settings.columns,
            drop=settings.drop,
            numeric=settings.numeric,
            category=settings.category,
            first=first,
        ),
        target=target,
        weight=settings.weight,
        degree=settings.degree,
        labels=_columns.learn_classes(asked, target, table.decimal, first),
        decimal=table.decimal,
        separator=table.separator,
    )
    labels, used = schema.read_labels(asked, table.decimal)
    found = (column.name for column in schema.columns if column.kind == "id")
    id_column = settings.id or next(found, None)
    return Rows(
        X=schema.frame(raw, table.decimal, OddCells(path))[used],
        y=as_array(labels[used], schema),
        schema=schema,
        weight=_columns.numbers(
            raw, settings.weight, "weights", table.decimal, used, first_row(path)
        ),
        degrees=_columns.numbers(
            raw, settings.degree, "degrees", table.decimal, used, first_row(path)
        ),
        groups=values_of(raw, settings.groups, "groups", path, used),
        id=id_column,
        names=values_of(raw, id_column, "id", path, used, may_lack=True),
        notes=[f"{count(unlabelled, 'row')} without a label left out"] if unlabelled else [],
    )


def read_features(
    path: str,
    schema: Schema,
    n_features: int,
    keep: Sequence[str] = (),
    sheet: str | None = None,
) -> tuple[Any, Any, Source]:
    """Read a file as the schema says, `n_features` of LIBSVM text.

    Returns the columns to predict from, the other ones that are asked for (of LIBSVM text, the
    labels), and the source, with the file's decimal mark and its unusual cells.
    """
    wanted = Selection(keep=tuple(keep), labelled=False, as_text=True)
    source = open_source(path, wanted, BATCH_ROWS, schema, n_features, sheet)
    batches = list(source.batches())
    if not batches:
        raise TableError(f"{path} has no rows; give some.")
    parts = [batch.X for batch in batches]
    if schema.zero_based is not None:
        return sparse.vstack(parts, format="csr"), np.concatenate([b.y for b in batches]), source
    X = need("pandas", "cli", "a table").concat(parts, ignore_index=True)
    return X, pa.concat_tables([b.kept for b in batches]) if keep else None, source


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
        return Rows(X, schema.read_labels(pa.array(words))[0], schema)
    target = target or str(schema.target)
    names = open_table(path, [target], schema.separator, sheet).schema.names
    _columns.need_column(names, target, "--target", path)
    weight = schema.weight if schema.weight in names else None
    groups = groups or (may_group if may_group in names else None)
    keep = list(dict.fromkeys(name for name in (target, weight, groups) if name))
    X, table, source = read_features(path, schema, n_features, keep, sheet)
    labels, used = schema.read_labels(table.column(target), source.schema.decimal)
    if not used.any():
        raise TableError(f"the target {target!r} is missing in every row of {path}.")
    return Rows(
        X=X[used],
        y=labels[used],
        schema=schema,
        weight=_columns.numbers(
            table, weight, "weights", source.schema.decimal, used, first_row(path)
        ),
        groups=values_of(table, groups, "groups", path, used),
        notes=source.odd_cells.notes(),
    )


def as_array(labels: Array, schema: Schema) -> Array:
    """Labels of the schema as integers or as text."""
    whole = all(isinstance(label, int) for label in schema.labels.values())
    return labels.astype(np.int64 if whole else str)


def values_of(
    table: Any, name: str | None, what: str, path: object, used: Array, may_lack: bool = False
) -> Array | None:
    """Read a column as text: the groups or the names of the rows that are used."""
    if name is None:
        return None
    _columns.need_column(table.schema.names, name, what, path)
    text = cells.text(table.column(name))
    missing = text.is_null().to_numpy() & used
    if missing.any() and not may_lack:
        row = int(missing.argmax()) + first_row(str(path))
        raise TableError(
            f"column {name!r} of {path} has no value in row {row}; every row needs one as {what}."
        )
    return np.array(text.fill_null("").to_pylist())[used]


def read_libsvm(path: str, settings: Settings) -> Rows:
    """Read a file of LIBSVM text."""
    for option, names in settings.named().items():
        if names:
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")
    with readable(path):
        zero_based, width = scan_libsvm([path])
        if width > _columns.MOST_FEATURES:
            raise TableError(
                f"{path} has {width:,} features, more than {_columns.MOST_FEATURES:,}; choose some."
            )
        parts = list(libsvm_batches(path, width, zero_based))
    if not parts:
        raise TableError(f"{path} holds no rows; give some.")
    words = pa.array(np.concatenate([y for _, y in parts]))
    note = f"scaled by their greatest; counted from {int(not zero_based)}"
    schema = Schema(
        (Column(f"{width} sparse features", "number", note=note),),
        labels=_columns.learn_classes(words, "label"),
        zero_based=zero_based,
    )
    y = as_array(schema.read_labels(words)[0], schema)
    return Rows(sparse.vstack([X for X, _ in parts], format="csr"), y, schema)
