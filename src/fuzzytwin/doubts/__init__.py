"""Which labels are doubtful, and what several annotators say together."""

from fuzzytwin.doubts.display import DoubtsDisplay
from fuzzytwin.doubts.find import find_doubtful
from fuzzytwin.doubts.report import DoubtsReport
from fuzzytwin.doubts.votes import Annotators, soft_labels

__all__ = ["Annotators", "DoubtsDisplay", "DoubtsReport", "find_doubtful", "soft_labels"]
