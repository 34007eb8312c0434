r"""Curved planes as linear ones: features of landmarks.

With a kernel k and landmarks L, a row x is mapped to (Nystroem; Williams and Seeger 2001)

    phi(x) = k(x, L) R,      R' K_LL R = I,

where the root R leaves out what of K_LL is zero but for rounding. A plane w.phi(x) + b is then
the function sum_j u_j k(x, l_j) + b with u = R w, and |w|^2 = u' K u is its squared norm in the
kernel's space: the very norm that ridge and distance need. With all training rows as landmarks
this is the kernel LST-SVM, with fewer the reduced ("rectangular") kernel of the literature.

Any two roots differ by a rotation of the features, which changes nothing else. That of a positive
semi-definite kernel comes from a Cholesky factorisation with pivoting, which takes a thirtieth of
the time of an eigendecomposition; that of any other kernel from the positive eigenvalues.
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
    """What sets a kernel apart; those without a function are scikit-learn's, of products."""

    has_gamma: bool
    definite_from: float  # the coef0 from which on it is positive semi-definite on any rows
    distance: str = "squared"  # of `DISTANCES`: gamma is one over such a distance
    function: Any = None  # called as a ufunc: the kernel is this of -gamma times the distance


PROPERTIES: dict[Any, Properties] = {
    "linear": Properties(False, -np.inf),
    "rbf": Properties(True, -np.inf, "squared", np.exp),
    "poly": Properties(True, 0.0),
    "sigmoid": Properties(True, np.inf),
    "laplacian": Properties(True, -np.inf, "manhattan", np.exp),
    "cosine": Properties(False, -np.inf),
}
KERNELS = tuple(PROPERTIES)
# Landmarks are moved where there are this many rows for each, and no more columns than this; the
# last two bound the rows for each and the numbers in all that are read for it.
MANY_ROWS = 4
MOST_COLUMNS = 1000
ROWS_OF_LANDMARK = 30
MOST_NUMBERS = 1 << 22
ROUNDS = 5  # of k-means
# Landmarks that are no rows are means of at least so many, of at most so many that are looked at.
CENTER_ROWS = 5
MOST_CENTERED = 10_000
ROWS_OF_CENTER = 5  # on average, before smaller clusters are dropped
MOST_CENTERS = 300  # unless an estimator says otherwise


class KernelOverflowError(ValueError):
    """A kernel that is not finite at a row, whose largest value is named.

    `row` counts from the first of the rows that the kernel was computed of.
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
        """Name the row and the column, of rows from `start` on."""
        column = f"column {self.column}" if names is None else f"column {str(names[self.column])!r}"
        place = f"row {start + self.row} of X, which holds {self.value:g} in {column}"
        return KernelOverflowError(self.kernel, self.row, self.column, self.value, place)


def has_gamma(kernel: Kernel) -> bool:
    """Return whether a kernel has the parameter gamma."""
    return isinstance(kernel, str) and PROPERTIES[kernel].has_gamma


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """Map from rows to features of landmarks: phi above.

    Parameters
    ----------
    landmarks : ndarray or CSR matrix of shape (m, d)
        Rows that span the space of functions.
    root : ndarray of shape (m, r)
        R above; r is the numerical rank of K_LL.
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
        """Build the map of given landmarks.

        Negative eigenvalues (of a kernel that is not positive semi-definite, such as most
        sigmoid ones) are left out. A kernel that is not finite, or without any positive
        eigenvalue, gets a ValueError.
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
        """Compute k(x, l) of rows and landmarks, of shape (n, m); finite, or a ValueError.

        `known` keeps distances for the next kernel of the same rows and landmarks.
        """
        X, L = narrow(X), self.landmarks
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
        gamma, known = self.gamma, None if np.ndim(self.gamma) else known
        if kind.function is not None and known is not None and kind.distance in known:
            K = known[kind.distance] * -gamma
            return kind.function(K, out=K)
        dense = not (sparse.issparse(X) or sparse.issparse(L))
        if kind.function is not None and kind.distance == "squared" and dense:
            # Squared distances lose their digits far from zero, and a shift changes none.
            center = column_means(L)
            X, L = X - center, L - center
        if np.ndim(gamma):  # columns that are scaled need no gamma
            factor = column_factors(self.kernel, np.asarray(gamma))
            X, L, gamma = _scaled(X, factor), _scaled(L, factor), 1.0
        if kind.function is None:
            given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
            K = pairwise.pairwise_kernels(X, L, metric=self.kernel, filter_params=True, **given)
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
    """Return the factors that columns are scaled by where each has its gamma."""
    return np.asarray(gammas ** (1.0 / DISTANCES[PROPERTIES[kernel].distance][1]))


def _squared_distances(X: Any, L: Any) -> Array:
    """Compute |x - l|^2: scikit-learn's takes longer to check its arguments."""
    if sparse.issparse(X) or sparse.issparse(L):
        return np.asarray(pairwise.euclidean_distances(X, L, squared=True))
    far = np.asarray(X @ (-2.0 * L.T), dtype=np.float64)
    squares, of_landmarks = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", L, L)
    far += squares[:, None]
    far += of_landmarks
    overflown = np.flatnonzero(np.isinf(squares))
    if len(overflown) and np.isfinite(of_landmarks).all():
        # Finite rows whose squares overflow are infinitely far off: no difference of infinities.
        far[overflown[np.isfinite(X[overflown]).all(axis=1)]] = np.inf
    return np.maximum(far, 0.0, out=far)


