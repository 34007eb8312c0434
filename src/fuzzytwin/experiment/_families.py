"""Columns that count up, such as an embedding: emb_0, emb_1, ..., emb_255.

A reader cannot tell one of them from the next. Messages name such a family as a whole, and lists of
effects show its strongest columns only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MIN_RUN = 4  # names that are shortened to "a to b"
MIN_FAMILY = 8  # columns
SHOWN_OF_FAMILY = 3


def name_runs(names: Iterable[str]) -> list[list[str]]:
    """Divide names into runs of at least 4 that count up, and single names."""
    runs: list[list[str]] = []
    for name in names:
        if runs and name == _next_name(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    divided = []
    for run in runs:
        divided += [run] if len(run) >= MIN_RUN else [[name] for name in run]
    return divided


def name_ranges(names: Iterable[str]) -> list[str]:
    """Shorten names that count up.

    >>> name_ranges(["age", "x_0", "x_1", "x_2", "x_3", "dose"])
    ['age', 'x_0 to x_3', 'dose']
    """
    return [range_of(run) for run in name_runs(names)]


def range_of(run: Sequence[str]) -> str:
    """Name a run of `name_runs`."""
    return run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"


def families(names: Iterable[str]) -> dict[str, str]:
    """Return the family of each column that belongs to one: a run of at least 8 names.

    >>> families(["age", *(f"x_{j}" for j in range(8))])["x_3"]
    'x_0 to x_7'
    """
    return {
        name: range_of(run) for run in name_runs(names) if len(run) >= MIN_FAMILY for name in run
    }


def strongest(
    effects: Sequence[Mapping[str, Any]], limit: int, family_of: Mapping[str, str]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Choose effects of `fuzzytwin.explain.explain` to show, and name the families that are cut.

    Of a family at most 3 columns are shown, unless there are too few other columns to fill the
    limit. A family that is cut is named by how many more columns it has.

    >>> effects = [{"column": f"x_{j}"} for j in range(9)] + [{"column": "age"}]
    >>> shown, more = strongest(effects, 4, families([f"x_{j}" for j in range(9)]))
    >>> [effect["column"] for effect in shown], more
    (['x_0', 'x_1', 'x_2', 'age'], ['6 more of x_0 to x_8'])
    """
    n_seen: Counter[str | None] = Counter()
    first: list[int] = []
    later: list[int] = []  # further columns of families
    for place, effect in enumerate(effects):
        family = family_of.get(effect["column"])
        n_seen[family] += 1
        is_late = family is not None and n_seen[family] > SHOWN_OF_FAMILY
        (later if is_late else first).append(place)
    places = sorted([*first, *later][:limit])
    shown = [effects[place] for place in places]
    n_shown = Counter(family_of.get(column) for column in {effect["column"] for effect in shown})
    sizes = Counter(family_of.values())
    more = [
        f"{size - n_shown[family]:,} more of {family}"
        for family, size in sizes.items()
        if n_shown[family] < size
    ]
    return shown, more


def _next_name(name: str) -> str | None:
    """Return the name whose number at the end is one higher: x_10 for x_9, and for x_09."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return f"{stem}{int(digits) + 1:0{len(digits)}d}" if digits else None
