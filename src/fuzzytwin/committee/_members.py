"""Members of a committee: their parameters, their features and their values at rows.

A member is a ridge regression of class indicators on scaled columns ("linear") or on kernel values
k(x, L) at landmarks L (`fuzzytwin.committee._ridge_members` fits these), or a classifier with
`predict_proba`, of which the log probabilities are used. `fuzzytwin.committee._trees` decides
whether boosted trees are a member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fuzzytwin._params import check_choice, check_coef0, check_degree, check_number, not_allowed
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.core.hashing import assign_folds, group_sums, rank_hashes, row_hashes
from fuzzytwin.core.ridge import RidgePath
from fuzzytwin.kernels import KERNELS, LandmarkMap

# Chosen on half of the datasets of `python -m benchmarks committee`, confirmed on the other half.
PLANES: tuple[Any, ...] = (
    "linear",
    ("rbf", {"length_scale_factor": 2.0}),
    ("rbf", {"length_scale_factor": 0.5}),
    ("laplacian", {"length_scale_factor": 0.25}),
    ("rbf", {"ard": True}),
    ("laplacian", {"length_scale_factor": 0.5, "ard": True}),
)
TREES = "trees"  # spec of boosted trees, which `fuzzytwin.committee._trees` may leave out
# Parameters that a member with each kernel has.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "rbf": ("gamma", "length_scale_factor", "ard"),
    "laplacian": ("gamma", "length_scale_factor", "ard"),
    "poly": ("gamma", "length_scale_factor", "degree", "coef0"),
    "sigmoid": ("gamma", "length_scale_factor", "coef0"),
    "cosine": (),
}
MAX_COLUMNS = 3000  # with more columns, linear members are fitted in the span of the landmarks
MAX_ROUNDING = 1e-7  # largest rounding error of summed kernel values, see `Features`
SMOOTHING = 1e-3  # added to probabilities of classifiers before the logarithm
CLASSIFIER_FOLDS = 5


@dataclass(frozen=True, eq=False)
class CommitteeMember:
    """A fitted member of `FuzzyTwinCommittee`: ridge regressions in one feature space.

    Its value for class k is ``features(x) @ coef[:, k] + intercept[k]``, close to 1 for rows of the
    class and close to 0 for others.

    Parameters
    ----------
    kernel : str
        "linear", the name of a kernel, "boosted trees" with their number of rounds, or the name of
        a classifier.
    gamma : float, ndarray of shape (d,) or None
        Parameter of the kernel for scaled columns.
    degree, coef0 : float
        Parameters of the kernel.
    alpha : float or None
        Ridge with the smallest leave-one-out squared error.
    error : float
        That error: the weighted mean over rows of sum_k (y_k - f_k)^2.
    weight : float
        Stacking weight.
    coef : ndarray of shape (r, K) or None
        Coefficients of the columns, or of kernel values at the landmarks.
    intercept : ndarray of shape (K,) or None
        Intercepts.
    initial_gamma : float, ndarray of shape (d,) or None
        Gamma from which per-feature gammas are learned, if they are.
    classifier : estimator or None
        The fitted classifier, if the member is one, or the boosted trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fuzzytwin import FuzzyTwinCommittee
    >>> model = FuzzyTwinCommittee(members=["linear", "rbf"]).fit(*load_iris(return_X_y=True))
    >>> for member in model.members_:
    ...     print(member)
    linear, alpha 1: weight 0.66
    rbf, gamma 0.16, alpha 0.01: weight 5.13
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
    initial_gamma: Any = field(default=None, repr=False)
    classifier: Any = None

    def __str__(self) -> str:
        return f"{self.name}: weight {self.weight:.2f}"

    @property
    def name(self) -> str:
        """Return a description of the member: kernel, gamma and ridge."""
        words = [self.kernel]
        if self.gamma is not None:
            per_feature = np.ndim(self.gamma) > 0
            words.append("per-feature gammas" if per_feature else f"gamma {self.gamma:.3g}")
        if self.alpha is not None:
            words.append(f"alpha {self.alpha:.3g}")
        return ", ".join(words)


