"""`FuzzyTwinCommittee`: ridge classifiers stacked by their leave-one-out predictions."""

from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._members import CommitteeMember

__all__ = ["CommitteeMember", "FuzzyTwinCommittee"]
