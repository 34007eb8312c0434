"""What a model says and how good it is: predictions, measures, explanations."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

Array = NDArray[Any]


def explain(model: Any) -> list[dict[str, Any]]:
    """For each plane, what drives it: share of each prepared column, its sign and its vagueness.

    The share of column j is |w_j| s_j, with s_j its standard deviation among the training rows,
    out of their sum. A positive sign speaks for the class: f rises from -1 at its rivals to 0 at
    its own samples. Where the rivals lie on both sides of the plane (``"one_sided"`` is false),
    no sign tells: it is 0. Vagueness is the mean width g of the plane's value at own samples, in
    units of that margin, and each column's part in it.
    """
    machine = model[-1] if isinstance(model, Pipeline) else model
    machine = getattr(machine, "best_estimator_", machine)
    if hasattr(machine, "landmark_map_"):
        raise ValueError("the planes are curved (kernel): no column drives them alone.")
    names = [f"column {j}" for j in range(machine.coef_.shape[1])]
    if isinstance(model, Pipeline) and len(model) > 1:
        names = _readable_names(model)
    elif hasattr(machine, "feature_names_in_"):
        names = [str(name) for name in machine.feature_names_in_]
    spread = np.ones(len(names))
    moments = getattr(machine, "moments_", None)
    own = getattr(moments, "own", moments)
    if own is not None:
        share = own.weight / own.weight.sum()
        mean = share @ own.mean
        inside = np.diagonal(own.covariance, axis1=1, axis2=2)
        spread = np.sqrt(share @ (inside + (own.mean - mean) ** 2))
    planes = []
    labels = machine.classes_ if len(machine.coef_) == len(machine.classes_) else ["all"]
    side = np.ones(len(labels))
    if own is not None and len(labels) > 1:
        rivals = getattr(moments, "slack", own)
        side = _own_side(machine.coef_, machine.intercept_, rivals)
    for k, label in enumerate(labels):
        pull = machine.coef_[k] * spread
        total = float(np.abs(pull).sum()) or 1.0
        width = np.zeros(len(names))
        base = 0.0
        if hasattr(machine, "width_coef_"):
            absolute = getattr(moments, "absolute_own", None)
            size = absolute.mean[k] if absolute is not None else spread
            width, base = machine.width_coef_[k] * size, float(machine.width_intercept_[k])
        order = np.argsort(-np.abs(pull), kind="stable")
        planes.append({
            "class": label.item() if isinstance(label, np.generic) else label,
            "vagueness": float(width.sum() + base),
            "one_sided": bool(side[k]),
            "features": [
                {"name": names[j], "share": float(abs(pull[j]) / total),
                 "sign": int(side[k] * np.sign(pull[j])), "vagueness": float(width[j])}
                for j in order
            ],
        })  # fmt: skip
    return planes


def _own_side(coef: Array, intercept: Array, moments: Any) -> Array:
    """For each plane, 1 where its rivals lie clearly below, -1 above, 0 on both sides.

    Clearly: the mean of f over the rivals is further from 0 than its standard deviation.
    """
    at = coef @ moments.mean.T + np.reshape(intercept, (-1, 1))
    inside = np.column_stack([((coef @ V) * coef).sum(axis=1) for V in moments.covariance])
    share = np.tile(moments.weight, (len(coef), 1))
    np.fill_diagonal(share, 0.0)
    share /= np.maximum(share.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    mean = (share * at).sum(axis=1)
    variance = (share * (inside + (at - mean[:, None]) ** 2)).sum(axis=1)
    return np.where(mean**2 > variance, -np.sign(mean), 0.0)


def predictions(model: Any, X: Any) -> Any:
    """Label and memberships of each row, as a frame."""
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


def _readable_names(model: Pipeline) -> list[str]:
    """Names of the prepared columns: "age", "town = Rom"."""
    given = sorted(map(str, getattr(model, "feature_names_in_", ())), key=len, reverse=True)
    names = []
    for prepared in map(str, model[:-1].get_feature_names_out()):
        name = re.sub(r"^(number|code|category)__", "", prepared)
        column = next((c for c in given if name.startswith(f"{c}_")), None)
        if column is not None and name not in given:
            value = name.removeprefix(f"{column}_").removesuffix(".0")
            value = {"infrequent_sklearn": "(rare)", "": "(missing)"}.get(value, value)
            name = f"{column} = {value}"
        names.append(name)
    return names
