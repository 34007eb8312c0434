"""Fuzzy least-squares twin support vector machines for scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzzytwin._classifier import FuzzyTwinSVC
    from fuzzytwin._search import FuzzyTwinSVCCV
    from fuzzytwin.classics import GEPSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
    from fuzzytwin.memberships import (
        CenterMembership,
        EntropyMembership,
        HyperplaneMembership,
        IntuitionisticMembership,
        Membership,
        NeighborMembership,
    )

__version__ = "0.1.0"

__all__ = [
    "GEPSVC",
    "CenterMembership",
    "EntropyMembership",
    "FuzzyTwinSVC",
    "FuzzyTwinSVCCV",
    "HyperplaneMembership",
    "IntuitionisticMembership",
    "LeastSquaresTwinSVC",
    "Membership",
    "NeighborMembership",
    "ProximalSVC",
    "TwinSVC",
]

# Imported when first asked for, so that the command line starts at once.
_HOMES = {
    "FuzzyTwinSVC": "_classifier",
    "FuzzyTwinSVCCV": "_search",
    **dict.fromkeys(("GEPSVC", "LeastSquaresTwinSVC", "ProximalSVC", "TwinSVC"), "classics"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'memberships')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
