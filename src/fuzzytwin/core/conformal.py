"""Conformal prediction sets from leave-one-out scores."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core.weights import mean_weight

# Shares of rows that differ by less than this, relative, are the same: rounding decides on no set.
SAME_SHARE = 1e-9


def prediction_sets(scores: Array, P: Array, coverage: Any, *, class_conditional: bool) -> Array:
    """Find the labels (n, K) that are not too strange for rows of probabilities P (n, K).

    Label k is in the set where the share of rows (of class k, if class-conditional) that are at
    least as strange with their own label, the new row among them, exceeds 1 - coverage. `scores`
    (m, 3) are score, class and weight of rows that were left out, sorted by score; a fourth column
    has the numbers of their groups. Weights are in units of `mean_weight`, what a row or group
    weighs that is drawn as often as it weighs. The new row is one of those; in a class, it weighs
    what rows or groups of the class do.
    """
    number = isinstance(coverage, Real) and not isinstance(coverage, bool)
    if not number or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage={coverage!r} is not allowed; give a number between 0 and 1.")
    found = np.empty(P.shape, dtype=bool)
    for k in range(P.shape[1]):
        own, one = scores, 1.0
        if class_conditional:
            own = own[own[:, 1] == k]
            groups = own[:, 3].astype(np.intp) if own.shape[1] > 3 else None
            one = mean_weight(own[:, 2], groups)
        upto = np.concatenate([[0.0], np.cumsum(own[:, 2])])
        at_least = upto[-1] - upto[np.searchsorted(own[:, 0], 1 - P[:, k])]
        share = (at_least + one) / (upto[-1] + one)
        found[:, k] = share > (1 - float(coverage)) * (1 + SAME_SHARE)
    return found


def class_coverage(scores: Array, coverage: float, n_classes: int) -> tuple[Array, Array]:
    """Compute the share of the rows of each class, and how many of these sets would cover.

    Sets are those of `prediction_sets`, compared with rows of all classes, at the rows of `scores`.
    """
    codes, weight = scores[:, 1].astype(np.intp), scores[:, 2]
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    at_least = upto[-1] - upto[np.searchsorted(scores[:, 0], scores[:, 0])]
    covered = at_least > (1 - coverage) * upto[-1]
    of_class = np.bincount(codes, weight, minlength=n_classes)
    inside = np.bincount(codes, weight * covered, minlength=n_classes)
    return of_class / upto[-1], np.divide(
        inside, of_class, out=np.ones(n_classes), where=of_class > 0
    )


def warn_of_rare_classes(scores: Array, classes: Array, coverage: float) -> None:
    """Warn of classes that sets cover far less often than all rows.

    Such a class is rarer than the sets that may miss the true label, and its own rows, left out,
    are covered less than half as often as promised.
    """
    shares, covered = class_coverage(scores, coverage, len(classes))
    missed = (shares < 1 - coverage) & (covered < coverage / 2)
    if not missed.any():
        return
    k = int(np.where(missed, covered, np.inf).argmin())
    others = f" (and {missed.sum() - 1} more)" if missed.sum() > 1 else ""
    warn_user(
        f"class {classes.tolist()[k]!r}{others} has {shares[k]:.1%} of the rows, and with "
        f"coverage={coverage:g} on average over all rows, about {covered[k]:.0%} of the sets of "
        "its rows hold it; use class_conditional=True to cover every class."
    )
