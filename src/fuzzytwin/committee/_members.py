"""Members of a committee: their parameters, their features and, once fitted, their planes.

A member is a kernel: "linear" (the columns themselves), or features k(x, L) of landmarks L, of
scaled columns. A classifier with `predict_proba` is a member too
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

# Chosen on one half of the tables of `python -m benchmarks committee`, confirmed on the other.
AUTO: tuple[Any, ...] = (
    "linear",
    ("rbf", {"reach": 2.0}),
    ("rbf", {"reach": 0.5}),
    ("laplacian", {"reach": 4.0}),
    ("laplacian", {"reach": 0.25}),
    ("rbf", {"reach": 1.0, "relevance": "learned"}),
)
ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # ridges, in units of the weight of a row or group
FEW_ROWS = 1500  # up to this many, rows are all landmarks, and columns are learned more carefully
MOST_COLUMNS = 3000  # linear members of more columns are found in the span of the landmarks
MOST_LOST = 1e-7  # of what kernel values sum up to, relative
MEDIAN_ROWS = 1500  # pairs of this many rows at most give the median distance
FEW_COLUMNS = 20  # are learned well from half of the rows
SCREENING_ROWS = 3000  # columns are learned from this many at most before members are chosen
ROUNDS = 4  # of learning columns from more rows
LEAST = 1e-3  # what is added to probabilities of classifiers before their logarithm is taken


@dataclass(frozen=True, eq=False)
class CommitteeMember:
    """A fitted member of `FuzzyTwinCommittee`: planes in one space of features.

    Its value for class k is ``features(x) @ coef[:, k] + intercept[k]``, near to 1 for rows of the
    class and near to 0 for others.

    Parameters
    ----------
    kernel : str
        "linear", a kernel of landmarks, or the name of a classifier.
    gamma : float, ndarray of shape (d,) or None
        Parameter of the kernel, on scaled columns.
    degree, coef0 : float
        Parameters of the kernel.
    alpha : float or None
        Ridge: the one of least squared error at the rows left out.
    error : float
        That error: the weighted mean over rows of sum_k (y_k - f_k)^2.
    weight : float
        Factor of its values in the log odds of the classes.
    coef : ndarray of shape (r, K) or None
        Coefficients: of columns, or of kernel values at the landmarks.
    intercept : ndarray of shape (K,) or None
        Intercepts.
    start : float, ndarray of shape (d,) or None
        Where gammas of the columns are learned: the gamma that this began with.
    classifier : estimator or None
        The fitted classifier of a member that is one.

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
        """Describe the member in words: kernel, gamma and ridge."""
        words = [self.kernel]
        if self.gamma is not None:
            learned = np.ndim(self.gamma) > 0
            words.append("learned columns" if learned else f"gamma {self.gamma:.3g}")
        if self.alpha is not None:
            words.append(f"alpha {self.alpha:.3g}")
        return ", ".join(words)


@dataclass(frozen=True, eq=False)
class MemberSpec:
    """What a member is before it is fitted; see `FuzzyTwinCommittee`, parameter `members`."""

    kernel: str
    gamma: Any = None
    reach: float = 1.0
    relevance: str | None = None
    degree: float = 3
    coef0: float = 0.0


def check_members(members: Any) -> list[Any]:
    """Return kinds of kernels and classifiers; refuse what is neither, by its place."""
    if is_auto(members):
        members = [members]
    if not isinstance(members, list | tuple) or not len(members):
        raise ValueError(
            f"members={members!r} is not allowed; give 'auto', or a list of kernels such as "
            "['linear', 'rbf', ('rbf', {'gamma': 0.1})] and of classifiers."
        )
    found = []
    for i, member in enumerate(members):
        for one in AUTO if is_auto(member) else (member,):
            found.append(_check_member(f"members[{i}]", one))
    return found


def is_auto(members: Any) -> bool:
    """Return whether this is the name of the default members."""
    return isinstance(members, str) and members in ("auto", "planes")


def is_probabilistic(estimator: Any) -> bool:
    """Return whether this is a classifier, not its class, with probabilities."""
    known = hasattr(estimator, "predict_proba") and not isinstance(estimator, type)
    return known and is_classifier(estimator)


