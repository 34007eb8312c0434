"""Rows of any source as batches: a matrix, labels, weights, degrees, and where they came from."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fuzzytwin.chunked.parts import Labels
from fuzzytwin.sources.cells import arrow, is_number, is_text
from fuzzytwin.sources.dialect import ROW_NAMES
from fuzzytwin.sources.schema import Schema

Array = NDArray[Any]


@dataclass(frozen=True)
class Wanted:
    """Which columns to read.

    Parameters
    ----------
    target, weight : str or None
        Columns of labels and of weights.
    degrees : str, tuple of str or None
        Column of degrees, or columns of soft labels.
    features : tuple of str or None
        Columns of X; None for all other numeric ones.
    keep : tuple of str
        Columns to pass on unchanged.
    labelled : bool
        Whether labels are wanted at all.
    frames : bool
        Whether X is wanted as a pandas DataFrame of these features, numeric or not, with gaps.
    verbatim : bool
        Whether columns to keep, and the labels of LIBSVM text, stay text where the file does not
        say what they hold.
    schema : Schema or None
        How files are to be read, where that was learned before. One with columns names the
        features, and X is wanted as a pandas DataFrame of them.
    """

    target: str | None = None
    weight: str | None = None
    degrees: str | tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    labelled: bool = True
    frames: bool = False
    verbatim: bool = False
    schema: Schema | None = None

    def others(self) -> tuple[str, ...]:
        """List the columns that are not features."""
        degrees = (self.degrees,) if isinstance(self.degrees, str) else self.degrees or ()
        named = (self.target, self.weight, *degrees, *self.keep)
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class Place:
    """Where a batch came from.

    Parameters
    ----------
    source : str
        A file, or "batch 3".
    unit : int
        The number of that file or batch, from 0.
    first : int
        How many of its rows came before.
    """

    source: str
    unit: int
    first: int = 0

    def row(self, index: int) -> str:
        """Name of a row, counted from 1, without a header."""
        return f"{self.source}, row {self.first + int(index) + 1}"

    def rows(self, count: int) -> str:
        """Name of some rows."""
        return f"{self.source}, rows {self.first + 1} to {self.first + count}"


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


def as_table(frame: Any, place: Place) -> Any | None:
    """Convert a frame, RecordBatch or mapping of columns to an Arrow table; None for others."""
    kind = type(frame).__module__.partition(".")[0]
    if kind not in ("pyarrow", "pandas", "polars") and not isinstance(frame, Mapping):
        return None
    pa = arrow()
    if kind == "pyarrow":
        return frame if isinstance(frame, pa.Table) else pa.Table.from_batches([frame])
    try:
        if kind == "polars":
            return frame.to_arrow()
        if kind == "pandas":
            _refuse_twins(list(frame.columns), place)
            return pa.Table.from_pandas(frame, preserve_index=False)
        return pa.table(dict(frame))
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"{place.source}: {error}; give columns of numbers.") from error


def choose_columns(schema: Any, wanted: Wanted, place: Place) -> tuple[str, ...]:
    """Names of the features in a table, all columns wanted being there."""
    if wanted.labelled and wanted.target is None:
        raise ValueError(
            f"{place.source} has named columns; say which one holds the labels: target=NAME."
        )
    given, others = wanted.features or (), set(wanted.others())
    there = set(schema.names) - twins(schema.names)
    for name in (*wanted.others(), *given):
        if name not in there:
            raise ValueError(missing_column(name, schema.names, place))
    both = [name for name in given if name in others and name not in wanted.keep]
    if both:
        raise ValueError(f"features holds {both[0]!r}, which is asked for as something else too.")
    for name in given if not wanted.frames else ():
        if not is_number(schema.field(name).type):
            raise ValueError(_not_numeric(name, schema.field(name).type, place))
    if wanted.features is not None:
        return wanted.features
    _refuse_twins(schema.names, place)
    rest = [field for field in schema if field.name not in others | {ROW_NAMES}]
    chosen = tuple(field.name for field in rest if is_number(field.type))
    if not chosen:
        raise ValueError(
            f"{place.source} has no numeric column besides {', '.join(wanted.others())}; its "
            f"columns are {', '.join(schema.names)}."
        )
    return chosen


def left_out(schema: Any, wanted: Wanted, place: Place) -> str | None:
    """Write a warning of columns that are left out because they are not numeric."""
    if wanted.features is not None:
        return None
    others = set(wanted.others())
    rest = [field for field in schema if field.name not in others]
    names = [repr(field.name) for field in rest if not is_number(field.type)]
    if not names:
        return None
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (
        f"{place.source}: columns that are not numeric are left out: {', '.join(names[:10])}{more}."
        " Fix them where they should be numbers; name the columns to take, features=[...], where "
        "this is as it should be."
    )


def check_same(
    chosen: tuple[str, ...], first: tuple[str, ...], place: Place, schema: Any = None
) -> None:
    """Refuse a table whose numeric columns are not those of the first one."""
    for name in first:
        if name in chosen:
            continue
        if schema is None or name not in schema.names:
            raise ValueError(missing_column(name, chosen, place))
        raise ValueError(_not_numeric(name, schema.field(name).type, place))
    for name in chosen:
        if name not in first:
            raise ValueError(
                f"{place.source}: numeric column {name!r} is missing from what was read before; "
                "name the columns to learn from: features=[...]."
            )


def from_table(table: Any, wanted: Wanted, features: tuple[str, ...], place: Place) -> Batch:
    """Columns of an Arrow table as a batch."""

    def one(name: str) -> Array:
        return _numbers(table.column(name), name, place).astype(np.float64)

    degrees: Any = None
    if isinstance(wanted.degrees, str):
        degrees = one(wanted.degrees)
    elif wanted.degrees is not None:
        degrees = np.column_stack([one(name) for name in wanted.degrees])
    target = wanted.target
    if wanted.frames:
        rows, kept = _frame(table, features), kept_columns(table, wanted)
        return Batch(rows, None, None, None, place, features, kept)
    return Batch(
        _matrix([_numbers(table.column(name), name, place) for name in features]),
        None if target is None else _labels(table.column(target), target, place),
        None if wanted.weight is None else one(wanted.weight),
        degrees,
        place,
        features,
        kept_columns(table, wanted),
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
    columns = getattr(X, "columns", None)
    names = None
    if columns is not None and all(isinstance(name, str) for name in columns):
        names = tuple(columns)
    if not sparse.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"{place.source}: X has {X.ndim} dimensions; give rows and columns.")
    if not labelled:
        return Batch(X, None, None, None, place, names)
    return Batch(X, np.asarray(y), weight, degrees, place, names)


def kept_columns(table: Any, wanted: Wanted) -> Any:
    """Select the columns to pass on."""
    if not wanted.keep:
        return None
    return table.select(list(wanted.keep))


def _frame(table: Any, features: tuple[str, ...]) -> Any:
    """Columns as they are, in a pandas DataFrame; gaps are NaN."""
    frame = table.select(list(features)).to_pandas()
    for name in features:
        if is_text(table.schema.field(name).type):
            values = frame[name].astype(object)
            frame[name] = values.where(values.notna(), np.nan)
    return frame


def _matrix(columns: list[Array]) -> Array:
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
    pa = arrow()
    column = _whole(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_number(column.type):
        raise ValueError(_not_numeric(name, column.type, place))
    _no_gaps(column, name, place)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any, name: str, place: Place) -> Labels:
    """Return a column of labels: the sorted values and the index of each row's among them."""
    pa = arrow()
    column = _whole(column)
    _no_gaps(column, name, place)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    inner = column.type.value_type
    text = is_text(inner)
    if not (text or is_number(inner)) or pa.types.is_decimal(inner):
        raise ValueError(
            f"{place.source}: column {name!r} of labels is of type {inner}; give whole numbers or "
            "strings."
        )
    if text:
        values = np.array(column.dictionary.to_pylist(), dtype=str)
    else:
        values = np.asarray(column.dictionary.to_numpy(zero_copy_only=False))
    index = np.asarray(column.indices.to_numpy(zero_copy_only=False))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = np.flatnonzero(~np.isfinite(values)[index])[:1]
        if len(row):
            raise ValueError(
                f"{place.row(row[0])}: column {name!r} of labels holds {values[index[row[0]]]}; "
                "leave out rows without a label."
            )
    values, inverse = np.unique(values, return_inverse=True)
    # A dictionary may hold values that no row has.
    used = np.bincount(inverse.take(index), minlength=len(values)) > 0
    inverse = (np.cumsum(used) - 1)[inverse]
    narrow = np.min_scalar_type(max(len(values), 1))
    return Labels(values[used], inverse.astype(narrow).take(index))


