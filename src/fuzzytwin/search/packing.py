"""The results of a search, packed for keeping: thousands of points share a few dozen values."""

from __future__ import annotations

from typing import Any

import numpy as np


def pack_results(results: dict[str, Any]) -> dict[str, Any]:
    """Columns of parameters as their distinct values and places among them; no list of dicts.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.search.packing import pack_results, unpack_results
    >>> column = np.ma.masked_array(np.array(["a", "b", "a"], dtype=object), mask=False)
    >>> packed = pack_results({"params": [{"x": v} for v in column], "param_x": column})
    >>> packed["param_x"][0]
    ['a', 'b']
    >>> unpack_results(packed)["params"]
    [{'x': 'a'}, {'x': 'b'}, {'x': 'a'}]
    """
    packed = {key: value for key, value in results.items() if key != "params"}
    for key in packed:
        if key.startswith("param_"):
            column = list(results[key].data)
            distinct = {_identity(value): value for value in column}
            place = {key: i for i, key in enumerate(distinct)}
            places = np.array([place[_identity(value)] for value in column], dtype=np.int32)
            packed[key] = (list(distinct.values()), places)
    return packed


def unpack_results(packed: dict[str, Any]) -> dict[str, Any]:
    """Undo `pack_results`."""
    results: dict[str, Any] = {"params": []}
    for key, value in packed.items():
        if key.startswith("param_"):
            values, places = value
            column = np.empty(len(places), dtype=object)
            column[:] = [values[place] for place in places]
            value = np.ma.masked_array(column, mask=False)
        results[key] = value
    names = [key for key in results if key.startswith("param_")]
    columns = zip(*(results[name].data for name in names), strict=True)
    results["params"] = [
        {name.removeprefix("param_"): value for name, value in zip(names, point, strict=True)}
        for point in columns
    ]
    return results


def _identity(value: Any) -> Any:
    """Give a key that is equal for equal numbers, texts and tuples of them, and for one object."""
    plain = isinstance(value, (str, int, float, tuple))
    return (type(value), value) if plain else id(value)
