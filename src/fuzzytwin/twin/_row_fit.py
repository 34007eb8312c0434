"""Compute planes from rows, by "gram" or "iterative", if moments have too many columns."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin._rows import Rows, raise_overflow
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core import solvers
from fuzzytwin.core.planes import Planes
from fuzzytwin.core.row_space import RowFeatures
from fuzzytwin.core.solvers import ClassMeans
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.memberships import CenterMembership
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin._settings import FitSettings


def fit_rows(settings: FitSettings, rows: Rows, solver: str) -> tuple[Array | None, Planes]:
    """Compute degrees (see `degrees`) and planes by a solver that needs the rows."""
    mu, _ = fitting.degrees(settings, rows, rows.X, solver=solver)
    weights = fitting.row_weights(settings, rows, mu)
    fitting.check_opposing_weight(weights.totals(weights.slack))
    alpha = ridge_of_rows(settings, rows, weights)
    crisp, error = solvers.crisp_planes(
        solver,
        rows.X,
        weights,
        settings.penalties(rows.classes),
        alpha,
        tol=fitting.ITERATIVE_TOL,
    )
    if not (np.isfinite(crisp.coef).all() and np.isfinite(crisp.intercept).all()):
        raise_overflow(rows)
    warn_unless_converged(solver, error)
    fitting.warn_ill_conditioned(crisp, alpha)
    return mu, crisp


def row_features(rows: Rows, *, centred: bool = True) -> RowFeatures:
    """Compute row-space features: at most as many columns as rows, with the same distances."""
    features = RowFeatures.of(rows.X, centred=centred)
    if not np.isfinite(features.Z).all():
        raise_overflow(rows)
    return features


def ridge_of_rows(settings: FitSettings, rows: Rows, weights: RowWeights) -> float:
    """Compute the ridge from weighted rows, as `fitting.ridge` does from moments."""
    if settings.alpha != "auto":
        return float(settings.alpha)
    scatter, sizes = np.zeros((2, rows.X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for codes, v in _hard_labels(rows, weights):
            means = ClassMeans.from_rows(rows.X, codes, v, weights.n_classes)
            scatter += means.column_scatter()
            sizes = np.maximum(sizes, np.abs(means.mean).max(axis=0))
    if not np.isfinite(scatter).all():
        raise_overflow(rows)
    size = fitting.auto_ridge(settings, scatter / float(weights.own.sum()), sizes)
    return size * weights.mean_own_weight(rows.groups)


def scatter_of_rows(rows: Rows, weights: RowWeights) -> float:
    """Return the weighted sum of squared distances of rows from the means of their classes."""
    X = rows.X
    scatter = 0.0
    for codes, v in _hard_labels(rows, weights):
        means = ClassMeans.from_rows(X, codes, v, weights.n_classes)
        scatter += float(v @ CenterMembership().distance(X, codes, means) ** 2)
    if not np.isfinite(scatter):
        raise_overflow(rows)
    return scatter


def _hard_labels(rows: Rows, weights: RowWeights) -> list[tuple[Array, Array]]:
    """Return labels and own weights of all rows: one pair, or one per class of soft labels."""
    if weights.codes is not None:
        return [(weights.codes, weights.own)]
    return [(np.zeros(rows.X.shape[0], dtype=np.intp), v) for v in weights.own.T]


def warn_unless_converged(solver: str, error: float) -> None:
    """Warn if the iterations stopped before the error was below `fitting.ITERATIVE_TOL`."""
    if error > fitting.ITERATIVE_TOL:
        warn_user(
            f"solver={solver!r} stopped with a relative error of up to {error:.1g}, above "
            f"{fitting.ITERATIVE_TOL:g}; scale the columns of X (MaxAbsScaler, "
            "StandardScaler(with_mean=False)), or set a larger alpha.",
            ConvergenceWarning,
        )
