r"""Label-noise model: random label noise, boundary label noise, or overlap of the classes.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    y, s (n,)   labels and weights of the rows
    q (n, K)    probabilities of labels, by stacking with matrix scaling
                (`fuzzytwin.committee._stacking`)
    p (n, K)    probabilities of true classes, if noise is random
    r (n, K)    probabilities of true classes, if noise is at the boundary
    T (K, K)    noise matrix: T_jk is the probability of label k in class j
    J, B (n, K) posterior of the true class, given the label, under random and boundary noise
    Y (n, K)    indicators of the labels: the posterior if no label is wrong
    w, u        probability that noise is random, and its weight if labels are wrong
    b           probability of boundary noise rather than overlap, if noise is not random
    v           probability that classes overlap and no label is wrong
    beta, f     sharpness of r, and the share of the log loss that is due to overlap
    e           share of the labels that are wrong if noise is at the boundary

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
allow, except for a share `INDEPENDENT` of rows in which they are independent (without index i):

    B_ij = P(truth j | label k) = (1 - INDEPENDENT) c_jk + INDEPENDENT r_j   for k = y_i,
    c_kk = min(1, r_k / q_k),   c_jk = (1 - c_kk) (r_j - q_j)_+ / sum_l (r_l - q_l)_+,

and c_kk = 1 for a class of fewer than `RARE_CLASS_ROWS` rows that is never recognised (q_k is not
the largest in any of its rows). Otherwise a rare class that the columns hardly show would vanish.

**Overlap.** Labels are outcomes, drawn with the probabilities q. No label is wrong, so the
posterior is Y.

**All three.** Random noise has the probability w = 1 / (1 + exp(OCCAM - noise_gain)), in which
`noise_gain` is its penalised log likelihood minus the log likelihood of stacking without matrix
scaling, or with it less what its parameters gain by chance, if that is larger. (Without matrix
scaling, classes that lie between others have poor probabilities, and T would make up for them.) The
posterior is

    (1 - v) (u J + (1 - u) B) + v Y,   v = (1 - w) (1 - b),   u = min(w, 1 - MIN_BOUNDARY f).

With many rows any small difference makes w 1, but neither kind of noise is exact, so boundary noise
keeps at least the weight `MIN_BOUNDARY` f. Without in-sample values, as of most estimators that are
not committees, f is 1. For b = 1 this is the mixture of random and boundary noise. For 0 < b < 1, u
is kept as it is instead of w / (1 - v), so that b changes the number of label errors, but not the
ranking of the rows. Features and labels cannot tell boundary noise from overlap, so b is what the
user says: b = 1 if labels are "annotated", b = 0 if they are "observed" (u is 1 then, so that the
posterior is w J + (1 - w) Y), and otherwise

    b = (1 - P_OVERLAP) exp(-(e / MAX_BOUNDARY_SHARE)^8),   e = weighted mean of 1 - B_i,y_i:

people who get a quarter of all labels wrong are rare, classes that overlap that much are not.
Reviews then decide (`fuzzytwin.label_issues._review`).

A label is *suggested* if its probability is at least `MIN_SUGGESTED`. If `labels` is "auto", this
has to hold for "observed" and for "annotated" labels, so that accepting helps either way. *Flags*
(rows to review) maximise expected F1 with `P_OVERLAP` = 0, because a review of a correct label
costs little, among rows whose probability is then at least `MIN_FLAGGED`. To compute their number,
u is at most 1 - `MIN_BOUNDARY_OF_FLAGS` f. If w is below `MIN_RANDOM` (`MIN_RANDOM_OF_RARE` for a
label of few rows), and unless labels are "annotated", at most half of the rows of a label are
flagged, so that a rare class is not called wrong as a whole.

Unless the log likelihood of stacking without matrix scaling exceeds that of constant probabilities
by more than `MIN_GAIN`, no number of label errors is given, and labels are taken as nearly correct
(v = 1 - NO_SIGNAL in the posterior, which still ranks the rows).

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
# These constants were chosen on half of the datasets of `python -m benchmarks label_issues`, on the
# real ones and on synthetic ones. docs/compare.md says what the other half was also used for.
SHARPNESS = 3.0
INDEPENDENT = 0.1
OCCAM = 1.0  # gain in log likelihood at which w is 1/2
# Log likelihood that each of the (K - 1)^2 parameters of matrix scaling gains by chance.
GAIN_BY_CHANCE = 1.5
MIN_BOUNDARY = 0.3  # least weight 1 - u of boundary noise if f is 1, otherwise this times f
MIN_BOUNDARY_OF_FLAGS = 0.6  # the same for the number of flags
P_OVERLAP = 0.65
MAX_BOUNDARY_SHARE = 0.24
MIN_SUGGESTED = 0.8
MIN_GAIN = 4.0
NO_SIGNAL = 0.1
RARE_CLASS_ROWS = 100
# With boundary noise, any number from 0 to this multiple of the overlap may be wrong.
MAX_OVERLAP_FACTOR = 1.5
# Least weight of each kind of noise in the interval. Twice this is also taken from the weight of
# the noise correction (`NoiseModel.correct`).
MIN_KIND_WEIGHT = 0.1
SINGULAR_CUTOFF = 0.1  # relative cutoff for the singular values of T: smaller ones are not inverted
NORMAL_95 = 1.96  # standard deviations on each side of a 95% interval
TAIL_95 = 0.025  # probability on each side of a 95% interval
MIN_FLAGGED = 0.25  # least probability of a label error in flagged rows, if P_OVERLAP were 0
MAX_FLAGGED_SHARE = 0.5  # of the rows of a label, if w is below the following
MIN_RANDOM = 0.4
MIN_RANDOM_OF_RARE = 0.8  # for a label of fewer than `RARE_CLASS_ROWS` rows


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted label-noise model, and the number of label errors."""

    label_stacking: StackingModel  # of q
    class_stacking: StackingModel  # of p
    noise_matrix: Array  # T
    p_random: float  # w
    sharpness: float  # beta
    recognised: Array  # (K,): whether q is largest in any row of a label, or its rows are many
    gain: float  # log likelihood of labels minus that of constant probabilities
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
        return float(np.exp(-((self.boundary_share / MAX_BOUNDARY_SHARE) ** 8)))

    @property
    def p_no_errors(self) -> float:
        """Return v."""
        return self._p_no_errors(self.p_boundary)

    def _p_no_errors(self, p_boundary: float) -> float:
        return (1 - self.p_random) * (1 - p_boundary)

    @property
    def random_weight(self) -> float:
        """Return u, the weight of J if labels are wrong."""
        return self._random_weight(MIN_BOUNDARY)

    def _random_weight(self, min_boundary: float) -> float:
        if self.labels == "observed":
            return 1.0
        f = (self.sharpness - 1) / (SHARPNESS - 1)
        return min(self.p_random, 1 - min_boundary * f)

    @property
    def n_errors(self) -> float:
        """Return the expected number of label errors in the rows of the fit."""
        if not self.has_signal:
            return np.nan
        u = self.random_weight
        n_errors = u * self.random_errors + (1 - u) * self.boundary_errors
        return (1 - self.p_no_errors) * n_errors

    @property
    def n_errors_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the number of label errors in the rows of the fit.

        It covers all explanations, and begins at 0 if v is above 2.5%.
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
        v = self.p_no_errors if self.has_signal else 0.0
        return (1 - v) * self.posterior_if_errors(F, codes) + v * np.eye(F.shape[1])[codes]

    def posterior_if_errors(self, F: Array, codes: Array, u: float | None = None) -> Array:
        """Compute u J + (1 - u) B, or nearly Y without signal. None: `random_weight`."""
        u = self.random_weight if u is None else u
        J = self._random_posterior(F, codes)
        Q = softmax(self.label_stacking.scores(F), axis=1)
        B = boundary_posterior(Q, codes, self.sharpness, self.recognised)
        v = 0.0 if self.has_signal else 1 - NO_SIGNAL
        return (1 - v) * (u * J + (1 - u) * B) + v * np.eye(F.shape[1])[codes]

    def suggest(self, F: Array, codes: Array) -> Array:
        """Return the given label of each row, or another one that is probable enough.

        If labels are neither "annotated" nor "observed", it has to be so under both.
        """
        kinds = ("annotated", "observed") if self.labels == "auto" else (self.labels,)
        posteriors = [self.assuming(kind).posterior(F, codes) for kind in kinds]
        return suggest(np.min(posteriors, axis=0), codes)

    def _random_posterior(self, F: Array, codes: Array) -> Array:
        P = softmax(self.class_stacking.scores(F), axis=1)
        return random_posterior(P, self.noise_matrix, codes)[0]

    def flag_thresholds(self, F: Array, codes: Array) -> Array:
        """Return the least probability of a label error at which rows of each label are flagged.

        The thresholds can be applied to further rows. They are infinite if none is flagged.
        """
        K = F.shape[1]
        rows = np.arange(len(codes))
        p_error = 1 - self.posterior(F, codes)[rows, codes]
        b = self._plausibility if self.labels == "auto" else self.p_boundary
        u = self._random_weight(MIN_BOUNDARY_OF_FLAGS)
        p_flagged = 1 - self.posterior_if_errors(F, codes, u)[rows, codes]
        n_flags = int(rows_to_flag((1 - self._p_no_errors(b)) * p_flagged).sum())
        if not (self.has_signal and n_flags):
            return np.full(K, np.inf)
        thresholds = np.full(K, np.sort(p_error)[-n_flags] * (1 - TIE))
        if self.labels == "annotated":
            return thresholds
        for k in range(K):
            descending = np.sort(p_error[codes == k])[::-1]
            is_rare = len(descending) < RARE_CLASS_ROWS
            min_random = MIN_RANDOM_OF_RARE if is_rare else MIN_RANDOM
            if self.p_random < min_random and len(descending):
                first_unflagged = descending[int(MAX_FLAGGED_SHARE * len(descending))]
                thresholds[k] = max(thresholds[k], first_unflagged * (1 + TIE))
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
    F: Array,
    codes: Array,
    s: Array | None = None,
    in_sample: Array | None = None,
    stacking: StackingModel | None = None,
) -> NoiseModel:
    """Fit the label-noise model to leave-one-out values F (n, K, M), labels and weights.

    Weights are in units of what was left out together, so that they sum to the effective number of
    rows or groups. Without the `in_sample` values (n, K, M), f is 1. `stacking` is the result of
    `fit_stacking` for these values, if it was called before.
    """
    n, K, _ = F.shape
    s = np.ones(n) if s is None else s
    Y = np.eye(K)[codes]
    unscaled = fit_stacking(F, Y, s, matrix_scaling=False)
    if stacking is None:
        stacking = unscaled if K == 2 else fit_stacking(F, Y, s)
    Q = softmax(stacking.scores(F), axis=1)
    likelihood = RandomNoiseLikelihood(F, codes, s)
    parameters = likelihood.solve(unscaled)
    class_stacking, noise_matrix = likelihood.model(parameters)
    by_chance = GAIN_BY_CHANCE * (K - 1) ** 2 / s.sum()
    log_loss = min(unscaled.log_loss, stacking.log_loss + by_chance)
    noise_gain = s.sum() * (log_loss - likelihood.loss(parameters)[0])
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
        gain=_gain(unscaled, Y, s),
        n_rows=n,
        random_errors=random_errors,
        random_deviation=deviation,
        boundary_errors=float(p_boundary_error.sum()),
        boundary_share=float(s @ p_boundary_error / s.sum()),
        overlap=float(n - Q.max(axis=1).sum()),
    )


