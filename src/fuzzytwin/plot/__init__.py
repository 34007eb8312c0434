"""Plots of fitted models. Need matplotlib (the extra plot)."""

from fuzzytwin.plot.colors import COLORS
from fuzzytwin.plot.membership import MembershipDisplay
from fuzzytwin.plot.planes import PlanesDisplay
from fuzzytwin.plot.surface import ValidationSurfaceDisplay

__all__ = ["COLORS", "MembershipDisplay", "PlanesDisplay", "ValidationSurfaceDisplay"]
