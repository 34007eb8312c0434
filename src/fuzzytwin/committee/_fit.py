"""Fit a committee to rows in memory or in chunks.

A first pass collects statistics and a sample of all rows (`fuzzytwin.committee._first_pass`).
Landmarks, gammas and per-feature bandwidths come from the sample. A second pass sums up the
features of all members (`fuzzytwin.committee._ridge_members`, `fuzzytwin.core.ridge`). Ridges and
stacking weights are then chosen by the leave-one-out values of the sample. No second pass is needed
if all rows are landmarks. Trees learn from up to 200,000 rows (`fuzzytwin.committee._trees`).

Leave-one-out probabilities come from stacking weights that never saw the row: those of the sample
are cross-fitted, and other rows take no part in the stacking.
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
from fuzzytwin.committee._members import (
    FittedMember,
    RidgeProblem,
    check_members,
    log_probabilities,
    predict_values,
)
from fuzzytwin.committee._noise import NoiseModel, estimate_noise_matrix, fit_noise
from fuzzytwin.committee._preprocessing import fit_preprocessor
from fuzzytwin.committee._ridge_members import MemberFitter, choose_landmarks, distance_folds
from fuzzytwin.committee._stacking import (
    StackingModel,
    cross_fitted_scores,
    fit_stacking,
    mean_log_loss,
    uniform_weights,
)
from fuzzytwin.committee._trees import TreeEnsemble, fit_trees
from fuzzytwin.core.conformal import conformity_scores
from fuzzytwin.core.hashing import hash64, row_hashes
from fuzzytwin.tables._checks import label_spellings
from fuzzytwin.tables._findings import describe

STACKING_FOLDS = 3  # for probabilities by stacking weights that never saw the row

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
) -> tuple[CommitteeFit, Array]:
    """Fit a `FuzzyTwinCommittee` to rows in memory.

    Return the result and the leave-one-out values (n, K, M) of all rows.
    """
    check_parameters(model)
    check_rows(X)
    check_has_columns(X)
    preprocessor = fit_preprocessor(X)
    numbers = X if preprocessor is None else preprocessor.transform(X)
    rows = validate_rows(model, numbers, y, sample_weight, membership, groups=groups, table=X)
    warn_of_leakage(rows, "probabilities and prediction sets")
    degrees = None
    with limited_threads():
        chunk, merged = merge_copies(rows)
        stats, sum_features = run_first_pass(in_memory(chunk), names=rows.names)
        fit = fit_committee(model, stats, sum_features)
        values = _all_loo_values(fit, stats, chunk)
        scores = fit.stacking.scores(values)
        scores[stats.index[: len(fit.codes)]] = fit.scores
        loo_values = values[merged]
        if fit.noise is not None:
            degrees = _label_degrees(fit.noise, loo_values, y, fit.attributes["classes_"])
    names = rows.names
    if preprocessor is not None:
        fit.attributes["n_features_in_"] = preprocessor.n_features_in_
        names = getattr(preprocessor, "feature_names_in_", None)
    set_fitted_attributes(
        model,
        **fit.attributes,
        loo_proba_=np.asarray(softmax(scores, axis=1))[merged],
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
    scores: Array  # their scores (n, K) by stacking weights that never saw the row
    stacking: StackingModel
    noise: NoiseModel | None  # None if noise=None
    landmarks: Any
    scaler: RowScaler
    tree_rows: TreeRows | None  # None without trees

    def loo_values_of(self, rows: Rows) -> Array:
        """Compute leave-one-out values (n, K, M) of training rows, or leave-one-group-out values.

        If all rows are landmarks, use `loo_values` instead.
        """
        F = np.empty((len(rows), *self.loo_values.shape[1:]))
        width = max(fitted.features.width for fitted in self.members if fitted.features is not None)
        for index in blocks(len(rows), width, rows.groups):
            problem = self.scaler(rows.take(index))
            distances = dict[str, Array]()
            for m, (member, _, _, features, path) in enumerate(self.members):
                if features is None or path is None:  # trees
                    continue
                Q = path.coordinates(features(problem.Z, distances))
                alpha = np.array([member.alpha])
                values = path.left_out(Q, problem.Y, problem.s, alpha, problem.groups)
                F[index, :, m] = values[0]
        trees = [fitted.member.trees for fitted in self.members if fitted.member.trees is not None]
        if self.tree_rows is not None:
            F[:, :, -len(trees) :] = self.tree_rows.held_out(rows, trees)
        return F

    def without_rows(self) -> CommitteeFit:
        """Return a copy without values of the sampled rows, for `loo_values_of` elsewhere."""
        return replace(
            self,
            members=[fitted.take(slice(0)) for fitted in self.members],
            loo_values=self.loo_values[:0],
            codes=self.codes[:0],
            scores=self.scores[:0],
        )


@dataclass(frozen=True, eq=False)
class TreeRows:
    """The rows that trees learned from, by sorted hashes, and their held-out values (n, K, T).

    The label is hashed also: copies of a row with other labels have values of their own.
    """

    hashes: Array
    values: Array

    @classmethod
    def of(cls, rows: Rows, trees: list[FittedMember]) -> TreeRows | None:
        """Sort the rows from which the trees learned. None if there are no trees."""
        if not trees:
            return None
        hashes = _labelled_hashes(rows)
        order = np.argsort(hashes, kind="stable")
        values = np.stack([fitted.loo_values for fitted in trees], axis=2)
        return cls(hashes[order], values[order])

    def held_out(self, rows: Rows, trees: list[TreeEnsemble]) -> Array:
        """Compute held-out values (n, K, T) of trees: of other rows, these are the predictions."""
        hashes = _labelled_hashes(rows)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        values = self.values[place]
        other = np.flatnonzero(self.hashes[place] != hashes)
        for t, ensemble in enumerate(trees):
            values[other, :, t] = log_probabilities(ensemble.predict_proba(rows.X[other]))
        return values


def _labelled_hashes(rows: Rows) -> Array:
    return np.asarray(row_hashes(rows.X) + hash64(rows.codes))


def fit_committee(model: Any, stats: FirstPassStats, sum_features: SumFeatures) -> CommitteeFit:
    """Fit all members and their stacking weights, after a first pass.

    The parameters are those of the `FuzzyTwinCommittee` `model`, which is not changed.
    """
    class_weight = _class_weight(model.class_weight, stats)
    scaler = stats.row_scaler(class_weight)
    problem = scaler(stats.sample)
    landmarks, members = _fit_members(model, stats, scaler, problem, sum_features)
    tree_rows = None
    if isinstance(model.members, str) and model.members == "auto":
        trees = fit_trees(scaler.unscaled(stats.rows))
        tree_rows = TreeRows.of(stats.rows, trees)
        members += [fitted.take(slice(len(problem.codes))) for fitted in trees]
    F = np.stack([fitted.loo_values for fitted in members], axis=2)
    stacking = _fit_stacking(F, problem, stats)
    noise = _fit_noise(F, members, problem, stats.soft, stacking) if model.noise else None
    targets = problem.Y
    if noise is not None:
        stacking = noise.correct(stacking)
        targets = noise.soft_labels(F, problem.codes, stacking.noise_weight)
    scores = stacking.scores(F)
    if not problem.one_row_per_class:
        folds = distance_folds(problem, STACKING_FOLDS)
        scores = cross_fitted_scores(stacking, F, problem.Y, problem.row_weight, folds)
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
    return CommitteeFit(
        attributes,
        members,
        F,
        problem.codes,
        scores,
        stacking,
        noise,
        landmarks,
        scaler,
        tree_rows,
    )


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
    """Choose landmarks and fit the members that are ridge regressions. Return both."""
    specs = check_members(model.members)
    n_threads = count_threads(model.n_jobs)
    with Progress("committee", len(specs), "members", enabled=bool(model.verbose)) as bar:
        landmarks, weight = choose_landmarks(
            model.n_landmarks,
            stats.sample,
            problem,
            scaler.scales,
            n_rows=stats.count,
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
        return landmarks, fitter.fit(specs, weight)


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
    F = np.empty((len(chunk), *fit.loo_values.shape[1:]))
    sampled = stats.index[: len(fit.codes)]
    F[sampled] = fit.loo_values
    rest = np.flatnonzero(~np.isin(index, sampled))
    if len(rest):
        F[index[rest]] = fit.loo_values_of(rows.take(rest))
    unused = np.setdiff1d(np.arange(len(chunk)), index)
    if len(unused):
        members = fit.attributes["members_"]
        F[unused] = predict_values(members, chunk.X[unused], fit.scaler.scales, fit.landmarks)
    return F


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
