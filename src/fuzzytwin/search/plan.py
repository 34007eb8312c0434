"""The grids that a search evaluates: axes, checked, and one grid for each kernel and gamma."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzzytwin import fitting, row_fitting
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import KERNELS
from fuzzytwin.rows import Rows, refuse_non_finite
from fuzzytwin.search.grid import Grid
from fuzzytwin.search.splits import (
    SplitScores,
    Task,
    class_weights,
    copy_random_state,
    moments_of_splits,
    split_brier,
)
from fuzzytwin.settings import FitSettings, check_choice, check_membership, check_number


@dataclass(frozen=True)
class Axes:
    """The axes of a search that do not depend on the data."""

    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    memberships: list[Any]
    Cs: Array | None
    alphas: Array | None

    def values(self, fine: bool, n_classes: int) -> tuple[Array, Array | None]:
        """Return the values of C and alpha; None for an alpha that depends on the data."""
        powers = np.arange(-8, 9, 2) if fine else np.arange(-4, 5, 2)
        if n_classes > 2:  # one C for all pairs: above 1 it hardly ever helps
            powers = np.arange(-4, 3, 2)
        return 2.0**powers if self.Cs is None else self.Cs, self.alphas


def check_axes(search: Any, *, given: bool) -> Axes:
    """Check the axes of the grid; no membership is tried where degrees are given."""
    check_choice("selection", search.selection, ("band", "score"))
    kinds, rules = (
        (value,) if isinstance(value, str) else tuple(_listed(name, value))
        for name, value in (("planes", search.planes), ("rules", search.rules))
    )
    for kind in kinds:
        check_choice("planes", kind, ("crisp", "fuzzy"))
    for rule in rules:
        check_choice("rules", rule, ("distance", "residual"))
    one = search.memberships is None or isinstance(search.memberships, str)
    one = one or callable(search.memberships)
    memberships = [search.memberships] if one else _listed("memberships", search.memberships)
    for membership in memberships:
        check_membership(membership)
    for name, values in (("planes", kinds), ("rules", rules), ("memberships", memberships)):
        if not values:
            raise ValueError(f"{name}={values!r} is empty; give at least one value.")
    Cs = None if search.Cs is None else _values("Cs", search.Cs, above=0.0)
    alphas = None if search.alphas is None else _values("alphas", search.alphas)
    return Axes(kinds, rules, [None] if given else memberships, Cs, alphas)


def list_kernels(search: Any) -> list[Any]:
    """Check the kernels; "auto" is linear and RBF."""
    if isinstance(search.kernels, str) and search.kernels == "auto":
        return ["linear", "rbf"]
    one = isinstance(search.kernels, str) or callable(search.kernels)
    kernels = [search.kernels] if one else _listed("kernels", search.kernels)
    if not kernels:
        raise ValueError(f"kernels={search.kernels!r} is empty; give at least one value.")
    for kernel in kernels:
        if not callable(kernel):
            check_choice("kernels", kernel, (*KERNELS, "auto") if one else KERNELS)
    return kernels


def list_relevances(search: Any, *, in_stages: bool) -> list[Any]:
    """Check the relevances; None is equal ones, and learned ones too in a search in stages."""
    if search.relevances is None:
        return [None, "learned"] if in_stages else [None]
    one = isinstance(search.relevances, str)
    relevances = [search.relevances] if one else _listed("relevances", search.relevances)
    if not relevances:
        raise ValueError(f"relevances={search.relevances!r} is empty; give at least one value.")
    for relevance in relevances:
        if relevance is not None:
            check_choice("relevances", relevance, ("learned",))
            if "rbf" not in list_kernels(search):
                raise ValueError(
                    f"relevances={search.relevances!r} works with the kernel 'rbf' only; add it to "
                    f"kernels={search.kernels!r}, or use relevances=None."
                )
    return relevances


def list_gammas(search: Any, kernel: Any) -> list[Any] | None:
    """List the gammas of a kernel as `FuzzyTwinSVC` takes them; None where the data decide."""
    if callable(kernel) or kernel in ("linear", "cosine"):
        return ["scale"]
    if search.gammas is None:
        return None
    return _values("gammas", search.gammas, above=0.0).tolist()


def _values(name: str, values: Any, above: float | None = None) -> Array:
    values = _listed(name, values)
    if not values:
        raise ValueError(f"{name}={values!r} is empty; give at least one number.")
    return np.array([check_number(name, value, above=above) for value in values])


def _listed(name: str, values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is not a sequence; give a list of values.") from error


@dataclass(eq=False)
class Plan:
    """The grid of one kernel and gamma, and its scores on every split."""

    kernel: dict[str, Any]
    task: Task
    # Moments of each split's training rows; empty if each split computes its own.
    train_moments: list[Any]
    all_moments: ClassMoments | None
    split_scores: list[SplitScores] = field(default_factory=list)

    def without(self, alphas: Array) -> Plan:
        """Leave out the points of some alphas, which another plan lists."""
        keep = ~np.isin(self.task.grid.alphas, alphas)
        task = replace(self.task, grid=replace(self.task.grid, alphas=self.task.grid.alphas[keep]))
        scores = [split.at_alphas(keep) for split in self.split_scores]
        return replace(self, task=task, split_scores=scores)

    def points(self) -> list[dict[str, Any]]:
        """Name the parameters of each point, in the order of the scores."""
        grid = self.task.grid
        points = [grid.parameters(index) for index in np.ndindex(grid.shape)]
        return [
            {**self.kernel, "membership": membership, **point}
            for membership in self.task.memberships
            for point in points
        ]

    def brier(self, rows: Rows, splits: list[Any], wanted: Array) -> Array:
        """Compute the mean Brier score of every split at the wanted points."""
        shape = self.split_scores[0].scores.shape
        return np.array(
            [
                split_brier(self.task.grid, rows, test, split, wanted.reshape(shape)).ravel()
                for (_, test), split in zip(splits, self.split_scores, strict=True)
            ]
        )


def make_plan(
    kernel: dict[str, Any],
    template: FuzzyTwinSVC,
    axes: Axes,
    fine: bool,
    rows: Rows,
    rounds: list[Any],
    scoring: Any,
    scorer: Any,
) -> Plan:
    """Read the rows once for all splits (linear planes only) and build the grid."""
    settings = template.fit_settings()
    train_moments: list[Any] = []
    all_moments = None
    if settings.solver == "iterative":
        refuse_non_finite(rows.X, rows.names)
    elif not settings.curved:
        parts = [
            moments_of_splits(settings, rows, [train for train, _ in one_round])
            for one_round in rounds
        ]
        if parts[0] is not None and all(parts):
            all_moments = parts[0][0]
            train_moments = [known for part in parts if part for known in part[1]]
        else:
            refuse_non_finite(rows.X, rows.names)
            all_moments = fitting.own_moments(rows, rows.X)
        fitting.check_moments(all_moments, rows.X, rows.names)
    Cs, alphas = axes.values(fine, len(rows.classes))
    if alphas is None:
        alphas = _default_alphas(settings, rows, all_moments, fine)
    grid = Grid(
        axes.kinds,
        alphas,
        axes.rules,
        Cs,
        len(rows.classes),
        settings.multi_class,
        settings.tau,
        settings.margin_width,
    )
    task = Task(template, settings, axes.memberships, grid, rows, scoring, scorer)
    return Plan(kernel, task, train_moments, all_moments)


def _default_alphas(
    settings: FitSettings, rows: Rows, moments: ClassMoments | None, fine: bool
) -> Array:
    """Choose powers of ten around the mean scatter of a column within the classes.

    For curved planes, around the scatter of the landmarks' features, a landmark each. Features
    of landmarks differ in size by orders of magnitude, the greatest far above the mean: curved
    planes get more ridge.
    """
    powers = np.arange(-5, 2) if fine else np.arange(-4, 1)
    if settings.solver == "iterative":
        return (row_fitting.mean_scatter(settings, rows) or 1.0) * 10.0**powers
    if moments is not None:
        own = moments.scaled(fitting.class_factors(settings, moments, rows.classes))
        trace = np.trace(own.covariance, axis1=1, axis2=2)
        scatter = float(own.weight @ trace) / own.origin.shape[1]
        return (scatter or 1.0) * 10.0**powers
    refuse_non_finite(rows.X, rows.names)
    # Relevances hardly change the scatter.
    phi = fitting.landmark_map(replace(copy_random_state(settings), relevance=None), rows)
    assert phi is not None
    K = phi.kernel_values(phi.landmarks)
    weight = class_weights(rows)
    total = float(weight.weight @ fitting.class_factors(settings, weight, rows.classes))
    spread = float(np.trace(K) / len(K) - K.mean())
    scatter = total * max(spread, 0.0) / len(K)
    return (scatter or 1.0) * 10.0 ** np.arange(-3, 3)
