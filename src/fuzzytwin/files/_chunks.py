"""Chunks of rows that somebody else makes: arrays, tuples of them, and functions that give these.

`Batch` and `Place` are also what a table gives, see `fuzzytwin.files._tables`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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
    degrees: str | tuple[str, ...] | None = None  # several: soft labels
    features: Any = None  # a tuple of names; None: all others
    keep: tuple[str, ...] = ()  # to copy as they stand, never parsed
    labelled: bool = True  # whether the rows must have labels

    def __post_init__(self) -> None:
        for parameter, name in (("target", self.target), ("sample_weight", self.weight)):
            check_name(parameter, name)
        object.__setattr__(self, "keep", tuple(dict.fromkeys(self.keep)))
        names = self.features
        if names is None:
            return
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"features={names!r} is not allowed; give a list of names of columns.")
        if not len(names) or len(set(names)) < len(names):
            raise ValueError(f"features={names!r} is not allowed; give each column once.")
        both = [name for name in names if name in self.others and name not in self.keep]
        if both:
            raise ValueError(
                f"features holds {both[0]!r}, which is asked for as something else too."
            )
        object.__setattr__(self, "features", tuple(names))

    @property
    def others(self) -> tuple[str, ...]:
        """Return the columns that are not features."""
        degrees = (self.degrees,) if isinstance(self.degrees, str) else self.degrees or ()
        named = (self.target, self.weight, *degrees, *self.keep)
        return tuple(dict.fromkeys(name for name in named if name is not None))


def check_name(parameter: str, value: Any) -> None:
    """Refuse what is not the name of a column."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{parameter}={value!r} is not allowed; give the name of a column.")


@dataclass(frozen=True, eq=False)
class Place:
    """Where a batch came from.

    Parameters
    ----------
    source : str
        A file, or "batch 3".
    number : callable
        Turns places of rows in the batch into the numbers that users see.
    offset : int
        What to add to these numbers, so that they go on from source to source.
    bad_cell : callable, default=None
        Describes the cell of a row and a feature that does not hold a finite number.
    """

    source: str
    number: Callable[[Any], Any] = lambda index: index + 1
    offset: int = 0
    bad_cell: Callable[[int, str], str] | None = None

    def row(self, index: int) -> str:
        """Name a row."""
        return f"{self.source}, row {self.number(int(index))}"

    def rows(self, count: int) -> str:
        """Name some rows."""
        return f"{self.source}, rows {self.number(0)} to {self.number(count - 1)}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that are read at once."""

    X: Any
    y: Any  # labels, indices into `labels`, or None
    weight: Any
    degrees: Any
    place: Place
    names: tuple[str, ...] | None = None
    kept: Any = None
    labels: Any = None  # sorted, if `y` are indices into these

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def numbers(self) -> Array:
        """Return the numbers of the rows in the whole source."""
        return np.asarray(self.place.number(np.arange(len(self)))) + self.place.offset

    def validated(self) -> Rows:
        """Return the rows as every fit takes them."""
        return validate_chunk(
            self.X, self.y, self.weight, self.degrees, labels=self.labels, names=self.names
        )


class Source(Protocol):
    """Rows that can be read in batches."""

    names: tuple[str, ...] | None  # of the columns of X
    from_files: bool
    repeatable: bool  # whether it can be read more than once
    has_degrees: bool
    n_rows: int | None  # if that is known

    def batches(self) -> Iterator[Batch]:
        """Read all rows; no batch is empty."""
        ...

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Refuse to write over a file that is read."""
        ...

    def warn(self) -> None:
        """Warn of columns that are left out without being asked for."""
        ...

    def warn_of_cells(self) -> None:
        """Warn of cells that are not plain, after a pass."""
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
        # The first pass goes on from the first batch.
        self.begun: Iterator[Batch] | None = chain([] if head is None else [head], batches)

    def batches(self) -> Iterator[Batch]:
        """Read all rows; no batch is empty."""
        batches = self.begun or self._read()
        self.begun = None
        for batch in batches:
            if (batch.degrees is None) == self.has_degrees:
                raise ValueError(
                    f"{batch.place.source} differs from the first batch in that it "
                    f"{'lacks' if self.has_degrees else 'has'} degrees; make all batches alike."
                )
            yield batch

    def _read(self) -> Iterator[Batch]:
        offset = 0
        for number, item in enumerate(self.items.read(), start=1):
            batch = array_batch(item, Place(f"batch {number}", offset=offset), self.labelled)
            if self.names is not None and batch.names not in (None, self.names):
                _check_order(batch, self.names)
            if len(batch):
                yield batch
            offset += len(batch)

    def check_output(self, out: str | os.PathLike[str]) -> None:
        """Refuse nothing: no file is read."""

    def warn(self) -> None:
        """Warn of nothing: all columns are taken."""

    def warn_of_cells(self) -> None:
        """Warn of nothing: arrays hold numbers."""


def _check_order(batch: Batch, names: tuple[str, ...]) -> None:
    """Refuse columns that are not those of the first batch, in their order."""
    source, there = batch.place.source, batch.names or ()
    for name in names:
        if name not in there:
            raise ValueError(missing_column(name, there, source))
    for name in there:
        if name not in names:
            raise ValueError(
                f"{source}: column {name!r} is missing from what was read before; give all batches "
                "the same columns."
            )
    raise ValueError(
        f"{source} has its columns in another order than the first batch; use the same order."
    )


def array_batch(item: Any, place: Place, labelled: bool = True) -> Batch:
    """Make a batch of (X, y), (X, y, weight), (X, y, weight, degrees), or X if not `labelled`."""
    if not labelled and not isinstance(item, (tuple, list)):
        item = (item, None)
    if not isinstance(item, (tuple, list)) or not 2 <= len(item) <= 4:
        raise TypeError(
            f"{place.source} is of type {type(item).__name__}; give batches as Arrow, pandas or "
            "polars frames, as mappings of columns, or as (X, y), (X, y, weight) or (X, y, weight, "
            "degrees)."
        )
    X, y, weight, degrees = (*item, None, None)[:4]
    names = getattr(X, "columns", None)
    names = tuple(names) if names is not None and all(isinstance(n, str) for n in names) else None
    if not sparse.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"{place.source}: X has {X.ndim} dimensions; give rows and columns.")
    y = None if y is None and not labelled else np.asarray(y)
    return Batch(X, y, weight, degrees, place, names)


def refuse_arrays(source: Any, labelled: bool) -> None:
    """Refuse arrays instead of batches of them, and say what to write."""
    first = source[0] if isinstance(source, tuple) and source else None
    is_array = isinstance(source, _ARRAYS)
    if not is_array and not (labelled and isinstance(first, _ARRAYS)):
        return
    remedy = "[(X, y)]" if labelled and is_array else "[source]"
    what = f"a {type(source).__name__}" + ("" if first is None else " of arrays")
    raise TypeError(
        f"source is {what}, which is one batch; give a list of batches, such as {remedy}, or call "
        f"{'fit' if labelled else 'predict'} if all rows are in memory."
    )
