"""The table that is looked at: its rows as numbers for the model, and as text for people."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.explain.steps import readable_names
from fuzzytwin.sources import cells
from fuzzytwin.sources.formats import known_kind
from fuzzytwin.tables.columns import TableError, preparation
from fuzzytwin.tables.files import Table, read_table
from fuzzytwin.tables.rows import Rows, rows_of
from fuzzytwin.tables.settings import Settings
from fuzzytwin.tables.training import quiet


@dataclass(frozen=True)
class StudioTable:
    """Rows with a label, as numbers and as text.

    Parameters
    ----------
    path : str
        The file; it is never written.
    fingerprint : str
        Of the bytes of the file and the name of the target: the journal belongs to these.
    table : Table
        The file as it stands.
    rows : Rows
        Its labelled rows, as `fuzzytwin train` reads them.
    index : ndarray of shape (n,)
        The place of each labelled row among all rows of the file.
    settings : Settings
        The columns that were named.
    prepare : ColumnTransformer
        From the columns to numbers: fitted once, then fixed.
    X : ndarray of shape (n, d)
        The rows as numbers.
    names : list of str
        Names of the columns of `X`.
    origins : ndarray of shape (d,)
        For each column of `X`, the place in `columns` of the column it comes from.
    columns : list of str
        Columns of the file that are learned from.
    classes : ndarray of shape (K,)
        The labels, sorted.
    codes : ndarray of shape (n,)
        The given label of each row, as its place in `classes`.
    """

    path: str
    fingerprint: str
    table: Table
    rows: Rows
    index: Array
    settings: Settings
    prepare: Any
    X: Array
    names: list[str]
    origins: Array
    columns: list[str]
    classes: Array
    codes: Array

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def target(self) -> str:
        """Return the name of the column of labels."""
        return str(self.settings.target)

    @property
    def weight(self) -> Array:
        """Return the given weight of each row, 1 by default."""
        given = self.rows.weight
        return np.ones(len(self)) if given is None else given

    @property
    def degree(self) -> Array:
        """Return the given degree of each row, 1 by default."""
        given = self.rows.degrees
        return np.ones(len(self)) if given is None else given

    def name_of(self, row: int) -> str:
        """Name a row: by the column that names rows, else by its number in the file."""
        names = self.rows.names
        if names is not None and str(names[row]):
            return str(names[row])
        return f"row {self.index[row] + 1:,}"

    def cell(self, row: int, column: str) -> str:
        """Return a cell as it stands in the file; "" where it is missing."""
        value = self.table.cells.column(column)[int(self.index[row])].as_py()
        return "" if value is None else str(value)

    def shown_values(self, j: int) -> Array:
        """Return a prepared column on the scale of the file, where that is one of numbers."""
        name = self.names[j]
        if name in self.columns and self.rows.X[name].dtype.kind in "iuf":
            values = self.rows.X[name].to_numpy(dtype=np.float64)
            return np.where(np.isnan(values), np.nanmedian(values), values)
        return self.X[:, j]


def read_studio_table(path: str, settings: Settings) -> StudioTable:
    """Read a table for the studio.

    Parameters
    ----------
    path : str
        A CSV, TSV, Excel, Parquet or Feather file.
    settings : Settings
        With a target; weights, degrees, names of rows and kinds of columns as for training.
    """
    if known_kind(path) == "libsvm":
        raise TableError(
            f"{path} is LIBSVM text, which has no names to show; give a table with named columns."
        )
    if settings.target is None:
        raise TableError(f"which column of {path} holds the labels? Name it: --target NAME.")
    fingerprint = file_fingerprint(path, settings.target)
    table = read_table(path, settings.columns)
    rows = rows_of(table, settings)
    asked = table.cells.column(settings.target)
    labelled = cells.text(asked).is_valid().to_numpy(zero_copy_only=False)
    prepare = preparation(rows.schema.columns)
    with quiet():
        X = np.asarray(prepare.fit_transform(rows.X), dtype=np.float64)
    names = readable_names(Pipeline([("prepare", prepare), ("last", "passthrough")]))
    columns = [column.name for column in rows.schema.columns if column.used]
    classes, codes = np.unique(rows.y, return_inverse=True)
    return StudioTable(
        path=path, fingerprint=fingerprint, table=table, rows=rows,
        index=np.flatnonzero(labelled), settings=settings, prepare=prepare, X=X, names=names,
        origins=_origins(names, columns), columns=columns, classes=classes, codes=codes,
    )  # fmt: skip


def file_fingerprint(path: str | os.PathLike[str], target: str) -> str:
    """Compute a fingerprint of the bytes of a file and the column of labels."""
    digest = hashlib.sha256(target.encode() + b"\0")
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _origins(names: list[str], columns: list[str]) -> Array:
    """Find the column that each prepared column comes from: "town = Rom" is of "town"."""
    place = {name: j for j, name in enumerate(columns)}
    longest = sorted(columns, key=len, reverse=True)
    found = [
        place[name]
        if name in place
        else next(place[column] for column in longest if name.startswith(f"{column} = "))
        for name in names
    ]
    return np.array(found)
