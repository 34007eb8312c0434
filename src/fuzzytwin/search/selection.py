"""Select by differences larger than sampling noise.

The best of thousands of cross-validated scores is mostly the luckiest. So a point must do two
things: score within one standard error of the best, and have a small Brier score. And where Brier
scores differ by less than half a standard error of their difference, the simpler point is taken:
a second C is kept only if it helps. The rule is the same for linear and for curved planes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array

BAND = 1.0  # width of the band, in standard errors of the best score
SAME_LOSS = 0.5  # Brier scores nearer than this, in standard errors of their difference, are equal


def band(scores: Array, n_folds: int) -> Array:
    """Find the points whose mean score lies within a standard error of the best.

    `scores` are those of every split (several rounds of `n_folds` folds each) and point. Rounds
    re-use the same samples, so the error is that of one round.
    """
    mean = scores.mean(axis=0)
    best = int(np.nanargmax(mean))
    rounding = 1e-12 * max(1.0, abs(mean[best]))
    return np.asarray(mean >= mean[best] - BAND * _error(scores[:, best], n_folds) - rounding)


def close_to_least(losses: Array, n_folds: int) -> Array:
    """Find the points whose mean loss hardly differs from the least, by paired differences."""
    mean = losses.mean(axis=0)
    least = int(mean.argmin())
    gap = losses - losses[:, [least]]
    rounding = 1e-12 * abs(mean[least])
    return gap.mean(axis=0) <= SAME_LOSS * _error(gap, n_folds) + rounding


def choose_point(params: list[Any], memberships: list[Any], points: Array, loss: Array) -> int:
    """Choose the simplest point: one C for both planes, then least loss.

    Exact ties go to more ridge, C nearer to 1, no membership, then one named earlier.
    """

    def sort_key(point: int) -> tuple[Any, ...]:
        chosen = params[point]
        membership = chosen["membership"]
        place = 0
        if membership is not None:
            place = next(i for i, other in enumerate(memberships) if other is membership)
        logs = np.log(np.atleast_1d(chosen["C"]))
        apart, far = round(float(np.ptp(logs)), 9), round(float(np.abs(logs).sum()), 9)
        least = round(float(loss[point]), 12)
        return apart, least, -chosen["alpha"], far, membership is not None, place

    return int(min(points, key=sort_key))


def _error(values: Array, n_folds: int) -> Array:
    """Compute the standard error of the mean of one round."""
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(n_folds))
