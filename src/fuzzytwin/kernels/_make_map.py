"""Build the landmark map of an estimator from its parameters and training rows."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.utils import assert_all_finite

from fuzzytwin._utils.types import Array
from fuzzytwin.kernels._bandwidths import resolve_gamma
from fuzzytwin.kernels._landmark_map import Kernel, LandmarkMap
from fuzzytwin.kernels._landmarks import (
    MAX_CENTERS,
    RandomState,
    center_landmarks,
    check_landmarks,
    is_all,
    is_centers,
    is_count,
    kmeans_landmarks,
)


def make_map(
    X: Any,
    codes: Array,
    s: Array | None,
    *,
    kernel: Kernel,
    gamma: Any,
    degree: float,
    coef0: float,
    n_landmarks: Any,
    random_state: RandomState,
) -> LandmarkMap:
    """Build the map of an estimator with these parameters from its training rows."""
    assert_all_finite(X.data if sparse.issparse(X) else X, input_name="X")
    is_sampled = is_count(n_landmarks)
    is_scale = isinstance(gamma, str) and gamma == "scale"
    if s is not None and not s.any() and (is_sampled or is_scale):
        raise ValueError(
            "sample_weight is zero for every row of the first batch, from which landmarks and "
            "gamma are computed; begin with rows of positive weight."
        )
    if is_centers(n_landmarks):
        landmarks = center_landmarks(X, s, MAX_CENTERS, random_state)
    elif is_sampled:
        m = X.shape[0] if is_all(n_landmarks) else n_landmarks
        landmarks = kmeans_landmarks(X, codes, s, m, random_state)
    else:
        landmarks = check_landmarks(n_landmarks, X.shape[1])
    gamma = resolve_gamma(gamma, X, s)
    return LandmarkMap.of(landmarks, kernel, gamma, degree, coef0)