def _whole(column: Any) -> Any:
    """Return a chunked column as one array."""
    if not hasattr(column, "combine_chunks"):
        return column
    column = column.unify_dictionaries()
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole if not hasattr(whole, "num_chunks") else whole.chunk(0)


def _no_gaps(column: Any, name: str, place: Place) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"{place.row(row)}: column {name!r} has no value; fill the gaps or leave out such rows."
        )


def _not_numeric(name: str, kind: Any, place: Place) -> str:
    return (
        f"{place.source}: column {name!r} is of type {kind}, not numeric; encode it as numbers "
        "first or leave it out."
    )


def twins(names: Sequence[str]) -> set[str]:
    """Names that stand more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def _refuse_twins(names: list[str], place: Place) -> None:
    """Refuse several columns of one name."""
    (name, count), *_ = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        raise ValueError(
            f"{place.source} has the column {name!r} {count} times; give each column a name of its "
            "own."
        )


def missing_column(
    name: str, names: Sequence[str], place: Place, needed: Sequence[str] = ()
) -> str:
    """Say that a column is not there, or twice, or that many of those needed are not."""
    lost = [one for one in needed if one not in names]
    if len(lost) > 1:
        more = f" and {len(lost) - 6:,} more" if len(lost) > 6 else ""
        return (
            f"{place.source} lacks {len(lost):,} columns that the model needs: "
            f"{', '.join(map(repr, lost[:6]))}{more}."
        )
    lower = {str(other).lower(): str(other) for other in names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    hint = f"; did you mean {lower[near[0]]!r}?" if near else "."
    known = list(map(str, names))
    if len(known) > 12:
        known = [*known[:6], "...", *known[-3:]]
    what = f"has column {name!r} twice" if names.count(name) > 1 else f"has no column {name!r}"
    return f"{place.source} {what}{hint} Its columns are {', '.join(known)}."
