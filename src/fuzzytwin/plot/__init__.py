"""Plots of fitted models. Needs matplotlib (the extra plot).

A display holds data, `from_estimator` computes them, and ``plot(ax=None)`` draws them and returns
the display.
"""

from fuzzytwin.plot._committee import CommitteeDisplay
from fuzzytwin.plot._display import COLORS
from fuzzytwin.plot._effects import EffectsDisplay
from fuzzytwin.plot._memberships import MembershipDisplay
from fuzzytwin.plot._planes import PlanesDisplay
from fuzzytwin.plot._search import ValidationSurfaceDisplay

__all__ = [
    "COLORS",
    "CommitteeDisplay",
    "EffectsDisplay",
    "MembershipDisplay",
    "PlanesDisplay",
    "ValidationSurfaceDisplay",
]
