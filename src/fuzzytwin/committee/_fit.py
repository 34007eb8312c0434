"""Fit a committee to rows in memory or in chunks.

A first pass collects statistics and a sample of all rows (`fuzzytwin.committee._first_pass`).
Landmarks, gammas and per-feature bandwidths come from the sample. A second pass sums up the
features of all members (`fuzzytwin.committee._members`, `fuzzytwin.core.ridge`). Ridges and
stacking weights are then chosen by the leave-one-out values of the sample. No second pass is needed
if all rows are landmarks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax

from fuzzytwin._params import class_factors
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._classifiers import fit_classifier
from fuzzytwin.committee._first_pass import (
    SAMPLE_ROWS,
    FirstPassStats,
    PreparedRows,
    RowScaler,
    Scales,
    SumFeatures,
    WeightedRows,
    blocks,
    iter_group_blocks,
)
from fuzzytwin.committee._members import (
    FEW_ROWS,
    SCREENING_ROWS,
    CommitteeMember,
    FittedMember,
    MemberFitter,
    MemberSpec,
    learning_folds,
    member_values,
    n_crossfit_folds,
)
from fuzzytwin.committee._noise import NoiseModel, fit_noise, noise_matrix
from fuzzytwin.committee._stacking import combine, uniform_weights, unseen_scores
from fuzzytwin.kernels import (
    center_landmarks,
    given_landmarks,
    is_centers,
    is_count,
    kmeans_landmarks,
    seeded,
)

RHO = 0.1  # ridge on the stacking weights, in units of the weight of a row or group
FEWEST_LANDMARKS = 300  # if not all rows are landmarks
MOST_LANDMARKS = 1000
PRODUCTS = 3e10  # limit of rows x landmarks x landmarks x members in a second pass
SCREENING_LANDMARKS = 300
LEAST_EFFECT = 0.05  # on log odds, relative to the largest: members of less are dropped
SAME_VALUES = 1e-5  # largest relative difference between a fit and its repetition
SET_FOLDS = 3
LEAST_SHARE = 1e-3  # smallest soft label that has a conformity score


@dataclass(frozen=True, eq=False)
class CommitteeConfig:
    """Validated parameters of a committee."""

    specs: list[Any]  # of members: `MemberSpec`, or classifiers
    n_landmarks: Any
    class_weight: Any = None
    n_threads: int = 1
    random_state: Any = None
    screen: bool = False  # whether members of little effect are dropped if rows are many
    noise: bool = False  # whether a label-noise model is fitted
    verbose: bool = False


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of `learn`."""

    attributes: dict[str, Any]  # fitted attributes of `FuzzyTwinCommittee`
    found: list[FittedMember]  # members
    F: Array  # leave-one-out values (n, K, M) of the sampled rows
    rows: PreparedRows  # the sampled rows
    noise: NoiseModel | None  # None if noise=None
    scaler: RowScaler

    def values(self, rows: WeightedRows) -> Array:
        """Compute leave-one-out values (n, K, M) of training rows, or leave-one-group-out values.

        If all rows are landmarks, use `F` instead.
        """
        F = np.empty((len(rows), *self.F.shape[1:]))
        width = max(fitted.features.width for fitted in self.found if fitted.features is not None)
        for index in iter_group_blocks(rows.groups, len(rows), width):
            block = self.scaler(rows.take(index))
            distances = dict[str, Array]()
            for m, (member, _, _, features, path) in enumerate(self.found):
                assert features is not None
                assert path is not None
                Q = path.coordinates(features(block.Z, distances))
                alpha = np.array([member.alpha])
                F[index, :, m] = path.left_out(Q, block.Y, block.s, alpha, block.groups)[0]
        return F


