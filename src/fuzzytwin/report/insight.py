"""What a model predicts and what drives it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.report.effects import column_effects


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
        first, each with "name", "effect" and "strength" (see
        `fuzzytwin.report.effects.column_effects`) and "vagueness" (its part in that of the class;
        0 for curved planes).
    """
    estimator, rows, names = _last_step(model, X)
    labels = estimator.predict(rows) if y is None else np.asarray(y)
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    effects, strengths = column_effects(estimator, rows, sample_weight)
    explained = []
    for k, label in enumerate(estimator.classes_):
        vague, parts = _vagueness(estimator, rows, labels == label, k, len(names))
        order = np.argsort(-strengths[k], kind="stable")[:top]
        explained.append({
            "class": label.item() if isinstance(label, np.generic) else label,
            "vagueness": vague,
            "columns": [
                {"name": names[j], "effect": float(effects[k, j]),
                 "strength": float(strengths[k, j]), "vagueness": float(parts[j])}
                for j in order
            ],
        })  # fmt: skip
    return explained


def _last_step(model: Any, X: Any) -> tuple[Any, Any, list[str]]:
    """Give the classifier itself, the rows as it takes them, and names of their columns."""
    estimator, rows = model, X
    names = [str(name) for name in getattr(X, "columns", ())]
    if isinstance(model, Pipeline):
        estimator = model[-1]
        if len(model) > 1:
            rows, names = model[:-1].transform(X), readable_names(model)
    names = names or [f"column {j}" for j in range(rows.shape[1])]
    return getattr(estimator, "best_estimator_", estimator), rows, names


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
    widths = estimator.fuzzy_distance(rows)[1][:, planes]
    norms = np.linalg.norm(estimator.coef_[planes], axis=1)
    if not hasattr(estimator, "landmark_map_"):
        size = np.asarray(abs(rows).mean(axis=0)).ravel()
        parts = estimator.width_coef_[planes].mean(axis=0) * size
    return float((widths * norms).mean()), parts


def predictions(model: Any, X: Any) -> Any:
    """Predict the label and the memberships of each row, as a frame."""
    import pandas

    columns: dict[str, Any] = {}
    if hasattr(model, "predict_proba"):
        u = model.predict_proba(X)
        columns["label"] = model.classes_[u.argmax(axis=1)]
        for k, label in enumerate(model.classes_):
            columns[f"membership_{label}"] = u[:, k]
    else:
        columns["label"] = model.predict(X)
    return pandas.DataFrame(columns)


def readable_names(model: Pipeline) -> list[str]:
    """Name the prepared columns: "age", "town = Rom"."""
    given = sorted(map(str, getattr(model, "feature_names_in_", ())), key=len, reverse=True)
    names = []
    for prepared in map(str, model[:-1].get_feature_names_out()):
        name = re.sub(r"^(number|boolean|code|category)__", "", prepared)
        column = next((c for c in given if name.startswith(f"{c}_")), None)
        if column is not None and name not in given:
            value = name.removeprefix(f"{column}_").removesuffix(".0")
            value = {"infrequent_sklearn": "(rare)", "": "(missing)"}.get(value, value)
            name = f"{column} = {value}"
        names.append(name)
    return names
