r"""Label-noise model: random label noise versus boundary label noise.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    y, s (n,)   labels and weights of the rows
    q (n, K)    probabilities of labels, by stacking (`fuzzytwin.committee._stacking`)
    p (n, K)    probabilities of true classes, if noise is random
    r (n, K)    probabilities of true classes, if noise is at the boundary
    t (M,)      stacking weights; b (K,) intercepts
    T (K, K)    noise matrix: T_jk is the probability of label k in class j
    u, d, e     log odds of a wrong label: common part, part of each class, part of each pair
    J (n, K)    posterior of the true class, given the label

Labels are less certain than classes are, for one of two reasons.

**Random label noise** (Angluin and Laird, 1988; Natarajan et al., 2013). The true class is j with
probability p_ij, and the label is k with probability T_jk, independently of the row:

    p_i = softmax_k(sum_m t_m F_ikm + b_k),   t >= 0,
    T_jk / T_jj = exp(u + d_j + e_jk) / (K - 1)   for k other than j.

All of t, b, u, d, e are fitted jointly to the labels by

    max  sum_i s_i log sum_j p_ij T_j,y_i  -  |d|^2 / 2 - |e|^2 - 4 (u + 2)^2 - |t|^2 / 2000
         - 2 sum_k min(0, log share of class k by p - log share of label k)^2.

Random noise differs from overlap of classes in that p may come close to 0 and 1 for rows deep
inside a class, while noisy labels are never that certain. The penalties shrink the noise of all
classes towards a common level, and that level towards a usual one (12%, from 6% to 21%). The last
penalty keeps a class that is hard to recognise from vanishing: all its labels could be errors of
other classes. The posterior of class j is J_ij = p_ij T_j,y_i / sum_l p_il T_l,y_i.

The objective may have several maxima, especially with few rows. So that the solution does not
depend on the names of classes or the order of rows, the parameters treat all classes equally, and
so do the starting points, the best of which is followed to machine precision.

**Boundary label noise.** People make errors where classes meet. Labels then have the probabilities
q, and the truth is sharper, r_i proportional to q_i^beta. The likelihood of labels cannot
distinguish this from true overlap of classes, so beta is a constant (`SHARPER`), with one
correction. If classes are sharp but rows too few to show it, q is blunt because the members are
poorly determined, and in-sample values fit much better than leave-one-out values. With the mean
leave-one-out log loss L of the labels and the in-sample log loss L', f = 2 L' / L - 1, clipped to
[0, 1], is the share of L that would remain if the loss fell by L - L' once more below L', and
beta = 1 + (SHARPER - 1) f. Truth and label agree as often as r and q allow, except for a share
`APART` of rows in which they are independent:

    P(truth j | label k) = (1 - APART) c_jk + APART r_j,
    c_kk = min(1, r_k / q_k),   c_jk = (1 - c_kk) (r_j - q_j)_+ / sum_l (r_l - q_l)_+,

and c_kk = 1 for a class of few rows (`MANY_ROWS`) that is never recognised (q_k is not the largest
in any of its rows). Otherwise a rare class that the columns hardly show would vanish.

**Both.** Random noise has the weight w = 1 / (1 + exp(1 - gain)), in which `gain` is the difference
of its objective and the log likelihood of q. The posteriors are averaged with w and 1 - w. If the
log likelihood of q is not better than that of constant probabilities by at least `SIGNAL`, no
number of label errors is given, and labels are taken as nearly correct (`UNTOLD` of the posterior
remains, to rank rows).

References
----------
D. Angluin and P. Laird, "Learning from noisy examples", Machine Learning 2 (1988), 343-370.
N. Natarajan et al., "Learning with noisy labels", NeurIPS 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, optimize, special
from scipy.special import softmax

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._stacking import START, StackingModel, combine
from fuzzytwin.core.newton import minimise

RHO = 0.1  # ridge on the stacking weights in q
USUAL_NOISE = -2.0  # prior mean of u, the log odds of a wrong label
CERTAINTY = 8.0  # prior precision of u
SAMENESS = 1.0  # prior precision of d: similarity of classes
PAIR_SAMENESS = 2.0  # prior precision of e: similarity of pairs of classes
KEPT_SHARE = 4.0  # precision of the share of a class, if it is below that of its label
RIDGE = 1e-3  # on t, which stays finite if classes do not overlap
# Tolerances of L-BFGS, for the objective and its gradient, if classes are too many for Newton.
TOLERANCE = 1e-15
FLAT = 1e-10
ROUGH = 1e-5  # tolerance of the objective when starting points are compared
SURE = 3 * START  # sum of the stacking weights of a start with sharper probabilities
LEAST_NOISE = -12.0  # bounds of u
MOST_NOISE = 3.0
MOST_CLASSES = 50  # for Newton's method: with more, second derivatives take too long
FLATTEST = 1e-8  # smallest curvature used for a step, relative to the largest
TIE = 1e-9  # relative difference of probabilities taken as equal
# The following were chosen on half of the datasets of `python -m benchmarks doubts`, and on
# synthetic ones without noise or without signal.
SHARPER = 3.0
APART = 0.1
OCCAM = 1.0  # gain in log likelihood at which random noise gets the weight 1/2
SIGNAL = 4.0
UNTOLD = 0.1
MANY_ROWS = 100
# Overlap of classes may be taken for random noise, or the reverse: the standard error of this, as a
# share of the geometric mean of both numbers of rows.
MODEL_ERROR = 0.35
# With boundary noise, any number from 0 to this multiple of the overlap may be wrong.
MOST_OF_OVERLAP = 1.5
DOUBT_OF_READING = 0.1  # least weight of each kind of noise in the interval
HIDDEN = 0.1  # relative cutoff for the singular values of T: smaller ones are not inverted
LEAST_FLAGGED = 0.25  # least probability of a label error in flagged rows


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted label-noise model, and the number of label errors."""

    labels: StackingModel  # of q
    chance: StackingModel  # of p
    noise: Array  # T
    trust: float  # w
    sharper: float  # beta
    recognised: Array  # (K,): whether q is largest in any row of a label, or its rows are many
    gain: float  # log likelihood of q minus that of constant probabilities
    n_rows: int
    n_wrong: float = np.nan  # expected number of label errors in these rows
    interval: tuple[float, float] = (0.0, np.inf)  # its 95% interval

    @property
    def tells(self) -> bool:
        """Whether the columns have any signal of the classes."""
        return self.gain > SIGNAL

    def posterior(self, F: Array, codes: Array) -> Array:
        """Compute the probability of each true class, given values and label of each row."""
        J = random_posterior(softmax(self.chance.scores(F), axis=1), self.noise, codes)[0]
        Q = softmax(self.labels.scores(F), axis=1)
        B = boundary_posterior(Q, codes, self.sharper, self.recognised)
        J = self.trust * J + (1 - self.trust) * B
        return J if self.tells else (1 - UNTOLD) * np.eye(F.shape[1])[codes] + UNTOLD * J

    def least_wrong(self, F: Array, codes: Array) -> float:
        """Return the threshold on the probability of a label error above which rows are flagged.

        It maximises the expected F1 of these rows, and can be applied to further rows. It is
        infinite if none is flagged.
        """
        wrong = 1 - self.posterior(F, codes)[np.arange(len(codes)), codes]
        flags = rows_to_flag(wrong)
        return float(wrong[flags].min()) * (1 - TIE) if self.tells and flags.any() else np.inf

    def shares(self, F: Array, codes: Array, noise_weight: float) -> Array:
        """Average the posterior under random noise, with this weight, and the observed label."""
        J = random_posterior(softmax(self.chance.scores(F), axis=1), self.noise, codes)[0]
        return noise_weight * J + (1 - noise_weight) * np.eye(F.shape[1])[codes]

    def with_noise_correction(self, labels: StackingModel) -> StackingModel:
        """Add the correction for random noise to a stacking model of labels.

        Differences of classes that noise hides almost completely (`HIDDEN`) are not restored.
        """
        noise_inverse = np.linalg.pinv(self.noise, rcond=HIDDEN)
        noise_weight = (1 - 2 * DOUBT_OF_READING) * self.trust if self.tells else 0.0
        return replace(labels, noise_inverse=noise_inverse, noise_weight=noise_weight)


