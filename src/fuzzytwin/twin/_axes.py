"""Check the parameters of a search: the values on its axes, and what all points share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sklearn.utils import check_random_state

from fuzzytwin._params import check_choice, check_number
from fuzzytwin.core.solvers import BY_MOMENTS, SOLVERS
from fuzzytwin.kernels import KERNELS
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin._settings import CHOICES, FitSettings
from fuzzytwin.twin._svc import FuzzyTwinSVC


@dataclass(frozen=True)
class Axes:
    """Validated values on the axes of a search. None: they are computed from the data."""

    rules: tuple[str, ...]
    memberships: list[Any]
    Cs: Any
    alphas: Any
    kernels: list[Any]
    gammas: list[Any] | None

    @property
    def in_stages(self) -> bool:
        """Return whether kernel planes are searched in stages."""
        return self.Cs is None and None in self.memberships


def check_axes(search: Any, *, has_degrees: bool) -> Axes:
    """Check the axes of the grid. With `has_degrees`, no membership is tried."""
    memberships = _check_values(search, "memberships", check_membership, str, Callable, type(None))
    check_rule = partial(check_choice, "rules", choices=CHOICES["rule"])
    rules = tuple(_check_values(search, "rules", check_rule, str))
    Cs = _check_numbers(search, "Cs", above=0.0)
    alphas = _check_numbers(search, "alphas")
    kernel_names = (*KERNELS, "auto") if isinstance(search.kernels, str) else KERNELS
    check = partial(check_choice, "kernels", choices=kernel_names)
    kernels = _check_values(
        search, "kernels", lambda value: callable(value) or check(value), str, Callable
    )
    if kernels == ["auto"]:
        kernels = ["linear", "rbf"]
    gammas = _check_numbers(search, "gammas", above=0.0)
    if has_degrees:
        memberships = [None]
    return Axes(rules, memberships, Cs, alphas, kernels, gammas)


def _check_numbers(search: Any, name: str, above: float | None = None) -> list[float] | None:
    if getattr(search, name) is None:
        return None
    return [float(x) for x in _check_values(search, name, partial(check_number, name, above=above))]


def _check_values(search: Any, name: str, check: Callable[[Any], Any], *single: Any) -> list[Any]:
    """List and check the values of an axis. A value of a `single` type is a list of one."""
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


def shared_parameters(search: Any, axes: Axes) -> tuple[dict[str, Any], FitSettings]:
    """Return the parameters that all points share, and the fit settings that cover all axes."""
    solver = search.solver
    if isinstance(solver, str) and solver in SOLVERS and solver not in BY_MOMENTS:
        raise ValueError(
            f"solver={solver!r} cannot be searched; use solver='auto' with fewer columns "
            f"(SelectKBest, TruncatedSVD), or GridSearchCV over FuzzyTwinSVC(solver={solver!r})."
        )
    names = FuzzyTwinSVC().get_params(deep=False)
    params = search.get_params(deep=False)
    shared = {name: value for name, value in params.items() if name in names}
    seed = search.random_state
    if seed is None:  # drawn once, as points with other landmarks could not be compared
        seed = check_random_state(None).randint(2**31 - 1)
    shared["random_state"] = copy.deepcopy(seed)
    settings = FitSettings.of(FuzzyTwinSVC(**shared))
    membership = next((check_membership(m) for m in axes.memberships if m is not None), None)
    kernel = next((kernel for kernel in axes.kernels if kernel != "linear"), "linear")
    return shared, replace(settings, membership=membership, kernel=kernel)


def possible_solvers(search: Any, axes: Axes) -> Collection[str]:
    """Return the possible solvers. Raise a ValueError if alpha = 0 is not possible."""
    if axes.alphas is None or 0 not in axes.alphas or "linear" not in axes.kernels:
        return BY_MOMENTS
    if search.solver == "gram":
        raise ValueError(
            f"alphas={axes.alphas!r} contains 0, which a search with solver='gram' does not "
            "support; give alphas above 0, solver='moments', or use GridSearchCV over FuzzyTwinSVC."
        )
    return ("moments",)
