"""Classic twin and proximal support vector machines, as baselines of the fuzzy one.

All except `TwinSVC` are functions of the class moments, so they stream and merge exactly. `TwinSVC`
needs the rows themselves, and is solved by LIBLINEAR after a change of variables.
"""

from fuzzytwin.classics._gep_svc import GEPSVC
from fuzzytwin.classics._least_squares_svc import LeastSquaresSVC
from fuzzytwin.classics._least_squares_twin_svc import LeastSquaresTwinSVC
from fuzzytwin.classics._proximal_svc import ProximalSVC
from fuzzytwin.classics._twin_svc import TwinSVC

__all__ = ["GEPSVC", "LeastSquaresSVC", "LeastSquaresTwinSVC", "ProximalSVC", "TwinSVC"]
