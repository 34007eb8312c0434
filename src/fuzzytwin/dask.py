"""Estimators and doubtful labels on Dask: the public address of `fuzzytwin.engines.dask`."""

from fuzzytwin.engines.dask import FuzzyTwinCommittee, FuzzyTwinSVC, find_doubtful

__all__ = ["FuzzyTwinCommittee", "FuzzyTwinSVC", "find_doubtful"]
