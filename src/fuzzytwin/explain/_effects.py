"""Effects of columns on memberships or probabilities.

Pipelines are opened: effects are those of the prepared columns on the output of the classifier.
Numbers are moved by a standard deviation. Categories of a table are set to each of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
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
from fuzzytwin.core.hashing import content_order
from fuzzytwin.explain._names import OpenedModel, open_model, unnamed_columns
from fuzzytwin.twin._prediction import NearestPlane

MAX_ROWS = 2000
MIN_ROWS = 50
MAX_WORK = 1e10  # approximate number of multiplications, which limits the rows
KERNEL_COST = 100  # cost of a committee's kernels at one landmark, in columns


def column_effects(model: Any, X: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    r"""Compute how memberships change if a number rises, or a category has another value.

    Numbers rise by one standard deviation. For classifiers without memberships, such as a
    committee, probabilities are used instead.

    .. math:: E_{kj} = \frac{1}{n} \sum_i \Delta_{ijk}, \qquad
        S_{kj} = \frac{1}{n} \sum_i |\Delta_{ijk}|, \qquad
        \Delta_{ijk} = u_k(x_i + \tfrac12 s_j e_j) - u_k(x_i - \tfrac12 s_j e_j)

    with :math:`u_k` the membership in class k and :math:`s_j` the standard deviation of column
    j. The effect E is the mean slope of the membership times the standard deviation of the column.
    Unlike a coefficient of a plane, its sign gives the direction in which a column moves the
    prediction. The strength S disregards the direction. If it is much larger than the effect, the
    direction depends on the other columns. The effects of a column sum to 0 over the classes.

    A category that a `TablePreprocessor` prepared, or a column of two values, is set to each of its
    values instead. With :math:`u_k(x_i; v)` the membership if row i has the value v, and
    :math:`p_v` the share of rows with this value, the change is that from the other values to v:

    .. math:: \Delta_{ivk} = u_k(x_i; v) - \frac{1}{1 - p_v} \sum_{t \ne v} p_t\, u_k(x_i; t)

    Its strength is multiplied by the standard deviation :math:`\sqrt{p_v (1 - p_v)}` of having the
    value, so that it can be compared with the strength of a number, and rare values come last.

    Linear planes have a closed form, f(x + h e_j) = f(x) + h w_j, so one pass over the rows serves
    all columns. For kernels and other classifiers, every column is moved in turn.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        The classifier must have `predict_membership` or `predict_proba`. In a pipeline, the columns
        after the other steps are moved. A scaler does not change effects.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, preferably some that the model was not fitted to.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.

    Returns
    -------
    effects, strengths : ndarray of shape (K, d)
        In the order of ``classes_`` and of the (prepared) columns.

    Raises
    ------
    ValueError
        If the classifier has neither method, or no row has positive weight.

    Notes
    -----
    Columns are moved one at a time, while columns that correlate with them stay fixed. If there are
    more than 2,000 rows, a fixed sample of them is used.

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
    return _effects(*_sampled(open_model(model, X), sample_weight))


def _effects(opened: OpenedModel, w: Array) -> tuple[Array, Array]:
    """Compute effects and strengths (K, d) of a sample of rows."""
    Z = opened.rows
    effects, strengths = np.zeros((2, len(opened.estimator.classes_), Z.shape[1]))
    for j, change, scale in _changes(opened, Z, w):
        effects[:, j] = w @ change
        strengths[:, j] = scale * (w @ np.abs(change))
    return effects, strengths


def _correlations(opened: OpenedModel, w: Array) -> Array:
    """Correlate the columns of a sample of rows with its memberships, 0 for constant ones."""
    Z = opened.rows
    u = _memberships(opened.estimator, Z)
    Z = Z - w @ Z
    u = u - w @ u
    covariance = (w[:, None] * u).T @ Z
    size = np.outer(_deviations(u, w), _deviations(Z, w))
    return np.divide(covariance, size, out=np.zeros_like(covariance), where=size > 0)


def _sampled(opened: OpenedModel, sample_weight: Any) -> tuple[OpenedModel, Array]:
    """Return a sample of the rows, and their weights, which sum to 1."""
    n, d = opened.rows.shape
    w = check_weights(sample_weight, n)
    w = np.ones(n) if w is None else w
    sampled_rows = np.flatnonzero(w > 0)
    if not len(sampled_rows):
        raise ValueError("X has no row of positive weight; give rows to compute effects at.")
    # Values at landmarks are computed again for every column.
    estimator = opened.estimator
    committee = isinstance(estimator, FuzzyTwinCommittee)
    n_landmarks = estimator.landmarks_.shape[0] if committee else 0
    cost = n_landmarks * (d + KERNEL_COST) or d
    count = int(np.clip(MAX_WORK / (4 * d * cost), MIN_ROWS, MAX_ROWS))
    if len(sampled_rows) > count:
        order = content_order(opened.rows[sampled_rows])
        sampled_rows = np.sort(sampled_rows[order[:count]])
    w = w[sampled_rows]
    return replace(opened, rows=_dense(opened.rows[sampled_rows])), w / w.sum()


