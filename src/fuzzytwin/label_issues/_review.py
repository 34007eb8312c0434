r"""Correct the probabilities of label errors by a sample of reviewed rows.

    D (n,)      probabilities of label errors before any review, if some labels are wrong
    P (n,)      corrected probabilities
    v           probability that classes overlap and no label is wrong

**If some labels are wrong.** Rows are drawn for review by D. So among rows of equal D, reviewed and
other rows have the same probability of a label error, and D is recalibrated by a logistic
regression on the reviewed rows:

    logit P = a + b logit D + c_label,   a ~ N(0, 1.5^2),  b ~ N(1, 0.4^2),  c ~ N(0, 0.7^2).

D is clipped to [CLIP, 1 - CLIP] here. Beyond that, P is multiplied by (D / CLIP)^power, and 1 - P
by ((1 - D) / CLIP)^power (`TAIL`).

**If no label is wrong,** or hardly any, reviews find errors only in a small unknown share of rows,
with the prior Beta(1, 1 / SLIP - 1), whose mean is `SLIP`. With the marginal likelihoods of the
reviews, L_0 under this prior and L_1 of the logistic regression (integrated over a, b and c by
Laplace's method),

    logit v = logit v_before + CAUTION (log L_0 - log L_1).

P of all rows that were not reviewed is multiplied by 1 - v, and the interval begins at the number
found if v is at least 2.5%.

The number of label errors is the number found plus the sum of P over all other rows. Its variance
is that of these rows plus that of a, b and c (from the Hessian at the maximum), and the number of
errors that were not reviewed is taken as lognormal.

Label issues are corrected likewise, with narrower priors of a, b and c. They depend on which rows
were reviewed and on what was found there, not on the order of reviews. A review that finds an error
makes further errors of the same label more probable. It should not clear a row of that label with a
D at least as large: the tests check this, but no constraint enforces it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, expit, logit, ndtri

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import TAIL_95, TIE, best_f1
from fuzzytwin.core.newton import minimise

PRIOR_DEVIATIONS = (1.5, 0.4, 0.7)  # of a, b and c
# The same for label issues. They change more slowly: no single review flags a table, or clears it.
FLAG_DEVIATIONS = (0.5, 0.3, 0.35)
CLIP = 0.05  # D is clipped to [CLIP, 1 - CLIP], so that a few extreme rows do not determine b
# Beyond the clipping, P falls as this power of D, and 1 - P as this power of 1 - D. By `python -m
# benchmarks label_issues --reviews`, 0 gives too many errors for uniform noise, and 0.25 too few
# for errors of people. Without reviews the power is 1, and P is D.
TAIL = 0.15
TAIL_REVIEWS = 5  # number of reviews after which the power has come closer to TAIL by a factor of e
PARTIAL_COUNT = (0.1, 0.3)  # probabilities between which a row is counted partially
MAX_NO_ERRORS = 0.5  # v before reviews is capped at this for label issues: see `KEPT_FLAGS`
MODEL_ERROR = 0.15  # relative standard error that remains even if the recalibration is exact
SLIP = 0.02  # mean probability that a review finds an error if hardly any label is wrong
CAUTION = 0.6  # exponent of the likelihood ratio that moves v: D is more certain than it should be
KEPT_FLAGS = (0.5, 0.9)  # v up to which all flags are kept, and from which on none is
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
    p_error: Array,
    codes: Array,
    n_classes: int,
    rows: Array,
    is_error: Array,
    p_no_errors: float = 0.0,
) -> tuple[Array, tuple[float, float], float]:
    """Return P, which is 0 or 1 for reviewed rows, the interval of the number of errors, and v.

    `p_no_errors` is v before any review.
    """
    fit = _recalibrate(p_error, codes, n_classes, rows, is_error, PRIOR_DEVIATIONS)
    v = _p_no_errors(p_no_errors, is_error, fit.log_evidence)
    P = fit.P
    P[rows] = is_error
    n_found = float(is_error.sum())
    n_others = float(P.sum()) - n_found  # if some labels are wrong
    variance = P * (1 - P)  # zero for reviewed rows
    gradient = variance @ fit.design
    total_variance = gradient @ np.linalg.solve(fit.hessian, gradient) + variance.sum()
    relative = float(np.sqrt(total_variance)) / max(n_others, 1e-12)
    deviation = float(np.hypot(np.sqrt(np.log1p(relative**2)), MODEL_ERROR))  # of the logarithm
    low = high = n_found
    if n_others > 0 and v < TAIL_95:
        low += n_others * np.exp(deviation * ndtri((TAIL_95 - v) / (1 - v)))
    if n_others > 0 and v < 1 - TAIL_95:
        high += n_others * np.exp(deviation * ndtri(1 - TAIL_95 / (1 - v)))
    others = np.ones(len(P), dtype=bool)
    others[rows] = False
    P[others] *= 1 - v
    most = n_found + len(p_error) - len(rows)
    return P, (float(low), float(min(max(high, P.sum()), most))), v


def _p_no_errors(before: float, is_error: Array, log_evidence: float) -> float:
    """Return v after the reviews. `is_error` says which of them found an error."""
    if before <= 0:
        return 0.0
    n_found = int(is_error.sum())
    n_correct = len(is_error) - n_found
    log_likelihood = betaln(n_found + 1, n_correct + 1 / SLIP - 1) - betaln(1, 1 / SLIP - 1)
    return float(expit(logit(before) + CAUTION * (log_likelihood - log_evidence)))


def correct_flags(
    flags: Array,
    p_error: Array,
    codes: Array,
    n_classes: int,
    rows: Array,
    is_error: Array,
    p_no_errors: float = 0.0,
) -> Array:
    """Return corrected flags of label issues; reviewed rows have none.

    With P recalibrated under `FLAG_DEVIATIONS`, the number of flags of each label shrinks or grows
    as that of `_count_flags` does, and shrinks as v exceeds one half (`KEPT_FLAGS`). The flagged
    rows of largest D keep their flags, and the other rows of largest D get new ones.
    """
    labels = (p_error, codes, n_classes)
    fit = _recalibrate(*labels, rows, is_error, FLAG_DEVIATIONS)
    wide = _recalibrate(*labels, rows, is_error, PRIOR_DEVIATIONS)
    v = _p_no_errors(min(p_no_errors, MAX_NO_ERRORS), is_error, wide.log_evidence)
    before = _recalibrate(*labels, rows[:0], is_error[:0], FLAG_DEVIATIONS).P
    all_kept, none_kept = KEPT_FLAGS
    kept = min(max((none_kept - v) / (none_kept - all_kept), 0.0), 1.0)
    counts_after = kept * _count_flags(fit.P, codes, n_classes)
    counts_before = _count_flags(before, codes, n_classes)
    n_flags = np.bincount(codes[flags], minlength=n_classes)
    shrinks = counts_after < counts_before
    ratio = np.divide(counts_after, counts_before, out=np.ones(n_classes), where=shrinks)
    n_flags = np.rint(n_flags * ratio + np.maximum(counts_after - counts_before, 0.0))
    corrected = np.zeros(len(flags), dtype=bool)
    priority = flags + p_error  # flagged rows first
    for k in range(n_classes):
        of_label = np.flatnonzero(codes == k)
        n_kept = min(int(n_flags[k]), len(of_label))
        if n_kept:
            least = np.sort(priority[of_label])[-n_kept]
            corrected[of_label] = priority[of_label] >= least * (1 - TIE)
    corrected[rows] = False
    return corrected


def _count_flags(p_error: Array, codes: Array, n_classes: int) -> Array:
    """Return how many rows of each label maximise expected F1; improbable errors count partially.

    The counts change little if the probabilities change little, also if many of them are equal. A
    threshold would flag all of these rows or none.
    """
    order = np.argsort(-p_error, kind="stable")
    flagged = order[: best_f1(p_error[order])[0]]
    none_below, all_above = PARTIAL_COUNT
    partial = np.clip((p_error[flagged] - none_below) / (all_above - none_below), 0.0, 1.0)
    return np.bincount(codes[flagged], partial, minlength=n_classes)


@dataclass(frozen=True, eq=False)
class _Recalibration:
    """The fit of a, b and c."""

    P: Array
    design: Array
    hessian: Array
    log_evidence: float  # log likelihood of the reviews, integrated over a, b and c


def _recalibrate(
    p_error: Array,
    codes: Array,
    n_classes: int,
    rows: Array,
    is_error: Array,
    deviations: tuple[float, float, float],
) -> _Recalibration:
    """Fit a, b and c."""
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
    power = TAIL + (1 - TAIL) * np.exp(-len(rows) / TAIL_REVIEWS)
    P = expit(design @ x) * np.minimum(p_error / CLIP, 1.0) ** power
    P = 1 - (1 - P) * np.minimum((1 - p_error) / CLIP, 1.0) ** power
    curvature = hessian(expit(reviewed @ x))
    log_evidence = -objective(x)[0]
    log_evidence += (np.log(precision).sum() - np.linalg.slogdet(curvature)[1]) / 2
    return _Recalibration(P, design, curvature, float(log_evidence))
