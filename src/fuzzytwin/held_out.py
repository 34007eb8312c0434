"""What planes say about rows that they never saw: memberships, probabilities, scores.

Pure functions of validated rows, frozen settings, moments and planes, as in `fuzzytwin.fitting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core.calibration import Calibration, class_weights, from_rows
from fuzzytwin.core.distances import plane_values
from fuzzytwin.core.leave_one_out import (
    LeaveOneOut,
    LooDistances,
    combined,
    loo_distances,
)
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.row_weights import RowWeights
from fuzzytwin.fitting import apply_class_weight, class_factors, ridge, row_weights
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.rows import Rows
from fuzzytwin.settings import FitSettings

# So many rows of a class tell all there is to tell about four coefficients and a quantile.
MOST_ROWS = 10_000


class HeldOut:
    """The rows of a fit, each seen by planes that were learned without it.

    Parameters
    ----------
    settings : FitSettings
        Parameters of the fit.
    rows : Rows
        Its rows.
    Z : array-like of shape (n, r)
        Their features.
    mu : ndarray of shape (n,) or (n, K), or None
        Their degrees.
    moments, planes
        Its results.
    """

    def __init__(
        self,
        settings: FitSettings,
        rows: Rows,
        Z: Any,
        mu: Array | None,
        moments: TwinMoments,
        planes: Planes,
    ) -> None:
        self.settings, self.rows, self.Z, self.planes = settings, rows, Z, planes
        self.model = leaving_out(settings, moments, planes, rows.classes)
        self.weights = loo_weights(settings, rows, mu, moments)

    @classmethod
    def of(
        cls,
        settings: FitSettings,
        rows: Rows,
        mu: Array | None,
        planes: Planes,
        moments: TwinMoments | None,
        phi: LandmarkMap | None,
    ) -> HeldOut:
        """Hold out the rows of a fit; without moments, in the space of the rows."""
        if moments is None:
            Z, moments, planes = row_fitting.loo_features(settings, rows, mu, planes)
        else:
            Z = fitting.features(rows.X, phi)
        return cls(settings, rows, Z, mu, moments, planes)

    def distances(self, weights: RowWeights, only: Array | None = None) -> Iterator[LooDistances]:
        """Compute values of and distances to the planes, in blocks of rows; None: all rows."""
        blocks = self.model.values(
            self.Z, weights, norms=self.settings.rule == "distance", only=only,
            names=self.rows.classes,
        )  # fmt: skip
        width: Any = self.planes.width_coef, self.planes.width_intercept
        if width[0] is None:
            return loo_distances(blocks)
        return loo_distances(
            blocks, lambda index: plane_values(self.rows.X[index], *width, absolute=True)
        )

    def memberships(self) -> Array:
        """Compute memberships (eq29), of shape (n, K)."""
        K = self.weights.n_classes
        u = np.empty((len(self.rows), K))
        for index, _, a in self.distances(self.weights):
            u[index] = combined(a, K).T
        return u

    def calibrate(self) -> tuple[Calibration, Array]:
        """Fit log odds of pairs of classes to the values of the planes, and score the rows.

        A row of weight s > 1 stands for s rows, of which one is left out. Of classes with more
        than `MOST_ROWS` rows, that many are used, evenly spaced, and weigh as much as all.
        """
        only, share = self._sample()
        blocks = list(self.distances(self._singles(), only))
        found = from_rows(blocks, self.weights, share, len(self.planes.coef))
        return found, self._scores(blocks, share, found)

    def scores(self, calibrated: Calibration | None) -> Array:
        """List how strange rows are with their labels: one minus their probability.

        Returns
        -------
        ndarray of shape (m, 3)
            Score, class and weight (without class weights) of rows and each of their classes,
            where that weight is above zero; sorted by score.
        """
        only, share = self._sample()
        return self._scores(self.distances(self._singles(), only), share, calibrated)

    def _singles(self) -> RowWeights:
        """Return weights that leave out one of the rows that a row stands for, by its weight."""
        if self.rows.s is None or self.rows.s.max() <= 1:
            return self.weights
        return replace(self.weights, part=1 / np.maximum(self.rows.s, 1.0))

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
        total, used = self.weights.totals(self.weights.own), np.zeros(K)
        np.add.at(used, codes[only], self.weights.own[only])
        return only, np.divide(total, used, out=np.ones(K), where=used > 0)

    def _scores(
        self, blocks: Iterable[LooDistances], share: Array, calibrated: Calibration | None
    ) -> Array:
        K, codes, s = self.weights.n_classes, self.weights.codes, self.rows.s
        found = []
        singles = self._singles()
        for index, f, a in blocks:
            if calibrated is None:
                P = combined(a, K)
            else:
                fitted = class_weights(self.weights, index) * share[:, None]
                if singles.part is not None:
                    fitted *= singles.part[index]
                P = calibrated.probabilities(f, a, K, fitted)
            if codes is None:
                weight = self.weights.own[index].T
            else:
                weight = (codes[index] == np.arange(K)[:, None]) * share[:, None]
                weight = weight if s is None else weight * s[index]
            k, row = np.nonzero(weight)
            found.append(np.column_stack([1 - P[k, row], k, weight[k, row]]))
        scores = np.concatenate(found)
        return scores[np.argsort(scores[:, 0], kind="stable")]


def loo_weights(
    settings: FitSettings, rows: Rows, mu: Array | None, moments: TwinMoments
) -> RowWeights:
    """Collect the weights of rows, class weights included."""
    factor = class_factors(settings, moments.own, rows.classes)
    codes, *given = row_weights(settings, rows, mu)
    of_row = factor if codes is None else factor[codes]
    own = of_row if given[0] is None else given[0] * of_row
    slack = own if given[1] is given[0] else given[1] * of_row
    return RowWeights(codes, own, slack, len(rows.classes))


def leaving_out(
    settings: FitSettings, moments: TwinMoments, planes: Planes, classes: Array
) -> LeaveOneOut:
    """Prepare planes, and the moments they were learned from, for leaving rows out."""
    if settings.planes == "fuzzy" and settings.formulation != "endpoints":
        raise ValueError(
            f"formulation={settings.formulation!r} has no leave-one-out in closed form; use "
            "formulation='endpoints'."
        )
    m = apply_class_weight(settings, moments, classes)
    penalties = settings.penalties(classes)
    alpha = ridge(settings, m.own)
    return LeaveOneOut(planes, m.own, m.slack, penalties, alpha, settings.curved)


def set_members(scores: Array, P: Array, coverage: float, *, class_conditional: bool) -> Array:
    """Find the labels that are not too strange for each row.

    Label k is in the set where the share of rows (of class k, if class-conditional) that are at
    least as strange with their own label, the new row among them, exceeds 1 - coverage.

    Parameters
    ----------
    scores : ndarray of shape (m, 3)
        What `HeldOut.scores` returned.
    P : ndarray of shape (n, K)
        Probabilities of the rows to label.
    coverage : float
        Between 0 and 1.
    class_conditional : bool
        Whether to compare within each class.

    Returns
    -------
    ndarray of bool of shape (n, K)
    """
    found = np.empty(P.shape, dtype=bool)
    for k in range(P.shape[1]):
        own = scores[scores[:, 1] == k] if class_conditional else scores
        upto = np.concatenate([[0.0], np.cumsum(own[:, 2])])
        at_least = upto[-1] - upto[np.searchsorted(own[:, 0], 1 - P[:, k])]
        found[:, k] = (at_least + 1) / (upto[-1] + 1) > 1 - coverage
    return found
