"""Moments and positions on disk, so that a run that was killed can be resumed.

A checkpoint is a .npz file: arrays of numbers and one JSON text, nothing that runs when read.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse

from fuzzytwin._utils.files import replacing
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.packing import from_arrays, to_arrays
from fuzzytwin.chunked.parts import Part, Radii

FORMAT = 2
SCALARS = (str, bytes, bool, int, float, complex, types.NoneType)


class Checkpoint:
    """The state of a run.

    Parameters
    ----------
    path : path
        The file. Where it exists, the run is resumed from it.
    identity : dict of str to str
        The data and settings of the run. A file of others is refused and left as it is.

    Attributes
    ----------
    results : list of Part or Radii
        Results of the passes that are complete.
    part : Part, Radii or None
        Sum over the batches of the current pass.
    position : list of int
        File (or batch) and row where the pass continues.
    digest : int
        Checksum of the rows before it, of sources that have no other identity.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, str]) -> None:
        self.path, self.identity = Path(path), identity
        self.results: list[Part | Radii] = []
        self.part: Part | Radii | None = None
        self.position = [0, 0]
        self.digest = 0
        check_path(path)
        if self.path.exists():
            self._load()

    def save(self) -> None:
        """Write the file: the old one is replaced as a whole, or stays."""
        header = {
            "format": FORMAT,
            "identity": self.identity,
            "results": len(self.results),
            "part": self.part is not None,
            "position": self.position,
            "digest": self.digest,
        }
        arrays = {"header": np.array(json.dumps(header))}
        parts = {f"result{i}": result for i, result in enumerate(self.results)}
        if self.part is not None:
            parts["part"] = self.part
        for name, part in parts.items():
            arrays |= {f"{name}.{key}": array for key, array in to_arrays(part).items()}
        with replacing(self.path, overwrite=True) as draft, open(draft, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def _load(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                if header["format"] != FORMAT:
                    raise CheckpointError(
                        f"checkpoint={str(self.path)!r} has format {header['format']}, this "
                        f"fuzzytwin writes {FORMAT}; give another path, or delete the file to "
                        "start again."
                    )
                self._compare(header["identity"])
                self.results = [_read(file, f"result{i}") for i in range(header["results"])]
                self.part = _read(file, "part") if header["part"] else None
                self.position, self.digest = header["position"], header["digest"]
        except CheckpointError:
            raise
        except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is not a checkpoint of fuzzytwin, or is damaged; "
                "give another path, or delete the file to start again."
            ) from error

    def _compare(self, before: dict[str, str]) -> None:
        for name in {**self.identity, **before}:
            was, now = before.get(name), self.identity.get(name)
            if was != now:
                raise CheckpointError(
                    f"checkpoint={str(self.path)!r} belongs to other data or settings: {name} was "
                    f"{was} and is {now}. Give another path, or delete the file to start again."
                )


@public_in("fuzzytwin.sources")
class CheckpointError(ValueError):
    """A checkpoint that is damaged, or that belongs to another run."""


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a checkpoint that could not be written."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"checkpoint={str(path)!r} is a directory; name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint={str(path)!r}: there is no directory {target.parent}; make it first."
        )


def identify(parameters: dict[str, Any]) -> dict[str, str]:
    """Describe parameters by texts that are the same in every process, for equal contents alone.

    A function is described by its name; code is not compared.
    """
    texts = {}
    for name, value in parameters.items():
        try:
            texts[name] = describe(value)
        except (_UnknownContentsError, RecursionError):
            raise ValueError(
                f"{name}={value!r:.80} cannot be recognised when the run is resumed from its "
                "checkpoint; give plain values, arrays, or a function that an imported module "
                "defines at its top level (not a lambda, not in __main__), or leave out checkpoint."
            ) from None
    return texts


def describe(value: Any) -> str:
    """Describe a value by its contents: as it is printed where that is short, else by a hash."""
    plain = _plain(value)
    if callable(value) and isinstance(plain, str):
        return plain
    items = plain if isinstance(plain, list) else [plain]
    text = repr(plain) if all(isinstance(item, SCALARS) for item in items) else ""
    if 0 < len(text) <= 200:
        return text
    return f"{type(value).__name__} {joblib.hash(plain)}"


def _plain(value: Any) -> Any:
    """Turn a value into scalars, arrays, lists and dicts of them, for `joblib.hash`."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return [list(value.shape), _plain(value.tolist())]
        return np.ascontiguousarray(value)
    if sparse.issparse(value):
        rows = sparse.csr_array(value, copy=True)
        rows.sum_duplicates()
        arrays = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        return [_name(type(value)), list(value.shape), *arrays]
    if hasattr(value, "to_numpy"):  # a frame
        columns = list(getattr(value, "columns", ()))
        return [_name(type(value)), _plain(columns), _plain(value.to_numpy())]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(joblib.hash(_plain(item)) for item in value)
    if isinstance(value, dict):
        return {joblib.hash(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, np.random.RandomState):
        return ["RandomState", _plain(value.get_state(legacy=False))]
    if isinstance(value, np.random.Generator):
        return ["Generator", _plain(value.bit_generator.state)]
    if isinstance(value, functools.partial):
        return ["partial", *map(_plain, (value.func, value.args, value.keywords))]
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [_name(type(value)), _plain(value.get_params(deep=False))]
    return _name(value)


def _name(value: Any) -> str:
    """Give the name by which any process finds a function or a class."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is None or name is None or module == "__main__":
        raise _UnknownContentsError
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise _UnknownContentsError
    return f"{module}.{name}"


def _read(file: Any, name: str) -> Part | Radii:
    start = f"{name}."
    arrays: dict[str, Array] = {
        key.removeprefix(start): file[key] for key in file.files if key.startswith(start)
    }
    return from_arrays(arrays)


class _UnknownContentsError(Exception):
    """Nothing shows what is in a value, or only this process can find it."""
