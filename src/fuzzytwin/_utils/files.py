"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Hand out a new empty file beside `path`, which becomes `path` if the block ends well.

    Where the block fails, nothing is left behind and a file that was there stays as it was.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin._utils.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as draft:
    ...         _ = draft.write_text("done")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    refuse_existing(target, path, overwrite)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no directory {target.parent}; make it first.") from None
    try:
        yield draft
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        refuse_existing(target, path, overwrite)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def refuse_existing(target: Path, path: object, overwrite: bool) -> None:
    """Raise a FileExistsError where a file would be lost."""
    if target.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; take another name or allow to overwrite it.")
