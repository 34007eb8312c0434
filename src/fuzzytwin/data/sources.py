"""Files and iterables as batches of rows, one reader for the library and the command line.

Every source gives items, Arrow tables or tuples of arrays, and each becomes a `Batch` in one way.
"""

from __future__ import annotations

import glob
import io
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin.data.batches import (
    Batch,
    Place,
    Selection,
    as_table,
    check_same,
    choose_features,
    from_arrays,
    from_table,
)
from fuzzytwin.data.cells import decimal_mark, is_cell, pa
from fuzzytwin.data.cells import text as as_text
from fuzzytwin.data.dialect import TEXT_BYTES, open_bytes
from fuzzytwin.data.files import (
    BATCH_ROWS,
    ENDINGS,
    Table,
    TableFile,
    format_of,
    known_format,
    open_table,
    partitions,
    read_table,
    readable,
    rows_at_once,
)
from fuzzytwin.data.schema import (
    OddCells,
    Schema,
    TableError,
    missing_column,
    text_types,
    with_types,
)

MARK_ROWS = 5000  # by which the decimal mark of a file is found
BAD_LIBSVM = (ValueError, IndexError, OverflowError)

# What pandas, polars and pyarrow call rows that are in memory.
_FRAMES = ("DataFrame", "RecordBatch", "Table")
_ARRAYS = (np.ndarray, sparse.sparray, sparse.spmatrix)


class Source:
    """Rows that can be read in batches: tables or tuples of arrays that a function makes."""

    names: tuple[str, ...] | None = None  # of the columns of X
    from_files = True
    repeatable = True  # whether it can be read more than once
    has_degrees = False
    rows: int | None = None  # if that is known
    warning: str | None = None  # which columns are left out without being asked for
    schema = Schema()  # how later files are to be read
    odd_cells = OddCells("")  # of the last pass
    width = 0  # of LIBSVM text
    absent: Mapping[str, str] = {}  # features that count as missing, and a file that lacks them
    paths: Sequence[str] = ()  # of files

    def __init__(
        self,
        make: Callable[[], Iterator[tuple[Place, Any]]],
        selection: Selection,
        batch_rows: int | None,
        **known: Any,
    ) -> None:
        self.make, self.selection, self.batch_rows = make, selection, batch_rows
        vars(self).update(known)
        batches = self._read(make())
        head = next(batches, None)
        if head is not None:
            self.names = head.names
            self.has_degrees = head.degrees is not None
        # The first pass goes on from the look at the first batch.
        self.begun: Iterator[Batch] | None = chain([] if head is None else [head], batches)

    def batches(self) -> Iterator[Batch]:
        """Read all rows; no batch is empty."""
        batches, self.begun = self.begun or self._read(self.make()), None
        for batch in batches:
            if (batch.degrees is None) == self.has_degrees:
                raise ValueError(
                    f"{batch.place.source} differs from the first batch in that it "
                    f"{'lacks' if self.has_degrees else 'has'} degrees; make all batches alike."
                )
            yield batch

    def _read(self, items: Iterator[tuple[Place, Any]]) -> Iterator[Batch]:
        selection = self.selection
        for place, item in items:
            table = as_table(item, place.source)
            if table is None:
                batch = from_arrays(item, place, selection.labelled)
                if self.names is not None and batch.names not in (None, self.names):
                    check_same(batch.names or (), self.names, place.source)
                    raise ValueError(
                        f"{place.source} has its columns in another order than the first batch; "
                        "use the same order."
                    )
                if len(batch):
                    yield batch
            elif table.num_rows:
                chosen, warning = choose_features(table.schema, selection, place.source, self.names)
                self.warning = self.warning or warning
                rows = self.batch_rows or rows_at_once(table.num_columns)
                for start in range(0, table.num_rows, rows):
                    part, here = table.slice(start, rows), Place(place.source, place.first + start)
                    yield from_table(part, selection, chosen, here, part, None)

    def refuse_output(self, out: str | os.PathLike[str]) -> None:
        """Refuse to write over a file that is read."""
        if os.path.exists(out) and any(os.path.samefile(path, out) for path in self.paths):
            raise ValueError(f"out={os.fspath(out)!r} is a file that is read; give another name.")

    def warn(self, *, done: bool = False) -> None:
        """Warn the caller of a public function: of columns left out or, when `done`, of cells."""
        odd, texts = self.odd_cells, [self.warning]
        if done:
            texts = [f"{odd.source}, {note}." for note in odd.notes()]
        for text in filter(None, texts):
            warnings.warn(text, UserWarning, stacklevel=3)


