r"""From plane values to probabilities and sets of labels: log odds of pairs of classes, coupled.

Memberships are ratios of distances: beyond a plane both distances grow and the ratio falls back
towards one half. The signed values of the planes hold what is missing. For a pair (k, j) with
planes f_kj and f_jk and effective distances a_kj and a_jk the log odds of k against j are taken as

    z_kj = c_0 p log(a_jk / a_kj) + c_1 f_kj + c_2 f_jk + c_3,

where p is 1, or 3 for the planes of pairs of more than two classes, so that c = (1, 0, 0, 0) gives
memberships. Probabilities of all classes come from the pairs as memberships do
(`fuzzytwin.core.distances.couple_pairwise`),

    P_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j exp(-z_kj)),

which is exact where the pairs agree. With one plane per class ("ovr"), f_k and f_j stand for f_kj
and f_jk. Planes and c are fitted with the class weights g_k; of the population as given, the
probabilities are those of P_k / g_k (prior correction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import couple_pairwise
from fuzzytwin.core.newton import minimise
from fuzzytwin.twin._loo_systems import LeaveOneOut, LooSystems

# Where c is held, and how strongly, in rows: between memberships and the planes' values themselves.
# Chosen on small samples of the first half of the tables of benchmarks/doubts.py.
PRIOR = np.array([0.6, 0.8, -0.8, 0.0])
PRIOR_ROWS = np.array([10.0, 3.0, 3.0, 1.0])
# With more than two classes, pairs are held this much more strongly to what all have in common.
ALIKE = 6.0
# The signs that c may have; any for the intercept.
SIGNS = np.array([1.0, 1.0, -1.0, 0.0])
# Log odds, and their part that is of memberships, within these bounds: no exp overflows.
MOST_LOG_ODDS = 300.0
MOST_LOG_RATIO = 12.0
# Mean leverages are held below this: moments of few rows tell little.
MOST_LEVERAGE = 0.95
# Values of nearly parallel planes hardly vary in one direction: as if this many rows were one
# margin off there, no difference of the means counts as certain.
STRAY_ROWS = 0.03
# A row that is left out moves its log odds at most by the inverse of this.
MOST_MOVED = 0.1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log odds of each pair of classes, and how strange the rows of the fit are.

    ``coef`` (n_pairs, 3) and ``intercept`` are c, ``inverse`` (n_pairs, 4, 4) is that of the second
    derivatives of the loss that c minimises. ``class_weight`` (K,) are the factors that the planes
    were fitted with (None: 1), ``conformity_scores`` (m, 3 or 4) the scores of `prediction_sets`.
    """

    coef: Array
    intercept: Array
    class_weight: Array | None = None
    conformity_scores: Array | None = None
    inverse: Array | None = None

    @classmethod
    def of(cls, fitted: Mapping[str, Any]) -> Calibration:
        """Collect a calibration from fitted attributes."""
        coef, intercept = fitted["calibration_coef_"], fitted["calibration_intercept_"]
        return cls(coef, intercept, fitted.get("class_weight_"), fitted.get("conformity_scores_"))

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes; one that is None is to be left out."""
        return {
            "calibration_coef_": self.coef,
            "calibration_intercept_": self.intercept,
            "class_weight_": self.class_weight,
            "conformity_scores_": self.conformity_scores,
        }

    def weighted(self, f: Array, a: Array, n_classes: int, left_out: Array | None = None) -> Array:
        """Compute probabilities (K, m) of classes weighted as the planes were fitted.

        From plane values and effective distances (n_planes, m). With ``left_out`` (K, m), what
        leaves the loss with each row that c was fitted to, the row has the probabilities of a c
        fitted without it, to first order: with g and w the first and the second derivative of its
        loss, and q = x' inverse x, z moves by g q / (1 - w q).
        """
        pairs, planes = pair_planes(len(f), n_classes)
        ratio = log_ratios(a, planes, n_classes)
        far = np.isneginf(f)  # a class without other rows: never of it
        if far.any():
            f = np.where(far, 0.0, f)
        z = self.coef[:, :1] * ratio + self.intercept[:, None]
        z += self.coef[:, 1:2] * f[planes[:, 0]] + self.coef[:, 2:] * f[planes[:, 1]]
        if left_out is not None and self.inverse is not None:
            k, j = pairs.T
            both = left_out[k] + left_out[j]
            share = expit(z)
            x = np.stack([ratio, f[planes[:, 0]], f[planes[:, 1]], np.ones_like(ratio)], axis=1)
            q = np.einsum("pim,pij,pjm->pm", x, self.inverse, x, optimize=True)
            slope, curve = both * share - left_out[k], both * share * (1 - share)
            z += slope * q / np.maximum(1 - curve * q, MOST_MOVED)
        if far.any():
            z[far[planes[:, 0]]] = -MOST_LOG_ODDS
            z[far[planes[:, 1]]] = MOST_LOG_ODDS
        return couple_pairwise(np.exp(-np.clip(z, -MOST_LOG_ODDS, MOST_LOG_ODDS)), n_classes)

    def unweighted(self, P: Array) -> Array:
        """Turn what `weighted` returns into probabilities of the population as given."""
        if self.class_weight is None:
            return P
        g = self.class_weight[:, None]
        P = np.divide(P, g / g.max(), out=np.zeros_like(P), where=g > 0)
        return np.asarray(P / P.sum(axis=0))


def pair_planes(n_planes: int, n_classes: int) -> tuple[Array, Array]:
    """List the classes and the planes of every pair, each (n_pairs, 2)."""
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    return pairs, pairs if n_planes == n_classes else np.arange(n_planes).reshape(-1, 2)


def log_ratios(a: Array, planes: Array, n_classes: int) -> Array:
    """Compute the log odds of memberships of every pair, p log(a_jk / a_kj), within bounds."""
    power = 1.0 if len(a) == n_classes else 3.0
    own, rival = (
        np.log(np.clip(a[at], np.finfo(float).tiny, np.finfo(float).max)) for at in planes.T
    )
    ratio = power * (rival - own)
    return np.clip(ratio, -MOST_LOG_RATIO, MOST_LOG_RATIO)


def from_rows(blocks: Iterable[tuple[Array, Array, Array]]) -> Calibration:
    """Fit the log odds of every pair to leave-one-out values, by penalised logistic regression.

    For each pair, c minimises over the rows of both classes, with their weights s,

        sum s log(1 + exp(-+z)) + 1/2 sum_i r_i (c_i - p_i)^2,

    where p is `PRIOR` and r is `PRIOR_ROWS`, with c_3 the intercept at the mean of f_kj and f_jk:
    with few rows it stays near to p, with many it goes where they lead. But not against the
    planes: c_0 >= 0, c_1 >= 0 and c_2 <= 0. (Where columns tell nothing, a row left out makes its
    own class look rarer, and only such signs would fit.)

    A pair among many classes has few rows. There, c_0 and c_1 = -c_2 are first fitted to all pairs
    together, and then take the place of p, with `ALIKE` times r.

    Each block has plane values f and effective distances a (n_planes, m) of some rows, and their
    weights (K, m) in every class.
    """
    parts: dict[int, list[tuple[Array, Array]]] = {}
    n_pairs = 0
    for f, a, weight in blocks:
        n_classes = len(weight)
        pairs, planes = pair_planes(len(f), n_classes)
        n_pairs = len(pairs)
        here = np.flatnonzero(weight.sum(axis=1)[pairs].any(axis=1))
        for i, ratio in zip(here.tolist(), log_ratios(a, planes[here], n_classes), strict=True):
            values, s = f[planes[i]], weight[pairs[i]]
            use = (s.sum(axis=0) > 0) & np.isfinite(values).all(axis=0)
            if use.any():
                columns = np.vstack([ratio, values, np.ones_like(ratio)])[:, use]
                parts.setdefault(i, []).append((columns, s[:, use]))
    samples, means = {}, {}
    for i, some in parts.items():  # f about their mean: the intercept is that of an average row
        Z, s = (np.concatenate(part, axis=1) for part in zip(*some, strict=True))
        means[i] = Z[1:3] @ (s.sum(axis=0) / s.sum())
        Z[1:3] -= means[i][:, None]
        samples[i] = Z, s
    prior, ridge = PRIOR, PRIOR_ROWS
    if n_pairs > 1 and samples:  # c_0 and c_1 = -c_2 in common: no order of classes matters
        fold = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0]])
        rows = [(fold @ Z, s) for Z, s in samples.values()]
        common, _ = _signed(rows, PRIOR[:2], fold**2 @ PRIOR_ROWS, SIGNS[:2])
        prior, ridge = common @ fold, ALIKE * PRIOR_ROWS
    c, inverse = np.tile(prior, (n_pairs, 1)), np.zeros((n_pairs, 4, 4))
    for i, (Z, s) in samples.items():
        found, free = _signed([(Z, s)], prior, ridge, SIGNS)
        share, kept = expit(found @ Z), np.ix_(free, free)
        hessian = (Z * (s.sum(axis=0) * share * (1 - share))) @ Z.T + np.diag(ridge)
        inverse[i][kept] = np.linalg.pinv(hessian[kept], hermitian=True)
        back = np.eye(4)  # to columns as they are
        back[3, 1:3] = -means[i]
        c[i], inverse[i] = back @ found, back @ inverse[i] @ back.T
    return Calibration(c[:, :3], c[:, 3], inverse=inverse)


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
    """Minimise the penalised logistic loss over the free coefficients; others are 0.

    `rows` are columns (p, m) and weights (2, m).
    """
    # In units of the total weight, so that no sum overflows.
    total = sum(float(s.sum()) for _, s in rows)
    rows, ridge, some = [(Z, s / total) for Z, s in rows], ridge / total, np.ix_(free, free)

    def objective(c: Array) -> tuple[float, list[Array]]:
        logits = [c @ Z for Z, _ in rows]
        value = float(ridge @ (c - prior) ** 2 / 2)
        for z, (_, s) in zip(logits, rows, strict=True):
            value -= float(s[0] @ log_expit(z) + s[1] @ log_expit(-z))
        return value, logits

    def derivatives(c: Array, logits: list[Array]) -> tuple[Array, Array]:
        gradient, hessian = ridge * (c - prior), np.diag(ridge)
        for z, (Z, s) in zip(logits, rows, strict=True):
            both, share = s.sum(axis=0), expit(z)
            gradient = gradient + Z @ (both * share - s[0])
            hessian = hessian + (Z * (both * share * (1 - share))) @ Z.T
        step = np.zeros(len(c))
        step[free] = np.linalg.lstsq(hessian[some], -gradient[free], rcond=None)[0]
        return step, gradient

    return minimise(objective, derivatives, np.where(free, prior, 0.0))


def from_moments(model: LeaveOneOut) -> Calibration:
    r"""Compute log odds from moments alone: the mean of memberships' and of Gaussian plane values'.

    The values of a pair's planes have the means w.m_k + b and the covariances w' V_k w in class
    k; with a common covariance (the mean of both, by weight) the log odds are linear (Fisher). Far
    rows, which no Gaussian foresees, make them too sure, and memberships fall back towards one half
    there; the mean of both is better than either (``python -m benchmarks calibration``).
    Rows that planes were learned from lie nearer to their targets t than new ones: by the mean
    leverage h of their class, which is a function of moments too, so that means and deviations
    are first moved away from t by 1 / (1 - h), as leave-one-out moves single rows.
    """
    planes, own, K = model.planes, model.own, len(model.C)
    systems = model.systems()
    pairs, of_pair = pair_planes(len(planes.coef), K)
    coef, intercept = np.zeros((len(pairs), 3)), np.zeros(len(pairs))
    for i, (pair, at) in enumerate(zip(pairs.tolist(), of_pair, strict=True)):
        weight = own.weight[pair]
        if not weight.all():
            intercept[i] = MOST_LOG_ODDS * (float(weight[0] > 0) - float(weight[1] > 0))
            continue
        (m_k, V_k), (m_j, V_j) = (_new_rows(model, systems, c, at) for c in pair)
        share = weight / weight.sum()
        n_rows = float(weight.sum() / (share @ own.row_weight[pair]))
        slopes = _slopes(share[0] * V_k + share[1] * V_j, m_k - m_j, n_rows)
        if m_k[0] <= m_j[0] or m_k[1] >= m_j[1]:  # planes tell the classes apart by less than h
            slopes = np.zeros(2)
        coef[i] = 0.5, *(slopes / 2)
        intercept[i] = (np.log(weight[0] / weight[1]) - slopes @ (m_k + m_j) / 2) / 2
    return Calibration(coef, intercept)


def _slopes(V: Array, apart: Array, n_rows: float) -> Array:
    """Compute V^-1 (m_k - m_j), with the variance of `STRAY_ROWS` of n rows in every direction.

    Planes of C = 1 are parallel: there the shortest slopes are taken.
    """
    values, vectors = np.linalg.eigh(V)
    keep = values > 1e-8 * max(values[-1], 0.0)
    spread = values[keep] + STRAY_ROWS / n_rows
    return np.asarray(vectors[:, keep] @ ((vectors[:, keep].T @ apart) / spread))


def _new_rows(model: LeaveOneOut, systems: LooSystems, c: int, at: Array) -> tuple[Array, Array]:
    """Estimate mean and covariance of the values of two planes at new rows of class c."""
    own, planes = model.own, model.planes
    mean_c = (own.origin[c] - systems.centre) + own.offset[c]
    w = planes.coef[at]
    mean = systems.values[0, at] @ np.append(mean_c, 1.0)
    covariance = w @ own.covariance[c] @ w.T
    mine = planes.classes[at, 0] == c
    target = np.where(mine, 0.0, -1.0)
    slack = model.slack.weight[c] / own.weight[c]
    unit = np.where(mine, systems.own_unit[at], systems.rival_unit[at] * slack)
    leverage = np.empty(2)
    for i, plane in enumerate(at.tolist()):
        factor = systems.factors(plane)[0]
        products = factor.mean_leverage(mean_c, own.covariance[c])
        leverage[i] = unit[i] * own.row_weight[c] * products
    away = 1 / (1 - np.minimum(leverage, MOST_LEVERAGE))
    return target + away * (mean - target), covariance * np.outer(away, away)


class _Kind(NamedTuple):
    """How a calibration is fitted, and whether to values of all rows left out, or to moments."""

    fit: Callable[..., Calibration]
    by_rows: bool


# The calibrations by name.
CALIBRATIONS = {"loo": _Kind(from_rows, True), "moments": _Kind(from_moments, False)}


def needs_rows(calibration: str | None) -> bool:
    """Return whether a calibration needs all rows at once, which moments do not hold."""
    return calibration is not None and CALIBRATIONS[calibration].by_rows
