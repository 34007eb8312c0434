"""Check the parameter grid of a search, and draw its cross-validation splits."""

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

SMALL_DATA = 2000  # tables with fewer rows get the finer grid
Splits = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Axes:
    """Validated values on the axes of a search; None if they are computed from the data."""

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
        """Return whether kernel planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, has_degrees: bool) -> Axes:
    """Check the axes of the grid; with `has_degrees`, no membership is tried."""
    memberships = _listed(search, "memberships", check_membership, str, Callable, type(None))
    check_planes = partial(check_choice, "planes", choices=CHOICES["planes"])
    kinds = tuple(_listed(search, "planes", check_planes, str))
    check_rule = partial(check_choice, "rules", choices=CHOICES["rule"])
    rules = tuple(_listed(search, "rules", check_rule, str))
    Cs = _numbers(search, "Cs", above=0.0)
    alphas = _numbers(search, "alphas")
    kernel_names = (*KERNELS, "auto") if isinstance(search.kernels, str) else KERNELS
    check = partial(check_choice, "kernels", choices=kernel_names)
    kernels = _listed(
        search, "kernels", lambda value: callable(value) or check(value), str, Callable
    )
    if kernels == ["auto"]:
        kernels = ["linear", "rbf"]
    gammas = _numbers(search, "gammas", above=0.0)
    if has_degrees:
        memberships = [None]
    axes = Axes(kinds, rules, memberships, Cs, alphas, kernels, gammas, [None])
    if search.relevances is None:
        return replace(axes, relevances=[None, "learned"] if axes.in_stages else [None])
    check = partial(check_choice, "relevances", choices=("learned",))
    relevances = _listed(
        search, "relevances", lambda value: value is None or check(value), str, Callable
    )
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
    """List the values of an axis and check each; wrap a value of a `single` type in a list."""
    values = getattr(search, name)
    try:
        listed = [values] if isinstance(values, single) else list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error
    if not listed:
        raise ValueError(f"{name}={values!r} is empty; give at least one value.")
    for value in listed:
        check(value)
    return listed


def check_shared(search: Any, axes: Axes) -> tuple[dict[str, Any], FitSettings]:
    """Return the parameters that all points share, and the fit settings that cover all axes."""
    solver = search.solver
    if isinstance(solver, str) and solver in SOLVERS and solver not in BY_MOMENTS:
        raise ValueError(
            f"solver={solver!r} has no search; use solver='auto' with fewer columns (SelectKBest, "
            f"TruncatedSVD), or GridSearchCV over FuzzyTwinSVC(solver={solver!r})."
        )
    names = FuzzyTwinSVC().get_params(deep=False)
    params = search.get_params(deep=False)
    shared = {name: value for name, value in params.items() if name in names} | {
        "planes": "fuzzy" if "fuzzy" in axes.kinds else "crisp",
        "solver": check_choice("solver", solver, ("auto", *BY_MOMENTS), FORMER_NAMES),
        "random_state": copy.deepcopy(search.random_state),
    }
    settings = FitSettings.of(FuzzyTwinSVC(**shared))
    membership = next((check_membership(m) for m in axes.memberships if m is not None), None)
    kernel = next((kernel for kernel in axes.kernels if kernel != "linear"), "linear")
    return shared, replace(settings, membership=membership, kernel=kernel)


def check_loo(axes: Axes, rows: Rows) -> None:
    """Raise an error for grids that leave-one-out does not support."""
    n_columns = rows.original.shape[1]
    if "fuzzy" in axes.kinds:
        raise ValueError(
            "cv='loo' does not work with planes='fuzzy', whose widths have no closed-form "
            "leave-one-out; use planes='crisp', or a number of folds as cv."
        )
    no_ridge = axes.alphas is not None and 0 in axes.alphas and "linear" in axes.kernels
    if no_ridge and len(rows) - 1 <= n_columns:
        raise ValueError(
            f"alphas={axes.alphas!r} contains 0, for which cv='loo' needs more rows than columns "
            f"({n_columns}); give alphas above 0, or a number of folds as cv."
        )


def draw_splits(cv: Any, rows: Rows, groups: Any, n_rounds: int) -> tuple[Splits, int]:
    """Draw the splits of `cv`, and count those of one round.

    An int is repeated for `n_rounds` rounds, with shuffled folds after the first. With "loo", all
    rows form one split, because their predictions are scored together.
    """
    codes = rows.codes
    all_rows = np.arange(len(codes))
    if isinstance(cv, str) and cv == "loo":
        test_rows = all_rows if rows.weight is None else np.flatnonzero(rows.weight)
        return [(all_rows, test_rows)], 1
    splitters = [check_cv(cv, codes, classifier=True)]
    if isinstance(splitters[0], StratifiedKFold) and not hasattr(cv, "split"):
        splitters += [
            StratifiedKFold(splitters[0].n_splits, shuffle=True, random_state=seed)
            for seed in range(1, n_rounds)
        ]
    stratified = type(splitters[0]) is StratifiedKFold
    labels = codes if stratified else rows.y  # codes give the same folds, faster
    splits = [split for splitter in splitters for split in splitter.split(rows.X, labels, groups)]
    if not splits:
        raise ValueError(f"cv={cv!r} gives no split; give at least one.")
    if not stratified:  # masks, lists, negative numbers
        splits = [(all_rows[train], all_rows[test]) for train, test in splits]
    return splits, len(splits) // len(splitters)
