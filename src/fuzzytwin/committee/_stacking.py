r"""Put the values of several members together as probabilities, by maximum likelihood.

Row i has the values F_ikm of M members in K classes, none of which saw its label. With targets Y
(1 in the column of its label, or soft labels that sum to 1) and weights s,

    p_i = softmax_k(sum_m t_m F_ikm + b_k),  t >= 0,
    max over t, b of  sum_i s_i sum_k Y_ik log p_ik - rho |t|^2 / 2

is a concave problem in M + K numbers. It is solved by Newton's method on the numbers that are not
held at zero, to the last digits, so that equal tables give equal answers whatever their order.

Least squares on indicators hide a class that lies between two others: its values are never the
greatest. So the scores S_i = log p_i of three classes and more are mixed in a second, concave step,

    p_i = softmax(S_i + (S_i - mean) D + d),  max of the same likelihood - K |D|^2 / 2,

whose D is small unless that is so.

Where labels were written down wrongly by chance, class j as label k with probability T_jk, p_i are
the probabilities of labels, and those of the true classes are p_i T^-1, as far as they are above
zero, divided by their sum. They count as much as chance is believed in, p_i itself for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import log_softmax, softmax

from fuzzytwin._utils.types import Array
from fuzzytwin.core.newton import minimise

START = 4.0  # sum of the weights that steps begin with
MOST_MIXED = 50  # classes; of more, D would take longer than all members
FREE = 1e-6  # biases are penalised a little, so that the answer is one and labels may change places


@dataclass(frozen=True, eq=False)
class StackingModel:
    """How members count: weights t (M,), mixing I + D (K, K), biases (K,), log loss of the rows.

    With `unmixing` T^-1, probabilities are those of the true classes, with the weight `chance`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.committee._stacking import combine
    >>> Y = np.eye(2)[[0, 1, 0, 1, 0]]
    >>> F = np.stack([Y + 0.1, np.full((5, 2), 0.5)], axis=2)  # the second member tells nothing
    >>> found = combine(F, Y, np.ones(5), rho=0.1)
    >>> bool(found.weights[0] > 1), round(float(found.weights[1]), 6)
    (True, 0.0)
    """

    weights: Array
    mixing: Array
    biases: Array
    log_loss: float = np.nan
    unmixing: Array | None = None
    chance: float = 0.0

    def scores(self, F: Array) -> Array:
        """Compute log p up to a constant for each row, of shape (n, K)."""
        scores = (self.mixing.T @ weighed(F, self.weights).T).T + self.biases
        if self.unmixing is None:
            return np.asarray(scores)
        P = softmax(scores, axis=1)
        true = np.maximum(P @ self.unmixing, 0.0)
        true *= self.chance / true.sum(axis=1, keepdims=True)
        return np.log(np.maximum(true + (1 - self.chance) * P, np.finfo(float).tiny))

    def judged(self, F: Array, Y: Array, s: Array) -> StackingModel:
        """Fill in the log loss of rows."""
        losses = -(Y * log_softmax(self.scores(F), axis=1)).sum(axis=1)
        return replace(self, log_loss=float(s @ losses / s.sum()))


def weighed(F: Array, t: Array) -> Array:
    """Compute sum_m t_m F_ikm, of shape (n, K), columns one after the other.

    Sums over the classes, which are few, are several times faster then.
    """
    return np.asfortranarray((F.reshape(-1, len(t)) @ t).reshape(F.shape[:2]))


def alike(F: Array, Y: Array, s: Array) -> StackingModel:
    """Let all members count the same, as where a fit begins."""
    _, K, M = F.shape
    return StackingModel(np.full(M, START / M), np.eye(K), np.zeros(K)).judged(F, Y, s)


def combine(F: Array, Y: Array, s: Array, rho: float, *, mixed: bool = True) -> StackingModel:
    """Fit t, b and, of three classes and more, D.

    F (n, K, M) is higher where a row fits better, rows of Y (n, K) sum to 1, and rho is above zero:
    weights stay finite where classes do not overlap at all. Not `mixed`: D is zero.
    """
    K, Y = F.shape[1], np.asfortranarray(Y)
    total = s.sum()
    share = s / total
    t, b = _weigh(F, Y, share, rho / total)
    mixing = np.eye(K)
    if mixed and 2 < K <= MOST_MIXED and t.any():
        S = weighed(F, t) + b
        center = share @ (S - S.mean(axis=1, keepdims=True))
        D, d = _mix(S, center, Y, share, K / total)
        mixing += D - D.mean(axis=0)
        b = b @ mixing - center @ D + d
    return StackingModel(t, mixing, b).judged(F, Y, s)


def unseen_scores(
    found: StackingModel, F: Array, Y: Array, s: Array, rho: float, groups: Array | None = None
) -> Array:
    """Compute scores (n, K) of each row by t and b fitted without it, or without its group.

    One step of Newton's method from what `combine` found, on the likelihood of the other rows: with
    the second derivatives H of all rows, the gradient g_I and the second derivatives H_I of the
    rows I that are left out, t and b move by (H - H_I)^-1 g_I. Scores are not mixed (two classes).
    """
    n, K, M = F.shape
    share, ridge = s / s.sum(), rho / s.sum()
    prior = np.concatenate([np.full(M, ridge), np.full(K, FREE * ridge)])
    scores = found.scores(F)
    P = softmax(scores, axis=1)
    parameters = np.concatenate([found.weights, found.biases])
    hessian = _derivatives(F, Y, share, prior, parameters, P)[1]
    counting = np.flatnonzero(found.weights > 0)
    free = np.concatenate([counting, np.arange(M, M + K)])
    # By how much scores change with the parameters, (n, K, p).
    slopes = np.concatenate([F[:, :, counting], np.tile(np.eye(K), (n, 1, 1))], axis=2)
    means = np.einsum("ik,ikp->ip", P, slopes)
    weighted = (share[:, None] * P)[:, :, None] * (slopes - means[:, None])
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    gradients = np.zeros((units.max() + 1, len(free)))
    np.add.at(gradients, units, np.einsum("ikp,ik->ip", slopes, share[:, None] * (P - Y)))
    rest = np.tile(hessian[np.ix_(free, free)], (len(gradients), 1, 1))
    np.subtract.at(rest, units, np.einsum("ikp,ikq->ipq", slopes, weighted))
    moved = np.linalg.solve(rest, gradients[:, :, None])[:, :, 0]
    return np.asarray(scores + np.einsum("ikp,ip->ik", slopes, moved[units]))


def _weigh(F: Array, Y: Array, s: Array, ridge: float) -> tuple[Array, Array]:
    """Fit t and b to rows whose weights sum to 1."""
    _, K, M = F.shape
    prior = np.concatenate([np.full(M, ridge), np.full(K, FREE * ridge)])
    z = np.concatenate([np.full(M, START / M), np.log(np.maximum(s @ Y, np.finfo(float).tiny))])
    z[M:] -= z[M:].mean()

    def objective(z: Array) -> tuple[float, Array]:
        log_p = log_softmax(weighed(F, z[:M]) + z[M:], axis=1)
        return float(prior @ (z * z)) / 2 - float(s @ (Y * log_p).sum(axis=1)), np.exp(log_p)

    def derivatives(z: Array, P: Array) -> tuple[Array, Array]:
        gradient, hessian = _derivatives(F, Y, s, prior, z, P)
        free = np.ones(M + K, dtype=bool)
        free[:M] = (z[:M] > 0) | (gradient[:M] < 0)
        step, some = np.zeros(M + K), np.ix_(free, free)
        step[free] = np.linalg.solve(hessian[some], -gradient[free])
        return step, gradient

    least = np.concatenate([np.zeros(M), np.full(K, -np.inf)])
    z = minimise(objective, derivatives, z, lambda z: np.maximum(z, least))
    return z[:M], z[M:]


def _derivatives(
    F: Array, Y: Array, s: Array, prior: Array, z: Array, P: Array
) -> tuple[Array, Array]:
    """Compute gradient and second derivatives of the negative objective."""
    n, K, M = F.shape
    R = s[:, None] * (P - Y)
    flat = F.reshape(n * K, M)
    gradient = np.concatenate([R.ravel() @ flat, R.sum(axis=0)]) + prior * z
    weighted = s[:, None] * P
    means = np.einsum("ik,ikm->im", P, F)
    hessian = np.empty((M + K, M + K))
    hessian[:M, :M] = (flat * weighted.ravel()[:, None]).T @ flat - (means * s[:, None]).T @ means
    hessian[:M, M:] = np.einsum("ik,ikm->mk", weighted, F) - means.T @ weighted
    hessian[M:, :M] = hessian[:M, M:].T
    # The last term keeps the sum of the biases, which changes nothing but the prior, at zero.
    hessian[M:, M:] = np.diag(weighted.sum(axis=0)) - weighted.T @ P + 1.0 / K
    hessian[np.diag_indices(M + K)] += prior
    return gradient, hessian


def _mix(S: Array, center: Array, Y: Array, s: Array, ridge: float) -> tuple[Array, Array]:
    """Fit D and d by Newton's method, whose steps are found by conjugate gradients."""
    n, K = S.shape
    G = np.column_stack([S - S.mean(axis=1, keepdims=True) - center, np.ones(n)])
    prior = np.append(np.full(K, ridge), FREE * ridge)[:, None]
    bound = linalg.cho_factor((G.T * s) @ G / 2 + np.diag(prior[:, 0]))  # of the curvature
    weight, shape, size = s[:, None], (K + 1, K), (K + 1) * K

    def objective(V: Array) -> tuple[float, Array]:
        log_p = log_softmax(S + G @ V, axis=1)
        loss = -float(s @ (Y * log_p).sum(axis=1))
        return loss + float((prior * V * V).sum()) / 2, np.exp(log_p)

    def operator(function: Callable[[Array], Array]) -> LinearOperator:
        return LinearOperator(
            (size, size), matvec=lambda v: function(v.reshape(shape)).ravel(), dtype=float
        )

    before = operator(lambda v: linalg.cho_solve(bound, v))

    def derivatives(V: Array, P: Array) -> tuple[Array, Array]:
        gradient = G.T @ (weight * (P - Y)) + prior * V

        def curvature(v: Array) -> Array:
            moved = P * (G @ v)
            moved -= P * moved.sum(axis=1, keepdims=True)
            return G.T @ (weight * moved) + prior * v

        found, _ = cg(operator(curvature), -gradient.ravel(), rtol=1e-5, maxiter=200, M=before)
        return found.reshape(shape), gradient

    V = minimise(objective, derivatives, np.zeros(shape))
    return V[:-1], V[-1]
