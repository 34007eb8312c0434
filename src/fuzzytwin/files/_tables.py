"""Read a table in chunks of numbers: decoded by a schema, encoded by a preprocessor."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.files._chunks import (
    ArrayChunks,
    Batch,
    Location,
    Selection,
    Source,
    check_not_arrays,
)
from fuzzytwin.tables import (
    ParseIssues,
    TableBatch,
    TableError,
    TablePreprocessor,
    TableReader,
    TableRows,
    TableSchema,
    describe,
    read_table,
)
from fuzzytwin.tables._batch import is_frame
from fuzzytwin.tables._checks import warn_of_row_names
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._formats import BATCH_ROWS
from fuzzytwin.tables._infer import index_columns, names_rows
from fuzzytwin.tables._labels import StoredLabels, unexpected_cell
from fuzzytwin.tables._parse import is_cell, is_text, pa
from fuzzytwin.tables._preprocessor import encode_rows, fitted_to_schema
from fuzzytwin.tables._reader import Items
from fuzzytwin.tables._sniff import ROW_NAMES

HEAD_ROWS = 5000  # of a file that stores types, from which the columns of numbers are inferred
# Findings about missing cells, which are errors, or which the model reports itself.
_UNREPORTED = ("new_missing", "unparsed", "na_marker")


class TableChunks:
    """The labelled rows of a table, in chunks.

    Parameters
    ----------
    reader : TableReader
        The table.
    schema : TableSchema
        How to decode it.
    preprocessor : TablePreprocessor
        Fitted to rows of the schema.
    batch_rows : int, default=None
        Maximum number of rows of a chunk. None for about 16 MiB of numbers.
    keep : sequence of str, default=()
        Columns to copy unchanged.

    Attributes
    ----------
    counts : Counter
        Rows of each label, after a pass.
    n_unlabelled : int
        Rows without a label, after a pass.
    issues : ParseIssues
        Cells that are not as the schema expects, after a pass.
    """

    names: tuple[str, ...] | None = None  # the preprocessor has them

    def __init__(
        self,
        reader: TableReader,
        schema: TableSchema,
        preprocessor: TablePreprocessor | None,
        batch_rows: int | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.keep = tuple(keep)
        self.reader = reader
        self.schema = schema
        self.preprocessor = preprocessor
        self.batch_rows = batch_rows
        self.from_files = bool(reader.paths)
        self.repeatable = reader.repeatable
        self.n_rows = reader.n_rows
        self.has_degrees = schema.membership is not None
        self.counts = Counter[Any]()
        self.n_unlabelled = 0
        self.issues = ParseIssues(reader.source)

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        return list(dict.fromkeys([*self.schema.reads, *self.schema.others, *self.keep]))

    def decoded(self) -> Iterator[tuple[TableRows, Array, Array]]:
        """Read all rows: decoded by the schema, encoded as an array, and their row numbers."""
        counts = Counter[Any]()
        issues = ParseIssues(self.reader.source)
        n_unlabelled = 0
        for batch in self.reader.batches(self.batch_rows, self.columns):
            rows = self.schema.decode(batch, keep=self.keep, issues=issues)
            n_unlabelled += rows.n_unlabelled
            if len(rows):
                counts.update(np.asarray(rows.y).tolist())
                numbers = np.asarray(batch.table_rows(rows.index))
                yield rows, self._encoded(rows), numbers
        issues.check()
        self.counts = counts
        self.n_unlabelled = n_unlabelled
        self.issues = issues

    def _encoded(self, rows: TableRows) -> Array:
        X = rows.X if self.preprocessor is None else encode_rows(self.preprocessor, rows.X)
        return np.asarray(X)

    def arrays(self) -> Iterator[tuple[Any, ...]]:
        """Read all rows as X, y, weights and memberships."""
        for rows, X, _ in self.decoded():
            yield X, rows.y, rows.weight, rows.membership

    def batches(self) -> Iterator[Batch]:
        """Read all rows. No batch is empty."""
        for rows, X, _ in self.decoded():
            yield Batch(X, rows.y, rows.weight, rows.membership, _location(rows), kept=rows.kept)

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Raise a ValueError if writing to `out` would overwrite a file of this table."""
        self.reader.check_output(out)

    def warn(self) -> None:
        """Warn about columns that name rows. The preprocessor describes the others."""
        warn_of_row_names(self.schema.columns, "numeric=[...]")

    def warn_of_cells(self) -> None:
        """Do nothing, as `FuzzyTwinCommittee.fit`."""


