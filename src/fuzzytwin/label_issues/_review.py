r"""Correct the probabilities of label errors by a sample of reviewed rows.

    J, B (n,)   probabilities of label errors before any review, if label noise is random, and if it
                is at the boundary
    w           weight of random noise before any review, if some labels are wrong
    v           probability before any review that classes overlap and no label is wrong
    D, P (n,)   probabilities of label errors if some labels are wrong, and corrected ones
    P_J, P_B    J and B after recalibration
    W           probabilities of the explanations of the labels after reviews

In the symbols of `fuzzytwin.committee._noise`, J and B are 1 - J_i,y_i and 1 - B_i,y_i, w is u, and
v is v. Before any review, the probabilities of label errors are (1 - v) D, with D = w J + (1 - w)
B. Reviews change the probability of each explanation of the labels, and J and B as well.

**Recalibration.** Reviewed rows are drawn by D, and J and B determine it. So among rows of equal J
and B, reviewed and other rows have the same probability of a label error. J is recalibrated by a
logistic regression on the reviewed rows, and so is B:

    logit P_J = a + b logit((1 - 2 floor) J + floor) + c_label,

with independent normal priors of a, b and c (`RANDOM`, `BOUNDARY`). The labels determine random
errors well, so the prior of their slope b is narrow. People also err far from the boundary, so for
B the prior mean of b is below 1, and that of a is above 0.

**Explanations.** If no label is wrong, or hardly any, reviews find errors only in a small unknown
share of rows, with the prior Beta(1, 1 / SLIP - 1), whose mean is `SLIP`. Outcomes are recorded
wrongly at times as well, so a share `RANDOM_OUTCOMES` of v goes to random noise:

    random noise     (1 - v) w + RANDOM_OUTCOMES v
    boundary noise   (1 - v) (1 - w)
    none             (1 - RANDOM_OUTCOMES) v.

They are multiplied by the marginal likelihoods of the reviews (integrated over a, b and c by
Laplace's method) to the power `CAUTION`, and normalised: W_J, W_B and W_0. Then

    P = W_J P_J + W_B P_B,

but not above (1 - v) D as long as no error was found: reviews that confirm labels raise nothing.

**Number of errors.** It is the number found plus the sum of P over all other rows. If noise is
random, its variance is that of these rows plus that of a, b and c (from the Hessian at the
maximum), likewise at the boundary, and their number is taken as lognormal, with the relative
standard error `MODEL_ERROR` added. If hardly any label is wrong (W_0), it is 0. The interval is
that of the mixture, rounded outwards to whole numbers, and contains the estimate.

Label issues are corrected by a recalibration of D with priors of their own (`FLAGS`), and W_0 is
computed with v of at most `MAX_NO_ERRORS`. They depend on which rows were reviewed and on what was
found there, not on the order of reviews. A review that finds an error makes further errors of the
same label more probable. It should not clear a row of that label with a D at least as large: the
tests check this, but no constraint enforces it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, expit, logit, ndtr, softmax

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import TAIL_95, TIE, best_f1
from fuzzytwin.core.newton import minimise


@dataclass(frozen=True)
class _Prior:
    """Normal priors of a, b and c, whose mean is 0, and the floor of probabilities."""

    mean_a: float
    mean_b: float
    deviations: tuple[float, float, float]  # of a, b and c
    floor: float


# Chosen by `python -m benchmarks label_issues --reviews`, mostly on half of the tables and on the
# real ones. Results on the other half and on twelve confusable classes were seen while choosing.
RANDOM = _Prior(0.0, 1.0, (0.5, 0.1, 0.5), 1e-4)
BOUNDARY = _Prior(0.5, 0.7, (0.6, 0.3, 0.4), 0.003)
# Label issues change more slowly: no single review flags a table, or clears it.
FLAGS = _Prior(0.0, 1.0, (0.5, 0.3, 0.35), 0.01)
PARTIAL_COUNT = (0.1, 0.3)  # probabilities between which a row is counted partially
MAX_NO_ERRORS = 0.5  # largest v for label issues
MODEL_ERROR = 0.15  # relative standard error that remains even if the recalibration is exact
SLIP = 0.02  # mean probability that a review finds an error if hardly any label is wrong
RANDOM_OUTCOMES = 0.3
CAUTION = 0.8  # exponent of the likelihoods: J and B are more certain than they should be
KEPT_FLAGS = (0.5, 0.8)  # W_0 up to which all flags are kept, and from which on none is
UNIFORM_SHARE = 0.5  # of the rows for review: drawn from all rows, whatever D is


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Probabilities of label errors before any review."""

    if_random: Array  # J
    if_boundary: Array  # B
    p_random: float = 0.5  # w
    p_no_errors: float = 0.0  # v

    @property
    def if_errors(self) -> Array:
        """Return D."""
        return self.p_random * self.if_random + (1 - self.p_random) * self.if_boundary


@dataclass(frozen=True, eq=False)
class Reviews:
    """Reviewed rows of a table."""

    codes: Array  # labels of all rows
    n_classes: int
    rows: Array  # those that were reviewed
    is_error: Array  # whether the review found a label error


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
    model: ErrorModel, reviews: Reviews
) -> tuple[Array, tuple[float, float], float]:
    """Return P (0 or 1 for reviewed rows), the interval of the number of errors, and W_0."""
    random, boundary, weights = _explain(model, reviews)
    P = weights[0] * random.P + weights[1] * boundary.P
    if not reviews.is_error.any():
        P = np.minimum(P, (1 - model.p_no_errors) * model.if_errors)
    P[reviews.rows] = reviews.is_error
    low, high = _interval([random, boundary], weights, reviews)
    n_errors = float(P.sum())
    return P, (min(low, n_errors), max(high, n_errors)), float(weights[2])


