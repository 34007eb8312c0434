"""Import optional packages, or say how to install them. List the versions of all packages."""

from __future__ import annotations

import platform
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

from fuzzytwin._utils.version import __version__

PACKAGE = Path(__file__).parents[1]
OWN_PACKAGES = ("fuzzytwin", "benchmarks", "reproduction")
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


def import_optional(module: str, extra: str | None, feature: str) -> ModuleType:
    """Import a module of an optional package, or raise an ImportError with the command to install.

    `extra` is the extra of this library that installs it (None: no extra does), and the error says
    that the `feature` needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package(feature, module.partition(".")[0], extra, error) from error


def missing_package(
    feature: str, package: str, extra: str | None, error: ImportError
) -> ImportError:
    """Return the error that says what needs a package and how to install it."""
    command = f"pip install {package}" if extra is None else install_command(extra)
    return ImportError(f"{feature} needs {package} ({error}); install it with: {command}")


def one_line(error: ImportError, extra: str) -> str:
    """Say in one line which package is missing and how to install it.

    `extra` is the extra that installs it, unless Spark or NiceGUI is missing. Errors that are not
    about a missing package of others are raised again.
    """
    package = (error.name or "").partition(".")[0]
    if isinstance(error.__cause__, ImportError) or not package:  # the message says it already
        return str(error)
    if not isinstance(error, ModuleNotFoundError) or package in OWN_PACKAGES:
        raise error
    extra = {"pyspark": "spark", "nicegui": "studio"}.get(package, extra)
    return f"{package} is missing: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra, from the checkout if there is one.

    An installed copy lists the requirements, because this library may not be on a package index.
    """
    checkout = PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file() and PACKAGE.parent.name == "src":
        where = "." if checkout == Path.cwd() else checkout
        return f'pip install -e "{where}[{extra}]"'
    return " ".join(["pip install", *(f'"{name}"' for name in requirements(extra))])


def requirements(extra: str) -> list[str]:
    """List what an extra requires, with the extras that it includes."""
    names: list[str] = []
    for line in metadata.requires("fuzzytwin") or []:
        name, _, marker = (part.strip() for part in line.partition(";"))
        if re.search(rf"""extra == ['"]{extra}['"]""", marker):
            included = re.fullmatch(r"fuzzytwin\[(.*)\]", name)
            for other in included[1].split(",") if included else ():
                names += requirements(other.strip())
            names += [] if included else [name]
    return list(dict.fromkeys(names))


def versions() -> dict[str, str]:
    """List the versions of the packages that a fitted model depends on."""
    return {
        "fuzzytwin": __version__,
        **{name: metadata.version(name) for name in ("scikit-learn", "numpy", "scipy")},
        "python": platform.python_version(),
    }


def extras() -> dict[str, str | None]:
    """Return the version of each extra's main package, None if it is not installed."""
    return {extra: _version(package) for extra, package in EXTRAS.items()}


def show_versions() -> None:
    """Print versions and threads, for bug reports.

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
    system = {"executable": sys.executable, "platform": platform.platform()}
    sections = {
        "System": {"python": " ".join(sys.version.split()), **system},
        "Packages": {**versions(), **depends},
        "Extras": {
            f"{extra} ({EXTRAS[extra]})": version or f"not installed: {install_command(extra)}"
            for extra, version in extras().items()
        },
        "Threads": {
            f"{pool['internal_api']} {pool['version'] or ''}".strip(): pool["num_threads"]
            for pool in threadpool_info()
        },
    }
    for title, facts in sections.items():
        print(title, *(f"    {name}: {value}" for name, value in facts.items()), sep="\n")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
