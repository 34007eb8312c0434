"""`FuzzyTwinCommittee`: ridge classifiers and trees stacked by their held-out predictions."""

from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._members import CommitteeMember
from fuzzytwin.committee._trees import TreeEnsemble

__all__ = ["CommitteeMember", "FuzzyTwinCommittee", "TreeEnsemble"]
