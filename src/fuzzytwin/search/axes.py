"""What a search tries: the values on its axes, checked, and the splits that it scores them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedKFold, check_cv

from fuzzytwin._utils.types import Array
from fuzzytwin.fit.kernels import KERNELS, has_gamma
from fuzzytwin.fit.rows import Rows
from fuzzytwin.fit.settings import CHOICES, check_choice, check_membership, check_number

SMALL_DATA = 2000  # fewer rows than this get the finer grid
# Parts of the rows whose leave-one-out scores take the place of those of folds.
LOO_FOLDS = 10
LOO_SCORES = ("accuracy", "balanced_accuracy")

Splits = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Axes:
    """The values on the axes of a search, checked; None where the data decide."""

    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    memberships: list[Any]
    Cs: Array | None
    alphas: Array | None
    kernels: list[Any]
    gammas: list[Any]  # of each kernel, as `FuzzyTwinSVC` takes them
    relevances: list[Any]

    @property
    def in_stages(self) -> bool:
        """Return whether curved planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, given: bool) -> Axes:
    """Check the axes of the grid; no membership is tried where degrees are given."""

    def choices(name: str, known: tuple[str, ...], *, others: Any = lambda value: False) -> Any:
        check = partial(check_choice, name, choices=known)
        return _listed(search, name, lambda value: others(value) or check(value))

    memberships = _listed(search, "memberships", check_membership)
    kinds, rules = choices("planes", CHOICES["planes"]), choices("rules", CHOICES["rule"])
    Cs, alphas = _numbers(search, "Cs", above=0.0), _numbers(search, "alphas")
    single = isinstance(search.kernels, str)
    known = (*KERNELS, "auto") if single else KERNELS
    kernels = choices("kernels", known, others=callable)
    kernels = ["linear", "rbf"] if single and kernels == ["auto"] else kernels
    gammas = _numbers(search, "gammas", above=0.0)
    axes = Axes(
        tuple(kinds), tuple(rules), [None] if given else memberships,
        None if Cs is None else np.array(Cs), None if alphas is None else np.array(alphas),
        kernels, [gammas if has_gamma(kernel) else ["scale"] for kernel in kernels], [None],
    )  # fmt: skip
    if search.relevances is None:
        return replace(axes, relevances=[None, "learned"] if axes.in_stages else [None])
    relevances = choices("relevances", ("learned",), others=lambda value: value is None)
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


def _listed(search: Any, name: str, check: Callable[[Any], Any]) -> list[Any]:
    """List the values of an axis and check each; a single one stands for itself."""
    values = getattr(search, name)
    try:
        single = values is None or isinstance(values, str) or callable(values)
        found = [values] if single else list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error
    if not found:
        raise ValueError(f"{name}={values!r} is empty; give at least one value.")
    for value in found:
        check(value)
    return found


def check_loo(scoring: Any, kinds: tuple[str, ...]) -> None:
    """Refuse what a search by leave-one-out cannot do."""
    if scoring not in LOO_SCORES:
        raise ValueError(
            f"cv='loo' does not work with scoring={scoring!r}; use None, 'balanced_accuracy', or a "
            "number of folds as cv."
        )
    if "fuzzy" in kinds:
        raise ValueError(
            "cv='loo' does not work with planes='fuzzy', whose widths have no closed form without "
            "a row; use planes='crisp', or a number of folds as cv."
        )


def draw_splits(cv: Any, rows: Rows, groups: Any, n_rounds: int) -> list[Splits]:
    """Draw the splits of `cv`; for a number of folds, in `n_rounds` rounds, the others shuffled.

    With "loo", a split trains on all rows and tests a part of them, of whole groups if given.
    """
    codes, all_rows = rows.codes, np.arange(len(rows.codes))
    if isinstance(cv, str) and cv == "loo":
        if groups is not None:
            folds = GroupKFold(min(LOO_FOLDS, len(np.unique(groups))))
            return [[(all_rows, test) for _, test in folds.split(codes, codes, groups)]]
        part = np.empty(len(codes), dtype=np.intp)
        part[np.argsort(codes, kind="stable")] = all_rows % LOO_FOLDS
        return [[(all_rows, np.flatnonzero(part == g)) for g in range(min(LOO_FOLDS, len(codes)))]]
    splitters = [check_cv(cv, codes, classifier=True)]
    if isinstance(splitters[0], StratifiedKFold) and not hasattr(cv, "split"):
        splitters += [
            StratifiedKFold(splitters[0].n_splits, shuffle=True, random_state=seed)
            for seed in range(1, n_rounds)
        ]
    stratified = type(splitters[0]) is StratifiedKFold
    # The indices of the labels give the same folds, faster.
    labels = codes if stratified else rows.y

    def index(part: Any) -> Array:
        return part if stratified else all_rows[part]  # masks, lists, negative numbers

    rounds = [
        [(index(train), index(test)) for train, test in splitter.split(rows.X, labels, groups)]
        for splitter in splitters
    ]
    if not rounds[0]:
        raise ValueError(f"cv={cv!r} gives no split; give at least one.")
    return rounds