class NumberChunks(TableChunks):
    """Rows of a table whose features are numbers, which are not scaled.

    Parameters
    ----------
    reader, schema, batch_rows, keep
        As for `TableChunks`. The schema is one of `TableSchema.of_numbers`.
    labels : StoredLabels, default=None
        How to read the labels, which every row must have. None if there are none.
    as_frame : bool, default=False
        Whether X is a pandas frame, which may hold text and missing values.
    """

    def __init__(
        self,
        reader: TableReader,
        schema: TableSchema,
        batch_rows: int | None = None,
        keep: Sequence[str] = (),
        labels: StoredLabels | None = None,
        as_frame: bool = False,
    ) -> None:
        super().__init__(reader, schema, None, batch_rows, keep)
        self.labels = labels
        self.as_frame = as_frame
        self.names = tuple(column.name for column in schema.features)

    def batches(self) -> Iterator[Batch]:
        """Read all rows. No batch is empty."""
        self.issues = ParseIssues(self.reader.source)
        for batch in self.reader.batches(self.batch_rows, self.columns):
            self._check_columns(batch)
            rows = self.schema.decode(
                batch,
                labelled=False,
                keep=self.keep,
                issues=self.issues,
                as_matrix=not self.as_frame,
            )
            classes = codes = None
            if self.labels is not None:
                classes, codes = self.labels.read(batch)
            yield Batch(
                rows.X,
                codes,
                rows.weight,
                rows.membership,
                _location(rows),
                names=self.names,
                kept=rows.kept,
                labels=classes,
            )

    def _check_columns(self, batch: TableBatch) -> None:
        """Raise a TableError if a file or frame lacks columns of the first one."""
        for name in self.columns:
            if name not in batch.cells.schema.names:
                raise TableError(missing_column(name, batch.all_names, batch.source))

    def warn(self) -> None:
        """Warn about columns that are left out although the user did not drop them."""
        left_out = [repr(column.name) for column in self.schema.columns if not column.used]
        if left_out:
            more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""
            warn_user(
                f"{self.reader.source}: columns that are not numeric are not used: "
                f"{', '.join(left_out[:10])}{more}. FuzzyTwinCommittee and TablePreprocessor can "
                "use them. To silence this warning, list the columns to train on (in Python: "
                "features=[...])."
            )

    def warn_of_cells(self) -> None:
        """Warn about cells of files such as "<0.5" that were read as numbers."""
        for finding in self.issues.findings():
            if self.from_files and finding.code not in _UNREPORTED:
                warn_user(f"{self.reader.source}, {describe(finding, full=True)}.")


def _location(rows: TableRows) -> Location:
    """Return where rows come from. Only columns of text are kept, for error messages."""
    cells = rows.batch.flat
    texts = [field.name for field in cells.schema if is_text(field.type)]
    complete = {
        name
        for name, column in zip(cells.schema.names, cells.columns, strict=True)
        if not column.null_count
    }
    batch = replace(rows.batch, cells=cells.select(texts), _parsed={})

    def number(index: Any) -> Any:
        return batch.row_numbers(rows.index[index])

    def bad_cell(index: int, name: str) -> str:
        return _describe_bad_cell(batch, int(rows.index[index]), name, complete)

    return Location(rows.source, number, batch.offset, bad_cell)


def _describe_bad_cell(batch: TableBatch, row: int, name: str, complete: set[str]) -> str:
    """Return the message about a cell that is not a number.

    `complete` are the columns without missing cells.
    """
    is_text_column = name in batch.cells.schema.names
    cell = batch.cells.column(name)[row].as_py() if is_text_column else None
    if isinstance(cell, str) and "unparsed" in batch.numbers(name).issues:
        one_row = TableBatch(batch.cells.slice(row, 1), batch.source, decimal=batch.decimal)
        if "unparsed" in one_row.numbers(name).issues:
            return unexpected_cell(batch, row, name)
    problem = "holds nan" if name in complete and not is_text_column else "has no value"
    return (
        f"{batch.source}, row {batch.row_numbers(row)}: column {name!r} {problem}; fill in such "
        "values or leave out such rows (FuzzyTwinCommittee and TablePreprocessor take missing "
        "values if the first rows have some)."
    )


