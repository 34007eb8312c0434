"""Versions of this library, of what it depends on, and of the optional packages."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from fuzzytwin._utils.extras import install_command
from fuzzytwin._utils.version import __version__

# The package that shows whether an extra is installed.
EXTRAS = {
    "plot": "matplotlib",
    "files": "pyarrow",
    "dask": "dask",
    "spark": "pyspark",
    "store": "skops",
    "onnx": "skl2onnx",
    "cli": "typer",
    "studio": "nicegui",
}


def versions() -> dict[str, str]:
    """List the versions of the packages that a fitted model depends on."""
    return {
        "fuzzytwin": __version__,
        **{name: metadata.version(name) for name in ("scikit-learn", "numpy", "scipy")},
        "python": platform.python_version(),
    }


def extras() -> dict[str, str | None]:
    """Give the version of each extra's main package; None where it is not installed."""
    return {extra: _version(package) for extra, package in EXTRAS.items()}


def show_versions() -> None:
    """Print versions and threads, for reports of problems.

    Lists the system, this library and what it depends on, the optional packages with the command
    that installs a missing one, and the libraries that compute in threads.

    Examples
    --------
    >>> import fuzzytwin
    >>> fuzzytwin.show_versions()  # doctest: +ELLIPSIS
    System
        python: ...
    """
    import numpy  # noqa: F401  # its BLAS is shown once it is loaded
    from threadpoolctl import threadpool_info

    depends = {name: _version(name) or "not installed" for name in ("joblib", "threadpoolctl")}
    _show("System", {"python": " ".join(sys.version.split()), "executable": sys.executable,
                     "platform": platform.platform()})  # fmt: skip
    _show("Packages", {**versions(), **depends})
    found = extras().items()
    _show("Extras", {
        f"{extra} ({EXTRAS[extra]})": version or f"not installed: {install_command(extra)}"
        for extra, version in found
    })  # fmt: skip
    _show("Threads", {
        f"{pool['internal_api']} {pool['version'] or ''}".strip(): str(pool["num_threads"])
        for pool in threadpool_info()
    })  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show(title: str, facts: dict[str, str]) -> None:
    print(title)
    for name, value in facts.items():
        print(f"    {name}: {value}")
