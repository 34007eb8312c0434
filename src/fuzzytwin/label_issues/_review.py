r"""Correct the probabilities of label errors by a sample of reviewed rows.

    D (n,)      probabilities of label errors before any review
    P (n,)      corrected probabilities

Rows are drawn for review by D. So among rows of equal D, reviewed and other rows have the same
probability of a label error, and D is recalibrated by a logistic regression on the reviewed rows:

    logit P = a + b logit D + c_label,   a ~ N(0, 1.5^2),  b ~ N(1, 0.4^2),  c ~ N(0, 0.7^2).

The number of label errors is the number found plus the sum of P over all other rows. Its variance
is that of these rows plus that of a, b and c (from the Hessian at the maximum), and the number of
errors that were not reviewed is taken as lognormal.

Label issues are corrected likewise, with narrower priors of a, b and c. They depend on which rows
were reviewed and on what was found there, not on the order of reviews. A label error that was found
makes further errors of the same label more probable. So no row with that label and a D at least as
large stops being a label issue.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import NORMAL_95, TIE, best_f1
from fuzzytwin.core.newton import minimise

PRIOR_DEVIATIONS = (1.5, 0.4, 0.7)  # of a, b and c
# The same for label issues. They change more slowly: no single review flags a table, or clears it.
FLAG_DEVIATIONS = (0.5, 0.3, 0.35)
CLIP = 0.05  # D is clipped to [CLIP, 1 - CLIP], so that a few extreme rows do not determine b
# Beyond the clipping, P falls as this power of D, and 1 - P as this power of 1 - D. By `python -m
# benchmarks label_issues --reviews`, 0 gives too many errors for uniform noise, and 0.25 too few
# for errors of people.
TAIL = 0.15
PARTIAL_COUNT = (0.1, 0.3)  # probabilities between which a row is counted partially
UNIFORM_SHARE = 0.5  # of the rows for review: drawn from all rows, whatever D is


def draw_for_review(p_error: Array, n: int, rng: np.random.Generator) -> Array:
    """Draw n rows: half in proportion to D (1 - D), half uniformly.

    The draw is systematic over rows sorted by D, so that each range of D gets its share.
    """
    if not n:
        return np.empty(0, dtype=np.intp)
    variance = p_error * (1 - p_error)
    share = np.full(len(p_error), 1 / len(p_error))
    if variance.sum() > 0:
        share = UNIFORM_SHARE * share + (1 - UNIFORM_SHARE) * variance / variance.sum()
    order = np.argsort(-p_error, kind="stable")
    cumulated = np.cumsum(share[order])
    points = (np.arange(n) + rng.random()) / n * cumulated[-1]
    places = np.minimum(np.searchsorted(cumulated, points), len(order) - 1)
    is_drawn = np.zeros(len(p_error), dtype=bool)
    for place in places.tolist():
        while is_drawn[place]:  # a row of a large share was hit twice: take the next one
            place = (place + 1) % len(order)
        is_drawn[place] = True
    return order[is_drawn]


def correct_probabilities(
    p_error: Array, codes: Array, n_classes: int, rows: Array, is_error: Array
) -> tuple[Array, tuple[float, float]]:
    """Return P, which is 0 or 1 for reviewed rows, and the 95% interval of the number of errors."""
    corrected, design, hessian = _recalibrate(
        p_error, codes, n_classes, rows, is_error, PRIOR_DEVIATIONS
    )
    corrected[rows] = is_error
    n_found = float(is_error.sum())
    n_others = float(corrected.sum()) - n_found
    variance = corrected * (1 - corrected)  # zero for reviewed rows
    gradient = variance @ design
    total_variance = gradient @ np.linalg.solve(hessian, gradient) + variance.sum()
    factor = 1.0
    if n_others > 0:
        factor = float(np.exp(NORMAL_95 * np.sqrt(total_variance) / max(n_others, 1e-12)))
    high = min(n_found + n_others * factor, n_found + len(p_error) - len(rows))
    return corrected, (n_found + n_others / factor, float(high))


def correct_flags(
    flags: Array, p_error: Array, codes: Array, n_classes: int, rows: Array, is_error: Array
) -> Array:
    """Return corrected flags of label issues; reviewed rows have none.

    The rows of largest P are flagged, with P recalibrated under `FLAG_DEVIATIONS`. Their number is
    that of `flags`, plus the change in `_count_flags`.
    """
    labels = (p_error, codes, n_classes)
    before, *_ = _recalibrate(*labels, rows[:0], is_error[:0], FLAG_DEVIATIONS)
    after, *_ = _recalibrate(*labels, rows, is_error, FLAG_DEVIATIONS)
    n_flags = round(float(flags.sum()) + _count_flags(after) - _count_flags(before))
    corrected = np.zeros(len(flags), dtype=bool)
    if n_flags > 0:
        least = np.sort(after)[-min(n_flags, len(after))]
        corrected = after >= least * (1 - TIE)
    corrected[rows] = False
    return corrected


def _count_flags(p_error: Array) -> float:
    """Return the number of rows that maximise expected F1; improbable errors count partially.

    It changes little if the probabilities change little, also if many of them are equal. A
    threshold would flag all of these rows or none.
    """
    descending = np.sort(p_error)[::-1]
    flagged = descending[: best_f1(descending)[0]]
    none_below, all_above = PARTIAL_COUNT
    return float(np.clip((flagged - none_below) / (all_above - none_below), 0.0, 1.0).sum())


def _recalibrate(
    p_error: Array,
    codes: Array,
    n_classes: int,
    rows: Array,
    is_error: Array,
    deviations: tuple[float, float, float],
) -> tuple[Array, Array, Array]:
    """Fit a, b and c; return P of all rows, the design matrix and the Hessian."""
    targets = is_error.astype(float)
    log_odds = logit(np.clip(p_error, CLIP, 1 - CLIP))
    design = np.column_stack([np.ones(len(p_error)), log_odds, np.eye(n_classes)[codes]])
    reviewed = design[rows]
    prior_mean = np.r_[0.0, 1.0, np.zeros(n_classes)]
    of_a, of_b, of_c = deviations
    precision = np.r_[of_a, of_b, np.full(n_classes, of_c)] ** -2.0

    def objective(x: Array) -> tuple[float, Array]:
        scores = reviewed @ x
        log_loss = (np.logaddexp(0, scores) - targets * scores).sum()
        return float(log_loss + precision @ (x - prior_mean) ** 2 / 2), expit(scores)

    def hessian(p: Array) -> Array:
        return np.asarray((reviewed * (p * (1 - p))[:, None]).T @ reviewed + np.diag(precision))

    def derivatives(x: Array, p: Array) -> tuple[Array, Array]:
        gradient = reviewed.T @ (p - targets) + precision * (x - prior_mean)
        return np.linalg.solve(hessian(p), -gradient), gradient

    x = minimise(objective, derivatives, prior_mean)
    P = expit(design @ x) * np.minimum(p_error / CLIP, 1.0) ** TAIL
    P = 1 - (1 - P) * np.minimum((1 - p_error) / CLIP, 1.0) ** TAIL
    return P, design, hessian(expit(reviewed @ x))
