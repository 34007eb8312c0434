r"""From plane values to probabilities: calibrated log odds of each pair of classes, coupled.

eq29 is a ratio of distances: beyond a plane both distances grow and the ratio falls back towards
one half. The signed values of the planes hold what is missing. For a pair (k, j) with planes
f_kj and f_jk and effective distances a_kj and a_jk the log odds of k against j are taken as

    z_kj = c_0 p log(a_jk / a_kj) + c_1 f_kj + c_2 f_jk + c_3,

where p is 1, or 3 for the planes of pairs of more than two classes, so that c = (1, 0, 0, 0) is
eq29. Probabilities of all classes come from the pairs as memberships do (`fuzzytwin.core.pairs`),

    P_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j exp(-z_kj)),

which is exact where the pairs agree. With one plane per class ("ovr"), f_k and f_j stand for f_kj
and f_jk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from fuzzytwin._utils.types import Array
from fuzzytwin.core.leave_one_out import LeaveOneOut, LooDistances, Systems
from fuzzytwin.core.row_weights import RowWeights

# Where c is held, and how strongly, in rows: between eq29 and the planes' values themselves. Chosen
# on small samples of the first half of the tables of benchmarks/doubts.py.
PRIOR = np.array([0.6, 0.8, -0.8, 0.0])
PRIOR_ROWS = np.array([10.0, 3.0, 3.0, 1.0])
# With more than two classes, pairs are held so many times more strongly to what all have in common.
ALIKE = 6.0
# Log odds, and their part that is eq29, within these bounds: no exp overflows.
MOST_LOG_ODDS = 300.0
MOST_LOG_RATIO = 12.0
# Mean leverages are held below this: of so few rows, moments tell little.
MOST_LEVERAGE = 0.95
# Values of nearly parallel planes hardly vary in one direction: as if so many rows were one margin
# off there, no difference of the means counts as certain.
STRAY_ROWS = 0.03
MOST_STEPS = 100
# A row that is left out moves its log odds at most by the inverse of this.
MOST_MOVED = 0.1
# The signs that c may have; any for the intercept.
SIGNS = np.array([1.0, 1.0, -1.0, 0.0])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Coefficients c_0, c_1, c_2 and the intercept c_3 of the log odds of each pair of classes.

    ``inverse`` (n_pairs, 4, 4) is that of the second derivatives of the loss, if they were fitted.
    """

    coef: Array
    intercept: Array
    inverse: Array | None = None

    def probabilities(
        self, f: Array, a: Array, n_classes: int, fitted: Array | None = None
    ) -> Array:
        """Compute probabilities (K, m) from plane values and effective distances (n_planes, m).

        With `fitted`, the weights (K, m) in the loss of rows that c was fitted to, each row has
        those of a c fitted without it, to first order: with g and w the first and the second
        derivative of its loss, and q = x' inverse x, z moves by g q / (1 - w q).
        """
        planes = pair_planes(len(f), n_classes)[1]
        ratio = log_ratios(a, planes, n_classes)
        far = np.isneginf(f)  # a class without other rows: never of it
        if far.any():
            f = np.where(far, 0.0, f)
        z = self.coef[:, :1] * ratio + self.intercept[:, None]
        z += self.coef[:, 1:2] * f[planes[:, 0]] + self.coef[:, 2:] * f[planes[:, 1]]
        if fitted is not None and self.inverse is not None:
            k, j = pair_planes(len(f), n_classes)[0].T
            both = fitted[k] + fitted[j]
            share = expit(z)
            x = np.stack([ratio, f[planes[:, 0]], f[planes[:, 1]], np.ones_like(ratio)], axis=1)
            q = np.einsum("pim,pij,pjm->pm", x, self.inverse, x, optimize=True)
            slope, curve = both * share - fitted[k], both * share * (1 - share)
            z += slope * q / np.maximum(1 - curve * q, MOST_MOVED)
        if far.any():
            z[far[planes[:, 0]]] = -MOST_LOG_ODDS
            z[far[planes[:, 1]]] = MOST_LOG_ODDS
        return couple(z, n_classes)


