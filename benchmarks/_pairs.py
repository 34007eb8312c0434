"""Planes of all pairs of classes from class moments, and the rules that make K memberships of them.

Plain numpy on purpose, apart from the library, whose planes of pairs it can check.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

TINY = 1e-6  # memberships are clipped to this before logarithms


# Planes of all pairs, from class moments.


def planes(moments, C, alpha):
    """w (K, K, d) and b (K, K) of plane (k, j); `C` of shape (K,), `alpha` a number or (K, K)."""
    n, V, m = moments.weight, moments.covariance, moments.mean
    K, d = m.shape
    a, c = n[:, None], C[:, None] * n
    M = (n[:, None, None] * V)[:, None] + c[:, :, None, None] * V
    M[..., np.arange(d), np.arange(d)] += np.broadcast_to(alpha, (K, K))[:, :, None]
    D = m[:, None] - m
    h = a * c / (a + c)
    u = np.linalg.solve(M, D[..., None])[..., 0]
    w = u * (h / (1 + h * (D * u).sum(2)))[..., None]
    own, rival = (w * m[:, None]).sum(2), (w * m).sum(2)
    return w, -(a * own + c * (1 + rival)) / (a + c)


def rest_planes(moments, rest, margin, alpha):
    """w and b of LST-KSVC (Nasiri 2015): own class at 0, rival at -1, the others between.

    Rows of all other classes are to be at -(1 - margin), with weight `rest`.
    """
    n, m = moments.weight, moments.mean
    K, d = m.shape
    G = np.empty((K, d + 1, d + 1))
    G[:, :d, :d] = n[:, None, None] * (moments.covariance + m[:, :, None] * m[:, None, :])
    G[:, :d, d] = G[:, d, :d] = n[:, None] * m
    G[:, d, d] = n
    A = (1 - rest) * (G[:, None] + G) + rest * G.sum(0)
    A[..., np.arange(d), np.arange(d)] += alpha
    g = G[:, :, d]
    others = g.sum(0) - g[:, None] - g
    z = np.linalg.solve(A, -(g + (1 - margin) * rest * others)[..., None])[..., 0]
    return z[..., :d], z[..., d]


def plane_values(X, w, b):
    """f (n, K, K): value of every row on plane (k, j)."""
    K, _, d = w.shape
    return (X @ w.reshape(-1, d).T).reshape(len(X), K, K) + b


def norms(w):
    size = np.sqrt((w**2).sum(2))
    size[size == 0] = 1.0
    return size


# Memberships of pairs: r_kj + r_jk = 1.


def ratio(a):
    """eq29: r_kj = a_jk / (a_kj + a_jk)."""
    other = a.transpose(0, 2, 1)
    return other / np.maximum(a + other, np.finfo(float).tiny)


def signed(f):
    """From signed values: own rows have f_kj - f_jk = 1, rivals -1."""
    return np.clip((1 + f - f.transpose(0, 2, 1)) / 2, 1e-3, 1 - 1e-3)


def gaussian(f, w, b, moments):
    """Posterior of (f_kj, f_jk) as two normal classes of one covariance, from the moments only."""
    n, V, m = moments.weight, moments.covariance, moments.mean
    K = len(n)
    k, j = np.triu_indices(K, 1)
    U = np.stack([w[k, j], w[j, k]], 1)
    e = np.stack([b[k, j], b[j, k]], 1)
    mean_k = np.einsum("pid,pd->pi", U, m[k]) + e
    mean_j = np.einsum("pid,pd->pi", U, m[j]) + e
    share = (n[k] / (n[k] + n[j]))[:, None, None]
    S = np.stack([
        U[p] @ (share[p] * V[k[p]] + (1 - share[p]) * V[j[p]]) @ U[p].T for p in range(len(k))
    ])  # fmt: skip
    S += 1e-9 * np.trace(S, axis1=1, axis2=2)[:, None, None] * np.eye(2)
    direction = np.linalg.solve(S, (mean_k - mean_j)[..., None])[..., 0]
    middle = (mean_k + mean_j) / 2
    z = np.stack([f[:, k, j], f[:, j, k]], 2) - middle
    odds = (z * direction).sum(2) + np.log(n[k] / n[j])
    r = np.zeros_like(f)
    r[:, k, j], r[:, j, k] = expit(odds), expit(-odds)
    return r


# K memberships from those of the pairs.


def _share(scores):
    return scores / scores.sum(1, keepdims=True)


def _log(r):
    logs = np.log(np.clip(r, TINY, 1 - TINY))
    logs[:, np.arange(r.shape[1]), np.arange(r.shape[1])] = 0
    return logs


def _without_self(r):
    r = r.copy()
    r[:, np.arange(r.shape[1]), np.arange(r.shape[1])] = 0
    return r


def mean(r):
    return _share(_without_self(r).sum(2))


def votes(r):
    r = _without_self(r)
    return _share((r > 0.5).sum(2) + r.sum(2) / r.shape[1])


def weighted_votes(r):
    r = _without_self(r)
    return _share((r * (r > 0.5)).sum(2) + 1e-9)


def product(r):
    return softmax(_log(r).sum(2), axis=1)


def geometric(r):
    return softmax(_log(r).sum(2) / (r.shape[1] - 1), axis=1)


def sharp_mean(r):
    return softmax((r.shape[1] - 1) * np.log(mean(r)), axis=1)


def log_ratio(r):
    """Bradley-Terry by least squares on the log odds: exact where r_kj = p_k / (p_k + p_j)."""
    logs = _log(r)
    return softmax((logs - logs.transpose(0, 2, 1)).sum(2) / r.shape[1], axis=1)


def inverse_sum(r):
    """Price et al. 1995: 1 / p_k = sum_j 1 / r_kj - (K - 2)."""
    K = r.shape[1]
    inverse = 1 / np.clip(r, TINY, 1)
    inverse[:, np.arange(K), np.arange(K)] = 0
    return _share(1 / (inverse.sum(2) - (K - 2)))


def least(r):
    r = r.copy()
    r[:, np.arange(r.shape[1]), np.arange(r.shape[1])] = 1
    return _share(r.min(2) + 1e-12)


def coupling(r):
    """Wu, Lin and Weng 2004, second method: minimise sum_kj (r_jk p_k - r_kj p_j)^2, sum p = 1."""
    n, K, _ = r.shape
    r = _without_self(np.clip(r, TINY, 1 - TINY))
    A = np.ones((n, K + 1, K + 1))
    A[:, :K, :K] = -r * r.transpose(0, 2, 1)
    A[:, np.arange(K), np.arange(K)] = (r**2).sum(1)
    A[:, K, K] = 0
    rhs = np.zeros((n, K + 1, 1))
    rhs[:, K] = 1
    return _share(np.maximum(np.linalg.solve(A, rhs)[:, :K, 0], 0))


def bradley_terry(r, steps=50):
    """Hastie and Tibshirani 1998: maximum likelihood, by the steps of Hunter 2004."""
    wins = _without_self(np.clip(r, TINY, 1 - TINY)).sum(2)
    p = _share(wins)
    off = 1 - np.eye(r.shape[1])
    for _ in range(steps):
        p = _share(wins / (off / (p[:, :, None] + p[:, None, :])).sum(2))
    return p


COMBINATIONS = {
    "mean": mean, "coupling": coupling, "votes": votes, "weighted votes": weighted_votes,
    "product": product, "geometric mean": geometric, "mean^(K-1)": sharp_mean,
    "log ratio": log_ratio, "inverse sum": inverse_sum, "least": least,
    "Bradley-Terry": bradley_terry,
}  # fmt: skip


def rest_votes(f, margin):
    """Decide as LST-KSVC: k if f_kj > -1 + margin, j if f_jk is, the nearer if both, or none."""
    inside = f > -1 + margin
    nearer = np.abs(f) < np.abs(f.transpose(0, 2, 1))
    wins = _without_self(inside & (nearer | ~inside.transpose(0, 2, 1)))
    return _share(wins.sum(2) + mean(ratio(np.abs(f))))
