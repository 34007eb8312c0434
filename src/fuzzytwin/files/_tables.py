"""The rows of a table as chunks of numbers: decoded by a schema, encoded by a preprocessor."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.files._chunks import (
    ArrayChunks,
    Batch,
    Place,
    Selection,
    Source,
    refuse_arrays,
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
from fuzzytwin.tables._batch import MARK_ROWS, is_frame
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._formats import BATCH_ROWS
from fuzzytwin.tables._infer import index_columns
from fuzzytwin.tables._labels import StoredLabels, unexpected_cell
from fuzzytwin.tables._parse import is_cell, is_text, kind_of
from fuzzytwin.tables._preprocessor import encode_rows, fitted_to_schema
from fuzzytwin.tables._reader import Items
from fuzzytwin.tables._sniff import ROW_NAMES

# Findings of cells that a schema of numbers does not report: they are errors, or the model's.
_UNREPORTED = ("new_missing", "unparsed", "na_marker")


class TableChunks:
    """Rows of a table that have a label, some at a time, as often as they are needed.

    Parameters
    ----------
    reader : TableReader
        The table.
    schema : TableSchema
        How to decode it.
    preprocessor : TablePreprocessor
        Fitted to rows of the schema.
    batch_rows : int, default=None
        Most rows to hold at once; None for about 16 MiB of numbers.
    keep : sequence of str, default=()
        Columns to copy as they stand.

    Attributes
    ----------
    counts : Counter
        Rows of each label, after a whole pass.
    n_unlabelled : int
        Rows without a label, after a whole pass.
    issues : ParseIssues
        Cells that are not as the schema has them, after a whole pass.
    """

    names: tuple[str, ...] | None = None  # the preprocessor knows them

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
        """Read all rows: as the schema decodes them, as numbers, and their numbers in the table."""
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
        """Read all rows; no batch is empty."""
        for rows, X, _ in self.decoded():
            yield Batch(X, rows.y, rows.weight, rows.membership, _place(rows), kept=rows.kept)

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Refuse to write over a file that is read."""
        self.reader.check_output(out)

    def warn(self) -> None:
        """Warn of nothing: the preprocessor says what becomes of each column."""

    def warn_of_cells(self) -> None:
        """Warn of nothing, as `FuzzyTwinCommittee.fit`."""