def _check_member(place: str, member: Any) -> Any:
    kernel, params = member, {}
    if isinstance(member, tuple | list) and len(member) == 2 and isinstance(member[1], dict):
        kernel, params = member
    if isinstance(kernel, str):
        check_choice(place, kernel, KERNELS)
        _check_names(place, kernel, params)
        kind = MemberSpec(kernel, **params)
        check_number(f"{place} reach", kind.reach, above=0.0)
        check_polynomial(kind.degree, kind.coef0, f"{place} ")
        if kind.relevance is not None:
            check_choice(f"{place} relevance", kind.relevance, ("learned",))
            if kernel != "rbf":
                raise ValueError(
                    f"{place} has relevance='learned' with kernel {kernel!r}; use 'rbf'."
                )
        for gamma in [] if kind.gamma is None else np.ravel(kind.gamma).tolist():
            check_number(f"{place} gamma", gamma, above=0.0)
        return kind
    if is_probabilistic(kernel):
        return kernel
    raise ValueError(
        f"{place}={member!r} is not allowed; give 'auto', the name of a kernel, (name, "
        "parameters), or a classifier with predict_proba."
    )


def _check_names(place: str, kernel: str, params: dict[str, Any]) -> None:
    """Refuse parameters that a kernel does not have, and two that say the same."""
    valid = parameters_of(kernel)
    unknown = [name for name in params if name not in valid]
    if unknown:
        remedy = f"valid are {', '.join(valid)}" if valid else "it has none: leave it out"
        raise ValueError(
            f"{place} has the parameter {unknown[0]}={params[unknown[0]]!r:.80}, which kernel "
            f"{kernel!r} does not have; {remedy}."
        )
    if params.get("gamma") is not None and "reach" in params:
        raise ValueError(
            f"{place} has gamma={params['gamma']!r:.80} and reach={params['reach']!r:.80}, and "
            "each of them sets how far the kernel reaches; give one of them."
        )


def parameters_of(kernel: str) -> list[str]:
    """Name the parameters that a kernel has as a member."""
    names = ["gamma", "reach", "relevance"] if PROPERTIES[kernel].has_gamma else []
    names += ["degree"] if kernel == "poly" else []
    return names + (["coef0"] if kernel in ("poly", "sigmoid") else [])


