"""Parameters of estimators: checked once, frozen, and passed to every function that fits.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fuzzytwin._utils.threads import working
from fuzzytwin._utils.types import Array
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.kernels import KERNELS, is_count
from fuzzytwin.memberships import MEMBERSHIPS, Membership

LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class FitSettings:
    """Checked parameters of an estimator; those that it does not have keep these defaults."""

    planes: str = "crisp"
    C: Any = 1.0
    alpha: Any = 10.0
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
    def of(cls, estimator: BaseEstimator) -> FitSettings:
        """Check the parameters of an estimator; a bad one gets a ValueError that names it."""
        known = {field.name for field in fields(cls)}
        given = estimator.get_params(deep=False)
        settings = cls(**{name: value for name, value in given.items() if name in known})
        settings._check()
        return replace(settings, membership=check_membership(settings.membership))

    def _check(self) -> None:
        check_choice("planes", self.planes, ("crisp", "fuzzy"))
        check_choice("membership_scope", self.membership_scope, ("slack", "both"))
        check_choice("rule", self.rule, ("distance", "residual"))
        check_choice("multi_class", self.multi_class, ("ovo", "ovr"))
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        check_number("tol", self.tol, above=0.0)
        check_choice("formulation", self.formulation, ("endpoints", "stationary", "printed"))
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_number("alpha", self.alpha)
        check_number("tau", self.tau)
        check_number("margin_width", self.margin_width)
        if not (self.class_weight is None or isinstance(self.class_weight, dict)):
            check_choice("class_weight", self.class_weight, ("balanced",))
        count_threads(self.n_jobs)
        if self.calibration is not None:
            check_choice("calibration", self.calibration, ("loo", "moments"))
            if self.planes == "fuzzy" and self.formulation != "endpoints":
                raise ValueError(
                    f"calibration={self.calibration!r} is not possible with "
                    f"formulation={self.formulation!r}; use formulation='endpoints' or "
                    "calibration=None."
                )
        check_kernel(self)
        check_relevance(self.relevance, self.kernel)
        if self.curved and self.formulation != "endpoints":
            raise ValueError(
                f"formulation={self.formulation!r} works with kernel='linear' only; use "
                f"formulation='endpoints' with kernel={self.kernel!r}."
            )

    def penalties(self, classes: Array) -> Array:
        """Return C as one number above zero per class."""
        return check_penalties(self.C, classes)

    @property
    def curved(self) -> bool:
        """Return whether a kernel curves the planes."""
        return self.kernel != "linear"

    @property
    def gamma_by_rows(self) -> bool:
        """Return whether gamma depends on the rows."""
        by_scale = isinstance(self.gamma, str) and self.gamma == "scale"
        return by_scale or self.relevance is not None

    def working(self, X: Any) -> AbstractContextManager[None]:
        """Use the threads of `n_jobs` on blocks of these rows, inside a ``with`` block."""
        n, d = X.shape
        if self.curved:
            given = self.n_landmarks
            d = max(d, given if is_count(given) else getattr(given, "shape", (0,))[0])
        return working(count_threads(self.n_jobs), n * d, d)

    @property
    def has_widths(self) -> bool:
        """Return whether the moments of abs(X) are needed for the widths of fuzzy planes."""
        return self.planes == "fuzzy" and self.formulation == "endpoints"


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a name that is not among `choices`."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown; use one of {known}.")


def check_number(name: str, value: Any, *, above: float | None = None) -> float:
    """Return a finite number above a limit, or of at least zero if no limit is given."""
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if isinstance(number, np.floating):
        # Comparing with LARGEST would overflow in float16 and float32.
        number = number.item()
    if not (number > above if above is not None else number >= 0) or number > LARGEST:
        wanted = f"above {above:g}" if above is not None else "of at least 0"
        raise ValueError(f"{name}={value!r} is not allowed; give a finite number {wanted}.")
    return float(value)


def count_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` stands for, as scikit-learn means it; refuse what is none.

    None is 1, or what a `joblib.parallel_config` around the call gives; -1 is all cores. It is
    never more than there are cores, and 1 inside a worker of joblib, which has its share of the
    cores already.

    Examples
    --------
    >>> from fuzzytwin.settings import count_threads
    >>> count_threads(None)
    1
    """
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs={n_jobs!r} is not allowed; give None, a number of threads, or -1 for all of "
            "them."
        )
    if n_jobs == 1:
        return 1
    backend, in_context = get_active_backend()
    if backend.nesting_level or (n_jobs is None and in_context in (None, 1)):
        return 1
    return int(min(effective_n_jobs(n_jobs), cpu_count()))


