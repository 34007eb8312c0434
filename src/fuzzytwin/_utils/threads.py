"""Distribute blocks of rows over threads, with BLAS and OpenMP limited to one thread in each.

BLAS splits every product among its own threads, and boosted trees every step among those of OpenMP.
For the small products of blocks of rows that costs more than it gains, in particular if another
program uses a core. So both are limited once for each call of the library, and blocks are
distributed instead.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from threadpoolctl import ThreadpoolController

from fuzzytwin._utils import workers

# Products of fewer numbers than this are never split by BLAS, so it is not limited.
MIN_BLAS_NUMBERS = 1 << 13
# With fewer numbers in all blocks, starting threads takes longer than the work itself.
MIN_THREAD_NUMBERS = 1 << 17
# Tables of at least this many columns have large products, which BLAS splits well, and large
# sums, which each thread would hold again.
MIN_BLAS_COLUMNS = 512
_lock = threading.Lock()
_holder: threading.Thread | None = None


@functools.cache
def _libraries(user_api: str) -> ThreadpoolController:
    """Find the libraries of "blas" or "openmp" once, because that takes longer than many products.

    A limit restores all libraries of its controller, so each of the two needs its own.
    """
    return ThreadpoolController().select(user_api=user_api)


@contextmanager
def limited_threads(threads: int = 1) -> Iterator[None]:
    """Run BLAS and OpenMP on this number of threads inside the block.

    The number of threads of BLAS belongs to the process. So one thread at a time holds the limit
    and restores the previous number. If each thread restored what it found, the last one could
    restore the limit of the first for good. The number of OpenMP belongs to each thread. Inside
    another such block of the thread that holds the limit, this does nothing.
    """
    global _holder
    current = threading.current_thread()
    libraries: tuple[str, ...] = ("openmp",)
    with _lock:
        if _holder is current:
            libraries = ()
        elif _holder is None or not _holder.is_alive():
            _holder = current
            libraries = ("openmp", "blas")
    try:
        with ExitStack() as limits:
            for user_api in libraries:
                limits.enter_context(_libraries(user_api).limit(limits=threads))
            yield
    finally:
        if "blas" in libraries:
            _holder = None


@contextmanager
def thread_pool(
    threads: int, n_numbers: int = MIN_THREAD_NUMBERS, n_columns: int = 1
) -> Iterator[None]:
    """Start threads for `map_threads` inside the block, with BLAS and OpenMP limited to one thread.

    With many columns BLAS gets the threads instead. Inside another such block, and for few numbers,
    this does nothing. `threads` comes from `fuzzytwin._params.count_threads`, and `n_numbers` is
    about how many numbers will be read.
    """
    if n_numbers <= MIN_BLAS_NUMBERS or workers.current_pool.get() is not None:
        yield
        return
    wide = n_columns >= MIN_BLAS_COLUMNS
    with limited_threads(threads if wide else 1):
        if threads == 1 or wide or n_numbers < MIN_THREAD_NUMBERS:
            yield
            return
        with ThreadPoolExecutor(threads, "fuzzytwin", _init_worker) as pool:
            token = workers.current_pool.set((pool, threads))
            try:
                yield
            finally:
                workers.current_pool.reset(token)


def _init_worker() -> None:
    """Initialise a worker, which starts no threads. OpenMP and some BLAS libraries limit each."""
    workers.current_pool.set((None, 1))
    for user_api in ("blas", "openmp"):
        _libraries(user_api).limit(limits=1)
