"""Limit the threads of BLAS, safely when several threads do so at the same time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_holder: threading.Thread | None = None


@functools.cache
def _libraries() -> ThreadpoolController:
    """Find the loaded libraries once: that takes longer than many a product."""
    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run BLAS on one thread inside the block.

    The number of threads belongs to the process. So one thread at a time holds the limit, and
    restores what it found; inside the blocks of others it does nothing. If each thread restored
    what it found, the last one would restore the limit of the first for good.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin._utils.threads import single_threaded_blas
    >>> with single_threaded_blas():
    ...     product = np.eye(3) @ np.eye(3)
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
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _holder = None
