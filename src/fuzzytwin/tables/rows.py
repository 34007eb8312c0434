"""Read the rows to learn from, and what is known about each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.tables import columns as _columns
from fuzzytwin.tables import files as _tables
from fuzzytwin.tables.columns import Column
from fuzzytwin.tables.files import TableError
from fuzzytwin.tables.settings import Settings


@dataclass(frozen=True)
class Rows:
    """Rows of a table: a frame or a sparse matrix, labels, and a value for each row."""

    X: Any
    y: Array
    columns: list[Column]
    weight: Array | None = None
    degrees: Array | None = None
    groups: Array | None = None
    names: Array | None = None  # of the column --id
    notes: list[str] = field(default_factory=list)


def read_rows(path: str, settings: Settings) -> Rows:
    """Read a whole file."""
    if _tables.check_file(path) == "libsvm":
        return _read_libsvm(path, settings)
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    frame = _tables.read_frame(path)
    for name in settings.drop:
        _columns.need_column(frame, name, "option --drop", path)
    return rows_of(frame, settings, path)


def rows_of(frame: Any, settings: Settings, path: str, first: int = 0) -> Rows:
    """Take the rows of a frame that have a label; `first` as in `fuzzytwin.tables.columns.look`."""
    target = str(settings.target)
    _columns.need_column(frame, target, "target", path)
    notes = []
    unlabelled = int(frame[target].isna().sum())
    if unlabelled == len(frame):
        where = f"each of the first {first:,} rows" if first else "every row"
        remedy = _columns.SORTED if first else "give labels"
        raise TableError(f"the target {target!r} is missing in {where}; {remedy}.")
    if unlabelled:
        notes.append(f"{unlabelled:,} rows without a label left out")
        frame = frame[frame[target].notna()]
    y = _columns.labels(frame[target], target, first)
    columns = _columns.look(frame, settings.columns, settings.drop, first)
    return Rows(
        X=_columns.chosen(frame, columns, path),
        y=y,
        columns=columns,
        weight=_columns.numbers(frame, settings.weight, "weights", path),
        degrees=_columns.numbers(frame, settings.degree, "degrees", path),
        groups=values_of(frame, settings.groups, "groups", path),
        names=values_of(frame, settings.id, "id", path, may_lack=True),
        notes=notes,
    )


def values_of(
    frame: Any, name: str | None, what: str, path: object, may_lack: bool = False
) -> Array | None:
    """Read a column as text: the groups or the names of rows."""
    if name is None:
        return None
    _columns.need_column(frame, name, what, path)
    missing = frame[name].isna().to_numpy()
    if missing.any() and not may_lack:
        raise TableError(
            f"column {name!r} of {path} has no value in row {int(missing.argmax()) + 1}; every row "
            f"needs one as {what}."
        )
    text = _tables.as_text(frame[name]).to_numpy(dtype=object)
    return np.where(missing, "", text).astype(str)


def _read_libsvm(path: str, settings: Settings) -> Rows:
    named = {
        "--target": settings.target, "--weight": settings.weight, "--degree": settings.degree,
        "--groups": settings.groups, "--id": settings.id,
    }  # fmt: skip
    for option, value in named.items():
        if value:
            raise TableError(f"{path} is LIBSVM text, which has no names; leave out {option}.")
    X, y = _tables.read_libsvm(path)
    if X.shape[1] > _columns.MOST_FEATURES:
        raise TableError(
            f"{path} has {X.shape[1]:,} features, more than {_columns.MOST_FEATURES:,}; choose "
            "some."
        )
    _columns.check_labels(y, "label")
    column = Column(f"{X.shape[1]} sparse features", "number", 0, 0, "scaled by their greatest")
    return Rows(X, y, [column])
