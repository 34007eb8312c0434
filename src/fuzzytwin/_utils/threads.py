"""Threads: how many to use, blocks of rows handed to them, BLAS on one thread in each.

BLAS splits every product among its own threads. For the small products of blocks of rows that
costs more than it gains, above all where another program keeps a core busy. So BLAS is limited
once for each call of the library, and the blocks are what is split.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# Products of fewer numbers than this are never split by BLAS, so nothing needs to be limited.
FEW_NUMBERS = 1 << 13
# Blocks of fewer numbers in all are done before threads have started.
FEW_FOR_THREADS = 1 << 17
# Tables of at least this many columns have large products, which BLAS splits well, and large
# sums, which each thread would hold again.
MANY_COLUMNS = 512
# Blocks handed out before the first of them is asked for, for each thread.
AHEAD = 2
# Many small blocks are handed out some at once, but every thread gets about `SHARES` of them.
SHARES = 8
MOST_AT_ONCE = 32

_lock = threading.Lock()
_holder: threading.Thread | None = None
# The threads of the call that runs in this thread, and how many they are; none inside of them.
_workers: ContextVar[tuple[ThreadPoolExecutor | None, int] | None]
_workers = ContextVar("_workers", default=None)


@functools.cache
def _libraries() -> ThreadpoolController:
    """Find the loaded libraries once: that takes longer than many a product."""
    return ThreadpoolController()


@contextmanager
def limited_blas(threads: int = 1) -> Iterator[None]:
    """Run BLAS on this number of threads inside the block.

    The number of threads belongs to the process. So one thread at a time holds the limit, and
    restores what it found; inside the blocks of others it does nothing. If each thread restored
    what it found, the last one would restore the limit of the first for good.
    """
    global _holder
    with _lock:
        mine = _holder is None or not _holder.is_alive()
        if mine:
            _holder = threading.current_thread()
    if not mine:
        yield
        return
    try:
        with _libraries().limit(limits=threads, user_api="blas"):
            yield
    finally:
        _holder = None


@contextmanager
def thread_pool(
    threads: int, n_numbers: int = FEW_FOR_THREADS, n_columns: int = 1
) -> Iterator[None]:
    """Start threads for `map_threads` inside the block, with one thread of BLAS in each of them.

    Tables of many columns give the threads to BLAS instead. Inside another such block, and
    for few numbers, it does nothing.

    `fuzzytwin._params.count_threads` reads `n_jobs`; about `n_numbers` numbers will be read.
    """
    if n_numbers <= FEW_NUMBERS or _workers.get() is not None:
        yield
        return
    wide = n_columns >= MANY_COLUMNS
    with limited_blas(threads if wide else 1):
        if threads == 1 or wide or n_numbers < FEW_FOR_THREADS:
            yield
            return
        with ThreadPoolExecutor(threads, "fuzzytwin", _begin) as pool:
            token = _workers.set((pool, threads))
            try:
                yield
            finally:
                _workers.reset(token)


def _begin() -> None:
    """Prepare a thread: it starts no others, and limits BLAS where each thread has a limit."""
    _workers.set((None, 1))
    _libraries().limit(limits=1, user_api="blas")


def map_threads(
    function: Callable[[Any], T], items: Iterable[Any], at_once: int = 1
) -> Generator[T, None, None]:
    """Yield the function of every item, in their order, computed by the threads of `thread_pool`.

    A thread is handed `at_once` items: the more, the less it costs to hand them out.

    Outside of such a block, and inside the function itself, it is `map`. The function must not
    rely on what belongs to the calling thread, such as `numpy.errstate`.
    """
    pool, threads = _workers.get() or (None, 1)
    if pool is None:
        yield from map(function, items)
        return
    rest = iter(items)
    waiting: deque[Future[list[T]]] = deque()
    try:
        while some := list(islice(rest, at_once)):
            waiting.append(pool.submit(lambda some: [function(item) for item in some], some))
            if len(waiting) > AHEAD * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def run_blocks(function: Callable[[slice], None], blocks: Sequence[slice]) -> None:
    """Call a function for blocks of rows, by the threads of `thread_pool`, several at once."""
    _, threads = _workers.get() or (None, 1)
    at_once = max(1, min(MOST_AT_ONCE, len(blocks) // (SHARES * threads)))
    for _ in map_threads(function, blocks, at_once):
        pass