# Distances between rows and landmarks, and which power of a length they are.
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
    """Rows mapped by `LandmarkMap`, computed where they are sliced."""

    dtype = np.dtype(np.float64)

    def __init__(self, X: Matrix, phi: LandmarkMap) -> None:
        self.X, self.phi = X, phi
        self.shape = (X.shape[0], phi.root.shape[1])

    def __getitem__(self, index: Any) -> Array:
        block = self.X[index]
        if block.shape[0] == 0:
            return np.empty((0, self.shape[1]))
        return self.phi(block if sparse.issparse(block) else np.asarray(block, dtype=np.float64))

    def take(self, index: Array, axis: int = 0) -> Array:
        """Return some of the rows, as `ndarray.take` does."""
        return self[index]


def resolve_gamma(gamma: Any, X: Any, s: Array | None) -> Gamma:
    """Return the number that "scale" (1 / (d var)) or "auto" (1 / d) stands for, as in `SVC`.

    The variance is that of all numbers in the columns that vary, each weighted as its row, and d
    the number of these columns: so a constant column changes nothing. One number for each column is
    returned as it is.
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
        return np.array(gamma, dtype=np.float64)  # a copy: it is kept
    if gamma == "auto":
        return 1.0 / d
    share = np.full(X.shape[0], 1.0) if s is None else s / s.max()
    share = share / share.sum()
    columns = np.flatnonzero(varying(X if share.all() else X[share > 0]))
    if not len(columns):
        return 1.0 / d
    with np.errstate(over="ignore"):  # a gamma of zero or infinity shows in the kernel
        variance = _variance(X, share, columns)
    return 1.0 / (len(columns) * variance) if variance > 0 else 1.0 / d


def _variance(X: Any, share: Array, columns: Array) -> float:
    """Compute the variance of all numbers in some columns, each weighted by its row's share.

    Numbers are taken from one of them, so that equal ones have a variance of exactly zero.
    """
    n, d = X.shape[0], len(columns)
    everything = d == X.shape[1]
    if sparse.issparse(X):
        X = X if everything else X[:, columns]
        # Zeros that are not stored lie at -mean.
        mean = float(share @ np.asarray(X.mean(axis=1, dtype=np.float64)).ravel())
        stored = X.copy().astype(np.float64)
        if X.nnz == n * d and (X.data == X.data[0]).all():
            return 0.0
        stored.data = (stored.data - mean) ** 2 - mean**2
        return float(share @ (np.asarray(stored.sum(axis=1)).ravel() / d + mean**2))

    def blocks() -> Iterator[tuple[Array, Array]]:
        for here, block in row_blocks(X):
            yield share[here], block if everything else block[:, columns]

    first = float(X[0, columns[0]])
    mean = sum(float(part @ (block - first).mean(axis=1)) for part, block in blocks())
    return sum(float(part @ ((block - first - mean) ** 2).mean(axis=1)) for part, block in blocks())


def make_map(
    X: Any, codes: Array, s: Array | None, *, kernel: Kernel, gamma: Any, degree: float,
    coef0: float, n_landmarks: Any, random_state: RandomState,
    spread: Callable[[Any, Gamma], Gamma] | None = None,
) -> LandmarkMap:  # fmt: skip
    """Build the map of an estimator with these parameters from its training rows.

    `spread` makes one gamma for each column, from the landmarks and gamma.
    """
    assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")
    sampled = is_count(n_landmarks)
    by_scale = isinstance(gamma, str) and gamma == "scale"
    if s is not None and not s.any() and (sampled or by_scale or spread is not None):
        raise ValueError(
            "sample_weight is zero for every row of the first batch, which landmarks and gamma "
            "are taken from; begin with rows of positive weight."
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
    """Choose all rows of positive weight where they are few, else a sample of each class.

    Every class gives at least one landmark.
    """
    return X[sample_rows(X, codes, s, n_landmarks, seeded(random_state))]


def kmeans_landmarks(
    X: Matrix, codes: Array, s: Array | None, n_landmarks: int, random_state: RandomState,
    content: Any = None,
) -> Any:  # fmt: skip
    """Choose landmarks, and move them to the middle of the rows around them.

    Where there are many rows for each landmark, a few rounds of k-means within the classes follow
    `choose_landmarks`: rows that lie in clusters are then covered by far fewer landmarks.
    `content` are the rows as given, by which they are drawn, if X holds features of them.
    """
    rng = seeded(random_state)
    content = X if content is None else content
    chosen = sample_rows(content, codes, s, n_landmarks, rng)
    n, d = X.shape[0] if s is None else np.count_nonzero(s > 0), X.shape[1]
    if n < MANY_ROWS * len(chosen) or d > MOST_COLUMNS:
        return X[chosen]
    most = max(MANY_ROWS * len(chosen), min(ROWS_OF_LANDMARK * len(chosen), MOST_NUMBERS // d))
    around = sample_rows(content, codes, s, most, rng)
    centers, rows = dense_block(X, chosen), dense_block(X, around)
    weight = None if s is None else s[around]
    centers = _class_means(centers, codes[chosen], rows, codes[around], weight)
    form: Any = type(X)
    return form(centers) if sparse.issparse(X) else centers


def center_landmarks(
    X: Matrix, s: Array | None, most: int, random_state: RandomState,
    content: Any = None, groups: Array | None = None,
) -> Any:  # fmt: skip
    """Choose landmarks that are no rows: means of `CENTER_ROWS` different rows or more.

    They are the centres of k-means, without a look at labels. Equal rows count once, and so do rows
    of one of the `groups`, so that no mean is nearly a single row, or a single patient. Clusters of
    fewer rows are dropped. Weights do not count, except that rows of weight 0 are left out.
    """
    rng, content = seeded(random_state), X if content is None else content
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
    """Run k-means from some rows; return the means of rows of `CENTER_ROWS` owners or more.

    Rows of smaller clusters belong to none. If all are smaller, there is one, of all rows.
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
    """Move centers by rounds of k-means, each among the rows of its class."""
    middle = column_means(rows)  # far from zero, squared distances lose their digits
    centers, rows = centers - middle, rows - middle
    weight = np.ones(len(rows)) if weight is None else weight / weight.max()
    for k in np.unique(center_codes):
        here, own = np.flatnonzero(center_codes == k), codes == k
        Z, v, m = rows[own], weight[own], len(here)
        for _ in range(ROUNDS):
            L = centers[here]
            far = Z @ (-2.0 * L.T)
            far += (L * L).sum(axis=1)
            nearest = far.argmin(axis=1)
            members = sparse.csr_array((v, (nearest, np.arange(len(Z)))), shape=(m, len(Z)))
            total = np.bincount(nearest, v, minlength=m)
            filled = total > 0
            centers[here[filled]] = (members @ Z)[filled] / total[filled, None]
    return np.asarray(centers + middle)


