r"""How labels came about, by two readings of what models say that never saw them.

Row i has values F_ikm of M models in K classes, none of which saw its label y_i. Let
q_i = softmax_k(sum_m t_m F_ikm + b_k) be the probabilities of its label (`core.stacking`). Labels
are less sure than the classes are, for one of two reasons.

**Chance.** The true class is j with probability p_ij, and then label k is written down with
probability T_jk, wherever the row lies:

    p_i = softmax_k(sum_m t_m F_ikm + b_k),   t >= 0,
    T_jk / T_jj = exp(u + d_j + e_jk) / (K - 1)   for k other than j,

all of t, b, u, d, e fitted at once to the labels by

    max  sum_i s_i log sum_j p_ij T_j,y_i  -  |d|^2 / 2 - |e|^2 - 4 (u + 2)^2 - |t|^2 / 2000
         - 2 sum_k min(0, log share of class k by p - log share of label k)^2.

What tells it from classes that overlap: p may come near to 0 and 1 where a row lies deep in a
class, labels with noise are never that sure. The penalties hold classes to a common share of wrong
labels unless their rows say otherwise, and that share to an ordinary one (an eighth, from 6 to
21 %) where nothing says otherwise. The last one keeps a class whose rows are hard to tell from
vanishing: all its labels could be errors of the other classes. Row i is of class j with probability
J_ij = p_ij T_j,y_i / sum_l p_il T_l,y_i.

The objective may have several maxima, of few rows above all. So that the names of the classes and
the order of the rows choose none of them, no class is singled out by the parameters, several starts
that treat all classes alike are followed, and the best of them to the last digits.

**The border.** People err where classes meet: then labels have the probabilities q, and the truth
is sharper, r_i proportional to q_i^beta. No likelihood of labels tells this from classes that
overlap in truth, so beta is a constant (`SHARPER`), but for one thing. Where the classes are sharp
and rows too few to show it, q is blunt because planes are not yet known: then rows that took part
are fitted much better than rows left out. With L the mean log loss of labels at rows left out and
L' at the same rows taking part, f = 2 L' / L - 1, within 0 and 1, is what would remain if this gap
went once more, and beta = 1 + (SHARPER - 1) f. Truth and label agree as often as r and q allow, but
for a share `APART` of rows in which they have nothing to do with each other:

    P(truth j | label k) = (1 - APART) c_jk + APART r_j,
    c_kk = min(1, r_k / q_k),   c_jk = (1 - c_kk) (r_j - q_j)_+ / sum_l (r_l - q_l)_+,

and c_kk = 1 for a class of few rows (`MANY_ROWS`) that is found in none of them (q_k is nowhere the
largest): a rare class that the columns hardly tell would vanish else.

The reading of chance has the weight w = 1 / (1 + exp(1 - gain)), where `gain` is what its objective
is above the log likelihood of q; both posteriors are averaged. Where q is no better
than constant probabilities, by `SIGNAL` of the log likelihood, no number is claimed, and labels are
as good as right (`UNTOLD` of the posterior is left, so that rows still have an order).
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

RHO = 0.1  # ridge on the weights of models in q
USUAL_NOISE = -2.0  # log-odds of a wrong label where nothing is known
CERTAINTY = 8.0  # precision of that
SAMENESS = 1.0  # precision of d: how alike classes are
PAIR_SAMENESS = 2.0  # precision of e: how alike pairs of classes are
KEPT_SHARE = 4.0  # precision of the share of a class, where it is below that of its label
RIDGE = 1e-3  # of t: finite where classes do not overlap at all
# Of the objective and of its gradient, where classes are too many for Newton's method.
TOLERANCE = 1e-15
FLAT = 1e-10
ROUGH = 1e-5  # of the objective, where minima are compared
SURE = 3 * START  # sum of the weights of models that are surer than usual
LEAST_NOISE, MOST_NOISE = -12.0, 3.0  # log-odds
MOST_CLASSES = 50  # that have second derivatives; of more they would take longer than steps
FLATTEST = 1e-8  # the least curvature that a step believes in, relative to the greatest
TIE = 1e-9  # relative difference of equal probabilities
# The following were chosen on one half of the tables of `python -m benchmarks doubts` and on made
# ones without noise or without signal.
SHARPER = 3.0
APART = 0.1
OCCAM = 1.0  # what the reading of chance must be better by, in log likelihood, to count as much
SIGNAL = 4.0
UNTOLD = 0.1
MANY_ROWS = 100
# Overlap of classes and chance look alike: some of one may be taken for the other, this share of
# the geometric mean of both numbers of rows.
MODEL_ERROR = 0.35
# By the border, anything from none to this many times the overlap may be wrong.
MOST_OF_OVERLAP = 1.5
DOUBT_OF_READING = 0.1  # the weight that each of the readings has at least in the interval
HIDDEN = 0.1  # of a difference of classes, no more than this shows in the labels
LEAST_FLAGGED = 0.25  # probability of being wrong that a flagged row has at least


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted model of labels: q, p, T, the weight w of chance, beta, and what follows."""

    labels: StackingModel  # of q
    chance: StackingModel  # of p
    noise: Array  # T
    trust: float  # w
    sharper: float  # beta
    found: Array  # (K,): whether q is largest for any row of a label, or its rows are many
    gain: float  # of the log likelihood of q, over that of constant probabilities
    n_rows: int
    n_wrong: float = np.nan  # expected, among these rows
    interval: tuple[float, float] = (0.0, np.inf)  # of 95 %

    @property
    def tells(self) -> bool:
        """Return whether the columns tell the classes apart at all."""
        return self.gain > SIGNAL

    def posterior(self, F: Array, codes: Array) -> Array:
        """Compute the probability of each true class, given values and label of each row."""
        J = by_chance(softmax(self.chance.scores(F), axis=1), self.noise, codes)[0]
        Q = softmax(self.labels.scores(F), axis=1)
        J = self.trust * J + (1 - self.trust) * by_border(Q, codes, self.sharper, self.found)
        return J if self.tells else (1 - UNTOLD) * np.eye(F.shape[1])[codes] + UNTOLD * J

    def least_wrong(self, F: Array, codes: Array) -> float:
        """Find the probability of a wrong label from which rows are flagged; infinity: none are.

        It is that of the rows of greatest expected F1 among these, so that equal rows are flagged
        alike, and other rows by the same rule.
        """
        wrong = 1 - self.posterior(F, codes)[np.arange(len(codes)), codes]
        flags = rows_to_flag(wrong)
        return float(wrong[flags].min()) * (1 - TIE) if self.tells and flags.any() else np.inf

    def shares(self, F: Array, codes: Array, chance: float) -> Array:
        """Return the share of each row in each class: by chance, with this weight, or its label."""
        J = by_chance(softmax(self.chance.scores(F), axis=1), self.noise, codes)[0]
        return chance * J + (1 - chance) * np.eye(F.shape[1])[codes]

    def with_noise_correction(self, labels: StackingModel) -> StackingModel:
        """Turn probabilities of labels into those of true classes, as far as chance is believed in.

        Noise that hides a difference of classes almost wholly (`HIDDEN`) leaves it unknown.
        """
        unmixing = np.linalg.pinv(self.noise, rcond=HIDDEN)
        chance = (1 - 2 * DOUBT_OF_READING) * self.trust if self.tells else 0.0
        return replace(labels, unmixing=unmixing, chance=chance)