def row_effects(model: Any, X: Any, background: Any = None) -> Array:
    """Compute the effect of every column on the memberships of single rows.

    These are the Δ of `column_effects`: the change of the membership of a row in class k if column
    j rises by one standard deviation around its value, or if a category has a value instead of the
    others.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        As for `column_effects`.
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows to explain.
    background : array-like, data frame or sparse matrix, default=None
        Rows whose standard deviations and shares of categories are used, preferably the training
        rows. None for X.

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
    >>> row_effects(model, [[0.1, 2.0]], background=X)[0, 1].round(2)
    array([ 0.4 , -0.01])
    """
    opened = open_model(model, X)
    background_rows = opened.rows if background is None else open_model(model, background).rows
    Z = _dense(opened.rows)
    B = _dense(background_rows)
    if B.shape[1] != Z.shape[1]:
        raise ValueError(
            f"background has {B.shape[1]} columns and X has {Z.shape[1]}; give the same columns."
        )
    effects = np.zeros((len(Z), len(opened.estimator.classes_), Z.shape[1]))
    w = np.full(len(B), 1 / len(B))
    for j, change, _ in _changes(replace(opened, rows=Z), B, w):
        effects[:, :, j] = change
    return effects


def _dense(rows: Any) -> Array:
    return rows.toarray() if sparse.issparse(rows) else np.array(rows, dtype=np.float64)


def _deviations(Z: Array, w: Array) -> Array:
    """Compute standard deviations, exactly 0 for constant columns."""
    spread = np.sqrt(w @ (Z - w @ Z) ** 2)
    constant: Array = Z.max(axis=0) == Z.min(axis=0)
    return np.where(constant, 0.0, spread)


Move = Callable[[list[int], Array], Array]  # columns, and their new values -> memberships (n, K)


def _changes(
    opened: OpenedModel, background: Array, w: Array
) -> Iterator[tuple[int, Array, float]]:
    """Yield each column that varies, the change (n, K) of memberships, and the scale of strengths.

    The background determines which columns vary, and by how much they are moved.
    """
    estimator = opened.estimator
    Z = opened.rows
    linear = isinstance(estimator, NearestPlane) and not hasattr(estimator, "landmark_map_")
    move = _plane_mover(estimator, Z) if linear else _row_mover(estimator, Z)
    spread = _deviations(background, w)
    for j in np.flatnonzero(spread).tolist():
        if j not in opened.values:
            half = spread[j] / 2
            yield j, move([j], Z[:, [j]] + half) - move([j], Z[:, [j]] - half), 1.0
    for block in opened.categories.values():
        yield from _category_changes(move, block, background[:, block], w, len(Z))


def _category_changes(
    move: Move, block: list[int], background: Array, w: Array, n: int
) -> Iterator[tuple[int, Array, float]]:
    """Yield the column of each value of a category, the change (n, K) to this value, and a scale.

    The scale is the standard deviation of having the value.
    """
    values = np.eye(len(block))
    shares = w @ background
    column_of: list[int | None] = [*block]
    if len(block) == 1:  # two values, scaled: from the lower to the higher one
        values = np.array([background.min(axis=0), background.max(axis=0)])
        share = float(w @ (background[:, 0] == values[1, 0]))
        shares = np.array([1 - share, share])
        column_of = [None, *block]
    present = shares > 0
    if present.sum() < 2:
        return
    shares = shares / shares.sum()  # values that were not in training have no column
    moved = {v: move(block, np.tile(values[v], (n, 1))) for v in np.flatnonzero(present).tolist()}
    mean = sum(shares[v] * u for v, u in moved.items())
    for v, u in moved.items():
        if (j := column_of[v]) is not None:
            scale = float(np.sqrt(shares[v] * (1 - shares[v])))
            yield j, (u - mean) / (1 - shares[v]), scale


def _plane_mover(estimator: Any, Z: Array) -> Move:
    """Move columns by updating plane values, f + h w_j, and widths in the same way."""
    K = len(estimator.classes_)
    coef = estimator.coef_
    norms = plane_norms(coef) if estimator.rule == "distance" else np.ones(len(coef))
    with unnamed_columns():
        f, g = estimator.plane_values(Z)

    def move(columns: list[int], values: Array) -> Array:
        widths = None
        if g is not None:
            increase = np.abs(values) - np.abs(Z[:, columns])
            widths = g + increase @ estimator.width_coef_[:, columns].T
        moved = f + (values - Z[:, columns]) @ coef[:, columns].T
        a = effective_distances(*fuzzy_distances(moved, widths, norms))
        return memberships_of(a.T, K).T

    return move


def _row_mover(estimator: Any, Z: Array) -> Move:
    """Move columns by predicting again."""
    rows = Z.copy()

    def move(columns: list[int], values: Array) -> Array:
        rows[:, columns] = values
        u = _memberships(estimator, rows)
        rows[:, columns] = Z[:, columns]
        return u

    return move


