"""Input and output files of the commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.files import check_writable
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.text import wrapped

if TYPE_CHECKING:
    from fuzzytwin.experiment import Experiment
    from fuzzytwin.tables import TableReader, TableSchema


def load_model(model: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model and the metadata that was saved with it.

    If a pipeline was saved from Python, its `TablePreprocessor` gives the schema.
    """
    from sklearn.pipeline import Pipeline

    from fuzzytwin import store

    saved = store.read_metadata(model).get("metadata")
    metadata = dict(saved) if isinstance(saved, dict) else {}
    fitted = store.load(model)
    if "schema" not in metadata and isinstance(fitted, Pipeline):
        metadata |= _schema_metadata(fitted)
    return fitted, metadata


def _schema_metadata(pipeline: Any) -> dict[str, Any]:
    """Return the schema of the preprocessor at the start of a fitted pipeline, if there is one."""
    from dataclasses import replace

    from fuzzytwin.files._predict import learned_schema
    from fuzzytwin.tables._columns import label_key
    from fuzzytwin.tables._schema import TableSchema

    learned = learned_schema(pipeline)
    if learned is None or not hasattr(pipeline, "classes_"):
        return {}
    labels = {label_key(str(label)): label for label in pipeline.classes_.tolist()}
    return {"schema": replace(TableSchema.from_dict(learned), labels=labels).to_dict()}


@contextmanager
def reading_metadata(model: Path) -> Iterator[None]:
    """Raise one clear error if metadata are not as `train` writes them."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the metadata of {model} are not those of train ({type(error).__name__}: {error}); "
            "train the model again."
        ) from error


def schema_of(metadata: dict[str, Any]) -> TableSchema:
    """Return the schema of a model."""
    from fuzzytwin.tables import TableSchema

    if "schema" not in metadata:
        raise ValueError(
            "the model file has no table schema; save a pipeline that starts with a "
            "TablePreprocessor, or use the model in Python with fuzzytwin.store.load."
        )
    return TableSchema.from_dict(metadata["schema"])


def reading_like(schema: TableSchema, reading: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `read_table` for a model: marks for missing values add to its own."""
    return {**reading, "missing": [*schema.missing, *reading["missing"]]}


def check_outputs(
    files: Sequence[Path], out: Path | None, report: Path | None, force: bool
) -> None:
    """Raise an error, before any work, if outputs cannot be written or would replace the data."""
    if out is not None and report is not None and report.resolve() == out.resolve():
        raise ValueError(f"--out and --report are both {out}; use different names.")
    inputs = {Path(name).resolve() for file in files for name in _files(file)}
    for path in (out, report):
        if path is not None and path.resolve() in inputs:
            raise ValueError(f"{path} is the input file; choose another name.")
        check_output(path, force)


def check_output(path: Path | None, force: bool) -> None:
    """Raise an error, before any work, if an output cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; choose a file name.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"directory not found: {path.parent}")
    if path.exists() and not force:
        raise FileExistsError(f"{path} already exists; use --force to overwrite it.")
    check_writable(path)


def write_file(path: Path, content: str | bytes, force: bool, inputs: Iterable[str]) -> None:
    """Write a file that was made of `inputs`."""
    from fuzzytwin._utils.files import atomic_write

    with atomic_write(path, overwrite=force, inputs=inputs) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_table(path: Path, frame: Any, force: bool, reader: TableReader | None = None) -> None:
    """Write a data frame or an Arrow table. Text files get the style of the input."""
    from fuzzytwin.tables._parse import pa
    from fuzzytwin.tables._writer import output_style, write_tables

    is_frame = not hasattr(frame, "num_rows")
    table = pa.Table.from_pandas(frame, preserve_index=False) if is_frame else frame
    write_tables(path, [table], force, **output_style(reader))


def is_chunked(
    experiment: Experiment, stream: bool | None, needs_memory: Sequence[str] = ()
) -> bool:
    """Return whether a table is read in chunks, with a note unless the user chose it.

    `needs_memory` are options that need all rows at once: with them, it is an error.
    """
    if not experiment.stream:
        return False
    large = f"{experiment.path} holds more than 256 MiB of numbers"
    if needs_memory:
        raise ValueError(
            f"{large}, and {needs_memory[0]} needs all rows in memory; omit it, or use --no-stream."
        )
    if not stream:
        note(f"{large}, so it is read in chunks (--stream)")
    return True


def _files(path: Path) -> list[str]:
    """List the files of a path, a folder or a glob, or the path itself if there are none."""
    from fuzzytwin.tables._reader import list_files

    try:
        return list_files(path)
    except (ValueError, OSError):
        return [str(path)]


def note(text: object) -> None:
    """Print a note to stderr."""
    print(wrapped(f"note: {text}.", sys.stderr), file=sys.stderr, flush=True)


def command_line() -> str:
    """Return the running command as it was typed."""
    return shlex.join(["fuzzytwin", *sys.argv[1:]])


def progress(total: int | None) -> Progress:
    """Make a progress bar on the terminal."""
    return Progress("starting", total, enabled=sys.stderr.isatty(), transient=True)