def learn(config: CommitteeConfig, stats: FirstPassStats, sum_features: SumFeatures) -> Learned:
    """Fit all members and their stacking weights, after a first pass."""
    n = stats.count
    classes = stats.labels
    factor = class_factors(config.class_weight, stats.weight, classes)
    if not factor.all():
        raise ValueError(
            f"class_weight={config.class_weight!r} leaves out class "
            f"{classes[factor == 0].tolist()[0]!r}; leave out its rows instead."
        )
    scaler = stats.row_scaler(factor)
    rows = scaler(stats.rows)
    with Progress("committee", len(config.specs), "members", wanted=config.verbose) as bar:
        specs = config.specs
        if config.screen and n > FEW_ROWS:
            sample = stats.rows.take(slice(SCREENING_ROWS))
            specs = screen_members(config, sample, scaler, len(rows))
        landmarks, weight = choose_landmarks(config, len(specs), rows, n, scaler)
        fitter = MemberFitter(
            rows, landmarks, landmarks is rows.Z, n, partial(sum_features, scaler),
            config.n_threads, bar.advance,
        )  # fmt: skip
        kernel_specs = [spec for spec in specs if isinstance(spec, MemberSpec)]
        kernel_members = iter(fitter.fit(kernel_specs, weight))
        members = []
        for spec in specs:
            if isinstance(spec, MemberSpec):
                members.append(next(kernel_members))
                continue
            if stats.sampled:
                raise ValueError(
                    f"{type(spec).__name__} is a member that needs all rows at once, which are "
                    f"more than {SAMPLE_ROWS:,}; use only kernels as members."
                )
            members.append(fit_classifier(spec, rows))
            bar.advance()
    F = np.stack([member.loo_values for member in members], axis=2)
    Y = rows.Y
    s = rows.row_weight
    one_row_per_class = len(np.unique(rows.codes)) == len(rows) == np.count_nonzero(rows.Y)
    noise = None
    if config.noise:
        if stats.soft:
            raise ValueError(
                "membership holds soft labels, which noise='auto' does not support; use "
                "noise=None, or degrees of one label per row."
            )
        in_sample = np.stack([member.in_sample for member in members], axis=2)
        noise = fit_noise(F, rows.codes, s, in_sample)
    if one_row_per_class:
        warnings.warn(
            "each class has only one row, so that none can be left out: members get equal weights, "
            "and probabilities are unreliable; give more rows of each class.",
            UserWarning, stacklevel=3,
        )  # fmt: skip
        stacking = uniform_weights(F, rows.Y, s)
    else:
        if not (stats.sampled or stats.soft):
            warn_of_single_rows(rows.codes, classes)
        stacking = combine(F, rows.Y, s, RHO)
    noise_attributes = dict[str, Any]()
    if noise is not None:
        stacking = noise.with_noise_correction(stacking)
        Y = noise.shares(F, rows.codes, stacking.noise_weight)
        stacking = stacking.with_log_loss(F, Y, s)
        matrix = noise_matrix(noise.posterior(F, rows.codes), rows.codes)
        noise_attributes = {
            "noise_matrix_": matrix,
            "noise_inverse_": stacking.noise_inverse,
            "noise_weight_": stacking.noise_weight,
        }
    P = softmax(stacking.scores(F), axis=1)
    if noise is None and len(classes) == 2 and not one_row_per_class:
        P = softmax(unseen_scores(stacking, F, rows.Y, s, RHO, rows.groups), axis=1)
    elif (
        len(classes) > 2 or (noise is not None and len(rows) <= FEW_ROWS)
    ) and not one_row_per_class:
        P = cross_fitted_proba(P, F, rows, noise)
    row, k = np.nonzero(Y > LEAST_SHARE)
    scores = np.column_stack([1 - P[row, k], k, s[row] * Y[row, k]])
    if rows.groups is not None:
        scores = np.column_stack([scores, rows.groups[row]])
    attributes = {
        "classes_": classes,
        "members_": [
            replace(fitted.member, weight=float(t))
            for fitted, t in zip(members, stacking.weights, strict=True)
        ],
        "stack_coef_": stacking.coef,
        "stack_intercept_": stacking.intercept,
        "class_weight_": factor,
        "loo_log_loss_": stacking.log_loss,
        "landmarks_": landmarks,
        "mean_": scaler.scales.mean,
        "scale_": scaler.scales.deviation,
        "limits_": scaler.scales.limits,
        "conformity_scores_": scores[np.argsort(scores[:, 0], kind="stable")],
        "n_features_in_": stats.n_features,
        **noise_attributes,
    }
    return Learned(attributes, members, F, rows, noise, scaler)


def warn_of_single_rows(codes: Array, classes: Array) -> None:
    """Warn of classes with a single row, which have none left when it is held out."""
    single = classes[np.bincount(codes, minlength=len(classes)) == 1].tolist()
    if single:
        named = ", ".join(repr(label) for label in single[:5])
        more = f" and {len(single) - 5:,} more" if len(single) > 5 else ""
        warnings.warn(
            f"y has only one row of {named}{more}: when it is left out, its class has no rows, so "
            "that probabilities and prediction sets of the class are unreliable; give more rows of "
            "it, or remove it.",
            UserWarning, stacklevel=4,
        )  # fmt: skip


def cross_fitted_proba(P: Array, F: Array, rows: PreparedRows, noise: NoiseModel | None) -> Array:
    """Replace probabilities by those of stacking models fitted without the fold of the row.

    Stacking weights fit the training rows a little better than new rows. Without cross-fitting, the
    coverage of prediction sets would be too low.
    """
    P = P.copy()
    Y = rows.Y
    s = rows.row_weight
    folds = learning_folds(rows, SET_FOLDS)
    for fold in range(SET_FOLDS):
        train = folds != fold
        test = folds == fold
        if test.any() and (s[train] @ Y[train] > 0).all():
            stacking = combine(F[train], Y[train], s[train], RHO)
            if noise is not None:
                stacking = noise.with_noise_correction(stacking)
            P[test] = softmax(stacking.scores(F[test]), axis=1)
    return P


