"""Fuzzy distances and memberships from planes: address of `fuzzytwin.core.distances`."""

from fuzzytwin.core.distances import (
    effective_distances,
    fuzzy_distances,
    memberships,
    plane_norms,
    plane_values,
)

__all__ = ["effective_distances", "fuzzy_distances", "memberships", "plane_norms", "plane_values"]
