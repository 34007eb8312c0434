r"""Stack the values of several members as probabilities, by maximum likelihood.

    n, K, M     numbers of rows, classes and members
    F (n, K, M) leave-one-out values of members
    Y (n, K)    targets: 1 in the column of the label, or soft labels that sum to 1
    s (n,)      weights of the rows
    t (M,)      stacking weights
    b (K,)      intercepts
    rho         ridge on t (`RHO`), in units of the weight of a row or group

Probabilities and objective are (Wolpert, 1992; with t >= 0: Breiman, 1996)

    p_i = softmax_k(sum_m t_m F_ikm + b_k),  t >= 0,
    max over t, b of  sum_i s_i sum_k Y_ik log p_ik - rho |t|^2 / 2,

a concave problem in M + K numbers. It is solved to machine precision by Newton's method on the
parameters that are not at their bound, so that results do not depend on the order of rows.

Least squares on class indicators may mask a class that lies between two others: its values are
never the largest (Hastie, Tibshirani and Friedman, 2009, section 4.2). With three classes or more,
the scores S_i = log p_i are therefore calibrated in a second, concave step, matrix scaling (Guo et
al., 2017),

    p_i = softmax(S_i + (S_i - mean) D + d),  max of the same likelihood - K |D|^2 / 2,

in which D stays small if no class is masked.

If labels have random noise, class j being labelled k with probability T_jk, p_i are probabilities
of labels. Those of the true classes are p_i T^-1, clipped at zero and normalised (compare the
corrections of Patrini et al., 2017). They get the weight `noise_weight` in an average with p_i.

References
----------
D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992), 241-259.
L. Breiman, "Stacked regressions", Machine Learning 24 (1996), 49-64.
T. Hastie, R. Tibshirani and J. Friedman, "The Elements of Statistical Learning", Springer, 2009.
C. Guo et al., "On calibration of modern neural networks", ICML 2017.
G. Patrini et al., "Making deep neural networks robust to label noise", CVPR 2017.
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

RHO = 0.1
START_SUM = 4.0  # sum of the stacking weights at the start
MAX_CLASSES = 50  # with more classes, D would take longer than all members
# Ridge on intercepts relative to rho, so that the solution is unique and labels can be permuted.
INTERCEPT_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class StackingModel:
    """A fitted stacking model: probabilities of classes from the values of members.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.committee._stacking import fit_stacking
    >>> Y = np.eye(2)[[0, 1, 0, 1, 0]]
    >>> F = np.stack([Y + 0.1, np.full((5, 2), 0.5)], axis=2)  # the second is uninformative
    >>> stacking = fit_stacking(F, Y, np.ones(5))
    >>> stacking.weights.round(2) + 0.0
    array([2.8, 0. ])
    """

    weights: Array  # t (M,)
    coef: Array  # I + D (K, K)
    intercept: Array  # (K,)
    log_loss: float = np.nan  # mean log loss of the rows of the fit
    noise_inverse: Array | None = None  # T^-1 (K, K), if labels have random noise
    noise_weight: float = 0.0  # weight of the probabilities of true classes

    def scores(self, F: Array) -> Array:
        """Compute log p up to a constant for each row, of shape (n, K)."""
        scores = (self.coef.T @ weighted_sum(F, self.weights).T).T + self.intercept
        if self.noise_inverse is None:
            return np.asarray(scores)
        P = softmax(scores, axis=1)
        P_true = np.maximum(P @ self.noise_inverse, 0.0)
        P_true *= self.noise_weight / P_true.sum(axis=1, keepdims=True)
        return np.log(np.maximum(P_true + (1 - self.noise_weight) * P, np.finfo(float).tiny))

    def with_log_loss(self, F: Array, Y: Array, s: Array) -> StackingModel:
        """Return a copy with the log loss of these rows."""
        return replace(self, log_loss=mean_log_loss(self.scores(F), Y, s))


def mean_log_loss(scores: Array, Y: Array, s: Array) -> float:
    """Compute the weighted mean log loss of rows, from scores: log p up to a constant."""
    losses = -(Y * log_softmax(scores, axis=1)).sum(axis=1)
    return float(s @ losses / s.sum())


def weighted_sum(F: Array, t: Array) -> Array:
    """Compute sum_m t_m F_ikm, of shape (n, K), in Fortran order.

    Sums over the few classes are several times faster in this order.
    """
    return np.asfortranarray((F.reshape(-1, len(t)) @ t).reshape(F.shape[:2]))


def uniform_weights(F: Array, Y: Array, s: Array) -> StackingModel:
    """Return equal weights for all members, the start of the optimiser."""
    _, K, M = F.shape
    return StackingModel(np.full(M, START_SUM / M), np.eye(K), np.zeros(K)).with_log_loss(F, Y, s)


def fit_stacking(F: Array, Y: Array, s: Array, *, matrix_scaling: bool = True) -> StackingModel:
    """Fit t, b and, with three classes or more and `matrix_scaling`, D."""
    K = F.shape[1]
    Y = np.asfortranarray(Y)
    total = s.sum()
    share = s / total
    t, b = _fit_weights(F, Y, share, RHO / total)
    coef = np.eye(K)
    if matrix_scaling and 2 < K <= MAX_CLASSES and t.any():
        S = weighted_sum(F, t) + b
        center = share @ (S - S.mean(axis=1, keepdims=True))
        D, d = _fit_matrix_scaling(S, center, Y, share, K / total)
        coef += D - D.mean(axis=0)
        b = b @ coef - center @ D + d
    return StackingModel(t, coef, b).with_log_loss(F, Y, s)


def cross_fitted_scores(
    stacking: StackingModel, F: Array, Y: Array, s: Array, folds: Array
) -> Array:
    """Compute scores (n, K) by stacking models that are fitted without the fold of the row.

    Each has the correction for label noise of `stacking`. If a class is missing without a fold, the
    scores of `stacking` are kept for its rows.
    """
    scores = stacking.scores(F)
    for fold in np.unique(folds):
        test = folds == fold
        train = ~test
        if (s[train] @ Y[train] > 0).all():
            refitted = replace(
                fit_stacking(F[train], Y[train], s[train]),
                noise_inverse=stacking.noise_inverse,
                noise_weight=stacking.noise_weight,
            )
            scores[test] = refitted.scores(F[test])
    return scores


def _fit_weights(F: Array, Y: Array, s: Array, ridge: float) -> tuple[Array, Array]:
    """Fit t and b to rows whose weights sum to 1."""
    _, K, M = F.shape
    prior = np.concatenate([np.full(M, ridge), np.full(K, INTERCEPT_RIDGE * ridge)])
    z = np.concatenate([np.full(M, START_SUM / M), np.log(np.maximum(s @ Y, np.finfo(float).tiny))])
    z[M:] -= z[M:].mean()

    def objective(z: Array) -> tuple[float, Array]:
        log_p = log_softmax(weighted_sum(F, z[:M]) + z[M:], axis=1)
        return float(prior @ (z * z)) / 2 - float(s @ (Y * log_p).sum(axis=1)), np.exp(log_p)

    def derivatives(z: Array, P: Array) -> tuple[Array, Array]:
        gradient, hessian = _derivatives(F, Y, s, prior, z, P)
        free = np.ones(M + K, dtype=bool)
        free[:M] = (z[:M] > 0) | (gradient[:M] < 0)
        step = np.zeros(M + K)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], -gradient[free])
        return step, gradient

    lower_bound = np.concatenate([np.zeros(M), np.full(K, -np.inf)])
    z = minimise(objective, derivatives, z, lambda z: np.maximum(z, lower_bound))
    return z[:M], z[M:]


def _derivatives(
    F: Array, Y: Array, s: Array, prior: Array, z: Array, P: Array
) -> tuple[Array, Array]:
    """Compute gradient and Hessian of the negative objective."""
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
    # The last term keeps the sum of the intercepts, on which only the prior depends, at zero.
    hessian[M:, M:] = np.diag(weighted.sum(axis=0)) - weighted.T @ P + 1.0 / K
    hessian[np.diag_indices(M + K)] += prior
    return gradient, hessian


def _fit_matrix_scaling(
    S: Array, center: Array, Y: Array, s: Array, ridge: float
) -> tuple[Array, Array]:
    """Fit D and d by Newton's method, with steps by conjugate gradients."""
    n, K = S.shape
    G = np.column_stack([S - S.mean(axis=1, keepdims=True) - center, np.ones(n)])
    prior = np.append(np.full(K, ridge), INTERCEPT_RIDGE * ridge)[:, None]
    hessian_bound = linalg.cho_factor((G.T * s) @ G / 2 + np.diag(prior[:, 0]))
    weight = s[:, None]
    shape = (K + 1, K)
    size = (K + 1) * K

    def objective(V: Array) -> tuple[float, Array]:
        log_p = log_softmax(S + G @ V, axis=1)
        loss = -float(s @ (Y * log_p).sum(axis=1))
        return loss + float((prior * V * V).sum()) / 2, np.exp(log_p)

    def operator(function: Callable[[Array], Array]) -> LinearOperator:
        return LinearOperator(
            (size, size), matvec=lambda v: function(v.reshape(shape)).ravel(), dtype=float
        )

    preconditioner = operator(lambda v: linalg.cho_solve(hessian_bound, v))

    def derivatives(V: Array, P: Array) -> tuple[Array, Array]:
        gradient = G.T @ (weight * (P - Y)) + prior * V

        def hessian_product(v: Array) -> Array:
            change = P * (G @ v)
            change -= P * change.sum(axis=1, keepdims=True)
            return G.T @ (weight * change) + prior * v

        hessian = operator(hessian_product)
        step, _ = cg(hessian, -gradient.ravel(), rtol=1e-5, maxiter=200, M=preconditioner)
        return step.reshape(shape), gradient

    V = minimise(objective, derivatives, np.zeros(shape))
    return V[:-1], V[-1]
