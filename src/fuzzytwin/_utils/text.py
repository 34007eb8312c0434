"""Write names and numbers so that they are read as they are meant."""

from __future__ import annotations

from math import floor, log10


def literal(name: object) -> str:
    r"""Escape a name so that matplotlib draws it as it is, not as a formula.

    Examples
    --------
    >>> from fuzzytwin._utils.text import literal
    >>> print(literal("price in $, cost in $"))
    price in \$, cost in \$
    """
    return str(name).replace("$", r"\$")


def decimals(most: float) -> int:
    """Choose the decimals of a column: three, or more, so that its largest shows two digits.

    Examples
    --------
    >>> from fuzzytwin._utils.text import decimals
    >>> [f"{most:.{decimals(most)}f}" for most in (12.0, 0.25, 0.0042, 0.00012)]
    ['12.000', '0.250', '0.0042', '0.00012']
    """
    return 3 if most == 0 else max(3, 1 - floor(log10(abs(most))))


def count(n: int, noun: str) -> str:
    """Write a number and what it counts.

    Examples
    --------
    >>> from fuzzytwin._utils.text import count
    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
