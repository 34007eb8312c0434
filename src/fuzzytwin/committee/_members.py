"""Members of a committee: parameters, features and ridge regressions.

A member is a ridge regression of class indicators on scaled columns ("linear") or on kernel values
k(x, L) at landmarks L. A classifier with `predict_proba` can also be a member
(`fuzzytwin.committee._classifiers`). `fuzzytwin.committee._fit` stacks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import is_classifier

from fuzzytwin._params import check_choice, check_number, check_polynomial, not_allowed
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._first_pass import SAMPLE_ROWS, PreparedRows, iter_group_blocks
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.kernels import (
    DISTANCES,
    KERNELS,
    PROPERTIES,
    LandmarkMap,
    learn_feature_gammas,
    median_distance,
)

# Chosen on half of the datasets of `python -m benchmarks committee`, confirmed on the other half.
AUTO: tuple[Any, ...] = (
    "linear",
    ("rbf", {"reach": 2.0}),
    ("rbf", {"reach": 0.5}),
    ("laplacian", {"reach": 4.0}),
    ("laplacian", {"reach": 0.25}),
    ("rbf", {"reach": 1.0, "relevance": "learned"}),
)
ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # ridges, in units of the weight of a row or group
FEW_ROWS = 1500  # up to this many rows, all are landmarks, and gammas are always cross-fitted
MOST_COLUMNS = 3000  # with more columns, linear members are fitted in the span of the landmarks
MOST_LOST = 1e-7  # largest rounding error of summed kernel values, see `Features`
MEDIAN_ROWS = 1500  # the median distance is that of at most this many rows
FEW_COLUMNS = 20  # up to this many per-feature gammas, half of the rows are enough to learn them
SCREENING_ROWS = 3000  # members are screened on at most this many rows
ROUNDS = 4  # of learning per-feature gammas if there are more rows than FEW_ROWS
LEAST = 1e-3  # added to probabilities of classifiers before the logarithm


@dataclass(frozen=True, eq=False)
class CommitteeMember:
    """A fitted member of `FuzzyTwinCommittee`: ridge regressions in one feature space.

    Its value for class k is ``features(x) @ coef[:, k] + intercept[k]``, close to 1 for rows of the
    class and close to 0 for others.

    Parameters
    ----------
    kernel : str
        "linear", the name of a kernel, or that of a classifier.
    gamma : float, ndarray of shape (d,) or None
        Parameter of the kernel for scaled columns.
    degree, coef0 : float
        Parameters of the kernel.
    alpha : float or None
        Ridge with the least squared leave-one-out error.
    error : float
        That error: the weighted mean over rows of sum_k (y_k - f_k)^2.
    weight : float
        Stacking weight.
    coef : ndarray of shape (r, K) or None
        Coefficients of the columns, or of kernel values at the landmarks.
    intercept : ndarray of shape (K,) or None
        Intercepts.
    start : float, ndarray of shape (d,) or None
        Initial gamma, if per-feature gammas are learned.
    classifier : estimator or None
        The fitted classifier, if the member is one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> model = FuzzyTwinCommittee(["linear", "rbf"]).fit(*load_iris(return_X_y=True))
    >>> [member.kernel for member in model.members_]
    ['linear', 'rbf']
    """

    kernel: str
    gamma: Any = None
    degree: float = 3
    coef0: float = 0.0
    alpha: float | None = None
    error: float = np.nan
    weight: float = 0.0
    coef: Array | None = field(default=None, repr=False)
    intercept: Array | None = field(default=None, repr=False)
    start: Any = field(default=None, repr=False)
    classifier: Any = None

    def __str__(self) -> str:
        return f"{self.name}: weight {self.weight:.2f}"

    @property
    def name(self) -> str:
        """Description of the member: kernel, gamma and ridge."""
        words = [self.kernel]
        if self.gamma is not None:
            learned = np.ndim(self.gamma) > 0
            words.append("learned columns" if learned else f"gamma {self.gamma:.3g}")
        if self.alpha is not None:
            words.append(f"alpha {self.alpha:.3g}")
        return ", ".join(words)


@dataclass(frozen=True, eq=False)
class MemberSpec:
    """Parameters of a member that is a kernel. See `FuzzyTwinCommittee`, parameter `members`."""

    kernel: str
    gamma: Any = None
    reach: float = 1.0
    relevance: str | None = None
    degree: float = 3
    coef0: float = 0.0


def check_members(members: Any) -> list[Any]:
    """Return a `MemberSpec` or a classifier for each member. Raise a ValueError for others."""
    if is_auto(members):
        members = [members]
    if not isinstance(members, list | tuple) or not len(members):
        raise ValueError(
            f"members={members!r} is not allowed; give 'auto', or a list of kernels such as "
            "['linear', 'rbf', ('rbf', {'gamma': 0.1})] and of classifiers."
        )
    specs = []
    for i, member in enumerate(members):
        for part in AUTO if is_auto(member) else (member,):
            specs.append(_check_member(f"members[{i}]", part))
    return specs


def is_auto(members: Any) -> bool:
    """Return whether `members` is the name of the default members."""
    return isinstance(members, str) and members in ("auto", "planes")


def is_probabilistic(estimator: Any) -> bool:
    """Return whether this is an instance of a classifier with `predict_proba`."""
    if isinstance(estimator, type):
        return False
    return hasattr(estimator, "predict_proba") and is_classifier(estimator)


def _check_member(place: str, member: Any) -> Any:
    kernel, params = member, {}
    if isinstance(member, tuple | list) and len(member) == 2 and isinstance(member[1], dict):
        kernel, params = member
    if isinstance(kernel, str):
        check_choice(place, kernel, KERNELS)
        _check_names(place, kernel, params)
        spec = MemberSpec(kernel, **params)
        check_number(f"{place} reach", spec.reach, above=0.0)
        check_polynomial(spec.degree, spec.coef0, f"{place} ")
        if spec.relevance is not None:
            check_choice(f"{place} relevance", spec.relevance, ("learned",))
            if kernel != "rbf":
                raise ValueError(
                    f"{place} has relevance='learned' with kernel {kernel!r}; use 'rbf'."
                )
        if spec.gamma is not None:
            for gamma in np.ravel(spec.gamma).tolist():
                check_number(f"{place} gamma", gamma, above=0.0)
        return spec
    if is_probabilistic(kernel):
        return kernel
    raise ValueError(
        f"{place}={member!r} is not allowed; give 'auto', the name of a kernel, (name, "
        "parameters), or a classifier with predict_proba."
    )


def _check_names(place: str, kernel: str, params: dict[str, Any]) -> None:
    """Raise a ValueError for parameters that a kernel does not have, or gamma and reach at once."""
    valid = parameters_of(kernel)
    unknown = [name for name in params if name not in valid]
    if unknown:
        remedy = f"valid names are {', '.join(valid)}" if valid else "it has none: leave it out"
        raise ValueError(
            f"{place} has the parameter {unknown[0]}={params[unknown[0]]!r:.80}, which kernel "
            f"{kernel!r} does not have; {remedy}."
        )
    if params.get("gamma") is not None and "reach" in params:
        raise ValueError(
            f"{place} has gamma={params['gamma']!r:.80} and reach={params['reach']!r:.80}, which "
            "both set the bandwidth; give only one of them."
        )


def parameters_of(kernel: str) -> list[str]:
    """Return the names of the parameters of a member with this kernel."""
    names = []
    if PROPERTIES[kernel].has_gamma:
        names += ["gamma", "reach", "relevance"]
    if kernel == "poly":
        names.append("degree")
    if kernel in ("poly", "sigmoid"):
        names.append("coef0")
    return names


@dataclass(frozen=True, eq=False)
class MemberFitter:
    """Fits members to rows and landmarks."""

    rows: PreparedRows  # all rows or a sample, for leave-one-out values
    landmarks: Any  # scaled
    gram: bool  # whether the landmarks are `rows`, in the same order, so that no sums are needed
    n_rows: int  # number of all rows
    sums: Callable[[list[Features]], Array]  # sums features over all rows
    threads: int = 1
    done: Callable[[int], Any] = int  # called with the number of members just fitted

    def fit(self, specs: list[MemberSpec], weight: Array) -> list[FittedMember]:
        """Choose gammas and fit members. `weight` are the weights of the landmarks."""
        step = -(-self.landmarks.shape[0] // MEDIAN_ROWS)
        landmarks = self.landmarks[::step]
        medians = {
            name: median_distance(distances(landmarks, landmarks), weight[::step])
            for name, (distances, _) in DISTANCES.items()
        }
        members = [resolve_gamma(spec, medians, landmarks.shape[1]) for spec in specs]
        return self.planes([self.learn_gammas(member, self.rows) for member in members])

    def learn_gammas(self, member: CommitteeMember, rows: PreparedRows) -> CommitteeMember:
        """Learn per-feature gammas from rows, if the member has them."""
        if member.start is None or not len(rows):
            return member
        rounds = 1 if len(self.rows) <= FEW_ROWS else ROUNDS
        gamma = learn_feature_gammas(
            self.landmarks, member.start, rows.Z, rows.codes, rows.s, rounds=rounds,
            groups=rows.groups,
        )  # fmt: skip
        return replace(member, gamma=gamma)

    def planes(self, members: list[CommitteeMember]) -> list[FittedMember]:
        """Fit members of given gammas, with the ridge of least leave-one-out error."""
        all_features = [self._features(member) for member in members]
        to_sum = [features for features in all_features if features.columns or not self.gram]
        sums = dict(zip(to_sum, self.sums(to_sum) if to_sum else (), strict=True))
        distances: dict[str, Array] = {}
        pool = Parallel(self.threads, prefer="threads", return_as="generator")
        fitted_members = []
        for fitted in pool(
            delayed(self._planes)(member, features, sums.get(features), distances)
            for member, features in zip(members, all_features, strict=True)
        ):
            self.done(1)
            fitted_members.append(fitted)
        return fitted_members

    def _features(self, member: CommitteeMember) -> Features:
        return Features(member, self.landmarks, self.n_rows, spanned=not self.gram)

    def _planes(
        self, member: CommitteeMember, features: Features, total: RidgeSums | None, distances: Any
    ) -> FittedMember:
        rows = self.rows
        alphas = ALPHAS if member.alpha is None else np.array([member.alpha])
        path, values, in_sample = self._path(features, total, slice(None), alphas, distances)
        # Per-feature gammas depend on the label of the row that is left out. If rows are few, its
        # values are therefore those with gammas learned from other folds.
        n_folds = 0 if member.start is None else n_crossfit_folds(self.n_rows, rows.Z.shape[1])
        if n_folds:
            folds = learning_folds(rows, n_folds)
            for fold in range(n_folds):
                train_index = np.flatnonzero(folds != fold)
                test_index = np.flatnonzero(folds == fold)
                if not len(test_index):  # fewer groups, or different rows, than folds
                    continue
                fold_features = self._features(self.learn_gammas(member, rows.take(train_index)))
                sums = None if self.gram else RidgeSums.of(fold_features(rows.Z), rows.Y, rows.s)
                values[:, test_index] = self._path(fold_features, sums, test_index, alphas, None)[1]
        errors = [rows.s @ ((F - rows.Y) ** 2).sum(axis=1) / rows.s.sum() for F in values]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        alpha = float(alphas[best])
        error = float(errors[best])
        coef, intercept = path.planes(alpha)
        if features.rotated:
            coef = features.root @ coef
        if member.kernel == "linear" and not features.columns:
            coef = np.asarray(self.landmarks.T @ coef)
        fitted = replace(member, alpha=alpha, error=error, coef=coef, intercept=intercept)
        return FittedMember(fitted, values[best], in_sample[best], features, path)

    def _path(
        self, features: Features, total: RidgeSums | None, index: Any, alphas: Array, distances: Any
    ) -> tuple[RidgePath, Array, Array]:
        """Decompose the features of a member, for all ridges at once.

        Also return leave-one-out and in-sample values (A, n, K) of the rows `index`. Without sums
        `total`, the features are the Gram matrix of the rows.
        """
        rows = self.rows.take(index)
        values, in_sample = np.empty((2, len(alphas), *rows.Y.shape))
        if total is None:
            gram = features(self.landmarks, distances)
            path, Q = RidgePath.of_gram(gram, self.rows.Y, self.rows.s)
            values = path.left_out(Q[index], rows.Y, rows.s, alphas, rows.groups, in_sample)
            return path, values, in_sample
        path = RidgePath.of(total, None if features.rotated else features.root)
        blocks: Any = [slice(None)]
        if len(rows) > SAMPLE_ROWS:
            blocks = iter_group_blocks(rows.groups, len(rows), features.width)
            distances = None  # only those of all rows at once can be kept for the next member
        for i in blocks:
            block = rows.take(i)
            Q = path.coordinates(features(block.Z, distances))
            fitted = in_sample[:, i]
            values[:, i] = path.left_out(Q, block.Y, block.s, alphas, block.groups, fitted)
            in_sample[:, i] = fitted
        return path, values, in_sample


class FittedMember(NamedTuple):
    """A member, its values at the rows, its features and its decomposition."""

    member: CommitteeMember
    loo_values: Array  # (n, K)
    in_sample: Array  # (n, K)
    features: Features | None = None
    path: RidgePath | None = None


def resolve_gamma(spec: MemberSpec, medians: dict[str, float], n_columns: int) -> CommitteeMember:
    """Choose gamma by the median distance between landmarks, unless it is given."""
    has_gamma, _, distance, _ = PROPERTIES[spec.kernel]
    if not has_gamma:
        return CommitteeMember(spec.kernel)
    gamma = spec.gamma
    if gamma is None:
        power = DISTANCES[distance][1]
        with np.errstate(over="ignore", divide="ignore"):
            gamma = 1.0 / (np.float64(spec.reach) ** power * medians[distance])
        if not 0 < gamma < np.inf:
            raise not_allowed("reach", spec.reach, "give a number closer to 1")
    elif np.ndim(gamma) and np.shape(gamma) != (n_columns,):
        raise ValueError(
            f"gamma of a member has shape {np.shape(gamma)}, but X has {n_columns} columns; "
            "give one number, or one for each column."
        )
    gamma = float(gamma) if np.ndim(gamma) == 0 else np.array(gamma, dtype=np.float64)
    start = None if spec.relevance is None else gamma
    return CommitteeMember(spec.kernel, gamma, spec.degree, spec.coef0, start=start)


def n_crossfit_folds(n_rows: int, n_columns: int) -> int:
    """Choose the number of folds for cross-fitting per-feature gammas, or 0 for none.

    With many rows or few columns, a single label hardly changes the gammas, and cross-fitting is
    unnecessary.
    """
    many = n_columns > FEW_COLUMNS
    if n_rows <= FEW_ROWS:
        return 5 if many else 2
    return 2 if many and n_rows <= SCREENING_ROWS else 0


def learning_folds(rows: PreparedRows, n_folds: int) -> Array:
    """Assign rows to folds by their distance from the mean.

    Groups and duplicates stay together, and folds do not depend on the order of rows or columns.
    """
    Z = rows.Z
    squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
    size = np.asarray(squares.sum(axis=1)).ravel()
    if rows.groups is not None:
        largest = np.zeros(rows.groups.max() + 1)  # the mean would change with duplicates
        np.maximum.at(largest, rows.groups, size)
        size = largest[rows.groups]
    # Round, as the order of columns changes the last digits of a sum.
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (9 - np.ceil(np.log10(size)))
        rounded = np.where(size > 0, np.round(size * digits) / digits, 0.0)
    return np.asarray(np.unique(rounded, return_inverse=True)[1] % n_folds)


class Features:
    """Features of a member: columns, or kernel values at landmarks.

    Linear members use the columns if these are few and dense, otherwise the span of the landmarks.

    Sums of products of kernel values that are nearly collinear lose more digits than a small ridge
    has. Features are then rotated: multiplied by the root of the kernel matrix at the landmarks.
    """

    def __init__(
        self, member: CommitteeMember, landmarks: Any, n_rows: int, *, spanned: bool = False
    ) -> None:
        d = landmarks.shape[1]
        dense = not sparse.issparse(landmarks)
        self.columns = member.kernel == "linear" and dense and d <= min(n_rows, MOST_COLUMNS)
        self.width = d if self.columns else landmarks.shape[0]
        gamma = 1.0 if member.gamma is None else member.gamma
        kernel_params = member.kernel, gamma, member.degree, member.coef0
        self.map = LandmarkMap(landmarks, np.empty((0, 0)), *kernel_params)
        self.root: Any = None  # of the kernel matrix at the landmarks
        self.rotated = False
        if spanned and not self.columns:
            self.root = LandmarkMap.of(landmarks, *kernel_params).root
            lost = self.width * np.finfo(float).eps * (self.root * self.root).sum()
            self.rotated = bool(lost > MOST_LOST)

    def __call__(self, X: Any, distances: dict[str, Array] | None = None) -> Array:
        """Compute features of scaled rows. `distances` is a cache shared by members."""
        if self.columns:
            return np.asarray(X)
        K = self.map.kernel_values(X, distances)
        return K @ self.root if self.rotated else K


def member_values(
    member: CommitteeMember, X: Any, Z: Any, landmarks: Any, distances: dict[str, Array]
) -> Array:
    """Compute the values (n, K) of a fitted member at rows X, which are Z if scaled."""
    if member.classifier is not None:
        return log_probabilities(member.classifier.predict_proba(X))
    assert member.coef is not None
    assert member.intercept is not None
    if member.kernel == "linear":
        return np.asarray(Z @ member.coef) + member.intercept
    return Features(member, landmarks, 0)(Z, distances) @ member.coef + member.intercept


def log_probabilities(P: Array) -> Array:
    """Return logarithms of probabilities, which are smoothed so that none is zero."""
    return np.asarray(np.log((P + LEAST) / (1 + P.shape[1] * LEAST)))