def open_source(
    source: Any, selection: Selection, batch_rows: int | None, schema: Schema | None = None,
    n_features: int | None = None, sheet: str | None = None, decimal: str | None = None,
) -> Source:  # fmt: skip
    """Open what a user means: see `fuzzytwin.sources.fit_source`.

    `schema` is how files are to be read, where that was learned before; one with columns names the
    features, and X is a pandas DataFrame of them. `batch_rows` of None is `rows_at_once`.
    `n_features` is the width of LIBSVM text, where it is known, and `sheet` that of a workbook,
    None for the first. `decimal` is the mark before the decimals of the first file, None to find
    it.
    """
    if batch_rows is not None and (not is_whole(batch_rows) or batch_rows < 1):
        raise not_allowed("batch_rows", batch_rows, "give None or a whole number of at least 1")
    schema = schema or Schema()
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    named_files = isinstance(source, (list, tuple)) and len(source) > 0
    if not named_files or not all(isinstance(item, (str, os.PathLike)) for item in source):
        _refuse_one_batch(source, selection.labelled)
        return _open_iterable(source, selection, batch_rows)
    paths = [os.fspath(item) for item in source]
    if isinstance(source, tuple) and all(path.endswith(".npy") for path in paths):
        return _open_npy(paths, selection, batch_rows)
    located = [file for path in paths for file in _located(path)]
    paths = [path for path, _ in located]
    kinds = {known_format(path).kind for path in paths}
    if len(kinds) > 1:
        raise ValueError(
            f"{paths[0]} and others are files of several kinds ({', '.join(sorted(kinds))}); "
            "name those of one kind by a glob such as 'folder/*.parquet'."
        )
    if kinds == {"libsvm"}:
        return _open_libsvm(paths, selection, batch_rows, schema, n_features)
    return _Tables(paths, selection, batch_rows, schema, sheet, partitions(located), decimal)


class _Tables(Source):
    """Files of one kind with named columns, one after the other."""

    def __init__(
        self, paths: list[str], selection: Selection, batch_rows: int | None, schema: Schema,
        sheet: str | None, partitioned: Mapping[str, Mapping[str, Any]], decimal: str | None,
    ) -> None:  # fmt: skip
        if schema.columns:
            learned = tuple(column.name for column in schema.features)
            selection = replace(selection, features=learned, as_frame=True)
        self.paths, self.selection = paths, selection
        self.schema, self.sheet = schema, sheet
        self.has_degrees = selection.degrees is not None
        self.types: dict[str, Any] = {}  # of text columns, by the first file
        self.absent: dict[str, str] = {}
        self.marks = {} if decimal is None else {paths[0]: decimal}  # decimal marks of the files
        self.partitioned = _telling(partitioned, {*(selection.features or ()), *selection.others})
        file, fields = self._open(paths[0])
        mark = self.marks.get(paths[0], schema.decimal)
        self.schema = replace(schema, decimal=mark, separator=file.separator)
        self.names, self.warning = choose_features(fields, selection, paths[0], known=schema.known)
        n_columns = len(self.names) + len(selection.others)
        self.rows_at_once: int = batch_rows or rows_at_once(n_columns)
        if file.rows is not None and len(paths) <= 1000:
            self.rows = file.rows + sum(open_table(path).rows or 0 for path in paths[1:])

    def batches(self) -> Iterator[Batch]:
        names, selection, schema = self.names or (), self.selection, self.schema
        self.odd_cells = OddCells(self.paths[0])
        columns = list(dict.fromkeys((*names, *selection.others)))
        for path in self.paths:
            file, fields = self._open(path)
            if path != self.paths[0]:
                choose_features(fields, selection, path, names, schema.known)
            absent = [name for name in columns if name not in file.schema.names]
            present = [name for name in columns if name not in absent]
            mark, first = self.marks.get(path, schema.decimal), file.first_row
            for table in file.frames(present, self.rows_at_once):
                for name in absent:
                    nothing = pa.nulls(table.num_rows, pa.string())
                    table = table.append_column(name, nothing)
                here = Place(path, first, file)
                typed = table
                if self.types:
                    typed = with_types(table, self.types, mark, here.row, self.odd_cells)
                frame = schema.frame(table, mark, self.odd_cells) if schema.columns else None
                yield from_table(typed, selection, names, here, table, frame)
                first += table.num_rows
        if schema.columns:
            self.odd_cells.check()

    def _open(self, path: str) -> tuple[TableFile, Any]:
        """Open a file; return it, and its columns with the types that the first file shows."""
        selection, known = self.selection, self.schema
        asked = selection.features or ()
        expected = selection.others if selection.allow_missing else (*asked, *selection.others)
        file = open_table(
            path, expected, known.separator, self.sheet, self.partitioned[path]
        )  # fmt: skip
        copied = set(selection.keep) - {*asked, *replace(selection, keep=()).others}
        as_they_are = set(selection.others if file.typed else copied)
        texts = [name for name in file.texts if name not in as_they_are]
        if texts and path not in self.marks:
            head = file.head(texts)
            self.marks[path] = decimal_mark(head[:MARK_ROWS].columns, file.separator, known.decimal)
            if path == self.paths[0]:
                read = [name for name in texts if not known.columns or name not in asked]
                self.types = text_types(
                    head.select(read), self.marks[path], selection.target, asked
                )
        found = {name: self.types[name] for name in texts if name in self.types}
        fields = [(field.name, found.get(field.name, field.type)) for field in file.schema]
        absent = [name for name in asked if name not in file.schema.names]
        if selection.allow_missing and len(absent) < len(asked):
            fields += [(name, pa.string()) for name in absent]
            self.absent.update(dict.fromkeys(absent, path))
        return file, pa.schema(fields, metadata=file.schema.metadata)


