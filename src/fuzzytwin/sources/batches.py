"""Rows of any source as batches: a matrix, labels, weights, degrees, and where they came from."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fuzzytwin._utils.extras import need
from fuzzytwin.chunked.parts import Labels

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
        Columns to hand on untouched.
    labelled : bool
        Whether labels are wanted at all.
    frames : bool
        Whether X is wanted as a pandas DataFrame of these features, numeric or not, with gaps.
    """

    target: str | None = None
    weight: str | None = None
    degrees: str | tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    labelled: bool = True
    frames: bool = False

    def others(self) -> tuple[str, ...]:
        """Columns beside the features."""
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
    """Rows that are met at once."""

    X: Any
    y: Any  # Labels, an array, or None
    weight: Any
    degrees: Any
    place: Place
    names: tuple[str, ...] | None = None
    kept: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


def arrow() -> Any:
    """Import pyarrow, or say how to install it."""
    need("pyarrow.compute", "files", "a file")
    return need("pyarrow", "files", "a file")


def as_table(frame: Any, place: Place) -> Any | None:
    """A frame, RecordBatch or mapping of columns as an Arrow table; None for something else."""
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


def choose_columns(
    schema: Any, wanted: Wanted, place: Place, *, sure: bool = True
) -> tuple[str, ...]:
    """Names of the features in a table, all columns wanted being there.

    Where types are guesses, not `sure`, reading finds out what is not numeric.
    """
    if wanted.labelled and wanted.target is None:
        raise ValueError(
            f"{place.source} has named columns; say which one holds the labels: target=NAME."
        )
    given = wanted.features or ()
    for name in (*wanted.others(), *given):
        if schema.names.count(name) != 1:
            raise ValueError(_missing(name, schema.names, place))
    both = [name for name in given if name in wanted.others() and name not in wanted.keep]
    if both:
        raise ValueError(f"features holds {both[0]!r}, which is asked for as something else too.")
    for name in given if sure and not wanted.frames else ():
        if not numeric(schema.field(name).type):
            raise ValueError(_not_numeric(name, schema.field(name).type, place))
    if wanted.features is not None:
        return wanted.features
    _refuse_twins(schema.names, place)
    rest = [field for field in schema if field.name not in wanted.others()]
    for field in rest:
        if str(field.type) == "null":
            raise ValueError(
                f"{place.source}: column {field.name!r} is empty as far as its type was looked "
                "for; name the columns to learn from: features=[...]."
            )
    chosen = tuple(field.name for field in rest if numeric(field.type))
    if not chosen:
        raise ValueError(
            f"{place.source} has no numeric column beside {', '.join(wanted.others())}; its "
            f"columns are {', '.join(schema.names)}."
        )
    return chosen


def left_out(schema: Any, wanted: Wanted, place: Place) -> str | None:
    """A warning of columns that nobody named and that are left out, as they are not numeric."""
    if wanted.features is not None:
        return None
    rest = [field for field in schema if field.name not in wanted.others()]
    names = [repr(field.name) for field in rest if not numeric(field.type)]
    if not names:
        return None
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (
        f"{place.source}: columns that are not numeric are left out: {', '.join(names[:10])}{more}."
        " Mend them where they should be numbers; name the columns to take, features=[...], where "
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
            raise ValueError(_missing(name, chosen, place))
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
        rows, kept = _frame(table, features), _kept(table, wanted)
        return Batch(rows, None, None, None, place, features, kept)
    return Batch(
        _matrix([_numbers(table.column(name), name, place) for name in features]),
        None if target is None else _labels(table.column(target), target, place),
        None if wanted.weight is None else one(wanted.weight),
        degrees,
        place,
        features,
        _kept(table, wanted),
    )


def from_arrays(item: Any, place: Place, labelled: bool = True) -> Batch:
    """A batch of (X, y), (X, y, weight) or (X, y, weight, degrees); or of X where that will do."""
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


def _kept(table: Any, wanted: Wanted) -> Any:
    return table.select(list(wanted.keep)) if wanted.keep else None


def _frame(table: Any, features: tuple[str, ...]) -> Any:
    """Columns as they are, in a pandas DataFrame; gaps are NaN."""
    frame = table.select(list(features)).to_pandas()
    for name in features:
        if _is_text(table.schema.field(name).type):
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
    """A column of numbers without gaps."""
    pa = arrow()
    column = _whole(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not numeric(column.type):
        raise ValueError(_not_numeric(name, column.type, place))
    _no_gaps(column, name, place)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any, name: str, place: Place) -> Labels:
    """A column of labels: the sorted values and the place of each row's among them."""
    pa = arrow()
    column = _whole(column)
    _no_gaps(column, name, place)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    inner = column.type.value_type
    text = _is_text(inner)
    if not (text or numeric(inner)) or pa.types.is_decimal(inner):
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
    """A chunked column as one array."""
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


def numeric(kind: Any) -> bool:
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def _is_text(kind: Any) -> bool:
    return str(kind).endswith(("string", "string_view"))


def _not_numeric(name: str, kind: Any, place: Place) -> str:
    return (
        f"{place.source}: column {name!r} is of type {kind}, not numeric; encode it as numbers "
        "first or leave it out."
    )


def _refuse_twins(names: list[str], place: Place) -> None:
    """Refuse columns of one name, of which nobody knows which is meant."""
    (name, count), *_ = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        raise ValueError(
            f"{place.source} has the column {name!r} {count} times; give each column a name of its "
            "own."
        )


def _missing(name: str, names: Any, place: Place) -> str:
    lower = {str(other).lower(): str(other) for other in names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    hint = f"; did you mean {lower[near[0]]!r}?" if near else "."
    known = ", ".join(map(str, list(names)[:20]))
    twice = list(names).count(name) > 1
    what = f"has column {name!r} twice" if twice else f"has no column {name!r}"
    return f"{place.source} {what}{hint} Its columns are {known}."
