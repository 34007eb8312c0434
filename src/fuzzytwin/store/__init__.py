"""Model files that are safe to open, and models in ONNX.

A model file is a zip archive in the format of skops, with a page of facts about the model and a
checksum. It names the types of what it holds; `load` builds objects of this library's, of
scikit-learn's and of numpy's and scipy's types and refuses any other, before anything is built.
Nothing in this package ever unpickles a file. Needs skops (the extra store).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

import fuzzytwin
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.files import replacing
from fuzzytwin.store.onnx import to_onnx

__all__ = ["ModelFileError", "ModelVersionWarning", "about", "load", "save", "to_onnx"]

FORMAT = 1
FACTS = "fuzzytwin.json"
SCHEMA = "schema.json"
# Stands at the very end of a file, followed by the SHA-256 of all that comes before it.
MARK = b"fuzzytwin model, sha256 "

# Sparse rows, which landmarks may be.
SPARSE = frozenset(
    f"scipy.sparse._{kind}.{kind}_{form}"
    for kind in ("csr", "csc", "coo")
    for form in ("array", "matrix")
)
# Types that a file may name beyond those that skops trusts by default, which are scikit-learn's
# estimators, numpy's and scipy's arrays, and plain containers.
TRUSTED = SPARSE | frozenset(
    {
        "fuzzytwin.FuzzyTwinSVC",
        "fuzzytwin.moments.TwinMoments",
        "fuzzytwin.FuzzyTwinSVCCV",
        "fuzzytwin.GEPSVC",
        "fuzzytwin.LeastSquaresTwinSVC",
        "fuzzytwin.ProximalSVC",
        "fuzzytwin.TwinSVC",
        "fuzzytwin.kernels.LandmarkMap",
        "fuzzytwin.memberships.CenterMembership",
        "fuzzytwin.memberships.EntropyMembership",
        "fuzzytwin.memberships.HyperplaneMembership",
        "fuzzytwin.memberships.IntuitionisticMembership",
        "fuzzytwin.memberships.NeighborMembership",
        "fuzzytwin.moments.ClassMoments",
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
BUILTINS = frozenset(
    {
        "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "slice",
        "str", "tuple",
    }
)  # fmt: skip
PACKAGES = frozenset({"numpy", "scipy", "sklearn"})


class ModelFileError(ValueError):
    """A model file that cannot or must not be opened, or a model that must not be saved."""


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions of the packages it rests on."""


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to a file that `load` opens safely.

    The file is written whole or not at all. Moments are kept, so that `partial_fit` and `merge`
    go on where the model left off.

    Parameters
    ----------
    model : estimator
        Of this library, or of scikit-learn around one (a `Pipeline`, say). A callable membership
        or kernel of your own cannot be saved: a file must not bring code along.
    path : path-like
        Where to write. By custom the name ends in ``.skops``.
    overwrite : bool, default=False
        Replace a file that is there.
    facts : mapping, default=None
        What else to remember about the model, ready for JSON; `about` gives it back.

    Raises
    ------
    ModelFileError
        If the model holds something that `load` would refuse.
    FileExistsError
        If the file is there and `overwrite` is not set.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_xor
    >>> from fuzzytwin.store import load, save
    >>> X, y, degrees = make_xor(random_state=0)
    >>> model = FuzzyTwinSVC(planes="fuzzy").fit(X, y, membership=degrees)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "xor.skops")
    ...     again = load(Path(folder) / "xor.skops")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    sio = need_skops()
    if not isinstance(model, BaseEstimator):
        remedy = "a model or a pipeline of one"
        if hasattr(model, "to_sklearn"):
            remedy = "what its to_sklearn() returns"
        raise ModelFileError(
            f"{model!r:.80} is no estimator of scikit-learn's kind; save {remedy}."
        )
    try:
        content = sio.dumps(model)
    except Exception as error:
        reason = f"the model cannot be saved: {_first_line(error)}"
        raise ModelFileError(_blame(sio, model) or reason) from error
    strange = _refused(sio, content)
    if strange:
        raise ModelFileError(
            _blame(sio, model)
            or f"the model holds {strange[0]}, which a file that is safe to open cannot bring "
            "along; use steps of scikit-learn's own and plain numbers and arrays."
        )
    content = _unpacked(content)
    page = {
        "format": FORMAT,
        "model": type(model).__name__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "facts": dict(facts or {}),
    }
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(FACTS, json.dumps(page, indent=1))
        archive.comment = MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    with replacing(path, overwrite=overwrite) as draft:
        draft.write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model that `save` wrote.

    Everything is checked before anything is built: the checksum, the list of entries, the
    versions, and every type that the file names. The checksum shows damage; it is no signature:
    a stranger's file may still hold a bad model, but none that runs code.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of another format or from a newer fuzzytwin, or names a
        type that is not trusted. One line says which.

    Warns
    -----
    ModelVersionWarning
        If another version of scikit-learn, numpy or fuzzytwin wrote it.
    """
    sio = need_skops()
    content, page, schema = _read(path)
    for name in _strange(schema):
        raise ModelFileError(
            f"{path} names {name}, which is not trusted; it was not opened. Ask where the file "
            "comes from."
        )
    _check_versions(path, page)
    try:
        unknown = sorted(set(sio.get_untrusted_types(data=content)) - TRUSTED)
        if unknown:
            raise ModelFileError(
                f"{path} names {unknown[0]}, which is not trusted; it was not opened."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # told already
            model = sio.loads(content, trusted=sorted(TRUSTED))
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(
            f"{path} cannot be opened: {type(error).__name__}: {_first_line(error)}"
        ) from error
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{path} holds a {type(model).__name__}, which is no model.")
    return model


def about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says of itself: versions, date and facts. No model is built.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict
        With the keys "model", "saved", "versions", "facts" and "format".

    Raises
    ------
    ModelFileError
        If it is no model file, or damaged.
    """
    return _read(path)[1]


