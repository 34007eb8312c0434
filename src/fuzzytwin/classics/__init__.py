"""Provide the classic estimators that the fuzzy one is compared with.

All but one are functions of the class moments, so they stream and merge exactly. `TwinSVC`
needs the rows themselves: LIBLINEAR solves it, after a change of variables.
"""

from fuzzytwin.classics._nearest_plane import GEPSVC, LeastSquaresTwinSVC
from fuzzytwin.classics._separating_plane import LeastSquaresSVC, ProximalSVC
from fuzzytwin.classics._twin_svc import TwinSVC

__all__ = ["GEPSVC", "LeastSquaresSVC", "LeastSquaresTwinSVC", "ProximalSVC", "TwinSVC"]
