r"""Curved planes as linear ones: features of landmarks.

With a kernel k and landmarks L, a row x is mapped to (Nystroem; Williams and Seeger 2001)

    phi(x) = k(x, L) V_+ lambda_+^{-1/2},      K_LL = V lambda V',

where only eigenvalues above a cutoff relative to the greatest are kept. A plane w.phi(x) + b
is then the function sum_j u_j k(x, l_j) + b with u = V_+ lambda_+^{-1/2} w, and |w|^2 = u' K u
is its squared norm in the kernel's space: the very norm that ridge and distance need. With all
training rows as landmarks this is the kernel LST-SVM, with fewer the reduced ("rectangular")
kernel of the literature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.metrics.pairwise import euclidean_distances, pairwise_kernels
from sklearn.utils import check_array, check_random_state

from fuzzytwin.moments import row_blocks

Array = NDArray[Any]

KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "cosine")


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """The map phi.

    Parameters
    ----------
    landmarks : ndarray or CSR matrix of shape (m, d)
        Rows that span the space of functions.
    root : ndarray of shape (m, r)
        V_+ lambda_+^{-1/2}; r is the numerical rank of K_LL.
    kernel : str or callable
        A name, or a callable ``(X, Y) -> (n, m)`` as in `sklearn.svm.SVC`.
    gamma, degree, coef0 : float
        Parameters of the kernel.
    """

    landmarks: Any
    root: Array
    kernel: Any
    gamma: float
    degree: float
    coef0: float

    @classmethod
    def of(cls, landmarks: Any, kernel: Any, gamma: float, degree: float, coef0: float) -> Any:
        """The map of given landmarks.

        Negative eigenvalues (of a kernel that is not positive semi-definite, such as most
        sigmoid ones) are left out. A kernel that is not finite, or without any positive
        eigenvalue, gets a ValueError.
        """
        bare = cls(landmarks, np.empty((0, 0)), kernel, gamma, degree, coef0)
        K = bare.kernel_values(landmarks)
        if not np.isfinite(K).all():
            raise ValueError(
                f"kernel={kernel!r} with gamma={gamma:g}, degree={degree:g}, coef0={coef0:g} is "
                "not finite on the landmarks; scale the columns of X, or lower gamma or degree."
            )
        values, vectors = linalg.eigh((K + K.T) / 2, check_finite=False)
        keep = values > 10 * len(values) * np.finfo(float).eps * max(values[-1], 0.0)
        if not keep.any():
            raise ValueError(
                f"kernel={kernel!r} has no positive eigenvalue on the landmarks; use another "
                "kernel, or other values of gamma and coef0."
            )
        root = vectors[:, keep] / np.sqrt(values[keep])
        return cls(landmarks, root, kernel, gamma, degree, coef0)

    def kernel_values(self, X: Any) -> Array:
        """k(x, l) of rows and landmarks, of shape (n, m)."""
        X = _narrow(X)
        if callable(self.kernel):
            K = np.asarray(self.kernel(X, self.landmarks), dtype=np.float64)
            if K.shape != (X.shape[0], self.landmarks.shape[0]):
                raise ValueError(
                    f"kernel={self.kernel!r} returned shape {K.shape} for {X.shape[0]} rows and "
                    f"{self.landmarks.shape[0]} landmarks; return one value for each pair."
                )
            return K
        with np.errstate(over="ignore", invalid="ignore"):  # LandmarkMap.of looks at the result
            K = pairwise_kernels(
                X, self.landmarks, metric=self.kernel, filter_params=True,
                gamma=self.gamma, degree=self.degree, coef0=self.coef0,
            )  # fmt: skip
        return np.asarray(K, dtype=np.float64)

    def __call__(self, X: Any) -> Array:
        """Phi of each row, of shape (n, r)."""
        return self.kernel_values(X) @ self.root


class MappedRows:
    """Rows of X seen through a map, computed block by block where they are looked at."""

    dtype = np.dtype(np.float64)

    def __init__(self, X: Any, phi: LandmarkMap) -> None:
        self.X, self.phi = X, phi
        self.shape = (X.shape[0], phi.root.shape[1])

    def __getitem__(self, index: Any) -> Array:
        block = self.X[index]
        if block.shape[0] == 0:
            return np.empty((0, self.shape[1]))
        return self.phi(block if sparse.issparse(block) else np.asarray(block, dtype=np.float64))

    def take(self, index: Array, axis: int = 0) -> Array:
        """Some of the rows, as `ndarray.take`."""
        return self[index]


def resolve_gamma(gamma: Any, X: Any, s: Array | None) -> float:
    """The number that "scale" (1 / (d var)) or "auto" (1 / d) stands for, as in `SVC`.

    The variance is that of all numbers in X, each weighed as its row.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    d = X.shape[1]
    if gamma == "auto":
        return 1.0 / d
    share = np.full(X.shape[0], 1.0) if s is None else s / s.max()
    share = share / share.sum()
    mean = float(share @ np.asarray(X.mean(axis=1, dtype=np.float64)).ravel())
    if sparse.issparse(X):
        # Zeros that are not stored lie at -mean.
        stored = X.copy().astype(np.float64)
        stored.data = (stored.data - mean) ** 2 - mean**2
        deviation = np.asarray(stored.sum(axis=1)).ravel() / d + mean**2
    else:
        deviation = np.concatenate(
            [((block - mean) ** 2).mean(axis=1) for _, block in row_blocks(X)]
        )
    variance = float(share @ deviation)
    return 1.0 / (d * variance) if variance > 0 else 1.0 / d


