"""What a model file may hold.

An archive of entries as announced, stored as they are, under a checksum; and in it types that are
trusted, and no others.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import zipfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from scipy import sparse

import fuzzytwin
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.version import __version__
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.memberships import MEMBERSHIPS

FORMAT = 1
FACTS = "fuzzytwin.json"
SCHEMA = "schema.json"
# Comes at the very end of a file, followed by the SHA-256 of everything before the digest.
MARK = b"fuzzytwin model, sha256 "


class ModelFileError(ValueError):
    """A model file that cannot or must not be opened, or a model that must not be saved."""


def seal(content: bytes, page: dict[str, Any]) -> bytes:
    """Add a page of facts and a checksum to what skops wrote."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(FACTS, json.dumps(page, indent=1))
        archive.comment = MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def unseal(content: bytes, name: object) -> tuple[dict[str, Any], Any]:
    """Read the facts and the schema of a file, after checking that it is whole.

    One that is damaged, holds entries that it does not announce, or is of a newer format gets a
    `ModelFileError`, which calls it by `name`.
    """
    _check_checksum(content, name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_stored(archive, len(content), name)
            page = json.loads(archive.read(FACTS))
            schema = json.loads(archive.read(SCHEMA))
            _check_entries(archive.namelist(), schema, name)
            for entry in archive.namelist():
                if entry.endswith(".npz"):
                    _check_sparse(archive.read(entry), name)
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"{name} is damaged: {first_line(error)}") from error
    if not isinstance(page, dict) or not isinstance(page.get("format"), int):
        raise ModelFileError(f"{name} has no format number; it was not opened.")
    if page["format"] > FORMAT:
        theirs = page.get("versions")
        wanted = theirs.get("fuzzytwin", "?") if isinstance(theirs, dict) else "?"
        raise ModelFileError(
            f"{name} has format {page['format']}, written by fuzzytwin {wanted!s:.20}; this is "
            f"fuzzytwin {__version__}: install the newer one."
        )
    return page, schema


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Walk over every table of a schema, however deep."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def first_line(error: BaseException) -> str:
    """Give the first line of an error's text, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _check_checksum(content: bytes, name: object) -> None:
    if content[-64 - len(MARK) : -64] != MARK:
        if not content.startswith(b"PK"):
            raise ModelFileError(
                f"{name} is not a model file of fuzzytwin; pickles and files of other libraries "
                "are never opened. Make one with fuzzytwin train, or with fuzzytwin.store.save."
            )
        raise ModelFileError(
            f"{name} is cut short, changed, or was not written by fuzzytwin.store.save; save the "
            "model again."
        )
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise ModelFileError(f"{name} is damaged: its checksum does not fit. Take another copy.")


def _check_stored(archive: zipfile.ZipFile, size: int, name: object) -> None:
    """Refuse compressed or overlapping entries: none may unfold to more than the file's size."""
    entries = archive.infolist()
    compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if compressed or sum(entry.file_size for entry in entries) > size:
        raise ModelFileError(f"{name} has compressed entries, which save never writes.")


def _check_entries(names: list[str], schema: Any, name: object) -> None:
    announced = {SCHEMA, FACTS}
    for node in nodes(schema):
        if "__loader__" in node and isinstance(node.get("file"), str):
            announced.add(node["file"])
    if len(set(names)) < len(names) or set(names) != announced:
        odd = sorted(set(names) ^ announced) or sorted(names)
        raise ModelFileError(
            f"{name} holds other entries than it announces ({odd[0]!r:.80}); it was not opened."
        )


