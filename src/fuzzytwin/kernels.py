r"""Kernel planes as linear planes of Nystroem features, landmarks and bandwidths.

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

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack
from sklearn.metrics import pairwise
from sklearn.utils import assert_all_finite, check_array, check_random_state

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin._utils.types import Array, Matrix, canonical
from fuzzytwin.core.blocks import column_means, dense_block, row_blocks, row_slices
from fuzzytwin.core.hashing import content_order, row_hashes, varying
from fuzzytwin.core.planes import rank_tol
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.core.weights import mean_weight

Kernel: TypeAlias = str | Callable[[Any, Any], Any]
RandomState: TypeAlias = int | np.random.RandomState | None
Gamma: TypeAlias = float | Array


class Properties(NamedTuple):
    """Properties of a named kernel; without a function it is computed by scikit-learn."""

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
# Landmarks are refined by k-means if there are at least this many rows per landmark, and at most
# this many columns. k-means reads at most this many rows per landmark, and numbers in total.
MANY_ROWS = 4
MOST_COLUMNS = 1000
ROWS_OF_LANDMARK = 30
MOST_NUMBERS = 1 << 22
ROUNDS = 5  # iterations of k-means
# Centres are means of at least this many rows, from a sample of this many rows or more.
CENTER_ROWS = 5
MOST_CENTERED = 10_000
ROWS_OF_CENTER = 5  # rows per centre on average, before smaller clusters are dropped
MOST_CENTERS = 300  # default number of centres


class KernelOverflowError(ValueError):
    """Error of a kernel that is not finite at a row; it names the largest value of the row.

    `row` is the index within the rows for which the kernel was computed.
    """

    def __init__(
        self, kernel: str, row: int, column: int, value: float, place: str | None = None
    ) -> None:
        self.kernel, self.row, self.column, self.value = kernel, row, column, value
        place = f"a row of X that holds {value:g} in column {column}" if place is None else place
        super().__init__(
            f"{kernel} is not finite at {place}; scale the columns of X, leave the row out, or "
            "lower gamma or degree."
        )

    def located(self, start: int, names: Any) -> KernelOverflowError:
        """Return the error with the row numbered from `start` and the column named."""
        column = f"column {self.column}" if names is None else f"column {str(names[self.column])!r}"
        place = f"row {start + self.row} of X, which holds {self.value:g} in {column}"
        return KernelOverflowError(self.kernel, self.row, self.column, self.value, place)


def has_gamma(kernel: Kernel) -> bool:
    """Return whether a kernel has the parameter gamma."""
    return isinstance(kernel, str) and PROPERTIES[kernel].has_gamma


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """Map from rows to Nystroem features: phi in the module's docstring.

    Parameters
    ----------
    landmarks : ndarray or CSR matrix of shape (m, d)
        Rows that span the space of functions.
    root : ndarray of shape (m, r)
        R of the module's docstring; r is the numerical rank of K_LL.
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
    >>> np.allclose(Z @ Z.T, phi.kernel_values(X))
    True
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

    def kernel_values(self, X: Any, known: dict[Any, Array] | None = None) -> Array:
        """Compute k(x, l) of rows and landmarks, of shape (n, m).

        Values that are not finite raise a ValueError. `known` caches distances for the next kernel
        of the same rows and landmarks.
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
                K = self._named_values(PROPERTIES[self.kernel], X, L, known)
        if not np.isfinite(K).all():
            assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")
            self._refuse(X, int(np.isfinite(K).all(axis=1).argmin()))
        return K

    def _refuse(self, X: Any, row: int) -> None:
        """Raise an error about a row at which the kernel is not finite."""
        values = np.ravel(X[[row]].toarray() if sparse.issparse(X) else X[row])
        column = int(np.abs(values).argmax())
        kernel = (
            f"kernel={self.kernel!r} with gamma={self.gamma!r:.80}, degree={self.degree:g}, "
            f"coef0={self.coef0:g}"
        )
        raise KernelOverflowError(kernel, row, column, float(values[column]))

    def _named_values(self, kind: Properties, X: Any, L: Any, known: Any) -> Array:
        """Compute the values of a kernel that has a name."""
        gamma = self.gamma
        if np.ndim(gamma):  # distances of scaled columns cannot be shared
            known = None
        if kind.function is not None and known is not None and kind.distance in known:
            K = known[kind.distance] * -gamma
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
        if known is not None:
            known[kind.distance] = K.copy()
        K *= -gamma
        return kind.function(K, out=K)

    def __call__(self, X: Matrix) -> Array:
        """Compute phi of each row, of shape (n, r)."""
        return self.kernel_values(X) @ self.root


def column_factors(kernel: Kernel, gammas: Array) -> Array:
    """Return the factors by which columns are scaled to apply per-feature gammas."""
    return np.asarray(gammas ** (1.0 / DISTANCES[PROPERTIES[kernel].distance][1]))


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


def resolve_gamma(gamma: Any, X: Any, s: Array | None) -> Gamma:
    """Return the number that "scale" (1 / (d var)) or "auto" (1 / d) stands for, as in `SVC`.

    The variance is that of all numbers in the columns that vary, each with the weight of its row,
    and d is the number of these columns, so that a constant column changes nothing. Per-feature
    gammas are returned as they are.
    """
    d = X.shape[1]
    if not isinstance(gamma, str):
        if np.ndim(gamma) == 0:
            return float(gamma)
        if np.shape(gamma) != (d,):
            raise ValueError(
                f"gamma={gamma!r:.80} holds {len(gamma)} numbers, X has {d} columns; give one "
                "finite number above 0, or one for each column."
            )
        return np.array(gamma, dtype=np.float64)  # a copy, since the model keeps it
    if gamma == "auto":
        return 1.0 / d
    share = np.full(X.shape[0], 1.0) if s is None else s / s.max()
    share = share / share.sum()
    columns = np.flatnonzero(varying(X if share.all() else X[share > 0]))
    if not len(columns):
        return 1.0 / d
    with np.errstate(over="ignore"):  # `kernel_values` reports a gamma of zero or infinity
        variance = _variance(X, share, columns)
    return 1.0 / (len(columns) * variance) if variance > 0 else 1.0 / d


def _variance(X: Any, share: Array, columns: Array) -> float:
    """Compute the variance of all numbers in the given columns, each with the share of its row.

    One of the numbers is subtracted first, so that equal numbers have a variance of exactly zero.
    """
    n = X.shape[0]
    d = len(columns)
    all_columns = d == X.shape[1]
    if sparse.issparse(X):
        X = X if all_columns else X[:, columns]
        # The deviation of zeros that are not stored is -mean.
        mean = float(share @ np.asarray(X.mean(axis=1, dtype=np.float64)).ravel())
        stored = X.copy().astype(np.float64)
        if X.nnz == n * d and (X.data == X.data[0]).all():
            return 0.0
        stored.data = (stored.data - mean) ** 2 - mean**2
        return float(share @ (np.asarray(stored.sum(axis=1)).ravel() / d + mean**2))

    def blocks() -> Iterator[tuple[Array, Array]]:
        for span, block in row_blocks(X):
            yield share[span], block if all_columns else block[:, columns]

    first = float(X[0, columns[0]])
    mean = sum(float(part @ (block - first).mean(axis=1)) for part, block in blocks())
    return sum(float(part @ ((block - first - mean) ** 2).mean(axis=1)) for part, block in blocks())


def make_map(
    X: Any, codes: Array, s: Array | None, *, kernel: Kernel, gamma: Any, degree: float,
    coef0: float, n_landmarks: Any, random_state: RandomState,
    spread: Callable[[Any, Gamma], Gamma] | None = None,
) -> LandmarkMap:  # fmt: skip
    """Build the map of an estimator with these parameters from its training rows.

    `spread` computes per-feature gammas from the landmarks and gamma.
    """
    assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")
    sampled = is_count(n_landmarks)
    by_scale = isinstance(gamma, str) and gamma == "scale"
    if s is not None and not s.any() and (sampled or by_scale or spread is not None):
        raise ValueError(
            "sample_weight is zero for every row of the first batch, from which landmarks and "
            "gamma are computed; begin with rows of positive weight."
        )
    if is_centers(n_landmarks):
        landmarks = center_landmarks(X, s, MOST_CENTERS, random_state)
    elif sampled:
        landmarks = kmeans_landmarks(X, codes, s, n_landmarks, random_state)
    else:
        landmarks = given_landmarks(n_landmarks, X.shape[1])
    gamma = resolve_gamma(gamma, X, s)
    gamma = gamma if spread is None else spread(landmarks, gamma)
    return LandmarkMap.of(landmarks, kernel, gamma, degree, coef0)


def choose_landmarks(
    X: Matrix, codes: Array, s: Array | None, n_landmarks: int, random_state: RandomState
) -> Any:
    """Choose all rows of positive weight if they are few, else a sample of each class.

    Every class gives at least one landmark.
    """
    return X[sample_rows(X, codes, s, n_landmarks, seeded(random_state))]


def kmeans_landmarks(
    X: Matrix, codes: Array, s: Array | None, n_landmarks: int, random_state: RandomState,
    content: Any = None,
) -> Any:  # fmt: skip
    """Choose landmarks by stratified sampling and k-means within the classes.

    k-means is run only if there are many rows per landmark. Clustered rows are then covered by far
    fewer landmarks. If X has features of the rows, `content` are the original rows, by which the
    sample is drawn.
    """
    rng = seeded(random_state)
    content = X if content is None else content
    chosen = sample_rows(content, codes, s, n_landmarks, rng)
    n = X.shape[0] if s is None else np.count_nonzero(s > 0)
    d = X.shape[1]
    if n < MANY_ROWS * len(chosen) or d > MOST_COLUMNS:
        return X[chosen]
    most = max(MANY_ROWS * len(chosen), min(ROWS_OF_LANDMARK * len(chosen), MOST_NUMBERS // d))
    sampled = sample_rows(content, codes, s, most, rng)
    centers = dense_block(X, chosen)
    rows = dense_block(X, sampled)
    weight = None if s is None else s[sampled]
    centers = _class_means(centers, codes[chosen], rows, codes[sampled], weight)
    form: Any = type(X)
    return form(centers) if sparse.issparse(X) else centers


def center_landmarks(
    X: Matrix, s: Array | None, most: int, random_state: RandomState,
    content: Any = None, groups: Array | None = None,
) -> Any:  # fmt: skip
    """Choose landmarks as centres of k-means, each the mean of at least `CENTER_ROWS` rows.

    Labels are not used. Duplicates count once, and so do rows of one of the `groups`, so that no
    mean discloses a single row, or a single patient. Smaller clusters are dropped. Weights are
    ignored, except that rows of weight 0 are excluded.
    """
    rng = seeded(random_state)
    content = X if content is None else content
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    rows = sample_rows(content, one_class, s, max(MOST_CENTERED, MOST_NUMBERS // X.shape[1]), rng)
    rows = rows[np.unique(row_hashes(content[rows]), return_index=True)[1]]
    owners = np.arange(len(rows))
    if groups is not None:
        owners = np.unique(groups[rows], return_inverse=True)[1]
    n_owners = int(owners.max()) + 1
    if n_owners < CENTER_ROWS:
        raise ValueError(
            f"n_landmarks='centers' needs {CENTER_ROWS} different rows (of different groups) for "
            f"each landmark, X has {n_owners}; give more rows, or the landmarks themselves."
        )
    Z = dense_block(X, rows)
    middle = column_means(Z)  # far from zero, squared distances lose their digits
    m = max(1, min(most, n_owners // ROWS_OF_CENTER))
    centers = _large_clusters(Z - middle, owners, rng.choice(len(rows), m, replace=False)) + middle
    form: Any = type(X)
    return form(centers) if sparse.issparse(X) else centers


def _large_clusters(Z: Array, owners: Array, first: Array) -> Array:
    """Run k-means from the rows `first`; return the centres of clusters of enough owners.

    Clusters of fewer than `CENTER_ROWS` owners are dropped. If all are, return the overall mean.
    """
    centers = Z[first]
    for _ in range(ROUNDS):
        clusters = _nearest(Z, centers)
        centers = _cluster_means(Z, clusters)
    of_cluster = np.unique(np.column_stack([clusters, owners]), axis=0)[:, 0]
    sizes = np.unique(of_cluster, return_counts=True)[1]
    large = sizes >= CENTER_ROWS
    return centers[large] if large.any() else Z.mean(axis=0, keepdims=True)


def _cluster_means(Z: Array, clusters: Array) -> Array:
    """Compute the mean of the rows of each cluster that has any."""
    _, clusters, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    entries = np.ones(len(Z)), (clusters, np.arange(len(Z)))
    members = sparse.csr_array(entries, shape=(len(sizes), len(Z)))
    return np.asarray((members @ Z) / sizes[:, None])


def _nearest(Z: Array, centers: Array) -> Array:
    """Find the nearest of the centers of each row."""
    far = Z @ (-2.0 * centers.T)
    far += (centers * centers).sum(axis=1)
    return np.asarray(far.argmin(axis=1))


def _class_means(
    centers: Array, center_codes: Array, rows: Array, codes: Array, weight: Array | None
) -> Array:
    """Move centers by k-means among the rows of their class."""
    middle = column_means(rows)  # far from zero, squared distances lose their digits
    centers = centers - middle
    rows = rows - middle
    weight = np.ones(len(rows)) if weight is None else weight / weight.max()
    for k in np.unique(center_codes):
        class_centers = np.flatnonzero(center_codes == k)
        m = len(class_centers)
        in_class = codes == k
        Z = rows[in_class]
        v = weight[in_class]
        for _ in range(ROUNDS):
            L = centers[class_centers]
            far = Z @ (-2.0 * L.T)
            far += (L * L).sum(axis=1)
            nearest = far.argmin(axis=1)
            members = sparse.csr_array((v, (nearest, np.arange(len(Z)))), shape=(m, len(Z)))
            total = np.bincount(nearest, v, minlength=m)
            filled = total > 0
            centers[class_centers[filled]] = (members @ Z)[filled] / total[filled, None]
    return np.asarray(centers + middle)


def seeded(random_state: RandomState) -> np.random.RandomState:
    """Return a random generator; None is the same as 0, so that fits are reproducible."""
    return check_random_state(0 if random_state is None else random_state)


def sample_rows(
    X: Any, codes: Array, s: Array | None, most: int, rng: np.random.RandomState
) -> Array:
    """Sample rows of positive weight, stratified by class, or return all if they are few.

    Rows are sorted by content before drawing, so that the sample does not depend on their order.
    """
    rows = np.arange(len(codes)) if s is None else np.flatnonzero(s > 0)
    if len(rows) > most:
        weighted = s is not None and len(rows) < len(codes)
        order = content_order(X[rows] if weighted else X, None if s is None else s[rows])
        rows = rows[order]
        labels = codes[rows]
        counts = np.bincount(labels)
        present = np.flatnonzero(counts)
        share = np.maximum(1, np.floor(most * counts[present] / len(rows)).astype(int))
        chosen = [
            rng.choice(rows[labels == k], size=min(m, counts[k]), replace=False)
            for k, m in zip(present, share, strict=True)
        ]
        rows = np.concatenate(chosen)
    return rows


def is_centers(n_landmarks: Any) -> bool:
    """Return whether landmarks are centres of clusters instead of rows."""
    return isinstance(n_landmarks, str) and n_landmarks == "centers"


def check_n_landmarks(n_landmarks: Any) -> None:
    """Check the number of landmarks; landmarks themselves are checked with the rows."""
    if (
        not (is_whole(n_landmarks) and n_landmarks >= 1)
        and is_count(n_landmarks)
        and not is_centers(n_landmarks)
    ):
        remedy = "give a whole number of at least 1, 'centers', or the landmarks, shape (m, d)"
        raise not_allowed("n_landmarks", n_landmarks, remedy)


def is_count(n_landmarks: Any) -> TypeGuard[int]:
    """Return whether this is a number of landmarks (valid or not), not the landmarks themselves."""
    return not isinstance(n_landmarks, list | tuple) and np.ndim(n_landmarks) == 0


def given_landmarks(landmarks: Any, n_columns: int | None = None) -> Any:
    """Validate landmarks given by a user, for rows of `n_columns` columns (None: any number)."""
    try:
        # A copy, since the model keeps it.
        checked = check_array(landmarks, accept_sparse="csr", dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise ValueError(
            f"n_landmarks={landmarks!r} holds no landmarks ({reason}); give finite numbers of "
            "shape (m, d), or how many rows to take."
        ) from error
    if n_columns is not None and checked.shape[1] != n_columns:
        raise ValueError(
            f"n_landmarks holds landmarks of {checked.shape[1]} columns, X has {n_columns}; give "
            "landmarks with the columns of X."
        )
    return canonical(checked)


def _scaled(X: Any, factor: Array) -> Any:
    """Multiply every column by its factor."""
    return type(X)(X.multiply(factor)) if sparse.issparse(X) else X * factor


def narrow(X: Any) -> Any:
    """Return canonical sparse rows with 32-bit indices, as Manhattan distances require."""
    X = canonical(X)
    if sparse.issparse(X) and X.indices.dtype != np.int32 and X.nnz < 1 << 31:
        indices = X.indices.astype(np.int32)
        indptr = X.indptr.astype(np.int32)
        return type(X)((X.data, indices, indptr), shape=X.shape)
    return X


# Bandwidths: one gamma by the median heuristic, or per-feature gammas learned from the labels.


MOST_ROWS = 2000  # rows sampled at most
MOST_LANDMARKS = 150  # landmarks of the first planes at most
MOST_FUNCTIONS = 16  # with more classes, the principal directions of the planes' values
RIDGES = 10.0 ** np.arange(-5, 3.5, 0.5)  # ridges tried, times the mean scatter of a row or group
TIED = 1e-9  # relative tolerance of equal sums of weights


def learn_feature_gammas(
    landmarks: Any, gamma: Gamma, X: Any, codes: Array, s: Array | None, *, rounds: int = 1,
    groups: Array | None = None,
) -> Gamma:  # fmt: skip
    """Learn per-feature gammas of an RBF kernel from the gradients of planes along the columns.

    Return one gamma per column (d,), or the initial `gamma` if the planes are constant, as for one
    class or equal rows. If there are many rows and landmarks, they are sampled. Each further round
    begins with the gammas of the previous one. More than one round doubles the samples, which pays
    off with many rows. Rows of one of the `groups` are held out together.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.kernels import learn_feature_gammas
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> by_second_column = (X[:, 1] > 0).astype(int)
    >>> gammas = learn_feature_gammas(X, 0.3, X, by_second_column, None)
    >>> (gammas / gammas.sum() > 0.8).tolist()
    [False, True, False]
    """
    factor = 2 if rounds > 1 else 1
    sampled_landmarks = _sample_landmarks(landmarks, factor * MOST_LANDMARKS)
    sampled_rows = sample_rows(X, codes, s, factor * MOST_ROWS, np.random.RandomState(0))
    share = np.ones(len(sampled_rows))
    if s is not None:
        share = s[sampled_rows] / float(s[sampled_rows].max())
    v = share / share.sum()
    X = X[sampled_rows]
    codes = codes[sampled_rows]
    groups = None if groups is None else groups[sampled_rows]
    classes = np.unique(codes)
    T = (codes[:, None] == (classes[1:] if len(classes) <= 2 else classes)).astype(float)
    for _ in range(rounds):
        phi = LandmarkMap.of(sampled_landmarks, "rbf", gamma, 3, 0.0)
        gamma = _update_gammas(phi, X, T, v, groups)
    return gamma


def _update_gammas(phi: LandmarkMap, X: Any, T: Array, v: Array, groups: Array | None) -> Gamma:
    """Compute new per-feature gammas from planes fitted with the current ones."""
    K = phi.kernel_values(X)
    Z = K @ phi.root
    w = _first_planes(Z, T, v, groups)
    if w.shape[1] > MOST_FUNCTIONS:
        values = (Z - v @ Z) @ w
        w = w @ np.linalg.eigh((values * v[:, None]).T @ values)[1][:, -MOST_FUNCTIONS:]
    change, variance = _mean_squared_gradients(phi, X, K, phi.root @ w, v)
    before = np.broadcast_to(np.asarray(phi.gamma, dtype=np.float64), variance.shape)
    change *= before * before
    total = float(change @ variance)
    if not (np.isfinite(total) and total > 0):
        return phi.gamma
    return np.asarray(change * (float(before @ variance) / total))


def _sample_landmarks(landmarks: Any, most: int) -> Any:
    """Choose at most `most` landmarks, independent of their order and of duplicates."""
    if sparse.issparse(landmarks):
        ends = landmarks.indptr
        keys = [
            (landmarks.indices[i:j].tobytes(), landmarks.data[i:j].tobytes())
            for i, j in itertools.pairwise(ends)
        ]
        index = {key: i for i, key in enumerate(keys)}
        distinct = np.array([index[key] for key in sorted(index)])
    else:
        distinct = np.unique(landmarks, axis=0, return_index=True)[1]
    return landmarks[distinct[:: -(-len(distinct) // most)]]


def _first_planes(Z: Array, T: Array, v: Array, groups: Array | None) -> Array:
    """Fit planes w (r, q) to targets T (n, q) by least squares, with the best of `RIDGES`.

    `v` are the weights of the rows, which add up to 1.
    """
    path = RidgePath.of(RidgeSums.of(Z, T, v))
    alphas = RIDGES * path.sizes.sum() * mean_weight(v, groups)
    if not alphas.all():
        return np.zeros((Z.shape[1], T.shape[1]))
    loo_values = path.left_out(path.coordinates(Z), T, v, alphas, groups)
    errors = [float(v @ ((values - T) ** 2).sum(axis=1)) for values in loo_values]
    return path.planes(float(alphas[int(np.argmin(errors))]))[0]


def _mean_squared_gradients(
    phi: LandmarkMap, X: Any, K: Array, u: Array, v: Array
) -> tuple[Array, Array]:
    """Compute the mean squared gradient of functions along each column, and column variances.

    A function is f(x) = sum_l u_l k(x, l). The result is (df/dx_j)^2 / (4 gamma_j^2).
    """
    L: Any = phi.landmarks
    d = X.shape[1]
    # Differences far from the origin cancel, and are invariant to a shift.
    dense = not (sparse.issparse(X) or sparse.issparse(L))
    center = column_means(L) if dense else np.zeros(d)
    L = L - center if dense else L
    change, first, second = np.zeros((3, d))
    for span in row_slices(*X.shape):
        Z = dense_block(X, span) - center
        share = v[span]
        first += share @ Z
        second += share @ (Z * Z)
        for k in range(u.shape[1]):
            terms = K[span] * u[:, k]
            slope = Z * terms.sum(axis=1)[:, None] - terms @ L
            change += share @ (slope * slope)
    return change, np.maximum(second - first * first, 0.0)


def default_gammas(X: Any, s: Array | None) -> Array:
    """Return five powers of four around the median heuristic, from at most 500 rows.

    The weight of a pair is the product of those of its rows. Pairs of equal rows are ignored.
    """
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    rows = sample_rows(X, one_class, s, 500, np.random.RandomState(0))
    Z = narrow(X[rows])
    if not sparse.issparse(Z):  # far from zero, squared distances lose their digits
        Z = Z - column_means(Z)
    middle = median_distance(DISTANCES["squared"][0](Z, Z), s if s is None else s[rows])
    return 4.0 ** np.arange(-2, 3) / middle


def median_distance(distances: Array, s: Array | None) -> float:
    """Compute the weighted median of distances (n, n) of different rows; 1 if all are equal."""
    different = distances > 1e-12 * distances.max()
    values = distances[different]
    if not len(values):
        return 1.0
    if s is None or (s == s[0]).all():
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])
    order = np.argsort(values)
    share = s / s.max()
    cumulative = np.cumsum(np.multiply.outer(share, share)[different][order])
    return float(values[order[np.searchsorted(cumulative, (1 - TIED) * cumulative[-1] / 2)]])
