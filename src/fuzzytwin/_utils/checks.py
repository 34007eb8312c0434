"""Checks of what users give that every layer needs; each error names the parameter."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array


def check_weights(sample_weight: Any, n: int, *, allow_all_zero: bool = False) -> Array | None:
    """Return non-negative weights of shape (n,); a batch may `allow_all_zero`."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    s = real_array("sample_weight", sample_weight)
    if s.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {s.shape}; give one weight per sample, shape ({n},)."
        )
    if not np.isfinite(s).all() or (s < 0).any():
        bad = s[~np.isfinite(s) | (s < 0)][0]
        raise ValueError(
            f"sample_weight holds {bad}; weights must be finite and negative weights are not "
            "allowed: use weight 0 to leave a sample out."
        )
    if not (allow_all_zero or s.any()):
        raise ValueError("sample_weight is zero for every sample; give some of them weight.")
    return s


def real_array(name: str, value: Any) -> Array:
    """Return what a parameter holds as an array of float64; refuse what holds no numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} does not hold numbers; {error}.") from error
