"""What a search tries: the values on its axes, checked, and the splits that it scores them on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from fuzzytwin._params import check_choice, check_number
from fuzzytwin._rows import Rows
from fuzzytwin._utils.types import Array
from fuzzytwin.core.solvers import BY_MOMENTS, FORMER_NAMES, SOLVERS
from fuzzytwin.kernels import KERNELS
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin._settings import CHOICES, FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC

SMALL_DATA = 2000  # fewer rows than this get the finer grid
Splits = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Axes:
    """The values on the axes of a search, checked; None where the data decide."""

    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    memberships: list[Any]
    Cs: Any
    alphas: Any
    kernels: list[Any]
    gammas: list[Any] | None
    relevances: list[Any]

    @property
    def in_stages(self) -> bool:
        """Return whether curved planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, given: bool) -> Axes:
    """Check the axes of the grid; no membership is tried where degrees are given."""
    memberships = _listed(search, "memberships", check_membership, str, Callable, type(None))
    kinds, rules = (
        tuple(_listed(search, name, partial(check_choice, name, choices=known), str))
        for name, known in (("planes", CHOICES["planes"]), ("rules", CHOICES["rule"]))
    )
    Cs, alphas = _numbers(search, "Cs", above=0.0), _numbers(search, "alphas")
    known = (*KERNELS, "auto") if isinstance(search.kernels, str) else KERNELS
    check = partial(check_choice, "kernels", choices=known)
    kernels = _listed(search, "kernels", lambda one: callable(one) or check(one), str, Callable)
    kernels = ["linear", "rbf"] if kernels == ["auto"] else kernels
    gammas = _numbers(search, "gammas", above=0.0)
    axes = Axes(kinds, rules, [None] if given else memberships, Cs, alphas, kernels, gammas, [None])
    if search.relevances is None:
        return replace(axes, relevances=[None, "learned"] if axes.in_stages else [None])
    check = partial(check_choice, "relevances", choices=("learned",))
    relevances = _listed(search, "relevances", lambda one: one is None or check(one), str, Callable)
    if "learned" in relevances and "rbf" not in kernels:
        raise ValueError(
            f"relevances={search.relevances!r} works with the kernel 'rbf' only; add it to "
            f"kernels={search.kernels!r}, or use relevances=None."
        )
    return replace(axes, relevances=relevances)


def _numbers(search: Any, name: str, above: float | None = None) -> list[float] | None:
    if getattr(search, name) is None:
        return None
    return [float(x) for x in _listed(search, name, partial(check_number, name, above=above))]


def _listed(search: Any, name: str, check: Callable[[Any], Any], *single: Any) -> list[Any]:
    """List the values of an axis and check each; one of a `single` type stands for itself."""
    values = getattr(search, name)
    try:
        found = [values] if isinstance(values, single) else list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error
    if not found:
        raise ValueError(f"{name}={values!r} is empty; give at least one value.")
    for value in found:
        check(value)
    return found


def check_shared(search: Any, axes: Axes) -> tuple[dict[str, Any], FitSettings]:
    """Return the parameters that all points share, and what they and the axes ask of a fit."""
    solver = search.solver
    if isinstance(solver, str) and solver in SOLVERS and solver not in BY_MOMENTS:
        raise ValueError(
            f"solver={solver!r} has no search; use solver='auto' with fewer columns (SelectKBest, "
            f"TruncatedSVD), or GridSearchCV over FuzzyTwinSVC(solver={solver!r})."
        )
    given, known = search.get_params(deep=False), FuzzyTwinSVC().get_params(deep=False)
    shared = {name: value for name, value in given.items() if name in known} | {
        "planes": "fuzzy" if "fuzzy" in axes.kinds else "crisp",
        "solver": check_choice("solver", solver, ("auto", *BY_MOMENTS), FORMER_NAMES),
        "random_state": copy.deepcopy(search.random_state),
    }
    settings = FitSettings.of(FuzzyTwinSVC(**shared))
    membership = next((check_membership(m) for m in axes.memberships if m is not None), None)
    kernel = next((kernel for kernel in axes.kernels if kernel != "linear"), "linear")
    return shared, replace(settings, membership=membership, kernel=kernel)


def check_loo(axes: Axes, rows: Rows) -> None:
    """Refuse what a search by leave-one-out cannot do."""
    n_columns = rows.original.shape[1]
    if "fuzzy" in axes.kinds:
        raise ValueError(
            "cv='loo' does not work with planes='fuzzy', whose widths have no closed form without "
            "a row; use planes='crisp', or a number of folds as cv."
        )
    no_ridge = axes.alphas is not None and 0 in axes.alphas and "linear" in axes.kernels
    if no_ridge and len(rows) - 1 <= n_columns:
        raise ValueError(
            f"alphas={axes.alphas!r} holds 0, with which cv='loo' needs more rows than columns "
            f"({n_columns}); give alphas above 0, or a number of folds as cv."
        )


def draw_splits(cv: Any, rows: Rows, groups: Any, n_rounds: int) -> tuple[Splits, int]:
    """Draw the splits of `cv`, and count those of one round.

    There are `n_rounds` rounds of a number of folds, those after the first shuffled. With "loo",
    all rows are one split: their predictions are scored together.
    """
    codes, all_rows = rows.codes, np.arange(len(rows.codes))
    if isinstance(cv, str) and cv == "loo":
        counted = all_rows if rows.weight is None else np.flatnonzero(rows.weight)
        return [(all_rows, counted)], 1
    splitters = [check_cv(cv, codes, classifier=True)]
    if isinstance(splitters[0], StratifiedKFold) and not hasattr(cv, "split"):
        splitters += [
            StratifiedKFold(splitters[0].n_splits, shuffle=True, random_state=seed)
            for seed in range(1, n_rounds)
        ]
    stratified = type(splitters[0]) is StratifiedKFold
    # The indices of the labels give the same folds, faster.
    given = rows.X, codes if stratified else rows.y, groups
    splits = [split for splitter in splitters for split in splitter.split(*given)]
    if not splits:
        raise ValueError(f"cv={cv!r} gives no split; give at least one.")
    if not stratified:  # masks, lists, negative numbers
        splits = [(all_rows[train], all_rows[test]) for train, test in splits]
    return splits, len(splits) // len(splitters)
