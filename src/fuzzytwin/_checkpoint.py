"""Moments and positions on disk, so that a run that was killed goes on where it was.

A checkpoint is a .npz file: arrays of numbers and one JSON text, nothing that runs when read.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzytwin._classifier import TwinMoments
from fuzzytwin._files import replacing
from fuzzytwin._parts import Part, Radii
from fuzzytwin.moments import ClassMoments

Array = NDArray[Any]

FORMAT = 1
_FIELDS = ("weight", "origin", "offset", "covariance")


class Checkpoint:
    """What a run has come to so far.

    Parameters
    ----------
    path : path
        The file. Where it exists, the run goes on from there.
    identity : dict of str to str
        What data and settings belong to. A file of others is refused and left as it is.

    Attributes
    ----------
    results : list
        What passes that are over came to.
    part : Part, Radii or None
        What the pass under way has come to.
    position : list of int
        File (or batch) and row where it goes on.
    digest : int
        Checksum of the rows behind it, of sources that nothing else tells apart.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, str]) -> None:
        self.path, self.identity = Path(path), identity
        self.results: list[Any] = []
        self.part: Any = None
        self.position = [0, 0]
        self.digest = 0
        if self.path.exists():
            self._load()

    def save(self) -> None:
        """Write it: the old file is replaced as a whole, or stays."""
        arrays: dict[str, Array] = {}
        header = {
            "format": FORMAT,
            "identity": self.identity,
            "results": [_pack(r, f"result{i}", arrays) for i, r in enumerate(self.results)],
            "part": _pack(self.part, "part", arrays),
            "position": self.position,
            "digest": self.digest,
        }
        with replacing(self.path, overwrite=True) as draft, open(draft, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]

    def _load(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                header = json.loads(str(arrays["header"]))
                if header["format"] != FORMAT:
                    raise ValueError(f"format {header['format']} is unknown")
                self._compare(header["identity"])
                self.results = [_unpack(r, arrays) for r in header["results"]]
                self.part = _unpack(header["part"], arrays)
                self.position, self.digest = header["position"], header["digest"]
        except _OtherRunError:
            raise
        except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is no checkpoint that can be read ({error}); "
                "give another path, or delete the file to start anew."
            ) from error

    def _compare(self, before: dict[str, str]) -> None:
        for name in {**self.identity, **before}:
            was, now = before.get(name), self.identity.get(name)
            if was != now:
                raise _OtherRunError(
                    f"checkpoint={str(self.path)!r} belongs to other data or settings: {name} was "
                    f"{was} and is {now}. Give another path, or delete the file to start anew."
                )


class _OtherRunError(ValueError):
    """The checkpoint is in order, but not of this run."""


def describe(value: Any) -> str:
    """A parameter as text that is the same in every process."""
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype}{value.shape}"
        return f"{kind} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _pack(result: Any, name: str, arrays: dict[str, Array]) -> Any:
    if result is None:
        return None
    if isinstance(result, Radii):
        arrays[name] = result.values
        return {"kind": "radii", "name": name}
    parts = result.moments.parts()
    for number, part in enumerate(parts):
        for field in _FIELDS if part is not None else ():
            if parts.index(part) == number:
                arrays[f"{name}.{number}.{field}"] = getattr(part, field)
    arrays[f"{name}.held"] = result.held
    labels = result.labels
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise ValueError(
                f"checkpoint cannot hold labels such as {labels[0]!r}; use whole numbers or "
                "strings as labels."
            )
        labels = labels.astype(str)
    arrays[f"{name}.labels"] = labels
    return {
        "kind": "part", "name": name, "n_features": result.n_features, "soft": result.soft,
        "objects": result.labels.dtype.kind == "O",
        # Which of the moments are one and the same, and which are absent.
        "same": [None if part is None else parts.index(part) for part in parts],
    }  # fmt: skip


def _unpack(packed: Any, arrays: Any) -> Any:
    if packed is None:
        return None
    name = packed["name"]
    if packed["kind"] == "radii":
        return Radii(arrays[name])
    moments: list[Any] = []
    for number, same in enumerate(packed["same"]):
        if same is None:
            moments.append(None)
        elif same < number:
            moments.append(moments[same])
        else:
            moments.append(ClassMoments(*(arrays[f"{name}.{number}.{f}"] for f in _FIELDS)))
    labels = arrays[f"{name}.labels"]
    return Part(
        labels.astype(object) if packed["objects"] else labels,
        arrays[f"{name}.held"],
        TwinMoments(*moments),
        packed["n_features"],
        packed["soft"],
    )
