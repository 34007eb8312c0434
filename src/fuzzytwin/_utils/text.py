"""Write names and numbers so that they are read as they are meant."""

from __future__ import annotations

from math import floor, log10


def literal(name: object) -> str:
    """Escape a name so that matplotlib draws it as it is, not as a formula."""
    return str(name).replace("$", r"\$")


def decimals(most: float) -> int:
    """Choose the decimals of a column: three, or more, so that its largest shows two digits."""
    return 3 if most == 0 else max(3, 1 - floor(log10(abs(most))))


def count(n: int, noun: str) -> str:
    """Write a number and what it counts."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
