r"""How K memberships come from the planes of pairs of classes.

Plane (k, j) has the rows of class k as its own and those of class j as rivals. With a_kj the
distance of a row to plane (k, j), a pair's membership is r_kj = a_jk^q / (a_kj^q + a_jk^q), which
is the paper's equation 29 if q = 1. Every rule makes K memberships of the r_kj, which sum to 1. The
library uses "inverse sum" with q = 3. 5 outer folds, shuffled, scaled by the training rows, clean
and with 20% of the training labels replaced. The rule was chosen on one half of the tables
(`CHOOSE`) and confirmed on the other (`CONFIRM`).
"""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from scipy.special import softmax
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from benchmarks._multiclass import CHOOSE, names, outer_folds, say_which
from benchmarks._tables import FLIPPED

ALPHAS = (1.0, 10.0)
POWERS = (1, 2, 3)
TINY = 1e-6  # memberships are clipped to this before logarithms


def planes(X, y, alpha):
    """w (K, K, d) and b (K, K) of plane (k, j) with C = 1, by plain numpy."""
    K, d = y.max() + 1, X.shape[1]
    n = np.bincount(y)
    m = np.stack([X[y == k].mean(axis=0) for k in range(K)])
    scatter = np.stack([(X[y == k] - m[k]).T @ (X[y == k] - m[k]) for k in range(K)])
    M = scatter[:, None] + scatter + alpha * np.eye(d)
    D = m[:, None] - m
    h = n[:, None] * n / (n[:, None] + n)
    u = np.linalg.solve(M, D[..., None])[..., 0]
    w = u * (h / (1 + h * (D * u).sum(axis=2)))[..., None]
    own, rival = (w * m[:, None]).sum(axis=2), (w * m).sum(axis=2)
    return w, -(n[:, None] * own + n * (1 + rival)) / (n[:, None] + n)


def distances(X, w, b):
    """a (n, K, K): distance of every row to every plane."""
    K, _, d = w.shape
    f = (X @ w.reshape(-1, d).T).reshape(len(X), K, K) + b
    size = np.sqrt((w**2).sum(axis=2))
    size[size == 0] = 1.0
    return np.abs(f) / size


def ratio(a):
    """r_kj = a_jk / (a_kj + a_jk)."""
    other = a.transpose(0, 2, 1)
    return other / np.maximum(a + other, np.finfo(float).tiny)


def _share(scores):
    return scores / scores.sum(axis=1, keepdims=True)


def _with_diagonal(r, value):
    r = r.copy()
    r[:, np.arange(r.shape[1]), np.arange(r.shape[1])] = value
    return r


def _log(r):
    return _with_diagonal(np.log(np.clip(r, TINY, 1 - TINY)), 0.0)


def mean(r):
    return _share(_with_diagonal(r, 0.0).sum(axis=2))


def votes(r):
    r = _with_diagonal(r, 0.0)
    return _share((r > 0.5).sum(axis=2) + r.sum(axis=2) / r.shape[1])


def weighted_votes(r):
    r = _with_diagonal(r, 0.0)
    return _share((r * (r > 0.5)).sum(axis=2) + 1e-9)


def product(r):
    return softmax(_log(r).sum(axis=2), axis=1)


def geometric(r):
    return softmax(_log(r).sum(axis=2) / (r.shape[1] - 1), axis=1)


def sharp_mean(r):
    return softmax((r.shape[1] - 1) * np.log(mean(r)), axis=1)


def log_ratio(r):
    """Bradley-Terry by least squares on the log odds: exact if r_kj = p_k / (p_k + p_j)."""
    logs = _log(r)
    return softmax((logs - logs.transpose(0, 2, 1)).sum(axis=2) / r.shape[1], axis=1)


def inverse_sum(r):
    """Price et al. 1995: 1 / p_k = sum_j 1 / r_kj - (K - 2)."""
    inverse = _with_diagonal(1 / np.clip(r, TINY, 1), 0.0)
    return _share(1 / (inverse.sum(axis=2) - (r.shape[1] - 2)))


