"""How good predicted labels are, class by class, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import hypergeom, norm
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from fuzzytwin._utils.types import Array

CONFIDENCE = 0.95


def measure(
    y: Array,
    predicted: Array,
    *,
    membership: Array | None = None,
    classes: Array | None = None,
    weight: Array | None = None,
    groups: Array | None = None,
    probabilities: bool = False,
) -> dict[str, Any]:
    """Measure predicted labels against the true ones `y`; ready for JSON.

    `membership` are memberships or probabilities, of which areas under curves are computed, in the
    order of `classes`; `probabilities` says that they are calibrated, and gives the log loss. Rows
    of one group (a patient, say) are not independent: with `groups`, intervals count groups.

    Intervals of shares are Wilson's, at 95 %, with the effective number of rows n = (sum w)^2 /
    sum w^2; with groups it is the number of independent rows that would vary as much. The interval
    of balanced accuracy combines those of the classes (Zou and Donner's MOVER). "guessing_p" is
    the probability of as many hits by guessing: Fisher's exact test of the class that is told best
    from the others (times the number of classes, where there are more than two). "verdict" says
    what the model is good for, with the recall of the class that is found least and its interval;
    "neglected" names a small class that is hardly found. What cannot be computed is None.
    """
    found, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
    labels, (true, named) = found.tolist(), codes.reshape(2, -1)
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    scores = {}
    if membership is not None and classes is not None:
        scores = dict(zip(classes.tolist(), membership.T, strict=True))
    per_class, guesses = [], []
    for k, label in enumerate(labels):
        own, called = true == k, named == k
        sensitivity, n_own = _share(called, own, w, groups)
        specificity, n_others = _share(~called, ~own, w, groups)
        guesses.append(_by_guessing(sensitivity, n_own, specificity, n_others))
        area, average_precision = _areas(own, scores.get(label), w)
        per_class.append({
            "class": label,
            "rows": int(own.sum()),
            "sensitivity": sensitivity,
            "sensitivity_interval": wilson(sensitivity, n_own),
            "specificity": specificity,
            "specificity_interval": wilson(specificity, n_others),
            "precision": _share(own, called, w, None)[0],
            "roc_auc": area,
            "average_precision": average_precision,
        })  # fmt: skip
    present = [entry for entry in per_class if entry["sensitivity"] is not None]
    accuracy, n = _share(true == named, np.ones(len(y), bool), w, groups)
    shares = np.array([entry["sensitivity"] for entry in present])
    ends = np.array([entry["sensitivity_interval"] for entry in present])
    balanced = float(shares.mean())
    low, high = (np.sqrt(((ends.T - shares) ** 2).sum(axis=1)) / len(shares)).tolist()
    guessing_p = min(1.0, min(guesses) * (len(labels) if len(labels) > 2 else 1))
    lost = {}
    if probabilities and membership is not None:
        own = y[:, None] == classes
        known = own.any(axis=1) & (w > 0)
        if known.any():
            losses = -np.log(np.maximum((membership * own).sum(axis=1)[known], 1e-15))
            lost["log_loss"] = float(np.average(losses, weights=w[known]))
    weakest = min(present, key=lambda entry: float(entry["sensitivity"]))
    small = weakest["rows"] < len(y) / len(present) / 2
    return {
        "rows": len(y),
        "accuracy": accuracy,
        "accuracy_interval": wilson(accuracy, n),
        "balanced_accuracy": balanced,
        "balanced_accuracy_interval": (max(0.0, balanced - low), min(1.0, balanced + high)),
        "baseline": float(np.bincount(true, w).max() / w.sum()),
        **lost,
        "guessing_p": guessing_p,
        "roc_auc": _mean(present, "roc_auc"),
        "average_precision": _mean(present, "average_precision"),
        "classes": labels,
        "confusion": confusion_matrix(true, named, labels=range(len(labels))).tolist(),
        "per_class": per_class,
        "verdict": _verdict(weakest, guessing_p, balanced, 1 / len(present)),
        "neglected": weakest["class"] if small and weakest["sensitivity"] < 0.5 else None,
    }


def wilson(share: float | None, n: float) -> tuple[float, float] | None:
    """Compute Wilson's interval of a share of n independent rows; None where there is no share.

    Examples
    --------
    >>> from fuzzytwin.apps.measures import wilson
    >>> low, high = wilson(0.5, 10)
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)
    """
    if share is None:
        return None
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2))
    return max(0.0, min(share, center - half)), min(1.0, max(share, center + half))


def _verdict(weakest: dict[str, Any], guessing_p: float, balanced: float, chance: float) -> str:
    """Say what a model is good for; `weakest` is the class that it finds least."""
    if guessing_p > (1 - CONFIDENCE) / 2 or balanced <= chance:
        return f"It may be no better than guessing, whose balanced accuracy is {chance:.3f}."
    share, label = weakest["sensitivity"], weakest["class"]
    if share == 1:
        return "It finds every row; make sure that no column gives the label away."
    low, high = weakest["sensitivity_interval"]
    digits = 2 if share == 0 or 0.01 <= share < 0.995 else 4
    found = f"{share:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    if share == 0:
        return f"It is better than guessing, but never finds class {label}: its recall is {found}."
    if share < 0.5:
        return f"It is better than guessing, but the recall of class {label} is {found}."
    return f"It is better than guessing. Recall (sensitivity) is lowest for class {label}: {found}."


def _by_guessing(found: float | None, n: float, kept: float | None, others: float) -> float:
    """Compute the probability that guessing finds as many rows of a class, by an exact test."""
    if found is None or kept is None:
        return 1.0
    n, others = round(n), round(others)
    hits, alarms = round(found * n), round((1 - kept) * others)
    return float(hypergeom.sf(hits - 1, n + others, n, hits + alarms))


def _share(hit: Array, among: Array, w: Array, groups: Array | None) -> tuple[float | None, float]:
    """Compute the share of hits among some rows, by weight, and how many rows that stands for."""
    w = np.where(among, w, 0.0)
    total = float(w.sum())
    if total <= 0:
        return None, 0.0
    share = min(1.0, float(w[hit & among].sum()) / total)
    n = total**2 / float((w**2).sum())
    if groups is not None:
        n = min(n, _independent(hit, w, share, groups))
    return share, n


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


def _areas(own: Array, score: Array | None, w: Array) -> tuple[float | None, float | None]:
    """ROC AUC and average precision of a class against all others."""
    if score is None or not 0 < w[own].sum() < w.sum():
        return None, None
    area = roc_auc_score(own, score, sample_weight=w)
    return float(area), float(average_precision_score(own, score, sample_weight=w))


def _mean(entries: list[dict[str, Any]], name: str) -> float | None:
    values = [entry[name] for entry in entries]
    return None if None in values else float(np.mean(values))
