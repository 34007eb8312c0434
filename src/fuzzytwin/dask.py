"""Estimators and doubtful labels on Dask: the public address of `fuzzytwin.engines.dask`."""

from fuzzytwin.engines.dask import FuzzyTwinCommittee, FuzzyTwinSVC
from fuzzytwin.engines.dask_chunks import find_doubtful

__all__ = ["FuzzyTwinCommittee", "FuzzyTwinSVC", "find_doubtful"]
