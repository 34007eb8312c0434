"""Parametrise by pairs of values, where all combinations would take too long."""

from itertools import combinations, product

import pytest


def every_pair(*, indirect=(), **values):
    """Parametrise a test so that any two values of two parameters meet in some case.

    What goes wrong does so for one value or for two of them together; that three are needed is
    rare. Five parameters of two values have 32 combinations; seven cases hold all pairs. A
    fixture with parameters is named in `indirect`.
    """
    values = {name: list(choices) for name, choices in values.items()}
    rows = list(product(*(range(len(choices)) for choices in values.values())))
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    missing, cases = set().union(*pairs.values()), []
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        missing -= pairs[best]
        cases.append([choices[place] for place, choices in zip(best, values.values(), strict=True)])
    return pytest.mark.parametrize(tuple(values), cases, indirect=list(indirect))
