"""Estimators and doubtful labels on Spark: the public address of `fuzzytwin.engines.spark`."""

from fuzzytwin.engines.spark import (
    FuzzyTwinCommittee,
    FuzzyTwinCommitteeModel,
    FuzzyTwinSVC,
    FuzzyTwinSVCModel,
)
from fuzzytwin.engines.spark_rows import find_doubtful

__all__ = [
    "FuzzyTwinCommittee",
    "FuzzyTwinCommitteeModel",
    "FuzzyTwinSVC",
    "FuzzyTwinSVCModel",
    "find_doubtful",
]