def fit_noise(
    F: Array, codes: Array, s: Array | None = None, fitted: Array | None = None
) -> NoiseModel:
    """Fit the label-noise model to leave-one-out values F (n, K, M), labels and weights.

    `fitted` are the in-sample values. Without them, f is 1. Weights are in units of what was left
    out together, so that they sum to the effective number of rows or groups.
    """
    n, K, _ = F.shape
    s = np.ones(n) if s is None else s
    rows = np.arange(n)
    Y = np.eye(K)[codes]
    labels = combine(F, Y, s, RHO, mixed=False)
    total = s.sum()
    shares = s @ Y / total
    gain = total * (-labels.log_loss - float(special.xlogy(shares, shares).sum()))
    inherent = 1.0
    if fitted is not None:
        in_sample = special.log_softmax(labels.scores(fitted), axis=1)[rows, codes]
        inherent = min(max(-2 * float(s @ in_sample) / (total * labels.log_loss) - 1, 0.0), 1.0)
    Q = softmax(labels.scores(F), axis=1)
    hits = Q[rows, codes] >= Q.max(axis=1) * (1 - TIE)  # ties count for all classes
    recognised = np.bincount(codes[hits], s[hits], minlength=K) > 0
    recognised |= s @ Y >= MANY_ROWS
    problem = Likelihood(F, codes, s)
    parameters = problem.solve(labels)
    noise_gain = -total * (problem.loss(parameters)[0] - labels.log_loss)
    model = NoiseModel(
        labels, *problem.described(parameters), float(special.expit(noise_gain - OCCAM)),
        1 + (SHARPER - 1) * inherent, recognised, gain, n,
    )  # fmt: skip
    if not model.tells:
        return replace(model, interval=(0.0, float(n)))
    number = float(n - model.posterior(F, codes)[rows, codes].sum())
    interval = _interval(*problem.count(parameters), n - Q.max(axis=1).sum(), model.trust)
    low = min(interval[0], number)
    high = max(interval[1], number)
    return replace(model, n_wrong=number, interval=(max(low, 0.0), min(high, float(n))))


