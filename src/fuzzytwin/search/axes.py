"""What a search is asked for: its axes, checked, and the values of a default grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.fitting import Rows
from fuzzytwin.kernels import KERNELS, default_gammas
from fuzzytwin.validation import check_choice, check_membership, check_number


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


def views_of(search: Any, rows: Rows) -> list[dict[str, Any]]:
    """Kernel and gamma of each panel; nothing where the search is linear."""
    one = isinstance(search.kernels, str) or callable(search.kernels)
    kernels = [search.kernels] if one else _listed("kernels", search.kernels)
    if not kernels:
        raise ValueError(f"kernels={search.kernels!r} is empty; give at least one value.")
    if kernels == ["linear"]:
        return [{}]
    gammas = None if search.gammas is None else _values("gammas", search.gammas, above=0.0)
    views = []
    for kernel in kernels:
        if not callable(kernel):
            check_choice("kernels", kernel, KERNELS)
        if callable(kernel) or kernel in ("linear", "cosine"):
            views.append({"kernel": kernel, "gamma": "scale"})
            continue
        if gammas is None:
            gammas = default_gammas(rows.X, rows.s)
        views += [{"kernel": kernel, "gamma": float(gamma)} for gamma in gammas]
    return views


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
