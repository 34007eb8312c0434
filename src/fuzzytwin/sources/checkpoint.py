"""Moments and positions on disk, so that a run that was killed goes on where it was.

A checkpoint is a .npz file: arrays of numbers and one JSON text, nothing that runs when read.
"""

from __future__ import annotations

import dis
import hashlib
import json
import os
import sys
import types
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fuzzytwin._utils.files import replacing
from fuzzytwin.chunked.parts import Part, Radii
from fuzzytwin.core.moments import ClassMoments, TwinMoments

Array = NDArray[Any]

FORMAT = 1
# Functions of these are known by their names.
_PACKAGES = ("fuzzytwin", "numpy", "scipy", "sklearn")
_PLAIN = (str, bytes, bool, int, float, complex, np.generic, np.ufunc, types.NoneType)
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
        check_path(path)
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
                    raise CheckpointError(
                        f"checkpoint={str(self.path)!r} has format {header['format']}, this "
                        f"fuzzytwin writes {FORMAT}; give another path, or delete the file to "
                        "start anew."
                    )
                self._compare(header["identity"])
                self.results = [_unpack(r, arrays) for r in header["results"]]
                self.part = _unpack(header["part"], arrays)
                self.position, self.digest = header["position"], header["digest"]
        except CheckpointError:
            raise
        except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is no checkpoint of fuzzytwin, or is damaged; "
                "give another path, or delete the file to start anew."
            ) from error

    def _compare(self, before: dict[str, str]) -> None:
        for name in {**self.identity, **before}:
            was, now = before.get(name), self.identity.get(name)
            if was != now:
                raise CheckpointError(
                    f"checkpoint={str(self.path)!r} belongs to other data or settings: {name} was "
                    f"{was} and is {now}. Give another path, or delete the file to start anew."
                )


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or that is not of this run."""


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
    """Parameters as text that is the same in every process, and another for other contents."""
    texts = {}
    for name, value in parameters.items():
        try:
            texts[name] = describe(value)
        except _UntoldError as error:
            raise ValueError(
                f"{name}={value!r:.80} cannot be told from others when the run goes on from its "
                f"checkpoint, as nothing shows what is in a {error}; give a plain function or "
                "value, or leave out checkpoint."
            ) from None
    return texts


def describe(value: Any, within: tuple[int, ...] = ()) -> str:
    """A value by its contents; `within` are the values that it is a part of."""
    if id(value) in within:
        return "itself"
    inner = partial(describe, within=(*within, id(value)))
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        # Objects have no bytes of their own.
        plain = value.dtype.kind != "O"
        data = np.ascontiguousarray(value).tobytes() if plain else inner(value.tolist()).encode()
        return f"{value.dtype}{value.shape} {_digest(data)}"
    if sparse.issparse(value):
        rows = sparse.csr_array(value, copy=True)
        rows.sum_duplicates()
        parts = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        return f"{kind} {value.dtype}{value.shape} {_digest(inner(parts).encode())}"
    if hasattr(value, "to_numpy"):
        columns = list(getattr(value, "columns", ()))
        return f"{kind} {inner(columns)} {inner(value.to_numpy())}"
    if isinstance(value, (list, tuple, set, frozenset)):
        texts = [inner(item) for item in value]
        # The order of a set differs from process to process.
        return _short(kind, sorted(texts) if isinstance(value, (set, frozenset)) else texts)
    if isinstance(value, dict):
        return _short(kind, [f"{inner(key)}: {inner(item)}" for key, item in value.items()])
    if isinstance(value, np.random.RandomState):
        return f"{kind} {inner(value.get_state(legacy=False))}"
    if isinstance(value, np.random.Generator):
        return f"{kind} {inner(value.bit_generator.state)}"
    if isinstance(value, types.CodeType):
        code = [value.co_code, value.co_names, value.co_consts]
        return f"code {_digest(inner(code).encode())}"
    if callable(value):
        return _described_code(value, inner)
    return _described_object(value, inner)


def _described_code(value: Any, inner: Any) -> str:
    """A function, a class or an object that can be called."""
    if isinstance(value, partial):
        return f"partial {inner([value.func, value.args, value.keywords])}"
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        own = value.__self__
        name = f"{value.__module__}.{value.__qualname__}"
        if own is None or isinstance(own, types.ModuleType):
            return name
        return f"{name} of {inner([own, getattr(value, '__func__', None)])}"
    if not isinstance(value, (types.FunctionType, type)):
        wrapped = getattr(value, "__wrapped__", None)
        return _described_object(value, inner) if wrapped is None else f"wrapped {inner(wrapped)}"
    name = f"{value.__module__}.{value.__qualname__}"
    if _is_installed(value.__module__):
        return name
    if isinstance(value, type):
        parts = [getattr(part, "__func__", part) for part in vars(value).values()]
        parts = [getattr(part, "fget", part) for part in parts]
        kept = [part for part in parts if isinstance(part, (types.FunctionType, *_PLAIN))]
        return f"{name} {_digest(inner([kept, value.__bases__]).encode())}"
    cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
    given = [value.__code__, value.__defaults__, value.__kwdefaults__, vars(value), cells]
    return f"{name} {_digest(inner([*given, *_looked_up(value)]).encode())}"


def _described_object(value: Any, inner: Any) -> str:
    """By the code of its type and what it holds; or as it is printed, if that is all there is."""
    text = repr(value)
    if isinstance(value, _PLAIN):
        return text
    if hasattr(value, "__dict__"):
        return f"{inner(type(value))} {inner(vars(value))}"
    if " at 0x" in text:
        raise _UntoldError(type(value).__name__)
    return f"{inner(type(value))} {text}"


def _looked_up(function: Any) -> Iterator[Any]:
    """Data, functions and classes that a function finds in its module, and does not change."""
    lines = [line for code in _codes(function.__code__) for line in dis.get_instructions(code)]
    changed = {line.argval for line in lines if line.opname == "STORE_GLOBAL"}
    read = {line.argval for line in lines if line.opname == "LOAD_GLOBAL"} - changed
    kinds = (*_PLAIN, np.ndarray, list, tuple, dict, types.FunctionType, type, partial)
    for name in sorted(read & set(function.__globals__)):
        value = function.__globals__[name]
        if isinstance(value, kinds) or sparse.issparse(value):
            yield name, value


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those that are defined in it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)


def _is_installed(module: str) -> bool:
    """Whether code is Python's own, or of this library or those it rests on."""
    package = module.partition(".")[0]
    return package in _PACKAGES or package in sys.stdlib_module_names


def _short(kind: str, texts: list[str]) -> str:
    whole = f"{kind}({', '.join(texts)})"
    return whole if len(whole) <= 200 else f"{kind} of {len(texts)} {_digest(whole.encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class _UntoldError(Exception):
    """Nothing tells what is in a value."""


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
