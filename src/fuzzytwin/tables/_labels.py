"""Read labels as a table stores them: text, truth values, or numbers with all their digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.tables import _parse
from fuzzytwin.tables._batch import TableBatch
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._findings import TableError
from fuzzytwin.tables._parse import EXACT, UNPARSED, WHOLE, is_number, is_text, pa, pc


@dataclass(frozen=True)
class StoredLabels:
    """How to read the labels of a table whose classes may be unknown.

    Parameters
    ----------
    name : str
        The column of labels.
    kind : pyarrow.DataType, default=None
        The type to which cells of text are converted. None if the file stores types.
    """

    name: str
    kind: Any = None

    @classmethod
    def infer(cls, sample: TableBatch, name: str, *, has_types: bool) -> StoredLabels:
        """Infer the type from the first rows: 1 is a number, 007 is text."""
        column = _column(sample, name)
        if has_types or not is_text(column.type):
            return cls(name)
        kind = sample.kind(name)
        if kind == "number":
            return cls(name, _parse.label_type(column))
        return cls(name, pa.bool_() if kind == "boolean" else pa.string())

    def read(self, batch: TableBatch) -> tuple[Array, Array]:
        """Return the sorted labels of a batch, and the index of each row's label.

        A TableError is raised if a label is missing, or is neither text nor a finite number.
        """
        column = _column(batch, self.name)
        if self.kind is not None and is_text(column.type):
            column = self._typed(batch, column)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise TableError(
                f"{_row(batch, row)}: column {self.name!r} has no value; give the row a label, or "
                "leave it out."
            )
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        kind = column.type.value_type
        if not (is_text(kind) or is_number(kind)) or pa.types.is_decimal(kind):
            raise TableError(
                f"{batch.source}: column {self.name!r} of labels is of type {kind}; give whole "
                "numbers or strings."
            )
        labels, codes = encoded_labels(_single(column.unify_dictionaries()))
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)[codes]))
            raise TableError(
                f"{_row(batch, row)}: column {self.name!r} of labels holds {labels[codes[row]]}; "
                "leave out rows without a label."
            )
        return labels, codes

    def _typed(self, batch: TableBatch, column: Any) -> Any:
        """Convert cells of text to the type of the first rows."""
        if is_text(self.kind):
            return batch.text(self.name)
        if self.kind == pa.int64():
            return self._whole(batch, column)
        if self.kind == pa.bool_():
            parsed = batch.numbers(self.name, "boolean")
        else:
            parsed = batch.numbers(self.name)
        missing = np.isnan(parsed.values)
        if UNPARSED in parsed.issues:
            unreadable = missing & batch.text(self.name).is_valid().to_numpy()
            expected = "true or false" if self.kind == pa.bool_() else "numbers"
            raise self._unexpected(batch, int(unreadable.argmax()), expected)
        return pa.chunked_array([pa.array(parsed.values, mask=missing).cast(self.kind)])

    def _whole(self, batch: TableBatch, column: Any) -> Any:
        """Read whole numbers: digits exactly, cells such as 5.0 as doubles."""
        words = batch.text(self.name)
        digits = pc.if_else(pc.match_substring_regex(words, WHOLE), words, None)
        exact = _parse.cast(digits, pa.int64())
        if exact is not None and exact.null_count == words.null_count:
            return exact
        values = batch.numbers(self.name).values
        is_whole = (values == np.round(values)) & (np.abs(values) < EXACT)
        zeros = pc.match_substring_regex(words, r"^[+-]?0\d").fill_null(False).to_numpy()
        marked = pc.is_in(pc.utf8_lower(words), value_set=pa.array(_parse.NO_NUMBER)).to_numpy()
        unreadable = words.is_valid().to_numpy() & ~marked & (~is_whole | zeros)
        if exact is not None:
            unreadable &= exact.is_null().to_numpy()
        if exact is None or unreadable.any():
            row = int((np.abs(values) if exact is None else unreadable).argmax())
            raise self._unexpected(batch, row, "whole numbers")
        rounded = np.where(is_whole, values, 0.0).astype(np.int64)
        return pc.coalesce(exact, pa.array(rounded, mask=~is_whole))

    def _unexpected(self, batch: TableBatch, row: int, expected: str) -> TableError:
        return TableError(unexpected_cell(batch, row, self.name, expected))


def unexpected_cell(batch: TableBatch, row: int, name: str, expected: str = "numbers") -> str:
    """Return the message that a cell does not hold what the first rows do."""
    cell = batch.flat.column(name)[row].as_py()
    return (
        f"{_row(batch, row)}: column {name!r} holds {cell!r:.60}, but {expected} in the first "
        "rows; fix the cell, or leave out the row or the column."
    )


def encoded_labels(column: Any) -> tuple[Array, Array]:
    """Return the sorted labels of a dictionary array, and the index of each row's label.

    The array has no missing values. Labels that do not occur are left out.
    """
    words = column.dictionary
    if is_text(words.type):
        values = np.array(words.to_pylist(), dtype=str)
    else:
        values = np.asarray(words.to_numpy(zero_copy_only=False))
    index = np.asarray(column.indices.to_numpy(zero_copy_only=False))
    values, inverse = np.unique(values, return_inverse=True)
    # A dictionary may hold values that no row has.
    used = np.bincount(inverse.take(index), minlength=len(values)) > 0
    inverse = (np.cumsum(used) - 1)[inverse]
    narrow = np.min_scalar_type(max(len(values), 1))
    return values[used], inverse.astype(narrow).take(index)


def _column(batch: TableBatch, name: str) -> Any:
    names = batch.flat.schema.names
    if names.count(name) != 1:
        raise TableError(missing_column(name, names, batch.source))
    return batch.flat.column(name)


def _row(batch: TableBatch, row: int) -> str:
    return f"{batch.source}, row {batch.row_numbers(row)}"


def _single(column: Any) -> Any:
    """Return a chunked array as one array."""
    combined = column.combine_chunks()
    return combined.chunk(0) if hasattr(combined, "chunks") else combined
