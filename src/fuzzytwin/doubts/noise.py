r"""How labels came about: a clean class by the planes, then a label that may be wrong.

Row i has values F_ikm of M models in K classes, none of which saw its label. Its clean class is j
with probability p_ij, and then it got label k with probability T_jk:

    p_i = softmax_k(sum_m t_m F_ikm + b_k),   t >= 0,
    T_jk / T_jj = exp(u + d_j + e_jk) sqrt(n_k / n_j) / (K - 1)   for k other than j,

with n_k the weight of the rows labelled k.
All of t, b, u, d, e are fitted at once to the labels given, y_i, by

    max  sum_i s_i log sum_j p_ij T_j,y_i  -  |d|^2 / 2 - |e|^2 - 4 (u + 2)^2 - |t|^2 / 2000.

What tells noise from classes that overlap: p may come near to 0 and 1 where a row lies deep in a
class, labels with noise are never that sure. The penalties hold classes to a common share of
wrong labels unless their rows say otherwise, and that share to something ordinary (an eighth, from
6 to 21 %) where nothing says otherwise. The root makes a rare class neither doubtful as such (were
noise the same in all classes, most rows with a rare label would be of a large class) nor beyond
doubt. By Bayes' rule row i is of class j with probability
J_ij = p_ij T_j,y_i / sum_l p_il T_l,y_i; the degree in its own label is J_i,y_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from fuzzytwin._utils.types import Array

USUAL_NOISE = -2.0  # log-odds of a wrong label where nothing is known
CERTAINTY = 8.0  # precision of that
STANDING_OUT = 4 / 3  # times the average doubt: what a flagged row has at least
SAMENESS = 1.0  # precision of d: how alike classes are
PAIR_SAMENESS = 2.0  # precision of e: how alike pairs of classes are
TOLERANCE = 1e-7  # of the objective: four digits and more of each degree
# Overlap of classes and noise look alike: some of one may be taken for the other, by so much of
# the geometric mean of both numbers of rows. Chosen on the first half of the tables of
# benchmarks/doubts.py, for intervals that hold 95 %.
MODEL_ERROR = 0.35
RIDGE = 1e-3  # of t: finite where classes do not overlap at all


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted model of labels.

    Parameters
    ----------
    posterior : ndarray of shape (n, K)
        J: probability of each class for each row, its label considered.
    weights : ndarray of shape (M,)
        t: how much each of the models counts.
    n_wrong : float
        Expected number of wrong labels.
    deviation : float
        Its standard deviation: of what the labels are given the parameters, of the parameters
        (from the outer products of the rows' gradients; e as it stands), and of the model:
        `MODEL_ERROR` of the geometric mean of n_wrong and the overlap, sum_i (1 - max_k p_ik).
    """

    posterior: Array
    weights: Array
    n_wrong: float
    deviation: float


