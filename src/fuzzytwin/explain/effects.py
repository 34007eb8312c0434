"""What drives a prediction; users find these functions in `fuzzytwin.explain`.

Pipelines are opened: effects are those on the classifier's own answer, of its own columns.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._params import check_weights
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.core.distances import (
    effective_distances,
    fuzzy_distances,
    memberships_of,
    plane_norms,
)
from fuzzytwin.data.encoding import encoded_names
from fuzzytwin.data.preprocessor import TablePreprocessor
from fuzzytwin.data.schema import Column, Schema
from fuzzytwin.twin._prediction import NearestPlane

MOST_ROWS = 2000
WORK = 1e10  # multiplications, about; with many columns fewer rows are looked at
FEWEST_ROWS = 50
KERNELS_COST = 100  # of a committee, at one landmark, in columns


def column_effects(model: Any, X: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    r"""Compute how memberships change as a column rises by one standard deviation.

    Of classifiers without memberships, such as a committee, probabilities take their place.

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
    >>> from fuzzytwin.explain.effects import column_effects
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
    >>> from fuzzytwin.explain.effects import column_correlations
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
    # Values at landmarks are computed again for every column.
    committee = isinstance(estimator, FuzzyTwinCommittee)
    n_landmarks = estimator.landmarks_.shape[0] if committee else 0
    cost = n_landmarks * (d + KERNELS_COST) or d
    count = int(np.clip(WORK / (4 * d * cost), FEWEST_ROWS, MOST_ROWS))
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
    >>> from fuzzytwin.explain.effects import row_effects
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
) -> list[dict[str, Any]]:
    """Explain a model by rows: for each class, the effect of every column on the membership.

    Parameters
    ----------
    model : fitted classifier or Pipeline that ends in one
        A pipeline's prepared columns are explained: "age", "town = Rom".
    X : array-like, data frame or sparse matrix of shape (n, d)
        Rows, best those that the model was fitted on.
    y : array-like of shape (n,), default=None
        Their labels; by default those that the model predicts.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    top : int, default=None
        How many columns to give for each class; None: all.
    label : object, default=None
        The class to explain; None: every class. A label that is not a class of the model gets a
        ValueError.

    Returns
    -------
    list of dict
        For each class, ready for JSON: "class", "vagueness" (mean width of its planes' values at
        its own rows, in units of the margin; 0 for crisp planes) and "columns", the strongest
        first, each with "name", "effect" and "strength" (see `column_effects`), "correlation"
        (see `column_correlations`) and "vagueness" (its part in that of the class; 0 for curved
        planes).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.explain.effects import explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
    >>> explain(model, X, y)[2]["columns"][0]["name"]
    'petal length (cm)'
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
                {"name": names[j], "effect": float(effects[k, j]),
                 "strength": float(strengths[k, j]), "correlation": float(correlations[k, j]),
                 "vagueness": float(parts[j])}
                for j in order
            ],
        })  # fmt: skip
    return explained


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


def opened(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the classifier that a pipeline or search ends in, and the rows as it takes them."""
    if isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model) > 1 else X
        model = model[-1]
    return getattr(model, "best_estimator_", model), X


def last_step(model: Any, X: Any) -> tuple[Any, Any, list[str]]:
    """Return the classifier itself, the rows as it takes them, and names of their columns."""
    check_is_fitted(model)
    estimator, rows = opened(model, X)
    names = [str(name) for name in getattr(X, "columns", ())]
    if isinstance(model, Pipeline) and len(model) > 1:
        names = readable_names(model[:-1])
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else np.asarray(rows)
    names = names or [f"column {j}" for j in range(rows.shape[1])]
    if not (hasattr(estimator, "predict_membership") or hasattr(estimator, "predict_proba")):
        raise ValueError(
            f"model={estimator!r} has neither predict_membership nor predict_proba, which effects "
            "are effects on; give a classifier that has."
        )
    return estimator, rows, names


def class_to_show(classes: Any, labels: Any, label: Any = None) -> int:
    """Find the index of the class that a reader asks about; None: the rarest one."""
    if label is None:
        return rarest([int((np.asarray(labels) == known).sum()) for known in classes])
    places = np.flatnonzero(np.asarray(classes) == label)
    if not len(places):
        known = ", ".join(repr(value) for value in np.asarray(classes).tolist()[:10])
        raise ValueError(f"label={label!r} is not a class of the model; use one of {known}.")
    return int(places[0])


def rarest(counts: list[int]) -> int:
    """Return the index of the class of fewest rows; of classes of one size, the last."""
    return min(range(len(counts)), key=lambda k: (counts[k], -k))


@contextmanager
def unnamed_columns() -> Iterator[None]:
    """Let an estimator that knows names of columns take rows without them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def readable_names(step: Any, given: list[str] | None = None) -> list[str]:
    """Name the columns that a step makes: "age", "town = Rom".

    Encoders say which column they encode. `given` are the columns before the step, where it does
    not know them.
    """
    if isinstance(step, TablePreprocessor):
        features = Schema.from_dict(step.schema_).features
        return encoded_names(features, step.encoding_, _name_of)
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            given = readable_names(part, given)
        return given or []
    if isinstance(step, str):  # "passthrough"
        return given or []
    if isinstance(step, OneHotEncoder):
        encoder = copy.copy(step).set_params(feature_name_combiner=_name_value)
        return [str(name) for name in encoder.get_feature_names_out(given)]
    if not isinstance(step, ColumnTransformer):
        known = getattr(step, "feature_names_in_", given)
        return [str(name) for name in step.get_feature_names_out(known)]
    prefix = re.compile(r"^(number|boolean|code|category)__")
    names = [prefix.sub("", str(name)) for name in step.get_feature_names_out()]
    given = list(getattr(step, "feature_names_in_", given or [])) or given
    for kind, part, columns in step.transformers_:
        last = part[-1] if isinstance(part, Pipeline) else part
        if isinstance(last, OneHotEncoder):
            columns = [columns] if isinstance(columns, (str, int)) else columns
            by_name = not isinstance(columns, slice) and all(isinstance(c, str) for c in columns)
            if not by_name:
                every = given or [f"x{j}" for j in range(step.n_features_in_)]
                columns = np.asarray(every, dtype=object)[columns]
            names[step.output_indices_[kind]] = readable_names(part, list(map(str, columns)))
    return names


def _name_of(column: Column, value: object) -> str:
    """Name a column that a `TablePreprocessor` makes."""
    return column.name if value is None else _name_value(column.name, value)


def _name_value(column: str, value: object) -> str:
    """Name the column that an encoder makes of one value of a column."""
    text = str(value).removesuffix(".0")
    shown = {"infrequent_sklearn": "(rare)", "": "(missing)"}.get(text, text)
    return f"{column} = {shown}"
