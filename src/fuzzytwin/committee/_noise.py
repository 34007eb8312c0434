r"""Label-noise model: random label noise, boundary label noise, or overlap of the classes.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    y, s (n,)   labels and weights of the rows
    q (n, K)    probabilities of labels, by stacking (`fuzzytwin.committee._stacking`)
    p (n, K)    probabilities of true classes, if noise is random
    r (n, K)    probabilities of true classes, if noise is at the boundary
    T (K, K)    noise matrix: T_jk is the probability of label k in class j
    J, B (n, K) posterior of the true class, given the label, under random and boundary noise
    Y (n, K)    indicators of the labels: the posterior if no label is wrong
    w           probability that noise is random
    b           probability of boundary noise rather than overlap, if noise is not random

Labels may disagree with the predictions for three reasons.

**Random label noise** (Angluin and Laird, 1988; Natarajan et al., 2013). The true class is j with
probability p_ij, and the label is k with probability T_jk, independently of the row. p and T are
fitted jointly to the labels (`fuzzytwin.committee._noise_likelihood`). The posterior of class j is

    J_ij = p_ij T_j,y_i / sum_l p_il T_l,y_i.

**Boundary label noise** (Menon, van Rooyen and Natarajan, 2018). People make errors where classes
meet. Labels then have the probabilities q, and the truth is sharper, r_i proportional to q_i^beta.
The likelihood of labels cannot distinguish this from true overlap of classes, so beta is a constant
(`SHARPNESS`), with one correction. If classes are sharp but rows too few to show it, q is blunt
because the members are poorly determined, and in-sample values fit much better than leave-one-out
values. With the mean leave-one-out log loss L of the labels and the in-sample log loss L',
f = 2 L' / L - 1, clipped to [0, 1], is the share of L that would remain if the loss fell by L - L'
once more below L', and beta = 1 + (SHARPNESS - 1) f. Truth and label agree as often as r and q
allow, except for a share `INDEPENDENT` of rows in which they are independent:

    B_ij = P(truth j | label k) = (1 - INDEPENDENT) c_jk + INDEPENDENT r_j,
    c_kk = min(1, r_k / q_k),   c_jk = (1 - c_kk) (r_j - q_j)_+ / sum_l (r_l - q_l)_+,

and c_kk = 1 for a class of fewer than `RARE_CLASS_ROWS` rows that is never recognised (q_k is not
the largest in any of its rows). Otherwise a rare class that the columns hardly show would vanish.

**Overlap.** The label is a draw from q, as an outcome is, and no label is wrong: Y.

**All three.** Random noise has the probability w = 1 / (1 + exp(OCCAM - gain)), in which `gain` is
the difference of its objective and the log likelihood of q. The posterior is

    w J + (1 - w) (b B + (1 - b) Y).

Features and labels cannot tell boundary noise from overlap, so b is what the user says: b = 1 if
labels are "annotated", b = 0 if they are "observed", and otherwise

    b = (1 - P_OVERLAP) exp(-(e / MAX_BOUNDARY_SHARE)^4),   e = weighted mean of 1 - B_i,y_i:

people who get a quarter of all labels wrong are rare, classes that overlap that much are not.
Reviews then decide (`fuzzytwin.label_issues._review`).

A label is *suggested* if its probability is at least `MIN_SUGGESTED` whatever b is, so that
accepting helps under both readings of the overlap. *Flags* (rows to review) maximise expected F1
with `P_OVERLAP` = 0, because a review of a correct label costs little. Without evidence of random
noise, and unless labels are "annotated", at most half of the rows of a label are flagged, so that
a rare class is not called wrong as a whole.

If the log likelihood of q is not better than that of constant probabilities by at least
`MIN_GAIN`, no number of label errors is given, and labels are taken as nearly correct
(`NO_SIGNAL` of the posterior remains, to rank rows).

References
----------
D. Angluin and P. Laird, "Learning from noisy examples", Machine Learning 2 (1988), 343-370.
N. Natarajan et al., "Learning with noisy labels", NeurIPS 2013.
A. K. Menon, B. van Rooyen and N. Natarajan, "Learning from binary labels with instance-dependent
noise", Machine Learning 107 (2018), 1561-1595.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special
from scipy.special import softmax

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise_likelihood import RandomNoiseLikelihood, random_posterior
from fuzzytwin.committee._stacking import StackingModel, fit_stacking

TIE = 1e-9  # relative difference of probabilities taken as equal
# The following were chosen on half of the datasets of `python -m benchmarks label_issues`, and on
# synthetic ones without noise or without signal.
SHARPNESS = 3.0
INDEPENDENT = 0.1
OCCAM = 1.0  # gain in log likelihood at which both kinds of noise are equally probable
P_OVERLAP = 0.55
MAX_BOUNDARY_SHARE = 0.25
MIN_SUGGESTED = 0.8
MIN_GAIN = 4.0
NO_SIGNAL = 0.1
RARE_CLASS_ROWS = 100
# With boundary noise, any number from 0 to this multiple of the overlap may be wrong.
MAX_OVERLAP_FACTOR = 1.5
MIN_KIND_WEIGHT = 0.1  # least weight of each kind of noise in the interval
SINGULAR_CUTOFF = 0.1  # relative cutoff for the singular values of T: smaller ones are not inverted
NORMAL_95 = 1.96  # standard deviations on each side of a 95% interval
TAIL_95 = 0.025  # probability on each side of a 95% interval
MIN_FLAGGED = 0.25  # least probability of a label error in flagged rows
MAX_FLAGGED_SHARE = 0.5  # of the rows of a label, if w is below `MIN_RANDOM`
MIN_RANDOM = 0.4


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted label-noise model, and the number of label errors."""

    label_stacking: StackingModel  # of q
    class_stacking: StackingModel  # of p
    noise_matrix: Array  # T
    p_random: float  # w
    sharpness: float  # beta
    recognised: Array  # (K,): whether q is largest in any row of a label, or its rows are many
    gain: float  # log likelihood of q minus that of constant probabilities
    n_rows: int  # of the fit
    random_errors: float  # expected number of label errors in these rows, if noise is random
    random_deviation: float  # its standard error
    boundary_errors: float  # expected number, if noise is at the boundary
    boundary_share: float  # e: their share of the weight
    overlap: float  # number of rows that the most probable label of each row would get wrong
    labels: str = "auto"  # how they arose: "annotated", "observed" or "auto"

    @property
    def has_signal(self) -> bool:
        """Return whether the columns have any signal of the classes."""
        return self.gain > MIN_GAIN

    @property
    def p_boundary(self) -> float:
        """Return b."""
        if self.labels != "auto":
            return float(self.labels == "annotated")
        return (1 - P_OVERLAP) * self._plausibility

    @property
    def _plausibility(self) -> float:
        """Return a factor that is small if people would have to get very many labels wrong."""
        return float(np.exp(-((self.boundary_share / MAX_BOUNDARY_SHARE) ** 4)))

    @property
    def p_no_errors(self) -> float:
        """Return the probability that classes overlap and no label is wrong."""
        return (1 - self.p_random) * (1 - self.p_boundary)

    @property
    def n_errors(self) -> float:
        """Return the expected number of label errors in the rows of the fit."""
        if not self.has_signal:
            return np.nan
        w = self.p_random
        return w * self.random_errors + (1 - w) * self.p_boundary * self.boundary_errors

    @property
    def n_errors_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the number of label errors in the rows of the fit.

        It covers all readings that have any weight, and begins at 0 if overlap explains the labels.
        """
        if not self.has_signal:
            return 0.0, float(self.n_rows)
        if self.labels == "observed":
            low = self.random_errors - NORMAL_95 * self.random_deviation
            high = self.random_errors + NORMAL_95 * self.random_deviation
        else:
            low, high = _interval(
                self.random_errors, self.random_deviation, self.overlap, self.p_random
            )
        low = 0.0 if self.p_no_errors > TAIL_95 else min(low, self.n_errors)
        return max(low, 0.0), min(max(high, self.n_errors), float(self.n_rows))

    def assuming(self, labels: str) -> NoiseModel:
        """Return the model of labels that arose in this way."""
        return replace(self, labels=labels)

    def posterior(self, F: Array, codes: Array) -> Array:
        """Compute the probability of each true class, given values and label of each row."""
        return self._mix(*self._posteriors(F, codes), self.p_boundary)

    def posterior_if_errors(self, F: Array, codes: Array) -> Array:
        """Compute the posterior on condition that some labels are wrong.

        "observed" labels then have random noise, and others have random or boundary noise.
        """
        posteriors = self._posteriors(F, codes)
        if self.labels == "observed" and self.has_signal:
            return posteriors[0]
        return self._mix(*posteriors, 1.0)

    def suggest(self, F: Array, codes: Array) -> Array:
        """Return the label that each row should have: the given one unless another is certain.

        If labels are neither "annotated" nor "observed", it has to be so under both.
        """
        posteriors = self._posteriors(F, codes)
        values = (0.0, 1.0) if self.labels == "auto" else (self.p_boundary,)
        least = np.min([self._mix(*posteriors, b) for b in values], axis=0)
        return suggest(least, codes)

    def _posteriors(self, F: Array, codes: Array) -> tuple[Array, Array, Array]:
        """Return J, B and Y."""
        Q = softmax(self.label_stacking.scores(F), axis=1)
        boundary = boundary_posterior(Q, codes, self.sharpness, self.recognised)
        return self._random_posterior(F, codes), boundary, np.eye(F.shape[1])[codes]

    def _mix(self, J: Array, B: Array, Y: Array, b: float) -> Array:
        w = self.p_random
        mixed = w * J + (1 - w) * (b * B + (1 - b) * Y)
        if self.has_signal:
            return mixed
        return (1 - NO_SIGNAL) * Y + NO_SIGNAL * (w * J + (1 - w) * B)

    def _random_posterior(self, F: Array, codes: Array) -> Array:
        P = softmax(self.class_stacking.scores(F), axis=1)
        return random_posterior(P, self.noise_matrix, codes)[0]

    def flag_thresholds(self, F: Array, codes: Array) -> Array:
        """Return the least probability of a label error at which rows of each label are flagged.

        The thresholds can be applied to further rows. They are infinite if none is flagged.
        """
        rows = np.arange(len(codes))
        posteriors = self._posteriors(F, codes)
        K = F.shape[1]
        p_error = 1 - self._mix(*posteriors, self.p_boundary)[rows, codes]
        b = self._plausibility if self.labels == "auto" else self.p_boundary
        n_flags = int(rows_to_flag(1 - self._mix(*posteriors, b)[rows, codes]).sum())
        if not (self.has_signal and n_flags):
            return np.full(K, np.inf)
        thresholds = np.full(K, np.sort(p_error)[-n_flags] * (1 - TIE))
        if self.labels == "annotated" or self.p_random >= MIN_RANDOM:
            return thresholds
        for k in range(K):
            descending = np.sort(p_error[codes == k])[::-1]
            if len(descending):
                first_left_out = descending[int(MAX_FLAGGED_SHARE * len(descending))]
                thresholds[k] = max(thresholds[k], first_left_out * (1 + TIE))
        return thresholds

    def soft_labels(self, F: Array, codes: Array, noise_weight: float) -> Array:
        """Average the posterior under random noise, with this weight, and the observed label."""
        J = self._random_posterior(F, codes)
        return noise_weight * J + (1 - noise_weight) * np.eye(F.shape[1])[codes]

    def correct(self, stacking: StackingModel) -> StackingModel:
        """Add the correction for random noise to a stacking model of labels.

        Differences of classes that noise hides almost completely are not restored
        (`SINGULAR_CUTOFF`).
        """
        noise_inverse = np.linalg.pinv(self.noise_matrix, rcond=SINGULAR_CUTOFF)
        noise_weight = (1 - 2 * MIN_KIND_WEIGHT) * self.p_random if self.has_signal else 0.0
        return replace(stacking, noise_inverse=noise_inverse, noise_weight=noise_weight)


def fit_noise(
    F: Array, codes: Array, s: Array | None = None, in_sample: Array | None = None
) -> NoiseModel:
    """Fit the label-noise model to leave-one-out values F (n, K, M), labels and weights.

    Weights are in units of what was left out together, so that they sum to the effective number of
    rows or groups. Without the `in_sample` values (n, K, M), f is 1.
    """
    n, K, _ = F.shape
    s = np.ones(n) if s is None else s
    Y = np.eye(K)[codes]
    stacking = fit_stacking(F, Y, s, matrix_scaling=False)
    Q = softmax(stacking.scores(F), axis=1)
    likelihood = RandomNoiseLikelihood(F, codes, s)
    parameters = likelihood.solve(stacking)
    class_stacking, noise_matrix = likelihood.model(parameters)
    noise_gain = -s.sum() * (likelihood.loss(parameters)[0] - stacking.log_loss)
    share = 1.0 if in_sample is None else _overlap_share(stacking, in_sample, codes, s)
    sharpness = 1 + (SHARPNESS - 1) * share
    recognised = _recognised(Q, codes, s)
    B = boundary_posterior(Q, codes, sharpness, recognised)
    p_boundary_error = 1 - B[np.arange(n), codes]
    random_errors, deviation = likelihood.count_errors(parameters)
    return NoiseModel(
        label_stacking=stacking,
        class_stacking=class_stacking,
        noise_matrix=noise_matrix,
        p_random=float(special.expit(noise_gain - OCCAM)),
        sharpness=sharpness,
        recognised=recognised,
        gain=_gain(stacking, Y, s),
        n_rows=n,
        random_errors=random_errors,
        random_deviation=deviation,
        boundary_errors=float(p_boundary_error.sum()),
        boundary_share=float(s @ p_boundary_error / s.sum()),
        overlap=float(n - Q.max(axis=1).sum()),
    )


def suggest(posterior: Array, codes: Array) -> Array:
    """Return the most probable class if its probability is large enough, else the given one.

    Of equally probable classes, the one with most labels is suggested, and the given one wins.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.committee._noise import suggest
    >>> suggest(np.array([[0.1, 0.9], [0.3, 0.7], [0.9, 0.1]]), np.array([0, 0, 0])).tolist()
    [1, 0, 0]
    """
    best = posterior.max(axis=1)
    is_best = posterior >= best[:, None] * (1 - TIE)
    sizes = np.bincount(codes, minlength=posterior.shape[1])
    most_frequent_best = np.where(is_best, sizes, -1).argmax(axis=1)
    is_better = (best > posterior[np.arange(len(codes)), codes]) & (best >= MIN_SUGGESTED)
    return np.where(is_better, most_frequent_best, codes)


def _gain(stacking: StackingModel, Y: Array, s: Array) -> float:
    """Compute the log likelihood of labels, minus that of constant probabilities."""
    total = s.sum()
    shares = s @ Y / total
    return float(total * (-stacking.log_loss - float(special.xlogy(shares, shares).sum())))


def _overlap_share(stacking: StackingModel, in_sample: Array, codes: Array, s: Array) -> float:
    """Compute f: the share of the log loss that is due to overlap of classes."""
    log_q = special.log_softmax(stacking.scores(in_sample), axis=1)[np.arange(len(codes)), codes]
    share = -2 * float(s @ log_q) / (s.sum() * stacking.log_loss) - 1
    return float(min(max(share, 0.0), 1.0))


def _recognised(Q: Array, codes: Array, s: Array) -> Array:
    """Return which classes have many rows, or a row in which their probability is the largest."""
    K = Q.shape[1]
    hits = Q[np.arange(len(codes)), codes] >= Q.max(axis=1) * (1 - TIE)  # ties count for all
    recognised = np.bincount(codes[hits], s[hits], minlength=K) > 0
    return np.asarray(recognised | (s @ np.eye(K)[codes] >= RARE_CLASS_ROWS))


def estimate_noise_matrix(J: Array, codes: Array) -> Array:
    """Compute the share of each true class (row) that has each label (column)."""
    K = J.shape[1]
    counts = np.stack([np.bincount(codes, J[:, j], minlength=K) for j in range(K)])
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.eye(K), where=total > 0)


def boundary_posterior(Q: Array, codes: Array, sharpness: float, recognised: Array) -> Array:
    """Compute the posterior of the true class under boundary noise."""
    rows = np.arange(len(codes))
    Q = np.maximum(Q, np.finfo(float).tiny)
    R = softmax(sharpness * np.log(Q), axis=1)
    agree = np.minimum(1.0, R[rows, codes] / Q[rows, codes])
    agree[~recognised[codes]] = 1.0
    excess = np.maximum(R - Q, 0.0)
    total = excess.sum(axis=1)
    share = np.divide(1 - agree, total, out=np.zeros(len(rows)), where=total > 0)
    coupled = excess * share[:, None]
    coupled[rows, codes] += agree
    coupled /= coupled.sum(axis=1, keepdims=True)
    return (1 - INDEPENDENT) * coupled + INDEPENDENT * R


def _interval(
    random_errors: float, deviation: float, overlap: float, p_random: float
) -> tuple[float, float]:
    """Return the 95% interval of a mixture: normal (random noise) and uniform (boundary noise)."""
    w = MIN_KIND_WEIGHT + (1 - 2 * MIN_KIND_WEIGHT) * p_random
    most = MAX_OVERLAP_FACTOR * max(overlap, 1e-9)
    deviation = max(deviation, 1e-9)

    def cdf(x: float) -> float:
        normal = float(special.ndtr((x - random_errors) / deviation))
        return w * normal + (1 - w) * min(max(x / most, 0.0), 1.0)

    def quantile(p: float) -> float:
        start = min(random_errors - 9 * deviation, 0.0) - 1
        end = max(random_errors + 9 * deviation, most) + 1
        return float(optimize.brentq(lambda x: cdf(x) - p, start, end))

    return quantile(0.025), quantile(0.975)


def rows_to_flag(p_error: Array) -> Array:
    r"""Flag the rows that maximise expected F1, from probabilities of label errors.

    If the m rows of largest probability q are flagged, and N = sum q labels are wrong in total, F1
    is about 2 sum_{i <= m} q_i / (m + N). No row is flagged if the probability that all labels are
    correct is larger than that, and no row with a probability below a quarter.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.committee._noise import rows_to_flag
    >>> rows_to_flag(np.array([0.9, 0.0, 0.7, 0.1])).tolist()
    [True, False, True, False]
    >>> rows_to_flag(np.array([0.01, 0.02])).any()
    np.False_
    """
    descending = np.sort(p_error)[::-1]
    n_flagged, f1 = best_f1(descending)
    with np.errstate(divide="ignore"):
        p_no_error = np.exp(np.log1p(-descending).sum())
    if f1 <= p_no_error:
        return np.zeros(len(p_error), dtype=bool)
    least = max(descending[n_flagged - 1] * (1 - TIE), MIN_FLAGGED)  # ties are flagged together
    return np.asarray(p_error >= least)


def best_f1(descending: Array) -> tuple[int, float]:
    """Return the number of flagged rows of largest expected F1, and this F1.

    Probabilities of label errors are in descending order.
    """
    true_positives = np.cumsum(descending)
    n_errors = true_positives[-1]
    scores = 2 * true_positives / np.maximum(np.arange(1, len(descending) + 1) + n_errors, 1.0)
    best = int(scores.argmax())
    return best + 1, float(scores[best])