def _open_iterable(source: Any, selection: Selection, batch_rows: int | None) -> Source:
    """Open batches that something else makes."""
    if not callable(source) and not isinstance(source, Iterable):
        raise TypeError(
            f"source is of type {type(source).__name__}; give a file, a folder, a glob, a list of "
            "files, an iterable of batches, or a function that returns one."
        )
    used: list[Any] = []

    def make() -> Iterator[tuple[Place, Any]]:
        items = iter(source() if callable(source) else source)
        if any(items is before for before in used):
            raise ValueError(
                "the function gave the same iterator twice, which is used up; give a function that "
                "returns a new one each time it is called."
            )
        used.append(items)
        return ((Place(f"batch {number}"), item) for number, item in enumerate(items, start=1))

    opened = Source(make, selection, batch_rows, from_files=False)
    opened.repeatable = callable(source) or used[0] is not source
    return opened


def _open_libsvm(
    paths: list[str], selection: Selection, batch_rows: int | None, schema: Schema,
    n_features: int | None,
) -> Source:  # fmt: skip
    """Open files of LIBSVM text, one after the other."""
    if selection.others or (selection.features and selection.labelled):
        raise ValueError(
            f"{paths[0]} is LIBSVM text, which has labels and numbered features alone; "
            "leave out target, features, sample_weight, membership and keep."
        )
    zero_based, width = schema.zero_based, n_features
    if zero_based is None or width is None:
        least, most = 1, 0  # indices, counted from 0
        for X, _ in (batch for path in paths for batch in _libsvm_batches(path, None, True)):
            if X.nnz:
                least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
        zero_based, found = least == 0, max(most + (least == 0), 1)
        if width is not None and found > width:
            raise ValueError(
                f"{paths[0]} has {found} features, the model was fitted on {width}; give the same "
                "features."
            )
        width = width or found

    def make() -> Iterator[tuple[Place, Any]]:
        for path in paths:
            first = 1
            for X, words in _libsvm_batches(path, width, bool(zero_based)):
                y = words if selection.as_text else words.astype(float)
                rows = batch_rows or BATCH_ROWS
                for start in range(0, len(y), rows):
                    here = slice(start, start + rows)
                    yield Place(path, first + start), (X[here], y[here])
                first += len(y)

    return Source(
        make, selection, batch_rows, schema=replace(schema, zero_based=zero_based), width=width,
        paths=paths,
    )  # fmt: skip


def _libsvm_batches(path: str, width: int | None, zero_based: bool) -> Iterator[tuple[Any, Any]]:
    """Sparse rows, and labels as text, of LIBSVM text."""

    def load(lines: Iterable[bytes]) -> Any:
        text = io.BytesIO(b"".join(lines))
        return load_svmlight_file(text, n_features=width, zero_based=zero_based)[0]

    def fails(line: bytes) -> bool:
        try:
            return load([line]) is None
        except BAD_LIBSVM:
            return True

    read = 0
    with readable(path), open_bytes(path) as file:
        while lines := file.readlines(TEXT_BYTES):
            filled = {n: text for n, text in enumerate(lines, 1) if text.split(b"#")[0].strip()}
            try:
                if filled:
                    words = [text.split(None, 1)[0].decode() for text in filled.values()]
                    yield load(filled.values()), np.array(words)
            except BAD_LIBSVM as error:
                bad = next((number for number, text in filled.items() if fails(text)), 1)
                raise ValueError(
                    f"{path}, line {read + bad} is not LIBSVM text of {width or 'any'} "
                    f"features counted from {0 if zero_based else 1} ({error}); fix it to read: "
                    "label index:value index:value ..."
                ) from error
            read += len(lines)


