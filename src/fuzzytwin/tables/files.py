"""Tables for the command line: reading and writing files.

Every error is a `TableError` of one line that says what to do about it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need

ENDINGS = {
    ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".feather": "feather", ".arrow": "feather", ".svm": "libsvm", ".libsvm": "libsvm",
    ".svmlight": "libsvm",
}  # fmt: skip
MISSING = ("?",)  # beside what pandas takes for missing: UCI's mark
BATCH_ROWS = 65_536


class TableError(ValueError):
    """A table that cannot be used."""


def kind_of(path: str | os.PathLike[str]) -> str:
    """What kind of file a name stands for."""
    name = os.path.basename(path).lower()
    for ending, kind in ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise TableError(f"{path} has an unknown ending; known are {', '.join(ENDINGS)}.")


def read_frame(path: str | os.PathLike[str], text: Sequence[str] = ()) -> Any:
    """A whole CSV, Parquet or Feather file as a pandas frame; `text` are columns of text."""
    need_pandas()
    pieces = list(read_batches(path, text, whole=True))
    return pieces[0]


def read_batches(
    path: str | os.PathLike[str], text: Sequence[str] = (), whole: bool = False
) -> Iterator[Any]:
    """A file as frames of at most `BATCH_ROWS` rows, or as one."""
    kind = check_file(path)
    names = column_names(path)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise TableError(f"{path} has two columns named {twice!r}; rename one of them.")
    count, rows = 0, None if whole else BATCH_ROWS
    reader = _csv_batches if kind == "csv" else _arrow_batches
    for frame in reader(path, [name for name in text if name in names], rows):
        count += len(frame)
        yield frame
    if not count:
        raise TableError(f"{path} has column names but no rows; give some.")


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the columns, as they stand in the file."""
    kind = check_file(path)
    if kind == "csv":
        names = next(csv.reader(io.StringIO(_head(path)), delimiter=_style(path)["sep"]), [])
        names = [name.strip() for name in names]
        if names and all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name) for name in names):
            raise TableError(
                f"the first line of {path} holds numbers; put the names of the columns there."
            )
        return names
    with _readable(path):
        if kind == "parquet":
            from pyarrow import parquet

            return list(parquet.read_schema(path).names)
        from pyarrow import ipc

        with open(path, "rb") as file:
            return list(ipc.open_file(file).schema.names)


def read_libsvm(path: str | os.PathLike[str], n_features: int | None = None) -> tuple[Any, Any]:
    """Sparse rows and labels of LIBSVM text."""
    from sklearn.datasets import load_svmlight_file

    check_file(path)
    try:
        X, y = load_svmlight_file(path, n_features=n_features)
    except (ValueError, OSError) as error:
        raise TableError(f"{path} is no LIBSVM text: {one_line(error)}") from error
    if not len(y):
        raise TableError(f"{path} holds no rows; give some.")
    return X, np.where(y == np.round(y), y.astype(int), y) if (y == np.round(y)).all() else y


def file_size(path: str | os.PathLike[str]) -> int:
    """About how many bytes a file takes in memory."""
    growth = {"parquet": 6, "csv": 3, "feather": 2, "libsvm": 3}[kind_of(path)]
    return os.path.getsize(path) * (growth * 4 if str(path).endswith(".gz") else growth)


def check_file(path: str | os.PathLike[str]) -> str:
    """The kind of a file that is there and not empty."""
    if not os.path.exists(path):
        raise TableError(f"there is no file {path}; check the name.")
    if os.path.isdir(path):
        raise TableError(f"{path} is a directory; name a file in it.")
    kind = kind_of(path)
    if os.path.getsize(path) == 0:
        raise TableError(f"{path} is empty; give a table with column names and rows.")
    return kind


def _head(path: str | os.PathLike[str], size: int = 1 << 20) -> str:
    """The beginning of a text file."""
    opened = gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")  # noqa: SIM115
    try:
        with opened as file:
            start = file.read(size)
    except (OSError, EOFError) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}") from error
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise TableError(
            f"{path} is UTF-16 or no text at all; save it as UTF-8 "
            "(iconv -f UTF-16 -t UTF-8 old.csv > new.csv)."
        )
    if not start.strip():
        raise TableError(f"{path} is empty; give a table with column names and rows.")
    return codecs.getincrementaldecoder("utf-8-sig")("replace").decode(start)