def versions() -> dict[str, str]:
    """Versions of the packages that a model rests on."""
    return {
        "fuzzytwin": fuzzytwin.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def _read(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, Any], Any]:
    """Bytes, facts and schema of a file that is whole and holds nothing that is not announced."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {path}; check the name.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a directory; name a model file in it.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
    mark = content[-64 - len(MARK) : -64]
    if mark != MARK:
        if not content.startswith(b"PK"):
            raise ModelFileError(
                f"{path} is no model file of fuzzytwin; pickles and files of other libraries are "
                "never opened. Make one with fuzzytwin train, or with fuzzytwin.store.save."
            )
        raise ModelFileError(
            f"{path} is cut short, changed, or was not written by fuzzytwin.store.save; save the "
            "model again."
        )
    if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
        raise ModelFileError(f"{path} is damaged: its checksum does not fit. Take another copy.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            # Stored as they are, each once: no entry can unfold to more than the file's size.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or sum(
                entry.file_size for entry in entries
            ) > len(content):
                raise ModelFileError(f"{path} has packed entries, which save never writes.")
            page = json.loads(archive.read(FACTS))
            schema = json.loads(archive.read(SCHEMA))
            announced = {SCHEMA, FACTS, *_entries(schema)}
            names = [entry.filename for entry in entries]
            if len(set(names)) < len(names) or set(names) != announced:
                odd = sorted(set(names) ^ announced) or sorted(names)
                raise ModelFileError(
                    f"{path} holds other entries than it announces ({odd[0]!r:.80}); it was not "
                    "opened."
                )
            for name in names:
                if name.endswith(".npz"):
                    _check_sparse(path, archive.read(name))
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"{path} is damaged: {_first_line(error)}") from error
    if not isinstance(page, dict) or not isinstance(page.get("format"), int):
        raise ModelFileError(f"{path} does not say what format it has; it was not opened.")
    if page["format"] > FORMAT:
        theirs = page.get("versions")
        wanted = theirs.get("fuzzytwin", "?") if isinstance(theirs, dict) else "?"
        raise ModelFileError(
            f"{path} has format {page['format']}, written by fuzzytwin {wanted!s:.20}; this is "
            f"fuzzytwin {fuzzytwin.__version__}: install the newer one."
        )
    return content, page, schema


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every table of the schema, wherever it stands."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _strange(schema: Any) -> Iterator[str]:
    """Names in the schema that are not trusted, built or not, used or not."""
    for node in _nodes(schema):
        if "__loader__" not in node and "__class__" not in node:
            continue
        loader, module = node.get("__loader__"), node.get("__module__")
        name = f"{module}.{node.get('__class__')}"
        package = str(module).partition(".")[0]
        if package == "builtins":
            known = node.get("__class__") in BUILTINS
        elif package == "collections":
            known = name == "collections.OrderedDict"
        else:
            known = name in TRUSTED or package in PACKAGES
        if not known:
            yield f"{name:.80}"
        elif loader not in LOADERS or (
            # Sparse matrices are built by their own loader alone, which builds nothing else.
            loader != "CachedNode" and (name in SPARSE) != (loader == "SparseMatrixNode")
        ):
            yield f"{name:.80} (as {loader!s:.40})"


def _refused(sio: Any, content: bytes) -> list[str]:
    """Names in what skops wrote that `load` would not trust."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        strange = sorted(set(_strange(json.loads(archive.read(SCHEMA)))))
    return strange or sorted(set(sio.get_untrusted_types(data=content)) - TRUSTED)


