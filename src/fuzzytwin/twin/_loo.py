"""Leave-one-out memberships, calibration and conformity scores of the training rows.

As in `_fit`, these are functions of validated rows, frozen settings, moments and planes. Leverages
are computed in `fuzzytwin.core.ridge`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._params import class_factors
from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import BLOCK_NUMBERS
from fuzzytwin.core.distances import (
    effective_distances,
    memberships_of,
    plane_norms,
    plane_ratio,
    plane_values,
)
from fuzzytwin.core.hashing import content_keys, group_sums
from fuzzytwin.core.linalg import rank_tol
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes, crisp_grid, crisp_planes, plane_classes
from fuzzytwin.core.row_space import RowFeatures
from fuzzytwin.core.weights import RowWeights, mean_weight
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._calibration import Calibration, fit_log_odds
from fuzzytwin.twin._fit import apply_class_weight, ridge, row_weights
from fuzzytwin.twin._loo_systems import LeaveOneOut, LooValues
from fuzzytwin.twin._settings import FitSettings, choose_solver

# Indices of m rows, and leave-one-out values and effective distances (n_planes, m) of the planes.
LooDistances = tuple[Any, Array, Array]
# Maximum number of rows per class in a calibration: enough for four coefficients and a quantile.
MAX_ROWS = 10_000
# Maximum number of plane values kept between two passes. If there are more, they are recomputed.
MAX_VALUES = 1 << 23
# Minimum number of rows in a block.
MIN_ROWS = 128
# Tolerance on plane values (which are -1 on rivals) when planes are fitted again.
SAME_VALUES = 1e-3


class LooEvaluator:
    """Leave-one-out evaluation of the planes at the training rows.

    ``mu`` are the degrees of the rows, and ``planes``, ``moments`` and ``phi`` the results of the
    fit. Without moments, planes are fitted again in the row space. The rows of a group are
    left out together.
    """

    def __init__(
        self,
        settings: FitSettings,
        rows: Rows,
        mu: Array | None,
        planes: Planes,
        moments: TwinMoments | None,
        phi: LandmarkMap | None,
    ) -> None:
        self.settings = settings
        self.rows = rows
        self.mu = mu
        self.planes = planes
        self.moments = moments
        self.groups = rows.groups
        self.Z = fitting.features(rows.X, phi)
        self.weights = row_weights(settings, rows, mu)
        self.row_space_loo: RowSpaceLoo | None = None

    def distances(self, only: Array | None = None) -> Iterator[LooDistances]:
        """Yield leave-one-out plane values and distances of the rows `only` (None: all rows)."""
        settings = self.settings
        classes = self.rows.classes
        planes = self.planes
        width: Any = planes.width_coef, planes.width_intercept
        norms = settings.rule == "distance"
        if self.moments is not None:
            model = leave_one_out(settings, self.moments, planes, classes)
            blocks = model.values(
                self.Z, self.weights, only=only, names=classes, norms=norms, groups=self.groups
            )
        else:
            if self.row_space_loo is None:
                self.row_space_loo = RowSpaceLoo(
                    settings, self.rows, self.weights, planes, norms=norms
                )
            blocks = self.row_space_loo.values(only)
        for block in blocks:
            a = plane_ratio(np.abs(block.f), block.norms, axis=0)
            if width[0] is not None:
                g = plane_values(self.rows.X[block.index], *width, absolute=True).T
                a = effective_distances(a, plane_ratio(np.abs(g), block.norms, axis=0))
            yield block.index, block.f, a

    def memberships(self) -> Array:
        """Compute leave-one-out memberships, of shape (n, K)."""
        K = self.weights.n_classes
        u = np.empty((len(self.rows), K))
        for index, _, a in self.distances():
            u[index] = memberships_of(a, K).T
        return u

    def calibrate(self) -> Calibration:
        """Fit log odds of pairs of classes to leave-one-out values, and score the rows.

        The nonconformity score of a row with a label is one minus the probability of the label.
        Weights are divided by the mean weight of a row (of a group, if rows have groups), so that
        their sum is the effective sample size. Classes with more than `MAX_ROWS` rows are sampled
        by hash, and the weights of the sample are scaled to the total weight of the class.
        """
        K = self.weights.n_classes
        n = len(self.rows)
        sample_weight = self.rows.weights  # without class weights
        if self.weights.codes is None and self.mu is not None:  # soft labels
            sample_weight = sample_weight[:, None] * self.mu
        row_weight = sample_weight.sum(axis=1) if sample_weight.ndim > 1 else sample_weight
        unit = mean_weight(row_weight, self.groups)
        held_out_ratio = self._held_out_ratio(row_weight)
        only, scale = self._sample()
        blocks: Callable[[], Iterator[LooDistances]] = partial(self.distances, only)
        if (n if only is None else len(only)) * len(self.planes.coef) <= MAX_VALUES:
            blocks = partial(iter, list(blocks()))

        def by_class(weight: Any, index: Any) -> Array:
            """Return the weights (K, m) of m rows in every class."""
            if self.weights.codes is None:
                return weight[index].T / unit
            in_class = self.weights.codes[index] == np.arange(K)[:, None]
            return in_class * weight[index] * (scale / unit)[:, None]

        without_class_weight = replace(self.settings, class_weight=None)
        weights = row_weights(without_class_weight, self.rows, self.mu)
        totals = weights.totals(weights.own)
        factors = class_factors(self.settings.class_weight, totals, self.rows.classes)
        own = self.weights.own * (totals.sum() / (totals @ factors))  # class weights of mean 1
        calibration = fit_log_odds((f, a, by_class(own, index)) for index, f, a in blocks())
        if self.settings.class_weight is not None:
            calibration = replace(calibration, class_weight=factors)
        scores = []
        for index, f, a in blocks():
            held_out = by_class(own, index) * held_out_ratio[index]
            P = calibration.unweighted(calibration.weighted(f, a, K, held_out))
            weight = by_class(sample_weight, index)
            k, row = np.nonzero(weight)
            group = [] if self.groups is None else [self.groups[index][row]]
            scores.append(np.column_stack([1 - P[k, row], k, weight[k, row], *group]))
        table = np.concatenate(scores)
        table = table[np.argsort(table[:, 0], kind="stable")]
        return replace(calibration, conformity_scores=table)

    def _held_out_ratio(self, row_weight: Array) -> Array:
        """Return the weight that is held out with each row, in units of the row's own weight."""
        ratio = np.ones(len(row_weight))
        if self.groups is not None:
            group_weight = np.bincount(self.groups, row_weight)[self.groups]
            np.divide(group_weight, row_weight, out=ratio, where=row_weight > 0)
        return ratio

    def _sample(self) -> tuple[Array | None, Array]:
        """Sample rows (None: all), and return the factor that restores the total of each class."""
        codes = self.weights.codes
        K = self.weights.n_classes
        if codes is None or (np.bincount(codes, minlength=K) <= MAX_ROWS).all():
            return None, np.ones(K)
        weight = np.ones(len(codes)) if self.rows.weight is None else self.rows.weight
        keys = content_keys(self.rows.X)
        if self.groups is not None:
            keys = group_sums(keys, self.groups)[self.groups]
        order = np.lexsort((weight, keys))
        sampled_rows = [order[codes[order] == k][:MAX_ROWS] for k in range(K)]
        only = np.sort(np.concatenate(sampled_rows))
        own = self.weights.own
        assert own is not None
        total = self.weights.totals(own)
        sampled = np.bincount(codes[only], own[only], minlength=K)
        return only, np.divide(total, sampled, out=np.ones(K), where=sampled > 0)