def _style(path: str | os.PathLike[str]) -> dict[str, str]:
    """Which mark parts the cells, and which the decimals."""
    head = _head(path)
    first = head.split("\n", 1)[0]
    mark = max(",;\t|", key=first.count)
    comma = mark == ";" and re.search(r"(^|;)-?\d+,\d+(;|\r?$)", head, re.M) is not None
    return {"sep": mark, "decimal": "," if comma else "."}


def _csv_batches(
    path: str | os.PathLike[str], text: Sequence[str], rows: int | None
) -> Iterator[Any]:
    pandas = need_pandas()
    try:
        options: dict[str, Any] = {
            **_style(path), "encoding": "utf-8-sig", "dtype": dict.fromkeys(text, str),
            "na_values": list(MISSING), "skipinitialspace": True, "low_memory": False,
            "index_col": False,
        }  # fmt: skip
        if [int(part) for part in pandas.__version__.split(".")[:2]] < [3, 1]:
            options["float_precision"] = "round_trip"  # later ones read every digit anyway
        if rows is None:
            yield _named(pandas.read_csv(path, **options))
        else:
            with pandas.read_csv(path, chunksize=rows, **options) as reader:
                for frame in reader:
                    yield _named(frame)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not UTF-8 text; save it as UTF-8 (iconv -f LATIN1 -t UTF-8)."
        ) from error
    except (ValueError, OSError, EOFError) as error:
        said = one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise TableError(f"{path} cannot be read: {said}; mend that line.") from error


def _named(frame: Any) -> Any:
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _arrow_batches(
    path: str | os.PathLike[str], text: Sequence[str], rows: int | None
) -> Iterator[Any]:
    from pyarrow import feather, ipc, parquet

    need_pandas()
    with _readable(path):
        if rows is None:
            reader = parquet if kind_of(path) == "parquet" else feather
            yield _decoded(reader.read_table(path).to_pandas(), text)
        elif kind_of(path) == "parquet":
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(rows):
                    yield _decoded(batch.to_pandas(), text)
        else:
            with open(path, "rb") as source:
                opened = ipc.open_file(source)
                for number in range(opened.num_record_batches):
                    batch = opened.get_batch(number)
                    for start in range(0, batch.num_rows, rows):
                        yield _decoded(batch.slice(start, rows).to_pandas(), text)


def _decoded(frame: Any, text: Sequence[str]) -> Any:
    for name in text:
        frame[name] = as_text(frame[name])
    return frame


class _readable:
    """Errors of pyarrow, in one line with the file's name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def __enter__(self) -> None:
        need("pyarrow", "files", str(self.path))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (OSError, ValueError)) and not isinstance(error, TableError):
            raise TableError(
                f"{self.path} cannot be read: {one_line(error)}; write it anew."
            ) from error


def as_text(values: Any) -> Any:
    """A column as text, with NaN where a value is missing."""
    pandas = need_pandas()
    if pandas.api.types.is_datetime64_any_dtype(values):
        raise TableError(
            f"column {values.name!r} holds dates; turn them into numbers, or leave it out: "
            f"--drop {values.name!r}."
        )
    values = values.astype(object)
    kept = values.dropna()
    if len(kept) and isinstance(kept.iloc[0], (list, tuple, dict, set, np.ndarray)):
        raise TableError(
            f"column {values.name!r} holds lists; spread them over columns, or leave it out: "
            f"--drop {values.name!r}."
        )
    return values.map(_cell, na_action="ignore").where(values.notna(), np.nan)


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def write_frame(frame: Any, path: Path, kind: str) -> None:
    """Write a frame to an open draft."""
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "libsvm":
        raise TableError("tables are written as .csv, .parquet or .feather.")
    else:
        with _readable(path):
            import pyarrow
            from pyarrow import feather, parquet

            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            if kind == "parquet":
                parquet.write_table(table, path)
            else:
                feather.write_feather(table, str(path))


def need_pandas() -> Any:
    """Import pandas, or say how to install it."""
    return need("pandas", "cli", "a table")


def one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160].rstrip(" .")
