"""The archive of a model file: its checksum, its entries, and the types that it may contain.

Entries are stored uncompressed, and are exactly those that the schema of skops lists. Types that
are not trusted are an error.
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
from sklearn.base import BaseEstimator

import fuzzytwin
from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.text import cut
from fuzzytwin._utils.version import __version__
from fuzzytwin.committee._trees import TreeEnsemble
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.memberships import MEMBERSHIPS

FORMAT = 1
METADATA = "fuzzytwin.json"
SCHEMA = "schema.json"
# What `add_checksum` writes besides the format.
HEADER = {"model": str, "saved": str, "versions": dict, "landmarks": int, "metadata": dict}
# The end of a file, followed only by the SHA-256 of everything before the digest.
MARK = b"fuzzytwin model, sha256 "


class ModelFileError(ValueError):
    """Raised if a model file cannot be opened safely, or a model cannot be saved safely."""


def add_checksum(content: bytes, header: dict[str, Any]) -> bytes:
    """Add a header and a checksum to what skops wrote."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(METADATA, json.dumps(header, indent=1))
        archive.comment = MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def verify(content: bytes, name: object) -> tuple[dict[str, Any], Any]:
    """Verify the checksum and the entries of a file, and return its header and its schema.

    Raises a `ModelFileError` that mentions `name` if the file is damaged, contains entries that its
    schema does not list, or has a newer format.
    """
    _verify_checksum(content, name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_stored(archive, len(content), name)
            header = json.loads(archive.read(METADATA))
            schema = json.loads(archive.read(SCHEMA))
            _check_entries(archive.namelist(), schema, name)
            _check_references(schema, name)
            for node in nodes(schema):
                if "__loader__" in node and isinstance(node.get("file"), str):
                    _check_array(node, archive.read(node["file"]), name)
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"{name} is damaged: {first_line(error)}") from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise ModelFileError(f"{name} has no format number; it was not loaded.")
    for key, kind in HEADER.items():
        if not isinstance(header.get(key, kind()), kind):
            raise ModelFileError(f"{name} is damaged: its {key!r} is no {kind.__name__}.")
    if header["format"] > FORMAT:
        versions = header.get("versions")
        version = versions.get("fuzzytwin", "?") if isinstance(versions, dict) else "?"
        raise ModelFileError(
            f"{name} has format {header['format']}, written by fuzzytwin {version!s:.20}; this is "
            f"fuzzytwin {__version__}. Install the newer version."
        )
    return header, schema


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every dict of a nested schema."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _verify_checksum(content: bytes, name: object) -> None:
    if content[-64 - len(MARK) : -64] != MARK:
        if not content.startswith(b"PK"):
            raise ModelFileError(
                f"{name} is not a model file of fuzzytwin; pickles and files of other libraries "
                "are never loaded. Create one with fuzzytwin train or fuzzytwin.store.save."
            )
        raise ModelFileError(
            f"{name} is truncated, was changed, or was not written by fuzzytwin.store.save; save "
            "the model again."
        )
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise ModelFileError(f"{name} is damaged: checksum mismatch. Copy or save it again.")


def _check_stored(archive: zipfile.ZipFile, size: int, name: object) -> None:
    """Raise an error for compressed or overlapping entries, which could expand beyond memory."""
    entries = archive.infolist()
    compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if compressed or sum(entry.file_size for entry in entries) > size:
        raise ModelFileError(f"{name} contains compressed entries, which save never writes.")


def _check_entries(names: list[str], schema: Any, name: object) -> None:
    listed = {SCHEMA, METADATA}
    for node in nodes(schema):
        if "__loader__" in node and isinstance(node.get("file"), str):
            listed.add(node["file"])
    if len(set(names)) < len(names) or set(names) != listed:
        unexpected = sorted(set(names) ^ listed) or sorted(names)
        raise ModelFileError(
            f"the entries of {name} differ from those that it lists ({unexpected[0]!r:.80}); it "
            "was not loaded."
        )


def _check_references(schema: Any, name: object) -> None:
    """Raise an error if an object is written again with another number of nodes than before.

    skops builds an object once, but walks through it wherever it is written. A short node that
    stands for a long one, which skops does not write, could multiply the walk without end.
    """
    sizes: dict[Any, int] = {}

    def size(node: Any) -> int:
        if not isinstance(node, (dict, list)):
            return 0
        own = 1 + sum(map(size, node.values() if isinstance(node, dict) else node))
        number = node.get("__id__") if isinstance(node, dict) else None
        if number and sizes.setdefault(number, own) != own:
            raise ModelFileError(f"{name} refers to one object by nodes that differ.")
        return own

    size(schema)


def _check_array(node: dict[str, Any], content: bytes, name: object) -> None:
    """Check an entry as its loader reads it, whatever its name."""
    if node.get("__loader__") == "SparseMatrixNode":
        _check_sparse(content, name)
    elif node.get("__loader__") != "NdArrayNode" or not content.startswith(b"\x93NUMPY"):
        raise ModelFileError(f"{name} contains an entry {node['file']!r:.80} that is no array.")


