"""Fuzzy least-squares twin support vector machines for scikit-learn."""

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
