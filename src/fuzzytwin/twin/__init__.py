"""The twin machines of the paper, `FuzzyTwinSVC`, and their tuned form, `FuzzyTwinSVCCV`."""

from fuzzytwin.twin._search import FuzzyTwinSVCCV
from fuzzytwin.twin._svc import FuzzyTwinSVC

__all__ = ["FuzzyTwinSVC", "FuzzyTwinSVCCV"]
