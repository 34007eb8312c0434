"""What two models must share for their moments to be added."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin.kernels import LandmarkMap


def comparable(model: Any) -> dict[str, str]:
    """What two models must share to be merged, as text."""
    names = getattr(model, "feature_names_in_", None)
    phi = getattr(model, "landmark_map_", None)
    return {
        "kernel": repr(getattr(model, "kernel", "linear")),
        **{name: repr(value) for name, value in model.get_params().items()},
        "the number of columns": str(model.n_features_in_),
        "the names of the columns": str(None if names is None else list(names)),
        "the labels": str(model.classes_.tolist()),
        # "scale" may stand for another number in each model.
        "gamma": repr(model.gamma if phi is None else phi.gamma),
        "the landmarks": "none" if phi is None else _fingerprint(phi),
    }


def _fingerprint(phi: LandmarkMap) -> str:
    """Text that tells landmarks apart."""
    rows = phi.landmarks.toarray() if sparse.issparse(phi.landmarks) else phi.landmarks
    digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
    return f"{len(rows)} with digest {digest[:12]}"


def same_axes(one: Any, other: Any) -> bool:
    """Whether the features of two models' landmarks are the same numbers."""
    if not hasattr(one, "landmark_map_"):
        return True
    a, b = one.landmark_map_.root, other.landmark_map_.root
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-7 * np.abs(a).max())


def same_kernel(model: Any, phi: LandmarkMap | None) -> bool:
    """Whether a map was made with the parameters that the model has now."""
    if phi is None:
        return bool(model.kernel == "linear")
    same = phi.kernel == model.kernel and phi.degree == model.degree and phi.coef0 == model.coef0
    return bool(same and (isinstance(model.gamma, str) or phi.gamma == model.gamma))
