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
from scipy import optimize

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._stacking import START_SUM, StackingModel

USUAL_NOISE = -2.0  # prior mean of u, the log odds of a wrong label
NOISE_PRECISION = 8.0  # prior precision of u
CLASS_PRECISION = 1.0  # prior precision of d: similarity of classes
PAIR_PRECISION = 2.0  # prior precision of e: similarity of pairs of classes
SHARE_PRECISION = 4.0  # precision of the share of a class, if it is below that of its label
RIDGE = 1e-3  # on t, which stays finite if classes do not overlap
TOLERANCE = 1e-12  # of the objective, from which Newton steps converge
GRADIENT_TOLERANCE = 1e-15
MAX_STEPS = 20
MAX_ROUNDS = 3  # of Newton steps: a parameter that reaches its bound stays there
START_TOLERANCE = 1e-5  # tolerance of the objective when starting points are compared
SHARP_START = 3 * START_SUM  # sum of the stacking weights of a start with sharper probabilities
MIN_NOISE = -12.0  # bounds of u
MAX_NOISE = 3.0
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
        best = self._descend(best, TOLERANCE).x
        polished = best
        for _ in range(MAX_ROUNDS):
            polished = self._polish(polished)
        return polished if self.loss(polished)[0] <= self.loss(best)[0] + TOLERANCE else best

    def _polish(self, parameters: Array) -> Array:
        """Solve gradient = 0 for the parameters within their bounds, by Newton-Krylov steps.

        L-BFGS stops 1e-6 from the minimum, so rounding (other order of columns) would show.
        """
        low, high = self.bounds
        gradient = self.loss(parameters)[1]
        free = (parameters > low) | (gradient < 0)
        free &= (parameters < high) | (gradient > 0)
        if np.abs(gradient[free]).max() <= GRADIENT_TOLERANCE:
            return parameters

        def moved(values: Array) -> Array:
            result = parameters.copy()
            result[free] = values
            return result

        try:
            solved = optimize.root(
                lambda values: self.loss(moved(values))[1][free],
                parameters[free],
                method="krylov",
                options={"fatol": GRADIENT_TOLERANCE, "maxiter": MAX_STEPS},
            )
        except ValueError:  # the gradient is constant: one row has nearly all of the weight
            return parameters
        return np.clip(moved(solved.x), low, high)

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
