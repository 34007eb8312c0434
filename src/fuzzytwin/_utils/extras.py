"""Import optional packages, or say how to install them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parents[1]


def need(module: str, extra: str | None, what: str) -> ModuleType:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        Such as "matplotlib.pyplot".
    extra : str or None
        The extra of this library that installs it; None where no extra is about it alone.
    what : str
        What needs it, for the error.

    Raises
    ------
    ImportError
        With the command that installs it.

    Examples
    --------
    >>> from fuzzytwin._utils.extras import need
    >>> need("json", "plot", "a plot").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(what, module.partition(".")[0], extra, error) from error


def missing(what: str, package: str, extra: str | None, error: ImportError) -> ImportError:
    """Make the error that says what needs a package and how to install it."""
    command = f"pip install {package}" if extra is None else install_command(extra)
    return ImportError(f"{what} needs {package} ({error}); install it with: {command}")


def install_command(extra: str) -> str:
    """Give the command that installs an extra: from the checkout if there is one.

    No package index is assumed to have this library, so an installed copy names the requirements
    themselves.
    """
    checkout = PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file() and PACKAGE.parent.name == "src":
        where = "." if checkout == Path.cwd() else checkout
        return f'pip install -e "{where}[{extra}]"'
    return " ".join(["pip install", *(f'"{name}"' for name in requirements(extra))])


def requirements(extra: str) -> list[str]:
    """List what an extra requires, with the extras that it includes."""
    return list(dict.fromkeys(_requirements(extra, metadata.requires("fuzzytwin") or [])))


def _requirements(extra: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        name, _, marker = (part.strip() for part in line.partition(";"))
        if not re.search(rf"""extra == ['"]{extra}['"]""", marker):
            continue
        if included := re.fullmatch(r"fuzzytwin\[(.*)\]", name):
            for other in included[1].split(","):
                yield from _requirements(other.strip(), lines)
        else:
            yield name