def seeded(random_state: RandomState) -> np.random.RandomState:
    """Return what draws samples. None stands for 0: two fits of one table give one model."""
    return check_random_state(0 if random_state is None else random_state)


def sample_rows(
    X: Any, codes: Array, s: Array | None, most: int, rng: np.random.RandomState
) -> Array:
    """Sample rows of positive weight, stratified by class; all of them where they are few.

    Rows are drawn from their order by content, so that the order they come in does not matter.
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
    """Return whether landmarks are to be centres, and not rows."""
    return isinstance(n_landmarks, str) and n_landmarks == "centers"


def check_n_landmarks(n_landmarks: Any) -> None:
    """Refuse a number of landmarks below 1; landmarks themselves are checked with the rows."""
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
    """Validate landmarks that a user gave, for rows of this many columns (None: any number)."""
    try:
        # A copy: it is kept.
        found = check_array(landmarks, accept_sparse="csr", dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise ValueError(
            f"n_landmarks={landmarks!r} holds no landmarks ({reason}); give finite numbers of "
            "shape (m, d), or how many rows to take."
        ) from error
    if n_columns is not None and found.shape[1] != n_columns:
        raise ValueError(
            f"n_landmarks holds landmarks of {found.shape[1]} columns, X has {n_columns}; give "
            "landmarks with the columns of X."
        )
    return canonical(found)


def _scaled(X: Any, factor: Array) -> Any:
    """Multiply every column by its factor."""
    return type(X)(X.multiply(factor)) if sparse.issparse(X) else X * factor


def narrow(X: Any) -> Any:
    """Return canonical sparse rows with 32-bit indices, as Manhattan distances ask for."""
    X = canonical(X)
    if sparse.issparse(X) and X.indices.dtype != np.int32 and X.nnz < 1 << 31:
        narrow = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return type(X)((X.data, *narrow), shape=X.shape)
    return X


# How far a kernel reaches: one gamma by distances, or one for each column, by the labels.


MOST_ROWS = 2000  # rows that are read at most
MOST_LANDMARKS = 150  # those that span the first planes at most
MOST_FUNCTIONS = 16  # of more classes, the directions in which planes vary most
RIDGES = 10.0 ** np.arange(-5, 3.5, 0.5)  # those tried, times the mean scatter of a row or group
TIED = 1e-9  # sums of weights that differ by less, relative, are the same


def learn_feature_gammas(
    landmarks: Any, gamma: Gamma, X: Any, codes: Array, s: Array | None, *, rounds: int = 1,
    groups: Array | None = None,
) -> Gamma:  # fmt: skip
    """Learn how much each column counts in an RBF kernel from how planes change along it.

    One gamma for each column (d,) is returned, or `gamma`, where to begin, if planes change
    nowhere: of one class, or of equal rows. Of many rows X and landmarks a part is read. More
    rounds begin where one ended, and read twice as many of both: they pay where rows are many.
    Rows of one number in `groups` are left out together.

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
    more = 2 if rounds > 1 else 1
    some = _some(landmarks, more * MOST_LANDMARKS)
    chosen = sample_rows(X, codes, s, more * MOST_ROWS, np.random.RandomState(0))
    largest = 1.0 if s is None else float(s[chosen].max())
    share = np.ones(len(chosen)) if s is None else s[chosen] / largest
    v = share / share.sum()
    X, codes = X[chosen], codes[chosen]
    groups = None if groups is None else groups[chosen]
    classes = np.unique(codes)
    T = (codes[:, None] == (classes[1:] if len(classes) <= 2 else classes)).astype(float)
    for _ in range(rounds):
        gamma = _learned(LandmarkMap.of(some, "rbf", gamma, 3, 0.0), X, T, v, groups)
    return gamma


