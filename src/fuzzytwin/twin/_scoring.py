"""What the grids of a search share, and scores of points by metrics of all predictions."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._params import set_fitted_attributes
from fuzzytwin._rows import Rows
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import labels_of
from fuzzytwin.twin._grid import Grid, PointDistances, class_totals, point_memberships
from fuzzytwin.twin._metrics import roc_area
from fuzzytwin.twin._svc import FuzzyTwinSVC

Splits = list[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Search:
    """What the grids of all kernels share: rows, splits, scoring and selection."""

    shared: dict[str, Any]  # parameters that are the same at every point
    rows: Rows  # X holds row-space features if the solver is "gram"
    original: Rows
    splits: Splits  # of all rounds
    n_folds: int  # splits of one round
    scoring: Any  # the score by name, or a scorer
    scorer: Any
    selection: str
    by_loo: bool  # leave-one-out, or leave-one-group-out if rows have groups
    verbose: bool

    def model(self, point: dict[str, Any]) -> FuzzyTwinSVC:
        """Make the unfitted model of a point or grid, with its own copy of the random state."""
        state = copy.deepcopy(self.shared["random_state"])
        return FuzzyTwinSVC(**self.shared | point | {"random_state": state})


class StoredPredictions(FuzzyTwinSVC):
    """Model of one point that returns stored memberships of the test rows to a scorer.

    The scorer must pass all test rows, in their order.
    """

    memberships_: Array

    def predict_membership(self, X: Any) -> Array:
        """Return the memberships of all test rows."""
        if np.shape(X)[0] != len(self.memberships_):
            raise ValueError(
                f"the search predicts the {len(self.memberships_)} test rows at once, not "
                f"{np.shape(X)[0]}; give a scoring that scores all rows, or use GridSearchCV."
            )
        return self.memberships_

    def predict(self, X: Any) -> Array:
        """Return the labels of greatest membership."""
        return np.asarray(self.classes_[labels_of(self.predict_membership(X))])

    def predict_proba(self, X: Any) -> Array:
        """Return the memberships."""
        return self.predict_membership(X)

    def decision_function(self, X: Any) -> Array:
        """Return u_2 - u_1 for two classes, or the memberships for more."""
        u = self.predict_membership(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u


def score_points(
    search: Search,
    grid: Grid,
    m: int,
    blocks: Iterable[PointDistances],
    tests: Rows,
    scores: Array,
    brier: Array,
) -> None:
    """Fill in the scores and Brier scores of the points of membership m.

    `blocks` are the distances of the test rows. If the scorer fails at the first and at the last
    point, it is not called again.
    """
    K = grid.n_classes
    codes = tests.codes
    weight = tests.weights
    has_both_classes = K == 2 and bool(class_totals(codes, weight, K).all())
    points = grid.points()[m * scores.size : (m + 1) * scores.size]
    truth = np.eye(K)[codes]
    n_failed = 0
    for i, (point, u) in enumerate(point_memberships(grid, blocks, len(codes))):
        brier[point] = np.average(((u - truth) ** 2).sum(axis=1), weights=weight)
        if search.scoring == "roc_auc" and has_both_classes:
            scores[point] = roc_area(u[:, 1], codes, weight)
        elif i < 2 or n_failed < 2:
            params = points[int(np.ravel_multi_index(point, grid.shape))]
            scores[point] = score_predictions(search, params, u, tests)
            if i < 2:
                n_failed += bool(np.isnan(scores[point]))


def score_predictions(search: Search, params: dict[str, Any], u: Array, tests: Rows) -> float:
    """Score the memberships u (n, K) of the test rows by the scorer of the search.

    If that fails, the score is NaN, with a warning. Weights are passed on if there are any.
    """
    model = StoredPredictions(**search.model(params).get_params(deep=False))
    set_fitted_attributes(
        model,
        memberships_=u,
        classes_=tests.classes,
        n_features_in_=tests.X.shape[1],
        feature_names_in_=tests.names,
    )
    weights = {} if tests.weight is None else {"sample_weight": tests.weight}
    try:
        score = search.scorer(model, tests.X, tests.labels, **weights)
    except Exception as error:
        warn_user(f"Scoring failed; the score of this point on this split is NaN: {error}")
        return float("nan")
    try:
        return float(score)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scoring must return a number, not {score!r}.") from error
