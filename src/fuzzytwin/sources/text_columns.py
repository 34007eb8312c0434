"""Types for the text columns of a file, by the cells of its first rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuzzytwin.sources import cells
from fuzzytwin.sources.batches import Place, Wanted
from fuzzytwin.sources.cells import STRANGE, arrow, is_text
from fuzzytwin.sources.schema import Tally


def cell_types(table: Any, wanted: Wanted, decimal: str) -> dict[str, Any]:
    """Arrow types for text columns, by the cells of the first rows of a file."""
    pa = arrow()
    types: dict[str, Any] = {}
    for name in table.schema.names:
        column = table.column(name)
        kind = cells.kind_of(column, decimal)
        if kind == "number":
            types[name] = pa.float64()
            if name == wanted.target or name in wanted.keep:
                types[name] = cells.label_type(column, types[name])
        elif kind == "empty":
            types[name] = pa.float64() if name in (wanted.features or ()) else pa.null()
        else:
            types[name] = pa.bool_() if kind == "boolean" else pa.string()
    return types


def with_types(
    table: Any, types: Mapping[str, Any], decimal: str, place: Place, tally: Tally
) -> Any:
    """Text columns of a table as the types that their first rows have; gaps are null."""
    pa = arrow()
    columns = []
    for name in table.schema.names:
        column, kind = table.column(name), types.get(name)
        if kind is not None and is_text(column.type):
            if pa.types.is_string(kind):
                column = cells.text(column)
            elif not pa.types.is_null(kind):
                column = _cast(column, kind, decimal, name, place, tally)
        columns.append(column)
    return pa.table(columns, names=table.schema.names)


def _cast(column: Any, kind: Any, decimal: str, name: str, place: Place, tally: Tally) -> Any:
    """Cells of text as numbers or truth values."""
    pa = arrow()
    plain = cells.cast(column, kind) if kind != pa.bool_() and decimal == "." else None
    if plain is not None:
        return plain
    read = cells.booleans(column) if kind == pa.bool_() else cells.numbers(column, decimal)
    gaps = np.isnan(read.values)
    strange = gaps & cells.text(column).is_valid().to_numpy()
    if kind == pa.int64():
        strange |= ~gaps & (read.values != np.round(read.values))
    if STRANGE in read.odd or (kind == pa.int64() and strange.any()):
        row = int(strange.argmax())
        raise ValueError(
            f"{place.row(row)}: column {name!r} holds {column[row].as_py()!r:.60}, but "
            f"{_WORDS[str(kind)]} in the first rows; fix it, or leave out the row or the column."
        )
    tally.add(name, int((~gaps).sum()), read.odd)
    return pa.array(read.values, mask=gaps).cast(kind)


_WORDS = {"int64": "whole numbers", "double": "numbers", "bool": "true or false"}
