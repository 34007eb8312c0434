"""Read the rows to learn from, and what is known about each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.types import Array
from fuzzytwin.sources import cells
from fuzzytwin.sources.batches import Wanted
from fuzzytwin.sources.formats import (
    known_kind,
    open_table,
    readable,
)
from fuzzytwin.sources.libsvm import libsvm_batches, scan_libsvm
from fuzzytwin.sources.readers import Source, open_source
from fuzzytwin.sources.schema import Column, Schema, Tally
from fuzzytwin.tables import columns as _columns
from fuzzytwin.tables.columns import TableError
from fuzzytwin.tables.files import BATCH_ROWS, Table, read_table
from fuzzytwin.tables.settings import Settings


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


def read_rows(path: str, settings: Settings) -> Rows:
    """Read a whole file."""
    if known_kind(path) == "libsvm":
        return _read_libsvm(path, settings)
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    return rows_of(read_table(path, settings.columns), settings)


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
        X=schema.frame(raw, table.decimal, Tally(path))[used],
        y=as_array(labels[used], schema),
        schema=schema,
        weight=_columns.numbers(raw, settings.weight, "weights", table.decimal, used),
        degrees=_columns.numbers(raw, settings.degree, "degrees", table.decimal, used),
        groups=values_of(raw, settings.groups, "groups", path, used),
        id=id_column,
        names=values_of(raw, id_column, "id", path, used, may_lack=True),
        notes=[f"{unlabelled:,} rows without a label left out"] if unlabelled else [],
    )


def read_features(
    path: str, schema: Schema, n_features: int, keep: Sequence[str] = ()
) -> tuple[Any, Any, Source]:
    """Read a file as the schema says.

    Parameters
    ----------
    path : str
        The file.
    schema : Schema
        Of the training rows.
    n_features : int
        Features of LIBSVM text.
    keep : sequence of str, default=()
        Other columns to read.

    Returns
    -------
    X : DataFrame or csr_matrix
        The columns to predict from.
    kept : pyarrow.Table or ndarray
        The other columns; of LIBSVM text, the labels.
    source : Source
        With the file's decimal mark, and its unusual cells.
    """
    pa = cells.arrow()
    wanted = Wanted(keep=tuple(keep), labelled=False, verbatim=True, schema=schema)
    source = open_source(path, wanted, BATCH_ROWS, n_features)
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
) -> Rows:
    """Read the rows of a file that have a label as the schema says.

    Parameters
    ----------
    path, schema, n_features
        As for `read_features`. Labels that the schema does not know are given as their text.
    target : str, default=None
        Column of labels; None for that of the schema.
    groups, may_group : str, default=None
        Column of groups, and one to take if there is such a column.
    """
    if schema.zero_based is not None:
        if target or groups:
            option = "--target" if target else "--groups"
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")
        X, words, _ = read_features(path, schema, n_features)
        return Rows(X, schema.read_labels(cells.arrow().array(words))[0], schema)
    target = target or str(schema.target)
    names = open_table(path, [target], schema.separator).schema.names
    _columns.need_column(names, target, "--target", path)
    weight = schema.weight if schema.weight in names else None
    groups = groups or (may_group if may_group in names else None)
    keep = list(dict.fromkeys(name for name in (target, weight, groups) if name))
    X, table, source = read_features(path, schema, n_features, keep)
    labels, used = schema.read_labels(table.column(target), source.schema.decimal)
    if not used.any():
        raise TableError(f"the target {target!r} is missing in every row of {path}.")
    return Rows(
        X=X[used],
        y=labels[used],
        schema=schema,
        weight=_columns.numbers(table, weight, "weights", source.schema.decimal, used),
        groups=values_of(table, groups, "groups", path, used),
        notes=source.tally.notes(),
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
        raise TableError(
            f"column {name!r} of {path} has no value in row {int(missing.argmax()) + 1}; every row "
            f"needs one as {what}."
        )
    return np.array(text.fill_null("").to_pylist())[used]


def _read_libsvm(path: str, settings: Settings) -> Rows:
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
    words = cells.arrow().array(np.concatenate([y for _, y in parts]))
    note = f"scaled by their greatest; counted from {int(not zero_based)}"
    schema = Schema(
        (Column(f"{width} sparse features", "number", note=note),),
        labels=_columns.learn_classes(words, "label"),
        zero_based=zero_based,
    )
    y = as_array(schema.read_labels(words)[0], schema)
    return Rows(sparse.vstack([X for X, _ in parts], format="csr"), y, schema)