def _memberships(estimator: Any, rows: Array) -> Array:
    """Predict memberships, or probabilities if there are none."""
    predict = getattr(estimator, "predict_membership", None) or estimator.predict_proba
    with unnamed_columns():
        u: Array = predict(rows)
    return u


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
    """Explain a model: for each class, list the effect of every column on the membership.

    Parameters
    ----------
    model : fitted classifier, or a pipeline or search that ends in one
        In a pipeline, the columns after the other steps are explained: "age", "town = Rome".
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, preferably some that the model was not fitted to.
    y : array-like of shape (n,), default=None
        Labels of the rows, None for those that the model predicts.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    top : int, default=None
        Number of columns for each class, None for all.
    label : object, default=None
        The class to explain, None for every class.
    as_frame : bool, default=False
        Whether to return a data frame.

    Returns
    -------
    list of dict, or DataFrame
        A dict for each class, which can be stored as JSON:

        - "class": the label.
        - "vagueness": mean width of its planes' values at its own rows, in units of the margin, 0
          for crisp planes.
        - "columns": a dict for each column, the strongest first, with "name", "effect" and
          "strength" (see `column_effects`), "correlation" (of the column with the membership) and
          "vagueness" (its contribution to that of the class, 0 for kernels). "column" is the column
          of X, "value" the value of a category, and "deviation" the standard deviation of a number.
          The last two are None if they do not apply. An effect moves one column and keeps the
          others, but a correlation includes columns that vary together with it. If columns carry
          nearly the same information, such as radius and area, the two can differ in sign.

        The data frame has a row for each class and column.

    Raises
    ------
    ValueError
        If the classifier has neither `predict_membership` nor `predict_proba`, or if `label` is not
        one of its classes.

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
    opened = open_model(model, X)
    estimator = opened.estimator
    rows = opened.rows
    with unnamed_columns():
        labels = estimator.predict(rows) if y is None else np.asarray(y)
    sample, w = _sampled(opened, sample_weight)
    effects, strengths = _effects(sample, w)
    correlations = _correlations(sample, w)
    changes = _described_changes(opened, X)
    explained = []
    classes = estimator.classes_
    shown = range(len(classes)) if label is None else [class_to_show(classes, labels, label)]
    for k in shown:
        own = classes[k]
        vagueness, by_column = _vagueness(estimator, rows, labels == own, k, len(opened.names))
        order = np.argsort(-strengths[k], kind="stable")[:top]
        columns = [
            {
                "name": opened.names[j],
                "effect": float(effects[k, j]),
                "strength": float(strengths[k, j]),
                "correlation": float(correlations[k, j]),
                "vagueness": float(by_column[j]),
                **changes[j],
            }
            for j in order
        ]
        name = own.item() if isinstance(own, np.generic) else own
        explained.append({"class": name, "vagueness": vagueness, "columns": columns})
    if not as_frame:
        return explained
    frame_rows = [
        {"class": entry["class"], **column} for entry in explained for column in entry["columns"]
    ]
    return import_optional("pandas", None, "explain(as_frame=True)").DataFrame(frame_rows)


def _described_changes(opened: OpenedModel, X: Any) -> list[dict[str, Any]]:
    """Describe what changes in each prepared column: the column of X, and a value or a deviation.

    The deviation is that of all rows, without weights.
    """
    numbers = {}
    if hasattr(X, "select_dtypes"):
        numbers = X.select_dtypes("number").std(ddof=0).dropna().to_dict()
    column_of = opened.column_of
    changes = []
    for j, name in enumerate(opened.names):
        value = opened.values.get(j)
        deviation = numbers.get(name) if value is None else None
        change = {
            "column": column_of.get(j, name),
            "value": value,
            "deviation": None if deviation is None else float(deviation),
        }
        changes.append(change)
    return changes


def _vagueness(estimator: Any, X: Any, own: Array, k: int, d: int) -> tuple[float, Array]:
    """Return the mean width of a class's plane values at its own rows, and that of each column."""
    by_column = np.zeros(d)
    if not hasattr(estimator, "width_coef_") or not own.any():
        return 0.0, by_column
    planes = np.flatnonzero(estimator.plane_classes_[:, 0] == k)
    rows = X[own]
    with unnamed_columns():
        widths = estimator.fuzzy_distance(rows)[1][:, planes]
    norms = np.linalg.norm(estimator.coef_[planes], axis=1)
    if not hasattr(estimator, "landmark_map_"):
        size = np.asarray(abs(rows).mean(axis=0)).ravel()
        by_column = estimator.width_coef_[planes].mean(axis=0) * size
    return float((widths * norms).mean()), by_column


def class_to_show(classes: Any, labels: Any, label: Any = None) -> int:
    """Return the index of the class `label`, or of the rarest class if it is None."""
    if label is None:
        return rarest([int((np.asarray(labels) == name).sum()) for name in classes])
    matches = np.flatnonzero(np.asarray(classes) == label)
    if not len(matches):
        valid = ", ".join(repr(value) for value in np.asarray(classes).tolist()[:10])
        raise ValueError(f"label={label!r} is not a class of the model; valid labels are {valid}.")
    return int(matches[0])


def rarest(counts: list[int]) -> int:
    """Return the index of the class with the fewest rows, the last one of several."""
    return min(range(len(counts)), key=lambda k: (counts[k], -k))
