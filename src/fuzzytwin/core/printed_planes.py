"""Fuzzy planes as printed in the paper, for `formulation="stationary"` and `"printed"`."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fuzzytwin._utils.types import Array
from fuzzytwin.core.linalg import solve_symmetric
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import Planes, plane_classes, rescale


def stationary_planes(
    own: ClassMoments, slack: ClassMoments, C: Array, alpha: float, tau: float
) -> Planes:
    r"""Solve for model M2 by the gradients of the paper's equation 16 (two classes).

    They vanish at the stationary point of

        1/2 sum_own s (f + g)^2 + C/2 sum_rival s mu (1 + f)^2 + tau (1/2 |c|^2 + d)
            + alpha/2 |w|^2,      f = w.x + b,  g = c.x + d.

    Widths may be negative, as in the paper. The formulation is kept to show that it collapses
    towards w = 0, b = -1, c = 0, d = 1, whatever the rows. The system is solved about the own
    mean m, where d stands for d + c.m, hence the term tau m on the right-hand side.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.core.printed_planes import stationary_planes
    >>> planes = stationary_planes(moments, moments, np.ones(2), 0.1, 0.1)
    >>> planes.coef.round(2), planes.intercept.round(2)
    (array([[-0.59,  0.75],
           [ 0.54, -0.81]]), array([-0.25, -0.03]))
    """
    n = own.origin.shape[1]
    own_mean = own.mean
    solutions = []
    on_w = np.diag(np.append(np.ones(n), 0.0))
    D = own.mean_from(slack.take(np.array([1, 0])))
    for k, j in ((0, 1), (1, 0)):
        a, c, ridge, t = rescale(C[k], own.weight[k], slack.weight[j], alpha, tau)
        G = _gram_about(a, np.zeros(n), own.covariance[k])
        H = _gram_about(c, -D[k], slack.covariance[j])
        A = np.block([[G + H + ridge * on_w, G], [G, G + t * on_w]])
        rhs = np.concatenate([-H[n], t * own_mean[k], [-t]])
        z, full = solve_symmetric(A, rhs)
        z[[n, -1]] -= z[:n] @ own_mean[k], z[n + 1 : -1] @ own_mean[k]
        solutions.append((z, full))
    return _paper_planes(solutions)


def printed_planes(
    own: ClassMoments, slack: ClassMoments, C: Array, alpha: float, tau: float
) -> Planes:
    """Solve for model M2 by the closed form printed in the paper, with its errors (two classes).

    The right-hand side is (mu B'e, mu, 0, tau) with mu the mean degree of the rivals, and
    e tau e' (a matrix full of tau) replaces tau I. It is kept to show the errors, not to be used:
    plane k lies near the wrong class.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.moments import ClassMoments
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.5], [0.0, -1.0], [1.0, 0.0], [2.0, 0.5]])
    >>> moments = ClassMoments.from_rows(X, np.array([0, 0, 0, 1, 1, 1]), n_classes=2)
    >>> from fuzzytwin.core.printed_planes import printed_planes
    >>> planes = printed_planes(moments, moments, np.ones(2), 0.1, 0.1)
    >>> f = X @ planes.coef.T + planes.intercept
    >>> abs(f[:, 0]).round()  # the plane of class 0 is nearer to the rows of class 1
    array([18., 20., 17.,  0.,  1.,  2.])
    """
    n = own.origin.shape[1]
    solutions = []
    for k, j in ((0, 1), (1, 0)):
        G = _gram_about(own.weight[k], own.mean[k], own.covariance[k])
        H = _gram_about(slack.weight[j], slack.mean[j], slack.covariance[j])
        ridges = np.diag(np.append(np.full(n, alpha / C[k]), 0.0))
        vague = np.pad(np.full((n, n), tau), (0, 1))
        A = np.block([[G / C[k] + H + ridges, G / C[k]], [G, G + vague]])
        mean_degree = slack.weight[j] / own.weight[j] if own.weight[j] > 0 else 0.0
        rhs = np.concatenate([H[n, :n], [mean_degree], np.zeros(n), [tau]])
        scale = np.sqrt(np.maximum(np.abs(A).max(axis=0), np.finfo(float).tiny))
        z, _, full, _ = linalg.lstsq(A / np.outer(scale, scale), rhs / scale)
        solutions.append((z / scale, int(full)))
    return _paper_planes(solutions)


def _paper_planes(solutions: list[tuple[Array, int]]) -> Planes:
    """Collect two planes from solutions z = (w, b, c, d) and the ranks of their systems."""
    z = np.array([solution for solution, _ in solutions])
    n = z.shape[1] // 2 - 1
    rank = n - max(0, 2 * n + 2 - min(full for _, full in solutions))
    centre = z[:, : n + 1]
    width = z[:, n + 1 :]
    classes = plane_classes(2, "ovo")
    return Planes(centre[:, :n], centre[:, n], classes, rank, width[:, :n], width[:, n])


def _gram_about(weight: float, mean: Array, covariance: Array) -> Array:
    """Compute the Gram matrix of [x 1], whose last row holds the sums and the weight."""
    n = len(mean)
    gram = np.empty((n + 1, n + 1))
    gram[:n, :n] = weight * (covariance + np.outer(mean, mean))
    gram[n, :n] = gram[:n, n] = weight * mean
    gram[n, n] = weight
    return gram
