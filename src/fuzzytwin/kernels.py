"""Kernels and landmarks: the public address of `fuzzytwin.fit.kernels`."""

from fuzzytwin.fit.kernels import (
    KERNELS,
    LandmarkMap,
    MappedRows,
    choose_landmarks,
    given_landmarks,
    is_count,
    make_map,
    resolve_gamma,
    settled_landmarks,
)
from fuzzytwin.fit.relevance import default_gammas

__all__ = [
    "KERNELS",
    "LandmarkMap",
    "MappedRows",
    "choose_landmarks",
    "default_gammas",
    "given_landmarks",
    "is_count",
    "make_map",
    "resolve_gamma",
    "settled_landmarks",
]
