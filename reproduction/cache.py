"""Results on disk, one small file each, so that a stopped run continues where it was.

A result is filed under a hash of everything it depends on: the function, its settings, the
version of the protocol and of the packages. So no stale result is ever read. Files are written
under another name first and then renamed, which is atomic. A file that is broken all the same, by
a power cut, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import fuzzytwin

Records = list[dict[str, Any]]

# Raise this whenever a change makes older results invalid.
PROTOCOL = 1


@dataclass(frozen=True, eq=False)
class Cell:
    """One unit of work: a function's name, its settings, and the file of its result.

    Parameters
    ----------
    function : str
        Module of this package and function, such as "uci.honest".
    settings : mapping
        Its keyword arguments, which JSON must be able to represent.
    alone : bool, default=False
        Whether it must run without others, because it measures time or needs much memory.
    """

    function: str
    settings: Mapping[str, Any]
    alone: bool = False

    @property
    def key(self) -> str:
        """Return all that the result depends on, as text."""
        parts = {"function": self.function, "settings": dict(self.settings), **_VERSIONS}
        return json.dumps(parts, sort_keys=True)

    @property
    def path(self) -> str:
        """Return the path of the result below the directory of the cache."""
        words = [str(value) for value in self.settings.values() if isinstance(value, (str, int))]
        readable = "-".join(word for word in words if word not in ("True", "False"))
        digest = hashlib.sha256(self.key.encode()).hexdigest()[:16]
        return f"{self.function}/{readable or 'all'}-{digest}.json"


class Cache:
    """Results of cells in a directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def get(self, cell: Cell) -> Any:
        """Load the result of a cell, or None if there is none that can be used."""
        entry = self._entry(cell)
        return None if entry is None else entry["result"]

    def seconds(self, cell: Cell) -> float:
        """Load the processor time that the result of a cell took."""
        entry = self._entry(cell)
        return 0.0 if entry is None else float(entry["seconds"])

    def _entry(self, cell: Cell) -> dict[str, Any] | None:
        try:
            with open(self.directory / cell.path, encoding="utf-8") as file:
                entry = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
            return None
        if not isinstance(entry, dict) or entry.get("key") != cell.key:
            return None
        return entry

    def put(self, cell: Cell, result: Any, seconds: float = 0.0) -> None:
        """Save a result and its processor time, whole or not at all."""
        entry = {"key": cell.key, "seconds": seconds, "result": result}
        write_whole(self.directory / cell.path, json.dumps(entry))


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file in one step: readers see the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8") if isinstance(text, str) else text
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


_VERSIONS = {
    "fuzzytwin": fuzzytwin.__version__, "numpy": np.__version__, "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__, "protocol": PROTOCOL,
}  # fmt: skip
