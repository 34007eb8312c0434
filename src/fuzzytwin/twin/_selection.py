"""Choose a point by differences larger than sampling noise, and list what was scored.

The best of thousands of cross-validated scores is mostly the luckiest. So a point must do two
things: score within one standard error of the best, and have a small Brier score. And where Brier
scores differ by less than half a standard error of their difference, the simpler point is taken:
a second C is kept only if it helps. The rule is the same for linear and for curved planes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from fuzzytwin._utils.types import Array
from fuzzytwin.twin._cv_loo import LeftOutPoint, brier_gap_errors, n_units, standard_error
from fuzzytwin.twin._cv_split import Search
from fuzzytwin.twin._grid import Grid, ScoringRows

BAND = 1.0  # width of the band, in standard errors of the best score
SAME_LOSS = 0.5  # Brier scores nearer than this, in standard errors of their difference, are equal


def split_scores(grids: list[Grid]) -> Array:
    """Put the scores of all grids side by side, of shape (n_splits, n_points)."""
    return np.hstack([[split.scores.ravel() for split in grid.splits] for grid in grids])


@dataclass(frozen=True, eq=False)
class Choice:
    """The place of the chosen point, and what was computed to choose it: NaN where it was not."""

    index: int
    mean_brier: Array
    errors: Array  # standard errors of pooled leave-one-out scores


def choose(search: Search, grids: list[Grid]) -> Choice | None:
    """Choose the best point by `selection`.

    None where no point has a score. A split without any cannot compare points and is left out.
    """
    scores = split_scores(grids)
    scored = np.asarray(~np.isnan(scores).all(axis=1))
    if not scored.any() or np.isnan(scores[scored]).any(axis=0).all():
        return None
    mean_brier, errors = np.full((2, scores.shape[1]), np.nan)
    if search.selection == "score":
        mean_score = scores[scored].mean(axis=0)
        best = np.flatnonzero(mean_score >= np.nanmax(mean_score) - 1e-12)
        return Choice(choose_point(grids, best, -mean_score), mean_brier, errors)
    if search.by_loo:
        near = _near_least_left_out(search, grids, scores[0], mean_brier, errors)
    else:
        near = _near_least_of_folds(search, grids, scores, scored, mean_brier)
    return Choice(choose_point(grids, near, mean_brier), mean_brier, errors)


def _near_least_of_folds(
    search: Search, grids: list[Grid], scores: Array, scored: Array, mean_brier: Array
) -> Array:
    """Find the points near to the best score and the least Brier score, by those of folds."""
    inside = one_standard_error(scores[scored], search.n_folds)
    rows = search.rows
    tests = [
        ScoringRows(rows.X, rows.X, rows.codes, rows.weight, test) for _, test in search.splits
    ]
    parts = zip(grids, _by_grid(grids, inside), strict=True)
    brier = np.hstack([grid.brier(tests, wanted) for grid, wanted in parts])[scored]
    candidates = np.flatnonzero(inside)
    mean_brier[candidates] = brier[:, candidates].mean(axis=0)
    return np.asarray(candidates[close_to_least(brier[:, candidates], search.n_folds)])


def _near_least_left_out(
    search: Search, grids: list[Grid], scores: Array, mean_brier: Array, errors: Array
) -> Array:
    """Find them by pooled scores, whose errors follow from what each row, or group, contributes."""
    brier = np.hstack([grid.splits[0].brier.ravel() for grid in grids])
    best = _first_within_rounding(-scores)
    errors[best] = standard_error(search, LeftOutPoint.of(search, grids, best))
    inside = scores >= scores[best] - BAND * errors[best] - _rounding(scores[best])
    candidates = np.flatnonzero(inside)
    mean_brier[candidates] = brier[candidates]
    if len(candidates) == 1:
        return candidates
    least = _first_within_rounding(mean_brier)
    reference = LeftOutPoint.of(search, grids, least)
    gap_errors = brier_gap_errors(search, grids, _by_grid(grids, inside), reference)
    gap = brier[candidates] - brier[least]
    return np.asarray(candidates[gap <= SAME_LOSS * gap_errors + 1e-12 * abs(brier[least])])


def _by_grid(grids: list[Grid], values: Array) -> list[Array]:
    """Split values of all points by grids, each in the shape of the grid's scores."""
    shapes = [grid.splits[0].scores.shape for grid in grids]
    ends = np.cumsum([np.prod(shape, dtype=np.intp) for shape in shapes])
    parts = zip(np.split(values, ends[:-1]), shapes, strict=True)
    return [part.reshape(shape) for part, shape in parts]


def _first_within_rounding(values: Array) -> int:
    """Find the first of the least values; they differ by rounding in another order of the rows."""
    least = float(np.nanmin(values))
    return int(np.flatnonzero(values <= least + _rounding(least))[0])


def _rounding(value: float) -> float:
    return 1e-12 * max(1.0, abs(value))


def one_standard_error(scores: Array, n_folds: int) -> Array:
    """Find the points whose mean score lies within a standard error of the best.

    `scores` are those of every split (several rounds of `n_folds` folds each) and point. Rounds
    re-use the same samples, so the error is that of one round.
    """
    mean = scores.mean(axis=0)
    best = int(np.nanargmax(mean))
    width = BAND * _error(scores[:, best], n_folds)
    return np.asarray(mean >= mean[best] - width - _rounding(mean[best]))


