"""Works through cells, on several processes, with what is known already taken from disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from fuzzytwin.paper.cache import Cache, Cell

Tick = Callable[[str], None]


def work_through(cells: list[Cell], cache: Cache, jobs: int, progress: bool) -> int:
    """Compute and file the result of every cell that has none yet.

    Results do not depend on `jobs`: each cell runs on one thread and seeds itself. Cells that
    want to be alone run one after the other, when all others are done. Whatever is finished stays,
    also where the run is stopped. Returns how many results were known before.
    """
    missing = [cell for cell in cells if cache.get(cell) is None]
    together = [cell for cell in missing if not cell.alone]
    alone = [cell for cell in missing if cell.alone]
    with _bar(len(cells), len(cells) - len(missing), progress) as tick:
        for cell in _computed(together, cache, jobs):
            tick(cell.path)
        for cell in alone:
            compute(cell, cache)
            tick(cell.path)
    return len(cells) - len(missing)


def compute(cell: Cell, cache: Cache) -> None:
    """Run one cell on one thread and file its result."""
    module, function = cell.function.split(".")
    with threadpool_limits(1):
        work = getattr(import_module(f"fuzzytwin.paper.{module}"), function)
        start = time.process_time()
        result = work(**cell.settings)
        cache.put(cell, result, time.process_time() - start)


def _computed(cells: list[Cell], cache: Cache, jobs: int) -> Iterator[Cell]:
    if jobs == 1 or len(cells) < 2:
        for cell in cells:
            compute(cell, cache)
            yield cell
        return
    work = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(compute)(cell, cache) for cell in cells
    )
    for cell, _ in zip(cells, work, strict=True):
        yield cell


def _bar(total: int, known: int, progress: bool) -> AbstractContextManager[Tick]:
    if not progress:
        return nullcontext(lambda _: None)
    if sys.stderr.isatty():
        try:
            return _RichBar(total, known)
        except ImportError:
            pass
    return _PlainBar(total, known)


class _RichBar(AbstractContextManager[Tick]):
    def __init__(self, total: int, known: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}"), console=Console(stderr=True),
        )  # fmt: skip
        self.task = self.bar.add_task("", total=total, completed=known)

    def __enter__(self) -> Tick:
        self.bar.start()
        return self._tick

    def _tick(self, what: str) -> None:
        short = what.rsplit("-", 1)[0].replace("/", ": ")
        self.bar.update(self.task, advance=1, description=short)

    def __exit__(self, *error: object) -> None:
        self.bar.update(self.task, description="")
        self.bar.stop()


class _PlainBar(AbstractContextManager[Tick]):
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int, known: int) -> None:
        self.total, self.done = total, known
        self.terminal = sys.stderr.isatty()
        self.told = self.start = time.monotonic()

    def __enter__(self) -> Tick:
        if self.done:
            self._write(f"{self.done} of {self.total} results are known already", "\n")
        return self._tick

    def _tick(self, what: str) -> None:
        self.done += 1
        now = time.monotonic()
        if self.terminal:
            full = 30 * self.done // self.total
            self._write(f"\r[{'#' * full:30s}] {self.done}/{self.total}", "")
        elif now - self.told > 10 or self.done == self.total:
            self.told = now
            self._write(f"{self.done}/{self.total} results, {now - self.start:.0f} s", "\n")

    def __exit__(self, *error: object) -> None:
        if self.terminal:
            self._write("", "\n")

    def _write(self, text: str, end: str) -> None:
        sys.stderr.write(text + end)
        sys.stderr.flush()
