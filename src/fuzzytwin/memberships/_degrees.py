"""Compute the membership degrees of validated rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._degrees import check_degrees
from fuzzytwin._params import class_factors
from fuzzytwin._rows import Rows, check_finite, raise_overflow
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.solvers import ClassMeans, ClassSummary
from fuzzytwin.memberships._base import Membership, class_summary
from fuzzytwin.memberships._moment_based import MomentMembership

FIRST_PLANES_TOLERANCE = 0.1  # relative to the tolerance of the final planes


def own_moments(rows: Rows, Z: Any) -> ClassMoments:
    """Compute the moments of the features `Z` with the sample weights, and check them."""
    own = ClassMoments.from_rows(
        Z, rows.codes, rows.weight, n_classes=len(rows.classes), groups=rows.groups
    )
    if not own.is_finite:
        raise_overflow(rows)
    return own


def compute_degrees(
    membership: Any,
    rows: Rows,
    Z: Any,
    summary: ClassSummary | None = None,
    solver: str = "moments",
    *,
    tol: float = 1e-6,
    class_weight: Any = None,
) -> tuple[Array | None, Any]:
    """Return the degrees (n,) or soft labels (n, K) of the rows, or compute degrees.

    None stands for degrees of 1. Moment-based memberships measure distances between the features
    `Z` of the rows, others between the rows themselves. `summary` are the `own_moments` of Z, if
    they were computed before. It is returned too. With another solver than "moments" it holds only
    means, and the first planes are computed by that solver.
    """
    K = len(rows.classes)
    if rows.degree is not None or membership is None:
        return rows.degree, summary
    s = np.ones(len(rows)) if rows.weight is None else rows.weight
    if summary is None and solver == "moments":
        summary = own_moments(rows, Z)
    if not isinstance(membership, Membership):
        mu = membership(rows.X, rows.labels, s)
        if mu is None:
            raise ValueError(
                f"membership={membership!r} returned None; it must return one degree per row."
            )
        return check_degrees(mu, len(rows), soft=False), summary
    if summary is None:
        check_finite(rows.X, rows.names)
        # First planes get a smaller tolerance, so that degrees add little to the error.
        summary = ClassMeans.from_rows(Z, rows.codes, s, K, solver, FIRST_PLANES_TOLERANCE * tol)
    factor = None
    if class_weight is not None:
        factor = class_factors(class_weight, summary.weight, rows.classes)
    if isinstance(membership, MomentMembership) or Z is rows.X:
        return membership.degrees(Z, rows.codes, s, summary, factor), summary
    row_summary = class_summary(rows.X, rows.codes, s, K)
    return membership.degrees(rows.X, rows.codes, s, row_summary, factor), summary
