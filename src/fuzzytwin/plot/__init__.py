"""Plots of fitted models of two features. Needs matplotlib (the extra plot).

A display holds data, `from_estimator` computes them, and ``plot(ax=None)`` draws them and returns
the display.
"""

from fuzzytwin.plot._display import COLORS
from fuzzytwin.plot._planes import PlanesDisplay

__all__ = ["COLORS", "PlanesDisplay"]
