"""Parameters of estimators: checked once, frozen, and passed to every function that fits.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fuzzytwin._params import (
    check_choice,
    check_class_weight,
    check_number,
    check_polynomial,
    check_seed,
    count_threads,
    not_allowed,
)
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.core.solvers import FORMER_NAMES, SOLVERS
from fuzzytwin.kernels import KERNELS, MOST_CENTERS, check_n_landmarks, is_centers, is_count
from fuzzytwin.memberships import Membership
from fuzzytwin.memberships._registry import check_membership
from fuzzytwin.twin._calibration import CALIBRATIONS

CHOICES = {
    "planes": ("crisp", "fuzzy"),
    "membership_scope": ("slack", "both"),
    "rule": ("distance", "residual"),
    "multi_class": ("ovo", "ovr"),
    "formulation": ("endpoints", "stationary", "printed"),
}


@dataclass(frozen=True, eq=False)
class FitSettings:
    """Checked parameters of an estimator; those that it does not have keep these defaults."""

    planes: str = "crisp"
    C: Any = 1.0
    alpha: Any = "auto"
    membership: Membership | Callable[..., Array] | None = None
    membership_scope: str = "slack"
    rule: str = "distance"
    multi_class: str = "ovo"
    solver: str = "auto"
    tol: float = 1e-6
    tau: float = 1.0
    margin_width: float = 0.5
    formulation: str = "endpoints"
    class_weight: Any = None
    n_jobs: int | None = None
    calibration: str | None = None
    kernel: str | Callable[..., Array] = "linear"
    gamma: Any = "scale"
    relevance: str | None = None
    degree: float = 3
    coef0: float = 0.0
    n_landmarks: Any = 300
    random_state: Any = None

    @classmethod
    def of(cls, estimator: BaseEstimator, **changed: Any) -> FitSettings:
        """Check the parameters of an estimator; a bad one gets a ValueError that names it."""
        known = {field.name for field in fields(cls)}
        given = estimator.get_params(deep=False) | changed
        settings = cls(**{name: value for name, value in given.items() if name in known})
        settings._check()
        return replace(
            settings,
            solver=check_choice("solver", settings.solver, ("auto", *SOLVERS), FORMER_NAMES),
            membership=check_membership(settings.membership),
        )

    def _check(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_number("tol", self.tol, above=0.0)
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_number("alpha", self.alpha)
        check_number("tau", self.tau)
        check_number("margin_width", self.margin_width)
        check_class_weight(self.class_weight)
        count_threads(self.n_jobs)
        if self.calibration is not None:
            check_choice("calibration", self.calibration, tuple(CALIBRATIONS))
            if self.printed:
                raise ValueError(
                    f"calibration={self.calibration!r} is not possible with "
                    f"formulation={self.formulation!r}; use formulation='endpoints' or "
                    "calibration=None."
                )
        self._check_kernel()
        if self.uses_kernel and self.formulation != "endpoints":
            raise ValueError(
                f"formulation={self.formulation!r} works with kernel='linear' only; use "
                f"formulation='endpoints' with kernel={self.kernel!r}."
            )

    def _check_kernel(self) -> None:
        gamma = self.gamma
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, KERNELS)
        if isinstance(gamma, str):
            check_choice("gamma", gamma, ("scale", "auto"))
        elif not (isinstance(gamma, list | tuple) or np.ndim(gamma)):
            check_number("gamma", gamma, above=0.0)
        elif not _are_gammas(gamma):
            remedy = "give one number above 0, or one for each column: finite, at least 0, and not "
            raise not_allowed("gamma", gamma, remedy + "all of them 0")
        check_polynomial(self.degree, self.coef0)
        check_seed(self.random_state)
        check_n_landmarks(self.n_landmarks)
        if self.relevance is not None:
            check_choice("relevance", self.relevance, ("learned",))
            if self.kernel != "rbf":
                raise ValueError(
                    f"relevance={self.relevance!r} works with kernel='rbf' only; use "
                    f"relevance=None with kernel={self.kernel!r}."
                )

    def penalties(self, classes: Array) -> Array:
        """Return C as one number above zero per class; refuse anything else."""
        C, K = self.C, len(classes)
        if isinstance(C, Real):
            return np.full(K, check_number("C", C, above=0.0))
        try:
            given = np.asarray(C)
            values = np.empty(0) if given.dtype.kind in "USb" else given.astype(np.float64)
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
        """Return whether a kernel curves the planes."""
        return self.kernel != "linear"

    @property
    def gamma_by_rows(self) -> bool:
        """Return whether gamma depends on the rows."""
        by_scale = isinstance(self.gamma, str) and self.gamma == "scale"
        return by_scale or self.relevance is not None

    def thread_pool(self, X: Any) -> AbstractContextManager[None]:
        """Use the threads of `n_jobs` on blocks of these rows, inside a ``with`` block."""
        n, d = X.shape
        if self.uses_kernel:
            given = self.n_landmarks
            given = MOST_CENTERS if is_centers(given) else given
            d = max(d, given if is_count(given) else getattr(given, "shape", (0,))[0])
        return thread_pool(count_threads(self.n_jobs), n * d, d)

    @property
    def printed(self) -> bool:
        """Return whether fuzzy planes are one of those that the paper prints."""
        return self.planes == "fuzzy" and self.formulation != "endpoints"

    @property
    def has_widths(self) -> bool:
        """Return whether the moments of abs(X) are needed for the widths of fuzzy planes."""
        return not self.printed and self.planes == "fuzzy"


def _are_gammas(gamma: Any) -> bool:
    """Return whether these are numbers of at least 0, some of them above."""
    try:
        values = np.asarray(gamma)
    except ValueError:  # of different lengths
        return False
    numbers = values.ndim == 1 and values.dtype.kind in "iuf" and np.isfinite(values).all()
    return bool(numbers and (values >= 0).all() and values.any())
