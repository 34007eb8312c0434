"""Plots of fitted models. Need matplotlib (the extra plot)."""

from fuzzytwin.explain.display import COLORS, MembershipDisplay
from fuzzytwin.explain.model_displays import (
    CommitteeDisplay,
    PlanesDisplay,
    ValidationSurfaceDisplay,
)

__all__ = [
    "COLORS",
    "CommitteeDisplay",
    "MembershipDisplay",
    "PlanesDisplay",
    "ValidationSurfaceDisplay",
]
