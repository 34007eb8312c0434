"""Labels as a table stores them: text, truth values or numbers, whole ones to the last digit."""

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
    """How to read the labels of a table whose classes need not be known before.

    Parameters
    ----------
    name : str
        The column.
    kind : pyarrow.DataType, default=None
        The type of cells of text, as the first rows show it; None for cells that have types.
    """

    name: str
    kind: Any = None

    @classmethod
    def infer(cls, sample: TableBatch, name: str, *, has_types: bool) -> StoredLabels:
        """Find the type by the first rows: 1 is a number, 007 is a text."""
        column = _column(sample, name)
        if has_types or not is_text(column.type):
            return cls(name)
        kind = _parse.kind_of(column, sample.decimal, sample.missing)
        if kind == "number":
            return cls(name, _parse.label_type(column))
        return cls(name, pa.bool_() if kind == "boolean" else pa.string())

    def read(self, batch: TableBatch) -> tuple[Array, Array]:
        """Return the sorted labels of a batch, and the index of each row's; none may be missing."""
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
        """Read cells of text as the type of the first rows."""
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
        """Read whole numbers, digits exactly; 5.0 and the like by way of doubles."""
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
    """Say that a cell does not hold what those of the first rows do."""
    cell = batch.flat.column(name)[row].as_py()
    return (
        f"{_row(batch, row)}: column {name!r} holds {cell!r:.60}, but {expected} in the first "
        "rows; fix it, or leave out the row or the column."
    )


def encoded_labels(column: Any) -> tuple[Array, Array]:
    """Return the labels of a dictionary array without missing values, and the index of each row's.

    The labels are sorted, and each occurs.
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
    whole = column.combine_chunks()
    return whole.chunk(0) if hasattr(whole, "chunks") else whole