def _learned(phi: LandmarkMap, X: Any, T: Array, v: Array, groups: Array | None) -> Gamma:
    """Learn gammas from planes with the present ones."""
    K = phi.kernel_values(X)
    Z = K @ phi.root
    w = _first_planes(Z, T, v, groups)
    if w.shape[1] > MOST_FUNCTIONS:
        values = (Z - v @ Z) @ w
        w = w @ np.linalg.eigh((values * v[:, None]).T @ values)[1][:, -MOST_FUNCTIONS:]
    change, variance = _change(phi, X, K, phi.root @ w, v)
    before = np.broadcast_to(np.asarray(phi.gamma, dtype=np.float64), variance.shape)
    change *= before * before
    total = float(change @ variance)
    if not (np.isfinite(total) and total > 0):
        return phi.gamma
    return np.asarray(change * (float(before @ variance) / total))


def _some(landmarks: Any, most: int) -> Any:
    """Choose some of the landmarks, whatever their order and however often they are repeated."""
    if sparse.issparse(landmarks):
        ends = landmarks.indptr
        keys = [
            (landmarks.indices[i:j].tobytes(), landmarks.data[i:j].tobytes())
            for i, j in itertools.pairwise(ends)
        ]
        place = {key: i for i, key in enumerate(keys)}
        distinct = np.array([place[key] for key in sorted(place)])
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
    left_out = path.left_out(path.coordinates(Z), T, v, alphas, groups)
    errors = [float(v @ ((values - T) ** 2).sum(axis=1)) for values in left_out]
    return path.planes(float(alphas[int(np.argmin(errors))]))[0]


