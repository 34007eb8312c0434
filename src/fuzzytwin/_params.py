"""Check parameters, apply class weights, count threads and set fitted attributes.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils import check_random_state, compute_class_weight

from fuzzytwin._utils.types import Array


def check_weights(sample_weight: Any, n: int, *, allow_all_zero: bool = False) -> Array | None:
    """Return non-negative weights of shape (n,); a batch may `allow_all_zero`."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    s = real_array("sample_weight", sample_weight)
    if s.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {s.shape}; give one weight per sample, shape ({n},)."
        )
    if not np.isfinite(s).all() or (s < 0).any():
        bad = s[~np.isfinite(s) | (s < 0)][0]
        raise ValueError(
            f"sample_weight holds {bad}; weights must be finite and negative weights are not "
            "allowed: use weight 0 to leave a sample out."
        )
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(s.sum())
    if overflows:
        raise ValueError(
            f"sample_weight holds {s.max():g}, and the sum of all overflows in double precision; "
            "divide the weights by a power of ten."
        )
    if not (allow_all_zero or s.any()):
        raise ValueError("sample_weight is zero for every sample; give some of them weight.")
    return s


def real_array(name: str, value: Any) -> Array:
    """Return what a parameter holds as an array of float64; refuse what holds no numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} does not hold numbers; {error}.") from error


LARGEST = sys.float_info.max


def not_allowed(name: str, value: Any, remedy: str) -> ValueError:
    """Make the error about a value of a parameter that is out of range."""
    return ValueError(f"{name}={reprlib.repr(value)} is not allowed; {remedy}.")


def is_whole(value: Any) -> bool:
    """Return whether this is a whole number, of Python or numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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


def check_class_weight(class_weight: Any) -> None:
    """Refuse what is neither None, "balanced" nor a dict; numbers are checked with the labels."""
    if not (class_weight is None or isinstance(class_weight, dict)):
        check_choice("class_weight", class_weight, ("balanced",))


def check_seed(random_state: Any) -> None:
    """Refuse a random state that scikit-learn would not take."""
    try:
        check_random_state(random_state)
    except ValueError:
        remedy = "give a whole number of at least 0, a RandomState or None"
        raise not_allowed("random_state", random_state, remedy) from None


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


def class_factors(class_weight: Any, weight: Array, classes: Array) -> Array:
    """Compute class weights; "balanced" makes the total weights of all classes equal."""
    K = len(classes)
    if class_weight is None:
        return np.ones(K)
    if isinstance(class_weight, str):  # "balanced"
        present = weight > 0
        mean = weight.sum() / max(present.sum(), 1)
        with np.errstate(over="ignore"):
            factor = np.divide(mean, weight, out=np.ones(K), where=present)
    else:
        try:
            factor = compute_class_weight(class_weight, classes=classes, y=classes)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"class_weight={class_weight!r} does not give every label a number; {error}"
            ) from error
        if not (np.isfinite(factor) & (factor >= 0)).all():
            raise ValueError(
                f"class_weight={class_weight!r} holds a negative or infinite weight; give finite "
                "numbers of at least 0."
            )
    with np.errstate(over="ignore"):
        if not np.isfinite(factor * weight).all():
            raise ValueError(
                f"class_weight={class_weight!r} times the weights of the samples overflows "
                "double precision; divide the weights."
            )
    return factor


def set_fitted_attributes(model: Any, **fitted: Any) -> None:
    """Replace every fitted attribute, now that nothing can fail any more.

    An attribute that is None is left out.
    """
    for name in [name for name in vars(model) if name.endswith("_")]:
        delattr(model, name)
    for name, value in fitted.items():
        if value is not None:
            setattr(model, name, value)
