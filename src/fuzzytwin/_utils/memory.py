"""How much memory this process may still take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def available_memory() -> float:
    """Return the bytes that can still be taken; infinity where the system does not say.

    The least of what is free in the computer, in the control groups of the process (containers)
    and below its limit of address space (``ulimit -v``).
    """
    return min([_free(), *_group_limits(), _address_space()])


def as_text(count: float) -> str:
    """Write a number of bytes for people: "3.2 GiB", "5.0 MiB"."""
    unit, name = (2.0**30, "GiB") if count >= 2**30 else (2.0**20, "MiB")
    return f"{count / unit:,.1f} {name}"


def _free() -> float:
    """Return what is free in the computer, caches included that can be given up."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            known = dict(line.split(":", 1) for line in file)
        return 1024.0 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return float("inf")


def _address_space() -> float:
    """Return what is left below the limit of address space."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:
            return float("inf")
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return float(max(soft - used, 0))
    except (ImportError, OSError, ValueError):
        return float("inf")


def _group_limits() -> Iterator[float]:
    """Yield what is left in each control group of the process, and in those above it."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").split()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        first = "memory" in controllers.split(",")
        if not (first or controllers == ""):
            continue
        root = Path("/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup")
        group = root / path.lstrip("/")
        for folder in [group, *group.parents]:
            yield _group_limit(folder, first)
            if folder == root:
                break


def _group_limit(folder: Path, first: bool) -> float:
    """Return what is left in one control group, of the first version or the second."""
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if first else (
        "memory.max", "memory.current")  # fmt: skip
    try:
        limit, used = (int((folder / name).read_text(encoding="ascii")) for name in names)
        stat = (folder / "memory.stat").read_text(encoding="ascii").split()
        cached = dict(zip(stat[::2], stat[1::2], strict=False)).get("inactive_file", "0")
        return float(max(limit - used + int(cached), 0))
    except (OSError, ValueError):  # "max" is not a number: no limit
        return float("inf")