def open_source(
    source: Any,
    selection: Selection,
    *,
    batch_rows: int | None = None,
    reading: Mapping[str, Any] | None = None,
    like: TableSchema | None = None,
    mixed: bool = False,
    as_frame: bool = False,
) -> Source:
    """Open a source of rows: see `fuzzytwin.files.fit`.

    Parameters
    ----------
    source : Any
        A table, or an iterable of tables or arrays, or a function that returns one.
    selection : Selection
        Which columns of a table to read.
    batch_rows : int, default=None
        Maximum number of rows of a batch. None for about 16 MiB of numbers.
    reading : mapping, default=None
        Options of `read_table`, by name.
    like : TableSchema, default=None
        How an earlier table was read.
    mixed : bool, default=False
        Whether a table may have text and missing values, which a preprocessor encodes.
    as_frame : bool, default=False
        Whether X is a pandas frame with text and missing values.

    Returns
    -------
    Source
        `NumberChunks` for a table of numbers, `TableChunks` for a mixed one, `ArrayChunks` for
        arrays.
    """
    if batch_rows is not None and (not is_whole(batch_rows) or batch_rows < 1):
        raise not_allowed("batch_rows", batch_rows, "give None or a whole number of at least 1")
    source = table_or_items(source, selection.labelled)
    if not is_table(source):
        for name, value in {**(reading or {}), **selection.choices}.items():
            if value is not None and len(value):
                raise ValueError(f"{name}={value!r} is for tables; these batches are arrays.")
        return ArrayChunks(source, selection.labelled)
    expected = [*selection.others, *(selection.features or ())]
    reader = read_table(source, expected=expected, like=like, **(reading or {}))
    if selection.labelled and selection.target is None:
        raise TableError(
            f"{reader.source} has named columns; name the column of the labels: target=NAME."
        )
    roles: dict[str, Any] = {
        "target": selection.target,
        "weight": selection.weight,
        "membership": selection.degrees,
        "features": selection.features,
        "drop": [
            *(name for name in selection.keep if name not in (selection.features or ())),
            *selection.drop,
        ],
        "numeric": selection.numeric,
        "separator": reader.separator,
    }
    if mixed:
        sample = reader.sample()
        _check_names(sample, selection, reader)
        if _is_mixed(sample, selection):
            schema = TableSchema.infer(sample, category=selection.category, **roles)
            preprocessor = fitted_to_schema(schema, schema.decode(sample).X, scale=False)
            return TableChunks(reader, schema, preprocessor, batch_rows, selection.keep)
    elif selection.category:
        raise ValueError(
            f"category={list(selection.category)} is for FuzzyTwinCommittee; encode categories by "
            "TablePreprocessor first."
        )
    head = _head(reader, selection)
    _check_names(head, selection, reader)
    schema = TableSchema.of_numbers(head, **roles, text=as_frame)
    labels = None
    if selection.target is not None:
        labels = StoredLabels.infer(head, selection.target, has_types=reader.has_types)
    return NumberChunks(reader, schema, batch_rows, selection.keep, labels, as_frame)


def _head(reader: TableReader, selection: Selection) -> TableBatch:
    """Read the first rows, from which the numeric columns are inferred.

    All columns of a text file are read, as the decimal mark is inferred from all of them.
    """
    columns = None
    has_repeated = len(set(reader.names)) < len(reader.names)
    if selection.features is not None and (reader.has_types or has_repeated):
        columns = list(dict.fromkeys([*selection.others, *selection.features]))
        if not set(columns).issubset(reader.names):
            columns = None  # the other names may be elements of lists
    return reader.head(HEAD_ROWS if reader.has_types else BATCH_ROWS, columns)


def _check_names(sample: TableBatch, selection: Selection, reader: TableReader) -> None:
    """Raise a TableError if a selected column is missing."""
    table_names = {*sample.cells.schema.names, *sample.flat.schema.names}
    chosen = (name for names in selection.choices.values() for name in names)
    for name in (*selection.others, *(selection.features or ()), *chosen):
        if name not in table_names:
            needed = () if selection.labelled else selection.features or ()
            raise TableError(missing_column(name, reader.names, sample.source, needed))


def table_or_items(source: Any, labelled: bool) -> Any:
    """Return files and frames unchanged, and other iterables as `Items`."""
    if isinstance(source, Items) or is_table(source):
        return source
    check_not_arrays(source, labelled)
    return Items(source)


def is_table(source: Any) -> bool:
    """Return whether a source is a file, several files, a frame, or `Items` that are frames."""
    if isinstance(source, Items):
        return is_frame(source.first)
    if is_frame(source):
        return True
    items = source if isinstance(source, (list, tuple)) else [source]
    return bool(items) and all(isinstance(item, (str, os.PathLike)) for item in items)


def _is_mixed(sample: TableBatch, selection: Selection) -> bool:
    """Return whether features hold text or missing values, or name rows."""
    if selection.numeric or selection.category:
        return True
    names = selection.features
    if names is None:
        index = index_columns(sample.cells.schema)
        skipped = {*selection.others, *selection.drop, *index, ROW_NAMES}
        names = [name for name in sample.flat.schema.names if name not in skipped]
    table_names = set(sample.flat.schema.names)
    return not all(_is_numeric(sample, name) for name in names if name in table_names)


def _is_numeric(sample: TableBatch, name: str) -> bool:
    """Return whether a column holds numbers without missing values, which do not name rows."""
    kind = sample.flat.column(name).type
    if not is_cell(kind) or pa.types.is_dictionary(kind):
        return False
    kind = sample.kind(name)
    if kind not in ("number", "boolean"):
        return False
    values = sample.numbers(name, kind).values
    return not np.isnan(values).any() and not names_rows(name, values)
