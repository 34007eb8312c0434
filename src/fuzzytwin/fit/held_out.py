"""What planes give for rows that they never saw: memberships, probabilities, scores of sets.

Functions of validated rows, frozen settings, moments and planes, as in `fitting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.calibration import CALIBRATIONS, Calibration, mean_weight, needs_rows
from fuzzytwin.core.distances import (
    effective_distances,
    memberships_of,
    plane_ratio,
    plane_values,
)
from fuzzytwin.core.leave_one_out import LeaveOneOut, PairsLeftOut
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.planes import Planes, cutoff
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.fit import fitting
from fuzzytwin.fit.fitting import apply_class_weight, class_factors, ridge, row_weights
from fuzzytwin.fit.kernels import LandmarkMap
from fuzzytwin.fit.rows import Rows
from fuzzytwin.fit.settings import FitSettings

# Indices of some rows, and values and effective distances (n_planes, m) of planes without them.
LooDistances = tuple[Any, Array, Array]
# This many rows of a class tell all there is to tell about four coefficients and a quantile.
MOST_ROWS = 10_000
# Values of all rows by all planes are kept while they are no more than this; others are computed
# twice.
MOST_VALUES = 1 << 23
# Values of planes, which are -1 on rivals, may differ by this when they are found again.
SAME_VALUES = 1e-3
# Relevances that scores are computed with are learned without one of this many parts of the rows.
FOLDS = 10


class HeldOut:
    """The rows of a fit, each with the values of planes that were learned without it.

    ``mu`` are the degrees of the rows; planes, moments and phi what the fit found. Without moments,
    planes are found again in the space of the rows, or of those of each pair of classes. The rows
    of a group (one code for each row) are left out together.
    """

    model: LeaveOneOut

    def __init__(
        self,
        settings: FitSettings,
        rows: Rows,
        mu: Array | None,
        planes: Planes,
        moments: TwinMoments | None,
        phi: LandmarkMap | None,
        groups: Array | None = None,
    ) -> None:
        self.weights = row_weights(settings, rows, mu)
        self.in_pairs = (
            moments is None
            and self.weights.codes is not None
            and (settings.multi_class == "ovo" and len(rows.classes) > 2)
        )
        self.Z = fitting.features(rows.X, phi)
        if moments is None and not self.in_pairs:
            self.Z, moments, planes = _in_row_space(settings, rows, mu, planes)
        self.settings, self.rows, self.mu, self.planes = settings, rows, mu, planes
        self.groups = groups
        self.left_out: dict[RowWeights, PairsLeftOut] = {}
        if moments is not None:
            self.model = leaving_out(settings, moments, planes, rows.classes)

    def distances(self, weights: RowWeights, only: Array | None = None) -> Iterator[LooDistances]:
        """Compute values of and distances to the planes, in blocks of rows; None: all rows."""
        width: Any = self.planes.width_coef, self.planes.width_intercept
        same: Any = {"norms": self.settings.rule == "distance", "groups": self.groups}
        if self.in_pairs:
            if weights not in self.left_out:
                self.left_out[weights] = _in_pairs(
                    self.settings, self.rows, weights, self.planes, same
                )
            blocks = self.left_out[weights].values(self.Z, weights, only)
        else:
            blocks = self.model.values(self.Z, weights, only=only, names=self.rows.classes, **same)
        for block in blocks:
            a = plane_ratio(np.abs(block.f), block.norms, axis=0)
            if width[0] is not None:
                g = plane_values(self.rows.X[block.index], *width, absolute=True).T
                a = effective_distances(a, plane_ratio(np.abs(g), block.norms, axis=0))
            yield block.index, block.f, a

    def memberships(self) -> Array:
        """Compute memberships, of shape (n, K)."""
        K = self.weights.n_classes
        u = np.empty((len(self.rows), K))
        for index, _, a in self.distances(self.weights):
            u[index] = memberships_of(a, K).T
        return u

    def calibrate(self) -> Calibration:
        """Fit log odds of pairs of classes to the values of the planes, and score the rows.

        How strange a row is with a label is one minus its probability. A row of weight s > 1
        stands for s rows, of which one is left out; with groups, the whole group is. Weights are
        in units of what is left out together, where rows weigh less than 1 or come in groups: the
        effective number of rows is what counts. Of classes with more than `MOST_ROWS` rows, that
        many are used, evenly spaced, and weigh as much as all.
        """
        K, n, s = self.weights.n_classes, len(self.rows), self.rows.weight
        given = np.ones(n) if s is None else s  # weights without class weights
        left = 1 / np.maximum(given, 1.0)  # what is left out of each row, in rows
        whole = self.groups is not None or (left == 1).all()  # groups are left out with all weight
        singles = replace(self.weights, part=None if whole else left)
        if self.weights.codes is None and self.mu is not None:  # soft labels
            given = given[:, None] * self.mu
        of_row = given if given.ndim == 1 else given.sum(axis=1)
        unit = min(1.0, mean_weight(of_row))
        if self.groups is not None:
            of_group = np.bincount(self.groups, of_row)
            unit = mean_weight(of_group)
            left = np.divide(of_group[self.groups], of_row, out=np.ones(n), where=of_row > 0)
        only, share = self._sample()
        blocks: Callable[[], Iterator[LooDistances]] = partial(self._blocks, singles, only)
        if (n if only is None else len(only)) * len(self.planes.coef) <= MOST_VALUES:
            blocks = partial(iter, list(blocks()))

        def by_class(weight: Any, index: Any) -> Array:
            """Return weights of some rows in every class, (K, m)."""
            if self.weights.codes is None:
                return weight[index].T / unit
            mine = self.weights.codes[index] == np.arange(K)[:, None]
            return mine * weight[index] * (share / unit)[:, None]

        fit = CALIBRATIONS[str(self.settings.calibration)].fit
        found = fit((f, a, by_class(self.weights.own, index)) for index, f, a in blocks())
        totals = given.sum(axis=0) if given.ndim == 2 else np.bincount(self.rows.codes, given, K)
        found = _with_factors(found, self.settings, totals, self.rows.classes)
        scores = []
        for index, f, a in blocks():
            left_out = by_class(self.weights.own, index) * left[index]
            P = found.unweighted(found.weighted(f, a, K, left_out))
            weight = by_class(given, index)
            k, row = np.nonzero(weight)
            scores.append(np.column_stack([1 - P[k, row], k, weight[k, row]]))
        joined = np.concatenate(scores)
        return replace(found, set_scores=joined[np.argsort(joined[:, 0], kind="stable")])

    def _sample(self) -> tuple[Array | None, Array]:
        """Choose rows, and by what the weights of each class are multiplied to be all of it."""
        codes, K = self.weights.codes, self.weights.n_classes
        if codes is None or (np.bincount(codes, minlength=K) <= MOST_ROWS).all():
            return None, np.ones(K)
        chosen = []
        for k in range(K):
            rows = np.flatnonzero(codes == k)
            some = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).round().astype(int)
            chosen.append(rows[some])
        only = np.sort(np.concatenate(chosen))
        own = self.weights.own
        assert own is not None
        total, used = self.weights.totals(own), np.bincount(codes[only], own[only], minlength=K)
        return only, np.divide(total, used, out=np.ones(K), where=used > 0)

    def _blocks(self, weights: RowWeights, only: Array | None) -> Iterator[LooDistances]:
        """Compute `distances`; learned relevances are those of planes that never saw the row."""
        if self.settings.relevance is None:
            yield from self.distances(weights, only)
            return
        settings = replace(self.settings, random_state=0)
        fold = folds(self.rows.codes, self.groups)
        for number in np.unique(fold).tolist():
            others = self.rows.take(np.flatnonzero(fold != number))
            phi = fitting.landmark_map(settings, others)
            Z = fitting.features(self.rows.X, phi)
            moments = fitting.twin_moments(settings, self.rows, Z, self.mu)
            planes = fitting.solve(settings, moments, self.rows.classes)
            held_out = HeldOut(settings, self.rows, self.mu, planes, moments, phi, self.groups)
            mine = np.flatnonzero(fold == number)
            mine = mine if only is None else np.intersect1d(mine, only)
            if len(mine):
                yield from held_out.distances(weights, mine)


def folds(codes: Array, groups: Array | None) -> Array:
    """Give each row one of `FOLDS` numbers, evenly in every class; rows of a group the same."""
    if groups is not None:
        return groups % FOLDS
    order, fold = np.argsort(codes, kind="stable"), np.empty(len(codes), dtype=np.intp)
    fold[order] = np.arange(len(codes)) % FOLDS
    return fold


def calibrate(
    settings: FitSettings,
    classes: Array,
    planes: Planes,
    moments: TwinMoments | None,
    rows: Rows | None = None,
    mu: Array | None = None,
    phi: LandmarkMap | None = None,
    groups: Array | None = None,
) -> Calibration:
    """Fit the calibration of the settings to moments, or to the rows of a fit."""
    by_rows = needs_rows(settings.calibration)
    if rows is not None and by_rows:
        return HeldOut(settings, rows, mu, planes, moments, phi, groups).calibrate()
    if rows is not None and moments is None:
        _, moments, planes = _in_row_space(settings, rows, mu, planes)
    if by_rows:
        raise ValueError(
            f"calibration={settings.calibration!r} needs all rows at once, which moments do not "
            "hold; use calibration='moments' or None, or fit on all rows."
        )
    assert moments is not None
    model = leaving_out(settings, moments, planes, classes)
    found = CALIBRATIONS[str(settings.calibration)].fit(model)
    return _with_factors(found, settings, moments.own.weight, classes)


def _with_factors(
    found: Calibration, settings: FitSettings, totals: Array, classes: Array
) -> Calibration:
    """Add the class weights, where there are any, to a calibration that is to undo them."""
    if settings.class_weight is None:
        return found
    return replace(found, class_weight=class_factors(settings, totals, classes))


def leaving_out(
    settings: FitSettings, moments: TwinMoments, planes: Planes, classes: Array
) -> LeaveOneOut:
    """Prepare planes, and the moments they were learned from, for leaving rows out."""
    if settings.printed:
        raise ValueError(
            f"formulation={settings.formulation!r} has no leave-one-out in closed form; use "
            "formulation='endpoints'."
        )
    m = apply_class_weight(settings, moments, classes)
    penalties = settings.penalties(classes)
    alpha = ridge(settings, m.own)
    return LeaveOneOut(planes, m.own, m.slack, penalties, alpha, settings.curved)


def _in_row_space(
    settings: FitSettings, rows: Rows, mu: Array | None, planes: Planes
) -> tuple[Array, TwinMoments, Planes]:
    """Compute features of the rows of a fit, their moments and the planes in these features.

    The planes are found again in the space of the rows, which must be those of the fit.
    """
    _refuse_no_ridge(settings, lost=settings.alpha == 0)
    fitting.choose_solver(replace(settings, solver="gram"), rows)
    Z = fitting.row_features(rows).Z
    moments = fitting.twin_moments(settings, rows, Z, mu)
    found = fitting.solve(settings, moments, rows.classes)
    f = plane_values(Z, found.coef, found.intercept)
    gap = np.abs(f - plane_values(rows.X, planes.coef, planes.intercept)).max()
    alpha = ridge(settings, apply_class_weight(settings, moments, rows.classes).own)
    weights = row_weights(settings, rows, mu)
    _refuse_other_planes(settings, rows, weights, alpha, gap, float((Z * Z).sum()))
    return Z, moments, found


def _in_pairs(
    settings: FitSettings, rows: Rows, weights: RowWeights, planes: Planes, same: dict[str, Any]
) -> PairsLeftOut:
    """Leave the rows of a fit out of the planes of pairs, found again in the space of their rows.

    The planes must be those of the fit.
    """
    _refuse_no_ridge(settings, lost=settings.alpha == 0)
    fitting.choose_solver(replace(settings, solver="gram"), rows)
    alpha = fitting.ridge_of_rows(settings, rows, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        found = PairsLeftOut.of(
            rows.X, weights, planes, settings.penalties(rows.classes), alpha, **same
        )
    if not np.isfinite(found.spread):
        fitting.refuse_overflow(rows)
    _refuse_other_planes(settings, rows, weights, alpha, found.gap, found.spread)
    return found


def _refuse_other_planes(
    settings: FitSettings, rows: Rows, weights: RowWeights, alpha: float, gap: float, spread: float
) -> None:
    """Raise a ValueError where planes, found again, have values that differ by such a gap.

    The ridge may have been lost in the rounding of the Gram matrix, whose trace is the spread, as
    in `core.gram`.
    """
    if gap <= SAME_VALUES:
        return
    heaviest = max(weights.own.max(), settings.penalties(rows.classes).max() * weights.slack.max())
    _refuse_no_ridge(settings, lost=bool(alpha <= cutoff(len(rows)) * heaviest * spread))
    raise ValueError(
        "the planes of these rows are not those of the model; give the rows, weights and "
        "degrees of the fit, with its parameters."
    )


def _refuse_no_ridge(settings: FitSettings, *, lost: bool) -> None:
    if lost:
        raise ValueError(
            f"leaving rows out with alpha={settings.alpha!r}, which is zero or lost in rounding, "
            "needs moments, which this model was fitted without; fit with solver='moments', or "
            "give a larger alpha."
        )
