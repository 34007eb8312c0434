r"""Values of a few planes at every row, learned without that row: linear, RBF and Laplacian ones.

With C = 1, no degrees and one plane per class, all planes of `FuzzyTwinSVC` solve one system:
f_k + 1 is the ridge regression of "is of class k" on the features z of a kernel. With
S = sum s (z - m)(z - m)' = V diag(l) V' and q = V'(z - m), every ridge follows from one
decomposition, and so does the value at row i of the plane that never saw it:

    f_k = mean_k + sum_j q_j b_jk / (l_j + alpha),      b = sum s q y',
    h_i = s_i (1 / sum s + sum_j q_ij^2 / (l_j + alpha)),
    y_ik - f_(-i)k = (y_ik - f_ik) / (1 - h_i).

The ridge of each kernel is the one of least leave-one-out squared error. Scaler, landmarks,
gamma and ridge are taken as fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_blocks
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import LandmarkMap, RandomState, choose_landmarks

# Chosen on the tables of benchmarks/doubts.py's first half: more kernels or landmarks find no more.
CURVES = (("rbf", 0.25), ("rbf", 1.0), ("laplacian", 0.25), ("laplacian", 1.0))
ALPHAS = 10.0 ** np.arange(-2, 4)
N_LANDMARKS = 150
# Linear planes of more columns, and of sparse rows, are found in the span of so many rows.
MOST_COLUMNS = 1000
MOST_SPANNING = 500


@dataclass(frozen=True)
class Member:
    """One kernel of the committee: what was chosen for it, and how much it counts.

    Parameters
    ----------
    kernel : str
        "linear", "rbf" or "laplacian".
    gamma : float or None
        Parameter of the kernel, on scaled columns.
    alpha : float
        Ridge, that of least leave-one-out squared error.
    error : float
        That error: the mean over rows of sum_k (y_k - f_k)^2.
    weight : float
        Factor of its values in the log-odds of the classes.
    """

    kernel: str
    gamma: float | None
    alpha: float
    error: float
    weight: float = 0.0

    def __str__(self) -> str:
        gamma = "" if self.gamma is None else f", gamma {self.gamma:.3g}"
        return f"{self.kernel}{gamma}, alpha {self.alpha:g}: weight {self.weight:.2f}"

    def estimator(self, random_state: RandomState = 0) -> Pipeline:
        """Make an unfitted pipeline with these planes: scaler and `FuzzyTwinSVC`."""
        planes = FuzzyTwinSVC(alpha=self.alpha, rule="residual", multi_class="ovr")
        if self.gamma is not None:
            planes.set_params(
                kernel=self.kernel, gamma=self.gamma, n_landmarks=N_LANDMARKS,
                random_state=random_state,
            )  # fmt: skip
        return make_pipeline(StandardScaler(), planes)


def committee(
    X: Any, codes: Array, n_classes: int, s: Array | None, random_state: RandomState
) -> tuple[Array, list[Member]]:
    """Compute values of all members' planes at every row, by planes that never saw it.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows; columns are scaled here.
    codes : ndarray of shape (n,)
        Class of each row.
    n_classes : int
        Number of classes K.
    s : ndarray of shape (n,) or None
        Weights.
    random_state : int, RandomState instance or None
        For the sample of landmarks.

    Returns
    -------
    F : ndarray of shape (n, K, M)
        f_(-i)k + 1: near to 1 for the row's class.
    members : list of Member
    """
    s = np.ones(len(codes)) if s is None else s
    Y = np.zeros((len(codes), n_classes))
    Y[np.arange(len(codes)), codes] = 1.0
    with_mean = not sparse.issparse(X)
    X = StandardScaler(with_mean=with_mean).fit_transform(X, sample_weight=s)
    values, members = [], []
    for kernel, gamma, Z in _features(X, codes, s, random_state):
        at_alpha = leave_one_out_path(Z, Y, s, ALPHAS)
        errors = np.einsum("i,aik,aik->a", s, at_alpha - Y, at_alpha - Y) / s.sum()
        best = int(errors.argmin())
        values.append(at_alpha[best])
        members.append(Member(kernel, gamma, float(ALPHAS[best]), float(errors[best])))
    return np.stack(values, axis=2), members


def leave_one_out_path(Z: Array, Y: Array, s: Array, alphas: Array) -> Array:
    """Regress targets on features with every ridge, and leave out each row in turn.

    Parameters
    ----------
    Z : ndarray of shape (n, r)
        Features.
    Y : ndarray of shape (n, K)
        Targets.
    s : ndarray of shape (n,)
        Weights.
    alphas : ndarray of shape (A,)
        Ridges, above zero.

    Returns
    -------
    ndarray of shape (A, n, K)
        Value at each row of the planes learned from all other rows.
    """
    total = s.sum()
    center, mean = s @ Z / total, s @ Y / total
    S, moved = np.zeros((Z.shape[1], Z.shape[1])), np.zeros((Z.shape[1], Y.shape[1]))
    for rows, block in row_blocks(Z):
        weighted = s[rows, None] * (block - center)
        S += weighted.T @ (block - center)
        moved += weighted.T @ Y[rows]
    size, V = linalg.eigh(S, check_finite=False)
    shrunk = 1.0 / (np.maximum(size, 0.0) + alphas[:, None])  # (A, r)
    b = V.T @ moved
    out = np.empty((len(alphas), *Y.shape))
    for rows, block in row_blocks(Z):
        Q = (block - center) @ V
        h = s[rows, None] * (1 / total + (Q * Q) @ shrunk.T)
        rest = (Y[rows] - mean) - Q @ (shrunk[:, :, None] * b)  # (A, rows, K)
        out[:, rows] = Y[rows] - rest / (1 - h.T[:, :, None])
    return out


def _features(
    X: Any, codes: Array, s: Array, random_state: RandomState
) -> Iterator[tuple[str, float | None, Array]]:
    """Yield kernel, gamma and features of each member."""
    d = X.shape[1]
    if sparse.issparse(X) or d > MOST_COLUMNS:
        span = choose_landmarks(X, codes, s, MOST_SPANNING, random_state)
        yield "linear", None, LandmarkMap.of(span, "linear", 1.0, 3, 0.0)(X)
    else:
        yield "linear", None, np.asarray(X)
    landmarks = choose_landmarks(X, codes, s, N_LANDMARKS, random_state)
    usual = {
        "rbf": _median(euclidean_distances(landmarks, squared=True)),
        "laplacian": _median(manhattan_distances(landmarks)),
    }
    for kernel, factor in CURVES:
        gamma = factor / usual[kernel]
        yield kernel, gamma, LandmarkMap.of(landmarks, kernel, gamma, 3, 0.0)(X)


def _median(distances: Array) -> float:
    """Take the median of the distances between different rows; 1 where all rows are equal."""
    apart = distances[distances > 1e-12 * distances.max()]
    return float(np.median(apart)) if len(apart) else 1.0
