"""Prepare names of users' files for programs that read markup into them."""

from __future__ import annotations


def literal(name: object) -> str:
    r"""Escape a name so that matplotlib draws it as it is, not as a formula.

    Examples
    --------
    >>> from fuzzytwin._utils.text import literal
    >>> print(literal("price in $, cost in $"))
    price in \$, cost in \$
    """
    return str(name).replace("$", r"\$")
