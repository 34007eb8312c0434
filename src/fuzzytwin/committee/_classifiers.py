"""Classifiers as members of a committee: logarithms of their probabilities of unseen rows."""

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
    """Deal the rows of each class into folds by their content: equal rows, and groups, in one."""
    keys, codes = row_hashes(rows.X), rows.codes.astype(np.uint64)
    if rows.groups is not None:
        keys = group_sums(keys, rows.groups)[rows.groups]
        least = np.full(len(keys), codes.max())  # a group is dealt with the first of its classes
        np.minimum.at(least, rows.groups, codes)
        codes = least[rows.groups]
    distinct, place = np.unique(np.column_stack([codes, keys]), axis=0, return_inverse=True)
    rank = np.arange(len(distinct)) - np.searchsorted(distinct[:, 0], distinct[:, 0])
    return np.asarray(rank % FOLDS)[place.ravel()]


def weights_for(estimator: Any, s: Array | None, stacklevel: int) -> dict[str, Array]:
    """Return the argument of `fit` that gives weights to a classifier, or the last of a pipeline.

    A classifier that takes none gets a warning where weights differ. (The name is that of
    scikit-learn without metadata routing.)
    """
    last, place = estimator, ""
    while isinstance(last, Pipeline):
        place, last = f"{place}{last.steps[-1][0]}__", last.steps[-1][1]
    if s is None:
        return {}
    if has_fit_parameter(last, "sample_weight"):
        return {f"{place}sample_weight": s}
    if np.ptp(s) > 0:
        text = f"{type(estimator).__name__} takes no sample_weight: to it, all rows weigh the same."
        warnings.warn(text, UserWarning, stacklevel=stacklevel)
    return {}


def fit_classifier(estimator: Any, rows: PreparedRows) -> FittedMember:
    """Fit a classifier, and compute its log probabilities of rows that it did not learn from.

    They are out of bag where it has them (and no groups are given), else out of folds.
    """
    name, (n, K) = type(estimator).__name__, rows.Y.shape
    lost = np.setdiff1d(np.arange(K), rows.codes)
    if len(lost):
        raise ValueError(
            f"{name} is a member that learns one label per row, and soft labels of column "
            f"{lost[0]} are the largest of no row; use kernels alone as members."
        )
    weights = weights_for(estimator, rows.s, stacklevel=7)  # the line that called fit

    def fitted(index: Any) -> Any:
        weight = {name: s[index] for name, s in weights.items()}
        with config_context(enable_metadata_routing=False):
            return clone(estimator).fit(rows.X[index], rows.codes[index], **weight)

    whole = fitted(slice(None))
    if rows.groups is None and hasattr(whole, "oob_decision_function_"):
        P = np.nan_to_num(np.asarray(whole.oob_decision_function_), nan=1.0 / K)
    else:
        P, folds = np.zeros((n, K)), classifier_folds(rows)
        for fold in range(FOLDS):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if len(np.unique(rows.codes[train])) < 2:
                raise ValueError(
                    f"{name} is a member whose values come out of folds, and without one of them a "
                    "single class is left; give more rows, or use kernels alone as members."
                )
            if len(test):
                model = fitted(train)
                P[np.ix_(test, model.classes_)] = model.predict_proba(rows.X[test])
    error = float(rows.s @ ((P - rows.Y) ** 2).sum(axis=1) / rows.s.sum())
    values = log_probabilities(P)
    return FittedMember(CommitteeMember(name, error=error, classifier=whole), values, values)
