"""Times and memory, measured alike everywhere."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np


def best_time(function, repeats=5):
    """Least wall time of several runs: the one with the least disturbance."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def least_times(functions, repeats=5, clock=time.perf_counter):
    """Least time of each function, called in turn.

    A slow moment of the computer then affects all of them. On one thread, `time.process_time`
    excludes what other programs take.
    """
    least = dict.fromkeys(functions, np.inf)
    for _ in range(repeats):
        for name, function in functions.items():
            start = clock()
            function()
            least[name] = min(least[name], clock() - start)
    return least


def verdict(good):
    """Return whether a limit is met, as text."""
    return "met" if good else "NOT MET"


def peak_beyond(function):
    """MiB of resident memory that a run took beyond what was held before it.

    A second thread samples the resident size: unlike tracemalloc it also sees what BLAS and
    other compiled code take, and costs no time.
    """
    ctypes.CDLL(None).malloc_trim(0)  # freed memory of earlier runs would hide what this one uses
    before = _resident()
    peak = before
    done = threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        function()
    finally:
        done.set()
        watcher.join()
    return (peak - before) / 2**20


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
