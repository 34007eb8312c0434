"""One split of a search: its training moments, its grid of planes, its scores."""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fuzzytwin.core.blocks import row_blocks
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.estimators.labels import encode
from fuzzytwin.kernels import LandmarkMap, MappedRows
from fuzzytwin.search.grid import Grid, GridPlanes, TestRows, solve_grid, sum_brier
from fuzzytwin.search.scores import grid_scores
from fuzzytwin.validation import check_membership, check_size

Array = NDArray[Any]

# The parts of all splits together may hold this many numbers.
MOST_NUMBERS = 1 << 26
# Features of this many numbers are kept for all memberships of a split; more are computed anew.
MOST_FEATURES = 1 << 24

OwnMoments = tuple[ClassMoments, ClassMoments | None]


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows: X, labels, class numbers, weights (or None), given degrees (or None)."""

    X: Any
    y: Array
    codes: Array
    s: Array | None
    mu: Array | None

    def weight(self, index: Array) -> float:
        """Total weight of some of the rows."""
        return float(len(index) if self.s is None else self.s[index].sum())

    def take(self, index: Array) -> Rows:
        """Some of the rows."""
        s, mu = (None if part is None else part[index] for part in (self.s, self.mu))
        return Rows(self.X[index], self.y[index], self.codes[index], s, mu)


@dataclass(eq=False)
class SplitScores:
    """What one split says of every membership and point of the grid."""

    scores: Array
    planes: list[GridPlanes | None]  # for each membership; None where `brier` is filled
    brier: Array
    phi: LandmarkMap | None = None  # of the training rows; None where planes are linear
    failures: list[str] = field(default_factory=list)
    fit_time: float = 0.0
    score_time: float = 0.0


def own_moments(
    template: FuzzyTwinSVC, rows: Rows, trains: list[Array]
) -> tuple[ClassMoments, list[OwnMoments]] | None:
    """Moments of all rows and of each split's training rows, in one pass.

    Rows are parted by the splits that train on them (for k folds: k parts), and a split's
    moments are the sum of its parts: nothing is ever subtracted. None where there are too many
    parts, or where soft labels make other moments necessary.
    """
    n, K = len(rows.codes), len(template.classes_)
    if (rows.mu is not None and rows.mu.ndim == 2) or len(trains) > 62:
        return None
    # A narrow one, where that will do, is parted faster.
    signature: Array = np.zeros(n, dtype=np.uint16 if len(trains) <= 16 else np.int64)
    for i, train in enumerate(trains):
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if np.count_nonzero(inside) != len(train):
            return None  # a row stands twice in a training set
        signature |= inside.astype(signature.dtype) << np.asarray(i, signature.dtype)
    kinds, part = encode(signature, None)
    d = rows.X.shape[1]
    if len(kinds) > 4 * len(trains) or len(kinds) * K * d * d > MOST_NUMBERS:
        return None
    slots = part.astype(np.min_scalar_type(len(kinds) * K)) * K + rows.codes

    def sums(absolute: bool) -> list[ClassMoments]:
        every = ClassMoments.from_rows(
            rows.X, slots, rows.s, n_classes=len(kinds) * K, absolute=absolute
        )
        parts = [every.take(np.arange(K) + i * K) for i in range(len(kinds))]
        chosen = [parts] + [
            [part for part, kind in zip(parts, kinds.tolist(), strict=True) if kind >> i & 1]
            for i in range(len(trains))
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # check_moments will tell
            return [ClassMoments.sum([ClassMoments.zeros(K, d), *some]) for some in chosen]

    whole, *own = sums(False)
    absolute = sums(True)[1:] if template.planes == "fuzzy" else [None] * len(own)
    return whole, list(zip(own, absolute, strict=True))


# Below this many columns, products are too small for BLAS to gain from threads.
FEW_COLUMNS = 512


def score_split(*arguments: Any) -> SplitScores:
    """`_score_split`, with as many threads as its columns are worth (splits run side by side)."""
    rows: Rows = arguments[3]
    few = rows.X.shape[1] < FEW_COLUMNS
    with _libraries().limit(limits=1 if few else None, user_api="blas"):
        return _score_split(*arguments)


@functools.cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries: looking for them takes longer than a small split."""
    return ThreadpoolController()


def _score_split(
    template: FuzzyTwinSVC,
    ways: list[Any],
    grid: Grid,
    rows: Rows,
    train: Array,
    test: Array,
    own: OwnMoments | None,
    scoring: Any,
    scorer: Any,
) -> SplitScores:
    """Scores of every membership and point on one split."""
    shape = (len(ways), *grid.shape)
    result = SplitScores(np.empty(shape), [], np.full(shape, np.nan))
    if rows.weight(test) == 0:
        raise ValueError(
            "a split has no test sample with weight (sample_weight above 0); use fewer splits, or "
            "give some of them weight."
        )
    start = time.perf_counter()
    needless = own is not None and ways == [None] and rows.mu is None
    trained = None if needless else rows.take(train)
    seen, seen_train = rows.X, None
    if trained is not None and template.kernel != "linear":
        result.phi = _landmarks(template, trained)
        seen = _features(result.phi, rows.X)
        lazy = isinstance(seen, MappedRows)
        seen_train = MappedRows(trained.X, result.phi) if lazy else seen[train]
    result.fit_time = time.perf_counter() - start
    for m, way in enumerate(ways):
        start = time.perf_counter()
        found = _grid_planes(template, way, grid, trained, own, seen_train)
        result.fit_time += time.perf_counter() - start
        start = time.perf_counter()
        result.planes.append(found)
        if found is None:
            _score_one_by_one(
                result, template, way, m, grid, rows.take(train), rows.take(test), scorer
            )
        else:
            tests = TestRows(rows.X, seen, rows.codes, rows.s, test)
            scores = None
            if isinstance(scoring, str):
                scores = grid_scores(scoring, grid, found, tests, template.classes_)
            if scores is not None:
                result.scores[m] = scores
            else:
                tested = rows.take(test)
                for index in np.ndindex(grid.shape):
                    model = _model_at(
                        template, way, grid, index, found, rows.X.shape[1], result.phi
                    )
                    result.scores[m][index] = _score(scorer, model, tested)
        result.score_time += time.perf_counter() - start
    return result