def close_to_least(losses: Array, n_folds: int) -> Array:
    """Find the points whose mean loss hardly differs from the least, by paired differences."""
    mean = losses.mean(axis=0)
    least = int(mean.argmin())
    gap = losses - losses[:, [least]]
    rounding = 1e-12 * abs(mean[least])
    return gap.mean(axis=0) <= SAME_LOSS * _error(gap, n_folds) + rounding


def choose_point(grids: list[Grid], points: Array, loss: Array) -> int:
    """Choose the simplest point: one C for both planes, then least loss.

    Exact ties go to more ridge, C nearer to 1, no membership, then one named earlier.
    """
    params = [point for grid in grids for point in grid.points()]
    memberships = [membership for grid in grids for membership in grid.memberships]

    def sort_key(point: int) -> tuple[Any, ...]:
        chosen = params[point]
        membership = chosen["membership"]
        place = 0
        if membership is not None:
            place = next(i for i, other in enumerate(memberships) if other is membership)
        logs = np.log(np.atleast_1d(chosen["C"]))
        apart, far = round(float(np.ptp(logs)), 9), round(float(np.abs(logs).sum()), 9)
        least = round(float(loss[point]), 12)
        return apart, least, -chosen["alpha"], far, membership is not None, place

    return int(min(points, key=sort_key))


def _error(values: Array, n_folds: int) -> Array:
    """Compute the standard error of the mean of one round."""
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(n_folds))


def best_point(search: Search, grids: list[Grid]) -> tuple[dict[str, Any], int]:
    """Choose the best point: ``cv_results_`` and its place there."""
    choice = choose(search, grids)
    done = [split for grid in grids for split in grid.splits]
    failures = [text for split in done for text in split.failures]
    if choice is None:
        if failures:
            raise ValueError(f"every fit of the search failed; the first one: {failures[0]}")
        hint, classes = "", search.rows.classes
        if isinstance(search.scoring, str) and len(classes) == 2 and classes[1] != 1:
            hint = f" (with the positive label, such as pos_label={classes[1:].tolist()[0]!r})"
        raise ValueError(
            f"scoring={search.scoring!r} failed or gave NaN at every point of the grid; see the "
            f"warning, and give a scorer{hint} that fits the labels, the splits and the "
            "weights: sklearn.metrics.make_scorer."
        )
    if failures:
        warnings.warn(
            f"{len(failures)} fits failed; their scores are NaN. The first one: {failures[0]}",
            FitFailedWarning,
            stacklevel=3,
        )
    params = [point for grid in grids for point in grid.points()]
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        results[f"param_{name}"] = _column([point[name] for point in params])
    for kind in ("fit_time", "score_time"):
        # A split is worked on as a whole: each point is given its share.
        times = np.array([getattr(split, kind) * len(grids) / len(params) for split in done])
        results[f"mean_{kind}"] = np.full(len(params), times.mean())
        results[f"std_{kind}"] = np.full(len(params), times.std())
    scores = split_scores(grids)[: search.n_folds]  # further rounds only help to choose
    mean = scores.mean(axis=0)
    results["mean_test_score"] = mean
    if search.by_loo:
        results["std_test_score"] = _pooled_deviations(search, grids, choice)
    else:
        for i, split in enumerate(scores):
            results[f"split{i}_test_score"] = split
        results["std_test_score"] = scores.std(axis=0)
    last = np.nan_to_num(mean, nan=np.nanmin(mean, initial=0.0) - 1)
    results["rank_test_score"] = rankdata(-last, method="min").astype(np.int32)
    results["mean_test_brier"] = choice.mean_brier
    return results, choice.index


def _pooled_deviations(search: Search, grids: list[Grid], choice: Choice) -> Array:
    """Compute standard deviations of what the units contribute; NaN at most points.

    They are standard errors times the root of the number of units, as those of folds would be:
    of the chosen point and, if the band was asked for, of the best score.
    """
    errors = choice.errors.copy()
    if np.isnan(errors[choice.index]):
        errors[choice.index] = standard_error(search, LeftOutPoint.of(search, grids, choice.index))
    return np.asarray(errors * np.sqrt(n_units(search)))


def _column(values: list[Any]) -> Any:
    """Make a column of objects as `GridSearchCV` does."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return np.ma.masked_array(column, mask=False)


def pack_results(results: dict[str, Any]) -> dict[str, Any]:
    """Store columns of parameters as distinct values and places among them; no list of dicts."""
    packed = {key: value for key, value in results.items() if key != "params"}
    for key in packed:
        if key.startswith("param_"):
            column = list(results[key].data)
            distinct = {_identity(value): value for value in column}
            place = {key: i for i, key in enumerate(distinct)}
            places = np.array([place[_identity(value)] for value in column], dtype=np.int32)
            packed[key] = (list(distinct.values()), places)
    return packed


def unpack_results(packed: dict[str, Any]) -> dict[str, Any]:
    """Undo `pack_results`."""
    results: dict[str, Any] = {"params": []}
    for key, value in packed.items():
        if key.startswith("param_"):
            values, places = value
            value = _column([values[place] for place in places])
        results[key] = value
    names = [key for key in results if key.startswith("param_")]
    columns = zip(*(results[name].data for name in names), strict=True)
    results["params"] = [
        {name.removeprefix("param_"): value for name, value in zip(names, point, strict=True)}
        for point in columns
    ]
    return results


def _identity(value: Any) -> Any:
    """Return a key: equal for equal numbers, texts and tuples of them, and for the same object."""
    plain = isinstance(value, (str, int, float, tuple))
    return (type(value), value) if plain else id(value)
