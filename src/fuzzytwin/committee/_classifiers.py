"""Classifiers as members of a committee, by out-of-bag or out-of-fold log probabilities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import PreparedRows
from fuzzytwin.committee._members import CommitteeMember, FittedMember, log_probabilities
from fuzzytwin.core.hashing import group_sums, row_hashes

FOLDS = 5


def classifier_folds(rows: PreparedRows) -> Array:
    """Assign the rows of each class to folds by a hash of their content.

    Duplicates stay together, and so do groups.
    """
    keys = row_hashes(rows.X)
    codes = rows.codes.astype(np.uint64)
    if rows.groups is not None:
        keys = group_sums(keys, rows.groups)[rows.groups]
        first_code = np.full(len(keys), codes.max())  # a group counts for the first of its classes
        np.minimum.at(first_code, rows.groups, codes)
        codes = first_code[rows.groups]
    distinct, place = np.unique(np.column_stack([codes, keys]), axis=0, return_inverse=True)
    rank = np.arange(len(distinct)) - np.searchsorted(distinct[:, 0], distinct[:, 0])
    return np.asarray(rank % FOLDS)[place.ravel()]


def weights_for(estimator: Any, s: Array | None, stacklevel: int) -> dict[str, Array]:
    """Return the keyword argument of `fit` that passes weights to a classifier or pipeline.

    The name is that of scikit-learn without metadata routing. If weights differ and the classifier
    does not take any, a warning is given.
    """
    last = estimator
    prefix = ""
    while isinstance(last, Pipeline):
        name, last = last.steps[-1]
        prefix += f"{name}__"
    if s is None:
        return {}
    if has_fit_parameter(last, "sample_weight"):
        return {f"{prefix}sample_weight": s}
    if np.ptp(s) > 0:
        text = f"{type(estimator).__name__} takes no sample_weight, so weights are ignored."
        warnings.warn(text, UserWarning, stacklevel=stacklevel)
    return {}


def fit_classifier(estimator: Any, rows: PreparedRows) -> FittedMember:
    """Fit a classifier, and compute its log probabilities of held-out rows.

    They are out-of-bag if it has these and there are no groups, otherwise out-of-fold.
    """
    name = type(estimator).__name__
    n, K = rows.Y.shape
    missing = np.setdiff1d(np.arange(K), rows.codes)
    if len(missing):
        raise ValueError(
            f"{name} is a member that learns one label per row, and soft labels of column "
            f"{missing[0]} are not the largest of any row; use only kernels as members."
        )
    weights = weights_for(estimator, rows.s, stacklevel=7)  # the caller of fit

    def fitted(index: Any) -> Any:
        weight = {name: s[index] for name, s in weights.items()}
        with config_context(enable_metadata_routing=False):
            return clone(estimator).fit(rows.X[index], rows.codes[index], **weight)

    classifier = fitted(slice(None))
    if rows.groups is None and hasattr(classifier, "oob_decision_function_"):
        P = np.nan_to_num(np.asarray(classifier.oob_decision_function_), nan=1.0 / K)
    else:
        P = np.zeros((n, K))
        folds = classifier_folds(rows)
        for fold in range(FOLDS):
            train_index = np.flatnonzero(folds != fold)
            test_index = np.flatnonzero(folds == fold)
            if len(np.unique(rows.codes[train_index])) < 2:
                raise ValueError(
                    f"{name} is a member with out-of-fold values, but without one of the folds "
                    "only one class is left; give more rows, or use only kernels as members."
                )
            if len(test_index):
                model = fitted(train_index)
                P[np.ix_(test_index, model.classes_)] = model.predict_proba(rows.X[test_index])
    error = float(rows.s @ ((P - rows.Y) ** 2).sum(axis=1) / rows.s.sum())
    values = log_probabilities(P)
    return FittedMember(CommitteeMember(name, error=error, classifier=classifier), values, values)
