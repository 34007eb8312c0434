"""Estimators and label issues on Dask arrays and DataFrames. Needs the extra dask."""

from fuzzytwin.dask._chunks import find_label_issues
from fuzzytwin.dask._estimators import FuzzyTwinCommittee, FuzzyTwinSVC

__all__ = ["FuzzyTwinCommittee", "FuzzyTwinSVC", "find_label_issues"]