def least(r):
    return _share(_with_diagonal(r, 1.0).min(axis=2) + 1e-12)


def coupling(r):
    """Wu, Lin and Weng 2004, second method: minimise sum_kj (r_jk p_k - r_kj p_j)^2, sum p = 1."""
    n, K, _ = r.shape
    r = _with_diagonal(np.clip(r, TINY, 1 - TINY), 0.0)
    A = np.ones((n, K + 1, K + 1))
    A[:, :K, :K] = _with_diagonal(-r * r.transpose(0, 2, 1), (r**2).sum(axis=1))
    A[:, K, K] = 0
    right = np.zeros((n, K + 1, 1))
    right[:, K] = 1
    return _share(np.maximum(np.linalg.solve(A, right)[:, :K, 0], 0))


def bradley_terry(r, steps=50):
    """Hastie and Tibshirani 1998: maximum likelihood, by the steps of Hunter 2004."""
    wins = _with_diagonal(np.clip(r, TINY, 1 - TINY), 0.0).sum(axis=2)
    p = _share(wins)
    off = 1 - np.eye(r.shape[1])
    for _ in range(steps):
        p = _share(wins / (off / (p[:, :, None] + p[:, None, :])).sum(axis=2))
    return p


RULES = {
    "mean": mean, "coupling": coupling, "votes": votes, "weighted votes": weighted_votes,
    "product": product, "geometric mean": geometric, "mean^(K-1)": sharp_mean,
    "log ratio": log_ratio, "inverse sum": inverse_sum, "least": least,
    "Bradley-Terry": bradley_terry,
}  # fmt: skip


def quality(p, y):
    """Accuracy, log loss and Brier score of memberships p."""
    own = p[np.arange(len(y)), y]
    loss = -np.log(np.clip(own, TINY, 1)).mean()
    return (p.argmax(axis=1) == y).mean(), loss, ((p**2).sum(axis=1) - 2 * own + 1).mean()


def measure(name, flip):
    """Accuracy, log loss and Brier score of every ridge, power and rule on one table."""
    found: dict = {}
    with threadpool_limits(1):
        for A, labels, B, truth in outer_folds(name, seed=0, flip=flip):
            for alpha in ALPHAS:
                a = distances(B, *planes(A, labels, alpha))
                for power in POWERS:
                    r = ratio(a**power)
                    for rule, combine in RULES.items():
                        key = alpha, f"{rule}, q = {power}"
                        found.setdefault(key, []).append(quality(combine(r), truth))
    return {key: np.mean(folds, axis=0) for key, folds in found.items()}


def report(alpha, results):
    """Print mean ranks (by accuracy) and mean scores on both halves, best rank first."""
    keys = [key for key in next(iter(results.values())) if key[0] == alpha]
    scores = np.array([[found[key] for key in keys] for found in results.values()])
    ranks = rankdata(-scores[..., 0].round(6), axis=1)
    half = np.array([name in CHOOSE for name, _ in results])
    print(f"\nalpha = {alpha:g}, C = 1")
    print(f"{'':28s}{'tables to choose on':^36s}{'tables to confirm':^36s}")
    print(f"{'':28s}" + 2 * f"{'rank':>8s}{'accuracy':>10s}{'log loss':>10s}{'Brier':>7s} ")
    for i in ranks[half].mean(axis=0).argsort(kind="stable"):
        row = f"{keys[i][1]:28s}"
        for part in (half, ~half):
            accuracy, loss, brier = scores[part, i].mean(axis=0)
            row += f"{ranks[part, i].mean():8.2f}{accuracy:10.4f}{loss:10.3f}{brier:7.3f} "
        print(row)


def run(arguments: list[str]) -> None:
    say_which(names())
    tasks = [(name, flip) for name in names() for flip in (0.0, FLIPPED)]
    found = Parallel(n_jobs=2)(delayed(measure)(name, flip) for name, flip in tasks)
    for alpha in ALPHAS:
        report(alpha, dict(zip(tasks, found, strict=True)))
