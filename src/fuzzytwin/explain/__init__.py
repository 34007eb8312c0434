"""What drives a prediction: the effect of every column on the membership in every class."""

from fuzzytwin.explain.display import EffectsDisplay
from fuzzytwin.explain.effects import column_correlations, column_effects, explain, row_effects

__all__ = ["EffectsDisplay", "column_correlations", "column_effects", "explain", "row_effects"]
