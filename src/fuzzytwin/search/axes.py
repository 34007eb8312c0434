"""What a search tries: the values on its axes, checked, and the splits that it scores them on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedKFold, check_cv

from fuzzytwin._utils.types import Array
from fuzzytwin.fit.kernels import KERNELS, has_gamma
from fuzzytwin.fit.rows import Rows
from fuzzytwin.fit.settings import check_choice, check_membership, check_number

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
    selection: str

    @property
    def in_stages(self) -> bool:
        """Return whether curved planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, given: bool) -> Axes:
    """Check the axes of the grid; no membership is tried where degrees are given."""
    single = search.memberships is None or _is_one(search.memberships)
    memberships = _listed("memberships", search.memberships, single=single)
    kinds = _choices("planes", search.planes, ("crisp", "fuzzy"))
    rules = _choices("rules", search.rules, ("distance", "residual"))
    for membership in memberships:
        check_membership(membership)
    Cs, alphas = (
        None if values is None else np.array(values)
        for values in (_numbers("Cs", search.Cs, above=0.0), _numbers("alphas", search.alphas))
    )
    kernels, gammas = _kernels(search.kernels), _numbers("gammas", search.gammas, above=0.0)
    axes = Axes(
        kinds, rules, [None] if given else memberships, Cs, alphas, kernels,
        [gammas if has_gamma(kernel) else ["scale"] for kernel in kernels],
        [None], _selection(search.selection),
    )  # fmt: skip
    if search.relevances is None:
        return replace(axes, relevances=[None, "learned"] if axes.in_stages else [None])
    relevances = _listed("relevances", search.relevances, single=_is_one(search.relevances))
    for relevance in relevances:
        if relevance is not None:
            check_choice("relevances", relevance, ("learned",))
            if "rbf" not in kernels:
                raise ValueError(
                    f"relevances={search.relevances!r} works with the kernel 'rbf' only; add it to "
                    f"kernels={search.kernels!r}, or use relevances=None."
                )
    return replace(axes, relevances=relevances)


def _kernels(given: Any) -> list[Any]:
    """Check the kernels; "auto" is linear and RBF."""
    if isinstance(given, str) and given == "auto":
        return ["linear", "rbf"]
    single = _is_one(given)
    kernels = _listed("kernels", given, single=single)
    for kernel in kernels:
        if not callable(kernel):
            check_choice("kernels", kernel, (*KERNELS, "auto") if single else KERNELS)
    return kernels


def _selection(selection: Any) -> str:
    """Check how the winner is picked; the former name of a rule still works."""
    if isinstance(selection, str) and selection == "band":
        warnings.warn(
            "selection='band' is now called 'one_standard_error'; the old name will go.",
            FutureWarning,
            stacklevel=4,
        )
        return "one_standard_error"
    check_choice("selection", selection, ("one_standard_error", "score"))
    return str(selection)


def _choices(name: str, values: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    listed = _listed(name, values, single=isinstance(values, str))
    for value in listed:
        check_choice(name, value, known)
    return tuple(listed)


def _is_one(value: Any) -> bool:
    return isinstance(value, str) or callable(value)


def _numbers(name: str, values: Any, above: float | None = None) -> list[float] | None:
    if values is None:
        return None
    return [float(check_number(name, value, above=above)) for value in _listed(name, values)]


def _listed(name: str, values: Any, *, single: bool = False) -> list[Any]:
    """List the values of an axis; a single one stands for itself."""
    try:
        found = [values] if single else list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error
    if not found:
        raise ValueError(f"{name}={values!r} is empty; give at least one value.")
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
