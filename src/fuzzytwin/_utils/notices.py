"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import inspect
import warnings

# Packages whose frames are not the user's code: this one, and those that call it.
SKIPPED = (__name__.partition(".")[0], "sklearn", "joblib")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the innermost line outside of the `SKIPPED` packages."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and _package(frame.f_globals) in SKIPPED:
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    """Return the name of the package of a module with these global names."""
    return str(names.get("__name__", "")).partition(".")[0]
