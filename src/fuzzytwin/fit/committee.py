"""Fit a committee to rows that may be in one place or in many.

A first pass looks at all rows (`fuzzytwin.fit.look`). Landmarks, gammas and learned columns come
from its sample. A second pass sums up the features of all members (`fuzzytwin.core.ridge_path`);
then the left-out values of the sample decide on ridges and on the combination. There is no second
pass where all rows are landmarks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from fuzzytwin._utils.types import Array
from fuzzytwin.core.label_noise import NoiseModel, fit_noise, noise_matrix
from fuzzytwin.core.ridge_path import RidgePath, RidgeSums
from fuzzytwin.core.stacking import alike, combine
from fuzzytwin.fit import fitting
from fuzzytwin.fit.kernels import given_landmarks, is_count, settled_landmarks
from fuzzytwin.fit.look import SAMPLE_ROWS, Look, Sample, Scale, Seen, whole_groups
from fuzzytwin.fit.members import (
    LEARNING_FOLDS,
    CommitteeMember,
    Features,
    Kind,
    Summing,
    Sums,
    fit_classifier,
    learning_folds,
    median_distances,
    settle,
    with_learned_columns,
)
from fuzzytwin.fit.settings import FitSettings

ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # ridges, in units of the weight of one row
RHO = 0.1  # ridge on the weights of members, in the same units
ALL_ROWS = 1500  # up to this many rows, all of them are landmarks
FEWEST_LANDMARKS, MOST_LANDMARKS = 300, 1000  # of more rows
PRODUCTS = 3e10  # of all rows, landmarks and members, that a second pass may take
SCREENING_ROWS, SCREENING_LANDMARKS = 3000, 300
COUNTS = 0.05  # members that move log odds by less, relative to the first, are left out
SAME_PLANES = 1e-5  # relative difference of planes that are found again
SET_FOLDS = 3
LEAST_SHARE = 1e-3  # of a row in a class that counts where sets are calibrated


@dataclass(frozen=True, eq=False)
class Members:
    """Members, and what they have in common."""

    rows: Sample  # to be left out
    landmarks: Any  # scaled
    gram: bool  # whether the landmarks are these rows, in their order: then no sums are needed
    n_rows: int  # all rows
    sums: Callable[[list[Features]], Sums]  # of features over all rows
    each: Callable[..., Iterable[Any]] = map  # calls a function on several arguments, in order
    done: Callable[[int], Any] = int  # is told how many members are finished

    def fit(self, kinds: list[Kind], weight: Array) -> list[Fitted]:
        """Fit members to landmarks of these weights: planes, and values at rows left out."""
        medians, d = median_distances(self.landmarks, weight), self.landmarks.shape[1]
        members = [settle(kind, medians, d) for kind in kinds]
        return self.planes([with_learned_columns(m, self.rows, self.landmarks) for m in members])

    def again(self, members: list[CommitteeMember]) -> list[Array]:
        """Compute left-out values of fitted members; refuse other rows than those of the fit."""
        found = self.planes(members)
        for member, other in zip(members, found, strict=True):
            before, after = np.asarray(member.coef), np.asarray(other.member.coef)
            size = np.abs(before).max(initial=0.0)
            if np.abs(after - before).max(initial=0.0) > SAME_PLANES * size:
                raise ValueError(
                    "the planes of these rows are not those of the model; give the rows, labels, "
                    "weights and degrees of the fit, in their order."
                )
        return [one.left_out for one in found]

    def planes(self, members: list[CommitteeMember]) -> list[Fitted]:
        """Compute planes with the ridge of least error at rows left out, and values there."""
        features = [Features(member, self.landmarks, self.n_rows) for member in members]
        summed = [part for part in features if part.columns or not self.gram]
        sums = iter(self.sums(summed).parts if summed else [])
        pairs = [
            (member, part, next(sums) if part in summed else None)
            for member, part in zip(members, features, strict=True)
        ]
        known: dict[str, Array] = {}
        found = []
        for one in self.each(lambda of: self._planes(of[0], of[1], of[2], known), pairs):
            self.done(1)
            found.append(one)
        return found

    def _planes(
        self, member: CommitteeMember, part: Features, total: RidgeSums | None, known: Any
    ) -> Fitted:
        rows = self.rows
        alphas = ALPHAS if member.alpha is None else np.array([member.alpha])
        path, values, taking_part = self._path(part, total, slice(None), alphas, known)
        # Learned columns saw the label of the row that is left out. So its values are those of
        # planes whose columns were learned from other folds, where rows are few.
        if member.start is not None and self.n_rows <= ALL_ROWS:
            folds = learning_folds(rows)
            for fold in range(LEARNING_FOLDS):
                rest, mine = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
                other = with_learned_columns(member, rows, self.landmarks, rest)
                blind = Features(other, self.landmarks, self.n_rows)
                sums = None if self.gram else RidgeSums.of(blind(rows.Z), rows.Y, rows.s)
                values[:, mine] = self._path(blind, sums, mine, alphas, None)[1]
        errors = [rows.s @ ((F - rows.Y) ** 2).sum(axis=1) / rows.s.sum() for F in values]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        coef, intercept = path.planes(alphas[best])
        if member.kernel == "linear" and not part.columns:
            coef = np.asarray(part.landmarks.T @ coef)
        fitted = replace(
            member,
            alpha=float(alphas[best]),
            error=float(errors[best]),
            coef=coef,
            intercept=intercept,
        )
        return Fitted(fitted, values[best], taking_part[best], part, path)

    def _path(
        self, part: Features, total: RidgeSums | None, left: Any, alphas: Array, known: Any
    ) -> tuple[RidgePath, Array, Array]:
        """Decompose the features of a member; values with every ridge, left out and taking part."""
        rows, groups = self.rows, self.rows.groups
        Y, u, Z = rows.Y[left], rows.u[left], rows.Z[left]
        groups = None if groups is None else groups[left]
        values, taking_part = (np.empty((len(alphas), *Y.shape)) for _ in range(2))
        if total is None:
            path, Q = RidgePath.of_gram(part(self.landmarks, known), rows.Y, rows.s)
            values = path.left_out(Q[left], Y, u, alphas, groups, taking_part)
            return path, values, taking_part
        path = RidgePath.of(total, part.root())
        few = len(u) <= SAMPLE_ROWS  # distances of all of them are kept for the next member
        for i in [slice(None)] if few else whole_groups(groups, len(u), part.width):
            Q = path.coordinates(part(Z[i], known if few else None))
            of_row = None if groups is None else groups[i]
            inside = np.empty((len(alphas), *Y[i].shape))
            values[:, i] = path.left_out(Q, Y[i], u[i], alphas, of_row, inside)
            taking_part[:, i] = inside
        return path, values, taking_part


class Fitted(NamedTuple):
    """A member, its values (n, K) at rows left out and taking part, and how they were found."""

    member: CommitteeMember
    left_out: Array
    taking_part: Array
    features: Features | None = None
    path: RidgePath | None = None


@dataclass(frozen=True, eq=False)
class Learned:
    """What `learn` found out."""

    attributes: dict[str, Any]  # fitted attributes of `FuzzyTwinCommittee`
    found: list[Fitted]  # members
    F: Array  # their values (n, K, M) at the sampled rows, each left out
    rows: Sample  # the sampled rows
    noise: NoiseModel | None  # how labels came about, where that is asked for
    # From rows, labels, weights, soft labels and groups, as a look has them, to a `Sample`.
    scaled: Callable[..., Sample]

    def all_values(self, seen: Seen, n: int) -> Array:
        """Compute values (n, K, M) of rows in memory; what has no weight is not filled in."""
        F = np.empty((n, *self.F.shape[1:]))
        if len(seen.index) == len(self.rows):
            F[seen.index] = self.F
            return F
        width = max(part.features.width for part in self.found if part.features is not None)
        for i in whole_groups(seen.groups, len(seen.index), width):
            mu, groups = (None if a is None else a[i] for a in (seen.mu, seen.groups))
            F[seen.index[i]] = self.values(seen.X[i], seen.codes[i], seen.s[i], mu, groups)
        return F

    def values(
        self, X: Any, y: Array, s: Array, mu: Array | None = None, groups: Array | None = None
    ) -> Array:
        """Compute values (n, K, M) at rows that were summed up, each one or its group left out.

        Not where all rows are landmarks; then `F` has them.
        """
        rows, known, values = self.scaled(X, y, s, mu, groups), dict[str, Array](), []
        for member, _, _, features, path in self.found:
            assert features is not None
            assert path is not None
            Q = path.coordinates(features(rows.Z, known))
            alphas = np.array([member.alpha])
            values.append(path.left_out(Q, rows.Y, rows.u, alphas, rows.groups)[0])
        return np.stack(values, axis=2)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a committee is fitted with, checked."""

    kinds: list[Any]
    n_landmarks: Any
    settings: FitSettings
    each: Callable[..., Iterable[Any]] = map
    done: Callable[[int], Any] = int  # is told how many members are finished
    screen: bool = False  # whether members that do not count may be left out where rows are many
    noise: bool = False  # whether wrong labels are modelled along


