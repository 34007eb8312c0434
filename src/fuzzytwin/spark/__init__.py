"""Estimators and label issues on Spark DataFrames. Needs the extra spark."""

from fuzzytwin.spark._estimators import (
    FuzzyTwinCommittee,
    FuzzyTwinCommitteeModel,
    FuzzyTwinSVC,
    FuzzyTwinSVCModel,
)
from fuzzytwin.spark._rows import find_label_issues

__all__ = [
    "FuzzyTwinCommittee",
    "FuzzyTwinCommitteeModel",
    "FuzzyTwinSVC",
    "FuzzyTwinSVCModel",
    "find_label_issues",
]
