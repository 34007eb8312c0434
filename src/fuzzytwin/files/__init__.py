"""Fit, predict and find label issues out of core: in files, or in any iterable of batches."""

from fuzzytwin.files._fit import fit
from fuzzytwin.files._label_issues import find_label_issues
from fuzzytwin.files._predict import predict
from fuzzytwin.label_issues._chunked import ChunkedLabelIssues

__all__ = ["ChunkedLabelIssues", "find_label_issues", "fit", "predict"]
