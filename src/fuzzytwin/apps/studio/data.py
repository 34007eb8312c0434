"""The table that is looked at: a `Study`, and its rows as text for people."""

from __future__ import annotations

import hashlib
from functools import cached_property, partial

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.study import Study
from fuzzytwin.apps.table_rows import Settings
from fuzzytwin.data.cells import numbers, pa
from fuzzytwin.data.columns import TableError
from fuzzytwin.data.files import known_format


class StudioTable(Study):
    """Rows with a label, as numbers for the model and as text for people; the file stays as it is.

    Rows have the numbers and the doubts that `fuzzytwin doubts` shows.
    """

    sampled = False  # whether some rows of the file were not read

    def __init__(self, path: str, settings: Settings) -> None:
        if not known_format(path).named:
            raise TableError(
                f"{path} is LIBSVM text, which has no names to show; give a table with named "
                "columns."
            )
        super().__init__(path, settings)
        rows, self.target = self.rows, str(settings.target)
        self.codes = np.searchsorted(self.classes, rows.y)
        self.weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        self.degree = np.ones(len(rows.y)) if rows.degrees is None else rows.degrees
        self.index = np.asarray(rows.X.index)  # places of the rows in the file
        _ = self.numbers  # before the file may change
        self.columns = [column.name for column in rows.schema.columns if column.used]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def fingerprint(self) -> str:
        """Hash the file, target and sheet: the rows of a journal of version 1 are known by them."""
        names = [self.target, *([self.settings.sheet] if self.settings.sheet else [])]
        begun = partial(hashlib.sha256, "".join(f"{name}\0" for name in names).encode())
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, begun).hexdigest()

    @property
    def sheet(self) -> str | None:
        """Return the sheet that was read; None if the file has no sheets."""
        return getattr(self.table.file, "sheet", None)

    @cached_property
    def origins(self) -> Array:
        """Return the place in `columns` of the column that each column of `X` comes from."""
        place = {name: j for j, name in enumerate(self.columns)}
        longest = sorted(self.columns, key=len, reverse=True)  # "town = Rom" is of "town"
        return np.array([
            place[name] if name in place
            else next(place[column] for column in longest if name.startswith(f"{column} = "))
            for name in self.names
        ])  # fmt: skip

    def name_of(self, row: int) -> str:
        """Name a row: by the column that names rows, else by its number in the file."""
        names = self.rows.names
        given = "" if names is None else str(names[row])
        return given or self.number_of(row)

    def number_of(self, row: int) -> str:
        """Name a row by its number in the file."""
        return f"row {self.numbers[row]:,}"

    def find(self, text: str) -> Array:
        """Find the rows whose name holds a text, or whose number is it."""
        text = text.strip().lower()
        found = self.numbers.astype(str) == text.removeprefix("row ").replace(",", "")
        if self.rows.names is not None:
            found |= np.char.find(np.char.lower(self.rows.names.astype(str)), text) >= 0
        return np.flatnonzero(found)

    def cell(self, row: int, column: str) -> str:
        """Return a cell of the file, "" where it is missing; numbers have a decimal point."""
        value = self.table.cells.column(column)[int(self.index[row])].as_py()
        text = "" if value is None else str(value)
        if {*text} & {",", "."} and self.kinds[column] == "number" and self.table.decimal == ",":
            number = numbers(pa.array([text]), ",").values[0]  # as it was read
            return text if np.isnan(number) else f"{number:.15g}"
        return text

    def shown_values(self, j: int) -> Array:
        """Return a prepared column on the scale of the file, where that is one of numbers."""
        name = self.names[j]
        if name in self.columns and self.rows.X[name].dtype.kind in "iuf":
            values = self.rows.X[name].to_numpy(dtype=np.float64)
            return np.where(np.isnan(values), np.nanmedian(values), values)
        return np.asarray(self.X[:, j])

    def usual(self, column: str, rows: Array) -> str:
        """Describe what is usual in a column among some rows: the median or the most frequent."""
        value, kind = self.typical(column, rows), self.kinds[column]
        if value is None:
            return ""
        if kind == "boolean":
            return str(bool(value))
        return f"{value:.4g}" if kind in ("number", "code") else str(value)