def _check_sparse(content: bytes, name: object) -> None:
    """Raise an error for a sparse matrix with compressed arrays or with indices out of bounds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_stored(archive, len(content), name)
    matrix = sparse.load_npz(io.BytesIO(content))
    if matrix.format in ("csr", "csc"):
        matrix.check_format(full_check=True)
    elif matrix.format != "coo":  # scipy checks this format itself
        raise ModelFileError(f"{name} contains a sparse matrix of a format that save never writes.")


def public_module(kind: type) -> str:
    """Return the public module of a class.

    Files name classes by it, so that they can still be loaded after private modules are moved.
    """
    return kind.__module__.partition("._")[0]


def _public_names(schema: bytes) -> bytes:
    """Replace the private modules of our classes in a schema by the public ones."""
    decoded = json.loads(schema)
    for node in nodes(decoded):
        module = node.get("__module__")
        if isinstance(module, str) and module.startswith("fuzzytwin."):
            node["__module__"] = module.partition("._")[0]
    return json.dumps(decoded).encode()


def dump(model: Any) -> bytes:
    """Dump a model by skops, with public module names and uncompressed sparse matrices."""
    content = import_skops().dumps(model)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            entry = source.read(name)
            if name == SCHEMA:
                entry = _public_names(entry)
            if name.endswith(".npz"):
                uncompressed = io.BytesIO()
                sparse.save_npz(uncompressed, sparse.load_npz(io.BytesIO(entry)), compressed=False)
                entry = uncompressed.getvalue()
            target.writestr(name, entry)
    return buffer.getvalue()


# Sparse matrices, such as landmarks.
SPARSE = frozenset(
    f"scipy.sparse._{kind}.{kind}_{form}"
    for kind in ("csr", "csc", "coo")
    for form in ("array", "matrix")
)
# Attributes of our estimators that are neither arrays nor estimators.
PARTS = (TreeEnsemble, ClassMoments, LandmarkMap, TwinMoments)


def public_classes() -> Iterator[type]:
    """Yield the public estimators and memberships of `fuzzytwin`."""
    public = [getattr(fuzzytwin, name) for name in fuzzytwin.__all__]
    for kind in dict.fromkeys([*public, *MEMBERSHIPS.values()]):
        if isinstance(kind, type) and not inspect.isabstract(kind):
            yield kind


# Types that a file may name beyond those that skops trusts by default, which are scikit-learn's
# estimators, numpy's and scipy's arrays, and plain containers.
TRUSTED = frozenset(
    {
        *SPARSE,
        *(f"{public_module(kind)}.{kind.__name__}" for kind in (*PARTS, *public_classes())),
        "fuzzytwin.tables._preprocessor.TablePreprocessor",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer._RemainderColsList",
    }
)
# Loaders of skops that a file may use. Those of methods, partials, operators and reduced
# constructors are excluded: no model of ours needs them, and they call what a file names.
LOADERS = frozenset(
    {
        "DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode",
        "MaskedArrayNode", "NdArrayNode", "ObjectNode", "RandomGeneratorNode", "RandomStateNode",
        "SetNode", "SliceNode", "SparseMatrixNode", "TupleNode", "TypeNode",
    }
)  # fmt: skip
# Types that a schema may name: these, and those of PACKAGES, which skops checks itself.
NAMES = TRUSTED.union(
    (f"builtins.{kind.__name__}" for kind in (bool, bytes, complex, float, int, slice, str)),
    (f"builtins.{kind.__name__}" for kind in (dict, frozenset, list, set, tuple)),
    ["collections.OrderedDict"],
)
PACKAGES = frozenset({"numpy", "scipy", "sklearn"})


def import_skops() -> ModuleType:
    """Import skops, or raise an ImportError with the command to install it."""
    return import_optional("skops.io", "store", "a model file")


def untrusted(schema: Any) -> Iterator[str]:
    """Yield the types in a schema that are not trusted, whether they are used or not."""
    for node in nodes(schema):
        if "__loader__" not in node and "__class__" not in node:
            continue
        loader = node.get("__loader__")
        module = node.get("__module__")
        kind = node.get("__class__")
        name = f"{module}.{kind}"
        trusted = name in NAMES or name.partition(".")[0] in PACKAGES
        if not isinstance(module, str) or not isinstance(kind, str) or not trusted:
            yield f"{name:.80}"
            continue
        # Sparse matrices have their own loader, which builds nothing else.
        has_wrong_loader = (name in SPARSE) != (loader == "SparseMatrixNode")
        is_trusted = isinstance(loader, str) and loader in LOADERS
        if not is_trusted or has_wrong_loader:
            yield f"{name:.80} (as {loader!s:.40})"


def untrusted_types(content: bytes) -> list[str]:
    """List the types in what skops wrote that `load` would not trust."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = set(untrusted(json.loads(archive.read(SCHEMA))))
    return sorted(names or set(import_skops().get_untrusted_types(data=content)) - TRUSTED)


def unsavable_parameter(model: BaseEstimator) -> str | None:
    """Name the parameter because of which a model cannot be saved, and a remedy, if there is one.

    Estimators among the parameters are checked by their own parameters.
    """
    for name, value in model.get_params().items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(part, "fit") or isinstance(part, (list, tuple)) or _can_be_saved(part):
                continue
            shown = cut(" ".join(repr(part).split()), 80)
            return (
                f"{name}={shown} cannot be saved, because model files contain no code and only "
                "trusted types; use a name such as 'rbf', numbers, a NumPy array or an estimator "
                "of scikit-learn."
            )
    return None


def _can_be_saved(value: object) -> bool:
    try:
        return not untrusted_types(dump(value))
    except Exception:
        return False
