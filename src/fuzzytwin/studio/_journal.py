"""Every decision on disk at once: an append-only file of JSON lines beside the data."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

VERSION = 1
MARK = b'{"fuzzytwin_reviews": '  # with which every journal begins
MIN_MARK = len(b'{"fuzzytwin_')  # of an unfinished first line, to tell it from other files
Event = dict[str, Any]


class JournalError(ValueError):
    """A journal that cannot be used."""


class Journal:
    """Events of one table, each flushed to the disk before `append` returns.

    The first line names the data, and every further line is one event with its number. A line that
    is missing, doubled or cannot be read is refused, except the last one: whole lines that are cut
    off at the end cannot be told. An unfinished last line, as a process leaves that is killed while
    it writes, is moved to a file .bak beside it, which `notes` say. A last line that lacks only its
    newline gets one. A file is changed only after all of its other lines were read as those of a
    journal. If another program moves, deletes, replaces or changes the file while it is open,
    `append` refuses with an OSError.

    `about` describes the data in the first line of a new file, which gets the permissions `mode`. A
    journal whose "target" or "sheet" is another one gets a `JournalError`. `head` is the first
    line, `events` are the others, oldest first.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.studio._journal import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv.reviews.jsonl"
    ...     with Journal(path, {"target": "label"}) as journal:
    ...         journal.append({"action": "keep", "row": 3})
    ...     with Journal(path, {"target": "label"}) as journal:
    ...         journal.events
    [{'action': 'keep', 'row': 3}]
    """

    def __init__(self, path: str | os.PathLike[str], about: Event, mode: int = 0o666) -> None:
        self.path = Path(path)
        self.mode = mode
        self.events: list[Event] = []
        self.notes: list[str] = []
        if self.path.is_dir():
            raise JournalError(f"{self.path} is a directory; move it away.")
        self.head: Event = {"fuzzytwin_reviews": VERSION, **about}
        # Unbuffered, so that a line is in the file as soon as it is written.
        opener = partial(os.open, mode=mode)
        self._file: BinaryIO = open(self.path, "ab+", buffering=0, opener=opener)  # noqa: SIM115
        try:
            _lock(self._file, self.path)
            self._file.seek(0)
            text = self._file.read()
            self._size = len(text)
            self._open(text, about)
        except BaseException:
            self._file.close()
            raise

    def _open(self, text: bytes, about: Event) -> None:
        """Read what the file holds; finish or cut off its last line once all others are read."""
        end = text.rfind(b"\n") + 1
        lines, last = text[:end].splitlines(), text[end:]
        unended = _is_event(last)  # an editor, or a copy, may leave out the newline
        if unended:
            lines.append(last)
        if lines:
            self.head = self._check(lines[0], about)
            numbered = enumerate(lines[1:], start=2)
            self.events = [self._read_event(line, number) for number, line in numbered]
        elif last and not _begins_journal(last):
            raise self._foreign()
        if unended:
            self._append(b"\n")
        elif last:
            self._move_to_backup(end, last)
        if not lines:
            self._write(self.head)
            _flush_folder(self.path.parent)

    def append(self, event: Event) -> None:
        """Add an event; it is on the disk when this returns."""
        self._write({"number": len(self.events) + 1, **event})
        self.events.append(event)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, event: Event) -> None:
        self._append(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        self._check_file(self._size)
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(f"{self.path}: the disk is full; free some space.")
            os.fsync(self._file.fileno())
            self._check_file(self._size + len(line))
        except OSError:
            self._file.truncate(self._size)  # half a line must not spoil the next one
            raise
        self._size += len(line)

    def _check_file(self, size: int) -> None:
        """Raise an OSError if the open file is not the one of this name and size."""
        here = os.fstat(self._file.fileno())
        problem = "was changed"
        try:
            if not os.path.samestat(here, os.stat(self.path)):
                problem = "was replaced"
            elif here.st_size == size:
                return
        except FileNotFoundError:
            problem = "was moved or deleted"
        raise OSError(
            f"{self.path} {problem} by another program. Bring it back if you can, and start the "
            "studio again."
        )

    def _move_to_backup(self, end: int, last: bytes) -> None:
        """Cut off an unfinished last line, once a file beside the journal holds it."""
        backup = self.path.with_name(f"{self.path.name}.bak")
        with open(backup, "ab", opener=partial(os.open, mode=self.mode)) as file:
            file.write(last + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._file.truncate(end)
        self._size = end
        self.notes.append(f"An unfinished line was cut off from the journal. {backup} holds it.")

    def _read(self, line: bytes, number: int) -> Event:
        if not _is_event(line):
            raise self.damaged(number)
        event: Event = json.loads(line)
        return event

    def _read_event(self, line: bytes, number: int) -> Event:
        event = self._read(line, number)
        if not isinstance(event.get("action"), str):
            raise self.damaged(number)
        if event.pop("number", None) != number - 1:
            raise self.damaged(number, "misses a line, or has one twice,")
        return event

    def _check(self, line: bytes, about: Event) -> Event:
        if not line.startswith(MARK):
            raise self._foreign()
        head = self._read(line, 1)
        version = head["fuzzytwin_reviews"]
        if version != VERSION:
            raise JournalError(
                f"{self.path} is of version {version!r}, this program writes {VERSION}; update "
                "fuzzytwin."
            )
        for name in ("target", "sheet"):
            if head.get(name) != about.get(name):
                raise JournalError(
                    f"{self.path} belongs to other data: its {name} is {head.get(name)!r}, not "
                    f"{about.get(name)!r}; give that --{name}, or move the journal away."
                )
        return head

    def damaged(self, number: int, what: str = "is damaged") -> JournalError:
        """Return the error that a line of the file cannot be used."""
        return JournalError(
            f"{self.path} {what} in line {number}; repair it or move the file away."
        )

    def _foreign(self) -> JournalError:
        return JournalError(
            f"{self.path} is not a journal of the studio and was not changed; move it away."
        )


def journal_path(data: str | os.PathLike[str]) -> Path:
    """Return the journal of a file: DATA.reviews.jsonl beside it, whatever links lead there."""
    path = Path(os.path.realpath(data))
    return path.with_name(f"{path.name}.reviews.jsonl")


def _begins_journal(line: bytes) -> bool:
    """Return whether an unfinished line is the first one of a journal."""
    return len(line) >= MIN_MARK and MARK.startswith(line[: len(MARK)])


def _is_event(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):  # of deeply nested brackets
        return False


def _lock(file: BinaryIO, path: Path) -> None:
    """Refuse a journal that another studio has open, if the system can tell."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise JournalError(
            f"{path} is open in another studio; close that one, or use its page."
        ) from None


def _flush_folder(folder: Path) -> None:
    """Make sure that the name of a new file survives a power cut, if the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
