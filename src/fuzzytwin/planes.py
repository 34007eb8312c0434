"""From moments to planes: the public address of `fuzzytwin.core.planes`."""

from fuzzytwin.core.classic_planes import printed_planes, stationary_planes
from fuzzytwin.core.planes import Planes, crisp_grid, crisp_planes, fuzzy_planes, widths

__all__ = [
    "Planes",
    "crisp_grid",
    "crisp_planes",
    "fuzzy_planes",
    "printed_planes",
    "stationary_planes",
    "widths",
]
