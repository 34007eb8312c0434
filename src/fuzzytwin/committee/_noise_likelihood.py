r"""Maximum likelihood of random label noise: probabilities of true classes, and the noise matrix.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    y, s (n,)   labels and weights of the rows
    t (M,)      stacking weights; b (K,) intercepts
    p (n, K)    probabilities of true classes
    T (K, K)    noise matrix: T_jk is the probability of label k in class j
    u, d, e     log odds of a wrong label: common part, part of each class, part of each pair
    J (n, K)    posterior of the true class, given the label

The true class is j with probability p_ij, and the label is k with probability T_jk (Angluin and
Laird, 1988; Natarajan et al., 2013):

    p_i = softmax_k(sum_m t_m F_ikm + b_k),   t >= 0,
    T_jk / T_jj = exp(u + d_j + e_jk) / (K - 1)   for k other than j.

All of t, b, u, d, e are fitted jointly to the labels by

    max  sum_i s_i log sum_j p_ij T_j,y_i  -  |d|^2 / 2 - |e|^2 - 4 (u + 2)^2 - |t|^2 / 2000
         - 2 sum_k min(0, log share of class k by p - log share of label k)^2.

Random noise differs from overlap of classes in that p may come close to 0 and 1 for rows deep
inside a class, while noisy labels are never that certain. The penalties shrink the noise of all
classes towards a common level, and that level towards a usual one (12%, from 6% to 21%). The last
penalty keeps a class that is hard to recognise from vanishing: all its labels could be errors of
other classes.

The objective may have several maxima, especially with few rows. So that the solution does not
depend on the names of classes or the order of rows, the parameters treat all classes equally, and
so do the starting points, the best of which is followed to machine precision.

References
----------
D. Angluin and P. Laird, "Learning from noisy examples", Machine Learning 2 (1988), 343-370.
N. Natarajan et al., "Learning with noisy labels", NeurIPS 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, optimize

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._stacking import START_SUM, StackingModel
from fuzzytwin.core.newton import minimise

USUAL_NOISE = -2.0  # prior mean of u, the log odds of a wrong label
NOISE_PRECISION = 8.0  # prior precision of u
CLASS_PRECISION = 1.0  # prior precision of d: similarity of classes
PAIR_PRECISION = 2.0  # prior precision of e: similarity of pairs of classes
SHARE_PRECISION = 4.0  # precision of the share of a class, if it is below that of its label
RIDGE = 1e-3  # on t, which stays finite if classes do not overlap
# Tolerances of L-BFGS, for the objective and its gradient, if classes are too many for Newton.
TOLERANCE = 1e-15
GRADIENT_TOLERANCE = 1e-10
START_TOLERANCE = 1e-5  # tolerance of the objective when starting points are compared
SHARP_START = 3 * START_SUM  # sum of the stacking weights of a start with sharper probabilities
MIN_NOISE = -12.0  # bounds of u
MAX_NOISE = 3.0
MAX_NEWTON_CLASSES = 50  # with more classes, second derivatives take too long
MIN_CURVATURE = 1e-8  # smallest curvature used for a step, relative to the largest
# Overlap of classes may be taken for random noise, or the reverse: the standard error of this, as a
# share of the geometric mean of both numbers of rows.
MODEL_ERROR = 0.35


def random_posterior(P: Array, T: Array, codes: Array) -> tuple[Array, Array]:
    """Compute the posterior J under random noise, and the probability of each row's label."""
    J = P * T[:, codes].T
    p_label = np.maximum(J.sum(axis=1), np.finfo(float).tiny)
    return J / p_label[:, None], p_label