def leave_one_out(
    settings: FitSettings, moments: TwinMoments, planes: Planes, classes: Array
) -> LeaveOneOut:
    """Prepare planes and the moments they were fitted to for leave-one-out."""
    m = apply_class_weight(settings, moments, classes)
    penalties = settings.penalties(classes)
    alpha = ridge(settings, m.own)
    return LeaveOneOut(planes, m.own, m.slack, penalties, alpha, settings.uses_kernel)


class RowSpaceLoo:
    """Leave-one-out (or leave-one-group-out) plane values, computed in the row space.

    Leaving a row out changes only the planes of pairs with its class, so that the tables
    (n, n_planes) of values and norms are sparse. Missing entries are the in-sample values.
    """

    def __init__(
        self,
        settings: FitSettings,
        rows: Rows,
        weights: RowWeights,
        planes: Planes,
        *,
        norms: bool,
    ) -> None:
        coef = np.empty(planes.coef.shape)
        intercept = np.empty(planes.intercept.shape)
        entries: list[tuple[Array, ...]] = []  # row, plane, value, norm
        for space, model in _refit_in_row_space(settings, rows, weights, planes):
            at = space.at
            refitted = model.planes
            coef[at], intercept[at] = space.features.columns(
                space.X, refitted.coef, refitted.intercept
            )
            plane_index = np.arange(len(coef))[at]
            for block in model.values(
                space.features.Z, space.weights, norms=norms, groups=space.groups
            ):
                index = space.rows[block.index]
                row = np.tile(index, len(plane_index))
                plane = np.repeat(plane_index, len(index))
                lengths = block.f if block.norms is None else block.norms  # f: unused placeholder
                entries.append((row, plane, block.f.ravel(), lengths.ravel()))
        row, plane, *values = map(np.concatenate, zip(*entries, strict=True))
        shape = (len(rows), len(coef))
        self.tables = [sparse.csr_array((part, (row, plane)), shape=shape) for part in values]
        self.X = rows.X
        self.weights = weights
        self.norms = norms
        self.planes = replace(planes, coef=coef, intercept=intercept)

    def values(self, only: Array | None) -> Iterator[LooValues]:
        """Yield leave-one-out values in blocks, as `LeaveOneOut.values` does."""
        planes = self.planes
        n = self.X.shape[0]
        norms = plane_norms(planes.coef)
        size = max(MIN_ROWS, BLOCK_NUMBERS // max(planes.coef.shape))
        for index, _, _ in self.weights.blocks(planes.classes, only, None, n, size):
            f = np.ascontiguousarray(plane_values(self.X[index], planes.coef, planes.intercept).T)
            lengths = np.repeat(norms[:, None], f.shape[1], axis=1)
            for in_sample, loo_table in zip((f, lengths), self.tables, strict=True):
                loo = loo_table[index].tocoo()
                in_sample[loo.col, loo.row] = loo.data
            yield LooValues(index, f, lengths if self.norms else None)


class RowSpace(NamedTuple):
    """The rows that a set of planes uses, and their moments in the row space."""

    at: slice  # the planes
    pair: list[int] | None  # the classes of the planes of a pair, None for all classes
    rows: Array  # indices
    groups: Array | None  # of these rows
    X: Any
    features: RowFeatures
    weights: RowWeights
    own: ClassMoments
    slack: ClassMoments

    def crisp_grid(self, Cs: Array, alphas: Array, **options: Any) -> tuple[Array, Array]:
        """Solve for the planes of every alpha and C (see `core.planes.crisp_grid`), in columns."""
        coef, intercept = crisp_grid(self.own, self.slack, Cs, alphas, **options)
        flat = coef.reshape(-1, coef.shape[-1])
        w, b = self.features.columns(self.X, flat, intercept.ravel())
        return w.reshape(*intercept.shape, -1), b.reshape(intercept.shape)


def row_spaces(rows: Rows, weights: RowWeights) -> Iterator[RowSpace]:
    """Yield the row space of each pair of classes, or that of all rows."""
    codes: Any = weights.codes
    groups = rows.groups
    K = weights.n_classes
    in_pairs = codes is not None and K > 2
    pairs: Any = plane_classes(K)[::2].tolist() if in_pairs else [None]
    for number, pair in enumerate(pairs):
        at = slice(None)
        index = np.arange(len(rows))
        X = rows.X
        pair_weights = weights
        if pair is not None:
            at = slice(2 * number, 2 * number + 2)
            index = np.flatnonzero(np.isin(codes, pair))
            if groups is not None:  # a group may have rows of other classes
                index = np.flatnonzero(np.isin(groups, groups[index]))
            X = rows.X[index]
            pair_weights = weights.of_pair(index, *pair)
        features = _row_fit.row_features(replace(rows, X=X))
        pair_groups = None if groups is None else groups[index]
        own, slack = pair_weights.moments(features.Z, groups=pair_groups)
        yield RowSpace(at, pair, index, pair_groups, X, features, pair_weights, own, slack)


def _refit_in_row_space(
    settings: FitSettings,
    rows: Rows,
    weights: RowWeights,
    planes: Planes,
) -> Iterator[tuple[RowSpace, LeaveOneOut]]:
    """Fit the planes again in the row space.

    A ValueError is raised if they differ from those of the model, or if alpha is 0 or lost to
    rounding.
    """
    if settings.alpha == 0:
        raise ValueError(_no_ridge_message(settings))
    choose_solver(replace(settings, solver="gram"), rows)
    alpha = _row_fit.ridge_of_rows(settings, rows, weights)
    C = settings.penalties(rows.classes)
    for space in row_spaces(rows, weights):
        Z = space.features.Z
        own = space.own
        slack = space.slack
        penalties = C if space.pair is None else C[space.pair]
        refitted = crisp_planes(own, slack, penalties, alpha)
        f = plane_values(Z, refitted.coef, refitted.intercept)
        f -= plane_values(space.X, planes.coef[space.at], planes.intercept[space.at])
        if np.abs(f).max() > SAME_VALUES:
            heaviest = max(weights.own.max(), C.max() * weights.slack.max())
            # As in `core.row_space`: the ridge is lost in the rounding of the Gram matrix.
            if alpha <= rank_tol(len(rows)) * heaviest * float((Z * Z).sum()):
                raise ValueError(_no_ridge_message(settings))
            raise ValueError(
                "the planes of these rows are not those of the model; give the rows, weights and "
                "degrees of the fit, with its parameters."
            )
        yield space, LeaveOneOut(refitted, own, slack, penalties, alpha)


def _no_ridge_message(settings: FitSettings) -> str:
    return (
        f"leave-one-out with alpha={settings.alpha!r}, which is zero or lost to rounding, needs "
        "moments, which this model was fitted without; fit with solver='moments', or set a larger "
        "alpha."
    )
