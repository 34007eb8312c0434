"""Files and iterables as batches, a little at a time, from any row on."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fuzzytwin.sources.batches import (
    Batch,
    Place,
    Wanted,
    as_table,
    check_same,
    choose_columns,
    from_arrays,
    from_table,
    kept_columns,
    left_out,
    missing_column,
    twins,
)
from fuzzytwin.sources.cells import arrow, decimal_mark, is_text
from fuzzytwin.sources.formats import (
    KINDS,
    TableFile,
    kind_of,
    known_kind,
    open_table,
    readable,
)
from fuzzytwin.sources.libsvm import libsvm_batches, scan_libsvm
from fuzzytwin.sources.schema import Schema, Tally
from fuzzytwin.sources.text_columns import cell_types, with_types

Array = NDArray[Any]

MARK_ROWS = 5000  # by which the decimal mark of a file is found

# What pandas, polars and pyarrow call rows that are in memory.
_FRAMES = ("DataFrame", "RecordBatch", "Table")


class Source:
    """Rows that can be read in batches.

    Attributes
    ----------
    names : tuple of str or None
        Columns of X, where they have names.
    repeatable : bool
        Whether it can be read more than once.
    has_degrees : bool
        Whether degrees come with the rows.
    rows : int or None
        How many rows there are, if that is known.
    warning : str or None
        Which columns are left out without being asked for.
    schema : Schema
        How later files are to be read.
    tally : Tally
        Cells of the last pass that were not plain.
    """

    names: tuple[str, ...] | None = None
    repeatable = True
    has_degrees = False
    rows: int | None = None
    warning: str | None = None
    schema = Schema()
    tally = Tally("")

    def identity(self) -> list[Any] | None:
        """Return a key that identifies these data without reading them; None if there is none."""
        raise NotImplementedError

    def batches(self, unit: int = 0, first: int = 0) -> Iterator[Batch]:
        """Yield batches from row `first` of file or batch number `unit` on; none is empty."""
        raise NotImplementedError


def open_source(
    source: Any, wanted: Wanted, batch_rows: int, n_features: int | None = None
) -> Source:
    """Open what a user means: see `fuzzytwin.sources.fit_source`."""
    if isinstance(source, (str, os.PathLike)):
        return _files(_expanded(os.fspath(source)), wanted, batch_rows, n_features)
    named_files = isinstance(source, (list, tuple)) and len(source) > 0
    if named_files and all(isinstance(item, (str, os.PathLike)) for item in source):
        paths = [os.fspath(item) for item in source]
        if isinstance(source, tuple) and all(path.endswith(".npy") for path in paths):
            return _NpyTuple(paths, wanted, batch_rows)
        files = [path for one in paths for path in _expanded(one)]
        return _files(files, wanted, batch_rows, n_features)
    _refuse_one_batch(source, wanted.labelled)
    if callable(source) or isinstance(source, Iterable):
        return _Iterable(source, wanted, batch_rows)
    raise TypeError(
        f"source is of type {type(source).__name__}; give a file, a folder, a glob, a list of "
        "files, an iterable of batches, or a function that returns one."
    )


def _refuse_one_batch(source: Any, labelled: bool) -> None:
    """Refuse rows themselves in place of batches of them, and say what to write."""
    first = source[0] if isinstance(source, tuple) and source else None
    known = type(source).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")
    if (known and type(source).__name__ in _FRAMES) or isinstance(source, Mapping):
        remedy = "[source]"
    elif _is_array(source):
        remedy = "[(X, y)]" if labelled else "[source]"
    elif labelled and _is_array(first):
        remedy = "[source]"
    else:
        return
    what = f"a {type(source).__name__}" + ("" if first is None else " of arrays")
    raise TypeError(
        f"source is {what}, which is one batch; give a list of batches, such as {remedy}, or call "
        f"{'fit' if labelled else 'predict'} where all rows are in memory."
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or bool(sparse.issparse(value))


def sliced(frames: Iterable[tuple[int, Any]], rows: int, first: int) -> Iterator[tuple[int, Any]]:
    """Cut into tables of at most so many rows, those before row `first` left out."""
    for start, frame in frames:
        for at in range(start + max(first - start, 0), start + frame.num_rows, rows):
            yield at, frame.slice(at - start, rows)


class _Files(Source):
    """Files of one kind with named columns, one after the other."""

    def __init__(self, paths: list[str], wanted: Wanted, batch_rows: int) -> None:
        self.paths, self.wanted, self.batch_rows = paths, wanted, batch_rows
        self.schema = wanted.schema or Schema()
        self.has_degrees = wanted.degrees is not None
        self.types: dict[str, Any] | None = None  # of text columns, by the first file
        self.decimals: dict[str, str] = {}  # marks of the files
        place = Place(paths[0], 0)
        file, decimal, fields = self._open(paths[0])
        self.schema = replace(self.schema, decimal=decimal, separator=file.separator)
        if self.schema.columns:
            self.names = tuple(column.name for column in self.schema.features)
            there = set(fields.names) - twins(fields.names)
            for name in (*self.names, *wanted.keep):
                if name not in there:
                    raise ValueError(missing_column(name, fields.names, place, self.names))
        else:
            self.names = choose_columns(fields, wanted, place)
            self.warning = left_out(fields, wanted, place)
        if file.rows is not None and len(paths) <= 1000:
            self.rows = file.rows + sum(open_table(path).rows or 0 for path in paths[1:])

    def identity(self) -> list[Any]:
        return [_identity(path) for path in self.paths]

    def _open(self, path: str) -> tuple[TableFile, str, Any]:
        """Open a file; return its decimal mark and column types (those of the first file) too."""
        wanted, known = self.wanted, self.schema
        expected = [*(c.name for c in known.features), *(wanted.features or ()), *wanted.others()]
        file = open_table(path, expected, known.separator)
        typed = kind_of(path) not in ("csv", "xlsx")
        as_it_is = set(wanted.others() if typed else wanted.keep if wanted.verbatim else ())
        as_it_is |= twins(file.schema.names)
        texts = [f.name for f in file.schema if is_text(f.type) and f.name not in as_it_is]
        if path not in self.decimals:
            head = _head(file, texts, self.batch_rows)
            few = head[:MARK_ROWS].columns
            self.decimals[path] = decimal_mark(few, file.separator, known.decimal)
            if self.types is None:
                self.types = cell_types(head, wanted, self.decimals[path])
        assert self.types is not None
        decimal = self.decimals[path]
        pa = arrow()
        known_types = {name: self.types[name] for name in texts if name in self.types}
        types = [known_types.get(field.name, field.type) for field in file.schema]
        return file, decimal, pa.schema(list(zip(file.schema.names, types, strict=True)))

    def batches(self, unit: int = 0, first: int = 0) -> Iterator[Batch]:
        assert self.names is not None
        assert self.types is not None
        self.tally = Tally(self.paths[0])
        wanted = self.wanted
        columns = list(dict.fromkeys((*self.names, *wanted.others())))
        for number in range(unit, len(self.paths)):
            path = self.paths[number]
            start = first if number == unit else 0
            file, decimal, fields = self._open(path)
            if not self.schema.columns:
                chosen = choose_columns(fields, wanted, Place(path, number))
                check_same(chosen, self.names, Place(path, number), fields)
            with readable(path):
                frames = file.frames(columns, self.batch_rows, start)
                for at, frame in sliced(frames, self.batch_rows, start):
                    place = Place(path, number, at)
                    if not self.schema.columns:
                        table = with_types(frame, self.types, decimal, place, self.tally)
                        yield from_table(table, wanted, self.names, place)
                        continue
                    X = self.schema.frame(frame, decimal, self.tally)
                    others = with_types(
                        frame.select(list(wanted.others())), self.types, decimal, place, Tally("")
                    )
                    yield Batch(
                        X, None, None, None, place, self.names, kept_columns(others, wanted)
                    )
        if self.schema.columns:
            self.tally.check()


class _Libsvm(Source):
    """Files of LIBSVM text, one after the other."""

    def __init__(
        self, paths: list[str], wanted: Wanted, batch_rows: int, n_features: int | None
    ) -> None:
        named = wanted.others() or (wanted.features and wanted.labelled)
        if named:
            raise ValueError(
                f"{paths[0]} is LIBSVM text, which has labels and numbered features alone; "
                "leave out target, features, sample_weight, membership and keep."
            )
        self.paths, self.batch_rows, self.verbatim = paths, batch_rows, wanted.verbatim
        known = wanted.schema or Schema()
        self.zero_based = known.zero_based
        if self.zero_based is None or n_features is None:
            self.zero_based, width = scan_libsvm(paths)
            if n_features is not None and width > n_features:
                raise ValueError(
                    f"{paths[0]} has {width} features, the model was fitted on {n_features}; give "
                    "the same features."
                )
            n_features = n_features or width
        self.width = n_features
        self.schema = replace(known, zero_based=self.zero_based)

    def identity(self) -> list[Any]:
        return [_identity(path) for path in self.paths]

    def batches(self, unit: int = 0, first: int = 0) -> Iterator[Batch]:
        for number in range(unit, len(self.paths)):
            path, at = self.paths[number], 0
            skipped = first if number == unit else 0
            with readable(path):
                for X, y in libsvm_batches(path, self.width, bool(self.zero_based)):
                    for start in range(max(skipped - at, 0), len(y), self.batch_rows):
                        here = slice(start, start + self.batch_rows)
                        place = Place(path, number, at + start)
                        labels = y[here] if self.verbatim else y[here].astype(float)
                        yield Batch(X[here], labels, None, None, place)
                    at += len(y)


class _NpyTuple(Source):
    """(X.npy, y.npy), (X.npy, y.npy, weight.npy) or with degrees as a fourth."""

    def __init__(self, paths: list[str], wanted: Wanted, batch_rows: int) -> None:
        named = wanted.others() or (wanted.features and wanted.labelled)
        if named or not 2 <= len(paths) <= 4:
            raise ValueError(
                "a tuple of .npy files is (X, y), (X, y, weight) or (X, y, weight, degrees), "
                "without names of columns; give a list for several files of one kind."
            )
        self.paths, self.batch_rows, self.labelled = paths, batch_rows, wanted.labelled
        self.has_degrees = len(paths) == 4
        lengths = [len(array) for array in self._arrays()]
        for path, length in zip(paths, lengths, strict=True):
            if length != lengths[0]:
                raise ValueError(
                    f"{path} has {length} rows, {paths[0]} has {lengths[0]}; give files of the "
                    "same rows."
                )
        self.rows = lengths[0]

    def _arrays(self) -> list[Array]:
        arrays = []
        for path in self.paths:
            with readable(path):
                arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
        return arrays

    def identity(self) -> list[Any]:
        return [_identity(path) for path in self.paths]

    def batches(self, unit: int = 0, first: int = 0) -> Iterator[Batch]:
        for start in range(first, self.rows or 0, self.batch_rows):
            here = slice(start, start + self.batch_rows)
            # Mapped again each time, so that what was read does not stay in memory.
            parts = tuple(np.array(array[here]) for array in self._arrays())
            yield from_arrays(parts, Place(self.paths[0], 0, start), self.labelled)


class _Iterable(Source):
    """Batches that something else makes."""

    def __init__(self, source: Any, wanted: Wanted, batch_rows: int) -> None:
        self.wanted, self.batch_rows = wanted, batch_rows
        self.make: Callable[[], Iterable[Any]] = source if callable(source) else lambda: source
        items = iter(self.make())
        self.repeatable = callable(source) or items is not source
        self.begun = items
        looked_at: list[Any] = []

        def noting() -> Iterator[Any]:
            for item in items:
                looked_at.append(item)
                yield item

        def beginning() -> Iterator[Any]:
            while looked_at:
                yield looked_at.pop(0)
            yield from items

        head = next(self._read(noting()), None)
        if head is not None:
            self.names = head.names
            self.has_degrees = head.degrees is not None
        # The first pass goes on from the look at the first batch.
        self.first: Iterator[Any] | None = beginning()

    def identity(self) -> None:
        return None

    def batches(self, unit: int = 0, first: int = 0) -> Iterator[Batch]:
        items = iter(self.make()) if self.first is None else self.first
        if items is self.begun:
            raise ValueError(
                "the function gave the same iterator twice, which is used up; give a function that "
                "returns a new one each time it is called."
            )
        self.first = None
        for batch in self._read(items):
            if (batch.degrees is None) == self.has_degrees:
                raise ValueError(
                    f"{batch.place.source} differs from the first batch in that it "
                    f"{'lacks' if self.has_degrees else 'has'} degrees; make all batches alike."
                )
            yield batch

    def _read(self, items: Iterator[Any]) -> Iterator[Batch]:
        for number, item in enumerate(items):
            place = Place(f"batch {number + 1}", number)
            table = as_table(item, place)
            if table is None:
                batch = from_arrays(item, place, self.wanted.labelled)
                if self.names is not None and batch.names not in (None, self.names):
                    check_same(batch.names or (), self.names, place)
                    raise ValueError(
                        f"{place.source} has its columns in another order than the first batch; "
                        "use the same order."
                    )
                if len(batch):
                    yield batch
                continue
            if table.num_rows == 0:
                continue
            chosen = choose_columns(table.schema, self.wanted, place)
            if self.names is None:
                self.warning = left_out(table.schema, self.wanted, place)
            else:
                check_same(chosen, self.names, place, table.schema)
                chosen = self.names
            for at, part in sliced([(0, table)], self.batch_rows, 0):
                yield from_table(part, self.wanted, chosen, Place(place.source, number, at))


def _files(paths: list[str], wanted: Wanted, batch_rows: int, n_features: int | None) -> Source:
    """Files of one kind, as a source."""
    kinds = {known_kind(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError(
            f"{paths[0]} and others are files of several kinds ({', '.join(sorted(kinds))}); "
            "name those of one kind by a glob such as 'folder/*.parquet'."
        )
    if kinds == {"libsvm"}:
        return _Libsvm(paths, wanted, batch_rows, n_features)
    return _Files(paths, wanted, batch_rows)


def _identity(path: str) -> list[Any]:
    """Return a key that identifies a file without reading it."""
    return [os.path.basename(path), os.stat(path).st_size, os.stat(path).st_mtime_ns]


def _head(file: TableFile, columns: list[str], rows: int) -> Any:
    """Read the first rows of some columns."""
    pa = arrow()
    schema = pa.schema([file.schema.field(name) for name in columns])
    if columns:
        with readable(file.path):
            for _, frame in file.frames(columns, rows):
                return pa.table(frame)
    return schema.empty_table()


def _expanded(path: str) -> list[str]:
    """List the files of a path, a folder or a glob, in order of their names."""
    if os.path.isdir(path):
        found = [
            str(file)
            for file in sorted(Path(path).rglob("*"))
            if file.is_file() and file.name[0] not in "._" and kind_of(str(file))
        ]
        if not found:
            raise ValueError(f"{path} is empty: no file with an ending of {', '.join(KINDS)}.")
        return found
    if os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FileNotFoundError(f"there is no file {path}; give a file, a folder or a glob.")
    return [file for file in found if os.path.isfile(file)]
