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
from fuzzytwin.twin._grid import Grid, class_totals, hits_and_losses
from fuzzytwin.twin._make_grid import Search

BAND = 1.0  # largest gap to the best score, in its standard errors
SAME_LOSS = 0.5  # largest gap of equal Brier scores, in standard errors of their difference


def split_scores(grids: list[Grid]) -> Array:
    """Return the scores of all points of all grids, of shape (n_splits, n_points)."""
    return np.hstack([[split.scores.ravel() for split in grid.splits] for grid in grids])


def choose(search: Search, grids: list[Grid]) -> tuple[int, Array] | None:
    """Choose the best point by `selection`, or return None if no point has a score.

    Return its index, and the mean Brier scores of all points, NaN if they were not computed. Splits
    without any score are ignored.
    """
    scores = split_scores(grids)
    scored = np.asarray(~np.isnan(scores).all(axis=1))
    if not scored.any() or np.isnan(scores[scored]).any(axis=0).all():
        return None
    mean_brier = np.full(scores.shape[1], np.nan)
    if search.selection == "score":
        mean_score = scores[scored].mean(axis=0)
        best = np.flatnonzero(mean_score >= np.nanmax(mean_score) - 1e-12)
        return choose_point(grids, best, -mean_score), mean_brier
    inside = one_standard_error(scores[scored], search.n_folds)
    parts = zip(grids, _by_grid(grids, inside), strict=True)
    brier = np.hstack([_split_brier(search, grid, mask) for grid, mask in parts])[scored]
    candidates = np.flatnonzero(inside)
    mean_brier[candidates] = brier[:, candidates].mean(axis=0)
    close = candidates[close_to_least(brier[:, candidates], search.n_folds)]
    return choose_point(grids, close, mean_brier), mean_brier


def _split_brier(search: Search, grid: Grid, mask: Array) -> Array:
    """Compute the Brier scores (n_splits, n_points) at the points of a grid in the mask."""
    split_brier = []
    for split, (_, test) in zip(grid.splits, search.splits, strict=True):
        brier = split.brier.copy()
        for m, planes in enumerate(split.planes):
            if planes is not None and mask[m].any():
                tests = search.rows.take(test)
                _, losses = hits_and_losses(
                    grid, planes, tests.X, tests.codes, tests.weight, mask[m], hits=False
                )
                brier[m] = losses / class_totals(tests.codes, tests.weight, grid.n_classes).sum()
        split_brier.append(brier.ravel())
    return np.array(split_brier)


def _by_grid(grids: list[Grid], values: Array) -> list[Array]:
    """Split values of all points by grids, each in the shape of the grid's scores."""
    shapes = [grid.splits[0].scores.shape for grid in grids]
    ends = np.cumsum([np.prod(shape, dtype=np.intp) for shape in shapes])
    parts = zip(np.split(values, ends[:-1]), shapes, strict=True)
    return [part.reshape(shape) for part, shape in parts]


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
        if failures:
            raise ValueError(f"every fit of the search failed; the first one: {failures[0]}")
        hint = ""
        classes = search.rows.classes
        if isinstance(search.scoring, str) and len(classes) == 2 and classes[1] != 1:
            hint = f" (with the positive label, such as pos_label={classes[1:].tolist()[0]!r})"
        raise ValueError(
            f"scoring={search.scoring!r} failed or gave NaN at every point of the grid; see the "
            f"warning, and give a scorer{hint} that fits the labels, the splits and the "
            "weights: sklearn.metrics.make_scorer."
        )
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
    scores = split_scores(grids)[: search.n_folds]  # further rounds are used for the selection only
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
