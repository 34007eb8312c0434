"""Select a point by the one-standard-error rule and the Brier score, and build ``cv_results_``.

The best of thousands of cross-validated scores is mostly the luckiest. Therefore the selected point
must score within one standard error of the best, and have a small Brier score. If Brier scores
differ by less than half a standard error of their difference, the simpler point is selected: planes
get different C only if that helps. The rule is the same for linear and for kernel planes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array
from fuzzytwin.twin._grid import Grid
from fuzzytwin.twin._make_grid import Search

BAND = 1.0  # largest gap to the best score, in its standard errors
SAME_LOSS = 0.5  # largest gap of equal Brier scores, in standard errors of their difference


def split_scores(grids: list[Grid]) -> tuple[Array, Array]:
    """Return scores and Brier scores (n_splits, n_points) of all points of all grids."""
    scores = np.hstack([[split.scores.ravel() for split in grid.splits] for grid in grids])
    brier = np.hstack([[split.brier.ravel() for split in grid.splits] for grid in grids])
    return scores, brier


def choose(search: Search, grids: list[Grid]) -> tuple[int, Array] | None:
    """Choose the best point by `selection`, or return None if no point has a score.

    Return its index and the mean Brier scores of all points. Splits without any score are ignored.
    """
    scores, brier = split_scores(grids)
    scored = np.asarray(~np.isnan(scores).all(axis=1))
    if not scored.any() or np.isnan(scores[scored]).any(axis=0).all():
        return None
    mean_brier = brier[scored].mean(axis=0)
    if search.selection == "score":
        mean_score = scores[scored].mean(axis=0)
        best = np.flatnonzero(mean_score >= np.nanmax(mean_score) - 1e-12)
        return choose_point(grids, best, -mean_score), mean_brier
    inside = one_standard_error(scores[scored], search.n_folds)
    candidates = np.flatnonzero(inside)
    close = candidates[close_to_least(brier[scored][:, candidates], search.n_folds)]
    return choose_point(grids, close, mean_brier), mean_brier


def _rounding(value: float) -> float:
    return 1e-12 * max(1.0, abs(value))


def one_standard_error(scores: Array, n_folds: int) -> Array:
    """Find the points whose mean score lies within a standard error of the best.

    `scores` are those of every split (several rounds of `n_folds` folds each) and point. Rounds
    reuse the same rows, so the standard error is that of one round.
    """
    mean = scores.mean(axis=0)
    best = int(np.nanargmax(mean))
    width = BAND * _error(scores[:, best], n_folds)
    return np.asarray(mean >= mean[best] - width - _rounding(mean[best]))


def close_to_least(losses: Array, n_folds: int) -> Array:
    """Find the points whose mean loss is close to the smallest, by paired differences."""
    mean = losses.mean(axis=0)
    least = int(mean.argmin())
    gap = losses - losses[:, [least]]
    rounding = 1e-12 * abs(mean[least])
    return gap.mean(axis=0) <= SAME_LOSS * _error(gap, n_folds) + rounding


def choose_point(grids: list[Grid], points: Array, loss: Array) -> int:
    """Choose the simplest point: one C for both planes, then the smallest loss.

    Exact ties go to more ridge, C nearer to 1, no membership, then the membership listed first.
    """
    params = [point for grid in grids for point in grid.points()]
    memberships = [membership for grid in grids for membership in grid.memberships]

    def sort_key(point: int) -> tuple[Any, ...]:
        membership = params[point]["membership"]
        position = 0
        if membership is not None:
            position = next(i for i, other in enumerate(memberships) if other is membership)
        log_C = np.log(np.atleast_1d(params[point]["C"]))
        return (
            round(float(np.ptp(log_C)), 9),
            round(float(loss[point]), 12),
            -params[point]["alpha"],
            round(float(np.abs(log_C).sum()), 9),
            membership is not None,
            position,
        )

    return int(min(points, key=sort_key))


def _error(values: Array, n_folds: int) -> Array:
    """Compute the standard error of the mean over the folds of one round."""
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(n_folds))


def choose_and_tabulate(search: Search, grids: list[Grid]) -> tuple[dict[str, Any], int]:
    """Choose the best point, and return ``cv_results_`` and its index there."""
    choice = choose(search, grids)
    splits = [split for grid in grids for split in grid.splits]
    failures = [text for split in splits for text in split.failures]
    if choice is None:
        raise ValueError(f"every fit of the search failed; the first one: {failures[0]}")
    index, mean_brier = choice
    if failures:
        warn_user(
            f"{len(failures)} fits failed; their scores are NaN. The first one: {failures[0]}",
            FitFailedWarning,
        )
    params = [point for grid in grids for point in grid.points()]
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        results[f"param_{name}"] = _column([point[name] for point in params])
    for kind in ("fit_time", "score_time"):
        # All points of a split are computed together: divide the time among them.
        times = np.array([getattr(split, kind) * len(grids) / len(params) for split in splits])
        results[f"mean_{kind}"] = np.full(len(params), times.mean())
        results[f"std_{kind}"] = np.full(len(params), times.std())
    scores = split_scores(grids)[0][: search.n_folds]  # further rounds only help to choose
    mean = scores.mean(axis=0)
    results["mean_test_score"] = mean
    for i, split in enumerate(scores):
        results[f"split{i}_test_score"] = split
    results["std_test_score"] = scores.std(axis=0)
    ranked = np.nan_to_num(mean, nan=np.nanmin(mean, initial=0.0) - 1)  # NaN ranks last
    results["rank_test_score"] = rankdata(-ranked, method="min").astype(np.int32)
    results["mean_test_brier"] = mean_brier
    return results, index


def _column(values: list[Any]) -> Any:
    """Make a column of objects as `GridSearchCV` does."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return np.ma.masked_array(column, mask=False)


def pack_results(results: dict[str, Any]) -> dict[str, Any]:
    """Store columns of parameters as distinct values and indices, and omit the list of dicts."""
    packed = {key: value for key, value in results.items() if key != "params"}
    for key in packed:
        if key.startswith("param_"):
            column = list(results[key].data)
            distinct = {_identity(value): value for value in column}
            position = {identity: i for i, identity in enumerate(distinct)}
            index = np.array([position[_identity(value)] for value in column], dtype=np.int32)
            packed[key] = (list(distinct.values()), index)
    return packed


def unpack_results(packed: dict[str, Any]) -> dict[str, Any]:
    """Undo `pack_results`."""
    results: dict[str, Any] = {"params": []}
    for key, value in packed.items():
        if key.startswith("param_"):
            values, index = value
            value = _column([values[i] for i in index])
        results[key] = value
    names = [key for key in results if key.startswith("param_")]
    columns = zip(*(results[name].data for name in names), strict=True)
    results["params"] = [
        {name.removeprefix("param_"): value for name, value in zip(names, point, strict=True)}
        for point in columns
    ]
    return results


def _identity(value: Any) -> Any:
    """Return a key that is equal for equal numbers, strings and tuples, or for the same object."""
    plain = isinstance(value, (str, int, float, tuple))
    return (type(value), value) if plain else id(value)
