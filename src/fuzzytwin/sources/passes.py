"""A pass over a source: batches in, one sum out, with checkpoints and errors that name rows."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.threads import each
from fuzzytwin._utils.types import Array
from fuzzytwin.chunked.fit import first_pass
from fuzzytwin.chunked.parts import Labels, add
from fuzzytwin.sources.batches import Batch
from fuzzytwin.sources.checkpoint import Checkpoint, CheckpointError
from fuzzytwin.sources.readers import Source


class Passes:
    """Passes over the batches of a source, with checkpoints; gives the `total` of `learn`.

    Parameters
    ----------
    source : Source
        Gives the batches.
    classes : ndarray or None
        All labels, where no others are allowed.
    kept : Checkpoint or None
        Where to keep the state.
    every : int
        Batches between two writings of it.
    progress : bool
        Report on stderr.
    """

    def __init__(
        self,
        source: Source,
        classes: Array | None,
        kept: Checkpoint | None,
        every: int,
        progress: bool,
    ) -> None:
        self.source, self.classes, self.kept = source, classes, kept
        self.every, self.progress = every, progress
        self.number = 0  # of the current pass, from 1
        self.rows: int | None = None  # of a whole pass

    def total(self, function: Any, *shared: Any) -> Any:
        """Add up a function of each batch: see `fuzzytwin.chunked.fit.Total`."""
        self.number += 1
        kept = self.kept
        if kept is not None and len(kept.results) >= self.number:
            return kept.results[self.number - 1]
        total = None if kept is None else kept.part
        whole = kept is None or kept.position == [0, 0]
        name = f"pass {self.number}"
        # Batches are worked on by threads, and added in their order. They are closed here, lest the
        # garbage collector do it in the very thread that reads ahead.
        with (
            Progress(name, self.source.rows, "rows", wanted=self.progress) as bar,
            closing(self._batches()) as batches,
            closing(each(partial(_work, function, shared), batches)) as done,
        ):
            for count, (batch, part, error) in enumerate(done, start=1):
                self._check(function, batch, total)
                try:
                    if error is not None:
                        raise error
                    total = add([total, part])
                except (ValueError, TypeError) as problem:
                    raise type(problem)(located(batch, problem)) from problem
                bar.advance(len(batch))
                if kept is not None:
                    place = batch.place
                    kept.part, kept.position = total, [place.unit, place.first + len(batch)]
                    if count % self.every == 0:
                        kept.save()
        if whole and self.rows not in (None, bar.done):
            raise ValueError(
                f"{name} over the source read {bar.done} rows, the first one {self.rows}; give a "
                "function that returns the same batches each time."
            )
        self.rows = bar.done if whole else None
        if total is None:
            raise ValueError("the source is empty: it has no rows; give some of two classes.")
        if kept is not None:
            kept.results.append(total)
            kept.part, kept.position, kept.digest = None, [0, 0], 0
            kept.save()
        return total

    def _batches(self) -> Generator[Batch, None, None]:
        """Read the batches that are left of a pass."""
        kept = self.kept
        if self.source.identity() is not None:
            yield from _ahead(self.source.batches(*(kept.position if kept else (0, 0))))
        elif kept is None:
            yield from self.source.batches()
        else:
            yield from self._skipped(kept)

    def _skipped(self, kept: Checkpoint) -> Iterator[Batch]:
        """Skip the batches before the position; their checksum shows whether they are the same."""
        start, goal, digest = kept.position, kept.digest, 0
        skipping = start != [0, 0]
        for batch in self.source.batches():
            digest = _checksum(batch, digest)
            place = [batch.place.unit, batch.place.first + len(batch)]
            if not skipping:
                kept.digest = digest
                yield batch
            elif place >= start:
                _check_digest(kept, place == start and digest == goal)
                skipping = False
        _check_digest(kept, not skipping)

    def _check(self, function: Any, batch: Batch, total: Any) -> None:
        """Refuse labels of two kinds, and labels that are not among the classes."""
        if function is not first_pass:
            return
        values = batch.y.values if isinstance(batch.y, Labels) else np.asarray(batch.y)
        text = values.dtype.kind not in "biuf"
        if total is not None and len(values) and text != (total.labels.dtype.kind not in "biuf"):
            raise ValueError(
                f"{batch.place.rows(len(batch))}: labels such as {_first(values)!r} are not of the "
                f"kind read before, such as {_first(total.labels)!r}; write them alike."
            )
        if self.classes is None:
            return
        unknown = np.setdiff1d(values, self.classes)
        if len(unknown):
            of_rows = values[batch.y.codes] if isinstance(batch.y, Labels) else values
            row = np.flatnonzero(of_rows == unknown[0])[0]
            raise ValueError(
                f"{batch.place.row(row)}: label {_first(unknown)!r} is not among "
                f"classes={self.classes.tolist()}; add it there, or leave out such rows."
            )


def _work(
    function: Any, shared: tuple[Any, ...], batch: Batch
) -> tuple[Batch, Any, Exception | None]:
    """Return a batch and the function of it, or the error that it raised."""
    try:
        return batch, function(*shared, batch.X, batch.y, batch.weight, batch.degrees), None
    except (ValueError, TypeError) as error:
        return batch, None, error


def _first(values: Any) -> Any:
    """Give the first of some labels, as Python prints it."""
    return values[:1].tolist()[0]


def located(batch: Batch, error: Exception) -> str:
    """Give the message of an error, with the row that is the cause if one is."""
    place = batch.place
    X = batch.X
    if hasattr(X, "columns"):  # a frame, in which the model may allow gaps
        return f"{place.rows(len(batch))}: {error}"
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        bad = np.flatnonzero(~np.isfinite(X.data))
        if len(bad):
            row = np.searchsorted(X.indptr, bad[0], side="right") - 1
            return _not_finite(place.row(row), X.indices[bad[0]], X.data[bad[0]], batch.names)
    elif X.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
        row, column = np.argwhere(~finite)[0]
        return _not_finite(place.row(row), column, X[row, column], batch.names)
    for name, values, most in (("weight", batch.weight, np.inf), ("degree", batch.degrees, 1.0)):
        values = np.asarray(values if values is not None else 0.0)
        if values.dtype.kind in "biuf" and values.shape[:1] == (len(batch),):
            table = values.reshape(len(batch), -1)
            wrong = np.argwhere(~((table >= 0) & (table <= most) & np.isfinite(table)))
            if len(wrong):
                what = "weights of at least 0" if name == "weight" else "degrees in [0, 1]"
                return (
                    f"{place.row(wrong[0][0])}: the {name} is {table[tuple(wrong[0])]}; give "
                    f"finite {what}."
                )
            empty = np.flatnonzero(~table.any(axis=1))
            if name == "degree" and table.shape[1] > 1 and len(empty):
                return (
                    f"{place.row(empty[0])}: the soft labels are all 0, so the row belongs to no "
                    "class; leave it out."
                )
    return f"{place.rows(len(batch))}: {error}"


def _not_finite(row: str, column: Any, value: Any, names: tuple[str, ...] | None) -> str:
    name = f"column {int(column)}" if names is None else f"column {names[column]!r}"
    return f"{row}: {name} holds {value}; fill in such values or leave out such rows."


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Give the same batches, while another thread reads the next one."""
    box: queue.Queue[Any] = queue.Queue(1)
    stop = threading.Event()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                box.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for batch in batches:
                put(batch)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:  # raised again where the batches are used
            put(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while (item := box.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        reader.join()


def _check_digest(kept: Checkpoint, same: bool) -> None:
    if not same:
        raise CheckpointError(
            f"checkpoint={str(kept.path)!r} belongs to other data: the batches that it has learned "
            "differ from these. Give another path, or delete the file to start again."
        )


def _checksum(batch: Batch, before: int) -> int:
    """Continue the checksum of the batches before with that of a batch."""
    X = batch.X
    arrays = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    y = batch.y
    arrays += [y.values, y.codes] if isinstance(y, Labels) else [y]
    arrays += [part for part in (batch.weight, batch.degrees) if part is not None]
    for part in map(np.asarray, arrays):
        data = repr(part.tolist()).encode() if part.dtype.kind == "O" else part.tobytes()
        before = zlib.crc32(data, before)
    return before


def digest_of(source: Source) -> str:
    """Describe the files of a source by a text that no others have."""
    identity = source.identity()
    if identity is None:
        return "batches"
    text = json.dumps(identity).encode()
    return f"{len(identity)} file(s) with digest {hashlib.sha256(text).hexdigest()[:16]}"
