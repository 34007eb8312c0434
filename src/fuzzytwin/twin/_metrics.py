"""Scores of a search: accuracy and the like from hits, and the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array


def score_from_hits(name: str, hits: Array, total: Array) -> Array:
    """Compute a score from hits (K, ...) and total weights (K, ...) of the classes, by `SCORES`."""
    weight = total.reshape(*total.shape, *(1,) * (hits.ndim - total.ndim))
    with np.errstate(invalid="ignore", divide="ignore"):  # no rows with weight: NaN
        return np.asarray(SCORES[name][0](hits, weight))


def is_confusion_based(name: Any, total: Array, classes: Array) -> bool:
    """Return whether a score is a function of hits, if the classes have these total weights.

    Otherwise it is left to scikit-learn's scorer, which may warn or fail.
    """
    return isinstance(name, str) and name in SCORES and SCORES[name][1](total, classes)


def _balanced_accuracy(hits: Array, weight: Array) -> Array:
    present = (weight > 0).sum(axis=0)
    return np.asarray(np.where(weight > 0, hits / weight, 0.0).sum(axis=0) / present)


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _has_positive_label(total: Array, classes: Array) -> bool:
    """Return whether there are two classes, of which the second has the positive label 1."""
    return len(total) == 2 and bool(total.all()) and bool(classes[1] == 1)


# Scores that are functions of the hits h and the weights w of the classes. The first entry is the
# formula, the second tells whether it applies to the given total weights and labels.
SCORES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], bool]]] = {
    "accuracy": (lambda h, w: h.sum(axis=0) / w.sum(axis=0), lambda *_: True),
    "balanced_accuracy": (_balanced_accuracy, lambda total, _: bool(total.all())),
    "recall": (lambda h, w: _ratio(h[1], w[1]), _has_positive_label),
    "precision": (lambda h, w: _ratio(h[1], h[1] + w[0] - h[0]), _has_positive_label),
    "f1": (lambda h, w: _ratio(2 * h[1], h[1] + w[0] - h[0] + w[1]), _has_positive_label),
}


def roc_area(share: Array, codes: Array, weight: Array) -> float:
    """Compute the area under the ROC curve of the membership in the second of two classes.

    It is the weighted fraction of pairs in the right order, where a tie counts half (the
    Mann-Whitney statistic).
    """
    is_first = codes == 0
    is_second = codes == 1
    order = share[is_first].argsort()
    sorted_first = share[is_first][order]
    cumulative = np.append(0.0, np.cumsum(weight[is_first][order]))
    below = cumulative[np.searchsorted(sorted_first, share[is_second], side="left")]
    not_above = cumulative[np.searchsorted(sorted_first, share[is_second], side="right")]
    total = 2 * cumulative[-1] * weight[is_second].sum()
    return float((below + not_above) @ weight[is_second] / total)
