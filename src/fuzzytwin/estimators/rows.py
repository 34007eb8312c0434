"""Validate rows without changing the estimator: a fit that fails leaves it as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._utils.rows import canonical
from fuzzytwin._utils.types import Array
from fuzzytwin.estimators.labels import encode, present
from fuzzytwin.fitting import FitSettings, Rows
from fuzzytwin.validation import (
    check_degrees,
    check_penalties,
    check_weights,
    explained,
    refuse_gaps,
)


def validate_rows(
    estimator: BaseEstimator,
    settings: FitSettings,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    membership: Any = None,
    *,
    classes: Array | None = None,
    first: bool = True,
) -> Rows:
    """Validate rows, labels, weights and degrees.

    Parameters
    ----------
    estimator : estimator
        Says whether sparse rows are allowed and, unless `first`, which columns are expected.
    settings : FitSettings
        Its parameters; C must fit the classes.
    X, y, sample_weight, membership
        As given to `fit`.
    classes : ndarray, default=None
        All labels, some of which may be missing from these rows; None: those of the rows.
    first : bool, default=True
        Whether these are the first rows, which decide on the columns.

    Returns
    -------
    Rows
    """
    # scikit-learn writes what it learns of the columns on what it validates for.
    probe = type(estimator)(**estimator.get_params(deep=False))
    if not first:
        _copy_columns(estimator, probe)
    with explained(X):
        X, y = validate_data(
            probe, X, y, reset=first, accept_sparse=_accepted(probe),
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the pass over the rows finds out: check_moments
        )  # fmt: skip
    fitting = classes is None
    classes, codes = encode(y, classes)
    s = check_weights(sample_weight, len(y), may_vanish=not fitting)
    mu = check_degrees(membership, len(y), classes)
    if fitting:
        classes, codes, mu = present(classes, codes, s, mu)
    check_penalties(settings.C, classes)  # before the pass over the rows
    return Rows(canonical(X), y, codes, s, mu, classes, getattr(probe, "feature_names_in_", None))


def validate_features(estimator: BaseEstimator, X: Any) -> Any:
    """Validate rows to predict by a fitted estimator."""
    check_is_fitted(estimator)
    with explained(X):
        X = validate_data(
            estimator, X, reset=False, dtype=[np.float64, np.float32],
            accept_sparse=_accepted(estimator), ensure_all_finite=False,
        )  # fmt: skip
        refuse_gaps(X, getattr(estimator, "feature_names_in_", None))
    return canonical(X)


def _accepted(estimator: BaseEstimator) -> str | bool:
    return "csr" if estimator.__sklearn_tags__().input_tags.sparse else False


def _copy_columns(source: BaseEstimator, target: BaseEstimator) -> None:
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))