def suggest(posterior: Array, codes: Array, least: float = MIN_SUGGESTED) -> Array:
    """Return the most probable class if its probability is at least `least`, else the given one.

    Of equally probable classes, the most frequent is suggested, but the given one is kept if it is
    among them.

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
    is_better = (best > posterior[np.arange(len(codes)), codes]) & (best >= least)
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

    return quantile(TAIL_95), quantile(1 - TAIL_95)


def rows_to_flag(p_error: Array) -> Array:
    r"""Flag the rows that maximise expected F1, from probabilities of label errors.

    With error probabilities d in descending order, m flagged rows and N = sum d errors in total, F1
    is about 2 sum_{i <= m} d_i / (m + N). No row is flagged if the probability that all labels are
    correct is at least the best F1, and no row with a probability below `MIN_FLAGGED`.

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
        p_all_correct = np.exp(np.log1p(-descending).sum())
    if f1 <= p_all_correct:
        return np.zeros(len(p_error), dtype=bool)
    least = max(descending[n_flagged - 1] * (1 - TIE), MIN_FLAGGED)  # ties are flagged together
    return np.asarray(p_error >= least)


def best_f1(descending: Array) -> tuple[int, float]:
    """Return the number of flagged rows of largest expected F1, and this F1.

    Probabilities of label errors are in descending order.
    """
    true_positives = np.cumsum(descending)
    n_errors = true_positives[-1]
    scores = 2 * true_positives / (np.arange(1, len(descending) + 1) + n_errors)
    best = int(scores.argmax())
    return best + 1, float(scores[best])
