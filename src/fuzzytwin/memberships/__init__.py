"""Memberships: how much each training row counts, one class per definition.

Every membership is a callable ``(X, y, sample_weight=None) -> degrees`` with degrees in
(0, 1], computed only from training rows. Rows of weight zero change nothing, and an
integer weight is equivalent to repeating the row.

A `MomentMembership` needs only the moments of each class and at most one more number per class,
so it also works on data that do not fit in memory. The others compare neighbours and need all
rows at once.

`MEMBERSHIPS` maps names to memberships: "entropy" is ``EntropyMembership()``, and
"entropy_balanced" is ``EntropyMembership(imbalance=True)``, whose degrees are multiplied by
n_min / n_k so that large classes count less. The n_k are totals of `sample_weight` only:
`class_weight` is a separate factor, so combine the two with care.

Examples
--------
>>> from fuzzytwin.memberships import MEMBERSHIPS
>>> X, y = [[0.0], [1.0], [2.0], [3.0], [8.0], [9.0]], [0, 0, 0, 0, 1, 1]
>>> MEMBERSHIPS["neighbor"](k=1)(X, y)
array([1., 1., 1., 1., 1., 1.])
>>> MEMBERSHIPS["neighbor_balanced"](k=1)(X, y)
array([0.5, 0.5, 0.5, 0.5, 1. , 1. ])
"""

from __future__ import annotations

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
]