def noise_matrix(J: Array, codes: Array) -> Array:
    """Compute the share of each true class (row) that has each label (column)."""
    K = J.shape[1]
    counts = np.stack([np.bincount(codes, J[:, j], minlength=K) for j in range(K)])
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.eye(K), where=total > 0)


def random_posterior(P: Array, T: Array, codes: Array) -> tuple[Array, Array]:
    """Compute the posterior J under random noise, and the probability of each row's label."""
    J = P * T[:, codes].T
    label = np.maximum(J.sum(axis=1), np.finfo(float).tiny)
    return J / label[:, None], label


def boundary_posterior(Q: Array, codes: Array, sharper: float, recognised: Array) -> Array:
    """Compute the posterior of the true class under boundary noise."""
    rows = np.arange(len(codes))
    Q = np.maximum(Q, np.finfo(float).tiny)
    R = softmax(sharper * np.log(Q), axis=1)
    agree = np.minimum(1.0, R[rows, codes] / Q[rows, codes])
    agree[~recognised[codes]] = 1.0
    excess = np.maximum(R - Q, 0.0)
    total = excess.sum(axis=1)
    share = np.divide(1 - agree, total, out=np.zeros(len(rows)), where=total > 0)
    coupled = excess * share[:, None]
    coupled[rows, codes] += agree
    coupled /= coupled.sum(axis=1, keepdims=True)
    return (1 - APART) * coupled + APART * R


