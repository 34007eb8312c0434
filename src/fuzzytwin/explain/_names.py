"""The classifier at the end of a pipeline, and readable names of its columns."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._preprocessing import as_pipeline
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._numeric import encoded_names
from fuzzytwin.tables._preprocessor import TablePreprocessor
from fuzzytwin.tables._schema import TableSchema
from fuzzytwin.twin._prediction import last_step


def opened(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the classifier at the end of a pipeline or search, and its transformed rows."""
    return last_step(as_pipeline(model), X)


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """The classifier at the end of a pipeline, and its transformed rows.

    Attributes
    ----------
    estimator : classifier
        The last step.
    rows : ndarray or sparse matrix of shape (n, d)
        The prepared rows.
    names : list of str
        Names of the prepared columns: "age", "town = Rome".
    categories : dict of str to list of int
        The prepared columns of each category of the table, and of each column of two values.
    values : dict of int to str
        The value that each of these columns stands for.
    """

    estimator: Any
    rows: Any
    names: list[str]
    categories: dict[str, list[int]]
    values: dict[int, str]

    @property
    def column_of(self) -> dict[int, str]:
        """Return the column of the table from which each column of `values` is made."""
        return {j: name for name, block in self.categories.items() for j in block}


def open_model(model: Any, X: Any) -> OpenedModel:
    """Open a pipeline, and check that its classifier can be explained."""
    check_is_fitted(model)
    model = as_pipeline(model)
    estimator, rows = opened(model, X)
    names = [str(name) for name in getattr(X, "columns", ())]
    categories: dict[str, list[int]] = {}
    values: dict[int, str] = {}
    if isinstance(model, Pipeline) and len(model) > 1:
        names = readable_names(model[:-1])
        if len(model) == 2 and isinstance(model[0], TablePreprocessor):
            categories, values = _categories(model[0], np.asarray(rows))
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else np.asarray(rows)
    names = names or [f"column {j}" for j in range(rows.shape[1])]
    if not (hasattr(estimator, "predict_membership") or hasattr(estimator, "predict_proba")):
        raise ValueError(
            f"model={estimator!r} has neither predict_membership nor predict_proba; give a "
            "classifier that has one of them."
        )
    return OpenedModel(estimator, rows, names, categories, values)


def _categories(
    step: TablePreprocessor, rows: Array
) -> tuple[dict[str, list[int]], dict[int, str]]:
    """Return the prepared columns of categories and of two-valued columns, and their values."""
    features = TableSchema.from_dict(step.schema_).features
    columns = encoded_names(features, step.encoding_, lambda column, value: column.name)
    shown = encoded_names(features, step.encoding_, lambda column, value: _shown_value(value))
    by_name = {column.name: column for column in features}
    scaled = step.encoding_["scaled"]
    categories: dict[str, list[int]] = {}
    values = {}
    for j, name in enumerate(columns):
        column = by_name[name]
        if column.kind == "number" and column.distinct != 2:
            continue
        categories.setdefault(name, []).append(j)
        values[j] = shown[j]
        if column.kind == "boolean":
            values[j] = "true"
        elif column.kind == "number":
            larger = rows[:, j].max(initial=0.0) * scaled["scale"][j] + scaled["center"][j]
            values[j] = f"{larger:g}"
    return categories, values


@contextmanager
def unnamed_columns() -> Iterator[None]:
    """Allow rows without column names for an estimator that was fitted with names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def readable_names(step: Any, input_names: list[str] | None = None) -> list[str]:
    """Name the columns that a step returns: "age", "town = Rome".

    `input_names` are the columns before the step, for steps that do not store them.
    """
    if isinstance(step, TablePreprocessor):
        features = TableSchema.from_dict(step.schema_).features
        return encoded_names(features, step.encoding_, _name_of)
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            input_names = readable_names(part, input_names)
        return input_names or []
    if isinstance(step, str):  # "passthrough"
        return input_names or []
    if isinstance(step, OneHotEncoder):
        encoder = copy.copy(step).set_params(feature_name_combiner=_name_value)
        return [str(name) for name in encoder.get_feature_names_out(input_names)]
    if not isinstance(step, ColumnTransformer):
        input_names = getattr(step, "feature_names_in_", input_names)
        return [str(name) for name in step.get_feature_names_out(input_names)]
    prefix = re.compile(r"^(number|boolean|code|category)__")
    names = [prefix.sub("", str(name)) for name in step.get_feature_names_out()]
    input_names = list(getattr(step, "feature_names_in_", input_names or [])) or input_names
    for kind, part, columns in step.transformers_:
        last = part[-1] if isinstance(part, Pipeline) else part
        if isinstance(last, OneHotEncoder):
            columns = [columns] if isinstance(columns, (str, int)) else columns
            by_name = not isinstance(columns, slice) and all(isinstance(c, str) for c in columns)
            if not by_name:
                all_names = input_names or [f"x{j}" for j in range(step.n_features_in_)]
                columns = np.asarray(all_names, dtype=object)[columns]
            names[step.output_indices_[kind]] = readable_names(part, list(map(str, columns)))
    return names


def _name_of(column: Column, value: object) -> str:
    """Name a column that a `TablePreprocessor` returns."""
    return column.name if value is None else _name_value(column.name, value)


def _name_value(column: str, value: object) -> str:
    """Name the column in which an encoder indicates one value of a column."""
    return f"{column} = {_shown_value(value)}"


def _shown_value(value: object) -> str:
    """Return a value of a category as text."""
    text = str(value).removesuffix(".0")
    return {"infrequent_sklearn": "(rare)", "": "(missing)"}.get(text, text)
