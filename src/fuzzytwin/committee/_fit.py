"""Fit a committee to rows in memory or in chunks.

A first pass collects statistics and a sample of all rows (`fuzzytwin.committee._first_pass`).
Landmarks, gammas and per-feature bandwidths come from the sample. A second pass sums up the
features of all members (`fuzzytwin.committee._ridge_members`, `fuzzytwin.core.ridge`). Ridges and
stacking weights are then chosen by the leave-one-out values of the sample. No second pass is needed
if all rows are landmarks. Boosted trees are fitted to the sample, and become a member only if the
others leave something to gain (`fuzzytwin.committee._trees`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils import column_or_1d

from fuzzytwin._duplicates import warn_of_leakage
from fuzzytwin._params import (
    Constraint,
    check_class_weight,
    check_n_jobs,
    check_n_landmarks,
    check_params,
    check_seed,
    class_factors,
    count_threads,
    either,
    not_allowed,
    set_fitted_attributes,
)
from fuzzytwin._passes import SumOverChunks, in_memory
from fuzzytwin._rows import Rows, check_has_columns, check_rows, label_array, validate_rows
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.threads import limited_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import (
    FirstPassStats,
    RowScaler,
    SumFeatures,
    blocks,
    merge_copies,
    run_first_pass,
)
from fuzzytwin.committee._loo import complete_values, held_out_scores
from fuzzytwin.committee._members import (
    FittedMember,
    MemberSpec,
    RidgeProblem,
    check_members,
    is_default,
    predict_values,
)
from fuzzytwin.committee._noise import NoiseModel, estimate_noise_matrix, fit_noise
from fuzzytwin.committee._preprocessing import fit_preprocessor
from fuzzytwin.committee._ridge_members import (
    SCREENING_ROWS,
    SMALL_TABLE_ROWS,
    MemberFitter,
    choose_landmarks,
    screen_members,
    unsupervised_landmarks,
)
from fuzzytwin.committee._stacking import (
    StackingModel,
    fit_stacking,
    mean_log_loss,
    uniform_weights,
)
from fuzzytwin.committee._trees import fit_trees
from fuzzytwin.core.conformal import conformity_scores
from fuzzytwin.tables._checks import label_spellings
from fuzzytwin.tables._findings import describe

SCREENING_LANDMARKS = 300

CONSTRAINTS: dict[str, Constraint] = {
    "n_landmarks": either("auto", check_n_landmarks),
    "class_weight": check_class_weight,
    "n_jobs": check_n_jobs,
    "random_state": check_seed,
}


def fit_rows(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    membership: Any = None,
    groups: Any = None,
) -> tuple[CommitteeFit, Array | None]:
    """Fit a `FuzzyTwinCommittee` to rows in memory.

    Return the result and, unless ``noise=None``, the leave-one-out values (n, K, M) of all rows.
    """
    check_parameters(model)
    check_rows(X)
    check_has_columns(X)
    preprocessor = fit_preprocessor(X)
    numbers = X if preprocessor is None else preprocessor.transform(X)
    rows = validate_rows(model, numbers, y, sample_weight, membership, groups=groups, table=X)
    warn_of_leakage(rows, "probabilities and prediction sets")
    loo_values = None
    degrees = None
    with limited_threads():
        chunk, merged = merge_copies(rows)
        stats, sum_features = run_first_pass(in_memory(chunk), names=rows.names)
        fit = fit_committee(model, stats, sum_features)
        if fit.noise is not None:
            loo_values = _all_loo_values(fit, stats, chunk)[merged]
            degrees = _label_degrees(fit.noise, loo_values, y, fit.attributes["classes_"])
    names = rows.names
    if preprocessor is not None:
        fit.attributes["n_features_in_"] = preprocessor.n_features_in_
        names = getattr(preprocessor, "feature_names_in_", None)
    set_fitted_attributes(
        model,
        **fit.attributes,
        feature_names_in_=names,
        membership_=degrees,
        preprocessor_=preprocessor,
    )
    return fit, loo_values


def fit_chunks(
    model: Any,
    total: SumOverChunks,
    *,
    names: Any = None,
    classes: Array | None = None,
    schema: Any = None,
    first_pass: tuple[FirstPassStats, SumFeatures] | None = None,
) -> CommitteeFit:
    """Fit a `FuzzyTwinCommittee` to chunks of rows that are not in memory at once.

    `total` sums over the chunks (see `fuzzytwin._passes`), `names` are those of the columns, and
    each of the `classes`, if not None, must have rows. `schema`, how files are to be read, becomes
    ``schema_``. `first_pass` is the result of `run_first_pass`, if it was called before.
    """
    check_parameters(model)
    with limited_threads():
        if first_pass is None:
            first_pass = run_first_pass(total, names=names, classes=classes)
        fit = fit_committee(model, *first_pass)
    names = None if names is None else np.asarray(names, dtype=object)
    set_fitted_attributes(model, **fit.attributes, feature_names_in_=names, schema_=schema)
    return fit


def check_parameters(model: Any) -> None:
    """Raise a ValueError if a parameter of a `FuzzyTwinCommittee` is invalid."""
    if not (model.noise is None or (isinstance(model.noise, str) and model.noise == "auto")):
        raise not_allowed("noise", model.noise, "use None or 'auto'")
    check_members(model.members)
    check_params(model.get_params(deep=False), CONSTRAINTS)


@dataclass(frozen=True, eq=False)
class CommitteeFit:
    """Result of `fit_committee`."""

    attributes: dict[str, Any]  # fitted attributes of `FuzzyTwinCommittee`
    members: list[FittedMember]
    loo_values: Array  # leave-one-out values (n, K, M) of the sampled rows
    codes: Array  # their classes
    noise: NoiseModel | None  # None if noise=None
    landmarks: Any
    scaler: RowScaler

    def loo_values_of(self, rows: Rows) -> Array:
        """Compute leave-one-out values (n, K, M) of training rows, or leave-one-group-out values.

        If all rows are landmarks, use `loo_values` instead. Values of trees are those of trees
        fitted to the sampled rows, so use `loo_values` for the sampled rows as well.
        """
        F = np.empty((len(rows), *self.loo_values.shape[1:]))
        width = max(fitted.features.width for fitted in self.members if fitted.features is not None)
        for index in blocks(len(rows), width, rows.groups):
            problem = self.scaler(rows.take(index))
            distances = dict[str, Array]()
            for m, (member, _, _, features, path) in enumerate(self.members):
                if features is None or path is None:
                    values = predict_values(
                        [member], rows.X[index], self.scaler.scales, self.landmarks
                    )
                    F[index, :, m] = values[:, :, 0]
                    continue
                Q = path.coordinates(features(problem.Z, distances))
                alpha = np.array([member.alpha])
                values = path.left_out(Q, problem.Y, problem.s, alpha, problem.groups)
                F[index, :, m] = values[0]
        return F

    def without_rows(self) -> CommitteeFit:
        """Return a copy without values of the sampled rows, for `loo_values_of` elsewhere."""
        members = [
            fitted._replace(loo_values=fitted.loo_values[:0], in_sample=fitted.in_sample[:0])
            for fitted in self.members
        ]
        return replace(self, members=members, loo_values=self.loo_values[:0], codes=self.codes[:0])


def fit_committee(model: Any, stats: FirstPassStats, sum_features: SumFeatures) -> CommitteeFit:
    """Fit all members and their stacking weights, after a first pass.

    The parameters are those of the `FuzzyTwinCommittee` `model`, which is not changed.
    """
    class_weight = _class_weight(model.class_weight, stats)
    scaler = stats.row_scaler(class_weight)
    problem = scaler(stats.rows)
    landmarks, members = _fit_members(model, stats, scaler, problem, sum_features)
    F = np.stack([fitted.loo_values for fitted in members], axis=2)
    stacking = _fit_stacking(F, problem, stats)
    noise = _fit_noise(F, members, problem, stats.soft, stacking) if model.noise else None
    targets = problem.Y
    if noise is not None:
        stacking = noise.correct(stacking)
        targets = noise.soft_labels(F, problem.codes, stacking.noise_weight)
    scores = held_out_scores(stacking, F, problem)
    P = np.asarray(softmax(scores, axis=1))
    weights = stacking.weights.tolist()
    attributes = {
        "classes_": stats.labels,
        "members_": [
            replace(fitted.member, weight=weight)
            for fitted, weight in zip(members, weights, strict=True)
        ],
        "stack_coef_": stacking.coef,
        "stack_intercept_": stacking.intercept,
        "class_weight_": class_weight,
        "loo_log_loss_": mean_log_loss(scores, targets, problem.row_weight),
        "landmarks_": landmarks,
        "mean_": scaler.scales.mean,
        "scale_": scaler.scales.deviation,
        "limits_": scaler.scales.limits,
        "conformity_scores_": conformity_scores(P, targets, problem.row_weight, problem.groups),
        "n_features_in_": stats.n_features,
    }
    if noise is not None:
        posterior = noise.posterior(F, problem.codes)
        attributes["noise_matrix_"] = estimate_noise_matrix(posterior, problem.codes)
        attributes["noise_inverse_"] = stacking.noise_inverse
        attributes["noise_weight_"] = stacking.noise_weight
    return CommitteeFit(attributes, members, F, problem.codes, noise, landmarks, scaler)


def _class_weight(class_weight: Any, stats: FirstPassStats) -> Array:
    """Return the weight of each class, none of which may be 0."""
    weights = class_factors(class_weight, stats.weight, stats.labels)
    if not weights.all():
        raise ValueError(
            f"class_weight={class_weight!r} gives class "
            f"{stats.labels[weights == 0].tolist()[0]!r} a weight of 0; remove its rows instead."
        )
    return weights


def _fit_members(
    model: Any,
    stats: FirstPassStats,
    scaler: RowScaler,
    problem: RidgeProblem,
    sum_features: SumFeatures,
) -> tuple[Any, list[FittedMember]]:
    """Choose landmarks and fit the members. Return both."""
    specs = check_members(model.members)
    n_threads = count_threads(model.n_jobs)
    with Progress("committee", len(specs), "members", enabled=bool(model.verbose)) as bar:
        if is_default(model.members) and stats.count > SMALL_TABLE_ROWS:
            specs = _screened_specs(specs, stats.rows, scaler, n_threads)
        landmarks, weight = choose_landmarks(
            model.n_landmarks,
            stats.rows,
            problem,
            scaler.scales,
            n_rows=stats.count,
            n_members=len(specs),
            random_state=model.random_state,
        )
        fitter = MemberFitter(
            problem,
            landmarks,
            gram=landmarks is problem.Z,
            n_rows=stats.count,
            sum_features=partial(sum_features, scaler),
            n_threads=n_threads,
            on_fitted=bar.advance,
        )
        members = fitter.fit(specs, weight)
        trees = None
        if isinstance(model.members, str) and model.members == "auto":
            F = np.stack([fitted.loo_values for fitted in members], axis=2)
            trees = fit_trees(stats.rows.X, problem, F)
        if trees is not None:
            members.append(trees)
    return landmarks, members


def _screened_specs(
    specs: list[MemberSpec], rows: Rows, scaler: RowScaler, n_threads: int
) -> list[MemberSpec]:
    """Keep the members that matter in a sample of the rows."""
    sample = rows.take(slice(SCREENING_ROWS))
    problem = scaler(sample)
    landmarks = unsupervised_landmarks(
        sample, problem, SCREENING_LANDMARKS, np.random.RandomState(0)
    )
    fitter = MemberFitter(
        problem,
        landmarks,
        gram=False,
        n_rows=len(rows),
        sum_features=partial(scaler.sums, sample),
        n_threads=n_threads,
    )
    return screen_members(fitter, specs)


def _fit_noise(
    F: Array,
    members: list[FittedMember],
    problem: RidgeProblem,
    soft: bool,
    stacking: StackingModel,
) -> NoiseModel:
    """Fit the label-noise model to leave-one-out and in-sample values of the members."""
    if soft:
        raise ValueError(
            "membership holds soft labels, which noise='auto' does not support; use noise=None, or "
            "degrees of one label per row."
        )
    in_sample = np.stack([fitted.in_sample for fitted in members], axis=2)
    return fit_noise(F, problem.codes, problem.row_weight, in_sample, stacking)


def _fit_stacking(F: Array, problem: RidgeProblem, stats: FirstPassStats) -> StackingModel:
    """Fit the stacking weights, and warn of classes with a single row."""
    if problem.one_row_per_class:
        warn_user(
            "each class has only one row, so that none can be held out: members get equal weights, "
            "and probabilities are unreliable; give more rows of each class."
        )
        return uniform_weights(F, problem.Y, problem.row_weight)
    if not (stats.sampled or stats.soft):
        _warn_of_single_rows(problem.codes, stats.labels)
    return fit_stacking(F, problem.Y, problem.row_weight)


def _warn_of_single_rows(codes: Array, classes: Array) -> None:
    """Warn of classes with a single row, which have none left when it is held out."""
    single = classes[np.bincount(codes, minlength=len(classes)) == 1].tolist()
    if single:
        named = ", ".join(repr(label) for label in single[:5])
        more = f" and {len(single) - 5:,} more" if len(single) > 5 else ""
        spellings = [s for s in label_spellings(classes) if {*s.values["labels"]} & {*single}]
        near = "".join(f". Note that {describe(finding)}" for finding in spellings)
        warn_user(
            f"y has only one row of {named}{more}: when it is held out, its class has no rows, so "
            "that probabilities and prediction sets of the class are unreliable; give more rows of "
            f"it, or remove it{near}."
        )


def _all_loo_values(fit: CommitteeFit, stats: FirstPassStats, chunk: Rows) -> Array:
    """Compute leave-one-out values (n, K, M) of all rows of the only chunk.

    Those of rows of weight 0 are the values of the members.
    """
    rows, index = stats.training_rows(chunk)
    values = fit.loo_values
    if stats.sampled:
        values = fit.loo_values_of(rows)
        values[np.searchsorted(index, stats.index)] = fit.loo_values
    members = fit.attributes["members_"]
    return complete_values(values, index, chunk.X, members, fit.scaler.scales, fit.landmarks)


def _label_degrees(noise: NoiseModel, F: Array, y: Any, classes: Array) -> Array:
    """Compute the probability that the label of each row is correct, 0 for a class that is dropped.

    A class is dropped if all of its rows have weight 0.
    """
    y = column_or_1d(label_array(y))
    is_dropped = ~np.isin(y, classes)
    codes = np.zeros(len(y), dtype=np.intp)
    codes[~is_dropped] = np.searchsorted(classes, y[~is_dropped])
    degrees = noise.posterior(F, codes)[np.arange(len(y)), codes]
    degrees[is_dropped] = 0.0
    return np.clip(degrees, 0.0, 1.0)
