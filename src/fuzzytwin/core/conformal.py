"""Conformal prediction sets from leave-one-out scores."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core.weights import mean_weight

# Relative tolerance of p-values, so that rounding does not decide whether a label is in a set.
P_VALUE_TOLERANCE = 1e-9
MIN_SHARE = 1e-3  # smallest soft label that has a conformity score


def prediction_sets(scores: Array, P: Array, coverage: Any, *, class_conditional: bool) -> Array:
    """Return conformal prediction sets (n, K) of rows with probabilities P (n, K).

    Label k is in the set if its p-value exceeds 1 - coverage. The p-value is the weighted share of
    rows (of class k, if class-conditional) whose nonconformity score is at least 1 - P[:, k], the
    new row included. The new row has the `mean_weight` of the rows or groups it is compared with.

    Parameters
    ----------
    scores : ndarray of shape (m, 3) or (m, 4)
        Leave-one-out nonconformity score, class and weight of each training row, in ascending
        order of score. A fourth column has the number of its group. Weights are in units of
        `mean_weight`.
    P : ndarray of shape (n, K)
        Probabilities of the new rows.
    coverage : float
        Between 0 and 1.
    class_conditional : bool
        Whether each label is compared with rows of its own class only (Mondrian sets).

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer: Algorithmic learning in a random world (2005).
    """
    is_number = isinstance(coverage, Real) and not isinstance(coverage, bool)
    if not is_number or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage={coverage!r} is not allowed; give a number between 0 and 1.")
    in_set = np.empty(P.shape, dtype=bool)
    for k in range(P.shape[1]):
        reference = scores
        new_weight = 1.0
        if class_conditional:
            reference = scores[scores[:, 1] == k]
            groups = reference[:, 3].astype(np.intp) if reference.shape[1] > 3 else None
            new_weight = mean_weight(reference[:, 2], groups)
        cumulative = np.concatenate([[0.0], np.cumsum(reference[:, 2])])
        tail_weight = cumulative[-1] - cumulative[np.searchsorted(reference[:, 0], 1 - P[:, k])]
        p_value = (tail_weight + new_weight) / (cumulative[-1] + new_weight)
        in_set[:, k] = p_value > (1 - float(coverage)) * (1 + P_VALUE_TOLERANCE)
    return in_set


def class_coverage(scores: Array, coverage: float, n_classes: int) -> tuple[Array, Array]:
    """Compute the share (K,) of rows in each class, and how many of them (K,) their sets cover.

    The sets are those of `prediction_sets` for the rows of `scores`, not class-conditional.
    """
    codes = scores[:, 1].astype(np.intp)
    weight = scores[:, 2]
    cumulative = np.concatenate([[0.0], np.cumsum(weight)])
    tail_weight = cumulative[-1] - cumulative[np.searchsorted(scores[:, 0], scores[:, 0])]
    covered = tail_weight > (1 - coverage) * cumulative[-1]
    total = np.bincount(codes, weight, minlength=n_classes)
    covered_weight = np.bincount(codes, weight * covered, minlength=n_classes)
    class_covered = np.divide(covered_weight, total, out=np.ones(n_classes), where=total > 0)
    return total / cumulative[-1], class_covered


def warn_of_rare_classes(scores: Array, classes: Array, coverage: float) -> None:
    """Warn about classes whose coverage is far below that of all rows.

    The warning is about classes with less than 1 - coverage of the rows, and whose leave-one-out
    coverage is less than half of `coverage`.
    """
    shares, covered = class_coverage(scores, coverage, len(classes))
    too_low = (shares < 1 - coverage) & (covered < coverage / 2)
    if not too_low.any():
        return
    k = int(np.where(too_low, covered, np.inf).argmin())
    more = f" (and {too_low.sum() - 1} more)" if too_low.sum() > 1 else ""
    warn_user(
        f"class {classes.tolist()[k]!r}{more} has {shares[k]:.1%} of the rows, and "
        f"coverage={coverage:g} holds on average over all rows: about {covered[k]:.0%} of the "
        "prediction sets of this class contain it. Use class_conditional=True to cover every class."
    )


def conformity_scores(P: Array, Y: Array, s: Array, groups: Array | None) -> Array:
    """Return one minus the probability of each label, its class, its weight and its group, sorted.

    A row with soft labels Y has a score for each of its classes. Groups are a fourth column, if
    there are any.
    """
    row, k = np.nonzero(Y > MIN_SHARE)
    columns = [1 - P[row, k], k, s[row] * Y[row, k]]
    if groups is not None:
        columns.append(groups[row])
    scores = np.column_stack(columns)
    return scores[np.argsort(scores[:, 0], kind="stable")]