class NumberChunks(TableChunks):
    """Rows of a table whose features are numbers that are taken as they are.

    Parameters
    ----------
    reader, schema, batch_rows, keep
        As of `TableChunks`; the schema is one of numbers.
    labels : StoredLabels, default=None
        How to read the labels, which every row must have; None if there are none.
    as_frame : bool, default=False
        Whether X is a pandas frame, in which values may be missing or text.
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
        """Read all rows; no batch is empty."""
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
            classes, codes = None, None
            if self.labels is not None:
                classes, codes = self.labels.read(batch)
            yield Batch(
                rows.X, codes, rows.weight, rows.membership, _place(rows), self.names, rows.kept,
                classes,
            )  # fmt: skip

    def _check_columns(self, batch: TableBatch) -> None:
        """Refuse a file or frame that lacks columns of the first one."""
        for name in self.columns:
            if name not in batch.cells.schema.names:
                raise TableError(missing_column(name, batch.all_names, batch.source))

    def warn(self) -> None:
        """Warn of columns that are left out without being asked for."""
        left = [repr(column.name) for column in self.schema.columns if not column.used]
        if left:
            more = f" and {len(left) - 10} more" if len(left) > 10 else ""
            warn_user(
                f"{self.reader.source}: columns that are not numeric are left out: "
                f"{', '.join(left[:10])}{more}. FuzzyTwinCommittee and TablePreprocessor take them "
                "as they are; if they are to be left out, name the columns to take (in Python: "
                "features=[...])."
            )

    def warn_of_cells(self) -> None:
        """Warn of cells of files such as "<0.5" that were read as numbers."""
        for finding in self.issues.findings():
            if self.from_files and finding.code not in _UNREPORTED:
                warn_user(f"{self.reader.source}, {describe(finding, full=True)}.")


def _place(rows: TableRows) -> Place:
    """Return where rows came from; of the cells, only those of text are kept, for errors."""
    cells = rows.batch.flat
    texts = [field.name for field in cells.schema if is_text(field.type)]
    whole = {
        name
        for name, column in zip(cells.schema.names, cells.columns, strict=True)
        if not column.null_count
    }
    batch = replace(rows.batch, cells=cells.select(texts), _parsed={})

    def number(index: Any) -> Any:
        return batch.row_numbers(rows.index[index])

    def bad_cell(index: int, name: str) -> str:
        return _describe_bad_cell(batch, int(rows.index[index]), name, whole)

    return Place(rows.source, number, batch.offset, bad_cell)


def _describe_bad_cell(batch: TableBatch, row: int, name: str, whole: set[str]) -> str:
    """Say what a cell holds that is not a number, and what to do about it.

    `whole` are the columns without missing cells.
    """
    is_there = name in batch.cells.schema.names
    cell = batch.cells.column(name)[row].as_py() if is_there else None
    if isinstance(cell, str) and "unparsed" in batch.numbers(name).issues:
        readable = TableBatch(batch.cells.slice(row, 1), batch.source, decimal=batch.decimal)
        if "unparsed" in readable.numbers(name).issues:
            return unexpected_cell(batch, row, name)
    held = "holds nan" if name in whole and not is_there else "has no value"
    return (
        f"{batch.source}, row {batch.row_numbers(row)}: column {name!r} {held}; fill in such "
        "values or leave out such rows (FuzzyTwinCommittee and TablePreprocessor take missing "
        "values if there are some in the first rows)."
    )


def open_source(
    source: Any,
    selection: Selection,
    *,
    batch_rows: int | None = None,
    sheet: str | None = None,
    like: TableSchema | None = None,
    mixed: bool = False,
    as_frame: bool = False,
) -> Source:
    """Open what a user means: see `fuzzytwin.files.fit`.

    Parameters
    ----------
    source : Any
        A table, or an iterable of tables or arrays, or a function that returns one.
    selection : Selection
        Which columns of a table to read.
    batch_rows : int, default=None
        Most rows to hold at once; None for about 16 MiB of numbers.
    sheet : str, default=None
        Sheet of a workbook.
    like : TableSchema, default=None
        How an earlier table was read.
    mixed : bool, default=False
        Whether a table may have text and missing values, which a preprocessor takes.
    as_frame : bool, default=False
        Whether to give a pandas frame of the features, text and missing values as they are.

    Returns
    -------
    Source
        Of a table of numbers, `NumberChunks`; of a mixed one, `TableChunks`.
    """
    if batch_rows is not None and (not is_whole(batch_rows) or batch_rows < 1):
        raise not_allowed("batch_rows", batch_rows, "give None or a whole number of at least 1")
    source = table_or_items(source, selection.labelled)
    if not is_table(source):
        return ArrayChunks(source, selection.labelled)
    expected = [*selection.others, *(selection.features or ())]
    reader = read_table(source, sheet=sheet, expected=expected, like=like)
    if selection.labelled and selection.target is None:
        raise TableError(
            f"{reader.source} has named columns; say which one holds the labels: target=NAME."
        )
    named = {
        "target": selection.target,
        "weight": selection.weight,
        "membership": selection.degrees,
        "features": selection.features,
        "drop": [name for name in selection.keep if name not in (selection.features or ())],
        "separator": reader.separator,
    }
    if mixed:
        sample = reader.sample()
        _check_names(sample, selection, reader)
        if _is_mixed(sample, selection):
            schema = TableSchema.infer(sample, **named)
            preprocessor = fitted_to_schema(schema, schema.decode(sample).X)
            return TableChunks(reader, schema, preprocessor, batch_rows, selection.keep)
    head = _head(reader, selection)
    _check_names(head, selection, reader)
    schema = TableSchema.of_numbers(head, **named, text=as_frame)
    labels = None
    if selection.target is not None:
        labels = StoredLabels.infer(head, selection.target, has_types=reader.has_types)
    return NumberChunks(reader, schema, batch_rows, selection.keep, labels, as_frame)


def _head(reader: TableReader, selection: Selection) -> TableBatch:
    """Read some rows, to find which columns are numbers.

    Of text, all columns are read, as the decimal mark is found by all.
    """
    columns = None
    has_repeated = len(set(reader.names)) < len(reader.names)
    if selection.features is not None and (reader.has_types or has_repeated):
        columns = list(dict.fromkeys([*selection.others, *selection.features]))
        if not set(columns).issubset(reader.names):
            columns = None  # elements of lists, perhaps
    return reader.head(MARK_ROWS if reader.has_types else BATCH_ROWS, columns)


def _check_names(sample: TableBatch, selection: Selection, reader: TableReader) -> None:
    """Refuse columns that are not there."""
    there = {*sample.cells.schema.names, *sample.flat.schema.names}
    for name in (*selection.others, *(selection.features or ())):
        if name not in there:
            needed = () if selection.labelled else selection.features or ()
            raise TableError(missing_column(name, reader.names, sample.source, needed))


def table_or_items(source: Any, labelled: bool) -> Any:
    """Return files and a frame as they are, anything else as `Items`; refuse arrays."""
    if isinstance(source, Items) or is_table(source):
        return source
    refuse_arrays(source, labelled)
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
    """Return whether features hold anything but numbers, or are missing."""
    names = selection.features
    if names is None:
        skipped = {*selection.others, *index_columns(sample.cells.schema), ROW_NAMES}
        names = [name for name in sample.flat.schema.names if name not in skipped]
    there = set(sample.flat.schema.names)
    return not all(_is_numeric(sample, name) for name in names if name in there)


def _is_numeric(sample: TableBatch, name: str) -> bool:
    """Return whether a column holds only numbers, none missing."""
    column = sample.flat.column(name)
    if not is_cell(column.type):
        return False
    kind = kind_of(
        column,
        sample.decimal,
        sample.missing,
        parse=lambda: sample.numbers(name),
        zeros=lambda: sample.leading_zeros(name),
    )
    if kind not in ("number", "boolean"):
        return False
    return not np.isnan(sample.numbers(name, kind).values).any()