@dataclass(frozen=True, eq=False)
class MemberSpec:
    """Parameters of a member that is a kernel. See `FuzzyTwinCommittee`, parameter `members`."""

    kernel: str
    gamma: Any = None  # for scaled columns, None for the median heuristic
    length_scale_factor: float = 1.0  # bandwidth in units of the median distance, without gamma
    ard: bool = False  # whether a gamma for each column is learned from the labels
    degree: float = 3
    coef0: float = 0.0


def check_members(members: Any) -> list[Any]:
    """Return a `MemberSpec`, a classifier or `TREES` for each member.

    Raise a ValueError for others.
    """
    if is_default(members):
        members = [members]
    if not isinstance(members, list | tuple) or not len(members):
        remedy = (
            "give 'auto', 'planes', or a list of kernels such as "
            "['linear', 'rbf', ('rbf', {'gamma': 0.1})] and of classifiers"
        )
        raise not_allowed("members", members, remedy)
    specs = []
    for i, member in enumerate(members):
        for entry in PLANES if is_default(member) else (member,):
            specs.append(_check_member(f"members[{i}]", entry))
    if "auto" in members:
        specs.append(TREES)
    return specs


def is_default(members: Any) -> bool:
    """Return whether `members` is a name of the default members, with or without trees."""
    return isinstance(members, str) and members in ("auto", "planes")


def is_probabilistic(estimator: Any) -> bool:
    """Return whether this is an instance of a classifier with `predict_proba`."""
    if isinstance(estimator, type):
        return False
    return hasattr(estimator, "predict_proba") and is_classifier(estimator)


def _check_member(parameter: str, member: Any) -> Any:
    """Return the `MemberSpec` of a kernel, or the classifier. `place` names it in messages."""
    if is_probabilistic(member):
        return member
    if isinstance(member, str):
        return _check_kernel(parameter, member, {})
    if isinstance(member, tuple | list) and len(member) == 2:
        kernel, params = member
        if isinstance(kernel, str) and isinstance(params, dict):
            return _check_kernel(parameter, kernel, params)
    raise ValueError(
        f"{parameter}={member!r} is not allowed; give 'auto', 'planes', the name of a kernel, "
        "(name, parameters), or a classifier with predict_proba."
    )


def _check_kernel(parameter: str, kernel: str, params: dict[str, Any]) -> MemberSpec:
    """Check the parameters of a kernel. Raise a ValueError that names one that it does not have."""
    check_choice(parameter, kernel, KERNELS)
    for name in params:
        if name not in PARAMETERS[kernel]:
            raise _unknown_parameter(parameter, kernel, name, params[name])
    if params.get("gamma") is not None and "length_scale_factor" in params:
        raise ValueError(
            f"{parameter} has gamma={params['gamma']!r:.80} and length_scale_factor="
            f"{params['length_scale_factor']!r:.80}, which both set the bandwidth; give only one "
            "of them."
        )
    spec = MemberSpec(kernel, **params)
    check_number(f"{parameter} length_scale_factor", spec.length_scale_factor, above=0.0)
    check_degree(f"{parameter} degree", spec.degree)
    check_coef0(f"{parameter} coef0", spec.coef0)
    if not isinstance(spec.ard, bool):
        raise not_allowed(f"{parameter} ard", spec.ard, "give True or False")
    for gamma in () if spec.gamma is None else np.ravel(spec.gamma).tolist():
        check_number(f"{parameter} gamma", gamma, above=0.0)
    return spec


