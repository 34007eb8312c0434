r"""Whitening of the own class.

    s, a            weight of a row, and the sum of the weights of the own class
    p, V_own        weighted mean and covariance of the own class
    w, b            normal and intercept of a plane, with c = b + w.p its value at p

About the mean p, the own-class term of a twin SVM has no mixed term of w and c:

    sum_own s (w.x + b)^2 + alpha |w|^2 = w' (a V_own + alpha I) w + a c^2.

`own_whitening` turns its part in w into |u|^2. It is invariant to shifts of the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.core.linalg import decompose


def own_whitening(covariance: Array, a: float, ridge: float, alpha: float, label: Any) -> Array:
    """Compute T with ``T' (a V + ridge I) T = I``, so that w = T u has the own-class term |u|^2.

    `alpha` and `label` are named by the error that is raised if the own rows do not span the space
    and the ridge is lost in rounding.
    """
    M = a * covariance
    M[np.diag_indices(len(M))] += ridge
    values, vectors, scale = decompose(M)
    if len(values) < len(M):
        raise ValueError(
            f"alpha={alpha!r} leaves the plane of class {label} undetermined, because its rows "
            f"span only {len(values)} of {len(M)} dimensions; give a larger alpha or scale the "
            "columns."
        )
    return np.asarray(vectors / np.sqrt(values) / scale[:, None])