def _check_sparse(content: bytes, name: object) -> None:
    """Refuse arrays of a sparse matrix that are compressed, or that point outside of it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_stored(archive, len(content), name)
    matrix = sparse.load_npz(io.BytesIO(content))
    if matrix.format in ("csr", "csc"):
        matrix.check_format(full_check=True)
    elif matrix.format != "coo":  # which is checked when it is made
        raise ModelFileError(f"{name} holds a sparse matrix of a kind that save never writes.")


def public_module(kind: type) -> str:
    """Return the module from which users import a class: that of its file, without private parts.

    Files name classes by it, so that they can be read after private modules were moved.
    """
    return kind.__module__.partition("._")[0]


def _public_names(schema: bytes) -> bytes:
    """Name our classes in a schema as users import them."""
    page = json.loads(schema)
    for node in nodes(page):
        module = node.get("__module__")
        if isinstance(module, str) and module.startswith("fuzzytwin."):
            node["__module__"] = module.partition("._")[0]
    return json.dumps(page).encode()


def dump(model: Any) -> bytes:
    """Write a model as skops does, with public names and arrays of sparse matrices as they are."""
    content = need_skops().dumps(model)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w") as after:
        for name in before.namelist():
            entry = before.read(name)
            if name == SCHEMA:
                entry = _public_names(entry)
            if name.endswith(".npz"):
                plain = io.BytesIO()
                sparse.save_npz(plain, sparse.load_npz(io.BytesIO(entry)), compressed=False)
                entry = plain.getvalue()
            after.writestr(name, entry)
    return buffer.getvalue()


# Sparse rows, which landmarks may be.
SPARSE = frozenset(
    f"scipy.sparse._{kind}.{kind}_{form}"
    for kind in ("csr", "csc", "coo")
    for form in ("array", "matrix")
)
# What estimators of this library hold beside arrays.
PARTS = (ClassMoments, LandmarkMap, TwinMoments)


def public_classes() -> Iterator[type]:
    """List the estimators and memberships that `fuzzytwin` offers, by name or as objects."""
    offered = [getattr(fuzzytwin, name) for name in fuzzytwin.__all__]
    for kind in dict.fromkeys([*offered, *MEMBERSHIPS.values()]):
        if isinstance(kind, type) and not inspect.isabstract(kind):
            yield kind


# Types that a file may name beyond those that skops trusts by default, which are scikit-learn's
# estimators, numpy's and scipy's arrays, and plain containers.
TRUSTED = frozenset(
    {
        *SPARSE,
        *(f"{public_module(kind)}.{kind.__name__}" for kind in (*PARTS, *public_classes())),
        "fuzzytwin.data.preprocessor.TablePreprocessor",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer._RemainderColsList",
    }
)
# How skops may build a thing. Methods, partials, operators and reduced constructors are left
# out: no model of ours needs them, and they call what a file names.
LOADERS = frozenset(
    {
        "CachedNode", "DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode",
        "MaskedArrayNode", "NdArrayNode", "ObjectNode", "RandomGeneratorNode", "RandomStateNode",
        "SetNode", "SliceNode", "SparseMatrixNode", "TupleNode", "TypeNode",
    }
)  # fmt: skip
# Names that a schema may have: the types above, and all of these packages, which skops judges.
NAMES = TRUSTED.union(
    (f"builtins.{kind.__name__}" for kind in (bool, bytes, complex, float, int, slice, str)),
    (f"builtins.{kind.__name__}" for kind in (dict, frozenset, list, set, tuple)),
    ["collections.OrderedDict"],
)
PACKAGES = frozenset({"numpy", "scipy", "sklearn"})


def need_skops() -> ModuleType:
    """Import skops, or say how to install it."""
    return need("skops.io", "store", "a model file")


def untrusted(schema: Any) -> Iterator[str]:
    """Find the names in a schema that are not trusted, built or not, used or not."""
    for node in nodes(schema):
        if "__loader__" not in node and "__class__" not in node:
            continue
        loader, module, kind = map(node.get, ("__loader__", "__module__", "__class__"))
        name = f"{module}.{kind}"
        known = name in NAMES or name.partition(".")[0] in PACKAGES
        if not isinstance(module, str) or not isinstance(kind, str) or not known:
            yield f"{name:.80}"
        elif not isinstance(loader, str) or loader not in LOADERS or (
            # Sparse matrices are built by their own loader alone, which builds nothing else.
            loader != "CachedNode" and (name in SPARSE) != (loader == "SparseMatrixNode")
        ):  # fmt: skip
            yield f"{name:.80} (as {loader!s:.40})"


def untrusted_types(content: bytes) -> list[str]:
    """List the names in what skops wrote that `load` would not trust."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = set(untrusted(json.loads(archive.read(SCHEMA))))
    return sorted(found or set(need_skops().get_untrusted_types(data=content)) - TRUSTED)


def reason(model: Any) -> str | None:
    """Say which parameter keeps a model from being saved, and the remedy; None if none does."""
    parameters = {"the model": model, **model.get_params(deep=True)}
    for name, whole in parameters.items():
        if type(whole).__module__.startswith("fuzzytwin.engines.dask"):
            return (
                f"{name} is a fuzzytwin.dask.{type(whole).__name__}, which a file cannot hold; "
                "save what its to_sklearn() returns."
            )
        for value in whole if isinstance(whole, (list, tuple)) else [whole]:
            if not _can_be_saved(value):
                shown = repr(value)
                if "\n" in shown or len(shown) > 80:
                    shown = f"<{type(value).__name__}>"
                return (
                    f"{name}={shown} cannot be saved, as a file that is safe to open holds no code "
                    f"and no foreign types; {_remedy(name, value)}."
                )
    return None


def _can_be_saved(value: Any) -> bool:
    if hasattr(value, "fit") or isinstance(value, (list, tuple)):
        return True  # a model's parameters are looked at one by one
    try:
        return not untrusted_types(dump(value))
    except Exception:
        return False


def _remedy(name: str, value: Any) -> str:
    """Say what to give in place of a parameter that cannot be saved."""
    last = name.rpartition("__")[2]
    if last in ("kernel", "kernels"):
        return 'use a kernel with a name, such as "rbf"'
    if last in ("membership", "memberships"):
        return "give the membership by name or the degrees to fit"
    if last == "n_landmarks" or sparse.issparse(value) or hasattr(value, "to_numpy"):
        return "give it as a NumPy array or as a CSR matrix"
    if callable(value):
        return "use a step of scikit-learn's own that does the same"
    return "give plain numbers, texts or arrays"
