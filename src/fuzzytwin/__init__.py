"""Fuzzy least-squares twin support vector machines for scikit-learn."""

from fuzzytwin._classifier import FuzzyTwinSVC
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
    "CenterMembership",
    "EntropyMembership",
    "FuzzyTwinSVC",
    "HyperplaneMembership",
    "IntuitionisticMembership",
    "Membership",
    "NeighborMembership",
]
