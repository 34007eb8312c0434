"""Give classes the public address that pickles, model files and tracebacks name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Class = TypeVar("Class", bound=type)


def public_in(module: str) -> Callable[[Class], Class]:
    """Make `module` the address of a class, so that moving its file breaks no model file.

    Examples
    --------
    >>> from fuzzytwin._utils.public import public_in
    >>> @public_in("fuzzytwin")
    ... class Thing: ...
    >>> Thing.__module__
    'fuzzytwin'
    """

    def addressed(cls: Class) -> Class:
        cls.__module__ = module
        return cls

    return addressed
