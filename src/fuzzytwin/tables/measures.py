"""How good predicted labels are, class by class, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

Array = NDArray[Any]
Interval = tuple[float, float]

CONFIDENCE = 0.95


def measure(
    y: Array,
    predicted: Array,
    *,
    membership: Array | None = None,
    classes: Array | None = None,
    weight: Array | None = None,
    groups: Array | None = None,
) -> dict[str, Any]:
    """Measure predicted labels against the true ones; ready for JSON.

    Parameters
    ----------
    y, predicted : ndarray of shape (n,)
        True and predicted labels.
    membership : ndarray of shape (n, K), default=None
        Membership in each class, from which the areas under curves are computed.
    classes : ndarray of shape (K,), default=None
        Labels of the columns of `membership`.
    weight : ndarray of shape (n,), default=None
        Weight of each row.
    groups : ndarray of shape (n,), default=None
        What each row belongs to (a patient, say). Rows of one group are not independent: the
        intervals count groups, not rows.

    Returns
    -------
    dict
        Accuracy and balanced accuracy, each with an interval; the accuracy of always naming the
        largest class; the confusion matrix; and for each class sensitivity (the share of its
        rows that is found) and specificity (the share of the others that is not taken for it),
        each with an interval, precision, ROC AUC and average precision. What cannot be computed
        is None.

    Notes
    -----
    Intervals of shares are Wilson's, at 95 %, with the effective number of rows n = (sum w)^2 /
    sum w^2; with groups it is the number of independent rows that would vary as much. The
    interval of balanced accuracy combines those of the classes (Zou and Donner's MOVER).
    """
    found = np.unique(np.concatenate([y, predicted]))
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    per_class = []
    for label in found:
        own = y == label
        named = predicted == label
        entry: dict[str, Any] = {"class": _plain(label), "rows": int(own.sum())}
        entry["sensitivity"], entry["sensitivity_interval"] = _share(named, own, w, groups)
        entry["specificity"], entry["specificity_interval"] = _share(~named, ~own, w, groups)
        entry["precision"] = _share(own, named, w, None)[0]
        score = None
        if membership is not None and classes is not None and (classes == label).any():
            score = membership[:, int(np.flatnonzero(classes == label)[0])]
        entry["roc_auc"], entry["average_precision"] = _areas(own, score, w)
        per_class.append(entry)
    present = [entry for entry in per_class if entry["sensitivity"] is not None]
    accuracy, interval = _share(y == predicted, np.ones(len(y), bool), w, groups)
    balanced, balanced_interval = _balanced(present)
    return {
        "rows": len(y),
        "accuracy": accuracy,
        "accuracy_interval": interval,
        "balanced_accuracy": balanced,
        "balanced_accuracy_interval": balanced_interval,
        "baseline": max(float(w[y == label].sum() / w.sum()) for label in found),
        "roc_auc": _mean(present, "roc_auc"),
        "average_precision": _mean(present, "average_precision"),
        "classes": [_plain(label) for label in found],
        "confusion": _confusion(y, predicted, found),
        "per_class": per_class,
    }


def _confusion(y: Array, predicted: Array, labels: Array) -> list[list[int]]:
    if len(labels) == 1:
        return [[len(y)]]  # of which scikit-learn would warn
    return confusion_matrix(y, predicted, labels=labels).tolist()


def wilson(share: float, n: float) -> Interval:
    """Compute Wilson's interval of a share of n independent rows.

    Examples
    --------
    >>> from fuzzytwin.tables.measures import wilson
    >>> low, high = wilson(0.5, 10)
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)
    """
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2))
    return max(0.0, min(share, center - half)), min(1.0, max(share, center + half))


def verdict(score: dict[str, Any]) -> str:
    """Say in one sentence what a model is good for, by what `measure` returned."""
    present = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]
    chance = 1 / max(len(present), 1)
    if score["balanced_accuracy_interval"][0] <= chance:
        return f"It may be no better than guessing, whose balanced accuracy is {chance:.3f}."
    weakest = min(present, key=lambda entry: float(entry["sensitivity"]))
    share = weakest["sensitivity"]
    if share == 0:
        return f"It is better than guessing, but never finds class {weakest['class']}."
    if share < 0.5:
        found = f"{_percent(share)} of class {weakest['class']}"
        return f"It is better than guessing, but finds only {found}."
    if share == 1:
        return "It finds every row; make sure that no column gives the label away."
    return f"It is better than guessing: it finds at least {_percent(share)} of every class."


def neglected_class(score: dict[str, Any]) -> Any:
    """Name the class that is found least, if it is small and mostly not found; else None."""
    present = [entry for entry in score["per_class"] if entry["sensitivity"] is not None]
    weakest = min(present, key=lambda entry: float(entry["sensitivity"]))
    small = weakest["rows"] < score["rows"] / len(present) / 2
    return weakest["class"] if small and weakest["sensitivity"] < 0.5 else None


def _percent(share: float) -> str:
    """Write a share in percent, never as more than it is."""
    return f"{np.floor(100 * share + 1e-9):.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


def _share(
    hit: Array, among: Array, w: Array, groups: Array | None
) -> tuple[float | None, Interval | None]:
    """Share of hits among some rows, by weight, and its interval."""
    w = np.where(among, w, 0.0)
    total = float(w.sum())
    if total <= 0:
        return None, None
    share = min(1.0, float(w[hit & among].sum()) / total)
    n = total**2 / float((w**2).sum())
    if groups is not None:
        n = min(n, _independent(hit, w, share, groups))
    return share, wilson(share, n)


def _independent(hit: Array, w: Array, share: float, groups: Array) -> float:
    """Count the independent rows whose share would vary as much as that of these groups."""
    codes = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(codes, w)
    size, excess = size[size > 0], np.bincount(codes, w * (hit - share))[size > 0]
    if len(size) < 2:
        return 1.0
    variance = float((excess**2).sum()) / float(size.sum()) ** 2 * len(size) / (len(size) - 1)
    if share in (0.0, 1.0) or variance <= 0:
        return float(size.sum() ** 2 / (size**2).sum())
    return share * (1 - share) / variance


def _balanced(present: list[dict[str, Any]]) -> tuple[float, Interval]:
    """Mean sensitivity and its interval."""
    shares = np.array([entry["sensitivity"] for entry in present])
    ends = np.array([entry["sensitivity_interval"] for entry in present])
    mean = float(shares.mean())
    low, high = np.sqrt(((ends.T - shares) ** 2).sum(axis=1)) / len(shares)
    return mean, (max(0.0, mean - float(low)), min(1.0, mean + float(high)))


def _areas(own: Array, score: Array | None, w: Array) -> tuple[float | None, float | None]:
    """ROC AUC and average precision of a class against all others."""
    if score is None or not 0 < w[own].sum() < w.sum():
        return None, None
    area = roc_auc_score(own, score, sample_weight=w)
    return float(area), float(average_precision_score(own, score, sample_weight=w))


def _mean(entries: list[dict[str, Any]], name: str) -> float | None:
    values = [entry[name] for entry in entries]
    return None if None in values else float(np.mean(values))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