def pair_planes(n_planes: int, n_classes: int) -> tuple[Array, Array]:
    """List the classes and the planes of every pair, each (n_pairs, 2)."""
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    if n_planes == n_classes:
        return pairs, pairs
    return pairs, np.arange(n_planes).reshape(-1, 2)


def log_ratios(a: Array, planes: Array, n_classes: int) -> Array:
    """Compute eq29's log odds of every pair, p log(a_jk / a_kj), within bounds."""
    power = 1.0 if len(a) == n_classes else 3.0
    tiny = np.finfo(float).tiny
    logs = np.log(np.clip(a, tiny, np.finfo(float).max))
    ratio = power * (logs[planes[:, 1]] - logs[planes[:, 0]])
    return np.clip(ratio, -MOST_LOG_RATIO, MOST_LOG_RATIO)


def couple(z: Array, n_classes: int) -> Array:
    """Combine the log odds (n_pairs, m) of all pairs into probabilities (K, m).

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.calibration import couple
    >>> P = np.array([0.7, 0.2, 0.1])
    >>> pairs = np.log(P[[0, 0, 1]] / P[[1, 2, 2]])
    >>> couple(pairs[:, None], 3)[:, 0].round(6).tolist()
    [0.7, 0.2, 0.1]
    """
    odds = np.exp(np.clip(z, -MOST_LOG_ODDS, MOST_LOG_ODDS))
    against, start = np.ones((n_classes, z.shape[1])), 0
    for k in range(n_classes - 1):
        end = start + n_classes - 1 - k
        against[k] += (1.0 / odds[start:end]).sum(axis=0)
        against[k + 1 :] += odds[start:end]
        start = end
    v = 1.0 / against
    return np.asarray(v / v.sum(axis=0))


def from_rows(
    blocks: Iterable[LooDistances], weights: RowWeights, share: Array, n_planes: int
) -> Calibration:
    """Fit the log odds of every pair to leave-one-out values, by penalised logistic regression.

    For each pair, c minimises over the rows of both classes, with their weights s,

        sum s log(1 + exp(-+z)) + 1/2 sum_i r_i (c_i - p_i)^2,

    where p is `PRIOR` and r is `PRIOR_ROWS`, with c_3 the intercept at the mean of f_kj and f_jk:
    with few rows it stays near to p, with many it goes where they lead. But not against the
    planes: c_0 >= 0, c_1 >= 0 and c_2 <= 0. (Where columns tell nothing, a row left out makes its
    own class look rarer, and only such signs would fit.)

    A pair among many classes has few rows. There, c_0 and c_1 = -c_2 are first fitted to all pairs
    together, and then take the place of p, with `ALIKE` times r.

    Parameters
    ----------
    blocks : iterable of LooDistances
        Values and distances of rows.
    weights : RowWeights
        Their classes and weights.
    share : ndarray of shape (K,)
        What the weights of each class are multiplied by.
    n_planes : int
        Number of planes.
    """
    K = weights.n_classes
    pairs, planes = pair_planes(n_planes, K)
    parts: list[list[tuple[Array, Array]]] = [[] for _ in pairs]
    for index, f, a in blocks:
        table = class_weights(weights, index) * share[:, None]
        ratio = log_ratios(a, planes, K)
        for i, (k, j) in enumerate(pairs.tolist()):
            values = f[planes[i]]
            s = table[[k, j]]
            use = (s.sum(axis=0) > 0) & np.isfinite(values).all(axis=0)
            if use.any():
                parts[i].append((np.vstack([ratio[i], values])[:, use], s[:, use]))
    samples = [_Sample.of(part) if part else None for part in parts]
    prior, ridge = PRIOR, PRIOR_ROWS
    if len(samples) > 1:
        prior, ridge = _in_common([sample for sample in samples if sample]), ALIKE * PRIOR_ROWS
    found = [_logistic(sample, prior, ridge) for sample in samples]
    c, inverse = (np.array(part) for part in zip(*found, strict=True))
    return Calibration(c[:, :3], c[:, 3], inverse)


