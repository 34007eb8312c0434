"""Write files atomically."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
STALE_SECONDS = 24 * 3600  # no process writes a file for longer without changing its draft


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> Iterator[Path]:
    """Create a new empty file next to `path`, which becomes `path` if the block succeeds.

    If the block fails, or the process is asked to stop (Ctrl-C, SIGTERM), the draft is removed and
    an existing file is not changed. A file that is replaced keeps its permissions. A new one gets
    those of `output_mode`: whoever cannot read the `inputs` cannot read what was made of them.

    Raises
    ------
    FileExistsError
        If the file exists and `overwrite` is not set.
    IsADirectoryError, FileNotFoundError, ValueError
        If `path` is a directory, its directory does not exist, or it is a device.
    OSError
        If the disk is full, even if the block raised another error because of that.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin._utils.files import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as draft:
    ...         _ = draft.write_text("done")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} is a device or a pipe, which cannot be replaced; name a file.")
    check_overwrite(target, path, overwrite)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    _remove_stale_drafts(target)
    with _exit_on_sigterm():
        try:
            mode = _create(draft, output_mode(inputs))
            yield draft
            with open(draft, "rb+") as file:
                os.fsync(file.fileno())
            check_overwrite(target, path, overwrite)
            if target.exists():
                _copy_permissions(target.stat(), draft)
            else:
                os.chmod(draft, mode)
            os.replace(draft, target)
        except Exception as error:
            if (cause := _no_space(error)) is not None:
                reason = os.strerror(cause)
                no_space = OSError(f"{path} was not written: {reason}; free some space.")
                no_space.errno = cause
                raise no_space from error
            raise
        finally:
            draft.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an OSError, before any work, if no file can be written where `path` is to be."""
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))) as file:
            file.write(bytes(4096))
    except FileNotFoundError:
        pass  # `atomic_write` says that there is no directory
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}; choose another folder or free space."
        ) from error


def check_overwrite(target: Path, path: object, overwrite: bool) -> None:
    """Raise a FileExistsError if a file would be overwritten."""
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{path} already exists; choose another name, or pass overwrite=True (on the command "
            "line: --force)."
        )


def _remove_stale_drafts(target: Path) -> None:
    """Remove the drafts of a file that killed processes left behind, a day or longer ago."""
    for draft in target.parent.glob(f".{glob.escape(target.name[:100])}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > STALE_SECONDS:
                draft.unlink()


def output_mode(inputs: Iterable[str | os.PathLike[str]]) -> int:
    """Return the mode to create a file with that holds data of `inputs`, before the umask."""
    mode = 0o666
    for path in inputs:
        with contextlib.suppress(OSError):  # not a local file
            status = os.stat(path)
            others = status.st_mode & 0o006
            same_group = os.name != "posix" or status.st_gid == os.getegid()
            # What a group may do that is not the group of our files, only others may do.
            group = status.st_mode & 0o060 if same_group else others << 3
            mode &= 0o600 | group | others
    return mode


def _create(draft: Path, mode: int) -> int:
    """Create a file that only its owner can read, and return the mode that it will get."""
    try:
        file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no directory {draft.parent}; make it first.") from None
    with open(file, "wb"):
        mode = stat.S_IMODE(os.fstat(file).st_mode)  # without the bits of the umask
        os.chmod(draft, 0o600)
    return mode


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

    A handler that the program has set itself is not replaced.
    """
    has_handler = signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    if has_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
