"""Memberships by name, and the check of the parameter `membership`."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._params import check_choice
from fuzzytwin.memberships._from_moments import (
    CenterMembership,
    HyperplaneMembership,
    Membership,
)
from fuzzytwin.memberships._from_neighbors import (
    EntropyMembership,
    IntuitionisticMembership,
    NeighborMembership,
)

_CLASSES: tuple[type[Membership], ...] = (
    CenterMembership,
    HyperplaneMembership,
    NeighborMembership,
    EntropyMembership,
    IntuitionisticMembership,
)


MEMBERSHIPS: dict[str, Callable[..., Membership]] = {
    **{cls.name: cls for cls in _CLASSES},
    **{f"{cls.name}_balanced": partial(cls, imbalance=True) for cls in _CLASSES},
}


def check_membership(membership: Any) -> Any:
    """Return None, a `Membership` or another callable; refuse anything else."""
    if isinstance(membership, str):
        check_choice("membership", membership, tuple(MEMBERSHIPS))
        return MEMBERSHIPS[membership]()
    if isinstance(membership, Membership):
        membership.check()
    elif isinstance(membership, (list, tuple, np.ndarray)) or hasattr(membership, "iloc"):
        raise ValueError(
            f"membership={reprlib.repr(membership)} holds degrees; pass them to "
            "fit(X, y, membership=degrees). The parameter sets how to compute them."
        )
    elif isinstance(membership, type) or not (membership is None or callable(membership)):
        known = ", ".join(map(repr, MEMBERSHIPS))
        raise ValueError(
            f"membership={membership!r} is not allowed; use None, one of {known}, an instance such "
            "as CenterMembership(), or a callable (X, y, sample_weight) -> degrees."
        )
    return membership


def by_chunks(membership: Any) -> bool:
    """Return whether degrees can be computed chunk by chunk; None stands for none."""
    found = (getattr(membership, name, False) for name in ("in_passes", "streams"))
    return membership is None or any(found)


BY_CHUNKS = [name for name, kind in MEMBERSHIPS.items() if by_chunks(kind)]