def class_weights(weights: RowWeights, index: Any) -> Array:
    """Return the weights of rows in every class, (K, m)."""
    own = weights.own[index]
    if weights.codes is None:
        return own.T
    return (weights.codes[index] == np.arange(weights.n_classes)[:, None]) * own


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows of one pair: columns eq29, f_kj and f_jk, and one; weights in both classes.

    ``Z`` (4, m) has f about their mean, so that the intercept is that of an average row.
    """

    Z: Array
    s: Array
    mean: Array

    @classmethod
    def of(cls, parts: list[tuple[Array, Array]]) -> _Sample:
        """Join blocks of columns (3, m) and weights (2, m)."""
        X, s = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        total = s.sum(axis=0)
        mean = X[1:] @ (total / total.sum())
        return cls(np.vstack([X[:1], X[1:] - mean[:, None], np.ones((1, X.shape[1]))]), s, mean)


def _in_common(samples: list[_Sample]) -> Array:
    """Fit c_0 and c_1 = -c_2 to the rows of all pairs; no order of classes matters."""
    fold = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0]])
    rows = [(fold @ sample.Z, sample.s) for sample in samples]
    c = _signed(rows, PRIOR[:2], fold**2 @ PRIOR_ROWS, SIGNS[:2])[0]
    return np.asarray(c @ fold)


def _logistic(sample: _Sample | None, prior: Array, ridge: Array) -> tuple[Array, Array]:
    """Fit c of one pair, in columns as they are; also the inverse of its second derivatives."""
    if sample is None:
        return prior, np.zeros((4, 4))
    Z, s, mean = sample.Z, sample.s, sample.mean
    c, free = _signed([(Z, s)], prior, ridge, SIGNS)
    share = expit(c @ Z)
    hessian = (Z * (s.sum(axis=0) * share * (1 - share))) @ Z.T + np.diag(ridge)
    inverse = np.zeros((4, 4))
    some = np.ix_(free, free)
    inverse[some] = np.linalg.pinv(hessian[some], hermitian=True)
    back = np.eye(4)
    back[3, 1:3] = -mean
    return back @ c, back @ inverse @ back.T


def _signed(
    rows: list[tuple[Array, Array]], prior: Array, ridge: Array, signs: Array
) -> tuple[Array, Array]:
    """Minimise with coefficients of these signs: those that would have the other one are 0."""
    free = np.ones(len(prior), dtype=bool)
    while True:
        c = _minimise(rows, prior, ridge, free)
        wrong = free & (c * signs < 0)
        if not wrong.any():
            return c, free
        free &= ~wrong


def _minimise(rows: list[tuple[Array, Array]], prior: Array, ridge: Array, free: Array) -> Array:
    """Minimise the penalised logistic loss over the free coefficients, by Newton's method.

    `rows` are columns (p, m) and weights (2, m); other coefficients are 0, steps halved.
    """
    # In units of the total weight, so that no sum overflows.
    total = sum(float(s.sum()) for _, s in rows)
    rows, ridge = [(Z, s / total) for Z, s in rows], ridge / total

    def loss(c: Array) -> float:
        value = float(ridge @ (c - prior) ** 2 / 2)
        for Z, s in rows:
            z = c @ Z
            value -= float(s[0] @ log_expit(z) + s[1] @ log_expit(-z))
        return value

    c = np.where(free, prior, 0.0)
    before = loss(c)
    some = np.ix_(free, free)
    for _ in range(MOST_STEPS):
        gradient, hessian = ridge * (c - prior), np.diag(ridge)
        for Z, s in rows:
            both, share = s.sum(axis=0), expit(c @ Z)
            gradient = gradient + Z @ (both * share - s[0])
            hessian = hessian + (Z * (both * share * (1 - share))) @ Z.T
        step = np.zeros(len(c))
        step[free] = np.linalg.lstsq(hessian[some], gradient[free], rcond=None)[0]
        after = loss(c - step)
        while after > before and np.abs(step).max() > 1e-12:
            step /= 2
            after = loss(c - step)
        if after > before:
            break
        c = c - step
        if before - after <= 1e-13 * abs(before):
            break
        before = after
    return c


def from_moments(model: LeaveOneOut) -> Calibration:
    r"""Compute log odds from moments alone: the mean of eq29's and of those of Gaussian values.

    The values of a pair's planes have the means w.m_k + b and the covariances w' V_k w in class
    k; with a common covariance (the mean of both, by weight) the log odds are linear (Fisher). Far
    rows, which no Gaussian foresees, make them too sure, and eq29 falls back towards one half
    there; the mean of both is better than either (``python -m benchmarks calibration``).
    Rows that planes were learned from lie nearer to their targets t than new ones: by the mean
    leverage h of their class, which is a function of moments too, so that means and deviations
    are first moved away from t by 1 / (1 - h), as leave-one-out moves single rows.

    Parameters
    ----------
    model : LeaveOneOut
        Planes and their moments. Weights count as numbers of rows.
    """
    planes, own, K = model.planes, model.own, len(model.C)
    systems = Systems(model, many_rows=False)
    pairs, of_pair = pair_planes(len(planes.coef), K)
    coef, intercept = np.zeros((len(pairs), 3)), np.zeros(len(pairs))
    for i, (pair, at) in enumerate(zip(pairs.tolist(), of_pair, strict=True)):
        weight = own.weight[pair]
        if not weight.all():
            intercept[i] = MOST_LOG_ODDS * (float(weight[0] > 0) - float(weight[1] > 0))
            continue
        (m_k, V_k), (m_j, V_j) = (_new_rows(model, systems, c, at) for c in pair)
        share = weight / weight.sum()
        slopes = _slopes(share[0] * V_k + share[1] * V_j, m_k - m_j, float(weight.sum()))
        if m_k[0] <= m_j[0] or m_k[1] >= m_j[1]:  # planes tell the classes apart by less than h
            slopes = np.zeros(2)
        coef[i] = 0.5, *(slopes / 2)
        intercept[i] = (np.log(weight[0] / weight[1]) - slopes @ (m_k + m_j) / 2) / 2
    return Calibration(coef, intercept)


def _slopes(V: Array, apart: Array, weight: float) -> Array:
    """Compute V^-1 (m_k - m_j), with the variance of `STRAY_ROWS` rows in every direction.

    Planes of C = 1 are parallel: there the shortest slopes are taken.
    """
    values, vectors = np.linalg.eigh(V)
    keep = values > 1e-8 * max(values[-1], 0.0)
    spread = values[keep] + STRAY_ROWS / weight
    return np.asarray(vectors[:, keep] @ ((vectors[:, keep].T @ apart) / spread))


def _new_rows(model: LeaveOneOut, systems: Systems, c: int, at: Array) -> tuple[Array, Array]:
    """Estimate mean and covariance of the values of two planes at new rows of class c."""
    own, planes = model.own, model.planes
    mean_c = (own.origin[c] - systems.centre) + own.offset[c]
    w = planes.coef[at]
    mean = systems.values[at] @ np.append(mean_c, 1.0)
    covariance = w @ own.covariance[c] @ w.T
    mine = planes.classes[at, 0] == c
    target = np.where(mine, 0.0, -1.0)
    slack = model.slack.weight[c] / own.weight[c]
    unit = np.where(mine, systems.own_unit[at], systems.rival_unit[at] * slack)
    leverage = np.empty(2)
    for i, plane in enumerate(at.tolist()):
        factor = systems.factor(plane)
        y = np.append(mean_c, 1.0) @ factor.root
        spread = (factor.w_root * (own.covariance[c] @ factor.w_root)).sum()
        leverage[i] = unit[i] * (factor.floor + spread + y @ y)
    away = 1 / (1 - np.minimum(leverage, MOST_LEVERAGE))
    return target + away * (mean - target), covariance * np.outer(away, away)
