"""Format names and numbers for plots, tables and messages."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from math import floor, log10
from typing import TextIO


def literal(name: object) -> str:
    """Escape a name so that matplotlib draws it as it is, not as a formula."""
    return str(name).replace("$", r"\$")


def cut(name: object, width: int, end: str = "...") -> str:
    """Truncate a text to a width, with `end` as the mark of what is missing."""
    text = str(name)
    return text if len(text) <= width else text[: width - len(end)] + end


def cut_middle(text: str, width: int) -> str:
    """Truncate a name in the middle, because names often differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 3) // 2
    return f"{text[: width - 3 - end]}...{text[-end:]}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """List the first names, and count the others.

    >>> listed([f"x_{j}" for j in range(256)])
    'x_0, x_1, x_2 and 253 more'
    """
    others = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + others


def printable(text: str) -> str:
    r"""Replace characters that could control a terminal, except tabs and line ends.

    >>> printable("\x1b]0;title\x07 \u202eab\n")
    '?]0;title? ?ab\n'
    """
    kept = (c if c.isprintable() or c in "\t\n" else " " if c.isspace() else "?" for c in text)
    return "".join(kept)


def wrapped(text: str, stream: TextIO) -> str:
    """Return a line as printable text, broken between words if it goes to a terminal."""
    text = printable(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def decimals(most: float) -> int:
    """Choose the decimals of a column: three, or more, so that its largest shows two digits."""
    return 3 if most == 0 else max(3, 1 - floor(log10(abs(most))))


def count(n: int, noun: str) -> str:
    """Format a number and the noun that it counts."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
