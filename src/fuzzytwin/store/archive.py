"""The archive around a model: entries as announced, stored as they are, under a checksum."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from scipy import sparse

from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.version import __version__

FORMAT = 1
FACTS = "fuzzytwin.json"
SCHEMA = "schema.json"
# Comes at the very end of a file, followed by the SHA-256 of everything before the digest.
MARK = b"fuzzytwin model, sha256 "


@public_in("fuzzytwin.store")
class ModelFileError(ValueError):
    """A model file that cannot or must not be opened, or a model that must not be saved."""


def seal(content: bytes, page: dict[str, Any]) -> bytes:
    """Add a page of facts and a checksum to what skops wrote."""
    buffer = io.BytesIO(_uncompressed(content))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(FACTS, json.dumps(page, indent=1))
        archive.comment = MARK + b"0" * 64
    body = buffer.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def unseal(content: bytes, name: object) -> tuple[dict[str, Any], Any]:
    """Read the facts and the schema of a file, after checking that it is whole.

    Parameters
    ----------
    content : bytes
        The file.
    name : object
        What to call it in errors.

    Raises
    ------
    ModelFileError
        If it is damaged, holds entries that it does not announce, or is of a newer format.
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


def schema_of(content: bytes) -> Any:
    """Read the schema of what skops wrote."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(archive.read(SCHEMA))


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


def _uncompressed(content: bytes) -> bytes:
    """Write the archive again, with the arrays of sparse matrices stored as they are."""
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
