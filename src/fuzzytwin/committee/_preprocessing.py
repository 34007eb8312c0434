"""Turn the input of a committee into numbers: data frames, text, dates and missing values.

Finite numbers are not changed. Anything else goes through a `TablePreprocessor`, which is fitted
without the labels, so that no label leaks into leave-one-out values.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._rows import check_finite, column_name, validate_features
from fuzzytwin._utils.notices import warn_user
from fuzzytwin.tables import TablePreprocessor
from fuzzytwin.tables._batch import check_collected, check_unique
from fuzzytwin.tables._checks import frame_names, warn_of_row_names
from fuzzytwin.tables._columns import Column
from fuzzytwin.tables._infer import names_rows

NUMERIC_KINDS = "iufb"  # numpy's codes of types that hold numbers


def fit_preprocessor(X: Any) -> TablePreprocessor | None:
    """Fit a preprocessor to the training rows, or return None if all values are numbers.

    It does not scale, as the committee does. Columns of a frame that name rows are left out, with a
    warning, so that they need a preprocessor, too.
    """
    if is_numeric(X) and not any(names_rows(str(n), np.asarray(X[n])) for n in frame_names(X)):
        return None
    preprocessor = TablePreprocessor(scale=False).fit(X)
    warn_of_row_names(preprocessor.columns_, "X.to_numpy()")
    return preprocessor


def columns_of(preprocessor: TablePreprocessor | None) -> tuple[Column, ...] | None:
    """Return the columns of a preprocessor, or None without one, as all columns are features."""
    return None if preprocessor is None else preprocessor.columns_


def as_numbers(model: Any, X: Any) -> Any:
    """Turn rows for prediction by a fitted committee into finite numbers.

    If the training rows had no missing values, those of X become the means of their columns.
    """
    check_is_fitted(model)
    if model.preprocessor_ is not None:
        return model.preprocessor_.transform(X)
    X = validate_features(model, X)
    names = getattr(model, "feature_names_in_", None)
    if not sparse.issparse(X):
        X = _fill_missing(X, model.mean_, names)
    check_finite(X, names)
    return X


def as_pipeline(model: Any) -> Any:
    """Return a pipeline of the preprocessor and the committee, if the model has a preprocessor.

    The model may be a committee or a pipeline that ends in one. Others are returned unchanged.
    """
    steps = list(model.steps) if isinstance(model, Pipeline) else [("committee", model)]
    name, last = steps[-1]
    preprocessor = getattr(last, "preprocessor_", None)
    if preprocessor is None:
        return model
    committee = without_preprocessor(last)
    return Pipeline([*steps[:-1], ("preprocessor", preprocessor), (name, committee)])


def without_preprocessor(model: Any) -> Any:
    """Return the committee that takes the numbers of the preprocessor of a committee.

    A model without a preprocessor is returned unchanged.
    """
    if getattr(model, "preprocessor_", None) is None:
        return model
    committee = copy.copy(model)
    del committee.preprocessor_
    committee.n_features_in_ = len(committee.mean_)
    if hasattr(committee, "feature_names_in_"):
        del committee.feature_names_in_
    return committee


def keep_preprocessor(model: Any, preprocessor: TablePreprocessor | None) -> None:
    """Store a preprocessor in the committee that was fitted to its numbers."""
    if preprocessor is not None:
        model.preprocessor_ = preprocessor
        model.n_features_in_ = preprocessor.n_features_in_
        model.feature_names_in_ = preprocessor.feature_names_in_


def is_numeric(X: Any) -> bool:
    """Return whether X holds only numbers and no missing values.

    Invalid input counts as numeric, because the validation of numbers raises the error.
    """
    if sparse.issparse(X):
        return True
    check_collected(X)
    if hasattr(X, "columns") and hasattr(X, "isna"):  # pandas
        check_unique([str(name) for name in X.columns], "X")
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        return all(kind in NUMERIC_KINDS for kind in kinds) and not X.isna().to_numpy().any()
    try:
        values = np.asarray(X)
    except ValueError:  # ragged rows: scikit-learn raises the error
        return True
    except TypeError:  # columns of types that have none in common, such as numbers and dates
        return False
    if values.ndim != 2 or values.size == 0 or values.dtype.kind == "c":
        return True
    if values.dtype.kind == "O":
        return _are_numbers(values)
    return values.dtype.kind in NUMERIC_KINDS and not _has_missing(values)


def _are_numbers(values: Any) -> bool:
    """Return whether an array of objects holds only numbers and no missing values."""
    if any(isinstance(value, str) for value in values.ravel()):
        return False
    try:
        return not _has_missing(values.astype(np.float64))
    except (TypeError, ValueError):
        return False


def _has_missing(values: Any) -> bool:
    """Return whether an array of numbers holds NaN."""
    if values.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        # The sum is fast and usually enough.
        return bool(np.isnan(values.sum()) and np.isnan(values).any())


def _fill_missing(X: Any, means: Any, names: Any) -> Any:
    """Replace missing values by the means of their columns, with a warning."""
    if not _has_missing(X):
        return X
    missing = np.isnan(X)
    columns = np.flatnonzero(missing.any(axis=0))
    listed = ", ".join(column_name(names, column) for column in columns[:3])
    more = "" if len(columns) <= 3 else f" and {len(columns) - 3} more"
    warn_user(
        f"X has missing values in {listed}{more}, but the training rows had none; they are "
        "replaced by the means of the training rows."
    )
    return np.where(missing, means.astype(X.dtype), X)