def _interval(number: float, deviation: float, overlap: float, trust: float) -> tuple[float, float]:
    """Return the 95% interval of a mixture: normal (random noise) and uniform (boundary noise)."""
    w = DOUBT_OF_READING + (1 - 2 * DOUBT_OF_READING) * trust
    most = MOST_OF_OVERLAP * max(overlap, 1e-9)
    deviation = max(deviation, 1e-9)

    def cdf(x: float) -> float:
        normal = float(special.ndtr((x - number) / deviation))
        return w * normal + (1 - w) * min(max(x / most, 0.0), 1.0)

    ends = min(number - 9 * deviation, 0.0) - 1, max(number + 9 * deviation, most) + 1
    low, high = (optimize.brentq(lambda x, p=p: cdf(x) - p, *ends) for p in (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The objective of random noise and its derivatives, by the parameters (t, b, u, d, e).

    With two classes there is no e, which d would duplicate. Classes are treated equally, so that
    their names do not matter: b has a redundant mean, which Newton steps do not change.
    """

    F: Array
    codes: Array
    s: Array

    def start(self, sureness: float = START) -> Array:
        """Return a starting point: stacking weights of sum `sureness`, and the usual noise."""
        _, K, M = self.F.shape
        start = np.zeros(M + K + 1 + K + self.n_pairs)
        start[:M] = sureness / M
        start[M + K] = USUAL_NOISE
        return start

    def starts(self, labels: StackingModel) -> list[Array]:
        """Return several starting points, each of which treats all classes equally."""
        _, K, M = self.F.shape
        from_labels = self.start()
        from_labels[:M] = labels.weights
        from_labels[M : M + K] = labels.intercept - labels.intercept.mean()
        return [self.start(), self.start(SURE), from_labels]

    def solve(self, labels: StackingModel) -> Array:
        """Minimise the negative objective, which may have several minima.

        The lowest of several descents is followed to machine precision. t stays nonnegative, and u
        within bounds.
        """
        descents = [self._descend(start, ROUGH) for start in self.starts(labels)]
        best = min(descents, key=lambda descent: float(descent.fun)).x
        if self.F.shape[1] > MOST_CLASSES:
            return np.asarray(self._descend(best, TOLERANCE).x)
        low, high = self.bounds
        return minimise(self.loss, self._newton_step, best, lambda z: np.clip(z, low, high))

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the parameters."""
        _, K, M = self.F.shape
        low, high = np.full((2, len(self.start())), [[-np.inf], [np.inf]])
        low[:M] = 0.0
        low[M + K], high[M + K] = LEAST_NOISE, MOST_NOISE
        return low, high

    def _descend(self, start: Array, tolerance: float) -> optimize.OptimizeResult:
        """Minimise by L-BFGS until steps gain less than the tolerance."""
        return optimize.minimize(
            self.loss, start, jac=True, method="L-BFGS-B", bounds=optimize.Bounds(*self.bounds),
            options={"maxiter": 1000, "ftol": tolerance, "gtol": FLAT},
        )  # fmt: skip

    def _newton_step(self, parameters: Array, gradient: Array) -> tuple[Array, Array]:
        """Return a descent step, Newton's if the Hessian is positive definite, and the gradient."""
        low, high = self.bounds
        free = (parameters > low) | (gradient < 0)
        free &= (parameters < high) | (gradient > 0)
        hessian = self.curvature(parameters)[np.ix_(free, free)]
        step = np.zeros(len(parameters))
        try:
            step[free] = linalg.cho_solve(linalg.cho_factor(hessian), -gradient[free])
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(hessian)
            values = np.maximum(np.abs(values), FLATTEST * np.abs(values).max())
            step[free] = vectors @ ((vectors.T @ -gradient[free]) / values)
        return step, gradient

    @cached_property
    def labels(self) -> Array:
        """Indicators (n, K) of the labels."""
        return np.eye(self.F.shape[1])[:, self.codes].T

    @cached_property
    def label_weight(self) -> Array:
        """Total weight of the rows of each label."""
        return np.asarray(self.s @ self.labels)

    @cached_property
    def off_diagonal(self) -> Array:
        """Mask (K, K) of the cells off the diagonal."""
        return ~np.eye(self.F.shape[1], dtype=bool)

    @property
    def n_pairs(self) -> int:
        """Number of elements of e."""
        K = self.F.shape[1]
        return K * (K - 1) if K > 2 else 0

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """Compute the negative objective and its gradient, per unit of weight."""
        M = self.F.shape[2]
        P, T, J, label = self.parts(parameters)
        t, _, u, d, e = self.split(parameters)
        total = self.s.sum()
        value = -(self.s @ np.log(label)) + RIDGE * (t @ t) / 2
        value += (
            CERTAINTY * (u - USUAL_NOISE) ** 2 / 2
            + (SAMENESS * (d @ d) + PAIR_SAMENESS * (e @ e)) / 2
        )
        share, lost = self._lost(P)
        value += KEPT_SHARE * (lost @ lost) / 2
        R = self.s[:, None] * (P - J + _pulled(P, share, lost, total))
        counts = (J * self.s[:, None]).T @ self.labels
        of_logits = counts.sum(axis=1, keepdims=True) * T - counts
        np.fill_diagonal(of_logits, 0.0)
        of_d = of_logits.sum(axis=1)
        gradient = np.concatenate([
            R.ravel() @ self.F.reshape(-1, M) + RIDGE * t,
            R.sum(axis=0),
            [of_d.sum() + CERTAINTY * (u - USUAL_NOISE)],
            of_d + SAMENESS * d,
            of_logits[self.off_diagonal] + PAIR_SAMENESS * e if self.n_pairs else [],
        ])  # fmt: skip
        return float(value / total), gradient / total

    def _lost(self, P: Array) -> tuple[Array, Array]:
        """Return the share of each class by p, and the log of its ratio to that of its label.

        The latter is 0 if the class has the larger share.
        """
        total = self.s.sum()
        share = np.maximum(self.s @ P / total, np.finfo(float).tiny)
        return share, np.minimum(np.log(share * total / self.label_weight), 0.0)

    def split(self, parameters: Array) -> tuple[Array, Array, float, Array, Array]:
        """Return t, b, u, d and e."""
        _, K, M = self.F.shape
        u = float(parameters[M + K])
        d = parameters[M + K + 1 : M + 2 * K + 1]
        e = parameters[M + 2 * K + 1 :]
        return parameters[:M], parameters[M : M + K], u, d, e

    def curvature(self, parameters: Array) -> Array:
        r"""Compute the second derivatives of `loss`, plus 1 / K for all pairs of b.

        With the scores a_ij and x_jk = log T_jk, the logarithm of the probability of a label is
        log sum_j exp(a_ij + x_j,y_i) - log sum_j exp(a_ij). Second derivatives of its parts are
        diag(J_i) - J_i J_i' and diag(p_i) - p_i p_i'. What is added keeps the mean of b, on which
        nothing else depends.
        """
        _, K, M = self.F.shape
        P, T, J, _ = self.parts(parameters)
        by_J = self._by_scores(J)
        of_scores = self._curvature_of_scores(P, J, by_J)
        of_scores[M:, M:] += self.s.sum() / K
        across, of_noise = self._curvature_of_noise(T, J, by_J)
        precision = np.r_[
            np.full(M, RIDGE), np.zeros(K), CERTAINTY, np.full(K, SAMENESS),
            np.full(self.n_pairs, PAIR_SAMENESS),
        ]  # fmt: skip
        whole = np.block([[of_scores, across], [across.T, of_noise]])
        return (whole + np.diag(precision)) / self.s.sum()

    def _by_scores(self, P: Array) -> Array:
        """Compute sum_k P_ik da_ik of each row, by (t, b)."""
        return np.hstack([np.einsum("ik,ikm->im", P, self.F), P])

    def _curvature_of_scores(self, P: Array, J: Array, by_J: Array) -> Array:
        """Compute second derivatives by (t, b), times the sum of weights, without the ridge.

        They are sums over rows of diag(level) + J J' - P turn' - turn P' by the scores, the penalty
        of lost shares included, and one more square for each class that lost some.
        """
        n, K, M = self.F.shape
        share, lost = self._lost(P)
        s, total = self.s[:, None], self.s.sum()
        pulled = _pulled(P, share, lost, total)
        level = s * (P - J + pulled)
        by_P, by_turn = self._by_scores(P), self._by_scores(P / 2 + pulled)
        crossed = (s * by_P).T @ by_turn
        of_scores = (s * by_J).T @ by_J - crossed - crossed.T
        flat = self.F.reshape(n * K, M)
        of_scores[:M, :M] += (flat * level.ravel()[:, None]).T @ flat
        of_both = np.einsum("ik,ikm->mk", level, self.F)
        of_scores[:M, M:] += of_both
        of_scores[M:, :M] += of_both.T
        of_scores[M:, M:] += np.diag(level.sum(axis=0))
        weighted = s * P
        by_share = np.einsum("ik,ikm->km", weighted, self.F)
        by_share = np.hstack([by_share, np.diag(weighted.sum(axis=0))]) - weighted.T @ by_P
        by_share /= (share * total)[:, None]
        squares = np.where(lost < 0, KEPT_SHARE * (1 - lost), 0.0)
        return np.asarray(of_scores + (by_share.T * squares) @ by_share)

    def _curvature_of_noise(self, T: Array, J: Array, by_J: Array) -> tuple[Array, Array]:
        """Compute second derivatives by (t, b) and (u, d, e), and by (u, d, e) twice.

        They are times the sum of weights and without the penalties.
        """
        _, K, M = self.F.shape
        weighted = J * self.s[:, None]
        # Of each label (first axis): by (t, b) and the x_jk of each class j.
        parts = np.empty((K, M + K, K))
        for label in range(K):
            rows = self.codes == label
            J_label = weighted[rows]
            parts[label, :M] = np.einsum("ik,ikm->mk", J_label, self.F[rows])
            parts[label, M:] = np.diag(J_label.sum(axis=0))
            parts[label] -= by_J[rows].T @ J_label
        counts = weighted.sum(axis=0)
        sums = parts.sum(axis=0)
        # x_jk is the logit of (j, k) minus log sum_k exp of these logits, with derivatives T.
        off = self.off_diagonal
        across = (T * sums[:, :, None] - parts.transpose(1, 2, 0))[:, off]
        B, every = parts[:, M:].transpose(1, 2, 0), np.arange(K)
        twice = np.einsum("jlr,ls->jrls", B, T) + np.einsum("jr,jls->jrls", T, B)
        twice -= np.einsum("jr,ls,jl->jrls", T, T, sums[M:] + np.diag(counts))
        twice[:, every, :, every] -= B.transpose(2, 0, 1)
        twice[every[:, None], every, every[:, None], every] += counts[:, None] * T
        # Every logit is u + d_j + e_jk.
        joined = np.column_stack([np.ones(K * (K - 1)), np.repeat(np.eye(K), K - 1, axis=0)])
        if self.n_pairs:
            joined = np.column_stack([joined, np.eye(self.n_pairs)])
        return across @ joined, joined.T @ twice[off][:, off] @ joined

    def described(self, parameters: Array) -> tuple[StackingModel, Array]:
        """Return the stacking model of p, and T."""
        K = self.F.shape[1]
        t, b, u, d, e = self.split(parameters)
        logits = np.tile((u + d - np.log(K - 1))[:, None], K)
        np.fill_diagonal(logits, 0.0)
        if self.n_pairs:
            logits[self.off_diagonal] += e
        return StackingModel(t, np.eye(K), b), _probabilities(logits)

    def parts(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """Return p, T, the posterior J and the probability of each row's label."""
        stacking, T = self.described(parameters)
        P = _probabilities(stacking.scores(self.F))
        return P, T, *random_posterior(P, T, self.codes)

    def count(self, parameters: Array) -> tuple[float, float]:
        """Return the expected number of label errors under random noise, and its standard error.

        The variance has three parts: of the true classes given the parameters, of the parameters
        (from outer products of the gradients of rows, with e fixed), and of the model, from the
        overlap sum_i (1 - max_k p_ik).
        """
        n, K, M = self.F.shape
        P, T, J, _ = self.parts(parameters)
        own = J[np.arange(n), self.codes]
        label = self.labels
        # Gradients of each row's log-likelihood and, below, of log J_own, by the parameters.
        by_d = J * ((1 - label) - (1 - np.diag(T)))
        rows = _by_parameters(self.F, J - P, by_d)
        information = (self.s[:, None] * rows).T @ rows
        prior = np.r_[np.full(M, RIDGE), np.zeros(K), CERTAINTY, np.full(K, SAMENESS)]
        information[np.diag_indices_from(information)] += prior
        information[M : M + K, M : M + K] += self.s.sum() / K  # fixes the redundant mean of b
        change = _by_parameters(self.F, label - J, -by_d - label * (1 - np.diag(T)))
        slope = own @ change
        variance = slope @ np.linalg.pinv(information, hermitian=True) @ slope
        number = float(n - own.sum())
        overlap = float(n - P.max(axis=1).sum())
        variance += own @ (1 - own) + MODEL_ERROR**2 * number * overlap
        return number, float(np.sqrt(variance))


def _by_parameters(F: Array, by_score: Array, by_d: Array) -> Array:
    """Turn derivatives by scores and by d, for each row, into those by (t, b, u, d)."""
    by_t = np.einsum("ik,ikm->im", by_score, F)
    return np.hstack([by_t, by_score, by_d.sum(axis=1, keepdims=True), by_d])


def _pulled(P: Array, share: Array, lost: Array, total: float) -> Array:
    """Compute derivatives of the penalty of lost shares by the scores, for rows of weight 1."""
    pulled = P / share * (KEPT_SHARE * lost / total)  # a class that vanished has a tiny share
    return np.asarray(pulled - P * pulled.sum(axis=1, keepdims=True))


def _probabilities(scores: Array) -> Array:
    """Compute the softmax of each row, with less overhead than SciPy."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return np.asarray(powers)


def rows_to_flag(wrong: Array) -> Array:
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
    falling = np.sort(wrong)[::-1]
    count, score = greatest_f1(falling)
    with np.errstate(divide="ignore"):
        none_wrong = np.exp(np.log1p(-falling).sum())
    if score <= none_wrong:
        return np.zeros(len(wrong), dtype=bool)
    least = max(falling[count - 1] * (1 - TIE), LEAST_FLAGGED)  # ties are flagged together
    return np.asarray(wrong >= least)


def greatest_f1(falling: Array) -> tuple[int, float]:
    """Return the number of flagged rows of largest expected F1, and this F1.

    Probabilities of label errors are in descending order.
    """
    true_positives = np.cumsum(falling)
    n_wrong = true_positives[-1]
    scores = 2 * true_positives / np.maximum(np.arange(1, len(falling) + 1) + n_wrong, 1.0)
    best = int(scores.argmax())
    return best + 1, float(scores[best])