def split_brier(grid: Grid, rows: Rows, test: Array, done: SplitScores, wanted: Array) -> Array:
    """Mean Brier score of one split's test rows, at the wanted memberships and points."""
    brier = done.brier.copy()
    seen = rows.X if done.phi is None else MappedRows(rows.X, done.phi)
    tests = TestRows(rows.X, seen, rows.codes, rows.s, test)
    for m, found in enumerate(done.planes):
        if found is not None and wanted[m].any():
            sums = sum_brier(grid, found, tests, wanted[m])
            brier[m] = sums / rows.weight(test)
    return brier


def _landmarks(template: FuzzyTwinSVC, trained: Rows) -> LandmarkMap:
    """The landmarks that a fit on these rows would take."""
    fresh = FuzzyTwinSVC(**template.get_params(deep=False))
    phi: LandmarkMap = fresh._features(trained.X, trained.codes, trained.s).phi
    return phi


def _features(phi: LandmarkMap, X: Any) -> Any:
    """Features of rows, computed once for all memberships, unless they are too many."""
    mapped = MappedRows(X, phi)
    if mapped.shape[0] * mapped.shape[1] > MOST_FEATURES:
        return mapped
    return np.concatenate([block for _, block in row_blocks(mapped)])


def _grid_planes(
    template: FuzzyTwinSVC,
    way: Any,
    grid: Grid,
    trained: Rows | None,
    own: OwnMoments | None,
    seen: Any,
) -> GridPlanes | None:
    """Planes of all points; None where points must be fitted one by one.

    That is where the training rows lack a class (their model has fewer planes), where a plane
    has no direction, and where columns are too small for an alpha of 0.
    """
    if trained is None:
        assert own is not None
        parts: tuple[ClassMoments | None, ...] = (own[0], own[0], own[1], own[1])
    else:
        t = trained
        parts = template._moments(
            t.X, t.y, t.codes, t.s, t.mu, check_membership(way), own=own, seen=seen
        )[0].parts()  # fmt: skip
    first = parts[0]
    assert first is not None
    if not (first.weight > 0).all():
        return None
    if not grid.alphas.all():
        try:
            check_size(first)
        except ValueError:
            return None
    factor = template._class_factors(first)
    scaled = [None if part is None else part.scaled(factor) for part in parts]
    curved = template.kernel != "linear"
    found = solve_grid(grid, *scaled, one_unit=curved)  # type: ignore[arg-type]
    return found if found.norms.all() else None


def _model_at(
    template: FuzzyTwinSVC,
    way: Any,
    grid: Grid,
    index: tuple[int, ...],
    found: GridPlanes | None = None,
    n_features: int = 0,
    phi: LandmarkMap | None = None,
) -> FuzzyTwinSVC:
    """The model of one point, with its planes where they are known."""
    kind, alpha, rule = index[:3]
    model = FuzzyTwinSVC(**template.get_params(deep=False)).set_params(
        planes=grid.kinds[kind], alpha=float(grid.alphas[alpha]), rule=grid.rules[rule],
        C=grid.penalties(index[3:]), membership=way,
    )  # fmt: skip
    if found is not None:
        at = found.at(grid, index)
        model.classes_, model.n_features_in_ = template.classes_, n_features
        if phi is not None:
            model.landmark_map_ = phi
        model.coef_, model.intercept_ = at.coef, at.intercept
        if at.width_coef is not None:
            model.width_coef_, model.width_intercept_ = at.width_coef, at.width_intercept
    return model


def _score(scorer: Any, model: FuzzyTwinSVC, tested: Rows) -> float:
    """A score, weighed where weights are given, or NaN with a warning, as in scikit-learn."""
    weighed = {} if tested.s is None else {"sample_weight": tested.s}
    try:
        score = scorer(model, tested.X, tested.y, **weighed)
    except Exception as error:
        warnings.warn(
            f"Scoring failed; the score of this point on this split is NaN: {error}",
            UserWarning,
            stacklevel=2,
        )
        return float("nan")
    try:
        return float(score)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scoring must give a number, not {score!r}.") from error


def _score_one_by_one(
    result: SplitScores,
    template: FuzzyTwinSVC,
    way: Any,
    m: int,
    grid: Grid,
    trained: Rows,
    tested: Rows,
    scorer: Any,
) -> None:
    """Fit and score each point as a user would."""
    truth = tested.codes[:, None] == np.arange(len(template.classes_))
    for index in np.ndindex(grid.shape):
        model = _model_at(template, way, grid, index)
        try:
            model.fit(trained.X, trained.y, trained.s, trained.mu)
        except ValueError as error:
            result.scores[m][index] = np.nan
            result.failures.append(str(error))
            continue
        result.scores[m][index] = _score(scorer, model, tested)
        u = np.zeros(truth.shape)
        known = np.searchsorted(template.classes_, model.classes_)
        u[:, known] = model.predict_membership(tested.X)
        loss = ((u - truth) ** 2).sum(axis=1)
        result.brier[m][index] = np.average(loss, weights=tested.s)