def default_gammas(X: Any, s: Array | None) -> Array:
    """Five powers of four around the median heuristic, from at most 500 rows that weigh."""
    rows = np.arange(X.shape[0]) if s is None else np.flatnonzero(s > 0)
    if len(rows) > 500:
        rows = np.sort(np.random.default_rng(0).choice(rows, 500, replace=False))
    squares = euclidean_distances(_narrow(X[rows]), squared=True)
    positive = squares[squares > 0]
    middle = 1.0 / float(np.median(positive)) if len(positive) else 1.0
    return middle * 4.0 ** np.arange(-2, 3)


def make_map(
    X: Any,
    codes: Array,
    s: Array | None,
    *,
    kernel: Any,
    gamma: Any,
    degree: float,
    coef0: float,
    n_landmarks: Any,
    random_state: Any,
) -> LandmarkMap:
    """The map that a machine with these parameters takes for these training rows."""
    if np.ndim(n_landmarks) == 0 and not sparse.issparse(n_landmarks):
        landmarks = choose_landmarks(X, codes, s, n_landmarks, random_state)
    else:
        landmarks = check_array(n_landmarks, accept_sparse="csr", dtype=np.float64)
        if landmarks.shape[1] != X.shape[1]:
            raise ValueError(
                f"n_landmarks holds landmarks of {landmarks.shape[1]} columns, X has "
                f"{X.shape[1]}; give landmarks with the columns of X."
            )
    landmarks = _narrow(landmarks)
    if not sparse.issparse(landmarks):
        landmarks = np.asarray(landmarks, dtype=np.float64)
    return LandmarkMap.of(landmarks, kernel, resolve_gamma(gamma, X, s), degree, coef0)


def choose_landmarks(
    X: Any, codes: Array, s: Array | None, n_landmarks: int, random_state: Any
) -> Any:
    """All rows that weigh something where they are few; else a sample, from each class its share.

    Every class gives at least one landmark.
    """
    rows = np.arange(X.shape[0]) if s is None else np.flatnonzero(s > 0)
    if len(rows) > n_landmarks:
        rng = check_random_state(random_state)
        labels = codes[rows]
        counts = np.bincount(labels)
        present = np.flatnonzero(counts)
        share = np.maximum(1, np.floor(n_landmarks * counts[present] / len(rows)).astype(int))
        chosen = [
            rng.choice(rows[labels == k], size=min(m, counts[k]), replace=False)
            for k, m in zip(present, share, strict=True)
        ]
        rows = np.sort(np.concatenate(chosen))
    return X[rows]


def _narrow(X: Any) -> Any:
    """Sparse rows with 32-bit indices, which scikit-learn's Manhattan distances ask for."""
    if sparse.issparse(X) and X.indices.dtype != np.int32 and X.nnz < 1 << 31:
        narrow = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return type(X)((X.data, *narrow), shape=X.shape)
    return X
