"""Plots of fitted models. Need matplotlib (the extra plot)."""

from fuzzytwin.explain.display import COLORS, CommitteeDisplay
from fuzzytwin.explain.membership_display import MembershipDisplay
from fuzzytwin.explain.planes_display import PlanesDisplay
from fuzzytwin.explain.surface_display import ValidationSurfaceDisplay

__all__ = [
    "COLORS",
    "CommitteeDisplay",
    "MembershipDisplay",
    "PlanesDisplay",
    "ValidationSurfaceDisplay",
]
