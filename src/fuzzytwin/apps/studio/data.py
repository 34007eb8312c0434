"""The table that is looked at: a `Study`, and its rows as text for people."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.study import MAJORITY, Study
from fuzzytwin.apps.table_rows import Settings
from fuzzytwin.core.solvers import NotEnoughMemoryError
from fuzzytwin.data.cells import numbers, pa
from fuzzytwin.data.columns import TableError
from fuzzytwin.data.files import Need, Table, known_format, memory_need, read_sample
from fuzzytwin.doubts import DoubtsReport

MOST_SAMPLED = 20_000  # rows of a table that is too large for memory
FEWEST_SAMPLED = 500
SAMPLE_MEMORY = 0.4  # of what is available


class StudioTable(Study):
    """Rows with a label, as numbers for the model and as text for people; the file stays as it is.

    Rows have the numbers and the doubts that `fuzzytwin doubts` shows. Of a file that memory does
    not suffice for, or if `sample` is a number, about so many rows are read: `sample_note` says so.
    """

    sampled = False  # whether some rows of the file were not read
    sample_note = ""

    def __init__(self, path: str, settings: Settings, sample: int | None = None) -> None:
        self.sample = sample
        if not known_format(path).named:
            raise TableError(
                f"{path} is LIBSVM text, which has no names to show; give a table with named "
                "columns."
            )
        super().__init__(path, settings)
        rows, self.target = self.rows, settings.target or MAJORITY
        self.codes = np.searchsorted(self.classes, rows.y)
        self.weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        self.degree = np.ones(len(rows.y)) if rows.degrees is None else rows.degrees
        self.index = np.asarray(rows.X.index)  # places of the rows in the cells that were read
        _ = self.numbers  # before the file may change
        self.columns = [column.name for column in rows.schema.columns if column.used]

    def _read_table(self) -> Table:
        path, settings = self.path, self.settings
        need = memory_need(path, settings.columns, settings.sheet)
        rows = self.sample
        if rows is None and need.too_much:
            rows = self._rows_that_fit(need)
        if rows is None or rows >= need.rows:
            return super()._read_table()
        table = read_sample(path, rows, settings.columns, settings.sheet)
        self.sampled = True
        what = f"a random sample of {table.cells.num_rows:,} of about {need.rows:,} rows is open"
        self.sample_note = what if self.sample is not None else f"{need}: {what}"
        return table

    def _rows_that_fit(self, need: Need) -> int:
        """Return how many rows to open of a table that is too large."""
        rows = min(int(SAMPLE_MEMORY * need.available / need.bytes_of_row), MOST_SAMPLED)
        if rows < FEWEST_SAMPLED:
            raise NotEnoughMemoryError(
                f"{need}, which is too little for a sample; give a file of fewer columns, free "
                "some memory, or say how many rows to open: --sample ROWS."
            )
        return rows

    @property
    def studio_notes(self) -> list[str]:
        """Return what a user should know before looking at rows."""
        return [note for note in (self.sample_note, self.vote_note, self.looks_like_votes) if note]

    @property
    def vote_note(self) -> str:
        """Say which votes do not count."""
        if not self.settings.votes:
            return ""
        votes = self.votes.iloc[self.index]
        lost = votes.notna() & self.votes_of_rows().isna().set_axis(self.index)
        if not (number := int(lost.to_numpy().sum())):
            return ""
        labels = sorted({str(label) for label in votes.to_numpy()[lost.to_numpy()]})
        return (
            f"{count(number, 'vote')} for a label that no row has ({', '.join(labels[:5])}) "
            f"{'is' if number == 1 else 'are'} not counted"
        )

    def votes_of_rows(self) -> Any:
        """Return the votes on the rows; those for a label that no row has are none."""
        votes, known = super().votes_of_rows(), set(map(str, self.classes.tolist()))
        return votes.where(votes.map(lambda label: str(label) in known), None)

    def votes_on(self, row: int) -> list[tuple[str, str]]:
        """Return who gave a row which label."""
        if not self.settings.votes:
            return []
        labels = self.votes.iloc[int(self.index[row])]
        return [(str(name), str(label)) for name, label in labels.items() if label is not None]

    @cached_property
    def doubts(self) -> DoubtsReport:
        """Find the doubtful labels; of votes without a target, the labels are those of the rows."""
        found: DoubtsReport = super().doubts
        if self.settings.target is not None or not self.settings.votes:
            return found
        found = replace(found, codes=self.codes)  # ties of votes may be broken otherwise
        low, high = found.interval
        return replace(found, interval=(min(low, found.n_wrong), max(high, found.n_wrong)))

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
