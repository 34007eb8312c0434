"""What the commands share: the files that they are given, and those that they write."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.progress import Progress

if TYPE_CHECKING:
    from fuzzytwin.data.files import Need
    from fuzzytwin.data.schema import Schema


def load_model(model: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model and the facts that were saved with it.

    Of a pipeline that was saved from Python, the schema is that of its `TablePreprocessor`.
    """
    from sklearn.pipeline import Pipeline

    from fuzzytwin import store

    saved = store.about(model).get("facts")
    facts = dict(saved) if isinstance(saved, dict) else {}
    fitted = store.load(model)
    if "schema" not in facts and isinstance(fitted, Pipeline):
        facts |= _learned_facts(fitted)
    return fitted, facts


def _learned_facts(pipeline: Any) -> dict[str, Any]:
    """Give the schema of the preprocessor that a fitted pipeline begins with, if it has one."""
    from dataclasses import replace

    from fuzzytwin.data.predict_source import learned_schema
    from fuzzytwin.data.schema import Schema, label_key

    learned = learned_schema(pipeline)
    if learned is None or not hasattr(pipeline, "classes_"):
        return {}
    labels = {label_key(str(label)): label for label in pipeline.classes_.tolist()}
    return {"schema": replace(Schema.from_dict(learned), labels=labels).as_dict()}


def schema_of(facts: dict[str, Any], data: Path) -> Schema:
    """Give the schema of a model; refuse data of another kind than it was trained on."""
    from fuzzytwin.data.files import known_format
    from fuzzytwin.data.schema import Schema

    if "schema" not in facts:
        raise ValueError(
            "the model does not know the columns of its table; save one that begins with a "
            "TablePreprocessor, or use it from Python: fuzzytwin.store.load."
        )
    schema = Schema.from_dict(facts["schema"])
    sparse = schema.zero_based is not None
    if sparse == known_format(data).named:
        raise ValueError(
            f"{data} is {'not ' if sparse else ''}LIBSVM text, but the model was trained on "
            f"{'LIBSVM text' if sparse else 'a table with named columns'}; give such a file."
        )
    return schema


def check_outputs(data: Path, out: Path | None, report: Path | None, force: bool) -> None:
    """Refuse, before any work, outputs that could not be written, or would replace the data."""
    if out is not None and report is not None and report.resolve() == out.resolve():
        raise ValueError(f"--out and --report both name {out}; give the report another name.")
    for path in (out, report):
        if path is not None and path.resolve() == data.resolve():
            raise ValueError(f"{path} is the table itself; give another name.")
        check_output(path, force)


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


def write_file(path: Path, content: str | bytes, force: bool) -> None:
    """Write a file, complete or not at all."""
    from fuzzytwin._utils.files import replacing

    with replacing(path, overwrite=force) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def write_table(path: Path, frame: Any, force: bool) -> None:
    """Write a frame or an Arrow table."""
    from fuzzytwin.data.cells import pa
    from fuzzytwin.data.writers import write_tables

    is_frame = not hasattr(frame, "num_rows")
    table = pa.Table.from_pandas(frame, preserve_index=False) if is_frame else frame
    write_tables(path, [table], force)


def too_large(data: Path, named: Sequence[str], sheet: str | None) -> Need | None:
    """Return what a file needs if that is more than there is; None if it fits or is unreadable."""
    from fuzzytwin.data.files import known_format, memory_need

    try:
        if not known_format(data).named:
            return None
        need = memory_need(data, named, sheet)
    except (ValueError, OSError, ImportError):
        return None  # reading it reports what is wrong
    return need if need.too_much else None


def note(text: object) -> None:
    """Tell people what was not asked for, beside the output."""
    print(f"note: {text}.", file=sys.stderr, flush=True)


def command_line() -> str:
    """Give the command that is running, as it was typed."""
    return shlex.join(["fuzzytwin", *sys.argv[1:]])


def progress(total: int | None) -> Progress:
    """Make a progress bar for people; nothing is shown where no terminal is."""
    return Progress("starting", total, wanted=sys.stderr.isatty(), transient=True)
