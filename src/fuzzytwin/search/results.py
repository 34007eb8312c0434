"""Collect ``cv_results_``, as `GridSearchCV` has it, and pack it for keeping."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from fuzzytwin._utils.types import Array
from fuzzytwin.search.plan import Plan


def collect_results(plans: list[Plan], scores: Array) -> dict[str, Any]:
    """Collect parameters, times, scores and ranks of all points; no Brier scores yet."""
    params = [point for plan in plans for point in plan.points()]
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        values = np.empty(len(params), dtype=object)
        values[:] = [point[name] for point in params]
        results[f"param_{name}"] = np.ma.masked_array(values, mask=False)
    done = [split for plan in plans for split in plan.split_scores]
    for kind in ("fit_time", "score_time"):
        # A split is worked on as a whole: each point is given its share.
        times = np.array([getattr(split, kind) * len(plans) / len(params) for split in done])
        results[f"mean_{kind}"] = np.full(len(params), times.mean())
        results[f"std_{kind}"] = np.full(len(params), times.std())
    for i, split in enumerate(scores):
        results[f"split{i}_test_score"] = split
    mean = scores.mean(axis=0)
    results["mean_test_score"] = mean
    results["std_test_score"] = scores.std(axis=0)
    last = np.nan_to_num(mean, nan=np.nanmin(mean, initial=0.0) - 1)
    results["rank_test_score"] = rankdata(-last, method="min").astype(np.int32)
    return results


def pack_results(results: dict[str, Any]) -> dict[str, Any]:
    """Store columns of parameters as their distinct values and places among them; no list of dicts.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.search.results import pack_results, unpack_results
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
    """Return a key: equal for equal numbers, texts and tuples of them, and for the same object."""
    plain = isinstance(value, (str, int, float, tuple))
    return (type(value), value) if plain else id(value)
