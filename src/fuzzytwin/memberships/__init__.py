"""Memberships: how much each training sample counts, one class per definition.

Every membership is a callable ``(X, y, sample_weight=None) -> degrees`` with degrees in
(0, 1], computed from training rows alone. Samples of weight zero change nothing, and an
integer weight is the same as repeating the row.

`MomentMembership` needs no more than the moments of each class and, at most, one number per
class besides; so it can run over data that do not fit in memory. The others look at
neighbours and need all rows at once.

`MEMBERSHIPS` holds what each name stands for: "entropy" is ``EntropyMembership()``, and
"entropy_balanced" is ``EntropyMembership(imbalance=True)``, whose degrees are multiplied by
n_min / n_k so that large classes count less; and so for every name. The n_k are totals of
`sample_weight` alone: `class_weight` is a factor of its own, so combine the two with care.

Examples
--------
>>> from fuzzytwin.memberships._registry import MEMBERSHIPS
>>> X, y = [[0.0], [1.0], [2.0], [3.0], [8.0], [9.0]], [0, 0, 0, 0, 1, 1]
>>> MEMBERSHIPS["neighbor"](k=1)(X, y)
array([1., 1., 1., 1., 1., 1.])
>>> MEMBERSHIPS["neighbor_balanced"](k=1)(X, y)
array([0.5, 0.5, 0.5, 0.5, 1. , 1. ])
"""

from __future__ import annotations

from fuzzytwin.memberships._from_moments import (
    CenterMembership,
    HyperplaneMembership,
    Membership,
    MomentMembership,
    balance,
    class_radii,
)
from fuzzytwin.memberships._from_neighbors import (
    EntropyMembership,
    IntuitionisticMembership,
    NeighborMembership,
)
from fuzzytwin.memberships._registry import MEMBERSHIPS
from fuzzytwin.memberships._weighted import MembershipWeighted

__all__ = [
    "MEMBERSHIPS",
    "CenterMembership",
    "EntropyMembership",
    "HyperplaneMembership",
    "IntuitionisticMembership",
    "Membership",
    "MembershipWeighted",
    "MomentMembership",
    "NeighborMembership",
    "balance",
    "class_radii",
]