@dataclass(frozen=True, eq=False)
class MemberFitter:
    """What members are fitted to."""

    rows: PreparedRows  # to be left out
    landmarks: Any  # scaled
    gram: bool  # whether the landmarks are these rows, in their order: then no sums are needed
    n_rows: int  # all rows
    sums: Callable[[list[Features]], Array]  # of features over all rows
    threads: int = 1
    done: Callable[[int], Any] = int  # is told how many members are finished

    def fit(self, kinds: list[MemberSpec], weight: Array) -> list[FittedMember]:
        """Fit members to landmarks of these weights: planes, and values at rows left out."""
        step = -(-self.landmarks.shape[0] // MEDIAN_ROWS)
        some, s = self.landmarks[::step], weight[::step]
        medians = {
            name: median_distance(between(some, some), s)
            for name, (between, _) in DISTANCES.items()
        }
        members = [settle(kind, medians, some.shape[1]) for kind in kinds]
        return self.planes([self.learn_columns(member, self.rows) for member in members])

    def learn_columns(self, member: CommitteeMember, rows: PreparedRows) -> CommitteeMember:
        """Learn from some rows how much each column counts, where that is to be learned."""
        if member.start is None or not len(rows):
            return member
        rounds = 1 if len(self.rows) <= FEW_ROWS else ROUNDS
        gamma = learn_feature_gammas(
            self.landmarks, member.start, rows.Z, rows.codes, rows.s, rounds=rounds,
            groups=rows.groups,
        )  # fmt: skip
        return replace(member, gamma=gamma)

    def planes(self, members: list[CommitteeMember]) -> list[FittedMember]:
        """Compute planes with the ridge of least error at rows left out, and values there."""
        features = [self._features(member) for member in members]
        summed = [part for part in features if part.columns or not self.gram]
        sums = dict(zip(summed, self.sums(summed) if summed else (), strict=True))
        known: dict[str, Array] = {}
        pool = Parallel(self.threads, prefer="threads", return_as="generator")
        found = []
        for one in pool(
            delayed(self._planes)(member, part, sums.get(part), known)
            for member, part in zip(members, features, strict=True)
        ):
            self.done(1)
            found.append(one)
        return found

    def _features(self, member: CommitteeMember) -> Features:
        return Features(member, self.landmarks, self.n_rows, spanned=not self.gram)

    def _planes(
        self, member: CommitteeMember, part: Features, total: RidgeSums | None, known: Any
    ) -> FittedMember:
        rows = self.rows
        alphas = ALPHAS if member.alpha is None else np.array([member.alpha])
        path, values, in_sample = self._path(part, total, slice(None), alphas, known)
        # Learned columns saw the label of the row that is left out. So its values are those of
        # planes whose columns were learned from other folds, where rows are few.
        n_folds = 0 if member.start is None else n_crossfit_folds(self.n_rows, rows.Z.shape[1])
        if n_folds:
            folds = learning_folds(rows, n_folds)
            for fold in range(n_folds):
                rest, mine = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
                if not len(mine):  # fewer groups, or different rows, than folds
                    continue
                other = self.learn_columns(member, rows.take(rest))
                blind = self._features(other)
                sums = None if self.gram else RidgeSums.of(blind(rows.Z), rows.Y, rows.s)
                values[:, mine] = self._path(blind, sums, mine, alphas, None)[1]
        errors = [rows.s @ ((F - rows.Y) ** 2).sum(axis=1) / rows.s.sum() for F in values]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        alpha, error = float(alphas[best]), float(errors[best])
        coef, intercept = path.planes(alpha)
        coef = part.root @ coef if part.rotated else coef
        if member.kernel == "linear" and not part.columns:
            coef = np.asarray(self.landmarks.T @ coef)
        fitted = replace(member, alpha=alpha, error=error, coef=coef, intercept=intercept)
        return FittedMember(fitted, values[best], in_sample[best], part, path)

    def _path(
        self, part: Features, total: RidgeSums | None, left: Any, alphas: Array, known: Any
    ) -> tuple[RidgePath, Array, Array]:
        """Decompose the features of a member; values with every ridge, left out and taking part."""
        rows = self.rows.take(left)
        values, in_sample = np.empty((2, len(alphas), *rows.Y.shape))
        if total is None:
            path, Q = RidgePath.of_gram(part(self.landmarks, known), self.rows.Y, self.rows.s)
            given = Q[left], rows.Y, rows.s, alphas, rows.groups, in_sample
            return path, path.left_out(*given), in_sample
        path = RidgePath.of(total, None if part.rotated else part.root)
        few = len(rows) <= SAMPLE_ROWS  # distances of all of them are kept for the next member
        for i in [slice(None)] if few else iter_group_blocks(rows.groups, len(rows), part.width):
            some = rows.take(i)
            Q, inside = path.coordinates(part(some.Z, known if few else None)), in_sample[:, i]
            values[:, i] = path.left_out(Q, some.Y, some.s, alphas, some.groups, inside)
            in_sample[:, i] = inside
        return path, values, in_sample


class FittedMember(NamedTuple):
    """A member, its values (n, K) at rows left out and taking part, and how they were found."""

    member: CommitteeMember
    left_out: Array
    in_sample: Array
    features: Features | None = None
    path: RidgePath | None = None


def settle(kind: MemberSpec, medians: dict[str, float], n_columns: int) -> CommitteeMember:
    """Choose gamma by the median distance between landmarks."""
    has_gamma, _, distance, _ = PROPERTIES[kind.kernel]
    if not has_gamma:
        return CommitteeMember(kind.kernel)
    gamma = kind.gamma
    if gamma is None:
        with np.errstate(over="ignore", divide="ignore"):
            far = np.float64(kind.reach) ** DISTANCES[distance][1] * medians[distance]
            gamma = 1.0 / far
        if not 0 < gamma < np.inf:
            raise not_allowed("reach", kind.reach, "give a number nearer to 1")
    elif np.ndim(gamma) and np.shape(gamma) != (n_columns,):
        raise ValueError(
            f"the gamma of a member has the shape {np.shape(gamma)}, X has {n_columns} columns; "
            "give one number, or one for each column."
        )
    gamma = float(gamma) if np.ndim(gamma) == 0 else np.array(gamma, dtype=np.float64)
    start = None if kind.relevance is None else gamma
    return CommitteeMember(kind.kernel, gamma, kind.degree, kind.coef0, start=start)


def n_crossfit_folds(n_rows: int, n_columns: int) -> int:
    """Choose the number of folds without one of which columns are learned; 0: from all rows.

    Of more rows, and of few columns, a single label hardly changes what is learned.
    """
    many = n_columns > FEW_COLUMNS
    if n_rows <= FEW_ROWS:
        return 5 if many else 2
    return 2 if many and n_rows <= SCREENING_ROWS else 0


def learning_folds(rows: PreparedRows, n_folds: int) -> Array:
    """Deal rows into folds by their distance from the mean; groups and equal rows stay together.

    So folds do not depend on the order of rows or columns.
    """
    Z = rows.Z
    squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
    size = np.asarray(squares.sum(axis=1)).ravel()
    if rows.groups is not None:
        largest = np.zeros(rows.groups.max() + 1)  # not the mean, which repetitions would change
        np.maximum.at(largest, rows.groups, size)
        size = largest[rows.groups]
    # Rounded, as the order of columns changes the last digits of a sum.
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (9 - np.ceil(np.log10(size)))
        rounded = np.where(size > 0, np.round(size * digits) / digits, 0.0)
    return np.asarray(np.unique(rounded, return_inverse=True)[1] % n_folds)


class Features:
    """Features of a member: columns, or kernel values at landmarks.

    Linear members of few columns use these; of many, or of sparse rows, the span of landmarks.
    """

    def __init__(
        self, member: CommitteeMember, landmarks: Any, n_rows: int, *, spanned: bool = False
    ) -> None:
        d, dense = landmarks.shape[1], not sparse.issparse(landmarks)
        self.columns = member.kernel == "linear" and dense and d <= min(n_rows, MOST_COLUMNS)
        self.width = d if self.columns else landmarks.shape[0]
        gamma = 1.0 if member.gamma is None else member.gamma
        given = member.kernel, gamma, member.degree, member.coef0
        self.map = LandmarkMap(landmarks, np.empty((0, 0)), *given)
        self.root: Any = None  # of the kernel at the landmarks
        self.rotated = False  # whether features are those of the root
        if spanned and not self.columns:
            self.root = LandmarkMap.of(landmarks, *given).root
            lost = self.width * np.finfo(float).eps * (self.root * self.root).sum()
            self.rotated = bool(lost > MOST_LOST)

    def __call__(self, X: Any, known: dict[str, Array] | None = None) -> Array:
        """Compute features of scaled rows; `known` keeps distances for the next member.

        Sums of kernel values that nearly depend on each other have lost more digits than a small
        ridge has: then the features of the root are summed up, for one more product.
        """
        if self.columns:
            return np.asarray(X)
        K = self.map.kernel_values(X, known)
        return K @ self.root if self.rotated else K


def member_values(
    member: CommitteeMember, X: Any, Z: Any, landmarks: Any, known: dict[str, Array]
) -> Array:
    """Compute the values (n, K) of a fitted member at rows X as given, Z scaled."""
    if member.classifier is not None:
        return log_probabilities(member.classifier.predict_proba(X))
    assert member.coef is not None
    assert member.intercept is not None
    if member.kernel == "linear":
        return np.asarray(Z @ member.coef) + member.intercept
    return Features(member, landmarks, 0)(Z, known) @ member.coef + member.intercept


def log_probabilities(P: Array) -> Array:
    """Take logarithms of probabilities, moved a little towards each other: none is zero."""
    return np.asarray(np.log((P + LEAST) / (1 + P.shape[1] * LEAST)))
