"""Model M2 as the paper writes it: by the gradients of eq16 and by the printed closed form.

Neither is of use as a classifier. They are kept here to measure what their errors do, beside
"endpoints", which is what the objective means and what the library solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin._utils.types import Array
from fuzzytwin.core.linalg import solve_symmetric

FORMS = ("printed", "stationary", "endpoints")


def fit_m2(
    form: str, X: Array, y: Array, degrees: Array | None = None, tau: float = 1.0, **parameters: Any
) -> FuzzyTwinSVC:
    """Fit model M2 to the labels 0 and 1 without a ridge, with the planes of one of the `FORMS`."""
    model = FuzzyTwinSVC(planes="fuzzy", alpha=0.0, tau=tau, **parameters)
    model.fit(X, y, membership=degrees)
    if form == "endpoints":
        return model
    solve = {"printed": printed_plane, "stationary": stationary_plane}[form]
    C = np.broadcast_to(model.C, 2)
    mu = model.membership_
    z = np.array([solve(X[y == k], X[y != k], mu[y != k], C[k], tau) for k in (0, 1)])
    (model.coef_, model.intercept_), (model.width_coef_, model.width_intercept_) = (
        (part[:, :-1], part[:, -1]) for part in np.split(z, 2, axis=1)
    )
    return model


def stationary_plane(A: Array, B: Array, mu: Array, C: float, tau: float) -> Array:
    r"""Compute (w, b, c, d) where the gradients of eq16 vanish, for own rows A and rivals B.

        1/2 sum_own (f + g)^2 + C/2 sum_rivals mu (1 + f)^2 + tau (1/2 |c|^2 + d),
        f = w.x + b,  g = c.x + d.

    Widths may be negative. The planes collapse towards w = 0, b = -1, c = 0, d = 1, whatever the
    rows. The system is solved about the own mean m, where d stands for d + c.m, hence the term
    tau m on the right-hand side.
    """
    n = A.shape[1]
    mean = A.mean(axis=0)
    G = gram(A - mean, np.ones(len(A)))
    H = C * gram(B - mean, mu)
    widths = G + tau * np.diag(np.append(np.ones(n), 0.0))
    z, _ = solve_symmetric(
        np.block([[G + H, G], [G, widths]]), np.concatenate([-H[n], tau * mean, [-tau]])
    )
    z[[n, -1]] -= z[:n] @ mean, z[n + 1 : -1] @ mean
    return z


def printed_plane(A: Array, B: Array, mu: Array, C: float, tau: float) -> Array:
    """Compute (w, b, c, d) by the printed closed form, for own rows A and rivals B.

    The right-hand side is (mu B'e, mu, 0, tau) with mu the mean degree, and e tau e' (a matrix
    full of tau) replaces tau I. The plane lies near the wrong class.
    """
    n = A.shape[1]
    G = gram(A, np.ones(len(A)))
    H = gram(B, mu)
    vague = np.pad(np.full((n, n), tau), (0, 1))
    system = np.block([[G / C + H, G / C], [G, G + vague]])
    rhs = np.concatenate([H[n, :n], [mu.mean()], np.zeros(n), [tau]])
    scale = np.sqrt(np.maximum(np.abs(system).max(axis=0), np.finfo(float).tiny))
    return np.asarray(linalg.lstsq(system / np.outer(scale, scale), rhs / scale)[0] / scale)


def gram(X: Array, weight: Array) -> Array:
    """Compute the weighted Gram matrix of [x 1]."""
    Z = np.column_stack([X, np.ones(len(X))])
    return np.asarray((Z.T * weight) @ Z)
