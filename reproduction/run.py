"""Compute the results that are not on disk yet, on several processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from fuzzytwin._utils.progress import Progress
from reproduction.cache import Cache, Cell


def work_through(cells: list[Cell], cache: Cache, jobs: int, progress: bool) -> int:
    """Compute and file the result of every cell that has none yet.

    Results do not depend on `jobs`: each cell runs on one thread and seeds itself. Cells that
    must run alone follow one after the other, when all others are done. Finished results are kept,
    also where the run is stopped. Returns how many results were known before.
    """
    missing = [cell for cell in cells if cache.get(cell) is None]
    together = [cell for cell in missing if not cell.alone]
    alone = [cell for cell in missing if cell.alone]
    known = len(cells) - len(missing)
    with Progress("reproduce", len(cells), "results", enabled=progress, done=known) as bar:
        for _ in _computed(together, cache, jobs):
            bar.advance()
        for cell in alone:
            compute(cell, cache)
            bar.advance()
    return known


def compute(cell: Cell, cache: Cache) -> None:
    """Run one cell on one thread and file its result."""
    module, function = cell.function.split(".")
    with threadpool_limits(1):
        work = getattr(import_module(f"reproduction.{module}"), function)
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