def check_kernel(model: Any) -> None:
    """Refuse parameters of a kernel that are out of range."""
    if not callable(model.kernel):
        check_choice("kernel", model.kernel, KERNELS)
    if isinstance(model.gamma, str):
        check_choice("gamma", model.gamma, ("scale", "auto"))
    elif isinstance(model.gamma, list | tuple) or np.ndim(model.gamma):
        _check_gammas(model.gamma)
    else:
        check_number("gamma", model.gamma, above=0.0)
    # A fractional power of a negative number is not real.
    if check_number("degree", model.degree, above=0.0) % 1 != 0:
        raise ValueError(
            f"degree={model.degree!r} is not allowed; give a whole number of at least 1."
        )
    number = isinstance(model.coef0, Real) and not isinstance(model.coef0, bool)
    if not number or not abs(float(model.coef0)) <= LARGEST:
        raise ValueError(f"coef0={model.coef0!r} is not allowed; give a finite number.")
    try:
        check_random_state(model.random_state)
    except ValueError:
        raise ValueError(
            f"random_state={model.random_state!r} is not allowed; give a whole number of at "
            "least 0, a RandomState or None."
        ) from None
    count = model.n_landmarks
    if is_count(count):
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if not whole or count < 1:
            raise ValueError(
                f"n_landmarks={count!r} is not allowed; give a whole number of at least 1, or "
                "the landmarks themselves, of shape (m, d)."
            )


def _check_gammas(gamma: Any) -> None:
    """Refuse gammas of the columns that are not numbers of at least 0, some of them above."""
    try:
        values = np.asarray(gamma)
    except ValueError:  # of different lengths
        values = np.empty(0, dtype=object)
    numbers = values.ndim == 1 and values.dtype.kind in "iuf"
    if not numbers or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise ValueError(
            f"gamma={gamma!r:.80} is not allowed; give one number above 0, or one for each column: "
            "finite, at least 0, and not all of them 0."
        )


def check_relevance(relevance: Any, kernel: Any) -> None:
    """Refuse what is neither None nor "learned", and kernels that it does not work with."""
    if relevance is None:
        return
    check_choice("relevance", relevance, ("learned",))
    if kernel != "rbf":
        raise ValueError(
            f"relevance={relevance!r} works with kernel='rbf' only; use relevance=None with "
            f"kernel={kernel!r}."
        )


def check_penalties(C: Any, classes: Array) -> Array:
    """Return C as one number above zero per class; refuse anything else."""
    if isinstance(C, Real):
        return np.full(len(classes), check_number("C", C, above=0.0))
    try:
        given = np.asarray(C)
        values = np.empty(0) if given.dtype.kind in "USb" else given.astype(np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (len(classes),):
        raise ValueError(
            f"C={C!r} does not fit {len(classes)} classes; give one number, or one per class "
            f"in the order of classes_ ({', '.join(map(str, classes[:10]))})."
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"C={C!r} is not allowed; give finite numbers above 0.")
    return values


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
        raise ValueError(
            f"membership={membership!r} is not allowed; use None, one of "
            f"{', '.join(map(repr, MEMBERSHIPS))}, an instance such as CenterMembership(), or a "
            "callable (X, y, sample_weight) -> degrees."
        )
    return membership
