"""Pipelines, opened: the classifier, its rows, and readable names of their columns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def last_step(model: Any, X: Any) -> tuple[Any, Any, list[str]]:
    """Return the classifier itself, the rows as it takes them, and names of their columns."""
    check_is_fitted(model)
    estimator, rows = model, X
    names = [str(name) for name in getattr(X, "columns", ())]
    if isinstance(model, Pipeline):
        estimator = model[-1]
        if len(model) > 1:
            rows, names = model[:-1].transform(X), readable_names(model)
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else np.asarray(rows)
    names = names or [f"column {j}" for j in range(rows.shape[1])]
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not (hasattr(estimator, "predict_membership") or hasattr(estimator, "predict_proba")):
        raise ValueError(
            f"model={estimator!r} has neither predict_membership nor predict_proba, which effects "
            "are effects on; give a classifier that has."
        )
    return estimator, rows, names


@contextmanager
def unnamed_columns() -> Iterator[None]:
    """Let an estimator that knows names of columns take rows without them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


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
