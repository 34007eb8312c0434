"""Scores of predicted labels, class by class, with confidence intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import hypergeom, norm
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from fuzzytwin._utils.types import Array

CONFIDENCE = 0.95
VERDICTS = ("no_better_than_guessing", "misses_a_class", "better_than_guessing", "perfect")


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
    """Measure predicted labels against the true ones `y`, for JSON.

    `membership` has memberships or probabilities in the order of `classes`, for the areas under
    curves. If they are calibrated `probabilities`, the log loss is computed too. Rows of one group,
    such as a patient, are not independent: with `groups`, intervals count groups.

    Intervals of shares are Wilson's, at 95%, with the effective number of rows n = (sum w)^2 /
    sum w^2; with groups it is the number of independent rows that would vary as much. The interval
    of balanced accuracy combines those of the classes (Zou and Donner's MOVER). That of the area
    under the ROC curve is DeLong's, or Obuchowski's with groups; the mean area of more than two
    classes has none. "guessing_p" is
    the probability of as many hits by guessing: Fisher's exact test of the class that is separated
    best from the others, times the number of classes if there are more than two. "verdict" is one
    of `VERDICTS`, and "weakest" the class of lowest recall. "missed_class" is a small class of
    recall below 0.5. What cannot be computed is None.
    """
    classes_seen, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
    labels = classes_seen.tolist()
    true, guessed = codes.reshape(2, -1)
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    scores = {}
    if membership is not None and classes is not None:
        scores = dict(zip(classes.tolist(), membership.T, strict=True))
    per_class, guesses = [], []
    for k, label in enumerate(labels):
        own = true == k
        called = guessed == k
        sensitivity, n_own = share_of(called, own, w, groups)
        specificity, n_others = share_of(~called, ~own, w, groups)
        guesses.append(_guessing_p(sensitivity, n_own, specificity, n_others))
        area, average_precision = _areas(own, scores.get(label), w)
        area_interval = None if area is None else auc_interval(own, scores[label], w, groups)
        per_class.append({
            "class": label,
            "rows": int(own.sum()),
            "sensitivity": sensitivity,
            "sensitivity_interval": wilson(sensitivity, n_own),
            "specificity": specificity,
            "specificity_interval": wilson(specificity, n_others),
            "precision": share_of(own, called, w, None)[0],
            "roc_auc": area,
            "roc_auc_interval": area_interval,
            "average_precision": average_precision,
        })  # fmt: skip
    present = [entry for entry in per_class if entry["sensitivity"] is not None]
    accuracy, n = share_of(true == guessed, np.ones(len(y), bool), w, groups)
    shares = np.array([entry["sensitivity"] for entry in present])
    ends = np.array([entry["sensitivity_interval"] for entry in present])
    balanced = float(shares.mean())
    low, high = (np.sqrt(((ends.T - shares) ** 2).sum(axis=1)) / len(shares)).tolist()
    guessing_p = min(1.0, min(guesses) * (len(labels) if len(labels) > 2 else 1))
    log_loss = {}
    if probabilities and membership is not None:
        own = y[:, None] == classes
        counted = own.any(axis=1) & (w > 0)
        if counted.any():
            losses = -np.log(np.maximum((membership * own).sum(axis=1)[counted], 1e-15))
            log_loss["log_loss"] = float(np.average(losses, weights=w[counted]))
    weakest = min(present, key=lambda entry: float(entry["sensitivity"]))
    small = weakest["rows"] < len(y) / len(present) / 2
    return {
        "rows": len(y),
        "accuracy": accuracy,
        "accuracy_interval": wilson(accuracy, n),
        "balanced_accuracy": balanced,
        "balanced_accuracy_interval": (max(0.0, balanced - low), min(1.0, balanced + high)),
        "baseline": float(np.bincount(true, w).max() / w.sum()),
        **log_loss,
        "guessing_p": guessing_p,
        "roc_auc": _mean(present, "roc_auc"),
        **({"roc_auc_interval": present[-1]["roc_auc_interval"]} if len(present) == 2 else {}),
        "average_precision": _mean(present, "average_precision"),
        "classes": labels,
        "confusion": confusion_matrix(true, guessed, labels=range(len(labels))).tolist(),
        "per_class": per_class,
        "chance": 1 / len(present),
        "verdict": _verdict(weakest["sensitivity"], guessing_p, balanced, 1 / len(present)),
        "weakest": weakest["class"],
        "missed_class": weakest["class"] if small and weakest["sensitivity"] < 0.5 else None,
    }


def wilson(share: float | None, n: float) -> tuple[float, float] | None:
    """Compute Wilson's interval of a share of n independent rows; None without a share.

    Examples
    --------
    >>> from fuzzytwin.experiment._metrics import wilson
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


def _verdict(lowest_recall: float, guessing_p: float, balanced: float, chance: float) -> str:
    """Choose one of `VERDICTS`."""
    if guessing_p > (1 - CONFIDENCE) / 2 or balanced <= chance:
        return "no_better_than_guessing"
    if lowest_recall == 1:
        return "perfect"
    return "misses_a_class" if lowest_recall < 0.5 else "better_than_guessing"


def _guessing_p(
    sensitivity: float | None, n_own: float, specificity: float | None, n_others: float
) -> float:
    """Return the p-value of Fisher's exact test that a class is not found better than by chance."""
    if sensitivity is None or specificity is None:
        return 1.0
    n, others = round(n_own), round(n_others)
    true_positives = round(sensitivity * n)
    false_positives = round((1 - specificity) * others)
    n_called = true_positives + false_positives
    return float(hypergeom.sf(true_positives - 1, n + others, n, n_called))


def share_of(
    hit: Array, among: Array, w: Array, groups: Array | None
) -> tuple[float | None, float]:
    """Return the weighted share of hits among rows, and the effective number of these rows."""
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
    """Return the number of independent rows whose share varies as much as that of these groups."""
    codes = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(codes, w)
    size, excess = size[size > 0], np.bincount(codes, w * (hit - share))[size > 0]
    if len(size) < 2:
        return 1.0
    variance = float((excess**2).sum()) / float(size.sum()) ** 2 * len(size) / (len(size) - 1)
    if share in (0.0, 1.0) or variance <= 0:
        return float(size.sum() ** 2 / (size**2).sum())
    return share * (1 - share) / variance


def auc_interval(
    own: Array, score: Array, w: Array, groups: Array | None = None
) -> tuple[float, float]:
    r"""Compute the interval of the area under the ROC curve, on the scale of its log odds.

    With V_i the share of the other class that row i is ranked correctly against, the variance is

    .. math:: \sum_g \Big( \sum_{i \in g} \frac{w_i}{W_i} (V_i - A) \Big)^2,

    where A is the area, W_i the weight of the class of row i, and g a group, or a row without
    groups: DeLong's variance, and Obuchowski's for clustered rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.experiment._metrics import auc_interval
    >>> own = np.array([False] * 10 + [True] * 10)
    >>> low, high = auc_interval(own, np.arange(20) % 13, np.ones(20))
    >>> round(low, 3), round(high, 3)
    (0.299, 0.771)
    """
    wins = np.zeros(len(own))
    part = np.zeros(len(own))
    for side in (own, ~own):
        others, codes = np.unique(score[~side], return_inverse=True)
        below = np.append(0.0, np.cumsum(np.bincount(codes, w[~side])))
        first = np.searchsorted(others, score[side], side="left")
        last = np.searchsorted(others, score[side], side="right")
        share_below = (below[first] + below[last]) / 2 / below[-1]  # ties count half
        wins[side] = share_below if side is own else 1 - share_below
        part[side] = w[side] / w[side].sum()
    area = float(part[own] @ wins[own])
    influence: Array = part * (wins - area)
    if groups is not None:
        influence = np.bincount(np.unique(groups, return_inverse=True)[1], influence)
    error = float(np.sqrt((influence**2).sum()))
    if area in (0.0, 1.0):  # no variance is seen: as a share of the rows of the smaller class
        n = min(share_of(side, side, w, groups)[1] for side in (own, ~own))
        return wilson(area, n) or (area, area)
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    half = z * error / (area * (1 - area))
    low, high = expit(logit(area) - half), expit(logit(area) + half)
    return float(low), float(high)


def _areas(own: Array, score: Array | None, w: Array) -> tuple[float | None, float | None]:
    """Return the ROC AUC and average precision of a class against all others."""
    if score is None or not 0 < w[own].sum() < w.sum():
        return None, None
    area = roc_auc_score(own, score, sample_weight=w)
    return float(area), float(average_precision_score(own, score, sample_weight=w))


def _mean(entries: list[dict[str, Any]], name: str) -> float | None:
    values = [entry[name] for entry in entries]
    return None if None in values else float(np.mean(values))
