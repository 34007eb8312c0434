r"""Label-noise model: random label noise versus boundary label noise.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    y, s (n,)   labels and weights of the rows
    q (n, K)    probabilities of labels, by stacking (`fuzzytwin.committee._stacking`)
    p (n, K)    probabilities of true classes, if noise is random
    r (n, K)    probabilities of true classes, if noise is at the boundary
    T (K, K)    noise matrix: T_jk is the probability of label k in class j
    J (n, K)    posterior of the true class, given the label
    w           probability that noise is random rather than at the boundary

Labels are less certain than classes are, for one of two reasons.

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

    P(truth j | label k) = (1 - INDEPENDENT) c_jk + INDEPENDENT r_j,
    c_kk = min(1, r_k / q_k),   c_jk = (1 - c_kk) (r_j - q_j)_+ / sum_l (r_l - q_l)_+,

and c_kk = 1 for a class of fewer than `RARE_CLASS_ROWS` rows that is never recognised (q_k is not
the largest in any of its rows). Otherwise a rare class that the columns hardly show would vanish.

**Both.** Random noise has the probability w = 1 / (1 + exp(OCCAM - gain)), in which `gain` is the
difference of its objective and the log likelihood of q. The posteriors are averaged with w and
1 - w. If the log likelihood of q is not better than that of constant probabilities by at least
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
MIN_GAIN = 4.0
NO_SIGNAL = 0.1
RARE_CLASS_ROWS = 100
# With boundary noise, any number from 0 to this multiple of the overlap may be wrong.
MAX_OVERLAP_FACTOR = 1.5
MIN_KIND_WEIGHT = 0.1  # least weight of each kind of noise in the interval
SINGULAR_CUTOFF = 0.1  # relative cutoff for the singular values of T: smaller ones are not inverted
NORMAL_95 = 1.96  # standard deviations on each side of a 95% interval
MIN_FLAGGED = 0.25  # least probability of a label error in flagged rows


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
    n_errors: float = np.nan  # expected number of label errors in these rows
    n_errors_interval: tuple[float, float] = (0.0, np.inf)  # of 95%
    random_errors: float = np.nan  # the same number, if all noise is random
    random_deviation: float = np.nan  # its standard error

    @property
    def has_signal(self) -> bool:
        """Return whether the columns have any signal of the classes."""
        return self.gain > MIN_GAIN

    def posterior(self, F: Array, codes: Array) -> Array:
        """Compute the probability of each true class, given values and label of each row."""
        Q = softmax(self.label_stacking.scores(F), axis=1)
        boundary = boundary_posterior(Q, codes, self.sharpness, self.recognised)
        J = self.p_random * self._random_posterior(F, codes) + (1 - self.p_random) * boundary
        if self.has_signal:
            return J
        return (1 - NO_SIGNAL) * np.eye(F.shape[1])[codes] + NO_SIGNAL * J

    def without_boundary_noise(self) -> NoiseModel:
        """Return the model in which all noise is random, so that overlap of classes is no error."""
        model = replace(self, p_random=1.0, n_errors=self.random_errors)
        if not self.has_signal:
            return model
        low = self.random_errors - NORMAL_95 * self.random_deviation
        high = self.random_errors + NORMAL_95 * self.random_deviation
        return replace(model, n_errors_interval=(max(low, 0.0), min(high, float(self.n_rows))))

    def _random_posterior(self, F: Array, codes: Array) -> Array:
        P = softmax(self.class_stacking.scores(F), axis=1)
        return random_posterior(P, self.noise_matrix, codes)[0]

    def flag_threshold(self, F: Array, codes: Array) -> float:
        """Return the least probability of a label error at which rows are flagged.

        It maximises the expected F1 of these rows, and can be applied to further rows. It is
        infinite if none is flagged.
        """
        p_error = 1 - self.posterior(F, codes)[np.arange(len(codes)), codes]
        flags = rows_to_flag(p_error)
        if not (self.has_signal and flags.any()):
            return np.inf
        return float(p_error[flags].min()) * (1 - TIE)

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
    overlap = 1.0 if in_sample is None else _overlap_share(stacking, in_sample, codes, s)
    model = NoiseModel(
        label_stacking=stacking,
        class_stacking=class_stacking,
        noise_matrix=noise_matrix,
        p_random=float(special.expit(noise_gain - OCCAM)),
        sharpness=1 + (SHARPNESS - 1) * overlap,
        recognised=_recognised(Q, codes, s),
        gain=_gain(stacking, Y, s),
        n_rows=n,
    )
    if not model.has_signal:
        return replace(model, n_errors_interval=(0.0, float(n)))
    n_errors = float(n - model.posterior(F, codes)[np.arange(n), codes].sum())
    random_errors, deviation = likelihood.count_errors(parameters)
    boundary_overlap = n - Q.max(axis=1).sum()
    low, high = _interval(random_errors, deviation, boundary_overlap, model.p_random)
    interval = max(min(low, n_errors), 0.0), min(max(high, n_errors), float(n))
    return replace(
        model,
        n_errors=n_errors,
        n_errors_interval=interval,
        random_errors=random_errors,
        random_deviation=deviation,
    )


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
