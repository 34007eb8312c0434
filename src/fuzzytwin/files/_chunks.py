"""Chunks of rows that the caller supplies as arrays or tuples of arrays.

Tables, see `fuzzytwin.files._tables`, have the same `Batch` and `Location`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from fuzzytwin._rows import Rows, validate_chunk
from fuzzytwin._utils.types import Array
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._reader import Items

_ARRAYS = (np.ndarray, sparse.sparray, sparse.spmatrix)


@dataclass(frozen=True)
class Selection:
    """Which columns of a source to read."""

    target: str | None = None
    weight: str | None = None
    degrees: str | tuple[str, ...] | None = None  # a tuple of columns holds soft labels
    features: Any = None  # a tuple of names, None for all others
    keep: tuple[str, ...] = ()  # to copy unchanged, never parsed
    labelled: bool = True  # whether the rows must have labels
    drop: Sequence[str] = ()  # to leave out
    numeric: Sequence[str] = ()  # to take as numbers
    category: Sequence[str] = ()  # to take as categories

    def __post_init__(self) -> None:
        for parameter, name in (("target", self.target), ("sample_weight", self.weight)):
            check_name(parameter, name)
        for parameter in ("drop", "numeric", "category"):
            columns = getattr(self, parameter)
            if isinstance(columns, str):
                raise TypeError(f"{parameter}={columns!r} is a string; give a list: [{columns!r}].")
            object.__setattr__(self, parameter, tuple(columns))
        object.__setattr__(self, "keep", tuple(dict.fromkeys(self.keep)))
        names = self.features
        if names is None:
            return
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"features={names!r} is not allowed; give a list of column names.")
        if not len(names) or len(set(names)) < len(names):
            raise ValueError(f"features={names!r} is not allowed; give each column once.")
        clashes = [name for name in names if name in self.others and name not in self.keep]
        if clashes:
            raise ValueError(
                f"features holds {clashes[0]!r}, which is also the target, a weight or a "
                "membership; give it only once."
            )
        object.__setattr__(self, "features", tuple(names))

    @property
    def others(self) -> tuple[str, ...]:
        """Return the columns that are not features."""
        degrees = (self.degrees,) if isinstance(self.degrees, str) else self.degrees or ()
        named = (self.target, self.weight, *degrees, *self.keep)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def choices(self) -> dict[str, Sequence[str]]:
        """Return the columns whose use the user decided, by parameter."""
        return {"drop": self.drop, "numeric": self.numeric, "category": self.category}


def check_name(parameter: str, value: Any) -> None:
    """Raise a TypeError if a parameter is neither the name of a column nor None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{parameter}={value!r} is not allowed; give the name of a column.")


@dataclass(frozen=True, eq=False)
class Location:
    """Where the rows of a batch come from.

    Parameters
    ----------
    source : str
        A file, or "batch 3".
    number : callable
        Turns positions of rows in the batch into the numbers that users see.
    offset : int
        What to add to row numbers to continue those of earlier sources.
    bad_cell : callable, default=None
        Returns the message about a cell, of a row and a feature, that is not a finite number.
    """

    source: str
    number: Callable[[Any], Any] = lambda index: index + 1
    offset: int = 0
    bad_cell: Callable[[int, str], str] | None = None

    def row(self, index: int) -> str:
        """Return the name of a row in messages."""
        return f"{self.source}, row {self.number(int(index))}"

    def rows(self, count: int) -> str:
        """Return the name of the first `count` rows in messages."""
        return f"{self.source}, rows {self.number(0)} to {self.number(count - 1)}"


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of rows."""

    X: Any
    y: Any  # labels, indices into `labels`, or None
    weight: Any
    degrees: Any
    location: Location
    names: tuple[str, ...] | None = None
    kept: Any = None
    labels: Any = None  # sorted, if `y` are indices into these

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def numbers(self) -> Array:
        """Return the numbers of the rows in the source."""
        return np.asarray(self.location.number(np.arange(len(self)))) + self.location.offset

    def validated(self) -> Rows:
        """Return the validated rows, which every fit takes."""
        return validate_chunk(
            self.X, self.y, self.weight, self.degrees, labels=self.labels, names=self.names
        )


class Source(Protocol):
    """Rows that can be read in batches."""

    names: tuple[str, ...] | None  # of the columns of X
    from_files: bool
    repeatable: bool  # whether it can be read more than once
    has_degrees: bool
    n_rows: int | None  # None if the rows must be read to count them

    def batches(self) -> Iterator[Batch]:
        """Read all rows. No batch is empty."""
        ...

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Raise a ValueError if writing to `out` would overwrite a file of this source."""
        ...

    def warn(self) -> None:
        """Warn about columns that are left out although the user did not drop them."""
        ...

    def warn_of_cells(self) -> None:
        """Warn about unusual cells, after a pass."""
        ...


