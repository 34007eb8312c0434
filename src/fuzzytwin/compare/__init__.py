"""Test whether classifiers differ: over many data sets, or over the folds of one."""

from __future__ import annotations

from fuzzytwin.compare.diagram import CriticalDifferenceDisplay
from fuzzytwin.compare.folds import FoldsResult, compare_folds
from fuzzytwin.compare.ranks import ComparisonResult, compare_classifiers

__all__ = [
    "ComparisonResult",
    "CriticalDifferenceDisplay",
    "FoldsResult",
    "compare_classifiers",
    "compare_folds",
]
