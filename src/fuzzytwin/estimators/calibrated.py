"""Probabilities and sets of labels for new rows, by what planes say of rows they never saw."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.types import Array
from fuzzytwin.core import distances
from fuzzytwin.core.calibration import Calibration
from fuzzytwin.estimators.nearest_plane import NearestPlane
from fuzzytwin.held_out import HeldOut, set_members
from fuzzytwin.rows import Rows, validate_features
from fuzzytwin.settings import FitSettings


class CalibratedPlanes(NearestPlane):
    """Base of classifiers with a parameter `calibration`: see `FuzzyTwinSVC`."""

    calibration: str | None = None
    calibration_coef_: Array
    calibration_intercept_: Array
    calibration_parameters_: dict[str, Any]
    set_scores_: Array
    _fit_rows_: tuple[FitSettings, Rows, Array | None]

    def predict(self, X: Any) -> Array:
        """Predict the label of each row.

        It is the class of greatest membership or, with `calibration`, the most probable one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self._calibration() is None:
            return super().predict(X)
        labels: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Compute scores from `predict_proba`: memberships, or calibrated probabilities P.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes P_2 - P_1, in [-1, 1] and positive for ``classes_[1]``; for more P.
        """
        P = self.predict_proba(X)
        return P[:, 1] - P[:, 0] if len(self.classes_) == 2 else P

    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class; rows sum to 1.

        With ``calibration=None`` these are memberships (eq29), which are no calibrated
        probabilities; with "loo" and "moments" they are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        calibrated = self._calibration()
        if calibrated is None:
            return self.predict_membership(X)
        X, planes, K = validate_features(self, X), self._planes(), len(self.classes_)
        scaled = self._scaled_planes()
        P = np.empty((X.shape[0], K))

        def fill(here: slice, x: Any, z: Any) -> None:
            z = z[0 : z.shape[0]]  # features of landmarks are computed where they are sliced
            f = distances.plane_values(z, planes.coef, planes.intercept).T
            a = distances.plane_distances(x, z, scaled)
            P[here] = calibrated.probabilities(f, a, K).T

        self._read(X, planes, fill)
        return P

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        r"""Predict a set of labels for each row that holds the true one with a given probability.

        A label is in the set unless it would make the row stranger than all but a share
        1 - coverage of the rows of the fit. How strange a row is with a label is one minus its
        probability (`predict_proba`); for rows of the fit it is that of planes learned without
        the row (`loo_membership`), so that old and new rows are compared alike.

        This is the conformal jackknife. For exchangeable rows its coverage is that asked for up
        to the effect of a single row on the planes, which vanishes as rows grow in number
        (on breast cancer, pima and satimage, 200 splits each, it was 0.80, 0.90 and 0.95 to within
        0.004: ``python -m benchmarks sets``). It has no worst-case guarantee for few rows: there,
        one row can move the planes. Sets may be empty: such a row is strange with any label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        coverage : float, default=0.9
            Between 0 and 1.
        class_conditional : bool, default=False
            Compare with rows of the same class alone: then the coverage holds for every class,
            rare ones too, at the price of larger sets.

        Returns
        -------
        ndarray of bool of shape (n, K)
            Which labels, in the order of ``classes_``, are in the set.

        Raises
        ------
        ValueError
            Where the model was not fitted on rows by `fit` in this process: scores of rows are
            kept in the model, and in its files, with ``calibration="loo"`` only.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FuzzyTwinSVC(calibration="loo").fit(X[::2], y[::2])
        >>> sets = model.predict_set(X[1::2], coverage=0.9)
        >>> float(sets[range(75), y[1::2]].mean()) > 0.85
        True
        """
        number = isinstance(coverage, Real) and not isinstance(coverage, bool)
        if not number or not 0 < float(coverage) < 1:
            raise ValueError(
                f"coverage={coverage!r} is not allowed; give a number between 0 and 1."
            )
        check_is_fitted(self)
        scores = getattr(self, "set_scores_", None)
        if scores is None:
            scores = self._computed_scores()
        P = self.predict_proba(X)
        return set_members(scores, P, float(coverage), class_conditional=class_conditional)

    def _computed_scores(self) -> Array:
        """Compute the scores of the rows of the fit, if this model still knows them."""
        if not hasattr(self, "_fit_rows_"):
            raise ValueError(
                "predict_set needs the scores of the rows of a fit, which this model does not "
                "have: it learned from moments (partial_fit, merge, forget, files), or was loaded "
                "or copied. Use fit with calibration='loo', which keeps them."
            )
        settings, rows, degrees = self._fit_rows_
        moments, phi = (getattr(self, name, None) for name in ("moments_", "landmark_map_"))
        held_out = HeldOut.of(settings, rows, degrees, self._planes(), moments, phi)
        return held_out.scores(self._calibration())

    def _calibration(self) -> Calibration | None:
        """Return the calibration; it must be of the parameters as they are now."""
        check_is_fitted(self)
        known = getattr(self, "calibration_parameters_", {"calibration": None})
        for name, before in known.items():
            now = getattr(self, name)
            if now != before:
                raise ValueError(
                    f"{name}={now!r} was {before!r} when the model was fitted; set it back or fit "
                    "again."
                )
        if known["calibration"] is None:
            return None
        return Calibration(self.calibration_coef_, self.calibration_intercept_)

    def _calibrated(self, found: Calibration | None) -> dict[str, Any]:
        """Collect the fitted attributes of a calibration."""
        if found is None:
            return {}
        parameters = {"calibration": self.calibration, "rule": self.rule}
        return {
            "calibration_coef_": found.coef,
            "calibration_intercept_": found.intercept,
            "calibration_parameters_": parameters,
        }

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fit_rows_"}