def _unknown_parameter(parameter: str, kernel: str, name: str, value: Any) -> ValueError:
    valid = PARAMETERS[kernel]
    remedy = f"valid names are {', '.join(valid)}" if valid else "it has none: leave it out"
    return ValueError(
        f"{parameter} has the parameter {name}={value!r:.80}, which kernel {kernel!r} does not "
        f"have; {remedy}."
    )


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """What members are fitted to: scaled rows, from which they compute features, and targets."""

    Z: Any  # scaled rows (n, d)
    Y: Array  # targets (n, K), whose rows sum to 1
    codes: Array  # class of the largest target
    s: Array  # row_weight times class weights, whose mean over rows is 1
    row_weight: Array  # weights without class weights, divided by the mean of a row or group
    groups: Array | None  # rows of a group are left out together

    @property
    def one_row_per_class(self) -> bool:
        """Return whether each class has a single row, so that none can be left out."""
        n = len(self.Y)
        return len(np.unique(self.codes)) == n == np.count_nonzero(self.Y)

    def take(self, index: Any) -> RidgeProblem:
        """Select rows by an index, a mask or a slice."""
        return RidgeProblem(
            self.Z[index],
            self.Y[index],
            self.codes[index],
            self.s[index],
            self.row_weight[index],
            None if self.groups is None else self.groups[index],
        )


class Features:
    """Features of a member: columns, or kernel values at landmarks.

    Linear members use the columns if these are few and dense, otherwise the span of the landmarks.

    If kernel values are nearly collinear, rounding of their Gram matrix exceeds a small ridge.
    Features are then Nyström features (`rotated`): kernel values times the `root` of `LandmarkMap`.
    """

    def __init__(
        self, member: CommitteeMember, landmarks: Any, n_rows: int, *, with_root: bool = False
    ) -> None:
        d = landmarks.shape[1]
        dense = not sparse.issparse(landmarks)
        self.columns = member.kernel == "linear" and dense and d <= min(n_rows, MAX_COLUMNS)
        self.width = d if self.columns else landmarks.shape[0]
        gamma = 1.0 if member.gamma is None else member.gamma
        kernel_params = member.kernel, gamma, member.degree, member.coef0
        self.map = LandmarkMap(landmarks, np.empty((0, 0)), *kernel_params)
        self.root: Any = None  # of the kernel matrix at the landmarks
        self.rotated = False
        if with_root and not self.columns:
            self.root = LandmarkMap.of(landmarks, *kernel_params).root
            rounding = self.width * np.finfo(float).eps * (self.root * self.root).sum()
            self.rotated = bool(rounding > MAX_ROUNDING)

    def __call__(self, X: Any, distances: dict[str, Array] | None = None) -> Array:
        """Compute features of scaled rows. `distances` is a cache shared by members."""
        if self.columns:
            return np.asarray(X)
        K = self.map.kernel_values(X, distances)
        return K @ self.root if self.rotated else K


class FittedMember(NamedTuple):
    """A member, its values at the rows it was fitted to, its features and its decomposition."""

    member: CommitteeMember
    loo_values: Array  # (n, K)
    in_sample: Array  # (n, K)
    features: Features | None = None  # None for a classifier, like the next
    path: RidgePath | None = None


def predict_values(members: list[CommitteeMember], X: Any, scales: Any, landmarks: Any) -> Array:
    """Compute the values (n, K, M) of fitted members at rows X, to be scaled by `scales(X)`."""
    Z = scales(X)
    if sparse.issparse(landmarks) and not sparse.issparse(Z):
        Z = type(landmarks)(Z)
    distances = dict[str, Array]()
    values = [_member_values(member, X, Z, landmarks, distances) for member in members]
    return np.stack(values, axis=2)


def _member_values(
    member: CommitteeMember, X: Any, Z: Any, landmarks: Any, distances: dict[str, Array]
) -> Array:
    """Compute the values (n, K) of a fitted member at rows X, with Z the scaled rows."""
    if member.classifier is not None:
        return log_probabilities(member.classifier.predict_proba(X))
    assert member.coef is not None
    assert member.intercept is not None
    if member.kernel == "linear":
        return np.asarray(Z @ member.coef) + member.intercept
    return Features(member, landmarks, 0)(Z, distances) @ member.coef + member.intercept


