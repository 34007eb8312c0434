"""The table under review: an `Experiment`, and its rows as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.experiment._experiment import MAJORITY, Experiment
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.tables import TableError
from fuzzytwin.tables._batch import TableBatch
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._parse import decoded, is_text, numbers, pa
from fuzzytwin.tables._reader import rows_read_whole

MAX_SAMPLED = 20_000  # rows of a table that is not read whole
LONG_TEXT = 20  # characters on average of a column that is shown whole
SAMPLED_CELLS = 1000


class StudioTable(Experiment):
    """Rows with a label, as numbers for the model and as text for people. The file is not changed.

    Rows have the numbers and the label quality that `fuzzytwin label-issues` shows. If the file
    holds more than 256 MiB of numbers, or `sample` is a number, a random sample is read, and
    `sample_note` says so. `show` names columns that are shown in full, by default text that is not
    a feature.
    """

    sampled = False  # whether some rows of the file were not read
    sample_note = ""

    def __init__(
        self,
        path: str,
        settings: Settings,
        sample: int | None = None,
        show: Sequence[str] = (),
    ) -> None:
        self.sample = sample
        super().__init__(path, settings, stream=False)
        rows = self.rows
        self.target = settings.target or MAJORITY
        self.codes = np.searchsorted(self.classes, rows.y)
        if settings.target is None and settings.votes:
            self.codes = self.label_issues.codes  # of tied labels, the more probable one
        self.weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        self.index = np.asarray(rows.X.index)  # places of the rows in the cells that were read
        _ = self.numbers  # before the file may change
        self.columns = [column.name for column in rows.schema.columns if column.used]
        for name in show:
            if name not in self.reader.names:
                raise TableError(f"{missing_column(name, self.reader.names, path)} (--show)")
        self.shown = list(dict.fromkeys(show)) or self._long_text()

    def _read_table(self) -> TableBatch:
        rows = self.sample
        what = ""
        if rows is None:
            table = self.reader.sample()
            if table.complete:
                return table
            rows = min(MAX_SAMPLED, rows_read_whole(len(self.reader.names)))
            what = f"{self.path} holds more than 256 MiB of numbers: "
        n_rows = self.reader.estimate_rows()
        if rows >= n_rows:
            return self.reader.read()
        table = self.reader.draw(rows)
        self.sampled = True
        drawn = table.cells.num_rows
        self.sample_note = f"{what}a random sample of {drawn:,} of about {n_rows:,} rows is open"
        return table

    @property
    def studio_notes(self) -> list[str]:
        """Return the notes to show: those of the sample and the votes, then those of the table."""
        return [*filter(None, (self.sample_note, self.vote_note)), *self.notes]

    @property
    def vote_note(self) -> str:
        """Describe votes that are not counted."""
        if not self.settings.votes:
            return ""
        votes = self.votes.iloc[self.index]
        ignored = votes.notna() & self.votes_of_rows().isna().set_axis(self.index)
        if not (number := int(ignored.to_numpy().sum())):
            return ""
        labels = sorted({str(label) for label in votes.to_numpy()[ignored.to_numpy()]})
        return (
            f"{count(number, 'vote')} for a label that no row has ({', '.join(labels[:5])}) "
            f"{'is' if number == 1 else 'are'} not counted"
        )

    def votes_of_rows(self) -> Any:
        """Return the votes on the rows; those for a label that no row has are none."""
        votes = super().votes_of_rows()
        labels = {str(label) for label in self.classes.tolist()}
        return votes.where(votes.map(lambda label: str(label) in labels), None)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def sheet(self) -> str | None:
        """Return the sheet that was read; None if the file has no sheets."""
        return getattr(self.reader, "sheet_name", None)

    def _long_text(self) -> list[str]:
        """Return the text columns that are not features: what was labelled, and comments."""
        named = {self.target, self.rows.id, *self.settings.columns}
        if self.settings.votes:
            named |= set(self.votes.columns)
        features = set(self.columns)
        names = []
        for field in self.table.cells.schema:
            if field.name in named or field.name in features or not is_text(field.type):
                continue
            words = decoded(self.table.cells.column(field.name).slice(0, SAMPLED_CELLS)).to_pylist()
            lengths = [len(word) for word in words if word is not None]
            if lengths and np.mean(lengths) >= LONG_TEXT:
                names.append(field.name)
        return names

    @cached_property
    def in_file(self) -> set[str]:
        """Return the columns of the file: numbers of a list, such as an embedding, are none."""
        return set(self.table.cells.schema.names)

    @cached_property
    def means(self) -> Array:
        """Return the mean row, as numbers."""
        return np.asarray(self.scaled_X.mean(axis=0), dtype=np.float64)

    @cached_property
    def components(self) -> Array:
        """Return the first two principal components of the rows, of shape (n, 2)."""
        X = self.scaled_X
        values = PCA(n_components=min(2, *X.shape), random_state=0).fit_transform(X)
        return np.pad(values, ((0, 0), (0, 2 - values.shape[1])))

    @cached_property
    def origins(self) -> Array:
        """Return the place in `columns` of the column that each column of `X` comes from."""
        place = {name: j for j, name in enumerate(self.columns)}
        longest = sorted(self.columns, key=len, reverse=True)  # "town = Rome" is of "town"
        places = []
        for name in self.names:
            column = name
            if name not in place:
                column = next(c for c in longest if name.startswith(f"{c} = "))
            places.append(place[column])
        return np.array(places)

    def name_of(self, row: int) -> str:
        """Name a row: by the column that names rows, else by its number in the file."""
        names = self.rows.ids
        name = "" if names is None else str(names[row])
        return name or self.number_of(row)

    def number_of(self, row: int) -> str:
        """Name a row by its number in the file."""
        return f"row {self.numbers[row]:,}"

    def find(self, text: str) -> Array:
        """Find the rows whose name holds a text, or whose number is it."""
        text = text.strip().lower()
        matches = self.numbers.astype(str) == text.removeprefix("row ").replace(",", "")
        if self.rows.ids is not None:
            matches |= np.char.find(np.char.lower(self.rows.ids.astype(str)), text) >= 0
        return np.flatnonzero(matches)

    def raw(self, row: int, column: str) -> Any:
        """Return a cell as the file holds it, or a number of a list such as an embedding."""
        cells = self.table.cells if column in self.in_file else self.table.flat
        return cells.column(column)[int(self.index[row])].as_py()

    def cell(self, row: int, column: str) -> str:
        """Return a cell as text, "" if it is missing; numbers have four significant digits."""
        value = self.raw(row, column)
        if value is None:
            return ""
        if self.kinds.get(column) == "number":
            if isinstance(value, str):
                value = numbers(pa.array([value]), self.table.decimal).values[0]  # as it was read
                return str(self.raw(row, column)) if np.isnan(value) else few_digits(value)
            if isinstance(value, (int, float)):
                return few_digits(value)
        return str(value)

    def typical_text(self, column: str, rows: Array) -> str:
        """Describe what is typical of a column in these rows: the median or the most frequent."""
        value = self.typical(column, rows)
        kind = self.kinds[column]
        if value is None:
            return ""
        if kind == "boolean":
            return str(bool(value))
        return few_digits(value) if kind == "number" else str(value)


def few_digits(value: float) -> str:
    """Write a number with four significant digits, or without decimals if it is whole or large."""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"
