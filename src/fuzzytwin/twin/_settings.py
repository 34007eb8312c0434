"""Checked and frozen parameters of estimators, as all functions of a fit take them.

Every error names the parameter, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fuzzytwin._params import (
    Constraint,
    callable_or,
    check_class_weight,
    check_coef0,
    check_degree,
    check_gamma,
    check_n_jobs,
    check_n_landmarks,
    check_number,
    check_params,
    check_seed,
    choice,
    count_threads,
    either,
    not_allowed,
    number,
)
from fuzzytwin._rows import Rows
from fuzzytwin._utils import memory
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.core import solvers
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.kernels import KERNELS
from fuzzytwin.kernels._landmarks import MAX_CENTERS, is_all, is_centers, is_count
from fuzzytwin.memberships import Membership
from fuzzytwin.memberships._registry import check_membership

CHOICES = {
    "planes": ("crisp", "fuzzy"),
    "rule": ("distance", "residual"),
    "solver": ("auto", *SOLVERS),
}


# Constraints of all plane classifiers. An estimator may replace some in `_constraints`.
CONSTRAINTS: dict[str, Constraint] = {
    **{name: choice(*valid) for name, valid in CHOICES.items()},
    "alpha": either("auto", number()),
    "tau": number(),
    "margin_width": number(),
    "class_weight": check_class_weight,
    "n_jobs": check_n_jobs,
    "calibration": either(None, choice("loo")),
    "kernel": callable_or(choice(*KERNELS)),
    "gamma": check_gamma,
    "degree": check_degree,
    "coef0": check_coef0,
    "random_state": check_seed,
    "n_landmarks": check_n_landmarks,
}


@dataclass(frozen=True, eq=False)
class FitSettings:
    """Checked parameters of an estimator. Those that it does not have keep these defaults."""

    planes: str = "crisp"
    C: Any = 1.0
    alpha: Any = "auto"
    membership: Membership | Callable[..., Array] | None = None
    rule: str = "distance"
    solver: str = "auto"
    tau: float = 1.0
    margin_width: float = 0.5
    class_weight: Any = None
    n_jobs: int | None = None
    calibration: str | None = None
    kernel: str | Callable[..., Array] = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 0.0
    n_landmarks: Any = 300
    random_state: Any = 0

    @classmethod
    def of(cls, estimator: BaseEstimator) -> FitSettings:
        """Check the parameters of an estimator. A ValueError names an invalid one."""
        names = {field.name for field in fields(cls)}
        params = estimator.get_params(deep=False)
        check_params(params, CONSTRAINTS | getattr(estimator, "_constraints", {}))
        values = {name: value for name, value in params.items() if name in names}
        values["membership"] = check_membership(values.get("membership"))
        return cls(**values)

    def penalties(self, classes: Array) -> Array:
        """Return C as one number per class. Raise a ValueError unless all are above 0."""
        C = self.C
        K = len(classes)
        if isinstance(C, Real):
            return np.full(K, check_number("C", C, above=0.0))
        try:
            values = np.asarray(C)
            values = np.empty(0) if values.dtype.kind in "USb" else values.astype(np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.shape != (K,):
            raise ValueError(
                f"C={C!r} does not fit {K} classes; give one number, or one per class in the order "
                f"of classes_ ({', '.join(map(str, classes[:10]))})."
            )
        if not (np.isfinite(values) & (values > 0)).all():
            raise not_allowed("C", C, "give finite numbers above 0")
        return values

    @property
    def uses_kernel(self) -> bool:
        """Return whether the kernel is nonlinear, so that rows are mapped to landmark features."""
        return self.kernel != "linear"

    @property
    def gamma_by_rows(self) -> bool:
        """Return whether gamma depends on the rows."""
        return isinstance(self.gamma, str) and self.gamma == "scale"

    def max_landmarks(self, n_rows: int) -> int:
        """Return the number of landmarks. Those that are chosen from the rows may be fewer."""
        landmarks = self.n_landmarks
        if is_all(landmarks):
            return n_rows
        if is_centers(landmarks):
            return MAX_CENTERS
        if is_count(landmarks):
            return int(landmarks)
        return landmarks.shape[0] if hasattr(landmarks, "shape") else len(landmarks)

    def thread_pool(self, X: Any) -> AbstractContextManager[None]:
        """Return a context manager in which blocks of rows run on the threads of `n_jobs`."""
        n, d = X.shape
        if self.uses_kernel:
            d = max(d, self.max_landmarks(n))
        return thread_pool(count_threads(self.n_jobs), n * d, d)

    @property
    def has_widths(self) -> bool:
        """Return whether the moments of abs(X) are needed for the widths of fuzzy planes."""
        return self.planes == "fuzzy"


def choose_solver(settings: FitSettings, rows: Rows, possible: Collection[str] = SOLVERS) -> str:
    """Choose a solver for these rows among the `possible` ones of an estimator.

    A ValueError with the remedy is raised if the solver does not support the settings, or if it
    needs more memory than is available.
    """
    requested = settings.solver
    if settings.uses_kernel or settings.planes == "fuzzy":
        possible = ("moments",)
    if requested not in ("auto", *possible):
        raise ValueError(f"solver={requested!r} {_unavailable_reason(settings, possible)}")
    if settings.uses_kernel:
        return "moments"
    with_degrees = rows.degree is not None or settings.membership is not None
    n_moments = (2 if settings.has_widths else 1) * (2 if with_degrees else 1)
    shape = (rows.X, len(rows.classes))
    candidates = [requested]
    if requested == "auto":
        candidates = solvers.preferred_solvers(*shape, possible)
    for solver in candidates:
        if memory.fits_memory(solvers.memory_of(solver, *shape, n_moments)):
            return solver
    sizes = {solver: solvers.memory_of(solver, *shape, n_moments) for solver in SOLVERS}
    raise memory.NotEnoughMemoryError(_too_much_memory(requested, rows, sizes))


def _too_much_memory(requested: str, rows: Rows, sizes: dict[str, float]) -> str:
    """Explain how much memory each solver needs, and what to do."""
    texts = [f"{memory.format_bytes(size)} with solver={name!r}" for name, size in sizes.items()]
    least = min(sizes, key=lambda name: sizes[name])
    remedy = "use fewer columns (SelectKBest, TruncatedSVD), fewer rows, or float32"
    if requested not in ("auto", least) and memory.fits_memory(sizes[least]):
        remedy = f"use solver={least!r}, or fewer columns (SelectKBest, TruncatedSVD)"
    n, d = rows.X.shape
    limit = memory.MAX_MEMORY_SHARE * memory.available_memory()
    return (
        f"solver={requested!r} does not fit into memory: {n:,} rows of {d:,} columns in "
        f"{len(rows.classes)} classes need about {', '.join(texts)}. The limit is "
        f"{memory.format_bytes(limit)}, {memory.MAX_MEMORY_SHARE:.0%} of what is available. "
        f"Remedy: {remedy}."
    )


def _unavailable_reason(settings: FitSettings, possible: Collection[str]) -> str:
    """Explain why a solver is not possible, and what to use instead."""
    if settings.uses_kernel:
        return (
            f"works with kernel='linear' only; use solver='auto' with kernel={settings.kernel!r} "
            "(n_landmarks sets the number of features)."
        )
    if settings.planes == "fuzzy":
        return (
            "has no widths; use planes='crisp', or solver='moments' (reduce the number of columns "
            "with SelectKBest or TruncatedSVD)."
        )
    names = ", ".join(repr(name) for name in possible)
    return f"is not available for this estimator; use one of 'auto', {names}."