def _explain(model: ErrorModel, reviews: Reviews) -> tuple[_Recalibration, _Recalibration, Array]:
    """Recalibrate J and B, and return the probabilities of the three explanations."""
    random = _recalibrate(model.if_random, reviews, RANDOM)
    boundary = _recalibrate(model.if_boundary, reviews, BOUNDARY)
    n_found = int(reviews.is_error.sum())
    n_correct = len(reviews.rows) - n_found
    log_none = betaln(n_found + 1, n_correct + 1 / SLIP - 1) - betaln(1, 1 / SLIP - 1)
    w, v = model.p_random, model.p_no_errors
    before = np.array([(1 - v) * w, (1 - v) * (1 - w), (1 - RANDOM_OUTCOMES) * v])
    before[0] += RANDOM_OUTCOMES * v
    log_likelihoods = np.array([random.log_evidence, boundary.log_evidence, log_none])
    with np.errstate(divide="ignore"):
        return random, boundary, softmax(np.log(before) + CAUTION * log_likelihoods)


def _interval(fits: list[_Recalibration], weights: Array, reviews: Reviews) -> tuple[float, float]:
    """Return the 95% interval of the number of errors: a mixture of lognormals and of 0."""
    n_found = float(reviews.is_error.sum())
    n_others = len(reviews.codes) - len(reviews.rows)
    if not n_others:
        return n_found, n_found
    means, deviations = np.transpose([fit.count_others(reviews.rows) for fit in fits])

    def cdf(log_number: float) -> float:
        return float(weights[:2] @ ndtr((log_number - np.log(means)) / deviations) + weights[2])

    def quantile(p: float) -> float:
        if p <= weights[2]:
            return 0.0
        ends = np.log(means)[:, None] + 10 * np.outer(deviations, [-1, 1])
        return float(np.exp(brentq(lambda x: cdf(x) - p, ends.min(), ends.max())))

    low, high = np.floor(quantile(TAIL_95)), np.ceil(quantile(1 - TAIL_95))
    return n_found + float(low), n_found + min(float(high), n_others)


def correct_flags(flags: Array, model: ErrorModel, reviews: Reviews) -> Array:
    """Return corrected flags of label issues; reviewed rows have none.

    With D recalibrated under `FLAGS`, the number of flags of each label shrinks or grows as that of
    `_count_flags` does, and shrinks as W_0 exceeds one half (`KEPT_FLAGS`). The flagged rows of
    largest D keep their flags, and the other rows of largest D get new ones.
    """
    p_error, codes, n_classes = model.if_errors, reviews.codes, reviews.n_classes
    none = np.empty(0, dtype=np.intp)
    no_reviews = replace(reviews, rows=none, is_error=none.astype(bool))
    capped = replace(model, p_no_errors=min(model.p_no_errors, MAX_NO_ERRORS))
    p_none = _explain(capped, reviews)[2][2]
    all_kept, none_kept = KEPT_FLAGS
    kept = min(max((none_kept - p_none) / (none_kept - all_kept), 0.0), 1.0)
    P = _recalibrate(p_error, reviews, FLAGS).P
    counts_after = kept * _count_flags(P, codes, n_classes)
    counts_before = _count_flags(_recalibrate(p_error, no_reviews, FLAGS).P, codes, n_classes)
    if not reviews.is_error.any():  # reviews that confirm labels raise nothing
        counts_after = np.minimum(counts_after, counts_before)
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
    corrected[reviews.rows] = False
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

    def count_others(self, reviewed: Array) -> tuple[float, float]:
        """Return the number of errors in other rows, and the standard error of its logarithm."""
        P = self.P.copy()
        P[reviewed] = 0.0
        n_others = max(float(P.sum()), np.finfo(float).tiny)
        variance = P * (1 - P)
        gradient = variance @ self.design
        total_variance = gradient @ np.linalg.solve(self.hessian, gradient) + variance.sum()
        log_variance = np.log1p(total_variance / n_others**2)
        return n_others, float(np.sqrt(log_variance + MODEL_ERROR**2))


def _recalibrate(p_error: Array, reviews: Reviews, prior: _Prior) -> _Recalibration:
    """Fit a, b and c."""
    targets = reviews.is_error.astype(float)
    log_odds = logit((1 - 2 * prior.floor) * p_error + prior.floor)
    indicators = np.eye(reviews.n_classes)[reviews.codes]
    design = np.column_stack([np.ones(len(p_error)), log_odds, indicators])
    reviewed = design[reviews.rows]
    prior_mean = np.r_[prior.mean_a, prior.mean_b, np.zeros(reviews.n_classes)]
    of_a, of_b, of_c = prior.deviations
    precision = np.r_[of_a, of_b, np.full(reviews.n_classes, of_c)] ** -2.0

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
    curvature = hessian(expit(reviewed @ x))
    log_evidence = -objective(x)[0]
    log_evidence += (np.log(precision).sum() - np.linalg.slogdet(curvature)[1]) / 2
    return _Recalibration(expit(design @ x), design, curvature, float(log_evidence))