def learn(
    plan: Plan, look: Look, total: Callable[[Summing], Sums], groups: Array | None = None
) -> Learned:
    """Fit all members and their combination, from a first look and a second pass.

    `total` calls a `Summing` on all chunks and adds up what it returns; `groups` are those of the
    sampled rows.
    """
    settings, n = plan.settings, look.count
    held = look.label_weight > 0
    classes, places = look.labels[held], np.cumsum(held) - 1
    factor = fitting.class_factors(settings, look.label_weight[held], classes)
    if not factor.all():
        raise ValueError(
            f"class_weight={settings.class_weight!r} leaves out class "
            f"{classes[factor == 0].tolist()[0]!r}; leave out its rows instead."
        )
    scale = Scale(*look.scaling)
    scaled = scaler(look, scale, places, factor)
    rows = scaled(look.X, look.y, look.s, look.mu, groups)
    rng = check_random_state(settings.random_state)
    kinds = screened(plan, rows) if plan.screen and n > ALL_ROWS else plan.kinds
    landmarks, weight = choose_landmarks(plan, len(kinds), rows, n, scale, rng)

    def sums(features: list[Features]) -> Sums:
        return total(Summing(scale, features, places, factor / look.unit))

    members = Members(rows, landmarks, landmarks is rows.Z, n, sums, plan.each, plan.done)
    planes = iter(members.fit([kind for kind in kinds if isinstance(kind, Kind)], weight))
    found = []
    for kind in kinds:
        if isinstance(kind, Kind):
            found.append(next(planes))
        elif n > len(rows):
            raise ValueError(
                f"{type(kind).__name__} is a member that needs all rows at once, which are more "
                f"than {SAMPLE_ROWS:,}; use kernels alone as members."
            )
        else:
            member, values = fit_classifier(kind, rows)
            found.append(Fitted(member, values, values))
            plan.done(1)
    F, Y, s = np.stack([one.left_out for one in found], axis=2), rows.Y, rows.plain
    noise, of_noise = None, {}
    if plan.noise:
        noise = fit_noise(F, rows.codes, s, np.stack([one.taking_part for one in found], axis=2))
        Y = noise.posterior(F, rows.codes)
        of_noise["noise_matrix_"] = noise_matrix(Y, rows.codes)
    if noise is not None and noise.by_chance:
        together = noise.chance.judged(F, Y, s)
    elif rows.alone:
        warnings.warn(
            "each class has one row only, so that none can be left out: all members count alike, "
            "and probabilities are guesses; give more rows of each class.",
            UserWarning, stacklevel=3,
        )  # fmt: skip
        together = alike(F, rows.Y, s)
    else:
        together = combine(F, rows.Y, s, RHO)
    P = softmax(together.scores(F), axis=1)
    if noise is None and len(classes) > 2 and not rows.alone:
        P = unseen_probabilities(P, F, rows)
    row, k = np.nonzero(Y > LEAST_SHARE)
    scores = np.column_stack([1 - P[row, k], k, s[row] * Y[row, k]])
    attributes = {
        "classes_": classes,
        "members_": [
            replace(one.member, weight=float(t))
            for one, t in zip(found, together.weights, strict=True)
        ],
        "mixing_": together.mixing,
        "biases_": together.biases,
        "class_weight_": factor,
        "loo_log_loss_": together.log_loss,
        "landmarks_": landmarks,
        "mean_": scale.mean,
        "scale_": scale.deviation,
        "set_scores_": scores[np.argsort(scores[:, 0], kind="stable")],
        **of_noise,
    }
    return Learned(attributes, found, F, rows, noise, scaled)


