"""The kinds of files that are read, each a little at a time and from any row on."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzytwin.sources.batches import arrow

Array = NDArray[Any]

# Text is read in pieces of about this many bytes.
TEXT_BYTES = 1 << 23
KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc",
    ".csv": "csv", ".csv.gz": "csv",
    ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".txt": "libsvm",
    ".npy": "npy",
}  # fmt: skip


class Parquet:
    """Row groups, some at a time; never a whole file."""

    @staticmethod
    def schema(path: str) -> Any:
        import pyarrow.parquet as pq

        return pq.read_schema(path)

    @staticmethod
    def count(path: str) -> int:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)

    @staticmethod
    def frames(path: str, columns: Any, floats: Any, rows: int, first: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path, buffer_size=1 << 20) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            at, group = 0, 0
            while group < len(sizes):
                # Small row groups go together, so that a batch is worth its while.
                end, held = group + 1, sizes[group]
                while end < len(sizes) and held + sizes[end] <= rows:
                    held += sizes[end]
                    end += 1
                if at + held > first:
                    start = at
                    groups = list(range(group, end))
                    for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
                        yield start, batch
                        start += batch.num_rows
                at, group = at + held, end


class Ipc:
    """Record batches of Arrow and Feather files."""

    @staticmethod
    def schema(path: str) -> Any:
        with arrow().OSFile(path) as file:
            return Ipc._open(file)[0].schema

    @staticmethod
    def frames(path: str, columns: Any, floats: Any, rows: int, first: int) -> Iterator[Any]:
        with arrow().OSFile(path) as file:
            reader, random = Ipc._open(file)
            numbers = range(reader.num_record_batches) if random else itertools.count()
            at = 0
            for number in numbers:
                try:
                    batch = reader.get_batch(number) if random else reader.read_next_batch()
                except StopIteration:
                    return
                if batch.num_rows:
                    yield at, batch.select(columns)
                at += batch.num_rows

    @staticmethod
    def _open(file: Any) -> tuple[Any, bool]:
        pa = arrow()
        try:
            return pa.ipc.open_file(file), True
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file), False


class Csv:
    """Lines, a block of bytes at a time; the numbers in features, weights and degrees as float64.

    The type of the labels is that of the first block.
    """

    @staticmethod
    def schema(path: str) -> Any:
        with Csv._open(path) as reader:
            return reader.schema

    @staticmethod
    def frames(path: str, columns: Any, floats: Any, rows: int, first: int) -> Iterator[Any]:
        at = 0
        try:
            with Csv._open(path, columns, floats) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield at, batch
                    at += batch.num_rows
        except arrow().ArrowInvalid as error:
            raise type(error)(Csv._with_name(str(error), path)) from error

    @staticmethod
    def _with_name(text: str, path: str) -> str:
        """The message of a reader that counts columns, with the name of the column."""
        found = re.match(r"In CSV column #(\d+): ", text)
        if found is None:
            return text
        names = Csv.schema(path).names
        return f"column {names[int(found[1])]!r}, {text[found.end() :]}"

    @staticmethod
    def _open(path: str, columns: Any = None, floats: Any = ()) -> Any:
        from pyarrow import csv

        number = arrow().float64()
        return csv.open_csv(
            path,
            # One thread, or a bad line would have no number.
            read_options=csv.ReadOptions(use_threads=False, block_size=TEXT_BYTES),
            convert_options=csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(floats, number)
            ),
        )


def check_separator(schema: Any, path: str) -> None:
    """Refuse a CSV file with another separator than the comma, which shows as a single column."""
    if len(schema.names) > 1:
        return
    for mark in (";", "\t"):
        if mark in schema.names[0]:
            raise ValueError(
                f"{path} has one column only, {schema.names[0]!r:.80}; its separator seems to be "
                f"{mark!r}. Write it anew with commas, or give batches: lambda: "
                f"pandas.read_csv({os.path.basename(path)!r}, sep={mark!r}, chunksize=65536)."
            )


class Npy:
    """A structured array: its fields are columns. Each piece is mapped anew, so none stays."""

    @staticmethod
    def schema(path: str) -> Any:
        pa = arrow()
        dtype = np.load(path, mmap_mode="r", allow_pickle=False).dtype
        if dtype.names is None:
            raise ValueError(
                f"{path} has no columns with names; give a tuple (X.npy, y.npy), or an array with "
                "a structured dtype."
            )
        return pa.schema([(name, _field_type(dtype[name])) for name in dtype.names])

    @staticmethod
    def frames(path: str, columns: Any, floats: Any, rows: int, first: int) -> Iterator[Any]:
        pa = arrow()
        n = len(np.load(path, mmap_mode="r", allow_pickle=False))
        for start in range(first, n, rows):
            piece = np.load(path, mmap_mode="r", allow_pickle=False)[start : start + rows]
            arrays = [np.ascontiguousarray(piece[name]) for name in columns]
            yield start, pa.record_batch([pa.array(array) for array in arrays], names=columns)


TABLES: dict[str, Any] = {"parquet": Parquet, "ipc": Ipc, "csv": Csv, "npy": Npy}


def kind_of(path: str, otherwise: str | None = "error") -> str | None:
    name = os.path.basename(path).lower()
    for ending, kind in KINDS.items():
        if name.endswith(ending):
            return kind
    if otherwise is None:
        return None
    raise ValueError(f"{path} has an unknown ending; known ones are {', '.join(KINDS)}.")


@contextmanager
def named(path: str) -> Iterator[None]:
    """Errors of the reading library, with the file and a remedy."""
    pa = arrow() if not path.endswith(".npy") and kind_of(path) != "libsvm" else None
    expected: tuple[type[Exception], ...] = (OSError, EOFError)
    if pa is not None:
        expected += (pa.ArrowException,)
    try:
        yield
    except FileNotFoundError:
        raise
    except expected as error:
        text = str(error).rstrip(". ")
        if "Empty CSV file" in text:
            raise ValueError(f"{path} is empty; give a file with rows.") from error
        raise ValueError(
            f"{path} cannot be read: {text}. Write the file anew, mend the line, or leave the "
            "file out."
        ) from error


def libsvm_pieces(path: str, width: int | None, zero_based: bool) -> Iterator[tuple[Any, Array]]:
    """Sparse rows and labels of LIBSVM text."""
    from sklearn.datasets import load_svmlight_file

    line = 0
    with open(path, "rb") as file:
        while lines := file.readlines(TEXT_BYTES):
            filled = [text for text in lines if text.split(b"#")[0].strip()]
            try:
                if filled:
                    yield load_svmlight_file(
                        io.BytesIO(b"".join(filled)), n_features=width, zero_based=zero_based
                    )
            except (ValueError, IndexError, OverflowError) as error:
                number = _bad_line(lines)
                raise ValueError(
                    f"{path}, line {line + number + 1} is no LIBSVM text ({error}); mend it to "
                    "read: label index:value index:value ..."
                ) from error
            line += len(lines)


def _bad_line(lines: list[bytes]) -> int:
    from sklearn.datasets import load_svmlight_file

    for number, text in enumerate(lines):
        if text.split(b"#")[0].strip():
            try:
                load_svmlight_file(io.BytesIO(text), zero_based=True, n_features=1 << 30)
            except (ValueError, IndexError, OverflowError):
                return number
    return 0


def scan_libsvm(paths: list[str], n_features: int | None) -> tuple[bool, int]:
    """Whether features are counted from 0, and how many there are."""
    least, most = 1, 0
    for path in paths:
        for X, _ in libsvm_pieces(path, None, True):
            if X.nnz:
                least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
    width = most + 1 if least == 0 else most
    if n_features is not None and width > n_features:
        raise ValueError(
            f"{paths[0]} has {width} features, the model was fitted on {n_features}; give the "
            "same features."
        )
    return least == 0, max(n_features or width, 1)


def _field_type(dtype: Any) -> Any:
    pa = arrow()
    return pa.string() if dtype.kind == "U" else pa.from_numpy_dtype(dtype)
