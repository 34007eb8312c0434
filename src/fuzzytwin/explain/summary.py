"""explain; users find it in `fuzzytwin.explain`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.explain.effects import column_correlations, column_effects
from fuzzytwin.explain.steps import last_step, unnamed_columns


def explain(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, top: int | None = None
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
    >>> from fuzzytwin.explain import explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, y)
    >>> explain(model, X, y)[2]["columns"][0]["name"]
    'petal width (cm)'
    """
    estimator, rows, names = last_step(model, X)
    with unnamed_columns():
        labels = estimator.predict(rows) if y is None else np.asarray(y)
    effects, strengths = column_effects(estimator, rows, sample_weight)
    correlations = column_correlations(estimator, rows, sample_weight)
    explained = []
    for k, label in enumerate(estimator.classes_):
        vague, parts = _vagueness(estimator, rows, labels == label, k, len(names))
        order = np.argsort(-strengths[k], kind="stable")[:top]
        explained.append({
            "class": label.item() if isinstance(label, np.generic) else label,
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
    owners = np.arange(len(estimator.classes_))
    if hasattr(estimator, "plane_classes_"):
        owners = np.asarray(estimator.plane_classes_)[:, 0]
    planes = np.flatnonzero(owners == k)
    rows = X[own]
    with unnamed_columns():
        widths = estimator.fuzzy_distance(rows)[1][:, planes]
    norms = np.linalg.norm(estimator.coef_[planes], axis=1)
    if not hasattr(estimator, "landmark_map_"):
        size = np.asarray(abs(rows).mean(axis=0)).ravel()
        parts = estimator.width_coef_[planes].mean(axis=0) * size
    return float((widths * norms).mean()), parts
