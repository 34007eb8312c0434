"""Names of memberships, and validation of the parameter `membership`."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._params import check_choice
from fuzzytwin.memberships._base import Membership
from fuzzytwin.memberships._moment_based import (
    CenterMembership,
    HyperplaneMembership,
    MomentMembership,
)
from fuzzytwin.memberships._neighbor_based import (
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
    """Return None, a `Membership` or another callable, or raise a ValueError."""
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
        names = ", ".join(map(repr, MEMBERSHIPS))
        raise ValueError(
            f"membership={membership!r} is not allowed; use None, one of {names}, an instance such "
            "as CenterMembership(), or a callable (X, y, sample_weight) -> degrees."
        )
    return membership


def is_streamable(membership: Any) -> bool:
    """Return whether degrees can be computed chunk by chunk. None stands for no membership."""
    return membership is None or isinstance(membership, MomentMembership)


STREAMABLE = [cls.name for cls in _CLASSES if issubclass(cls, MomentMembership)]
