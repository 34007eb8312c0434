"""Compute the membership degrees of validated rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._params import class_factors
from fuzzytwin._rows import Rows, check_degrees, check_finite
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.solvers import ClassMeans, ClassSummary
from fuzzytwin.memberships._from_moments import (
    Membership,
    MomentMembership,
    class_summary,
)

# Tolerance of the first planes of a membership, relative to that of the planes.
FIRST_PLANES = 0.1


def own_moments(rows: Rows, Z: Any) -> ClassMoments:
    """Compute the moments of the features `Z` with the sample weights; they must be finite."""
    own = ClassMoments.from_rows(
        Z, rows.codes, rows.weight, n_classes=len(rows.classes), groups=rows.groups
    )
    check_moments(own, rows)
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
    """Return given degrees (n,) or soft labels (n, K), or compute degrees; None: all are 1.

    Moment-based memberships measure distances between the features `Z` of the rows, others between
    the rows as given. `summary` are the `own_moments` of Z, if they are known, and are returned;
    with another solver than "moments" they are means, and first planes come from the solver.
    """
    K = len(rows.classes)
    if rows.degree is not None or membership is None:
        return rows.degree, summary
    s = np.ones(len(rows)) if rows.weight is None else rows.weight
    if summary is None and solver == "moments":
        summary = own_moments(rows, Z)
    if not isinstance(membership, Membership):
        mu = membership(rows.original, rows.y, s)
        if mu is None:
            raise ValueError(
                f"membership={membership!r} returned None; it must return one degree per sample."
            )
        return check_degrees(mu, len(rows), rows.classes, soft=False), summary
    if summary is None:
        check_finite(rows.X, rows.names)
        # First planes are found more exactly, so that degrees add little to the error.
        summary = ClassMeans.from_rows(Z, rows.codes, s, K, solver, FIRST_PLANES * tol)
    factor = None
    if class_weight is not None:
        factor = class_factors(class_weight, summary.weight, rows.classes)
    X, of_X = Z, summary
    if not isinstance(membership, MomentMembership) and Z is not rows.original:
        X = rows.original
        of_X = class_summary(X, rows.codes, s, K)
    return membership.degrees(X, rows.codes, s, of_X, factor), summary


def check_moments(moments: ClassMoments, rows: Rows) -> None:
    """Refuse moments that are not finite: X is checked here, through its moments."""
    if not moments.is_finite:
        raise_overflow(rows)


def raise_overflow(rows: Rows) -> None:
    """Say what is not finite: X itself, or its squares."""
    check_finite(rows.X, rows.names)
    raise ValueError(
        "X or sample_weight is so large that squares overflow in double precision; scale the "
        "columns of X (e.g. StandardScaler) or divide the weights."
    )
