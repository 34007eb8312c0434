"""Docstrings that share paragraphs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)


def substitute(**paragraphs: str) -> Callable[[T], T]:
    """Replace each line ``{name}`` in the docstring of a class by the paragraph of that name.

    Lines of the paragraph are indented as the line that they replace. A name that has no paragraph
    raises a KeyError.
    """

    def decorate(cls: T) -> T:
        if cls.__doc__ is not None:  # Python -OO removes docstrings
            cls.__doc__ = re.sub(r"^( *)\{(\w+)\}$", indented, cls.__doc__, flags=re.MULTILINE)
        return cls

    def indented(match: re.Match[str]) -> str:
        return textwrap.indent(textwrap.dedent(paragraphs[match[2]]).strip("\n"), match[1])

    return decorate
