r"""What rows that a person has looked at say about all others.

A model finds the label of row i wrong with probability D_i. Which of the rows of equal D are wrong
in fact does not depend on which of them were looked at, as rows are chosen by D. So D is corrected
by a logistic regression on the n rows that were looked at, within what is usual:

    logit P(wrong) = a + b logit D + c_label,   a ~ N(0, 1.5^2),  b ~ N(1, 0.4^2),  c ~ N(0, 0.7^2).

The number of wrong labels is the number found plus the sum of P over all other rows. Its deviation
is that of these rows and that of a, b, c (by the second derivatives at the maximum); what is not
yet known is lognormal.

Flags follow from P in the same way, with less of a, b and c. They depend on which rows were looked
at and on what was found there, never on the order. A label that was found wrong makes others of its
kind more probable errors, and so it takes no flag from a row of the same label and no smaller D.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import TIE, greatest_f1
from fuzzytwin.core.newton import minimise

DEVIATIONS = 1.5, 0.4, 0.7  # of a, b and c
# Of a, b and c for flags, which follow more slowly: no single row flags a table, or clears it.
FLAG_DEVIATIONS = 0.5, 0.3, 0.35
CLIP = 0.05  # D is kept away from 0 and 1, where few rows would decide on b
# Below it P falls as this power of D, and 1 - P as that of 1 - D above 1 - CLIP: by `python -m
# benchmarks doubts --settle`, 0 counts too many wrong labels where noise is uniform, and 0.25 too
# few where people made the errors.
TAIL = 0.15
FLAGGED_IN_PART = 0.1, 0.3  # probabilities between which a row counts in part
AT_RANDOM = 0.5  # share of the rows to ask about that is drawn whatever D is
NORMAL_95 = 1.96  # deviations to each end of an interval of 95 %


def rows_to_ask(wrong: Array, n: int, rng: np.random.Generator) -> Array:
    """Draw n rows by probabilities of being wrong: half as D (1 - D), half from all alike.

    Rows are sorted by D and drawn in equal steps, so that each range of D has its share.
    """
    if not n:
        return np.empty(0, dtype=np.intp)
    spread = wrong * (1 - wrong)
    total = spread.sum()
    share = np.full(len(wrong), 1 / len(wrong))
    if total > 0:
        share = AT_RANDOM * share + (1 - AT_RANDOM) * spread / total
    order = np.argsort(-wrong, kind="stable")
    upto, chosen = np.cumsum(share[order]), np.zeros(len(wrong), dtype=bool)
    points = (np.arange(n) + rng.random()) / n * upto[-1]
    for place in np.minimum(np.searchsorted(upto, points), len(order) - 1).tolist():
        while chosen[place]:  # one row of a large share was met twice: take the next one
            place = (place + 1) % len(order)
        chosen[place] = True
    return order[chosen]


def corrected(
    wrong: Array, codes: Array, n_classes: int, rows: Array, found: Array
) -> tuple[Array, float, tuple[float, float]]:
    """Correct probabilities D (n,) of wrong labels by what was found in some rows.

    Returns P, 0 or 1 for these rows, the expected number of wrong labels and its 95 % interval.
    """
    after, A, curvature = _regress(wrong, codes, n_classes, rows, found, DEVIATIONS)
    after[rows] = found
    spread = after * (1 - after)  # none for rows that were looked at
    slope = spread @ A
    known = float(found.sum())
    open_ = float(after.sum()) - known
    variance = slope @ np.linalg.solve(curvature, slope) + spread.sum()
    reach = np.exp(NORMAL_95 * np.sqrt(variance) / max(open_, 1e-12)) if open_ > 0 else 1.0
    high = min(known + open_ * reach, known + len(wrong) - len(rows))
    return after, known + open_, (known + open_ / reach, float(high))


def corrected_flags(
    flags: Array, wrong: Array, codes: Array, n_classes: int, rows: Array, found: Array
) -> Array:
    """Correct flags (n,) of a first look by what was found in some rows, which have none.

    The rows of greatest P are flagged, P being corrected within `FLAG_DEVIATIONS`. There are as
    many of them as before, plus the change of `_count`.
    """
    before, *_ = _regress(wrong, codes, n_classes, rows[:0], found[:0], FLAG_DEVIATIONS)
    after, *_ = _regress(wrong, codes, n_classes, rows, found, FLAG_DEVIATIONS)
    count = round(float(flags.sum()) + _count(after) - _count(before))
    corrected = np.zeros(len(flags), dtype=bool)
    if count > 0:
        least = np.sort(after)[-min(count, len(after))]
        corrected = after >= least * (1 - TIE)
    corrected[rows] = False
    return corrected


def _count(wrong: Array) -> float:
    """Return the number of rows of greatest expected F1, in which unlikely errors count in part.

    It moves little where probabilities do, also where many of them are equal: a least probability
    would flag all of these rows or none.
    """
    falling = np.sort(wrong)[::-1]
    best = falling[: greatest_f1(falling)[0]]
    least, enough = FLAGGED_IN_PART
    return float(np.clip((best - least) / (enough - least), 0.0, 1.0).sum())


def _regress(
    wrong: Array,
    codes: Array,
    n_classes: int,
    rows: Array,
    found: Array,
    deviations: tuple[float, float, float],
) -> tuple[Array, Array, Array]:
    """Fit a, b and c; return P of all rows, the columns of the regression, and its curvature."""
    z = found.astype(float)
    A = np.column_stack([
        np.ones(len(wrong)), logit(np.clip(wrong, CLIP, 1 - CLIP)), np.eye(n_classes)[codes]
    ])  # fmt: skip
    of_a, of_b, of_c = deviations
    mean = np.r_[0.0, 1.0, np.zeros(n_classes)]
    precision = np.r_[of_a, of_b, np.full(n_classes, of_c)] ** -2.0
    seen = A[rows]

    def objective(x: Array) -> tuple[float, Array]:
        scores = seen @ x
        value = (np.logaddexp(0, scores) - z * scores).sum() + precision @ (x - mean) ** 2 / 2
        return float(value), expit(scores)

    def curvature(p: Array) -> Array:
        return np.asarray((seen * (p * (1 - p))[:, None]).T @ seen + np.diag(precision))

    def derivatives(x: Array, p: Array) -> tuple[Array, Array]:
        gradient = seen.T @ (p - z) + precision * (x - mean)
        return np.linalg.solve(curvature(p), -gradient), gradient

    at = minimise(objective, derivatives, mean)
    P = expit(A @ at) * np.minimum(wrong / CLIP, 1.0) ** TAIL  # slower than D itself does
    P = 1 - (1 - P) * np.minimum((1 - wrong) / CLIP, 1.0) ** TAIL
    return P, A, curvature(expit(seen @ at))
