"""Effects of columns on the membership in, or the probability of, each class."""

from fuzzytwin.explain._effects import column_effects, explain, row_effects

__all__ = ["column_effects", "explain", "row_effects"]