def _open_npy(paths: list[str], selection: Selection, batch_rows: int | None) -> Source:
    """Open (X.npy, y.npy), (X.npy, y.npy, weight.npy) or with degrees as a fourth."""
    named = selection.others or (selection.features and selection.labelled)
    if named or not 2 <= len(paths) <= 4:
        raise ValueError(
            "a tuple of .npy files is (X, y), (X, y, weight) or (X, y, weight, degrees), without "
            "names of columns; give a list for several files of one kind."
        )

    def mapped(path: str) -> Any:
        with readable(path):
            return np.load(path, mmap_mode="r", allow_pickle=False)

    lengths = [len(mapped(path)) for path in paths]
    for path, length in zip(paths, lengths, strict=True):
        if length != lengths[0]:
            raise ValueError(
                f"{path} has {length} rows, {paths[0]} has {lengths[0]}; give files of the same "
                "rows."
            )

    rows = batch_rows or rows_at_once(mapped(paths[0]).size // max(lengths[0], 1))

    def make() -> Iterator[tuple[Place, Any]]:
        for start in range(0, lengths[0], rows):
            here = slice(start, start + rows)
            # Mapped again each time, so that what was read does not stay in memory.
            yield Place(paths[0], start + 1), tuple(np.array(mapped(path)[here]) for path in paths)

    return Source(make, selection, batch_rows, rows=lengths[0])


def _refuse_one_batch(source: Any, labelled: bool) -> None:
    """Refuse rows themselves in place of batches of them, and say what to write."""
    first = source[0] if isinstance(source, tuple) and source else None
    known = type(source).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")
    array = isinstance(source, _ARRAYS)
    frame = isinstance(source, Mapping) or (known and type(source).__name__ in _FRAMES)
    if not (array or frame or (labelled and isinstance(first, _ARRAYS))):
        return
    remedy = "[(X, y)]" if labelled and array else "[source]"
    what = f"a {type(source).__name__}" + ("" if first is None else " of arrays")
    raise TypeError(
        f"source is {what}, which is one batch; give a list of batches, such as {remedy}, or call "
        f"{'fit' if labelled else 'predict'} where all rows are in memory."
    )


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """List the files of a path, a folder or a glob, in order of their names."""
    return [file for file, _ in _located(os.fspath(path))]


def read_head(
    paths: Sequence[str], expected: Collection[str], rows: int, sheet: str | None = None
) -> Table:
    """Read the first rows of files with named columns, one after the other, as one table."""
    located = [file for path in paths for file in _located(path)]
    partitioned = _telling(partitions(located), expected)
    left = list(partitioned)
    head = read_table(left[0], expected, rows, sheet, partitioned[left.pop(0)])
    while left and not head.more:
        path = left.pop(0)
        table = read_table(path, expected, rows, sheet, partitioned[path])
        for name in head.cells.schema.names:
            if name not in table.cells.schema.names:
                raise TableError(missing_column(name, table.cells.schema.names, path))
        cells = _below(head.cells, table.cells.select(head.cells.schema.names))
        head = replace(head, cells=cells[:rows], more=table.more or len(cells) > rows)
    return replace(head, more=head.more or bool(left))


def _below(head: Any, more: Any) -> Any:
    """Put rows below others; columns whose types have nothing in common become text."""
    for place, name in enumerate(head.schema.names):
        first, second = head.column(place), more.column(place)
        try:
            pa.unify_schemas([head.select([name]).schema, more.select([name]).schema],
                             promote_options="permissive")  # fmt: skip
        except pa.ArrowTypeError:
            if is_cell(first.type) and is_cell(second.type):
                head = head.set_column(place, name, as_text(first, [""]))
                more = more.set_column(place, name, as_text(second, [""]))
    return pa.concat_tables([head, more], promote_options="permissive")


def _telling(
    partitioned: Mapping[str, Mapping[str, Any]], asked: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Take the columns of `partitions` that are asked for or differ between the files."""
    first = next(iter(partitioned.values()))
    names = [
        name
        for name in first
        if name in asked or any(values[name] != first[name] for values in partitioned.values())
    ]
    return {path: {name: values[name] for name in names} for path, values in partitioned.items()}


def _located(path: str) -> list[tuple[str, str]]:
    """List the files of a path, each with its path below the folder if it is one."""
    folder = os.path.isdir(path)
    return [(file, os.path.relpath(file, path) if folder else file) for file in _expanded(path)]


def _expanded(path: str) -> list[str]:
    """List the files of a path, a folder or a glob, in order of their names."""
    if os.path.isdir(path):
        found = [
            str(file)
            for file in sorted(Path(path).rglob("*"))
            if file.is_file() and file.name[0] not in "._" and format_of(file).kind
        ]
        if not found:
            raise ValueError(f"{path} is empty: no file with an ending of {', '.join(ENDINGS)}.")
        return found
    if os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FileNotFoundError(f"there is no file {path}; give a file, a folder or a glob.")
    return [file for file in found if os.path.isfile(file)]
