"""How much each training sample counts: one class per way to say so.

Every membership is a callable ``(X, y, sample_weight=None) -> degrees`` with degrees in
(0, 1], computed from training rows alone. Samples of weight zero move nothing, and an
integer weight is the same as repeating the row.

`MomentMembership` needs no more than the moments of each class and, at most, one number per
class beside; it can therefore run over data that never meet in memory. The others look at
neighbours and need all rows at once.
"""

from __future__ import annotations

from fuzzytwin.memberships.base import Membership, MomentMembership, balance, class_radii
from fuzzytwin.memberships.from_moments import CenterMembership, HyperplaneMembership
from fuzzytwin.memberships.from_neighbors import (
    EntropyMembership,
    IntuitionisticMembership,
    NeighborMembership,
)

__all__ = [
    "MEMBERSHIPS",
    "CenterMembership",
    "EntropyMembership",
    "HyperplaneMembership",
    "IntuitionisticMembership",
    "Membership",
    "MomentMembership",
    "NeighborMembership",
    "balance",
    "class_radii",
]

MEMBERSHIPS: dict[str, type[Membership]] = {
    "center": CenterMembership,
    "hyperplane": HyperplaneMembership,
    "neighbor": NeighborMembership,
    "entropy": EntropyMembership,
    "intuitionistic": IntuitionisticMembership,
}
