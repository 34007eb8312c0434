r"""Kernel planes as linear planes of Nystroem features.

    k               kernel
    L, l_j          landmarks, and the j-th of them
    K_LL            kernel matrix of the landmarks
    R               root: R' K_LL R = I on the numerical range of K_LL
    w, b            normal and intercept of a plane in feature space

A row x is mapped to the features (Nystroem; Williams and Seeger, 2001)

    phi(x) = k(x, L) R.

A plane w.phi(x) + b is then the function sum_j u_j k(x, l_j) + b with u = R w, and |w|^2 =
u' K_LL u is its squared norm in the kernel's space, as ridge and distance need it. With all
training rows as landmarks this is the kernel LST-SVM, with fewer the reduced ("rectangular") kernel
of the literature.

Any two roots differ by a rotation of the features, which changes nothing else. For a positive
semi-definite kernel the root is computed by a pivoted Cholesky factorisation, in a thirtieth of the
time of an eigendecomposition. For any other kernel it is computed from the positive eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack
from sklearn.metrics import pairwise
from sklearn.utils import assert_all_finite

from fuzzytwin._utils.types import Array, Matrix, canonical
from fuzzytwin.core.blocks import column_means
from fuzzytwin.core.linalg import rank_tol

Kernel: TypeAlias = str | Callable[[Any, Any], Any]
Gamma: TypeAlias = float | Array


class Properties(NamedTuple):
    """Properties of a named kernel. If it has no function, scikit-learn computes it."""

    has_gamma: bool
    definite_from: float  # smallest coef0 with which it is positive semi-definite on any rows
    distance: str = "squared"  # key of `DISTANCES`; gamma is an inverse of such a distance
    function: Any = None  # ufunc of -gamma times the distance


PROPERTIES: dict[Any, Properties] = {
    "linear": Properties(False, -np.inf),
    "rbf": Properties(True, -np.inf, "squared", np.exp),
    "poly": Properties(True, 0.0),
    "sigmoid": Properties(True, np.inf),
    "laplacian": Properties(True, -np.inf, "manhattan", np.exp),
    "cosine": Properties(False, -np.inf),
}
KERNELS = tuple(PROPERTIES)


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """Map from rows to Nystroem features: phi in the module's docstring.

    Parameters
    ----------
    landmarks : ndarray or CSR matrix of shape (m, d)
        Rows that span the space of functions.
    root : ndarray of shape (m, r)
        R of the module's docstring, with r the numerical rank of K_LL.
    kernel : str or callable
        A name, or a callable ``(X, Y) -> (n, m)`` as in `sklearn.svm.SVC`.
    gamma : float or ndarray of shape (d,)
        Parameter of the kernel: one number, or one for each column.
    degree, coef0 : float
        Parameters of the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.kernels import LandmarkMap
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> phi = LandmarkMap.of(X, "rbf", 1.0, 3, 0.0)
    >>> Z = phi(X)
    >>> (Z @ Z.T).round(3)  # k(x, x') of all pairs of rows
    array([[1.   , 0.368, 0.018],
           [0.368, 1.   , 0.368],
           [0.018, 0.368, 1.   ]])
    """

    landmarks: Any
    root: Array
    kernel: Kernel
    gamma: Gamma
    degree: float
    coef0: float

    @classmethod
    def of(
        cls, landmarks: Matrix, kernel: Kernel, gamma: Gamma, degree: float, coef0: float
    ) -> LandmarkMap:
        """Build the map of the given landmarks.

        Negative eigenvalues (of a kernel that is not positive semi-definite, such as most
        sigmoid ones) are ignored. A kernel that is not finite, or has no positive eigenvalue,
        raises a ValueError.
        """
        landmarks = narrow(landmarks).astype(np.float64, copy=False)
        bare = cls(landmarks, np.empty((0, 0)), kernel, gamma, degree, coef0)
        K = bare.kernel_values(landmarks)
        definite = not callable(kernel) and coef0 >= PROPERTIES[kernel].definite_from
        root = _triangular_root(K) if definite else _spectral_root(K)
        if not root.size:
            raise ValueError(
                f"kernel={kernel!r} has no positive eigenvalue on the landmarks; use another "
                "kernel, or other values of gamma and coef0."
            )
        return cls(landmarks, root, kernel, gamma, degree, coef0)

    def kernel_values(self, X: Any, distance_cache: dict[Any, Array] | None = None) -> Array:
        """Compute k(x, l) of rows and landmarks, of shape (n, m).

        Values that are not finite raise a ValueError. `distance_cache` keeps distances for other
        kernels of the same rows and landmarks.
        """
        X = narrow(X)
        L = self.landmarks
        if callable(self.kernel):
            K = np.asarray(self.kernel(X, L), dtype=np.float64)
            if K.shape != (X.shape[0], L.shape[0]):
                raise ValueError(
                    f"kernel={self.kernel!r} returned shape {K.shape} for {X.shape[0]} rows and "
                    f"{L.shape[0]} landmarks; return one value for each pair."
                )
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                K = self._named_values(PROPERTIES[self.kernel], X, L, distance_cache)
        if not np.isfinite(K).all():
            assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")
            self._raise_overflow(X, int(np.isfinite(K).all(axis=1).argmin()))
        return K

    def _raise_overflow(self, X: Any, row: int) -> None:
        """Raise an error about a row at which the kernel is not finite."""
        values = np.ravel(X[[row]].toarray() if sparse.issparse(X) else X[row])
        column = int(np.abs(values).argmax())
        kernel = (
            f"kernel={self.kernel!r} with gamma={self.gamma!r:.80}, degree={self.degree:g}, "
            f"coef0={self.coef0:g}"
        )
        raise KernelOverflowError(kernel, row, column, float(values[column]))

    def _named_values(self, kind: Properties, X: Any, L: Any, distance_cache: Any) -> Array:
        """Compute the values of a kernel that has a name."""
        gamma = self.gamma
        if np.ndim(gamma):  # distances of scaled columns cannot be shared
            distance_cache = None
        is_cached = distance_cache is not None and kind.distance in distance_cache
        if kind.function is not None and is_cached:
            K = distance_cache[kind.distance] * -gamma
            return kind.function(K, out=K)
        dense = not (sparse.issparse(X) or sparse.issparse(L))
        if kind.function is not None and kind.distance == "squared" and dense:
            # Squared distances far from the origin cancel, and are invariant to a shift.
            center = column_means(L)
            X = X - center
            L = L - center
        if np.ndim(gamma):  # per-feature gammas become scaled columns
            factor = column_factors(self.kernel, np.asarray(gamma))
            X = _scaled(X, factor)
            L = _scaled(L, factor)
            gamma = 1.0
        if kind.function is None:
            params = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
            K = pairwise.pairwise_kernels(X, L, metric=self.kernel, filter_params=True, **params)
            return np.asarray(K, dtype=np.float64)
        K = np.asarray(DISTANCES[kind.distance][0](X, L), dtype=np.float64)
        if distance_cache is not None:
            distance_cache[kind.distance] = K.copy()
        K *= -gamma
        return kind.function(K, out=K)

    def __call__(self, X: Matrix) -> Array:
        """Compute phi of each row, of shape (n, r)."""
        return self.kernel_values(X) @ self.root


class LazyFeatures:
    """Rows mapped by `LandmarkMap`, computed when they are sliced."""

    dtype = np.dtype(np.float64)

    def __init__(self, X: Matrix, phi: LandmarkMap) -> None:
        self.X = X
        self.phi = phi
        self.shape = (X.shape[0], phi.root.shape[1])

    def __getitem__(self, index: Any) -> Array:
        block = self.X[index]
        if block.shape[0] == 0:
            return np.empty((0, self.shape[1]))
        return self.phi(block if sparse.issparse(block) else np.asarray(block, dtype=np.float64))

    def take(self, index: Array, axis: int = 0) -> Array:
        """Return the rows of the index, as `ndarray.take` does."""
        return self[index]


class KernelOverflowError(ValueError):
    """Raised if a kernel is not finite at a row. It names the largest value of the row.

    `row` is the index within the rows for which the kernel was computed.
    """

    def __init__(
        self, kernel: str, row: int, column: int, value: float, row_name: str | None = None
    ) -> None:
        self.kernel = kernel
        self.row = row
        self.column = column
        self.value = value
        if row_name is None:
            row_name = f"a row of X that holds {value:g} in column {column}"
        super().__init__(
            f"{kernel} is not finite at {row_name}; scale the columns of X, leave the row out, or "
            "lower gamma or degree."
        )

    def located(self, start: int, names: Any) -> KernelOverflowError:
        """Return the error with the row numbered from `start` and the column named."""
        column = f"column {self.column}" if names is None else f"column {str(names[self.column])!r}"
        row_name = f"row {start + self.row} of X, which holds {self.value:g} in {column}"
        return KernelOverflowError(self.kernel, self.row, self.column, self.value, row_name)


def has_gamma(kernel: Kernel) -> bool:
    """Return whether a kernel has the parameter gamma."""
    return isinstance(kernel, str) and PROPERTIES[kernel].has_gamma


def column_factors(kernel: Kernel, gammas: Array) -> Array:
    """Return the factors by which columns are scaled to apply per-feature gammas."""
    return np.asarray(gammas ** (1.0 / DISTANCES[PROPERTIES[kernel].distance][1]))


def narrow(X: Any) -> Any:
    """Return canonical sparse rows with 32-bit indices, as Manhattan distances require."""
    X = canonical(X)
    if sparse.issparse(X) and X.indices.dtype != np.int32 and X.nnz < 1 << 31:
        indices = X.indices.astype(np.int32)
        indptr = X.indptr.astype(np.int32)
        return type(X)((X.data, indices, indptr), shape=X.shape)
    return X


def _scaled(X: Any, factor: Array) -> Any:
    """Multiply every column by its factor."""
    return type(X)(X.multiply(factor)) if sparse.issparse(X) else X * factor


def _squared_distances(X: Any, L: Any) -> Array:
    """Compute |x - l|^2, without the argument checks of scikit-learn."""
    if sparse.issparse(X) or sparse.issparse(L):
        return np.asarray(pairwise.euclidean_distances(X, L, squared=True))
    distances = np.asarray(X @ (-2.0 * L.T), dtype=np.float64)
    row_squares = np.einsum("ij,ij->i", X, X)
    landmark_squares = np.einsum("ij,ij->i", L, L)
    distances += row_squares[:, None]
    distances += landmark_squares
    overflown = np.flatnonzero(np.isinf(row_squares))
    if len(overflown) and np.isfinite(landmark_squares).all():
        # Finite rows whose squares overflow are infinitely distant, not NaN.
        distances[overflown[np.isfinite(X[overflown]).all(axis=1)]] = np.inf
    return np.maximum(distances, 0.0, out=distances)


# Distances between rows and landmarks, and their degree of homogeneity.
DISTANCES: dict[str, tuple[Callable[[Any, Any], Array], int]] = {
    "squared": (_squared_distances, 2),
    "manhattan": (pairwise.manhattan_distances, 1),
}


def _triangular_root(K: Array) -> Array:
    """Compute R = P L^{-T} of a positive semi-definite K, with P'KP = L L' up to its rank."""
    top = float(np.diag(K).max())
    if not top > 0:
        return np.empty((len(K), 0))
    factor, order, rank, _ = lapack.dpstrf(K, tol=rank_tol(len(K)) * top, lower=1)
    inverse, _ = lapack.dtrtri(factor[:rank, :rank], lower=1)
    root = np.zeros((len(K), rank))
    root[order[:rank] - 1] = np.tril(inverse).T
    return root


def _spectral_root(K: Array) -> Array:
    """Compute R = V lambda^{-1/2} from the positive eigenvalues of K."""
    values, vectors = linalg.eigh((K + K.T) / 2, check_finite=False)
    keep = values > rank_tol(len(K)) * np.abs(values).max()
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))
