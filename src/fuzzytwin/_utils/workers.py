"""Distribute blocks of rows over the threads of the current call.

`fuzzytwin._utils.threads.thread_pool` starts the threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

TASKS_AHEAD = 2  # tasks submitted ahead for each thread
# Many small blocks are submitted several at once, but every thread gets about this many tasks.
TASKS_PER_THREAD = 8
MAX_BLOCKS_PER_TASK = 32

# The pool of the current call and its number of threads. In a worker thread the pool is None.
current_pool: ContextVar[tuple[ThreadPoolExecutor | None, int] | None]
current_pool = ContextVar("workers", default=None)


def map_threads(
    function: Callable[[Any], T], items: Iterable[Any], items_per_task: int = 1
) -> Generator[T, None, None]:
    """Apply a function to items in the threads of `thread_pool`, and yield results in order.

    Larger tasks have less overhead. Outside of `thread_pool`, and inside the function itself, this
    is `map`. The function must not rely on state of the calling thread, such as `numpy.errstate`.
    """
    pool, threads = current_pool.get() or (None, 1)
    if pool is None:
        yield from map(function, items)
        return
    remaining = iter(items)
    waiting: deque[Future[list[T]]] = deque()
    try:
        while task := list(islice(remaining, items_per_task)):
            waiting.append(pool.submit(lambda task: [function(item) for item in task], task))
            if len(waiting) > TASKS_AHEAD * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def run_blocks(function: Callable[[slice], None], blocks: Sequence[slice]) -> None:
    """Call a function for each block of rows, in the threads of `thread_pool`."""
    _, threads = current_pool.get() or (None, 1)
    items_per_task = max(1, min(MAX_BLOCKS_PER_TASK, len(blocks) // (TASKS_PER_THREAD * threads)))
    for _ in map_threads(function, blocks, items_per_task):
        pass
