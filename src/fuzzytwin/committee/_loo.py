"""Leave-one-out scores of the training rows of a committee.

The values of the members are leave-one-out values, and stacking weights are fitted without the row
or its fold. For a fitted committee, members are fitted again with the parameters of the model,
which gives the values that the fit used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._passes import in_memory
from fuzzytwin._rows import Rows, validate_rows
from fuzzytwin._utils.threads import limited_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import (
    FirstPassStats,
    Scales,
    SumFeatures,
    blocks,
    merge_copies,
    run_first_pass,
)
from fuzzytwin.committee._members import (
    CommitteeMember,
    RidgeProblem,
    predict_values,
)
from fuzzytwin.committee._preprocessing import as_numbers
from fuzzytwin.committee._ridge_members import SMALL_TABLE_ROWS, MemberFitter, distance_folds
from fuzzytwin.committee._stacking import (
    StackingModel,
    approximate_loo_scores,
    cross_fitted_scores,
)
from fuzzytwin.committee._trees import held_out_values
from fuzzytwin.kernels._landmarks import is_count

STACKING_FOLDS = 3
SAME_VALUES = 1e-5  # largest relative difference between a fit and its repetition


def held_out_scores(stacking: StackingModel, F: Array, problem: RidgeProblem) -> Array:
    """Compute scores (n, K) by stacking models that are not fitted to the row.

    Stacking weights fit the training rows a little better than new rows. With them, the log loss
    of new rows would be underestimated, and the coverage of prediction sets would be too low.
    """
    n, K = problem.Y.shape
    with_noise = stacking.noise_inverse is not None
    if problem.one_row_per_class or (with_noise and K == 2 and n > SMALL_TABLE_ROWS):
        return stacking.scores(F)
    if K == 2 and not with_noise:
        return approximate_loo_scores(stacking, F, problem.Y, problem.row_weight, problem.groups)
    folds = distance_folds(problem, STACKING_FOLDS)
    return cross_fitted_scores(stacking, F, problem.Y, problem.row_weight, folds)


def training_loo_scores(
    model: Any,
    stacking: StackingModel,
    X: Any,
    y: Any,
    sample_weight: Any,
    membership: Any,
    groups: Any,
) -> Array:
    """Compute leave-one-out scores (n, K) of the training rows of a fitted committee.

    `stacking` is fitted to a sample of the rows if there are many. It is held out for other rows.
    """
    if model.preprocessor_ is None:
        rows = validate_rows(model, X, y, sample_weight, membership, groups=groups, first=False)
    else:
        numbers = as_numbers(model, X)
        rows = validate_rows(model, numbers, y, sample_weight, membership, groups=groups, table=X)
    with limited_threads():
        chunk, merged = merge_copies(rows)
        stats, sum_features = run_first_pass(in_memory(chunk), names=rows.names)
        training_rows, index = stats.training_rows(chunk)
        sampled = np.searchsorted(index, stats.index) if stats.sampled else slice(None)
        values = _refit_loo_values(model, stats, sum_features, training_rows, sampled)
        scales = Scales(model.mean_, model.scale_, model.limits_)
        F = complete_values(values, index, chunk.X, model.members_, scales, model.landmarks_)
        problem = stats.row_scaler(model.class_weight_, scales)(stats.rows)
        scores = stacking.scores(F)
        scores[stats.index] = held_out_scores(stacking, F[stats.index], problem)
        return np.asarray(scores[merged])


def _refit_loo_values(
    model: Any, stats: FirstPassStats, sum_features: SumFeatures, rows: Rows, sampled: Any
) -> Array:
    """Fit the members of a committee again, and compute their leave-one-out values (n, K, M).

    `sampled` is the index of the sampled rows, to which trees are fitted. For other rows, the
    values of the fitted trees are held-out values.

    If in-sample values differ from those of the model, the rows are not those of its fit, and a
    ValueError is raised.
    """
    mismatch = ValueError(
        "X or y differs from the training data of the model; give the rows, labels, weights, "
        "degrees and groups of the fit."
    )
    if not np.array_equal(stats.labels, model.classes_):
        raise mismatch
    scales = Scales(model.mean_, model.scale_, model.limits_)
    scaler = stats.row_scaler(model.class_weight_, scales)
    problem = scaler(rows)
    gram = model.landmarks_.shape[0] == len(rows) and is_count(model.n_landmarks)
    fitter = MemberFitter(
        problem,
        problem.Z if gram else model.landmarks_,
        gram=gram,
        n_rows=stats.count,
        sum_features=partial(sum_features, scaler),
    )
    members = [member for member in model.members_ if member.trees is None]
    refitted = fitter.fit_ridges(members)
    for member, fitted in zip(members, refitted, strict=True):
        expected = np.empty_like(fitted.in_sample)
        for block in blocks(len(rows), max(model.landmarks_.shape)):
            values = predict_values([member], rows.X[block], scales, model.landmarks_)
            expected[block] = values[:, :, 0]
        difference = np.abs(fitted.in_sample - expected).max(initial=0.0)
        if difference > SAME_VALUES * np.abs(expected).max(initial=0.0):
            raise mismatch
    ridge_values = iter(refitted)
    loo_values = []
    for member in model.members_:
        if member.trees is None:
            loo_values.append(next(ridge_values).loo_values)
            continue
        values = predict_values([member], rows.X, scales, model.landmarks_)[:, :, 0]
        values[sampled] = held_out_values(member.trees, stats.rows.X, scaler(stats.rows))
        loo_values.append(values)
    return np.stack(loo_values, axis=2)


def complete_values(
    values: Array,
    index: Array,
    X: Any,
    members: list[CommitteeMember],
    scales: Scales,
    landmarks: Any,
) -> Array:
    """Complete leave-one-out values of the rows `index` of X by values of rows of weight 0."""
    F = np.empty((X.shape[0], *values.shape[1:]))
    F[index] = values
    unused = np.setdiff1d(np.arange(len(F)), index)
    if len(unused):
        F[unused] = predict_values(members, X[unused], scales, landmarks)
    return F
