"""Members of a committee: their parameters, their features and their values at rows.

A member is a ridge regression of class indicators on scaled columns ("linear") or on kernel values
k(x, L) at landmarks L (`fuzzytwin.committee._ridge_members` fits these), or trees
(`fuzzytwin.committee._trees`), of which the log probabilities are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._params import check_choice, check_coef0, check_degree, check_number, not_allowed
from fuzzytwin._utils.types import Array
from fuzzytwin.core.ridge import RidgePath
from fuzzytwin.kernels import KERNELS, LandmarkMap

if TYPE_CHECKING:
    from fuzzytwin.committee._trees import TreeEnsemble

# Chosen on half of the datasets of `python -m benchmarks committee`, confirmed on the other half.
PLANES: tuple[Any, ...] = (
    "linear",
    ("rbf", {"length_scale_factor": 2.0}),
    ("rbf", {"length_scale_factor": 0.5}),
    ("rbf", {"ard": True}),
    ("laplacian", {"length_scale_factor": 0.5, "ard": True}),
)
# Parameters that a member with each kernel has.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "rbf": ("gamma", "length_scale_factor", "ard"),
    "laplacian": ("gamma", "length_scale_factor", "ard"),
    "poly": ("gamma", "length_scale_factor", "degree", "coef0"),
    "sigmoid": ("gamma", "length_scale_factor", "coef0"),
    "cosine": (),
}
MAX_COLUMNS = 3000  # with more, linear members are fitted in the span of the landmarks
MAX_ROUNDING = 1e-7  # largest rounding error of summed kernel values, see `Features`
SMOOTHING = 1e-3  # added to probabilities of trees before the logarithm


@dataclass(frozen=True, eq=False)
class CommitteeMember:
    """A fitted member of `FuzzyTwinCommittee`: ridge regressions in one feature space.

    Its value for class k is ``features(x) @ coef[:, k] + intercept[k]``, close to 1 for rows of the
    class and close to 0 for others.

    Parameters
    ----------
    kernel : str
        "linear", the name of a kernel, "boosted trees" with their number of rounds, or "forest".
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
    trees : TreeEnsemble or None
        The fitted trees, if the member is boosted trees or a forest.

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
    trees: TreeEnsemble | None = None

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


def check_members(members: Any) -> list[MemberSpec]:
    """Return a `MemberSpec` for each member that is a kernel; raise a ValueError for others."""
    if is_default(members):
        members = PLANES
    if not isinstance(members, list | tuple) or not len(members):
        remedy = (
            "give 'auto', 'planes', or a list of kernels such as "
            "['linear', 'rbf', ('rbf', {'gamma': 0.1})]"
        )
        raise not_allowed("members", members, remedy)
    return [_check_member(f"members[{i}]", member) for i, member in enumerate(members)]


def is_default(members: Any) -> bool:
    """Return whether `members` are the default ones, with or without trees."""
    return isinstance(members, str) and members in ("auto", "planes")


def _check_member(parameter: str, member: Any) -> MemberSpec:
    """Return the `MemberSpec` of a kernel. `parameter` names it in messages."""
    if isinstance(member, str):
        return _check_kernel(parameter, member, {})
    if isinstance(member, tuple | list) and len(member) == 2:
        kernel, params = member
        if isinstance(kernel, str) and isinstance(params, dict):
            return _check_kernel(parameter, kernel, params)
    remedy = (
        "give the name of a kernel, or (name, parameters); sklearn.ensemble.StackingClassifier "
        "stacks a committee with other classifiers"
    )
    raise not_allowed(parameter, member, remedy)


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

    Linear members use the columns if these are few, otherwise the span of the landmarks.

    If kernel values are nearly collinear, rounding of their Gram matrix exceeds a small ridge.
    Features are then Nyström features (`rotated`): kernel values times the `root` of `LandmarkMap`.
    """

    def __init__(
        self, member: CommitteeMember, landmarks: Any, n_rows: int, *, with_root: bool = False
    ) -> None:
        m, d = landmarks.shape
        # Sparse columns become dense in a block of rows, like the kernel values at landmarks.
        most = m if sparse.issparse(landmarks) else min(n_rows, MAX_COLUMNS)
        self.columns = member.kernel == "linear" and d <= most
        self.width = d if self.columns else m
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
            return np.asarray(X.toarray() if sparse.issparse(X) else X)
        K = self.map.kernel_values(X, distances)
        return K @ self.root if self.rotated else K


class FittedMember(NamedTuple):
    """A member, its values at the rows it was fitted to, its features and its decomposition."""

    member: CommitteeMember
    loo_values: Array  # (n, K)
    in_sample: Array  # (n, K)
    features: Features | None = None  # None for trees, like the next
    path: RidgePath | None = None

    def take(self, index: Any) -> FittedMember:
        """Select rows by an index, a mask or a slice."""
        return self._replace(loo_values=self.loo_values[index], in_sample=self.in_sample[index])


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
    if member.trees is not None:
        return log_probabilities(member.trees.predict_proba(X))
    assert member.coef is not None
    assert member.intercept is not None
    if member.kernel == "linear":
        return np.asarray(Z @ member.coef) + member.intercept
    return Features(member, landmarks, 0)(Z, distances) @ member.coef + member.intercept


def log_probabilities(P: Array) -> Array:
    """Return logarithms of probabilities, which are smoothed so that none is zero."""
    return np.asarray(np.log((P + SMOOTHING) / (1 + P.shape[-1] * SMOOTHING)))