def refitted_loo_values(
    model: Any, stats: FirstPassStats, sum_features: SumFeatures, training_rows: WeightedRows
) -> Array:
    """Compute leave-one-out values (n, K, M) of the training rows of a fitted committee.

    Members are fitted again, with the parameters of the model. If their in-sample values differ
    from those of the model, the rows are not those of its fit, and a ValueError is raised.
    """
    mismatch = ValueError(
        "X, y differ from the training data of the model; give the rows, labels, weights, degrees "
        "and groups of the fit."
    )
    if not np.array_equal(stats.labels, model.classes_):
        raise mismatch
    scales = Scales(model.mean_, model.scale_, model.limits_)
    scaler = stats.row_scaler_with(scales, model.class_weight_)
    rows = scaler(training_rows)
    gram = model.landmarks_.shape[0] == len(rows) and is_count(model.n_landmarks)
    landmarks = rows.Z if gram else model.landmarks_
    fitter = MemberFitter(rows, landmarks, gram, stats.count, partial(sum_features, scaler))
    kernels = [member for member in model.members_ if member.classifier is None]
    refits = iter(zip(fitter.planes(kernels), fitted_values(model, kernels, rows), strict=True))
    loo_values = []
    for member in model.members_:
        if member.classifier is not None:
            refit = fit_classifier(member.classifier, rows)
        else:
            refit, expected = next(refits)
            difference = np.abs(refit.in_sample - expected).max(initial=0.0)
            if difference > SAME_VALUES * np.abs(expected).max(initial=0.0):
                raise mismatch
        loo_values.append(refit.loo_values)
    return np.stack(loo_values, axis=2)


def fitted_values(model: Any, members: list[CommitteeMember], rows: PreparedRows) -> Array:
    """Compute values (M, n, K) of members of a fitted committee at rows, in blocks of rows."""
    landmarks = model.landmarks_
    values = np.empty((len(members), *rows.Y.shape))
    for block in blocks(len(rows), max(landmarks.shape)):
        distances = dict[str, Array]()
        for m, member in enumerate(members):
            values[m, block] = member_values(member, None, rows.Z[block], landmarks, distances)
    return values


def screen_members(
    config: CommitteeConfig, sample: WeightedRows, scaler: RowScaler, n_rows: int
) -> list[MemberSpec]:
    """Fit members to a sample of the rows, and keep those that matter, to save time.

    Per-feature gammas are kept, unless they are to be cross-fitted.
    """
    rows = scaler(sample)
    landmarks = unsupervised_landmarks(rows, SCREENING_LANDMARKS, np.random.RandomState(0))
    fitter = MemberFitter(
        rows, landmarks, False, n_rows, partial(scaler.sums, sample), config.n_threads
    )
    members = fitter.fit(config.specs, np.ones(landmarks.shape[0]))
    F = np.stack([member.loo_values for member in members], axis=2)
    effects = combine(F, rows.Y, rows.row_weight, RHO).weights * F.std(axis=(0, 1))
    return [
        replace(spec, gamma=member.gamma, relevance=None)
        if member.start is not None and not n_crossfit_folds(n_rows, rows.Z.shape[1])
        else spec
        for spec, (member, *_), effect in zip(config.specs, members, effects, strict=True)
        if effect >= LEAST_EFFECT * effects.max()
    ]


def choose_landmarks(
    config: CommitteeConfig, n_members: int, rows: PreparedRows, n: int, scaler: RowScaler
) -> tuple[Any, Array]:
    """Return scaled landmarks and their weights: all rows, a selection, or those of the user."""
    n_landmarks: Any = config.n_landmarks
    if isinstance(n_landmarks, str) or is_count(n_landmarks):
        m = count_landmarks(n, n_members) if isinstance(n_landmarks, str) else int(n_landmarks)
        if is_centers(n_landmarks):
            rng = seeded(config.random_state)
            landmarks = center_landmarks(rows.Z, rows.s, m, rng, rows.X, rows.groups)
            return landmarks, np.ones(landmarks.shape[0])
        if m >= n and n == len(rows):
            return rows.Z, rows.s
        landmarks = unsupervised_landmarks(rows, m, seeded(config.random_state))
    else:
        landmarks = given_landmarks(n_landmarks, rows.Z.shape[1])
        landmarks = scaler.scales(landmarks)
        if sparse.issparse(rows.Z) and not sparse.issparse(landmarks):
            landmarks = type(rows.Z)(landmarks)
    return landmarks, np.ones(landmarks.shape[0])


def unsupervised_landmarks(rows: PreparedRows, m: int, rng: np.random.RandomState) -> Any:
    """Choose landmarks without the labels, which would leak into leave-one-out values otherwise.

    Means of the rows of a class are nearer to these rows than to others, even if labels are drawn
    at random. Rows are drawn by a hash of their content, so that their order does not matter.
    """
    one_class = np.zeros(len(rows), dtype=np.intp)
    return kmeans_landmarks(rows.Z, one_class, rows.s, m, rng, content=rows.X)


def count_landmarks(n: int, n_members: int) -> int:
    """Choose the number of landmarks for n rows, so that the cost of a second pass is limited."""
    if n <= FEW_ROWS:
        return n
    affordable = int(np.sqrt(PRODUCTS / (n * n_members)))
    return min(max(FEWEST_LANDMARKS, affordable), MOST_LANDMARKS)