def _blame(sio: Any, model: Any) -> str | None:
    """Which parameter keeps a model from being saved, and the remedy; None if none does."""
    parameters = {"the model": model, **model.get_params(deep=True)}
    for name, value in parameters.items():
        if type(value).__module__ == "fuzzytwin.dask":
            return (
                f"{name} is a fuzzytwin.dask.FuzzyTwinSVC, which a file cannot bring along; save "
                "what its to_sklearn() returns."
            )
    for name, whole in parameters.items():
        for value in whole if isinstance(whole, (list, tuple)) else [whole]:
            if not _can_be_saved(sio, value):
                shown = repr(value)
                if "\n" in shown or len(shown) > 80:
                    shown = f"<{type(value).__name__}>"
                return (
                    f"{name}={shown} cannot be saved, as a file that is safe to open brings no "
                    f"code and no foreign types along; {_remedy(name, value)}."
                )
    return None


def _can_be_saved(sio: Any, value: Any) -> bool:
    if hasattr(value, "fit") or isinstance(value, (list, tuple)):
        return True  # a model's parameters are looked at one by one
    try:
        return not _refused(sio, sio.dumps(value))
    except Exception:
        return False


def _remedy(name: str, value: Any) -> str:
    """What to give in place of a parameter that cannot be saved."""
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


def _unpacked(content: bytes) -> bytes:
    """The same archive, with the arrays of sparse matrices stored as they are."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as before,
        zipfile.ZipFile(buffer, "w") as after,
    ):
        for name in before.namelist():
            entry = before.read(name)
            if name.endswith(".npz"):
                plain = io.BytesIO()
                sparse.save_npz(plain, sparse.load_npz(io.BytesIO(entry)), compressed=False)
                entry = plain.getvalue()
            after.writestr(name, entry)
    return buffer.getvalue()


def _check_sparse(path: object, content: bytes) -> None:
    """Refuse arrays of a sparse matrix that are packed, or that point outside of it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or sum(
            entry.file_size for entry in entries
        ) > len(content):
            raise ModelFileError(f"{path} has packed entries, which save never writes.")
    matrix = sparse.load_npz(io.BytesIO(content))
    if matrix.format in ("csr", "csc"):
        matrix.check_format(full_check=True)
    elif matrix.format != "coo":  # which is checked when it is made
        raise ModelFileError(f"{path} holds a sparse matrix of a kind that save never writes.")


def _entries(schema: Any) -> Iterator[str]:
    for node in _nodes(schema):
        if "__loader__" in node and isinstance(node.get("file"), str):
            yield node["file"]


def _check_versions(path: str | os.PathLike[str], page: dict[str, Any]) -> None:
    theirs, ours = page.get("versions"), versions()
    theirs = theirs if isinstance(theirs, dict) else {}
    other = [
        f"{name} {theirs.get(name, '?')!s:.20} (here {ours[name]})"
        for name in ("fuzzytwin", "scikit-learn", "numpy")
        if str(theirs.get(name)).split(".")[:2] != ours[name].split(".")[:2]
    ]
    if other:
        warnings.warn(
            f"{path} was saved with {', '.join(other)}; its answers may differ: compare some, or "
            "train it again.",
            ModelVersionWarning,
            stacklevel=3,
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def need_skops() -> ModuleType:
    """Import skops, or say how to install it."""
    return need("skops.io", "store", "a model file")
