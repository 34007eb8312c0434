r"""Calibrated probabilities from plane values: log odds of pairs of classes, coupled.

Symbols

    f_kj, a_kj    value and effective distance of plane (k, j)
    z_kj          log odds of class k against class j
    c             coefficients (c_0, c_1, c_2) and intercept c_3 of a pair
    p             1 for two classes, 3 for more
    g_k           class weights
    P_k           probability of class k

Memberships are ratios of distances: beyond a plane both distances grow and the ratio falls back
towards one half. The signed plane values add the missing information. The log odds are

    z_kj = c_0 p log(a_jk / a_kj) + c_1 f_kj + c_2 f_jk + c_3,

so that c = (1, 0, 0, 0) gives memberships. As with memberships, the pairs are coupled to
probabilities of all classes by (`fuzzytwin.core.distances.couple_pairwise`)

    P_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j exp(-z_kj)),

which is exact if the pairs are consistent (Price, Knerr, Personnaz and Dreyfus: Pairwise neural
network classifiers with probabilistic outputs, NIPS 1994). Planes and c are fitted with the class
weights g_k. Without them, probabilities are proportional to P_k / g_k (prior correction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import couple_pairwise
from fuzzytwin.core.newton import minimise

# Mean and strength (in rows) of the prior of c, between memberships and plane values. Chosen on
# small samples of the first half of the tables of benchmarks/label_issues.py.
PRIOR = np.array([0.6, 0.8, -0.8, 0.0])
PRIOR_ROWS = np.array([10.0, 3.0, 3.0, 1.0])
# With more than two classes, factor on the strength of the prior of pairs around the shared fit.
SHARED_PRIOR_FACTOR = 6.0
# Allowed signs of c. 0: any, for the intercept.
SIGNS = np.array([1.0, 1.0, -1.0, 0.0])
# Bounds of the log odds, and of the part from memberships, so that no exp overflows.
MAX_LOG_ODDS = 300.0
MAX_LOG_RATIO = 12.0
# Lower bound of 1 - w q, the denominator of a leave-one-out step of the log odds.
MIN_DENOMINATOR = 0.1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log odds of each pair of classes, and nonconformity scores of the training rows.

    ``coef`` (n_pairs, 3) and ``intercept`` are c, and ``inverse`` (n_pairs, 4, 4) is the inverse
    Hessian of the loss that c minimises. ``class_weight`` (K,) are the factors that the planes were
    fitted with (None: 1), ``conformity_scores`` (m, 3 or 4) the scores of `prediction_sets`.
    """

    coef: Array
    intercept: Array
    class_weight: Array | None = None
    conformity_scores: Array | None = None
    inverse: Array | None = None

    @classmethod
    def of(cls, fitted: Mapping[str, Any]) -> Calibration:
        """Collect a calibration from fitted attributes."""
        return cls(
            fitted["calibration_coef_"],
            fitted["calibration_intercept_"],
            fitted.get("class_weight_"),
            fitted.get("conformity_scores_"),
        )

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes. Those that are None are not to be set."""
        return {
            "calibration_coef_": self.coef,
            "calibration_intercept_": self.intercept,
            "class_weight_": self.class_weight,
            "conformity_scores_": self.conformity_scores,
        }

    def weighted(self, f: Array, a: Array, n_classes: int, held_out: Array | None = None) -> Array:
        """Compute probabilities (K, m) with the class weights of the fit.

        ``f`` and ``a`` (n_planes, m) are plane values and effective distances. ``held_out`` (K, m)
        are the weights per class that are held out with each training row. Then its probabilities
        are those of a c fitted without them, to first order: with the first and second derivative
        g and w of the loss of the row, and q = x' inverse x, z changes by g q / (1 - w q).
        """
        pairs, planes = pair_planes(n_classes)
        ratio = log_ratios(a, planes, n_classes)
        infinite = np.isneginf(f)  # the row is the only one of the class of the plane
        if infinite.any():
            f = np.where(infinite, 0.0, f)
        z = self.coef[:, :1] * ratio + self.intercept[:, None]
        z += self.coef[:, 1:2] * f[planes[:, 0]] + self.coef[:, 2:] * f[planes[:, 1]]
        if held_out is not None and self.inverse is not None:
            k, j = pairs.T
            pair_weight = held_out[k] + held_out[j]
            share = expit(z)
            x = np.stack([ratio, f[planes[:, 0]], f[planes[:, 1]], np.ones_like(ratio)], axis=1)
            q = np.einsum("pim,pij,pjm->pm", x, self.inverse, x, optimize=True)
            gradient = pair_weight * share - held_out[k]
            curvature = pair_weight * share * (1 - share)
            z += gradient * q / np.maximum(1 - curvature * q, MIN_DENOMINATOR)
        if infinite.any():
            z[infinite[planes[:, 0]]] = -MAX_LOG_ODDS
            z[infinite[planes[:, 1]]] = MAX_LOG_ODDS
        return couple_pairwise(np.exp(-np.clip(z, -MAX_LOG_ODDS, MAX_LOG_ODDS)), n_classes)

    def unweighted(self, P: Array) -> Array:
        """Remove the class weights from the probabilities of `weighted` (prior correction)."""
        if self.class_weight is None:
            return P
        g = self.class_weight[:, None]
        P = np.divide(P, g / g.max(), out=np.zeros_like(P), where=g > 0)
        return np.asarray(P / P.sum(axis=0))


def pair_planes(n_classes: int) -> tuple[Array, Array]:
    """List the classes and the planes of every pair, each (n_pairs, 2)."""
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    return pairs, np.arange(2 * len(pairs)).reshape(-1, 2)


def log_ratios(a: Array, planes: Array, n_classes: int) -> Array:
    """Compute the log odds of memberships of every pair, p log(a_jk / a_kj), clipped."""
    power = 1.0 if n_classes == 2 else 3.0
    bounds = np.finfo(float).tiny, np.finfo(float).max
    own = np.log(np.clip(a[planes[:, 0]], *bounds))
    rival = np.log(np.clip(a[planes[:, 1]], *bounds))
    ratio = power * (rival - own)
    return np.clip(ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def fit_log_odds(blocks: Iterable[tuple[Array, Array, Array]]) -> Calibration:
    """Fit the log odds of every pair to leave-one-out values, by penalised logistic regression.

    For each pair, c minimises over the rows of both classes, with their weights s,

        sum s log(1 + exp(-+z)) + 1/2 sum_i r_i (c_i - p_i)^2,

    with the prior p = `PRIOR` of strength r = `PRIOR_ROWS`, where c_3 is the intercept at the mean
    of f_kj and f_jk. The signs are constrained to c_0 >= 0, c_1 >= 0 and c_2 <= 0. (If columns are
    unrelated to the labels, leaving a row out makes its own class look rarer, and the opposite
    signs would fit best.)

    With more than two classes, each pair has few rows. Then c_0 and c_1 = -c_2 are first fitted to
    all pairs together and replace p, with `SHARED_PRIOR_FACTOR` times r.

    Each block has plane values f and effective distances a (n_planes, m) of m rows, and their
    weights (K, m) in every class.
    """
    n_pairs, samples = _rows_of_pairs(blocks)
    prior = PRIOR
    ridge = PRIOR_ROWS
    if n_pairs > 1 and samples:  # c_1 = -c_2: the order of the classes does not matter
        symmetric = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0]])
        rows = [(symmetric @ sample.Z, sample.s) for sample in samples.values()]
        shared, _ = _fit_signed(rows, PRIOR[:2], symmetric**2 @ PRIOR_ROWS, SIGNS[:2])
        prior = shared @ symmetric
        ridge = SHARED_PRIOR_FACTOR * PRIOR_ROWS
    c = np.tile(prior, (n_pairs, 1))
    inverse = np.zeros((n_pairs, 4, 4))
    for i, sample in samples.items():
        c[i], inverse[i] = _fit_pair(sample, prior, ridge)
    return Calibration(c[:, :3], c[:, 3], inverse=inverse)


class _PairProblem(NamedTuple):
    """Regression of a pair of classes: columns z (4, m), weights (2, m), means of f_kj and f_jk.

    The columns are the log odds of memberships, both plane values about their means, and ones.
    """

    Z: Array
    s: Array
    mean: Array


def _rows_of_pairs(
    blocks: Iterable[tuple[Array, Array, Array]],
) -> tuple[int, dict[int, _PairProblem]]:
    """Count the pairs of classes, and collect the rows of each pair that has any."""
    parts: dict[int, list[tuple[Array, Array]]] = {}
    n_pairs = 0
    for f, a, weight in blocks:
        n_classes = len(weight)
        pairs, planes = pair_planes(n_classes)
        n_pairs = len(pairs)
        present = np.flatnonzero(weight.sum(axis=1)[pairs].any(axis=1))
        ratios = log_ratios(a, planes[present], n_classes)
        for i, ratio in zip(present.tolist(), ratios, strict=True):
            values = f[planes[i]]
            s = weight[pairs[i]]
            in_pair = (s.sum(axis=0) > 0) & np.isfinite(values).all(axis=0)
            if in_pair.any():
                columns = np.vstack([ratio, values, np.ones_like(ratio)])[:, in_pair]
                parts.setdefault(i, []).append((columns, s[:, in_pair]))
    samples = {}
    for i, blocks_of_pair in parts.items():
        Z = np.concatenate([columns for columns, _ in blocks_of_pair], axis=1)
        s = np.concatenate([weight for _, weight in blocks_of_pair], axis=1)
        # f about its mean, so that the intercept is that of an average row
        mean = Z[1:3] @ (s.sum(axis=0) / s.sum())
        Z[1:3] -= mean[:, None]
        samples[i] = _PairProblem(Z, s, mean)
    return n_pairs, samples


def _fit_pair(sample: _PairProblem, prior: Array, ridge: Array) -> tuple[Array, Array]:
    """Fit the c of one pair, and return it with the inverse Hessian of its loss."""
    Z, s, mean = sample
    centred, free = _fit_signed([(Z, s)], prior, ridge, SIGNS)
    share = expit(centred @ Z)
    hessian = (Z * (s.sum(axis=0) * share * (1 - share))) @ Z.T + np.diag(ridge)
    inverse = np.zeros((4, 4))
    free_block = np.ix_(free, free)
    inverse[free_block] = np.linalg.pinv(hessian[free_block], hermitian=True)
    uncentre = np.eye(4)  # from coefficients of centred columns to those of f
    uncentre[3, 1:3] = -mean
    return uncentre @ centred, uncentre @ inverse @ uncentre.T


def _fit_signed(
    rows: list[tuple[Array, Array]], prior: Array, ridge: Array, signs: Array
) -> tuple[Array, Array]:
    """Minimise with coefficients of these signs, and return them and which are not fixed at 0."""
    free = np.ones(len(prior), dtype=bool)
    while True:
        c = _minimise(rows, prior, ridge, free)
        wrong = free & (c * signs < 0)
        if not wrong.any():
            return c, free
        free &= ~wrong


def _minimise(rows: list[tuple[Array, Array]], prior: Array, ridge: Array, free: Array) -> Array:
    """Minimise the penalised logistic loss over the free coefficients. The others are 0.

    `rows` are columns (p, m) and weights (2, m).
    """
    # In units of the total weight, so that no sum overflows.
    total = sum(float(s.sum()) for _, s in rows)
    rows = [(Z, s / total) for Z, s in rows]
    ridge = ridge / total
    free_block = np.ix_(free, free)

    def objective(c: Array) -> tuple[float, list[Array]]:
        logits = [c @ Z for Z, _ in rows]
        value = float(ridge @ (c - prior) ** 2 / 2)
        for z, (_, s) in zip(logits, rows, strict=True):
            value -= float(s[0] @ log_expit(z) + s[1] @ log_expit(-z))
        return value, logits

    def derivatives(c: Array, logits: list[Array]) -> tuple[Array, Array]:
        gradient = ridge * (c - prior)
        hessian = np.diag(ridge)
        for z, (Z, s) in zip(logits, rows, strict=True):
            pair_weight = s.sum(axis=0)
            share = expit(z)
            gradient = gradient + Z @ (pair_weight * share - s[0])
            hessian = hessian + (Z * (pair_weight * share * (1 - share))) @ Z.T
        step = np.zeros(len(c))
        step[free] = np.linalg.lstsq(hessian[free_block], -gradient[free], rcond=None)[0]
        return step, gradient

    return minimise(objective, derivatives, np.where(free, prior, 0.0))