class ArrayChunks:
    """Arrays of rows, or tuples (X, y), (X, y, weight) and (X, y, weight, degrees), as a source.

    Parameters
    ----------
    items : Items
        The arrays or tuples.
    labelled : bool, default=True
        Whether the rows must have labels.
    """

    names: tuple[str, ...] | None = None
    from_files = False
    has_degrees = False
    n_rows: int | None = None

    def __init__(self, items: Items, labelled: bool = True) -> None:
        self.items = items
        self.labelled = labelled
        self.repeatable = items.repeatable
        batches = self._read()
        head = next(batches, None)
        if head is not None:
            self.names = head.names
            self.has_degrees = head.degrees is not None
        # The first pass begins with the batch that has been read.
        self.first_pass: Iterator[Batch] | None = chain([] if head is None else [head], batches)

    def batches(self) -> Iterator[Batch]:
        """Read all rows. No batch is empty."""
        batches = self.first_pass or self._read()
        self.first_pass = None
        for batch in batches:
            if (batch.degrees is None) == self.has_degrees:
                difference = "lacks" if self.has_degrees else "has"
                raise ValueError(
                    f"{batch.location.source} {difference} degrees, unlike the first batch; give "
                    "degrees in all batches or in none."
                )
            yield batch

    def _read(self) -> Iterator[Batch]:
        offset = 0
        for number, item in enumerate(self.items.read(), start=1):
            batch = array_batch(item, Location(f"batch {number}", offset=offset), self.labelled)
            if self.names is not None and batch.names not in (None, self.names):
                _check_order(batch, self.names)
            if len(batch):
                yield batch
            offset += len(batch)

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Do nothing: no file is read."""

    def warn(self) -> None:
        """Do nothing: no column is left out."""

    def warn_of_cells(self) -> None:
        """Do nothing: arrays hold numbers."""


def _check_order(batch: Batch, first_names: tuple[str, ...]) -> None:
    """Raise a ValueError that says how the columns of a batch differ from those of the first."""
    source = batch.location.source
    names = batch.names or ()
    for name in first_names:
        if name not in names:
            raise ValueError(missing_column(name, names, source))
    for name in names:
        if name not in first_names:
            raise ValueError(
                f"{source} has a column {name!r}, which earlier batches lack; give all batches the "
                "same columns."
            )
    raise ValueError(
        f"{source} has the columns of the first batch in another order; use the same order."
    )


def array_batch(item: Any, location: Location, labelled: bool = True) -> Batch:
    """Return (X, y), (X, y, weight) or (X, y, weight, degrees) as a batch, or X if unlabelled."""
    if not labelled and not isinstance(item, (tuple, list)):
        item = (item, None)
    if not isinstance(item, (tuple, list)) or not 2 <= len(item) <= 4:
        raise TypeError(
            f"{location.source} is of type {type(item).__name__}; give batches as Arrow, pandas or "
            "polars frames, as mappings of columns, or as (X, y), (X, y, weight) or (X, y, weight, "
            "degrees)."
        )
    X, y, weight, degrees = (*item, None, None)[:4]
    names = getattr(X, "columns", None)
    names = tuple(names) if names is not None and all(isinstance(n, str) for n in names) else None
    if not sparse.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"{location.source}: X has {X.ndim} dimensions; give rows and columns.")
    y = None if y is None and not labelled else np.asarray(y)
    return Batch(X, y, weight, degrees, location, names)


def check_not_arrays(source: Any, labelled: bool) -> None:
    """Raise a TypeError if a source is a single batch of arrays instead of several."""
    first = source[0] if isinstance(source, tuple) and source else None
    is_array = isinstance(source, _ARRAYS)
    if not is_array and not (labelled and isinstance(first, _ARRAYS)):
        return
    remedy = "[(X, y)]" if labelled and is_array else "[source]"
    kind = f"a {type(source).__name__}" + ("" if first is None else " of arrays")
    method = "fit" if labelled else "predict"
    raise TypeError(
        f"source is {kind}, which is a single batch; give a list of batches, such as {remedy}, or "
        f"call the method {method} if all rows are in memory."
    )
