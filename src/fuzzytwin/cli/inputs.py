"""Check and open what the commands are given: models, tables and outputs."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzzytwin.sources.schema import Schema


def load_model(model: Path) -> tuple[Any, dict[str, Any]]:
    """Load a model and the facts that were saved with it."""
    from fuzzytwin import store

    facts = store.about(model).get("facts")
    return store.load(model), facts if isinstance(facts, dict) else {}


def schema_of(facts: dict[str, Any], data: Path) -> Schema:
    """Give the schema of a model; refuse data of another kind than it was trained on."""
    from fuzzytwin.sources.formats import known_kind
    from fuzzytwin.sources.schema import Schema

    if "schema" not in facts:
        raise ValueError(
            "the model was not made by `fuzzytwin train`, so its columns are not known; use it "
            "from Python: fuzzytwin.store.load."
        )
    schema = Schema.from_dict(facts["schema"])
    sparse = schema.zero_based is not None
    if sparse != (known_kind(data) == "libsvm"):
        raise ValueError(
            f"{data} is {'no' if sparse else ''} LIBSVM text, but the model was trained on "
            f"{'LIBSVM text' if sparse else 'a table with named columns'}; give such a file."
        )
    return schema


def too_large(data: Path) -> bool:
    """Return whether a table would take more than half of the available memory."""
    from fuzzytwin._utils.memory import available_memory
    from fuzzytwin.sources.formats import known_kind
    from fuzzytwin.tables.files import file_size

    try:
        return known_kind(data) != "libsvm" and 2 * file_size(data) > available_memory()
    except (ValueError, OSError):
        return False  # reading it reports what is wrong


def same_file(facts: dict[str, Any], data: Path) -> bool:
    """Return whether the data have the name of those that the model was trained on."""
    return os.path.basename(str(facts.get("data"))) == data.name


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a table."""
    from fuzzytwin.sources.formats import open_table

    return list(open_table(path).schema.names)


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
    """Give the command that is running, as it was typed."""
    return shlex.join(["fuzzytwin", *sys.argv[1:]])