def fit_classifier(estimator: Any, X: Any, problem: RidgeProblem) -> FittedMember:
    """Fit a classifier to rows X, and compute its log probabilities of held-out rows.

    They are out-of-bag if it has these and there are no groups, otherwise out-of-fold.
    """
    name = type(estimator).__name__
    K = problem.Y.shape[1]
    codes = problem.codes
    missing = np.setdiff1d(np.arange(K), codes)
    if len(missing):
        raise ValueError(
            f"{name} is a member that learns one label per row, but the soft label of column "
            f"{missing[0]} is not the largest in any row; use only kernels as members."
        )
    weights = weights_for(estimator, problem.s)

    def fit(index: Any) -> Any:
        weight = {key: values[index] for key, values in weights.items()}
        with config_context(enable_metadata_routing=False):
            return clone(estimator).fit(X[index], codes[index], **weight)

    classifier = fit(slice(None))
    if problem.groups is None and hasattr(classifier, "oob_decision_function_"):
        P = np.nan_to_num(np.asarray(classifier.oob_decision_function_), nan=1.0 / K)
    else:
        P = _out_of_fold_proba(fit, name, X, problem)
    error = float(problem.s @ ((P - problem.Y) ** 2).sum(axis=1) / problem.s.sum())
    values = log_probabilities(P)
    return FittedMember(CommitteeMember(name, error=error, classifier=classifier), values, values)


def _out_of_fold_proba(fit: Any, name: str, X: Any, problem: RidgeProblem) -> Array:
    """Compute out-of-fold probabilities (n, K) of a classifier that `fit(index)` fits."""
    P = np.zeros(problem.Y.shape)
    codes = problem.codes
    folds = classifier_folds(X, problem, CLASSIFIER_FOLDS)
    for fold in range(CLASSIFIER_FOLDS):
        train_index = np.flatnonzero(folds != fold)
        test_index = np.flatnonzero(folds == fold)
        if len(np.unique(codes[train_index])) < 2:
            raise ValueError(
                f"{name} is a member with out-of-fold values, but without one of the folds "
                "only one class is left; give more rows, or use only kernels as members."
            )
        if len(test_index):
            model = fit(train_index)
            P[np.ix_(test_index, model.classes_)] = model.predict_proba(X[test_index])
    return P


def classifier_folds(X: Any, problem: RidgeProblem, n_folds: int) -> Array:
    """Assign the rows of each class to folds by a hash of their content.

    Duplicates stay together, and so do groups.
    """
    keys = row_hashes(X) if sparse.issparse(X) else rank_hashes(np.asarray(X))[0]
    codes = problem.codes.astype(np.uint64)
    groups = problem.groups
    if groups is not None:
        keys = group_sums(keys, groups)[groups]
        first_code = np.full(len(keys), codes.max())  # a group counts for the first of its classes
        np.minimum.at(first_code, groups, codes)
        codes = first_code[groups]
    return assign_folds(keys, n_folds, codes)


def weights_for(estimator: Any, s: Array | None) -> dict[str, Array]:
    """Return the keyword argument of `fit` that passes weights to a classifier or pipeline.

    In a pipeline it is ``step__sample_weight`` of the last step, as without metadata routing. Warn
    if weights differ and the classifier takes none.
    """
    last = estimator
    prefix = ""
    while isinstance(last, Pipeline):
        name, last = last.steps[-1]
        prefix += f"{name}__"
    if s is None:
        return {}
    if has_fit_parameter(last, "sample_weight"):
        return {f"{prefix}sample_weight": s}
    if np.ptp(s) > 0:
        warn_user(f"{type(estimator).__name__} takes no sample_weight, so weights are ignored.")
    return {}


def log_probabilities(P: Array) -> Array:
    """Return logarithms of probabilities, which are smoothed so that none is zero."""
    return np.asarray(np.log((P + SMOOTHING) / (1 + P.shape[-1] * SMOOTHING)))