def unseen_probabilities(P: Array, F: Array, rows: Sample) -> Array:
    """Replace probabilities by those of combinations that did not see the row either.

    The K^2 numbers that mix the classes fit the rows of a fit a little better than others, which
    sets of labels would promise as coverage.
    """
    folds, Y, s, P = learning_folds(rows, SET_FOLDS), rows.Y, rows.plain, P.copy()
    for fold in range(SET_FOLDS):
        rest, mine = folds != fold, folds == fold
        if mine.any() and (s[rest] @ Y[rest] > 0).all():
            P[mine] = softmax(combine(F[rest], Y[rest], s[rest], RHO).scores(F[mine]), axis=1)
    return P


def scaler(look: Look, scale: Scale, places: Array, factor: Array) -> Callable[..., Sample]:
    """Return what makes rows such as members need them: scaled, with targets and weights."""

    def scaled(X: Any, y: Array, s: Array, mu: Array | None, groups: Array | None) -> Sample:
        mu = None if mu is None else mu[:, look.label_weight > 0]
        weight = s / look.unit
        return Sample.of(X, scale(X), places[y], weight, mu, factor, look.whole, groups)

    return scaled


def left_out(
    model: Any, look: Look, total: Callable[[Summing], Sums], groups: Array | None
) -> Array:
    """Compute values (n, K, M) of a fitted committee at its rows, each left out.

    The look holds all rows, whatever their number.
    """
    scale, K = Scale(model.mean_, model.scale_), len(model.classes_)
    scaled = scaler(look, scale, np.arange(K), model.class_weight_)
    rows = scaled(look.X, look.y, look.s, look.mu, groups)

    def sums(features: list[Features]) -> Sums:
        return total(Summing(scale, features, np.arange(K), model.class_weight_ / look.unit))

    gram = model.landmarks_.shape[0] == len(rows) and is_count(model.n_landmarks)
    landmarks = rows.Z if gram else model.landmarks_
    members = Members(rows, landmarks, gram, look.count, sums)
    planes = iter(members.again([m for m in model.members_ if m.classifier is None]))
    return np.stack([
        next(planes) if m.classifier is None else fit_classifier(m.classifier, rows)[1]
        for m in model.members_
    ], axis=2)  # fmt: skip


