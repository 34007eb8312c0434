"""Find label errors, and combine the votes of several annotators."""

from fuzzytwin.label_issues._annotators import Annotators, soft_labels
from fuzzytwin.label_issues._display import LabelIssueDisplay
from fuzzytwin.label_issues._find import find_label_issues
from fuzzytwin.label_issues._report import LabelIssueReport

__all__ = [
    "Annotators",
    "LabelIssueDisplay",
    "LabelIssueReport",
    "find_label_issues",
    "soft_labels",
]
