"""column_effects and row_effects; users find them in `fuzzytwin.explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array
from fuzzytwin.core.distances import (
    effective_distances,
    fuzzy_distances,
    memberships,
    plane_norms,
)
from fuzzytwin.core.pairs import pair_memberships
from fuzzytwin.estimators.nearest_plane import NearestPlane
from fuzzytwin.explain.steps import last_step, unnamed_columns
from fuzzytwin.rows import check_weights

MOST_ROWS = 2000
WORK = 1e10  # multiplications, about; with many columns fewer rows are looked at
FEWEST_ROWS = 50


def column_effects(model: Any, X: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    r"""Compute how memberships change as a column rises by one standard deviation.

    .. math:: E_{kj} = \frac{1}{n} \sum_i \Delta_{ijk}, \qquad
        S_{kj} = \frac{1}{n} \sum_i |\Delta_{ijk}|, \qquad
        \Delta_{ijk} = u_k(x_i + \tfrac12 s_j e_j) - u_k(x_i - \tfrac12 s_j e_j)

    with :math:`u_k` the membership in class k and :math:`s_j` the standard deviation of column
    j. The effect E is the mean slope of the membership times the deviation of the column, over
    one deviation about every row. Unlike a coefficient of a plane, its sign gives the direction
    in which a column moves the prediction. The strength S disregards the direction: where it
    exceeds the effect by far, the direction depends on the other columns. Over the classes the
    effects of a column sum to 0.

    Linear planes move in closed form, f(x + h e_j) = f(x) + h w_j, so one pass over the rows
    serves all columns; for curved planes and other classifiers every column is moved in turn.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        With `predict_membership` or `predict_proba`. Of a pipeline the prepared columns are
        moved; a scaler in front leaves effects as they are.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, best those that the model was fitted on.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.

    Returns
    -------
    effects, strengths : ndarray of shape (K, d)
        In the order of ``classes_`` and of the (prepared) columns.

    Notes
    -----
    Columns are moved one at a time; what moves together with them in the data stays where it is.
    Of many rows a sample of at most 2,000 is used, always the same one.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import column_effects
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> effects, strengths = column_effects(model, X)
    >>> bool(effects[1, 0] > 0.2 > 0.02 > abs(effects[1, 1]))
    True
    """
    estimator, Z, w = _sampled(model, X, sample_weight)
    effects, strengths = np.zeros((2, len(estimator.classes_), Z.shape[1]))
    for j, change in _changes(estimator, Z, _deviations(Z, w)):
        effects[:, j], strengths[:, j] = w @ change, w @ np.abs(change)
    return effects, strengths


def column_correlations(model: Any, X: Any, sample_weight: Any = None) -> Array:
    """Correlate every column with the memberships that a model gives.

    An effect moves one column and holds the others; a correlation lets columns move together as
    they do in the data. Where columns say nearly the same, such as radius and area, the two may
    differ in sign: the model then uses the difference of the columns.

    Parameters
    ----------
    model, X, sample_weight
        As for `column_effects`, whose sample of the rows is used.

    Returns
    -------
    ndarray of shape (K, d)
        0 for constant columns and memberships.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import column_correlations
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> bool(column_correlations(model, X)[1, 0] > 0.8)
    True
    """
    estimator, Z, w = _sampled(model, X, sample_weight)
    u = _moved_rows(estimator, Z)(0, 0.0)
    Z, u = Z - w @ Z, u - w @ u
    covariance = (w[:, None] * u).T @ Z
    size = np.outer(_deviations(u, w), _deviations(Z, w))
    return np.divide(covariance, size, out=np.zeros_like(covariance), where=size > 0)


def _sampled(model: Any, X: Any, sample_weight: Any) -> tuple[Any, Array, Array]:
    """Return the classifier, a sample of its rows, and their weights, which sum to 1."""
    estimator, rows, _ = last_step(model, X)
    n, d = rows.shape
    w = check_weights(sample_weight, n)
    w = np.ones(n) if w is None else w
    kept = np.flatnonzero(w > 0)
    if not len(kept):
        raise ValueError("X has no row of positive weight; give rows to compute effects at.")
    count = int(np.clip(WORK / (4 * d * d), FEWEST_ROWS, MOST_ROWS))
    if len(kept) > count:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:count])
    return estimator, _dense(rows[kept]), w[kept] / w[kept].sum()


def row_effects(model: Any, X: Any, background: Any = None) -> Array:
    """Compute the effect of every column on the memberships of single rows.

    The Δ of `column_effects`: how the membership of a row in class k changes as column j rises
    by one standard deviation about the row's value.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        As for `column_effects`.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows to explain.
    background : array-like, data frame or sparse matrix, default=None
        Rows whose standard deviations are used, best the training rows; by default X.

    Returns
    -------
    ndarray of shape (n, K, d)

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import row_effects
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> row_effects(model, [[0.1, 2.0]], background=X).shape
    (1, 2, 2)
    """
    estimator, rows, _ = last_step(model, X)
    others = rows if background is None else last_step(model, background)[1]
    Z, others = _dense(rows), _dense(others)
    if others.shape[1] != Z.shape[1]:
        raise ValueError(
            f"background has {others.shape[1]} columns, X has {Z.shape[1]}; give rows of one kind."
        )
    out = np.zeros((len(Z), len(estimator.classes_), Z.shape[1]))
    spread = _deviations(others, np.full(len(others), 1 / len(others)))
    for j, change in _changes(estimator, Z, spread):
        out[:, :, j] = change
    return out


def _dense(rows: Any) -> Array:
    return rows.toarray() if sparse.issparse(rows) else np.array(rows, dtype=np.float64)


def _deviations(Z: Array, w: Array) -> Array:
    """Compute standard deviations; those of constant columns are 0, whatever is rounded."""
    spread = np.sqrt(w @ (Z - w @ Z) ** 2)
    constant: Array = Z.max(axis=0) == Z.min(axis=0)
    return np.where(constant, 0.0, spread)


def _changes(estimator: Any, Z: Array, spread: Array) -> Iterator[tuple[int, Array]]:
    """Yield each column that varies, and the change (n, K) of memberships as it is moved."""
    linear = isinstance(estimator, NearestPlane) and not hasattr(estimator, "landmark_map_")
    moved = _moved_planes(estimator, Z) if linear else _moved_rows(estimator, Z)
    for j in np.flatnonzero(spread).tolist():
        yield j, moved(j, spread[j] / 2) - moved(j, -spread[j] / 2)


def _moved_planes(estimator: Any, Z: Array) -> Callable[[int, float], Array]:
    """Compute memberships with a column moved from plane values: f + h w_j, and widths alike."""
    K, coef = len(estimator.classes_), estimator.coef_
    norms = plane_norms(coef) if estimator.rule == "distance" else np.ones(len(coef))
    paired = K > 2 and len(coef) > K
    with unnamed_columns():
        f, g = estimator.plane_values(Z)

    def moved(j: int, by: float) -> Array:
        widths = None
        if g is not None:
            more = np.abs(Z[:, j] + by) - np.abs(Z[:, j])
            widths = g + np.outer(more, estimator.width_coef_[:, j])
        a = effective_distances(*fuzzy_distances(f + by * coef[:, j], widths, norms))
        return pair_memberships(a, K) if paired else memberships(a)

    return moved


def _moved_rows(estimator: Any, Z: Array) -> Callable[[int, float], Array]:
    """Compute memberships with a column moved by predicting again."""
    predict = getattr(estimator, "predict_membership", None) or estimator.predict_proba
    rows = Z.copy()

    def moved(j: int, by: float) -> Array:
        rows[:, j] = Z[:, j] + by
        with unnamed_columns():
            u: Array = predict(rows)
        rows[:, j] = Z[:, j]
        return u

    return moved
