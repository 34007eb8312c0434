r"""Differences between classifiers on the folds of one table: the corrected resampled t-test.

Scores on the folds of one table are not independent, because their training rows overlap. A plain
t-test would report differences that do not exist. With :math:`d_1, \dots, d_J` the differences
between the scores of two classifiers on J folds, :math:`\bar d` and :math:`s^2` their mean and
variance, and a share :math:`\rho` of the rows in each test fold, Nadeau and Bengio [1]_ use

.. math:: t = \frac{\bar d}{\sqrt{\big(\frac1J + \frac{\rho}{1 - \rho}\big)\, s^2}}

with J - 1 degrees of freedom. The plain t-test lacks the second fraction.

References
----------
.. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52
   (2003) 239-281.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fuzzytwin._utils.types import Array

ALPHA = 0.05  # significance level, and 1 - coverage of the intervals


@dataclass(frozen=True)
class Difference:
    """A classifier compared with the control on the same folds.

    Attributes
    ----------
    mean : float
        Mean score of the classifier.
    difference : float
        Mean score of the control minus that of the classifier.
    interval : tuple of (float, float)
        Confidence interval of the difference, not corrected for the number of classifiers.
    p, holm_p : float
        Two-sided p-value, plain and corrected by Holm for the number of classifiers.
    """

    mean: float
    difference: float
    interval: tuple[float, float]
    p: float
    holm_p: float


def fold_differences(
    scores: Mapping[str, Sequence[float]], control: str, test_share: float
) -> dict[str, Difference]:
    """Compare every classifier with the control.

    Parameters
    ----------
    scores : mapping of name to scores
        Scores of every classifier on the same folds, at least 2. Higher is better.
    control : str
        The classifier that all others are compared with.
    test_share : float
        Share of the rows that a fold tests on: 1 / k for k-fold cross-validation.

    Returns
    -------
    differences : dict of name to Difference
        Best mean score first. The control has difference 0 and p-values of 1.
    """
    names = list(scores)
    table = np.array([scores[name] for name in names], dtype=np.float64)
    # Round to 12 digits of the largest score, so that 0.1 + 0.2 is 0.3.
    scale = np.abs(table).max() or 1.0
    d = np.round((table[names.index(control)] - table) / scale, 12) * scale
    n_folds = table.shape[1]
    difference = d.mean(axis=1)
    variance = (1 / n_folds + test_share / (1 - test_share)) * d.var(axis=1, ddof=1)
    error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, difference / error)
    p = 2 * stats.t.sf(np.abs(t), n_folds - 1)
    half_width = stats.t.isf(ALPHA / 2, n_folds - 1) * error
    holm_p = _holm(p, names.index(control))
    means = table.mean(axis=1)
    return {
        names[i]: Difference(
            mean=float(means[i]),
            difference=float(difference[i]),
            interval=(float(difference[i] - half_width[i]), float(difference[i] + half_width[i])),
            p=float(p[i]),
            holm_p=float(holm_p[i]),
        )
        for i in np.argsort(-means, kind="stable")
    }


def conclusions(differences: Mapping[str, Difference], control: str) -> list[str]:
    """Describe in words which differences are significant."""
    significant = {name: d for name, d in differences.items() if d.holm_p <= ALPHA}
    worse = [name for name, d in significant.items() if d.difference > 0]
    better = [name for name, d in significant.items() if d.difference < 0]
    test = "Corrected resampled t-test, Holm"
    sentences = []
    if worse:
        sentences.append(f"{test}: {control} is significantly better than {', '.join(worse)}.")
    if better:
        sentences.append(f"{test}: {control} is significantly worse than {', '.join(better)}.")
    return sentences or [f"{test}: {control} does not differ significantly from the others."]


def _holm(p: Array, control: int) -> Array:
    """Correct the p-values of all but the control by Holm's step-down procedure."""
    adjusted = np.ones(len(p))
    order = np.argsort(p, kind="stable")
    order = order[order != control]
    n_hypotheses = np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(p[order] * n_hypotheses).clip(max=1)
    return adjusted
