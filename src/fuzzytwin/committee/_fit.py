"""Fit a committee to rows that may be in one place or in many.

A first pass collects statistics and a sample of all rows (`fuzzytwin.committee._first_pass`).
Landmarks, gammas and per-feature bandwidths come from the sample. A second pass sums up the
features of all members (`fuzzytwin.committee._members`, `fuzzytwin.core.ridge`). Then the
leave-one-out values of the sample decide on ridges and on the stacking weights. There is no second
pass if all rows are landmarks.
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
    Summed,
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
from fuzzytwin.committee._stacking import alike, combine, unseen_scores
from fuzzytwin.kernels import (
    center_landmarks,
    given_landmarks,
    is_centers,
    is_count,
    kmeans_landmarks,
    seeded,
)

RHO = 0.1  # ridge on the weights of members, in units of the weight of a row or group
FEWEST_LANDMARKS, MOST_LANDMARKS = 300, 1000  # of more rows than are all landmarks
PRODUCTS = 3e10  # of all rows, landmarks and members, that a second pass may take
SCREENING_LANDMARKS = 300
COUNTS = 0.05  # members that move log odds by less, relative to the first, are left out
SAME_VALUES = 1e-5  # relative difference of the values of planes that are found again
SET_FOLDS = 3
LEAST_SHARE = 1e-3  # of a row in a class that counts where sets are calibrated


@dataclass(frozen=True, eq=False)
class CommitteeConfig:
    """What a committee is fitted with, checked."""

    kinds: list[Any]
    n_landmarks: Any
    class_weight: Any = None
    n_threads: int = 1
    random_state: Any = None
    screen: bool = False  # whether members that do not count may be left out where rows are many
    noise: bool = False  # whether wrong labels are modelled along
    verbose: bool = False


@dataclass(frozen=True, eq=False)
class Learned:
    """What `learn` found out."""

    attributes: dict[str, Any]  # fitted attributes of `FuzzyTwinCommittee`
    found: list[FittedMember]  # members
    F: Array  # their values (n, K, M) at the sampled rows, each left out
    rows: PreparedRows  # the sampled rows
    noise: NoiseModel | None  # how labels came about, where that is asked for
    prepare: RowScaler

    def values(self, rows: WeightedRows) -> Array:
        """Compute values (n, K, M) at rows that were summed up, each one or its group left out.

        Not where all rows are landmarks; then `F` has them.
        """
        F = np.empty((len(rows), *self.F.shape[1:]))
        width = max(one.features.width for one in self.found if one.features is not None)
        for i in iter_group_blocks(rows.groups, len(rows), width):
            some, known = self.prepare(rows.take(i)), dict[str, Array]()
            for m, (member, _, _, features, path) in enumerate(self.found):
                assert features is not None
                assert path is not None
                Q, alpha = path.coordinates(features(some.Z, known)), np.array([member.alpha])
                F[i, :, m] = path.left_out(Q, some.Y, some.s, alpha, some.groups)[0]
        return F


def learn(plan: CommitteeConfig, look: FirstPassStats, summed: Summed) -> Learned:
    """Fit all members and their combination, from a first look and a second pass."""
    n, classes = look.count, look.labels
    factor = class_factors(plan.class_weight, look.weight, classes)
    if not factor.all():
        raise ValueError(
            f"class_weight={plan.class_weight!r} leaves out class "
            f"{classes[factor == 0].tolist()[0]!r}; leave out its rows instead."
        )
    prepare = look.prepare(factor)
    rows = prepare(look.rows)
    with Progress("committee", len(plan.kinds), "members", wanted=plan.verbose) as bar:
        kinds = plan.kinds
        if plan.screen and n > FEW_ROWS:
            kinds = screened(plan, look.rows.take(slice(SCREENING_ROWS)), prepare, len(rows))
        landmarks, weight = choose_landmarks(plan, len(kinds), rows, n, prepare)
        members = MemberFitter(
            rows, landmarks, landmarks is rows.Z, n, partial(summed, prepare),
            plan.n_threads, bar.advance,
        )  # fmt: skip
        planes = iter(members.fit([kind for kind in kinds if isinstance(kind, MemberSpec)], weight))
        found = []
        for kind in kinds:
            if isinstance(kind, MemberSpec):
                found.append(next(planes))
                continue
            if look.sampled:
                raise ValueError(
                    f"{type(kind).__name__} is a member that needs all rows at once, which are "
                    f"more than {SAMPLE_ROWS:,}; use kernels alone as members."
                )
            found.append(fit_classifier(kind, rows))
            bar.advance()
    F, Y, s = np.stack([one.left_out for one in found], axis=2), rows.Y, rows.plain
    # Whether each row is the only one of its class.
    alone = len(np.unique(rows.codes)) == len(rows) == np.count_nonzero(rows.Y)
    noise, of_noise = None, dict[str, Any]()
    if plan.noise:
        if look.soft:
            raise ValueError(
                "membership holds soft labels, which noise='auto' has no model of; use noise=None, "
                "or degrees of one label per row."
            )
        noise = fit_noise(F, rows.codes, s, np.stack([one.in_sample for one in found], axis=2))
    if alone:
        warnings.warn(
            "each class has one row only, so that none can be left out: all members count alike, "
            "and probabilities are guesses; give more rows of each class.",
            UserWarning, stacklevel=3,
        )  # fmt: skip
        together = alike(F, rows.Y, s)
    else:
        if not (look.sampled or look.soft):
            warn_of_single_rows(rows.codes, classes)
        together = combine(F, rows.Y, s, RHO)
    if noise is not None:
        together = noise.with_noise_correction(together)
        Y = noise.shares(F, rows.codes, together.chance)
        together = together.judged(F, Y, s)
        matrix = noise_matrix(noise.posterior(F, rows.codes), rows.codes)
        of_noise = {
            "noise_matrix_": matrix,
            "noise_inverse_": together.unmixing,
            "noise_weight_": together.chance,
        }
    P = softmax(together.scores(F), axis=1)
    if noise is None and len(classes) == 2 and not alone:
        P = softmax(unseen_scores(together, F, rows.Y, s, RHO, rows.groups), axis=1)
    elif (len(classes) > 2 or (noise is not None and len(rows) <= FEW_ROWS)) and not alone:
        P = cross_fitted_proba(P, F, rows, noise)
    row, k = np.nonzero(Y > LEAST_SHARE)
    scores = np.column_stack([1 - P[row, k], k, s[row] * Y[row, k]])
    if rows.groups is not None:
        scores = np.column_stack([scores, rows.groups[row]])
    attributes = {
        "classes_": classes,
        "members_": [
            replace(one.member, weight=float(t))
            for one, t in zip(found, together.weights, strict=True)
        ],
        "stack_coef_": together.mixing,
        "stack_intercept_": together.biases,
        "class_weight_": factor,
        "loo_log_loss_": together.log_loss,
        "landmarks_": landmarks,
        "mean_": prepare.scales.mean,
        "scale_": prepare.scales.deviation,
        "limits_": prepare.scales.limits,
        "conformity_scores_": scores[np.argsort(scores[:, 0], kind="stable")],
        "n_features_in_": look.n_features,
        **of_noise,
    }
    return Learned(attributes, found, F, rows, noise, prepare)


def warn_of_single_rows(codes: Array, classes: Array) -> None:
    """Warn of classes that have one row, which no model without that row knows."""
    single = classes[np.bincount(codes, minlength=len(classes)) == 1].tolist()
    if single:
        named = ", ".join(repr(label) for label in single[:5])
        more = f" and {len(single) - 5:,} more" if len(single) > 5 else ""
        warnings.warn(
            f"y has one row only of {named}{more}: leaving it out leaves nothing of its class, so "
            "that probabilities and sets of this class are guesses; give more rows of it, or leave "
            "it out.",
            UserWarning, stacklevel=4,
        )  # fmt: skip


def cross_fitted_proba(P: Array, F: Array, rows: PreparedRows, noise: NoiseModel | None) -> Array:
    """Replace probabilities by those of combinations that did not see the row either.

    The numbers that weigh members and mix classes fit the rows of a fit a little better than
    others, which sets of labels would promise as coverage.
    """
    folds, Y, s, P = learning_folds(rows, SET_FOLDS), rows.Y, rows.plain, P.copy()
    for fold in range(SET_FOLDS):
        rest, mine = folds != fold, folds == fold
        if mine.any() and (s[rest] @ Y[rest] > 0).all():
            found = combine(F[rest], Y[rest], s[rest], RHO)
            found = found if noise is None else noise.with_noise_correction(found)
            P[mine] = softmax(found.scores(F[mine]), axis=1)
    return P


def left_out(model: Any, look: FirstPassStats, summed: Summed, held: WeightedRows) -> Array:
    """Compute values (n, K, M) of a fitted committee at its rows `held`, each left out.

    Other rows than those of the fit are refused: planes of theirs have other values at them.
    """
    other = ValueError(
        "the planes of these rows are not those of the model; give the rows, labels, weights, "
        "degrees and groups of the fit."
    )
    if not np.array_equal(look.labels, model.classes_):
        raise other
    scales = Scales(model.mean_, model.scale_, model.limits_)
    prepare = look.prepared(scales, model.class_weight_)
    rows = prepare(held)
    gram = model.landmarks_.shape[0] == len(rows) and is_count(model.n_landmarks)
    landmarks = rows.Z if gram else model.landmarks_
    members = MemberFitter(rows, landmarks, gram, look.count, partial(summed, prepare))
    kernels = [member for member in model.members_ if member.classifier is None]
    again = iter(zip(members.planes(kernels), fitted_values(model, kernels, rows), strict=True))
    values = []
    for member in model.members_:
        if member.classifier is not None:
            found = fit_classifier(member.classifier, rows)
        else:
            found, fitted = next(again)
            off = np.abs(found.in_sample - fitted).max(initial=0.0)
            if off > SAME_VALUES * np.abs(fitted).max(initial=0.0):
                raise other
        values.append(found.left_out)
    return np.stack(values, axis=2)


def fitted_values(model: Any, members: list[CommitteeMember], rows: PreparedRows) -> Array:
    """Compute values (M, n, K) of members of a fitted committee at rows, in blocks of rows."""
    landmarks = model.landmarks_
    values = np.empty((len(members), *rows.Y.shape))
    for here in blocks(len(rows), max(landmarks.shape)):
        known = dict[str, Array]()
        for m, member in enumerate(members):
            values[m, here] = member_values(member, None, rows.Z[here], landmarks, known)
    return values


def screened(
    plan: CommitteeConfig, some: WeightedRows, prepare: RowScaler, n_rows: int
) -> list[MemberSpec]:
    """Fit members to some of the rows, and keep those that count; time is spent on them.

    Learned columns are kept, unless they are to be learned from folds.
    """
    rows = prepare(some)
    landmarks = unsupervised_landmarks(rows, SCREENING_LANDMARKS, np.random.RandomState(0))
    members = MemberFitter(
        rows, landmarks, False, n_rows, partial(prepare.sums, some), plan.n_threads
    )
    found = members.fit(plan.kinds, np.ones(landmarks.shape[0]))
    F = np.stack([one.left_out for one in found], axis=2)
    moved = combine(F, rows.Y, rows.plain, RHO).weights * F.std(axis=(0, 1))
    return [
        replace(kind, gamma=member.gamma, relevance=None)
        if member.start is not None and not n_crossfit_folds(n_rows, rows.Z.shape[1])
        else kind
        for kind, (member, *_), size in zip(plan.kinds, found, moved, strict=True)
        if size >= COUNTS * moved.max()
    ]


def choose_landmarks(
    plan: CommitteeConfig, n_members: int, rows: PreparedRows, n: int, prepare: RowScaler
) -> tuple[Any, Array]:
    """Return scaled landmarks and their weights: all sampled rows, some of them, or those given."""
    given: Any = plan.n_landmarks
    if isinstance(given, str) or is_count(given):
        m = count_landmarks(n, n_members) if isinstance(given, str) else int(given)
        if is_centers(given):
            rng = seeded(plan.random_state)
            landmarks = center_landmarks(rows.Z, rows.s, m, rng, rows.X, rows.groups)
            return landmarks, np.ones(landmarks.shape[0])
        if m >= n and n == len(rows):
            return rows.Z, rows.s
        landmarks = unsupervised_landmarks(rows, m, seeded(plan.random_state))
    else:
        landmarks = given_landmarks(given, rows.Z.shape[1])
        landmarks = prepare.scales(landmarks)
        if sparse.issparse(rows.Z) and not sparse.issparse(landmarks):
            landmarks = type(rows.Z)(landmarks)
    return landmarks, np.ones(landmarks.shape[0])


def unsupervised_landmarks(rows: PreparedRows, m: int, rng: np.random.RandomState) -> Any:
    """Choose landmarks without a look at labels, or left-out values would know them.

    Means of the rows of one class lie nearer to these than to others, even where labels are drawn
    at random. Rows are drawn by their content as given, so that their order does not matter.
    """
    one_class = np.zeros(len(rows), dtype=np.intp)
    return kmeans_landmarks(rows.Z, one_class, rows.s, m, rng, content=rows.X)


def count_landmarks(n: int, n_members: int) -> int:
    """Choose how many landmarks n rows have: a second pass takes a limited number of products."""
    if n <= FEW_ROWS:
        return n
    affordable = int(np.sqrt(PRODUCTS / (n * n_members)))
    return min(max(FEWEST_LANDMARKS, affordable), MOST_LANDMARKS)
