"""Parameters of estimators: checked once, frozen, and passed to every function that fits.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.core.calibration import CALIBRATIONS
from fuzzytwin.core.solvers import FORMER_NAMES, SOLVERS
from fuzzytwin.fit.kernels import KERNELS, MOST_CENTERS, is_centers, is_count
from fuzzytwin.memberships import MEMBERSHIPS, Membership

LARGEST = sys.float_info.max
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
        if not (self.class_weight is None or isinstance(self.class_weight, dict)):
            check_choice("class_weight", self.class_weight, ("balanced",))
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
        if self.curved and self.formulation != "endpoints":
            raise ValueError(
                f"formulation={self.formulation!r} works with kernel='linear' only; use "
                f"formulation='endpoints' with kernel={self.kernel!r}."
            )

    def _check_kernel(self) -> None:
        gamma, count = self.gamma, self.n_landmarks
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
        try:
            check_random_state(self.random_state)
        except ValueError:
            remedy = "give a whole number of at least 0, a RandomState or None"
            raise not_allowed("random_state", self.random_state, remedy) from None
        if not (is_whole(count) and count >= 1) and is_count(count) and not is_centers(count):
            remedy = "give a whole number of at least 1, 'centers', or the landmarks, shape (m, d)"
            raise not_allowed("n_landmarks", count, remedy)
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
    def curved(self) -> bool:
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
        if self.curved:
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


def not_allowed(name: str, value: Any, remedy: str) -> ValueError:
    """Make the error about a value of a parameter that is out of range."""
    return ValueError(f"{name}={reprlib.repr(value)} is not allowed; {remedy}.")


def is_whole(value: Any) -> bool:
    """Return whether this is a whole number, of Python or numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _are_gammas(gamma: Any) -> bool:
    """Return whether these are numbers of at least 0, some of them above."""
    try:
        values = np.asarray(gamma)
    except ValueError:  # of different lengths
        return False
    numbers = values.ndim == 1 and values.dtype.kind in "iuf" and np.isfinite(values).all()
    return bool(numbers and (values >= 0).all() and values.any())


def check_choice(
    name: str, value: Any, choices: tuple[str, ...], former: Mapping[str, str] | None = None
) -> str:
    """Return a name among `choices`, or the one that a `former` name stands for; refuse others."""
    if former and isinstance(value, str) and value in former:
        warnings.warn(
            f"{name}={value!r} is now called {former[value]!r}; the old name will go.",
            FutureWarning,
            stacklevel=3,
        )
        return former[value]
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown; use one of {known}.")
    return value


def check_number(name: str, value: Any, *, above: float | None = None) -> float:
    """Return a finite number above a limit, or of at least zero if no limit is given."""
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if isinstance(number, np.floating):
        # Comparing with LARGEST would overflow in float16 and float32.
        number = number.item()
    if not (number > above if above is not None else number >= 0) or number > LARGEST:
        wanted = f"above {above:g}" if above is not None else "of at least 0"
        raise not_allowed(name, value, f"give a finite number {wanted}")
    return float(value)


def check_polynomial(degree: Any, coef0: Any, place: str = "") -> None:
    """Refuse a degree or a constant that kernels cannot have."""
    # A fractional power of a negative number is not real.
    if check_number(f"{place}degree", degree, above=0.0) % 1 != 0:
        raise not_allowed(f"{place}degree", degree, "give a whole number of at least 1")
    number = isinstance(coef0, Real) and not isinstance(coef0, bool)
    if not number or not abs(float(coef0)) <= LARGEST:
        raise not_allowed(f"{place}coef0", coef0, "give a finite number")


def count_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` stands for, as scikit-learn means it; refuse what is none.

    None is 1, or what a `joblib.parallel_config` around the call gives; -1 is all cores. It is
    never more than there are cores, and 1 inside a worker of joblib, which has its share of the
    cores already.
    """
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise not_allowed("n_jobs", n_jobs, "give None, a number of threads, or -1 for all of them")
    if n_jobs == 1:
        return 1
    backend, in_context = get_active_backend()
    if backend.nesting_level or (n_jobs is None and in_context in (None, 1)):
        return 1
    return int(min(effective_n_jobs(n_jobs), cpu_count()))


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
