"""Check parameters of estimators, resolve class weights and threads, and set fitted attributes.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils import check_random_state, compute_class_weight

from fuzzytwin._utils.types import Array

Constraint: TypeAlias = Callable[[str, Any], Any]
LARGEST_FLOAT = sys.float_info.max


def check_params(
    params: Mapping[str, Any], constraints: Mapping[str, Constraint], owner: str = ""
) -> None:
    """Check every parameter that has a constraint.

    A constraint is called with the name and the value, and raises a ValueError if the value is
    invalid. Errors also name the `owner`, if it is not empty.
    """
    prefix = f"{owner}: " if owner else ""
    for name, check in constraints.items():
        if name in params:
            check(prefix + name, params[name])


def choice(*valid: str) -> Constraint:
    """Return the constraint of a parameter that is one of these names."""
    return partial(check_choice, choices=valid)


def number(
    *, above: float | None = None, below: float | None = None, whole: bool = False
) -> Constraint:
    """Return the constraint that `check_number` checks."""
    return partial(check_number, above=above, below=below, whole=whole)


def either(text: str | None, constraint: Constraint) -> Constraint:
    """Return the constraint of a parameter that is `text` (or None) or fulfils another one."""

    def check(name: str, value: Any) -> None:
        allowed = value is None if text is None else isinstance(value, str) and value == text
        if not allowed:
            constraint(name, value)

    return check


def callable_or(constraint: Constraint) -> Constraint:
    """Return the constraint of a parameter that is a function or fulfils another one."""

    def check(name: str, value: Any) -> None:
        if not callable(value):
            constraint(name, value)

    return check


def not_allowed(name: str, value: Any, remedy: str) -> ValueError:
    """Return the ValueError for a parameter that is out of range."""
    return ValueError(f"{name}={reprlib.repr(value)} is not allowed; {remedy}.")


def is_whole(value: Any) -> bool:
    """Return whether this is an integer of Python or numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return the value if it is one of `choices`, else raise a ValueError."""
    if not isinstance(value, str) or value not in choices:
        valid = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown; use one of {valid}.")
    return value


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> float:
    """Return a finite number within limits, which are excluded, or raise a ValueError.

    If `above` is None, the number must be at least 0. If `whole`, it must be an integer.
    """
    finite: Any = value if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if isinstance(finite, np.floating):
        # Comparing with LARGEST_FLOAT would overflow in float16 and float32.
        finite = finite.item()
    in_range = finite > above if above is not None else finite >= 0
    if below is not None:
        in_range = in_range and finite < below
    if not in_range or finite > LARGEST_FLOAT or (whole and not is_whole(value)):
        raise not_allowed(name, value, f"give a {_range_in_words(above, below, whole)}")
    return float(value)


def _range_in_words(above: float | None, below: float | None, whole: bool) -> str:
    """Describe the numbers that `check_number` accepts."""
    kind = "whole" if whole else "finite"
    if below is not None:
        return f"{kind} number between {above or 0:g} and {below:g}"
    if above is None:
        return f"{kind} number of at least 0"
    return f"{kind} number " + (f"of at least {above + 1:g}" if whole else f"above {above:g}")


def check_bool(name: str, value: Any) -> None:
    """Raise a ValueError unless this is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise not_allowed(name, value, "give True or False")


def check_gamma(name: str, value: Any) -> None:
    """Raise a ValueError unless this is "scale", "auto", a number, or one for each column."""
    if isinstance(value, str):
        check_choice(name, value, ("scale", "auto"))
    elif not (isinstance(value, list | tuple) or np.ndim(value)):
        check_number(name, value, above=0.0)
    elif not _are_gammas(value):
        remedy = "give one number above 0, or one for each column: finite, at least 0, and not "
        raise not_allowed(name, value, remedy + "all of them 0")


def _are_gammas(gamma: Any) -> bool:
    """Return whether gamma is a list of finite numbers of at least 0 that are not all 0."""
    try:
        values = np.asarray(gamma)
    except ValueError:  # of different lengths
        return False
    numbers = values.ndim == 1 and values.dtype.kind in "iuf" and np.isfinite(values).all()
    return bool(numbers and (values >= 0).all() and values.any())


def check_degree(name: str, value: Any) -> None:
    """Raise a ValueError unless this is a whole number of at least 1, such as 3 or 3.0."""
    # A fractional power of a negative number is not real.
    if check_number(name, value, above=0.0) % 1 != 0:
        raise not_allowed(name, value, "give a whole number of at least 1")


def check_coef0(name: str, value: Any) -> None:
    """Raise a ValueError unless this is a finite number."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not abs(float(value)) <= LARGEST_FLOAT:
        raise not_allowed(name, value, "give a finite number")


def check_n_landmarks(name: str, value: Any) -> None:
    """Check the number of landmarks. Landmarks themselves are checked with the rows."""
    is_number = is_whole(value) and value >= 1
    is_table = isinstance(value, list | tuple) or np.ndim(value) > 0
    if not (is_number or is_table or (isinstance(value, str) and value in ("all", "centers"))):
        remedy = "give a whole number of at least 1, 'all', 'centers', or the landmarks (m, d)"
        raise not_allowed(name, value, remedy)


def real_array(name: str, value: Any) -> Array:
    """Return a parameter as an array of float64 in C order, or raise a ValueError.

    Sums depend on the order in memory, in their last bits.
    """
    if np.ma.is_masked(value):  # numpy would use the numbers under the mask
        raise ValueError(f"{name} holds masked values; give every row a number.")
    try:
        return np.asarray(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} does not hold numbers; {error}.") from error


def check_class_weight(name: str, value: Any) -> None:
    """Raise unless this is None, "balanced" or a dict, whose numbers `class_factors` checks."""
    if not (value is None or isinstance(value, dict)):
        check_choice(name, value, ("balanced",))


def check_seed(name: str, value: Any) -> None:
    """Raise a ValueError if scikit-learn does not accept this random state."""
    try:
        check_random_state(value)
    except ValueError:
        remedy = "give a whole number of at least 0, a RandomState or None"
        raise not_allowed(name, value, remedy) from None


def check_n_jobs(name: str, value: Any) -> None:
    """Raise a ValueError unless this is None or an integer other than 0."""
    if value is not None and (not is_whole(value) or value == 0):
        raise not_allowed(name, value, "give None, a number of threads, or -1 for all of them")


def count_threads(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`, as in scikit-learn, or raise a ValueError.

    None means 1, or the number set by `joblib.parallel_config`. -1 means all cores. The number is
    at most that of cores, and 1 inside a worker of joblib.
    """
    check_n_jobs("n_jobs", n_jobs)
    if n_jobs == 1:
        return 1
    backend, in_context = get_active_backend()
    if backend.nesting_level or (n_jobs is None and in_context in (None, 1)):
        return 1
    return int(min(effective_n_jobs(n_jobs), cpu_count()))


def class_factors(class_weight: Any, weight: Array, classes: Array) -> Array:
    """Compute class weights. With "balanced", all classes get the same total weight."""
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
    """Replace all fitted attributes at once, as the last step of a fit.

    Attributes that are None are not set.
    """
    for name in [name for name in vars(model) if name.endswith("_")]:
        delattr(model, name)
    for name, value in fitted.items():
        if value is not None:
            setattr(model, name, value)
