"""What planes give for rows that they never saw: memberships, probabilities, scores of sets.

Functions of validated rows, frozen settings, moments and planes, as in `fitting`.
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
from fuzzytwin.core.hashing import group_sums, row_hashes, unit_keys
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.core.planes import Planes, crisp_planes, plane_classes, rank_tol
from fuzzytwin.core.row_space import RowFeatures
from fuzzytwin.core.weights import RowWeights, mean_weight
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._calibration import CALIBRATIONS, Calibration, needs_rows
from fuzzytwin.twin._fit import apply_class_weight, ridge, row_weights
from fuzzytwin.twin._loo_systems import LeaveOneOut, LooValues
from fuzzytwin.twin._settings import FitSettings

# Indices of some rows, and values and effective distances (n_planes, m) of planes without them.
LooDistances = tuple[Any, Array, Array]
# This many rows of a class tell all there is to tell about four coefficients and a quantile.
MOST_ROWS = 10_000
# Values of all rows by all planes are kept while they are no more than this; others are computed
# twice.
MOST_VALUES = 1 << 23
# A block of rows has at least this many.
FEWEST_ROWS = 128
# Values of planes, which are -1 on rivals, may differ by this when they are found again.
SAME_VALUES = 1e-3
# Relevances that scores are computed with are learned without one of this many parts of the rows.
FOLDS = 10


class LooEvaluator:
    """The rows of a fit, each with the values of planes that were learned without it.

    ``mu`` are the degrees of the rows; planes, moments and phi what the fit found. Without moments,
    planes are found again in the space of their rows. The rows of a group (one code for each row)
    are left out together.
    """

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
        self.settings, self.rows, self.mu, self.planes = settings, rows, mu, planes
        self.moments, self.groups, self.Z = moments, groups, fitting.features(rows.X, phi)
        self.weights = row_weights(settings, rows, mu)
        self.known: RowsLeftOut | None = None

    def distances(self, only: Array | None = None) -> Iterator[LooDistances]:
        """Compute values of and distances to the planes, in blocks of rows; None: all rows."""
        settings, classes, planes = self.settings, self.rows.classes, self.planes
        width: Any = planes.width_coef, planes.width_intercept
        same: Any = {"norms": settings.rule == "distance", "groups": self.groups}
        if self.moments is not None:
            model = leaving_out(settings, self.moments, planes, classes)
            blocks = model.values(self.Z, self.weights, only=only, names=classes, **same)
        else:
            if self.known is None:
                self.known = RowsLeftOut(settings, self.rows, self.weights, planes, **same)
            blocks = self.known.values(only)
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
        for index, _, a in self.distances():
            u[index] = memberships_of(a, K).T
        return u

    def calibrate(self) -> Calibration:
        """Fit log odds of pairs of classes to the values of the planes, and score the rows.

        How strange a row is with a label is one minus its probability. Weights are in units of what
        is left out together, a row or its group: the effective number of these is what counts. Of
        classes with more than `MOST_ROWS` rows, that many are used, by their content, and weigh as
        much as all.
        """
        K, n, s = self.weights.n_classes, len(self.rows), self.rows.weight
        given = np.ones(n) if s is None else s  # weights without class weights
        if self.weights.codes is None and self.mu is not None:  # soft labels
            given = given[:, None] * self.mu
        of_row = given if given.ndim == 1 else given.sum(axis=1)
        unit = mean_weight(of_row, self.groups)
        left = np.ones(n)  # what is left out with a row, in rows like it
        if self.groups is not None:
            of_group = np.bincount(self.groups, of_row)
            left = np.divide(of_group[self.groups], of_row, out=np.ones(n), where=of_row > 0)
        only, share = self._sample()
        blocks: Callable[[], Iterator[LooDistances]] = partial(self._blocks, only)
        if (n if only is None else len(only)) * len(self.planes.coef) <= MOST_VALUES:
            blocks = partial(iter, list(blocks()))

        def by_class(weight: Any, index: Any) -> Array:
            """Return weights of some rows in every class, (K, m)."""
            if self.weights.codes is None:
                return weight[index].T / unit
            mine = self.weights.codes[index] == np.arange(K)[:, None]
            return mine * weight[index] * (share / unit)[:, None]

        totals = _totals(self.settings, self.rows, self.mu)
        factors = class_factors(self.settings.class_weight, totals, self.rows.classes)
        own = self.weights.own * (totals.sum() / (totals @ factors))  # class weights of mean 1
        fit = CALIBRATIONS[str(self.settings.calibration)].fit
        found = fit((f, a, by_class(own, index)) for index, f, a in blocks())
        found = _with_factors(found, self.settings, totals, self.rows.classes)
        scores = []
        for index, f, a in blocks():
            left_out = by_class(own, index) * left[index]
            P = found.unweighted(found.weighted(f, a, K, left_out))
            weight = by_class(given, index)
            k, row = np.nonzero(weight)
            group = [] if self.groups is None else [self.groups[index][row]]
            scores.append(np.column_stack([1 - P[k, row], k, weight[k, row], *group]))
        joined = np.concatenate(scores)
        return replace(found, conformity_scores=joined[np.argsort(joined[:, 0], kind="stable")])

    def _sample(self) -> tuple[Array | None, Array]:
        """Choose rows, and by what the weights of each class are multiplied to be all of it."""
        codes, K = self.weights.codes, self.weights.n_classes
        if codes is None or (np.bincount(codes, minlength=K) <= MOST_ROWS).all():
            return None, np.ones(K)
        weight = np.ones(len(codes)) if self.rows.weight is None else self.rows.weight
        keys = unit_keys(self.rows.X, codes, weight, self.groups)
        order = np.argsort(keys, kind="stable")
        chosen = [order[codes[order] == k][:MOST_ROWS] for k in range(K)]
        only = np.sort(np.concatenate(chosen))
        own = self.weights.own
        assert own is not None
        total, used = self.weights.totals(own), np.bincount(codes[only], own[only], minlength=K)
        return only, np.divide(total, used, out=np.ones(K), where=used > 0)

    def _blocks(self, only: Array | None) -> Iterator[LooDistances]:
        """Compute `distances`; learned relevances are those of planes that never saw the row."""
        if self.settings.relevance is None:
            yield from self.distances(only)
            return
        settings = replace(self.settings, random_state=0)
        fold = folds(self.rows, self.groups)
        for number in np.unique(fold).tolist():
            others = self.rows.take(np.flatnonzero(fold != number))
            phi = fitting.landmark_map(settings, others)
            Z = fitting.features(self.rows.X, phi)
            moments = fitting.twin_moments(settings, self.rows, Z, self.mu)
            planes = fitting.solve(settings, moments, self.rows.classes)
            held_out = LooEvaluator(settings, self.rows, self.mu, planes, moments, phi, self.groups)
            mine = np.flatnonzero(fold == number)
            mine = mine if only is None else np.intersect1d(mine, only)
            if len(mine):
                yield from held_out.distances(mine)


def folds(rows: Rows, groups: Array | None) -> Array:
    """Give each row one of `FOLDS` numbers by its content, evenly in every class.

    Equal rows of a class, and rows of a group, have the same; rows of weight 0 change no other.
    """
    keys, codes = row_hashes(rows.X), rows.codes
    if groups is not None:
        some = slice(None) if rows.weight is None else rows.weight > 0
        sums, low, high = np.zeros(groups.max() + 1, keys.dtype), *_span(codes, groups, some)
        found = group_sums(keys[some], groups[some])
        sums[: len(found)] = found
        # Groups of several classes are a stratum of their own.
        keys, codes = sums[groups], np.where(low == high, low, -1)[groups]
    fold = np.empty(len(codes), dtype=np.intp)
    for k in np.unique(codes):
        own = np.flatnonzero(codes == k)
        counted = own if rows.weight is None else own[rows.weight[own] > 0]
        fold[own] = np.searchsorted(np.unique(keys[counted]), keys[own]) % FOLDS
    return fold


def _span(codes: Array, groups: Array, some: Any) -> tuple[Array, Array]:
    """Find the lowest and the highest code of some of the rows of each group."""
    n = int(groups.max()) + 1
    low, high = np.full(n, codes.max() + 1, dtype=np.intp), np.full(n, -1, dtype=np.intp)
    np.minimum.at(low, groups[some], codes[some])
    np.maximum.at(high, groups[some], codes[some])
    return low, high


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
    if needs_rows(settings.calibration):
        if rows is None:
            raise ValueError(
                f"calibration={settings.calibration!r} needs all rows at once, which moments do "
                "not hold; use calibration='moments' or None, or fit on all rows."
            )
        return LooEvaluator(settings, rows, mu, planes, moments, phi, groups).calibrate()
    fit = CALIBRATIONS[str(settings.calibration)].fit
    if moments is not None:
        found, totals = fit(leaving_out(settings, moments, planes, classes)), moments.own.weight
    else:
        assert rows is not None
        weights, totals = row_weights(settings, rows, mu), _totals(settings, rows, mu)
        parts = [fit(model) for _, model in _found_again(settings, rows, weights, planes)]
        coef, intercept = zip(*((part.coef, part.intercept) for part in parts), strict=True)
        found = Calibration(np.concatenate(coef), np.concatenate(intercept))
    return _with_factors(found, settings, totals, classes)


def _totals(settings: FitSettings, rows: Rows, mu: Array | None) -> Array:
    """Add up the weights of the classes, without class weights."""
    plain = row_weights(replace(settings, class_weight=None), rows, mu)
    return plain.totals(plain.own)


def _with_factors(
    found: Calibration, settings: FitSettings, totals: Array, classes: Array
) -> Calibration:
    """Add the class weights, where there are any, to a calibration that is to undo them."""
    if settings.class_weight is None:
        return found
    return replace(found, class_weight=class_factors(settings.class_weight, totals, classes))


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
    return LeaveOneOut(planes, m.own, m.slack, penalties, alpha, settings.uses_kernel)


class RowsLeftOut:
    """Values of planes without each row, or its group, found in the space of the rows they use.

    Rows of other classes have the values of the planes as they are, so that little is kept of pairs
    of many classes: tables (n, n_planes) of values and norms are sparse.
    """

    def __init__(
        self, settings: FitSettings, rows: Rows, weights: RowWeights, planes: Planes,
        *, norms: bool, groups: Array | None,
    ) -> None:  # fmt: skip
        coef, intercept = np.empty(planes.coef.shape), np.empty(planes.intercept.shape)
        left: list[tuple[Array, ...]] = []
        for part, model in _found_again(settings, rows, weights, planes, groups):
            found, at = model.planes, part.at
            together = None if groups is None else groups[part.rows]
            coef[at], intercept[at] = part.features.columns(part.X, found.coef, found.intercept)
            numbers = np.arange(len(coef))[at]
            for block in model.values(part.features.Z, part.weights, norms=norms, groups=together):
                index = part.rows[block.index]
                lengths = block.f if block.norms is None else block.norms
                places = np.tile(index, len(numbers)), np.repeat(numbers, len(index))
                left.append((*places, block.f.ravel(), lengths.ravel()))
        row, plane, *values = map(np.concatenate, zip(*left, strict=True))
        shape = (len(rows), len(coef))
        self.tables = [sparse.csr_array((part, (row, plane)), shape=shape) for part in values]
        self.X, self.weights, self.norms = rows.X, weights, norms
        self.planes = replace(planes, coef=coef, intercept=intercept)

    def values(self, only: Array | None) -> Iterator[LooValues]:
        """Yield what `LeaveOneOut.values` does."""
        planes, n = self.planes, self.X.shape[0]
        norms, size = (
            plane_norms(planes.coef),
            max(FEWEST_ROWS, BLOCK_NUMBERS // max(planes.coef.shape)),
        )
        for index, _, _ in self.weights.blocks(planes.classes, only, None, n, size):
            f = np.ascontiguousarray(plane_values(self.X[index], planes.coef, planes.intercept).T)
            lengths = np.repeat(norms[:, None], f.shape[1], axis=1)
            for table, left in zip((f, lengths), self.tables, strict=True):
                some = left[index].tocoo()
                table[some.col, some.row] = some.data
            yield LooValues(index, f, lengths if self.norms else None)


class RowSpace(NamedTuple):
    """The rows that some planes use, and their moments in as few dimensions as there are rows."""

    at: slice  # the planes
    pair: list[int] | None  # their classes, of pairs
    rows: Array
    X: Any
    features: RowFeatures
    weights: RowWeights
    own: ClassMoments
    slack: ClassMoments


def row_spaces(
    settings: FitSettings, rows: Rows, weights: RowWeights, groups: Array | None = None
) -> Iterator[RowSpace]:
    """Yield the space of the rows of each pair of classes, or that of all rows."""
    codes: Any = weights.codes
    K = weights.n_classes
    in_pairs = codes is not None and settings.multi_class == "ovo" and K > 2
    pairs: Any = plane_classes(K, "ovo")[::2].tolist() if in_pairs else [None]
    for number, pair in enumerate(pairs):
        at, index, X, some = slice(None), np.arange(len(rows)), rows.X, weights
        if pair is not None:
            at = slice(2 * number, 2 * number + 2)
            index = np.flatnonzero(np.isin(codes, pair))
            if groups is not None:  # a group may have rows of other classes
                index = np.flatnonzero(np.isin(groups, groups[index]))
            X, some = rows.X[index], weights.of_pair(index, *pair)
        features = fitting.row_features(replace(rows, X=X))
        together = None if rows.groups is None else rows.groups[index]
        moments = some.moments(features.Z, groups=together)
        yield RowSpace(at, pair, index, X, features, some, *moments)


def _found_again(
    settings: FitSettings, rows: Rows, weights: RowWeights, planes: Planes,
    groups: Array | None = None,
) -> Iterator[tuple[RowSpace, LeaveOneOut]]:  # fmt: skip
    """Find planes again in the space of the rows that they use.

    A ValueError is raised where they are not those of the fit, or cannot be found.
    """
    if settings.alpha == 0:
        raise ValueError(_no_ridge(settings))
    fitting.choose_solver(replace(settings, solver="gram"), rows)
    alpha, C = fitting.ridge_of_rows(settings, rows, weights), settings.penalties(rows.classes)
    for space in row_spaces(settings, rows, weights, groups):
        Z, (own, slack) = space.features.Z, space[-2:]
        penalties = C if space.pair is None else C[space.pair]
        found = crisp_planes(own, slack, penalties, alpha, multi_class=settings.multi_class)
        f = plane_values(Z, found.coef, found.intercept)
        f -= plane_values(space.X, planes.coef[space.at], planes.intercept[space.at])
        if np.abs(f).max() > SAME_VALUES:
            heaviest = max(weights.own.max(), C.max() * weights.slack.max())
            # As in `core.gram`, where the ridge is lost in the rounding of the Gram matrix.
            if alpha <= rank_tol(len(rows)) * heaviest * float((Z * Z).sum()):
                raise ValueError(_no_ridge(settings))
            raise ValueError(
                "the planes of these rows are not those of the model; give the rows, weights and "
                "degrees of the fit, with its parameters."
            )
        yield space, LeaveOneOut(found, own, slack, penalties, alpha)


def _no_ridge(settings: FitSettings) -> str:
    return (
        f"leaving rows out with alpha={settings.alpha!r}, which is zero or lost in rounding, "
        "needs moments, which this model was fitted without; fit with solver='moments', or "
        "give a larger alpha."
    )