def fit_noise(F: Array, codes: Array, s: Array | None = None) -> NoiseModel:
    """Fit the model above.

    Parameters
    ----------
    F : ndarray of shape (n, K, M)
        Values of M models in each class, higher where a row fits better.
    codes : ndarray of shape (n,)
        Labels, as numbers of classes.
    s : ndarray of shape (n,), default=None
        Weights.

    Returns
    -------
    NoiseModel
    """
    problem = Likelihood(F, codes, np.ones(len(codes)) if s is None else s)
    found = optimize.minimize(
        problem.loss, problem.start(), jac=True, method="L-BFGS-B", bounds=problem.bounds(),
        options={"maxiter": 300, "ftol": TOLERANCE},
    )  # fmt: skip
    return problem.model(found.x)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The objective above and its gradient; parameters are (t, b without b_0, u, d, e) in a row.

    Two classes have no e: d says it all.
    """

    F: Array
    codes: Array
    s: Array

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return n, K and M."""
        n, K, M = self.F.shape
        return n, K, M

    def start(self) -> Array:
        """Give parameters to begin with: fairly sure models, noise as usual."""
        _, K, M = self.sizes
        start = np.zeros(M + K - 1 + 1 + K + self.n_pairs)
        start[:M], start[M + K - 1] = 4.0 / M, USUAL_NOISE
        return start

    @cached_property
    def labels(self) -> Array:
        """Return 1 in the column of each row's label, else 0."""
        n, K, _ = self.sizes
        labels = np.zeros((n, K))
        labels[np.arange(n), self.codes] = 1.0
        return labels

    @property
    def n_pairs(self) -> int:
        """Count the elements of e."""
        K = self.F.shape[1]
        return K * (K - 1) if K > 2 else 0

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Keep t from below zero and noise within what a computer can tell from 0 and 1."""
        _, K, M = self.sizes
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * len(self.start())
        bounds[:M] = [(0.0, None)] * M
        bounds[M + K - 1] = (-12.0, 3.0)
        return bounds

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """Compute the negative objective and its gradient, per unit of weight."""
        _, K, M = self.sizes
        P, T, J, label = self.parts(parameters)
        t, u = parameters[:M], parameters[M + K - 1]
        d, e = np.split(parameters[M + K :], [K])
        total = self.s.sum()
        value = -(self.s @ np.log(label)) + RIDGE * (t @ t) / 2
        value += (
            CERTAINTY * (u - USUAL_NOISE) ** 2 / 2
            + (SAMENESS * (d @ d) + PAIR_SAMENESS * (e @ e)) / 2
        )
        R = self.s[:, None] * (P - J)
        counts = (J * self.s[:, None]).T @ self.labels
        of_logits = counts.sum(axis=1, keepdims=True) * T - counts
        np.fill_diagonal(of_logits, 0.0)
        of_d = of_logits.sum(axis=1)
        gradient = np.concatenate([
            R.ravel() @ self.F.reshape(-1, M) + RIDGE * t,
            R.sum(axis=0)[1:],
            [of_d.sum() + CERTAINTY * (u - USUAL_NOISE)],
            of_d + SAMENESS * d,
            of_logits[off_diagonal(K)] + PAIR_SAMENESS * e if self.n_pairs else [],
        ])  # fmt: skip
        return float(value / total), gradient / total

    def parts(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """Return p, T, the posterior J and the probability of each row's label."""
        _, K, M = self.sizes
        b = np.concatenate([[0.0], parameters[M : M + K - 1]])
        P = softmax((self.F.reshape(-1, M) @ parameters[:M]).reshape(-1, K) + b)
        u, d = parameters[M + K - 1], parameters[M + K : M + 2 * K]
        sizes = np.log(np.bincount(self.codes, self.s, minlength=K)) / 2
        logits = (u + d - np.log(K - 1) - sizes)[:, None] + sizes
        np.fill_diagonal(logits, 0.0)
        if self.n_pairs:
            logits[off_diagonal(K)] += parameters[M + 2 * K :]
        T = softmax(logits)
        J = P * T.T[self.codes]
        label = np.maximum(J.sum(axis=1), np.finfo(float).tiny)
        return P, T, J / label[:, None], label

    def model(self, parameters: Array) -> NoiseModel:
        """Describe the fitted model."""
        n, K, M = self.sizes
        P, T, J, _ = self.parts(parameters)
        own = J[np.arange(n), self.codes]
        label = self.labels
        # Gradients of each row's log-likelihood and, below, of log J_own, by the parameters.
        by_d = J * ((1 - label) - (1 - np.diag(T)))
        rows = _by_parameters(self.F, J - P, by_d)
        information = (self.s[:, None] * rows).T @ rows
        prior = np.r_[np.full(M, RIDGE), np.zeros(K - 1), CERTAINTY, np.full(K, SAMENESS)]
        information[np.diag_indices_from(information)] += prior
        change = _by_parameters(self.F, label - J, -by_d - label * (1 - np.diag(T)))
        slope = own @ change
        variance = slope @ np.linalg.pinv(information, hermitian=True) @ slope
        n_wrong, overlap = float(n - own.sum()), float(n - P.max(axis=1).sum())
        variance += own @ (1 - own) + MODEL_ERROR**2 * n_wrong * overlap
        return NoiseModel(J, parameters[:M], n_wrong, float(np.sqrt(variance)))


def _by_parameters(F: Array, by_score: Array, by_d: Array) -> Array:
    """Turn derivatives of each row by its scores and by d into those by (t, b, u, d)."""
    by_t = np.einsum("ik,ikm->im", by_score, F)
    return np.hstack([by_t, by_score[:, 1:], by_d.sum(axis=1, keepdims=True), by_d])


def softmax(scores: Array) -> Array:
    """exp(scores), divided so that rows sum to one."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def off_diagonal(K: int) -> Array:
    """Mark all cells of a (K, K) table but those of the diagonal."""
    return ~np.eye(K, dtype=bool)


def rows_to_flag(wrong: Array) -> Array:
    r"""Choose the rows of greatest expected F1 from probabilities of wrong labels.

    Of the m rows of greatest probability q, with N = sum q wrong labels in all, F1 is about
    2 sum_{i <= m} q_i / (m + N). None are chosen where it is likelier that no label is wrong, and
    no row that is hardly more doubtful than the average one (unless it is more likely wrong than
    right): where features tell nothing about labels, no row stands out.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.doubts.noise import rows_to_flag
    >>> rows_to_flag(np.array([0.9, 0.0, 0.7, 0.1])).tolist()
    [True, False, True, False]
    >>> rows_to_flag(np.array([0.01, 0.02])).any()
    np.False_
    """
    order = np.argsort(-wrong, kind="stable")
    found = np.cumsum(wrong[order])
    scores = 2 * found / (np.arange(1, len(wrong) + 1) + found[-1])
    best = int(scores.argmax())
    flags = np.zeros(len(wrong), dtype=bool)
    with np.errstate(divide="ignore"):
        none_wrong = np.exp(np.log1p(-wrong).sum())
    if scores[best] > none_wrong:
        flags[order[: best + 1]] = True
    return flags & (wrong >= min(0.5, STANDING_OUT * float(wrong.mean())))
