"""Kernels: planes that are nonlinear in X are linear in features of landmarks."""

from fuzzytwin.kernels._landmark_map import KERNELS, LandmarkMap

__all__ = ["KERNELS", "LandmarkMap"]