def screened(plan: Plan, rows: Sample) -> list[Kind]:
    """Fit members to some of the rows, and keep those that count, with their learned columns.

    So landmarks and time are spent on them.
    """
    some = rows.take(slice(0, SCREENING_ROWS))
    landmarks = blind_landmarks(some, SCREENING_LANDMARKS, np.random.RandomState(0))

    def sums(features: list[Features]) -> Sums:
        known: dict[str, Array] = {}
        return Sums([RidgeSums.of(part(some.Z, known), some.Y, some.s) for part in features])

    members = Members(some, landmarks, False, len(rows), sums, plan.each)
    found = members.fit(plan.kinds, np.ones(landmarks.shape[0]))
    F = np.stack([one.left_out for one in found], axis=2)
    moved = combine(F, some.Y, some.plain, RHO).weights * F.std(axis=(0, 1))
    return [
        kind if member.start is None else replace(kind, gamma=member.gamma, relevance=None)
        for kind, (member, *_), size in zip(plan.kinds, found, moved, strict=True)
        if size >= COUNTS * moved.max()
    ]


def choose_landmarks(
    plan: Plan, n_members: int, rows: Sample, n: int, scale: Scale, rng: np.random.RandomState
) -> tuple[Any, Array]:
    """Return scaled landmarks and their weights: all sampled rows, some of them, or those given."""
    given: Any = plan.n_landmarks
    if not is_count(given):
        landmarks = given_landmarks(given)
        if landmarks.shape[1] != rows.Z.shape[1]:
            raise ValueError(
                f"n_landmarks holds landmarks of {landmarks.shape[1]} columns, X has "
                f"{rows.Z.shape[1]}; give landmarks with the columns of X."
            )
        return scale(landmarks), np.ones(landmarks.shape[0])
    m = count_landmarks(n, n_members) if isinstance(given, str) else int(given)
    if m >= n and n == len(rows):
        return rows.Z, rows.s
    landmarks = blind_landmarks(rows, m, rng)
    return landmarks, np.ones(landmarks.shape[0])


def blind_landmarks(rows: Sample, m: int, rng: np.random.RandomState) -> Any:
    """Choose landmarks without a look at labels, or left-out values would know them.

    Means of the rows of one class lie nearer to these than to others, even where labels are drawn
    at random.
    """
    return settled_landmarks(rows.Z, np.zeros(len(rows), dtype=np.intp), rows.s, m, rng)


def count_landmarks(n: int, n_members: int) -> int:
    """Choose how many landmarks n rows have: a second pass takes a limited number of products."""
    if n <= ALL_ROWS:
        return n
    affordable = int(np.sqrt(PRODUCTS / (n * n_members)))
    return min(max(FEWEST_LANDMARKS, affordable), MOST_LANDMARKS)
