"""Make the grid of a kernel, and the moments of the training rows of all splits."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._params import count_threads
from fuzzytwin._rows import Rows, check_finite, encode, raise_overflow
from fuzzytwin._utils import memory
from fuzzytwin._utils.threads import MIN_BLAS_COLUMNS
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.memberships._degrees import own_moments
from fuzzytwin.twin import _fit as fitting
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._axes import Axes
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

Splits = list[tuple[Array, Array]]

SMALL_DATA = 2000  # tables with fewer rows get the finer grid
MAX_ALPHAS = 7  # default values of alpha, at most
# Limits on the numbers held in memory: moments of all splits, and planes of more than two classes
# that are scored at once.
MAX_NUMBERS = 1 << 26
MAX_PLANES = 1 << 24
# A pair of classes is solved in row space if it has at most this many rows per column.
MAX_PAIR_ROWS_PER_COLUMN = 0.7


@dataclass(frozen=True, eq=False)
class Search:
    """What the grids of all kernels share: rows, splits, scoring and selection."""

    shared: dict[str, Any]  # parameters that are the same at every point
    rows: Rows  # X holds row-space features if the solver is "gram"
    original: Rows
    splits: Splits  # of all rounds
    n_folds: int  # splits of one round
    scoring: str
    selection: str
    verbose: bool

    def model(self, point: dict[str, Any]) -> FuzzyTwinSVC:
        """Make the unfitted model of a point or grid, with its own copy of the random state."""
        state = copy.deepcopy(self.shared["random_state"])
        return FuzzyTwinSVC(**self.shared | point | {"random_state": state})


def make_grid(
    search: Search, kernel: dict[str, Any], axes: Axes
) -> tuple[Grid, list[TwinMoments | None]]:
    """Make the grid of one kernel. For linear planes, read the rows once for all splits.

    Also return the moments of each split's training rows, or None if a split computes its own.
    """
    settings = FitSettings.of(search.model(kernel))
    rows = search.rows
    K = len(rows.classes)
    fine = len(rows.codes) < SMALL_DATA and not settings.uses_kernel
    powers = np.arange(-8, 9, 2) if fine else np.arange(-4, 5, 2)
    if K > 2:  # one C for all pairs: values above 1 hardly ever help
        powers = np.arange(-4, 3, 2)
    Cs = np.asarray(2.0**powers if axes.Cs is None else axes.Cs)
    alphas = axes.alphas
    n_points = len(Cs) * (MAX_ALPHAS if alphas is None else len(alphas))
    pairwise = solves_pairwise(settings, rows, rows.X) and not settings.uses_kernel
    _check_memory(settings, rows, n_points, pairwise)
    all_moments: ClassMoments | None = None
    train_moments: list[TwinMoments | None] = [None] * len(search.splits)
    if not (settings.uses_kernel or pairwise):
        starts = range(0, len(search.splits), search.n_folds)
        rounds = [search.splits[start : start + search.n_folds] for start in starts]
        parts = [moments_of_splits(rows, splits) for splits in rounds]
        if parts[0] is not None and all(parts):
            all_moments = parts[0][0]
            train_moments = [moments for part in parts if part for moments in part[1]]
        else:
            check_finite(rows.X, rows.names)
            all_moments = own_moments(rows, rows.X)
        if not all_moments.is_finite:
            raise_overflow(rows)
    if alphas is None:
        alphas = _default_alphas(settings, rows, all_moments, fine)
    grid = Grid(
        alphas=np.asarray(alphas),
        rules=axes.rules,
        Cs=Cs,
        n_classes=K,
        memberships=axes.memberships,
        kernel=kernel,
    )
    return grid, train_moments


def solves_pairwise(settings: FitSettings, rows: Rows, Z: Any) -> bool:
    """Return whether each pair of classes is solved in its row space, as it has few rows."""
    is_wide = settings.uses_kernel or settings.solver == "gram"
    if not is_wide or len(rows.classes) == 2:
        return False
    if not isinstance(Z, np.ndarray) or rows.soft:
        return False
    class_counts = np.sort(np.bincount(rows.codes, minlength=len(rows.classes)))
    return bool(class_counts[-2:].sum() <= MAX_PAIR_ROWS_PER_COLUMN * Z.shape[1])


def _check_memory(settings: FitSettings, rows: Rows, n_points: int, pairwise: bool) -> None:
    """Raise an error, before the search begins, if moments and planes do not fit into memory."""
    K = len(rows.classes)
    d = rows.X.shape[1]
    if settings.uses_kernel:
        d = settings.max_landmarks(len(rows))
    point_size = float(d) * K * (K - 1)
    planes = point_size * n_points
    if K > 2:  # points are scored in blocks
        planes = min(planes, max(point_size, MAX_PLANES))
    # Moments of all rows, of a split with and without degrees, and of a block. In pairs, the
    # coefficients of planes as combinations of rows instead.
    moments = 2.0 * n_points * (K - 1) * len(rows) if pairwise else 4.0 * K * d * d
    threads = 1 if d >= MIN_BLAS_COLUMNS else count_threads(settings.n_jobs)
    needed = 8.0 * threads * (moments + 3.0 * planes)
    if not memory.fits_memory(needed):
        limit = memory.MAX_MEMORY_SHARE * memory.available_memory()
        raise memory.NotEnoughMemoryError(
            f"the search does not fit into memory: {K} classes and {d:,} columns need about "
            f"{memory.format_bytes(needed)}, but the limit is {memory.format_bytes(limit)}, "
            f"{memory.MAX_MEMORY_SHARE:.0%} of the available memory. Remedy: use fewer columns "
            "(SelectKBest, TruncatedSVD), fewer values of C, or n_jobs=1."
        )


def moments_of_splits(rows: Rows, splits: Splits) -> tuple[ClassMoments, list[TwinMoments]] | None:
    """Compute the moments of all rows and of each split's training rows, in one pass.

    Rows are grouped by the splits that train on them (for k folds: k groups). The moments of a
    split are the sum of those of its groups, so that nothing is subtracted. Return None if there
    are too many groups, if a split trains on a row twice, or for soft labels.
    """
    n, d = rows.X.shape
    K = len(rows.classes)
    if rows.soft or len(splits) > 62:
        return None
    # Bit i of a row's signature says whether split i trains on it. Small types are grouped faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(splits) <= 16 else np.int64)
    for i, (train, _) in enumerate(splits):
        in_train = np.zeros(n, dtype=bool)
        in_train[train] = True
        if np.count_nonzero(in_train) != len(train):
            return None  # a row occurs twice in a training set
        signature |= np.left_shift(in_train, i, dtype=signature.dtype)
    signatures, group = encode(signature, None)
    n_groups = len(signatures)
    if n_groups > 4 * len(splits) or n_groups * K * d * d > MAX_NUMBERS:
        return None
    group_and_class = group.astype(np.min_scalar_type(n_groups * K)) * K + rows.codes
    all_groups = ClassMoments.from_rows(
        rows.X, group_and_class, rows.weight, n_classes=n_groups * K
    )
    parts = [all_groups.take(np.arange(K) + i * K) for i in range(n_groups)]
    own = []
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports it
        for i in range(len(splits)):
            bits = zip(parts, signatures.tolist(), strict=True)
            train_parts = [part for part, signature_bits in bits if signature_bits >> i & 1]
            own.append(ClassMoments.sum([ClassMoments.zeros(K, d), *train_parts]))
        all_moments = ClassMoments.sum(parts)
    return all_moments, [TwinMoments(moments, moments) for moments in own]


def _default_alphas(
    settings: FitSettings, rows: Rows, moments: ClassMoments | None, fine: bool
) -> Array:
    """Return powers of ten times the mean scatter of a column within the classes.

    With a kernel, the scatter is that of the landmarks in feature space, per landmark. Kernel
    features differ in size by orders of magnitude, and the largest are far above the mean, so that
    kernel planes get more ridge.
    """
    powers = np.arange(-5, 2) if fine else np.arange(-4, 1)
    if moments is not None:
        twin = TwinMoments(moments, moments)
        own = fitting.apply_class_weight(settings, twin, rows.classes).own
        trace = np.trace(own.covariance, axis1=1, axis2=2)
        scatter = float(own.weight @ trace) / own.origin.shape[1]
        return (scatter or 1.0) * 10.0**powers
    if not settings.uses_kernel:
        scatter = _row_fit.scatter_of_rows(rows, fitting.row_weights(settings, rows, None))
        return (scatter / rows.X.shape[1] or 1.0) * 10.0**powers
    check_finite(rows.X, rows.names)
    # A copy, because splits draw from the same random state.
    phi = fitting.landmark_map(copy.deepcopy(settings), rows)
    assert phi is not None
    kernel_matrix = phi.kernel_values(phi.landmarks)
    total = float(np.sum(fitting.row_weights(settings, rows, None).own))
    spread = float(np.trace(kernel_matrix) / len(kernel_matrix) - kernel_matrix.mean())
    scatter = total * max(spread, 0.0) / len(kernel_matrix)
    return (scatter or 1.0) * 10.0 ** np.arange(-3, 3)
