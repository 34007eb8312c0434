"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import inspect
import warnings

PACKAGE = __name__.partition(".")[0]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the innermost line outside of this package."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)
