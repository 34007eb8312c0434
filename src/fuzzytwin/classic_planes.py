"""Planes of the classic estimators from moments: address of `fuzzytwin.core.classic_planes`."""

from fuzzytwin.core.classic_planes import (
    eigen_planes,
    least_squares_planes,
    own_whitening,
    proximal_planes,
)

__all__ = ["eigen_planes", "least_squares_planes", "own_whitening", "proximal_planes"]