def _change(phi: LandmarkMap, X: Any, K: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """Compute the mean squared change of functions along each column, and the columns' variances.

    A function is sum_l u_l k(x, l); its change is (df/dx_j)^2 but for a factor of 4 gamma_j^2.
    """
    L: Any = phi.landmarks
    d = X.shape[1]
    # Far from zero, differences lose their digits, and a shift changes none.
    dense = not (sparse.issparse(X) or sparse.issparse(L))
    center = column_means(L) if dense else np.zeros(d)
    L = L - center if dense else L
    change, first, second = np.zeros((3, d))
    for here in row_slices(*X.shape):
        Z, share = dense_block(X, here) - center, v[here]
        first += share @ Z
        second += share @ (Z * Z)
        for k in range(u.shape[1]):
            of_landmark = K[here] * u[:, k]
            slope = Z * of_landmark.sum(axis=1)[:, None] - of_landmark @ L
            change += share @ (slope * slope)
    return change, np.maximum(second - first * first, 0.0)


def default_gammas(X: Any, s: Array | None) -> Array:
    """Choose five powers of four around the median heuristic, from at most 500 weighted rows.

    Pairs weigh as their rows do, and pairs of equal rows do not count.
    """
    one_class = np.zeros(X.shape[0], dtype=np.intp)
    rows = sample_rows(X, one_class, s, 500, np.random.RandomState(0))
    Z = narrow(X[rows])
    if not sparse.issparse(Z):  # far from zero, squared distances lose their digits
        Z = Z - column_means(Z)
    middle = median_distance(DISTANCES["squared"][0](Z, Z), s if s is None else s[rows])
    return 4.0 ** np.arange(-2, 3) / middle


def median_distance(apart: Array, s: Array | None) -> float:
    """Compute the weighted median of distances (n, n) of different rows; 1 if all are equal."""
    different = apart > 1e-12 * apart.max()
    values = apart[different]
    if not len(values):
        return 1.0
    if s is None or (s == s[0]).all():
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])
    order, share = np.argsort(values), s / s.max()
    upto = np.cumsum(np.multiply.outer(share, share)[different][order])
    return float(values[order[np.searchsorted(upto, (1 - TIED) * upto[-1] / 2)]])
