"""Model M2 as the paper prints it, kept to show what its formulas do (two classes only)."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, fractions, plane_classes, solve_symmetric


def stationary_planes(
    own: ClassMoments, slack: ClassMoments, C: Array, alpha: float, tau: float
) -> Planes:
    r"""Solve for model M2 as the paper's gradients of eq16 have it (two classes).

    The stationary point of

        1/2 sum_own s (f + g)^2 + C/2 sum_rival s mu (1 + f)^2 + tau (1/2 |c|^2 + d)
            + alpha/2 |w|^2,      f = w.x + b,  g = c.x + d.

    Widths are free in sign, as in the paper. Kept to show that it collapses towards
    w = 0, b = -1, c = 0, d = 1 (MATHS, error 4). Solved about the own mean m, where
    d stands for d + c.m, hence the term tau m on the right.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.planes import stationary_planes
    >>> planes = stationary_planes(moments, moments, np.ones(2), 0.1, 0.1)
    >>> planes.coef.round(2), planes.intercept.round(2)
    (array([[-0.59,  0.75],
           [ 0.54, -0.81]]), array([-0.25, -0.03]))
    """
    K, n = own.origin.shape
    coef, width_coef = np.zeros((K, n)), np.zeros((K, n))
    intercept, width_intercept = np.zeros(K), np.zeros(K)
    rank = n
    own_mean = own.mean
    D = own.mean_from(slack.take(np.array([1, 0])))
    for k in range(2):
        j = 1 - k
        a, c, ridge, t = fractions(C[k], own.weight[k], slack.weight[j], alpha, tau)
        G = np.zeros((n + 1, n + 1))
        G[:n, :n] = a * own.covariance[k]
        G[n, n] = a
        H = _gram_about(c, -D[k], slack.covariance[j])
        ridges = np.append(np.full(n, ridge), 0.0)
        vague = np.append(np.full(n, t), 0.0)
        A = np.block([[G + H + np.diag(ridges), G], [G, G + np.diag(vague)]])
        rhs = np.concatenate([-H[n], t * own_mean[k], [-t]])
        z, full = solve_symmetric(A, rhs)
        w, b, cw, dw = z[:n], z[n], z[n + 1 : -1], z[-1]
        coef[k], intercept[k] = w, b - w @ own_mean[k]
        width_coef[k], width_intercept[k] = cw, dw - cw @ own_mean[k]
        rank = min(rank, n - max(0, 2 * n + 2 - full))
    return Planes(coef, intercept, plane_classes(K, "ovo"), rank, width_coef, width_intercept)


def printed_planes(
    own: ClassMoments, slack: ClassMoments, C: Array, alpha: float, tau: float
) -> Planes:
    """Solve model M2 by the closed form printed in the paper, misprints and all (two classes).

    Right-hand side (mu B'e, mu, 0, tau) with mu the mean degree of the rivals, and
    e tau e' (a matrix full of tau) where tau I belongs (MATHS, error 5). It is kept to be
    shown, not to be used: plane k lies near the wrong class.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.planes import printed_planes
    >>> planes = printed_planes(moments, moments, np.ones(2), 0.1, 0.1)
    >>> f = X @ planes.coef.T + planes.intercept
    >>> bool(abs(f[:3, 0]).mean() > abs(f[3:, 0]).mean())  # nearer to the wrong class
    True
    """
    K, n = own.origin.shape
    coef, width_coef = np.zeros((K, n)), np.zeros((K, n))
    intercept, width_intercept = np.zeros(K), np.zeros(K)
    rank = n
    for k in range(2):
        j = 1 - k
        G = _gram_about(own.weight[k], own.mean[k], own.covariance[k])
        H = _gram_about(slack.weight[j], slack.mean[j], slack.covariance[j])
        ridges = np.diag(np.append(np.full(n, alpha / C[k]), 0.0))
        vague = np.zeros((n + 1, n + 1))
        vague[:n, :n] = tau
        A = np.block([[G / C[k] + H + ridges, G / C[k]], [G, G + vague]])
        mean_degree = slack.weight[j] / own.weight[j] if own.weight[j] > 0 else 0.0
        rhs = np.concatenate([H[n, :n], [mean_degree], np.zeros(n), [tau]])
        scale = np.sqrt(np.maximum(np.abs(A).max(axis=0), np.finfo(float).tiny))
        z, _, full, _ = linalg.lstsq(A / np.outer(scale, scale), rhs / scale)
        z = z / scale
        coef[k], intercept[k] = z[:n], z[n]
        width_coef[k], width_intercept[k] = z[n + 1 : -1], z[-1]
        rank = min(rank, n - max(0, 2 * n + 2 - int(full)))
    return Planes(coef, intercept, plane_classes(K, "ovo"), rank, width_coef, width_intercept)


def _gram_about(weight: float, mean: Array, covariance: Array) -> Array:
    """Compute the Gram matrix of [x 1]; the last row holds the sums and the weight."""
    n = len(mean)
    gram = np.empty((n + 1, n + 1))
    gram[:n, :n] = weight * (covariance + np.outer(mean, mean))
    gram[n, :n] = gram[:n, n] = weight * mean
    gram[n, n] = weight
    return gram
