"""Write files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Create a new empty file next to `path`, which becomes `path` if the block succeeds.

    Where the block fails, or the process is asked to stop (Ctrl-C, SIGTERM), the draft is removed
    and an existing file stays as it was. A file that is replaced keeps its permissions.

    Raises
    ------
    FileExistsError
        If the file exists and `overwrite` is not set.
    IsADirectoryError, FileNotFoundError, ValueError
        If `path` is a directory, is in none, or is a device.
    OSError
        If the disk is full, even where the block hid that behind an error of its own.

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
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} is a device or a pipe, which cannot be replaced; name a file.")
    refuse_existing(target, path, overwrite)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    with _exit_on_sigterm():
        try:
            _create(draft, private=target.exists())
            yield draft
            with open(draft, "rb+") as file:
                os.fsync(file.fileno())
            refuse_existing(target, path, overwrite)
            if target.exists():
                _copy_permissions(target.stat(), draft)
            os.replace(draft, target)
        except Exception as error:
            if (cause := _no_space(error)) is not None:
                full = OSError(f"{path} was not written: {os.strerror(cause)}; free some space.")
                full.errno = cause
                raise full from error
            raise
        finally:
            draft.unlink(missing_ok=True)


def refuse_existing(target: Path, path: object, overwrite: bool) -> None:
    """Raise a FileExistsError where a file would be lost."""
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists already; take another name, or replace it by overwrite=True (on the "
            "command line: --force)."
        )


def _create(draft: Path, private: bool) -> None:
    try:
        mode = 0o600 if private else 0o666
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no directory {draft.parent}; make it first.") from None


def _copy_permissions(before: os.stat_result, draft: Path) -> None:
    """Give the draft the owner, group and mode of the file that it replaces."""
    mode = stat.S_IMODE(before.st_mode)
    if os.name == "posix":
        try:
            os.chown(draft, before.st_uid, before.st_gid)
        except PermissionError:
            if draft.stat().st_gid != before.st_gid:
                mode &= ~stat.S_IRWXG  # another group must not gain access
    os.chmod(draft, mode)


def _no_space(error: BaseException | None) -> int | None:
    """Find the errno of a full disk among the causes of an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return error.errno
        error = error.__cause__ or error.__context__
    return None


@contextlib.contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process by SystemExit, so that `finally` clauses run.

    Only where the program has not decided otherwise: a handler of its own stays.
    """
    decided = signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    if decided or threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
