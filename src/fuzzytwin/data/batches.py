"""Rows of any source as batches: a matrix, labels, weights, degrees, and where they came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._passes import Labels
from fuzzytwin._utils.types import Array
from fuzzytwin.data.cells import is_number, is_text, pa
from fuzzytwin.data.dialect import ROW_NAMES
from fuzzytwin.data.files import index_columns, repeated
from fuzzytwin.data.schema import missing_column


@dataclass(frozen=True)
class Selection:
    """Which columns of a source to read, and in what form."""

    target: str | None = None
    weight: str | None = None
    degrees: str | tuple[str, ...] | None = None  # several: soft labels
    features: Any = None  # a tuple of names; None: all others that are numeric
    keep: tuple[str, ...] = ()  # to copy as they stand, never parsed
    labelled: bool = True  # whether the rows must have labels
    as_frame: bool = False  # X as a pandas DataFrame of the features, numeric or not, with gaps
    allow_missing: bool = False  # whether a feature that is not there counts as missing
    as_text: bool = False  # labels of LIBSVM files as text

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


@dataclass(frozen=True)
class Place:
    """Where a batch came from: a file or "batch 3", and the number of its first row there.

    Numbers count empty rows, if `file` is the table file that it came from.
    """

    source: str
    first: int = 1
    file: Any = None

    def number(self, index: Any) -> Any:
        """Return the numbers of rows of the batch."""
        number = index + self.first
        return number if self.file is None else self.file.numbers(number - self.file.first_row)

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
    y: Any  # Labels, an array, or None
    weight: Any
    degrees: Any
    place: Place
    names: tuple[str, ...] | None = None
    kept: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


class RowNumbers:
    """Numbers of the rows of several files: those of the first as they stand, others go on."""

    def __init__(self) -> None:
        self.last, self.offset, self.source = 0, 0, ""

    def of(self, batch: Batch) -> Array:
        """Return the numbers of the rows of the next batch."""
        numbers = np.asarray(batch.place.number(np.arange(len(batch))))
        if self.source not in ("", batch.place.source):
            self.offset = self.last + 1 - int(numbers[0])
        self.last, self.source = int(numbers[-1]) + self.offset, batch.place.source
        return numbers + self.offset


def as_table(frame: Any, source: str) -> Any | None:
    """Convert a frame, RecordBatch or mapping of columns to an Arrow table; None for others.

    Values of several types in a column become text.
    """
    kind = type(frame).__module__.partition(".")[0]
    if kind not in ("pyarrow", "pandas", "polars") and not isinstance(frame, Mapping):
        return None
    if kind == "pyarrow":
        return frame if isinstance(frame, pa.Table) else pa.Table.from_batches([frame])
    if kind == "polars":
        return frame.to_arrow()
    try:
        if kind != "pandas":
            return pa.table(dict(frame))
        refuse_repeated(list(frame.columns), source)
        columns = {str(name): _as_column(frame.iloc[:, j]) for j, name in enumerate(frame.columns)}
        return pa.table(columns)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"{source}: {error}; give columns of numbers.") from error


def _as_column(column: Any) -> Any:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        present = column.notna()
        return pa.array(column.astype(str).where(present, None), pa.string(), from_pandas=True)


def choose_features(
    fields: Any,
    selection: Selection,
    source: str,
    first: tuple[str, ...] | None = None,
    known: Collection[str] = (),
) -> tuple[tuple[str, ...], str | None]:
    """Find the features of a table, and write a warning if others are left out unasked.

    `first` are those of the first table, where this is a later one; `known` are the columns that a
    model knows.
    """
    if selection.labelled and selection.target is None:
        raise ValueError(
            f"{source} has named columns; say which one holds the labels: target=NAME."
        )
    given, others = selection.features or (), selection.others
    there = set(fields.names) - repeated(fields.names)
    for name in (*others, *given):
        if name not in there:
            needed = () if selection.labelled else given
            raise ValueError(missing_column(name, fields.names, source, needed, known))
    both = [name for name in given if name in others and name not in selection.keep]
    if both:
        raise ValueError(f"features holds {both[0]!r}, which is asked for as something else too.")
    if selection.features is not None:
        return selection.features, None
    refuse_repeated(fields.names, source)
    rest = {field.name: is_number(field.type) for field in fields if field.name not in others}
    rest = {name: number for name, number in rest.items() if name not in index_columns(fields)}
    chosen = tuple(name for name, number in rest.items() if number and name != ROW_NAMES)
    if not chosen:
        raise ValueError(
            f"{source} has no numeric column besides {', '.join(others)}; its columns are "
            f"{', '.join(fields.names)}."
        )
    if first is not None:
        check_same(chosen, first, source, fields)
        return first, None
    left = [repr(name) for name, number in rest.items() if not number]
    if not left:
        return chosen, None
    more = f" and {len(left) - 10} more" if len(left) > 10 else ""
    return chosen, (
        f"{source}: columns that are not numeric are left out: {', '.join(left[:10])}{more}. "
        "Fix them where they should be numbers; where this is as it should be, name the columns "
        "to take (in Python: features=[...])."
    )


def check_same(
    chosen: tuple[str, ...], first: tuple[str, ...], source: str, fields: Any = None
) -> None:
    """Refuse a table whose numeric columns are not those of the first one."""
    for name in first:
        if name in chosen:
            continue
        if fields is None or name not in fields.names:
            raise ValueError(missing_column(name, chosen, source))
        raise ValueError(_not_numeric(name, fields.field(name).type, source))
    for name in chosen:
        if name not in first:
            raise ValueError(
                f"{source}: numeric column {name!r} is missing from what was read before; name "
                "the columns to learn from: features=[...]."
            )


def from_table(
    table: Any, selection: Selection, features: tuple[str, ...], place: Place, raw: Any, frame: Any
) -> Batch:
    """Make a batch of a table; what is kept is of `raw`, features that were read are in `frame`."""
    kept = raw.select(list(selection.keep)) if selection.keep else None
    if selection.as_frame:
        if frame is None:  # columns as they are; gaps are NaN
            frame = table.select(list(features)).to_pandas()
            for name in features:
                if is_text(table.schema.field(name).type):
                    values = frame[name].astype(object)
                    frame[name] = values.where(values.notna(), np.nan)
        return Batch(frame, None, None, None, place, features, kept)
    table = table.unify_dictionaries().combine_chunks()  # one array is each column

    def numbers(name: str) -> Array:
        return _numbers(table.column(name).chunk(0), name, place)

    target, weight, degrees = selection.target, selection.weight, None
    if isinstance(selection.degrees, str):
        degrees = numbers(selection.degrees).astype(np.float64)
    elif selection.degrees is not None:
        degrees = np.column_stack([numbers(name) for name in selection.degrees]).astype(np.float64)
    return Batch(
        matrix([numbers(name) for name in features]),
        None if target is None else _labels(table.column(target).chunk(0), target, place),
        None if weight is None else numbers(weight).astype(np.float64),
        degrees,
        place,
        features,
        kept,
    )


def from_arrays(item: Any, place: Place, labelled: bool = True) -> Batch:
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


def matrix(columns: list[Array]) -> Array:
    """Columns side by side, as float32 where that holds them all.

    By way of a few rows at a time, which stay in cache: several times faster than column by
    column.
    """
    narrow = np.result_type(*columns) == np.float32
    n, d = len(columns[0]), len(columns)
    out = np.empty((n, d), np.float32 if narrow else np.float64)
    rows = min(max(65536 // d, 256), 4096)
    stage = np.empty((d, rows), out.dtype)
    for start in range(0, n, rows):
        m = min(rows, n - start)
        for j, column in enumerate(columns):
            stage[j, :m] = column[start : start + m]
        out[start : start + m] = stage[:, :m].T
    return out


def _numbers(column: Any, name: str, place: Place) -> Array:
    """Return a column of numbers; refuse missing ones."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_number(column.type):
        raise ValueError(_not_numeric(name, column.type, place.source))
    _no_gaps(column, name, place)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any, name: str, place: Place) -> Labels:
    """Return a column of labels: the sorted values and the index of each row's among them."""
    _no_gaps(column, name, place)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    inner = column.type.value_type
    if not (is_text(inner) or is_number(inner)) or pa.types.is_decimal(inner):
        raise ValueError(
            f"{place.source}: column {name!r} of labels is of type {inner}; give whole numbers or "
            "strings."
        )
    found = encoded_labels(column)
    if found.values.dtype.kind == "f" and not np.isfinite(found.values).all():
        row = int(np.argmin(np.isfinite(found.values)[found.codes]))
        raise ValueError(
            f"{place.row(row)}: column {name!r} of labels holds {found.values[found.codes[row]]}; "
            "leave out rows without a label."
        )
    return found


def encoded_labels(column: Any) -> Labels:
    """Return an Arrow array of a dictionary without gaps as labels."""
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
    return Labels(values[used], inverse.astype(narrow).take(index))


def _no_gaps(column: Any, name: str, place: Place) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"{place.row(row)}: column {name!r} has no value; fill the gaps or leave out such rows."
        )


def _not_numeric(name: str, kind: Any, source: str) -> str:
    return (
        f"{source}: column {name!r} is of type {kind}, not numeric; encode it as numbers "
        "first or leave it out."
    )


def refuse_repeated(names: Sequence[str], source: str) -> None:
    """Refuse several columns of one name."""
    for name in repeated(names):
        raise ValueError(
            f"{source} has the column {name!r} {list(names).count(name)} times; give each column a "
            "name of its own."
        )
