"""Effects of columns on memberships or probabilities.

Pipelines are opened: effects are those of the prepared columns on the output of the classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._rows import check_weights
from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.core.distances import (
    effective_distances,
    fuzzy_distances,
    memberships_of,
    plane_norms,
)
from fuzzytwin.explain._names import last_step, unnamed_columns
from fuzzytwin.twin._prediction import NearestPlane

MAX_ROWS = 2000
MIN_ROWS = 50
MAX_WORK = 1e10  # multiplications, approximately; with many columns fewer rows are used
KERNEL_COST = 100  # of the kernels of a committee at one landmark, in columns


def column_effects(model: Any, X: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    r"""Compute how memberships change if a column rises by one standard deviation.

    For classifiers without memberships, such as a committee, probabilities are used instead.

    .. math:: E_{kj} = \frac{1}{n} \sum_i \Delta_{ijk}, \qquad
        S_{kj} = \frac{1}{n} \sum_i |\Delta_{ijk}|, \qquad
        \Delta_{ijk} = u_k(x_i + \tfrac12 s_j e_j) - u_k(x_i - \tfrac12 s_j e_j)

    with :math:`u_k` the membership in class k and :math:`s_j` the standard deviation of column
    j. The effect E is the mean slope of the membership times the standard deviation of the column.
    Unlike a coefficient of a plane, its sign gives the direction in which a column moves the
    prediction. The strength S disregards the direction. If it is much larger than the effect, the
    direction depends on the other columns. The effects of a column sum to 0 over the classes.

    Linear planes have a closed form, f(x + h e_j) = f(x) + h w_j, so one pass over the rows serves
    all columns. For kernels and other classifiers, every column is moved in turn.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        With `predict_membership` or `predict_proba`. In a pipeline the prepared columns are moved.
        A scaler does not change effects.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, preferably those that the model was fitted to.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.

    Returns
    -------
    effects, strengths : ndarray of shape (K, d)
        In the order of ``classes_`` and of the (prepared) columns.

    Notes
    -----
    Columns are moved one at a time, while columns that correlate with them stay as they are. If
    there are more than 2,000 rows, a fixed sample of them is used.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import column_effects
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> effects, strengths = column_effects(model, X)
    >>> effects[1].round(2)
    array([ 0.26, -0.01])
    """
    estimator, Z, w = _sampled(model, X, sample_weight)
    effects, strengths = np.zeros((2, len(estimator.classes_), Z.shape[1]))
    for j, change in _changes(estimator, Z, _deviations(Z, w)):
        effects[:, j], strengths[:, j] = w @ change, w @ np.abs(change)
    return effects, strengths


def column_correlations(model: Any, X: Any, sample_weight: Any = None) -> Array:
    """Correlate every column with the memberships that a model predicts.

    An effect moves one column and keeps the others, but a correlation includes columns that vary
    together with it. If columns carry nearly the same information, such as radius and area, the two
    can differ in sign: the model then uses the difference of the columns.

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
    >>> column_correlations(model, X)[1].round(2)
    array([0.91, 0.  ])
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
    # Values at landmarks are computed again for every column.
    committee = isinstance(estimator, FuzzyTwinCommittee)
    n_landmarks = estimator.landmarks_.shape[0] if committee else 0
    cost = n_landmarks * (d + KERNEL_COST) or d
    count = int(np.clip(MAX_WORK / (4 * d * cost), MIN_ROWS, MAX_ROWS))
    if len(kept) > count:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:count])
    return estimator, _dense(rows[kept]), w[kept] / w[kept].sum()