@dataclass(frozen=True, eq=False)
class RandomNoiseLikelihood:
    """The objective of random noise and its derivatives by the parameters (t, b, u, d, e).

    With two classes there is no e, which d would duplicate. Classes are treated equally, so that
    their names do not matter: b has a redundant mean, which Newton steps do not change.
    """

    F: Array  # leave-one-out values (n, K, M)
    codes: Array  # label of each row
    s: Array  # weight of each row

    def start(self, weight_sum: float = START_SUM) -> Array:
        """Return a starting point: stacking weights of this sum, and the usual noise."""
        _, K, M = self.F.shape
        start = np.zeros(M + K + 1 + K + self.n_pairs)
        start[:M] = weight_sum / M
        start[M + K] = USUAL_NOISE
        return start

    def starts(self, label_stacking: StackingModel) -> list[Array]:
        """Return several starting points, each of which treats all classes equally."""
        _, K, M = self.F.shape
        from_labels = self.start()
        from_labels[:M] = label_stacking.weights
        intercept = label_stacking.intercept
        from_labels[M : M + K] = intercept - intercept.mean()
        return [self.start(), self.start(SHARP_START), from_labels]

    def solve(self, label_stacking: StackingModel) -> Array:
        """Minimise the negative objective, which may have several minima.

        The lowest of several descents is followed to machine precision. t stays nonnegative, and u
        within bounds.
        """
        descents = [self._descend(start, START_TOLERANCE) for start in self.starts(label_stacking)]
        best = min(descents, key=lambda descent: float(descent.fun)).x
        if self.F.shape[1] > MAX_NEWTON_CLASSES:
            return np.asarray(self._descend(best, TOLERANCE).x)
        low, high = self.bounds
        return minimise(self.loss, self._newton_step, best, lambda z: np.clip(z, low, high))

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and upper bounds of the parameters."""
        _, K, M = self.F.shape
        low, high = np.full((2, len(self.start())), [[-np.inf], [np.inf]])
        low[:M] = 0.0
        low[M + K], high[M + K] = MIN_NOISE, MAX_NOISE
        return low, high

    def _descend(self, start: Array, tolerance: float) -> optimize.OptimizeResult:
        """Minimise by L-BFGS until steps gain less than the tolerance."""
        bounds = optimize.Bounds(*self.bounds)
        options = {"maxiter": 1000, "ftol": tolerance, "gtol": GRADIENT_TOLERANCE}
        return optimize.minimize(
            self.loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )

    def _newton_step(self, parameters: Array, gradient: Array) -> tuple[Array, Array]:
        """Return a descent step, Newton's if the Hessian is positive definite, and the gradient."""
        low, high = self.bounds
        free = (parameters > low) | (gradient < 0)
        free &= (parameters < high) | (gradient > 0)
        hessian = self.hessian(parameters)[np.ix_(free, free)]
        step = np.zeros(len(parameters))
        try:
            step[free] = linalg.cho_solve(linalg.cho_factor(hessian), -gradient[free])
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(hessian)
            values = np.maximum(np.abs(values), MIN_CURVATURE * np.abs(values).max())
            step[free] = vectors @ ((vectors.T @ -gradient[free]) / values)
        return step, gradient

    @cached_property
    def Y(self) -> Array:
        """Return the indicators (n, K) of the labels."""
        return np.eye(self.F.shape[1])[:, self.codes].T

    @cached_property
    def label_weight(self) -> Array:
        """Return the total weight of the rows of each label."""
        return np.asarray(self.s @ self.Y)

    @cached_property
    def off_diagonal(self) -> Array:
        """Return the mask (K, K) of the cells off the diagonal."""
        return ~np.eye(self.F.shape[1], dtype=bool)

    @property
    def n_pairs(self) -> int:
        """Return the number of elements of e."""
        K = self.F.shape[1]
        return K * (K - 1) if K > 2 else 0

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """Compute the negative objective and its gradient, per unit of weight."""
        M = self.F.shape[2]
        P, T, J, p_label = self.parts(parameters)
        t, _, u, d, e = self.split(parameters)
        total = self.s.sum()
        value = -(self.s @ np.log(p_label)) + RIDGE * (t @ t) / 2
        value += NOISE_PRECISION * (u - USUAL_NOISE) ** 2 / 2
        value += (CLASS_PRECISION * (d @ d) + PAIR_PRECISION * (e @ e)) / 2
        share, lost = self._lost_share(P)
        value += SHARE_PRECISION * (lost @ lost) / 2
        R = self.s[:, None] * (P - J + _share_slopes(P, share, lost, total))
        counts = (J * self.s[:, None]).T @ self.Y
        of_logits = counts.sum(axis=1, keepdims=True) * T - counts
        np.fill_diagonal(of_logits, 0.0)
        of_d = of_logits.sum(axis=1)
        by_t = R.ravel() @ self.F.reshape(-1, M) + RIDGE * t
        by_u = of_d.sum() + NOISE_PRECISION * (u - USUAL_NOISE)
        gradient = [by_t, R.sum(axis=0), [by_u], of_d + CLASS_PRECISION * d]
        if self.n_pairs:
            gradient.append(of_logits[self.off_diagonal] + PAIR_PRECISION * e)
        return float(value / total), np.concatenate(gradient) / total

    def _lost_share(self, P: Array) -> tuple[Array, Array]:
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

    def hessian(self, parameters: Array) -> Array:
        r"""Compute the second derivatives of `loss`, plus 1 / K for all pairs of b.

        With the scores a_ij and x_jk = log T_jk, the logarithm of the probability of a label is
        log sum_j exp(a_ij + x_j,y_i) - log sum_j exp(a_ij). Second derivatives of its parts are
        diag(J_i) - J_i J_i' and diag(p_i) - p_i p_i'. What is added keeps the mean of b, on which
        nothing else depends.
        """
        _, K, M = self.F.shape
        P, T, J, _ = self.parts(parameters)
        J_slopes = self._score_slopes(J)
        of_scores = self._hessian_of_scores(P, J, J_slopes)
        of_scores[M:, M:] += self.s.sum() / K
        across, of_noise = self._hessian_of_noise(T, J, J_slopes)
        scores_precision = np.r_[np.full(M, RIDGE), np.zeros(K)]
        noise_precision = np.r_[NOISE_PRECISION, np.full(K, CLASS_PRECISION)]
        pair_precision = np.full(self.n_pairs, PAIR_PRECISION)
        precision = np.concatenate([scores_precision, noise_precision, pair_precision])
        whole = np.block([[of_scores, across], [across.T, of_noise]])
        return (whole + np.diag(precision)) / self.s.sum()

    def _score_slopes(self, P: Array) -> Array:
        """Compute sum_k P_ik da_ik of each row, by (t, b)."""
        return np.hstack([np.einsum("ik,ikm->im", P, self.F), P])

    def _hessian_of_scores(self, P: Array, J: Array, J_slopes: Array) -> Array:
        """Compute second derivatives by (t, b), times the sum of weights, without the ridge.

        They are sums over rows of diag(level) + J J' - P turn' - turn P' by the scores, the penalty
        of lost shares included, and one more square for each class that lost some.
        """
        n, K, M = self.F.shape
        share, lost = self._lost_share(P)
        s = self.s[:, None]
        total = self.s.sum()
        slopes = _share_slopes(P, share, lost, total)
        level = s * (P - J + slopes)
        P_slopes = self._score_slopes(P)
        turn_slopes = self._score_slopes(P / 2 + slopes)
        crossed = (s * P_slopes).T @ turn_slopes
        of_scores = (s * J_slopes).T @ J_slopes - crossed - crossed.T
        flat = self.F.reshape(n * K, M)
        of_scores[:M, :M] += (flat * level.ravel()[:, None]).T @ flat
        of_both = np.einsum("ik,ikm->mk", level, self.F)
        of_scores[:M, M:] += of_both
        of_scores[M:, :M] += of_both.T
        of_scores[M:, M:] += np.diag(level.sum(axis=0))
        weighted = s * P
        by_share = np.einsum("ik,ikm->km", weighted, self.F)
        by_share = np.hstack([by_share, np.diag(weighted.sum(axis=0))]) - weighted.T @ P_slopes
        by_share /= (share * total)[:, None]
        squares = np.where(lost < 0, SHARE_PRECISION * (1 - lost), 0.0)
        return np.asarray(of_scores + (by_share.T * squares) @ by_share)

    def _hessian_of_noise(self, T: Array, J: Array, J_slopes: Array) -> tuple[Array, Array]:
        """Compute second derivatives by (t, b) and (u, d, e), and by (u, d, e) twice.

        They are times the sum of weights and without the penalties.
        """
        _, K, M = self.F.shape
        weighted = J * self.s[:, None]
        # For each label k (first axis): derivatives by (t, b) and by x_jk of each class j.
        parts = np.empty((K, M + K, K))
        for label in range(K):
            rows = self.codes == label
            J_label = weighted[rows]
            parts[label, :M] = np.einsum("ik,ikm->mk", J_label, self.F[rows])
            parts[label, M:] = np.diag(J_label.sum(axis=0))
            parts[label] -= J_slopes[rows].T @ J_label
        counts = weighted.sum(axis=0)
        sums = parts.sum(axis=0)
        # x_jk is the logit of (j, k) minus log sum_k exp of these logits, with derivatives T.
        off = self.off_diagonal
        across = (T * sums[:, :, None] - parts.transpose(1, 2, 0))[:, off]
        B = parts[:, M:].transpose(1, 2, 0)
        every = np.arange(K)
        twice = np.einsum("jlr,ls->jrls", B, T) + np.einsum("jr,jls->jrls", T, B)
        twice -= np.einsum("jr,ls,jl->jrls", T, T, sums[M:] + np.diag(counts))
        twice[:, every, :, every] -= B.transpose(2, 0, 1)
        twice[every[:, None], every, every[:, None], every] += counts[:, None] * T
        # Every logit is u + d_j + e_jk.
        joined = np.column_stack([np.ones(K * (K - 1)), np.repeat(np.eye(K), K - 1, axis=0)])
        if self.n_pairs:
            joined = np.column_stack([joined, np.eye(self.n_pairs)])
        return across @ joined, joined.T @ twice[off][:, off] @ joined

    def model(self, parameters: Array) -> tuple[StackingModel, Array]:
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
        stacking, T = self.model(parameters)
        P = _probabilities(stacking.scores(self.F))
        return P, T, *random_posterior(P, T, self.codes)

    def count_errors(self, parameters: Array) -> tuple[float, float]:
        """Return the expected number of label errors under random noise, and its standard error.

        The variance has three parts: of the true classes given the parameters, of the parameters
        (from outer products of the gradients of rows, with e fixed), and of the model, from the
        overlap sum_i (1 - max_k p_ik).
        """
        n, K, M = self.F.shape
        P, T, J, _ = self.parts(parameters)
        p_correct = J[np.arange(n), self.codes]
        Y = self.Y
        # Gradients of each row's log-likelihood and, below, of log p_correct, by the parameters.
        by_d = J * ((1 - Y) - (1 - np.diag(T)))
        rows = _by_parameters(self.F, J - P, by_d)
        information = (self.s[:, None] * rows).T @ rows
        prior = np.r_[np.full(M, RIDGE), np.zeros(K), NOISE_PRECISION, np.full(K, CLASS_PRECISION)]
        information[np.diag_indices_from(information)] += prior
        information[M : M + K, M : M + K] += self.s.sum() / K  # fixes the redundant mean of b
        change = _by_parameters(self.F, Y - J, -by_d - Y * (1 - np.diag(T)))
        slope = p_correct @ change
        variance = slope @ np.linalg.pinv(information, hermitian=True) @ slope
        number = float(n - p_correct.sum())
        overlap = float(n - P.max(axis=1).sum())
        variance += p_correct @ (1 - p_correct) + MODEL_ERROR**2 * number * overlap
        return number, float(np.sqrt(variance))


def _by_parameters(F: Array, by_score: Array, by_d: Array) -> Array:
    """Turn derivatives by scores and by d, for each row, into those by (t, b, u, d)."""
    by_t = np.einsum("ik,ikm->im", by_score, F)
    return np.hstack([by_t, by_score, by_d.sum(axis=1, keepdims=True), by_d])


def _share_slopes(P: Array, share: Array, lost: Array, total: float) -> Array:
    """Compute derivatives of the penalty of lost shares by the scores, for rows of weight 1."""
    slopes = P / share * (SHARE_PRECISION * lost / total)  # a class that vanished has a tiny share
    return np.asarray(slopes - P * slopes.sum(axis=1, keepdims=True))


def _probabilities(scores: Array) -> Array:
    """Compute the softmax of each row, with less overhead than SciPy."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return np.asarray(powers)
