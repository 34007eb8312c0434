"""Effects of columns at held-out rows.

A kernel model fits its training rows so closely that moving one of them in a column hardly changes
its prediction. Effects are therefore computed in each fold, at the rows that it holds out, and
averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fuzzytwin.experiment._rows import Rows
from fuzzytwin.explain import explain
from fuzzytwin.explain._effects import MAX_ROWS
from fuzzytwin.tables import TablePreprocessor

MEANS = ("effect", "strength", "correlation", "vagueness")  # what is averaged over the folds
Explanation = list[dict[str, Any]]


def fold_effects(
    prepare: TablePreprocessor, fitted: Any, held_out: Rows, folds: int
) -> tuple[float, Explanation]:
    """Return the weight of the held-out rows of a fold, and the effects of columns at these rows.

    If there are many rows, evenly spaced ones are used: in all folds together, at most as many as
    `explain` uses.
    """
    weight = len(held_out.y) if held_out.weight is None else float(held_out.weight.sum())
    n = len(held_out.y)
    index = np.linspace(0, n - 1, min(n, MAX_ROWS // folds)).astype(int)
    rows = held_out.take(index)
    if rows.weight is not None and not rows.weight.any():
        return 0.0, []
    model = Pipeline([("prepare", prepare), ("model", fitted)])
    return weight, explain(model, rows.X, rows.y, rows.weight)


def mean_effects(folds: Sequence[tuple[float, Explanation]], most: int) -> Explanation:
    """Average the effects of folds, and keep the strongest of each class.

    Each fold counts by its weight. A value of a category that a fold does not have has no effect
    there.
    """
    total = sum(weight for weight, _ in folds)
    classes: dict[Any, dict[str, Any]] = {}
    for weight, explained in folds:
        share = weight / total
        for entry in explained:
            mean = classes.setdefault(entry["class"], {"vagueness": 0.0, "columns": {}})
            mean["vagueness"] += share * entry["vagueness"]
            for column in entry["columns"]:
                start = {**column, **dict.fromkeys(MEANS, 0.0), "deviation": None}
                total_of = mean["columns"].setdefault(column["name"], start)
                for name in MEANS:
                    total_of[name] += share * column[name]
                if column["deviation"] is not None:
                    deviation = total_of["deviation"] or 0.0
                    total_of["deviation"] = deviation + share * column["deviation"]
    explanation = []
    for label in sorted(classes):
        columns = sorted(classes[label]["columns"].values(), key=lambda c: -c["strength"])
        vagueness = classes[label]["vagueness"]
        explanation.append({"class": label, "vagueness": vagueness, "columns": columns[:most]})
    return explanation