def row_effects(model: Any, X: Any, background: Any = None) -> Array:
    """Compute the effect of every column on the memberships of single rows.

    These are the Δ of `column_effects`: the change of the membership of a row in class k if column
    j rises by one standard deviation around its value.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        As for `column_effects`.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows to explain.
    background : array-like, data frame or sparse matrix, default=None
        Rows whose standard deviations are used, preferably the training rows; None for X.

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
    """Compute standard deviations, exactly 0 for constant columns."""
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
    with unnamed_columns():
        f, g = estimator.plane_values(Z)

    def moved(j: int, by: float) -> Array:
        widths = None
        if g is not None:
            more = np.abs(Z[:, j] + by) - np.abs(Z[:, j])
            widths = g + np.outer(more, estimator.width_coef_[:, j])
        a = effective_distances(*fuzzy_distances(f + by * coef[:, j], widths, norms))
        return memberships_of(a.T, K).T

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


def explain(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    top: int | None = None,
    *,
    label: Any = None,
    as_frame: bool = False,
) -> Any:
    """Explain a model: for each class, the effect of every column on the membership.

    Parameters
    ----------
    model : fitted classifier or Pipeline that ends in one
        In a pipeline the prepared columns are explained: "age", "town = Rom".
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, preferably those that the model was fitted to.
    y : array-like of shape (n,), default=None
        Their labels; None for those that the model predicts.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    top : int, default=None
        Number of columns for each class; None for all.
    label : object, default=None
        The class to explain; None for every class.
    as_frame : bool, default=False
        Whether to return a data frame.

    Returns
    -------
    list of dict, or DataFrame
        For each class, ready for JSON: "class", "vagueness" (mean width of its planes' values at
        its own rows, in units of the margin; 0 for crisp planes) and "columns", the strongest
        first, each with "name", "effect" and "strength" (see `column_effects`), "correlation"
        (see `column_correlations`) and "vagueness" (its part in that of the class; 0 for kernels).
        The data frame has a line for each class and column.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain import explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
    >>> explain(model, X, y)[2]["columns"][0]["name"]
    'petal length (cm)'
    >>> explain(model, X, y, top=2, label=2, as_frame=True)[["class", "name", "effect"]].round(2)
       class               name  effect
    0      2  petal length (cm)    0.23
    1      2   petal width (cm)    0.21
    """
    estimator, rows, names = last_step(model, X)
    with unnamed_columns():
        labels = estimator.predict(rows) if y is None else np.asarray(y)
    effects, strengths = column_effects(estimator, rows, sample_weight)
    correlations = column_correlations(estimator, rows, sample_weight)
    explained = []
    classes = estimator.classes_
    shown = range(len(classes)) if label is None else [class_to_show(classes, labels, label)]
    for k in shown:
        own = classes[k]
        vague, parts = _vagueness(estimator, rows, labels == own, k, len(names))
        order = np.argsort(-strengths[k], kind="stable")[:top]
        explained.append({
            "class": own.item() if isinstance(own, np.generic) else own,
            "vagueness": vague,
            "columns": [
                {
                    "name": names[j],
                    "effect": float(effects[k, j]),
                    "strength": float(strengths[k, j]),
                    "correlation": float(correlations[k, j]),
                    "vagueness": float(parts[j]),
                }
                for j in order
            ],
        })  # fmt: skip
    if not as_frame:
        return explained
    lines = [
        {"class": entry["class"], **column} for entry in explained for column in entry["columns"]
    ]
    return import_optional("pandas", None, "explain(as_frame=True)").DataFrame(lines)


def _vagueness(estimator: Any, X: Any, own: Array, k: int, d: int) -> tuple[float, Array]:
    """Mean width of the values of a class's planes at its own rows, and each column's part."""
    parts = np.zeros(d)
    if not hasattr(estimator, "width_coef_") or not own.any():
        return 0.0, parts
    planes = np.flatnonzero(estimator.plane_classes_[:, 0] == k)
    rows = X[own]
    with unnamed_columns():
        widths = estimator.fuzzy_distance(rows)[1][:, planes]
    norms = np.linalg.norm(estimator.coef_[planes], axis=1)
    if not hasattr(estimator, "landmark_map_"):
        size = np.asarray(abs(rows).mean(axis=0)).ravel()
        parts = estimator.width_coef_[planes].mean(axis=0) * size
    return float((widths * norms).mean()), parts


def class_to_show(classes: Any, labels: Any, label: Any = None) -> int:
    """Return the index of a class; None for the rarest one."""
    if label is None:
        return rarest([int((np.asarray(labels) == known).sum()) for known in classes])
    places = np.flatnonzero(np.asarray(classes) == label)
    if not len(places):
        known = ", ".join(repr(value) for value in np.asarray(classes).tolist()[:10])
        raise ValueError(f"label={label!r} is not a class of the model; valid labels are {known}.")
    return int(places[0])


def rarest(counts: list[int]) -> int:
    """Return the index of the class with the fewest rows, the last one of several."""
    return min(range(len(counts)), key=lambda k: (counts[k], -k))
