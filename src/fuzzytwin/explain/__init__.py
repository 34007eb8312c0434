"""Effects of columns on the membership in, or the probability of, each class."""

from fuzzytwin.explain._effects import column_correlations, column_effects, explain, row_effects

__all__ = ["column_correlations", "column_effects", "explain", "row_effects"]
