"""What the commands are given: models, tables, and places to write to."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def load_model(model: Path) -> tuple[Any, dict[str, Any]]:
    """A model and the facts that were saved with it."""
    from fuzzytwin import store

    facts = store.about(model).get("facts")
    return store.load(model), facts if isinstance(facts, dict) else {}


def features_of(
    fitted: Any, facts: dict[str, Any], data: Path, target: str | None, labelled: bool
) -> tuple[Any, Any, Any]:
    """Rows as the model wants them, the frame they come from, and labels if asked for."""
    from fuzzytwin.tables import columns as _columns
    from fuzzytwin.tables import files as _tables

    if _tables.kind_of(data) == "libsvm":
        X, y = _tables.read_libsvm(data, fitted.n_features_in_)
        return X, None, y
    columns = columns_of(facts)
    text = [column.name for column in columns if column.kind == "category"]
    if labelled and target is not None and fitted.classes_.dtype.kind in "UO":
        text.append(target)
    frame, y = _tables.read_frame(data, text), None
    if labelled:
        if target is None:
            raise ValueError("which column holds the labels? Name it: --target NAME.")
        _columns.need_column(frame, target, "target", data)
        frame = frame[frame[target].notna()]
        if not len(frame):
            raise _tables.TableError(f"the target {target!r} is missing in every row of {data}.")
        y = _tables.as_text(frame[target]).to_numpy(dtype=object)
    return _columns.chosen(frame, columns, data), frame, y


def columns_of(facts: dict[str, Any]) -> list[Any]:
    """What the columns held in training."""
    from fuzzytwin.tables.columns import Column

    try:
        return [Column(**entry) for entry in facts["columns"]]
    except (KeyError, TypeError):
        raise ValueError(
            "the model was not made by `fuzzytwin train`, so its columns are not known; use it "
            "from Python: fuzzytwin.store.load."
        ) from None


def predict_stream(fitted: Any, facts: dict[str, Any], data: Path, out: Path, force: bool) -> int:
    """Label a table batch by batch; gives the number of rows."""
    from fuzzytwin.sources import predict_source
    from fuzzytwin.tables import columns as _columns
    from fuzzytwin.tables import files as _tables

    columns = columns_of(facts)
    text = [column.name for column in columns if column.kind == "category"]

    def batches() -> Iterator[Any]:
        for frame in _tables.read_batches(data, text):
            yield fitted[:-1].transform(_columns.chosen(frame, columns, data))

    return predict_source(fitted[-1], batches, out, overwrite=force, progress=sys.stderr.isatty())


def too_large(data: Path) -> bool:
    """Whether a table would take more than half of the memory that is free."""
    from fuzzytwin.tables import files as _tables

    try:
        return _tables.kind_of(data) != "libsvm" and 2 * _tables.file_size(data) > _free_memory()
    except (ValueError, OSError):
        return False  # reading it will tell what is wrong


def _free_memory() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            known = dict(line.split(":", 1) for line in file)
        return 1024.0 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return float("inf")


def same_file(facts: dict[str, Any], data: Path) -> bool:
    """Whether the data have the name of those that the model was trained on."""
    return os.path.basename(str(facts.get("data"))) == data.name


def has_column(path: Path, name: str) -> bool:
    """Whether a table has a column of this name."""
    from fuzzytwin.tables import files as _tables

    return name in _tables.column_names(path)


def check_output(path: Path | None, force: bool) -> None:
    """Refuse, before any work, an output that could not be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}; make it first.")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; take another name, or --force.")


def command_line() -> str:
    """The command that is running, as it was typed."""
    return shlex.join(["fuzzytwin", *sys.argv[1:]])
