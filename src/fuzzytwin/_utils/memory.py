"""Measure the memory that is available to this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# The fraction of the available memory that may be used.
MAX_MEMORY_SHARE = 0.8
MIN_MEMORY = 1 << 24  # bytes that are assumed to be available


class NotEnoughMemoryError(ValueError, MemoryError):
    """Raised if something does not fit into the available memory."""


def fits_memory(n_bytes: float) -> bool:
    """Return whether this many bytes fit into `MAX_MEMORY_SHARE` of the available memory."""
    return n_bytes <= MIN_MEMORY or n_bytes <= MAX_MEMORY_SHARE * available_memory()


def available_memory() -> float:
    """Return the available bytes, or infinity if the system does not report them.

    That is the least of the free memory of the computer, of the control groups of the process
    (containers), and of its address space (``ulimit -v``).
    """
    return min(_limits(), default=float("inf"))


def format_bytes(count: float) -> str:
    """Format a number of bytes: "3.2 GiB", "5.0 MiB"."""
    unit, name = (2.0**30, "GiB") if count >= 2**30 else (2.0**20, "MiB")
    return f"{count / unit:,.1f} {name}"


def _limits() -> Iterator[float]:
    """Yield what is left of each limit that the system reports."""
    with suppress(OSError, KeyError, ValueError):  # includes caches that can be freed
        meminfo = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
        yield 1024.0 * int(meminfo["MemAvailable"].split()[0])
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            used = int(_read("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
            yield float(max(soft - used, 0))
    groups = ""
    with suppress(OSError):
        groups = _read("/proc/self/cgroup")
    for line in groups.split():
        _, controllers, path = line.split(":", 2)
        root = "/sys/fs/cgroup"
        names = ("memory.max", "memory.current")
        if "memory" in controllers.split(","):  # the first version of control groups
            root = f"{root}/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        elif controllers:
            continue
        folder = Path(root, path.lstrip("/"))
        while folder.is_relative_to(root):
            with suppress(OSError, ValueError):  # "max" is not a number: no limit
                limit, used = (int(_read(folder / name)) for name in names)
                stat = _read(folder / "memory.stat").split()
                cached = dict(zip(stat[::2], stat[1::2], strict=False)).get("inactive_file", "0")
                yield float(max(limit - used + int(cached), 0))
            folder = folder.parent


def _read(path: str | Path) -> str:
    return Path(path).read_text(encoding="ascii")