def fit_noise(
    F: Array, codes: Array, s: Array | None = None, fitted: Array | None = None
) -> NoiseModel:
    """Fit the model above to values F (n, K, M) of rows left out, labels and weights.

    `fitted` has the same values with the row taking part; without it f is 1. Weights are in units
    of what was left out together: their sum is the effective number of rows, or of groups.
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
    hits = Q[rows, codes] >= Q.max(axis=1) * (1 - TIE)  # a tie is one whatever classes are called
    right = np.bincount(codes[hits], s[hits], minlength=K)
    told = (right > 0) | (s @ Y >= MANY_ROWS)
    problem = Likelihood(F, codes, s)
    parameters = problem.solve(labels)
    better = -total * (problem.loss(parameters)[0] - labels.log_loss)
    model = NoiseModel(
        labels, *problem.described(parameters), float(special.expit(better - OCCAM)),
        1 + (SHARPER - 1) * inherent, told, gain, n,
    )  # fmt: skip
    if not model.tells:
        return replace(model, interval=(0.0, float(n)))
    number = float(n - model.posterior(F, codes)[rows, codes].sum())
    interval = _interval(*problem.count(parameters), n - Q.max(axis=1).sum(), model.trust)
    low, high = min(interval[0], number), max(interval[1], number)
    return replace(model, n_wrong=number, interval=(max(low, 0.0), min(high, float(n))))


def noise_matrix(J: Array, codes: Array) -> Array:
    """Compute the share of each class (row) that has each label (column)."""
    K = J.shape[1]
    counts = np.stack([np.bincount(codes, J[:, j], minlength=K) for j in range(K)])
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.eye(K), where=total > 0)


def by_chance(P: Array, T: Array, codes: Array) -> tuple[Array, Array]:
    """Return J, and the probability of each row's label."""
    J = P * T[:, codes].T
    label = np.maximum(J.sum(axis=1), np.finfo(float).tiny)
    return J / label[:, None], label


