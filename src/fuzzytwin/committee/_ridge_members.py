"""Fit the members that are ridge regressions: landmarks, bandwidths, ridges, leave-one-out values.

A bandwidth comes from the median distance between landmarks, or per-feature gammas are learned from
the labels (ARD). One decomposition of the features gives the regressions at all ridges and their
leave-one-out values (`fuzzytwin.core.ridge`), by which the ridge is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.utils import check_random_state

from fuzzytwin._params import not_allowed
from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import SAMPLE_ROWS, Scales, blocks
from fuzzytwin.committee._members import (
    CommitteeMember,
    Features,
    FittedMember,
    MemberSpec,
    RidgeProblem,
)
from fuzzytwin.core.hashing import assign_folds
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.kernels._bandwidths import learn_feature_gammas, median_distance
from fuzzytwin.kernels._landmark_map import DISTANCES, PROPERTIES
from fuzzytwin.kernels._landmarks import (
    center_landmarks,
    check_landmarks,
    is_all,
    is_centers,
    is_count,
    kmeans_landmarks,
)

ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # ridges, in units of the weight of a row or group
# Up to this many rows, all are landmarks, and gammas are always cross-fitted.
SMALL_TABLE_ROWS = 1500
MEDIAN_ROWS = 1500  # the median distance is that of at most this many rows
MAX_LAPLACIAN_COLUMNS = 100  # with more, or sparse rows, its bandwidth is the same for all columns
FEW_COLUMNS = 20  # up to this many per-feature gammas, half of the rows are enough to learn them
LANDMARKS = 400  # of larger tables: the log loss of 300 and of 500 differs by 0.1%
ROUNDS = 4  # of learning per-feature gammas if there are more rows than SMALL_TABLE_ROWS
CROSS_FIT_ROWS = 3000  # with more rows, gammas are not cross-fitted


@dataclass(frozen=True, eq=False)
class MemberFitter:
    """Fits members to rows and landmarks."""

    problem: RidgeProblem  # all rows or a sample, for leave-one-out values
    landmarks: Any  # scaled
    gram: bool  # whether the landmarks are the rows, in the same order, so that no sums are needed
    n_rows: int  # number of all rows
    sum_features: Callable[[list[Features]], Array]  # sums features over all rows
    n_threads: int = 1
    on_fitted: Callable[[int], Any] = int  # called with the number of members just fitted

    def fit(self, specs: list[MemberSpec], landmark_weight: Array) -> list[FittedMember]:
        """Choose gammas and fit members."""
        medians = self._median_distances(landmark_weight)
        n_columns = self.landmarks.shape[1]
        members = []
        for spec in specs:
            if spec.kernel == "laplacian" and self._is_wide():
                spec = replace(spec, ard=False)
            member = resolve_gamma(spec, medians, n_columns)
            members.append(self._learn_gammas(member, self.problem))
        return self.fit_ridges(members)

    def _is_wide(self) -> bool:
        """Return whether per-feature gammas of a Laplacian kernel would take too long."""
        return sparse.issparse(self.landmarks) or self.landmarks.shape[1] > MAX_LAPLACIAN_COLUMNS

    def _median_distances(self, landmark_weight: Array) -> dict[str, float]:
        """Compute the median of each kind of distance between landmarks, or a part of them."""
        step = -(-self.landmarks.shape[0] // MEDIAN_ROWS)
        landmarks = self.landmarks[::step]
        weight = landmark_weight[::step]
        return {
            name: median_distance(distances(landmarks, landmarks), weight)
            for name, (distances, _) in DISTANCES.items()
        }

    def _learn_gammas(self, member: CommitteeMember, problem: RidgeProblem) -> CommitteeMember:
        """Learn per-feature gammas from rows, if the member has them."""
        if member.initial_gamma is None or not len(problem.s):
            return member
        gamma = learn_feature_gammas(
            self.landmarks,
            member.initial_gamma,
            problem.Z,
            problem.codes,
            problem.s,
            kernel=member.kernel,
            rounds=1 if len(self.problem.s) <= SMALL_TABLE_ROWS else ROUNDS,
            groups=problem.groups,
        )
        return replace(member, gamma=gamma)

    def fit_ridges(self, members: list[CommitteeMember]) -> list[FittedMember]:
        """Fit members whose gammas are set, with the ridge of least leave-one-out error."""
        features = [self._features(member) for member in members]
        to_sum = [part for part in features if part.columns or not self.gram]
        sums = dict(zip(to_sum, self.sum_features(to_sum) if to_sum else (), strict=True))
        distances: dict[str, Array] = {}
        pool = Parallel(self.n_threads, prefer="threads", return_as="generator")
        fitted_members = []
        for fitted in pool(
            delayed(self._fit_ridge)(member, part, sums.get(part), distances)
            for member, part in zip(members, features, strict=True)
        ):
            self.on_fitted(1)
            fitted_members.append(fitted)
        return fitted_members

    def _features(self, member: CommitteeMember) -> Features:
        """Make the features of a member."""
        return Features(member, self.landmarks, self.n_rows, with_root=not self.gram)

    def _fit_ridge(
        self, member: CommitteeMember, features: Features, sums: RidgeSums | None, distances: Any
    ) -> FittedMember:
        """Fit a member at all ridges, or at that of the member, and choose the best."""
        problem = self.problem
        alphas = ALPHAS if member.alpha is None else np.array([member.alpha])
        path, values, in_sample = self._loo_values(
            features, sums, problem, slice(None), alphas, distances
        )
        self._cross_fit_gammas(member, alphas, values)
        total = problem.s.sum()
        errors = [problem.s @ ((F - problem.Y) ** 2).sum(axis=1) / total for F in values]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        alpha = float(alphas[best])
        coef, intercept = path.planes(alpha)
        if features.rotated:
            coef = features.root @ coef
        if member.kernel == "linear" and not features.columns:
            coef = np.asarray(self.landmarks.T @ coef)
        error = float(errors[best])
        fitted = replace(member, alpha=alpha, error=error, coef=coef, intercept=intercept)
        return FittedMember(fitted, values[best], in_sample[best], features, path)

    def _cross_fit_gammas(self, member: CommitteeMember, alphas: Array, values: Array) -> None:
        """Replace leave-one-out values by those with gammas learned from other folds.

        Per-feature gammas depend on the label of the row that is left out, which matters if rows
        are few.
        """
        problem = self.problem
        n_folds = n_crossfit_folds(self.n_rows, problem.Z.shape[1])
        if member.initial_gamma is None or not n_folds:
            return
        folds = distance_folds(problem, n_folds)
        for fold in range(n_folds):
            train_index = np.flatnonzero(folds != fold)
            test_index = np.flatnonzero(folds == fold)
            if not len(test_index):  # there are fewer groups or distinct rows than folds
                continue
            features = self._features(self._learn_gammas(member, problem.take(train_index)))
            sums = None
            if not self.gram:
                sums = RidgeSums.of(features(problem.Z), problem.Y, problem.s)
            test_rows = problem.take(test_index)
            loo_values = self._loo_values(features, sums, test_rows, test_index, alphas, None)[1]
            values[:, test_index] = loo_values

    def _loo_values(
        self,
        features: Features,
        sums: RidgeSums | None,
        rows: RidgeProblem,
        index: Any,
        alphas: Array,
        distances: Any,
    ) -> tuple[RidgePath, Array, Array]:
        """Decompose the features of a member, for all ridges at once.

        Also return leave-one-out and in-sample values (A, n, K) of the rows `index`. Without sums,
        the features are the Gram matrix of all rows.
        """
        in_sample = np.empty((len(alphas), *rows.Y.shape))
        if sums is None:
            gram = features(self.landmarks, distances)
            path, Q = RidgePath.of_gram(gram, self.problem.Y, self.problem.s)
            values = path.left_out(Q[index], rows.Y, rows.s, alphas, rows.groups, in_sample)
            return path, values, in_sample
        path = RidgePath.of(sums, None if features.rotated else features.root)
        if len(rows.s) <= SAMPLE_ROWS:
            Q = path.coordinates(features(rows.Z, distances))
            values = path.left_out(Q, rows.Y, rows.s, alphas, rows.groups, in_sample)
            return path, values, in_sample
        values = np.empty_like(in_sample)
        for i in blocks(len(rows.s), features.width, rows.groups):
            block = rows.take(i)
            Q = path.coordinates(features(block.Z))
            fitted = np.empty((len(alphas), *block.Y.shape))
            values[:, i] = path.left_out(Q, block.Y, block.s, alphas, block.groups, fitted)
            in_sample[:, i] = fitted
        return path, values, in_sample


def resolve_gamma(spec: MemberSpec, medians: dict[str, float], n_columns: int) -> CommitteeMember:
    """Choose gamma by the median distance between landmarks, unless the member has one."""
    has_gamma, _, distance, _ = PROPERTIES[spec.kernel]
    if not has_gamma:
        return CommitteeMember(spec.kernel)
    gamma = spec.gamma
    if gamma is None:
        gamma = _gamma_of_factor(spec.length_scale_factor, distance, medians[distance])
    elif np.ndim(gamma) and np.shape(gamma) != (n_columns,):
        raise ValueError(
            f"gamma of a member has shape {np.shape(gamma)}, but X has {n_columns} columns; "
            "give one number, or one for each column."
        )
    gamma = float(gamma) if np.ndim(gamma) == 0 else np.array(gamma, dtype=np.float64)
    initial_gamma = gamma if spec.ard else None
    return CommitteeMember(spec.kernel, gamma, spec.degree, spec.coef0, initial_gamma=initial_gamma)


def _gamma_of_factor(factor: float, distance: str, median: float) -> float:
    """Compute gamma for a bandwidth of `factor` times the median distance."""
    power = DISTANCES[distance][1]
    with np.errstate(over="ignore", divide="ignore"):
        gamma = 1.0 / (np.float64(factor) ** power * median)
    if not 0 < gamma < np.inf:
        raise not_allowed("length_scale_factor", factor, "give a number closer to 1")
    return float(gamma)


def n_crossfit_folds(n_rows: int, n_columns: int) -> int:
    """Choose the number of folds for cross-fitting per-feature gammas, or 0 for none.

    With many rows or few columns, a single label hardly changes the gammas, and cross-fitting is
    unnecessary.
    """
    many_columns = n_columns > FEW_COLUMNS
    if n_rows <= SMALL_TABLE_ROWS:
        return 5 if many_columns else 2
    return 2 if many_columns and n_rows <= CROSS_FIT_ROWS else 0


def distance_folds(problem: RidgeProblem, n_folds: int) -> Array:
    """Assign rows to folds by their distance from the mean.

    Groups and duplicates stay together, and folds do not depend on the order of rows or columns.
    """
    Z = problem.Z
    weight = problem.row_weight / problem.row_weight.sum()
    center = np.asarray(Z.T @ weight)  # sparse rows are not centred
    squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
    size = np.asarray(squares.sum(axis=1)).ravel() - 2 * (Z @ center) + center @ center
    groups = problem.groups
    if groups is not None:
        largest = np.zeros(groups.max() + 1)  # the mean would change with duplicates
        np.maximum.at(largest, groups, size)
        size = largest[groups]
    # Round, as the order of columns changes the last digits of a sum.
    return assign_folds(np.round(size / Z.shape[1], 9), n_folds)


def choose_landmarks(
    n_landmarks: Any,
    rows: Rows,
    problem: RidgeProblem,
    scales: Scales,
    *,
    n_rows: int,
    random_state: Any,
) -> tuple[Any, Array]:
    """Return scaled landmarks and their weights: all rows, a selection, or those of the user.

    `rows` are all `n_rows` rows or a sample.
    """
    auto = n_rows if n_rows <= SMALL_TABLE_ROWS else LANDMARKS
    if isinstance(n_landmarks, str) and n_landmarks == "auto":
        n_landmarks = auto
    if is_all(n_landmarks):
        if n_rows > len(rows):
            raise ValueError(
                f"n_landmarks='all' takes at most {len(rows):,} rows, but X has {n_rows:,}; give a "
                "number of landmarks, or 'auto'."
            )
        return problem.Z, problem.s
    if is_centers(n_landmarks):
        rng = check_random_state(random_state)
        landmarks = center_landmarks(problem.Z, problem.s, auto, rng, rows.X, problem.groups)
    elif is_count(n_landmarks):
        if n_landmarks >= n_rows == len(rows):
            return problem.Z, problem.s
        landmarks = unsupervised_landmarks(
            rows, problem, int(n_landmarks), check_random_state(random_state)
        )
    else:
        landmarks = scales(check_landmarks(n_landmarks, rows.X.shape[1]))
        if sparse.issparse(problem.Z) and not sparse.issparse(landmarks):
            landmarks = type(problem.Z)(landmarks)
    return landmarks, np.ones(landmarks.shape[0])


def unsupervised_landmarks(
    rows: Rows, problem: RidgeProblem, m: int, rng: np.random.RandomState
) -> Any:
    """Choose landmarks without the labels, which would leak into leave-one-out values otherwise.

    Means of the rows of a class are nearer to these rows than to others, even if labels are drawn
    at random. Rows are drawn by a hash of their content, so that their order does not matter.
    """
    one_class = np.zeros(len(rows), dtype=np.intp)
    return kmeans_landmarks(problem.Z, one_class, problem.s, m, rng, content=rows.X)
