"""Reliability, ROC and precision-recall curves of a class, and scores at thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from fuzzytwin._utils.types import Array
from fuzzytwin.experiment._metrics import share_of, wilson

MAX_BINS = 10
MIN_ROWS_PER_BIN = 20
SENSITIVITIES = (0.95, 0.9, 0.8)  # for each, the greatest threshold that reaches it
MIN_GAP = 0.05  # between thresholds, relative


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves of one class against all others, from held-out probabilities.

    Attributes
    ----------
    label : Any
        The class.
    prevalence : float
        Share of its rows.
    predicted, observed, interval : ndarray
        Reliability: mean probability of each bin, share of rows of the class in it, and its 95%
        interval, of shape (bins, 2).
    false_positive_rate, sensitivity : ndarray
        The ROC curve.
    recall, precision : ndarray
        The precision-recall curve.
    thresholds : list of dict
        Sensitivity, specificity and predictive values at several thresholds, with intervals.
    """

    label: Any
    prevalence: float
    predicted: Array
    observed: Array
    interval: Array
    false_positive_rate: Array
    sensitivity: Array
    recall: Array
    precision: Array
    thresholds: list[dict[str, Any]]


def class_curves(
    label: Any,
    is_class: Array,
    probability: Array,
    weight: Array | None = None,
    groups: Array | None = None,
) -> Curves | None:
    """Compute the curves of a class; None if all rows or no rows are of it."""
    w = np.ones(len(is_class)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not 0 < w[is_class].sum() < w.sum():
        return None
    false_positive_rate, sensitivity, cuts = roc_curve(is_class, probability, sample_weight=w)
    precision, recall, _ = precision_recall_curve(is_class, probability, sample_weight=w)
    predicted, observed, interval = _reliability(is_class, probability, w, groups)
    thresholds = [
        {"chosen_for": reason, **scores_at(threshold, is_class, probability, w, groups)}
        for threshold, reason in _thresholds(false_positive_rate, sensitivity, cuts)
    ]
    return Curves(
        label, float(w[is_class].sum() / w.sum()), predicted, observed, interval,
        false_positive_rate, sensitivity, recall, precision, thresholds,
    )  # fmt: skip


def scores_at(
    threshold: float,
    is_class: Array,
    probability: Array,
    weight: Array | None = None,
    groups: Array | None = None,
) -> dict[str, Any]:
    """Measure the rule that predicts the class if its probability is at least `threshold`."""
    w = np.ones(len(is_class)) if weight is None else weight
    called = probability >= threshold
    pairs = {
        "sensitivity": (called, is_class),
        "specificity": (~called, ~is_class),
        "ppv": (is_class, called),
        "npv": (~is_class, ~called),
    }
    scores: dict[str, Any] = {"threshold": threshold}
    for name, (hit, among) in pairs.items():
        share, n = share_of(hit, among, w, groups)
        scores[name] = share
        scores[f"{name}_interval"] = wilson(share, n)
    scores["called"] = float(w[called].sum() / w.sum())
    return scores


def _thresholds(
    false_positive_rate: Array, sensitivity: Array, cuts: Array
) -> list[tuple[float, str]]:
    """Choose thresholds, each with its reason; nearly equal ones are skipped."""
    candidates = [(0.5, "default")]
    youden = cuts[np.argmax(sensitivity - false_positive_rate)]
    candidates.append((float(youden), "sensitivity + specificity"))
    for target in SENSITIVITIES:
        threshold = cuts[np.argmax(sensitivity >= target)]
        candidates.append((float(threshold), f"sensitivity {target:.0%}"))
    chosen: list[tuple[float, str]] = []
    for threshold, reason in candidates:
        # Rounded down, so that rows at the threshold reach it.
        rounded = float(np.floor(1000 * min(threshold, 1.0)) / 1000)
        if rounded > 0 and all(abs(rounded - other) > MIN_GAP * other for other, _ in chosen):
            chosen.append((rounded, reason))
    return sorted(chosen)


def _reliability(
    is_class: Array, probability: Array, weight: Array, groups: Array | None
) -> tuple[Array, Array, Array]:
    """Bin rows by quantiles of probability; return means, shares and intervals."""
    n_bins = int(np.clip(len(is_class) // MIN_ROWS_PER_BIN, 2, MAX_BINS))
    edges = np.unique(np.quantile(probability, np.linspace(0, 1, n_bins + 1)))
    bins = np.searchsorted(edges[1:-1], probability, side="right")
    predicted, observed, intervals = [], [], []
    for number in np.unique(bins):
        inside = bins == number
        share, n = share_of(is_class, inside, weight, groups)
        if share is None:
            continue
        predicted.append(float(np.average(probability[inside], weights=weight[inside])))
        observed.append(share)
        intervals.append(wilson(share, n))
    return np.array(predicted), np.array(observed), np.array(intervals)