def by_border(Q: Array, codes: Array, sharper: float, found: Array) -> Array:
    """Compute the probability of each true class where labels are wrong at the border."""
    rows = np.arange(len(codes))
    Q = np.maximum(Q, np.finfo(float).tiny)
    R = softmax(sharper * np.log(Q), axis=1)
    agree = np.minimum(1.0, R[rows, codes] / Q[rows, codes])
    agree[~found[codes]] = 1.0
    more = np.maximum(R - Q, 0.0)
    total = more.sum(axis=1)
    share = np.divide(1 - agree, total, out=np.zeros(len(rows)), where=total > 0)
    together = more * share[:, None]
    together[rows, codes] += agree
    together /= together.sum(axis=1, keepdims=True)
    return (1 - APART) * together + APART * R


def _interval(number: float, deviation: float, overlap: float, trust: float) -> tuple[float, float]:
    """Return 95 % of a mixture: normal by chance, anything up to the overlap and more else."""
    w = DOUBT_OF_READING + (1 - 2 * DOUBT_OF_READING) * trust
    most = MOST_OF_OVERLAP * max(overlap, 1e-9)
    deviation = max(deviation, 1e-9)

    def below(x: float) -> float:
        normal = float(special.ndtr((x - number) / deviation))
        return w * normal + (1 - w) * min(max(x / most, 0.0), 1.0)

    ends = min(number - 9 * deviation, 0.0) - 1, max(number + 9 * deviation, most) + 1
    low, high = (optimize.brentq(lambda x, p=p: below(x) - p, *ends) for p in (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The objective of chance and its derivatives; parameters are (t, b, u, d, e).

    Two classes have no e: d says it all. No class is singled out, so that the names of the classes
    change nothing: a constant may be added to all of b, and steps keep its mean.
    """

    F: Array
    codes: Array
    s: Array

    def start(self, sureness: float = START) -> Array:
        """Give parameters to begin with: models of weights `sureness` in all, noise as usual."""
        _, K, M = self.F.shape
        start = np.zeros(M + K + 1 + K + self.n_pairs)
        start[:M] = sureness / M
        start[M + K] = USUAL_NOISE
        return start

    def starts(self, labels: StackingModel) -> list[Array]:
        """Give several parameters to begin with, none of which prefers a class to another."""
        _, K, M = self.F.shape
        as_labels = self.start()
        as_labels[:M] = labels.weights
        as_labels[M : M + K] = labels.biases - labels.biases.mean()
        return [self.start(), self.start(SURE), as_labels]

    def solve(self, labels: StackingModel) -> Array:
        """Minimise the negative objective, which may have several minima.

        Of several starts, the one that leads lowest is followed to the last digits. t is kept from
        below zero, and noise within what a computer can tell from 0 and 1.
        """
        ways = [self._descend(start, ROUGH) for start in self.starts(labels)]
        best = min(ways, key=lambda way: float(way.fun)).x
        if self.F.shape[1] > MOST_CLASSES:
            return np.asarray(self._descend(best, TOLERANCE).x)
        low, high = self.bounds
        return minimise(self.loss, self._newton_step, best, lambda z: np.clip(z, low, high))

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Return the least and the greatest value of each parameter."""
        _, K, M = self.F.shape
        low, high = np.full((2, len(self.start())), [[-np.inf], [np.inf]])
        low[:M] = 0.0
        low[M + K], high[M + K] = LEAST_NOISE, MOST_NOISE
        return low, high

    def _descend(self, start: Array, tolerance: float) -> optimize.OptimizeResult:
        """Go downhill until steps gain less than the tolerance."""
        return optimize.minimize(
            self.loss, start, jac=True, method="L-BFGS-B", bounds=optimize.Bounds(*self.bounds),
            options={"maxiter": 1000, "ftol": tolerance, "gtol": FLAT},
        )  # fmt: skip

    def _newton_step(self, parameters: Array, gradient: Array) -> tuple[Array, Array]:
        """Return a step downhill, Newton's where the objective curves upwards, and the gradient."""
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
        """Return 1 in the column of each row's label, else 0."""
        return np.eye(self.F.shape[1])[:, self.codes].T

    @cached_property
    def label_weight(self) -> Array:
        """Return the weight of the rows of each label."""
        return np.asarray(self.s @ self.labels)

    @cached_property
    def off_diagonal(self) -> Array:
        """Mark all cells of a (K, K) table but those of the diagonal."""
        return ~np.eye(self.F.shape[1], dtype=bool)

    @property
    def n_pairs(self) -> int:
        """Count the elements of e."""
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
        """Return the share of each class by p, and the logarithm of what it lost of its label's."""
        total = self.s.sum()
        share = np.maximum(self.s @ P / total, np.finfo(float).tiny)
        return share, np.minimum(np.log(share * total / self.label_weight), 0.0)

    def split(self, parameters: Array) -> tuple[Array, Array, float, Array, Array]:
        """Return t, b, u, d and e."""
        _, K, M = self.F.shape
        u = float(parameters[M + K])
        d, e = parameters[M + K + 1 : M + 2 * K + 1], parameters[M + 2 * K + 1 :]
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
            mine = weighted[rows]
            parts[label, :M] = np.einsum("ik,ikm->mk", mine, self.F[rows])
            parts[label, M:] = np.diag(mine.sum(axis=0))
            parts[label] -= by_J[rows].T @ mine
        counts = weighted.sum(axis=0)
        sums = parts.sum(axis=0)
        # x_jk is the logit of (j, k) less log sum_k exp of such logits, whose derivatives are T.
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
        """Return weights and biases of p, and T."""
        K = self.F.shape[1]
        t, b, u, d, e = self.split(parameters)
        logits = np.tile((u + d - np.log(K - 1))[:, None], K)
        np.fill_diagonal(logits, 0.0)
        if self.n_pairs:
            logits[self.off_diagonal] += e
        return StackingModel(t, np.eye(K), b), _probabilities(logits)

    def parts(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """Return p, T, the posterior J and the probability of each row's label."""
        combination, T = self.described(parameters)
        P = _probabilities(combination.scores(self.F))
        return P, T, *by_chance(P, T, self.codes)

    def count(self, parameters: Array) -> tuple[float, float]:
        """Return the expected number of wrong labels by chance, and its standard deviation.

        That of the labels given the parameters, of the parameters (from the outer products of the
        rows' gradients; e as it stands), and of the model, from sum_i (1 - max_k p_ik).
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
        information[M : M + K, M : M + K] += self.s.sum() / K  # of the mean of b nothing is known
        change = _by_parameters(self.F, label - J, -by_d - label * (1 - np.diag(T)))
        slope = own @ change
        variance = slope @ np.linalg.pinv(information, hermitian=True) @ slope
        number, overlap = float(n - own.sum()), float(n - P.max(axis=1).sum())
        variance += own @ (1 - own) + MODEL_ERROR**2 * number * overlap
        return number, float(np.sqrt(variance))


def _by_parameters(F: Array, by_score: Array, by_d: Array) -> Array:
    """Turn derivatives of each row by its scores and by d into those by (t, b, u, d)."""
    by_t = np.einsum("ik,ikm->im", by_score, F)
    return np.hstack([by_t, by_score, by_d.sum(axis=1, keepdims=True), by_d])


def _pulled(P: Array, share: Array, lost: Array, total: float) -> Array:
    """Compute the derivatives of the penalty of lost shares by the scores of rows of weight 1."""
    pulled = P / share * (KEPT_SHARE * lost / total)  # a class that vanished has a tiny share
    return np.asarray(pulled - P * pulled.sum(axis=1, keepdims=True))


def _probabilities(scores: Array) -> Array:
    """Compute the softmax of each row, with less to do beside it than SciPy has."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return np.asarray(powers)


def rows_to_flag(wrong: Array) -> Array:
    r"""Choose the rows of greatest expected F1 from probabilities of wrong labels.

    Of the m rows of greatest probability q, with N = sum q wrong labels in all, F1 is about
    2 sum_{i <= m} q_i / (m + N). None are chosen where it is likelier that no label is wrong, and
    no row whose label is wrong with a probability below a quarter.

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
    least = max(falling[count - 1] * (1 - TIE), LEAST_FLAGGED)  # equal rows are flagged alike
    return np.asarray(wrong >= least)


def greatest_f1(falling: Array) -> tuple[int, float]:
    """Return how many rows have the greatest expected F1, and that, from falling probabilities."""
    found = np.cumsum(falling)
    scores = 2 * found / np.maximum(np.arange(1, len(falling) + 1) + found[-1], 1.0)
    best = int(scores.argmax())
    return best + 1, float(scores[best])
