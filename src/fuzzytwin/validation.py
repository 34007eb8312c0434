"""Checks of what users give: each error names the parameter, the value and the remedy."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.kernels import KERNELS, is_count
from fuzzytwin.memberships import MEMBERSHIPS, Membership

LARGEST = sys.float_info.max


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a name that is not among `choices`."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown; use one of {known}.")


def check_number(name: str, value: Any, *, above: float | None = None) -> float:
    """A finite number above a limit, or of at least zero where no limit is given."""
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if isinstance(number, np.floating):
        number = number.item()  # LARGEST would overflow in a narrow one
    if not (number > above if above is not None else number >= 0) or number > LARGEST:
        wanted = f"above {above:g}" if above is not None else "of at least 0"
        raise ValueError(f"{name}={value!r} is not allowed; give a finite number {wanted}.")
    return float(value)


def check_kernel(model: Any) -> None:
    """Refuse parameters of a kernel that are out of range."""
    if not callable(model.kernel):
        check_choice("kernel", model.kernel, KERNELS)
    if isinstance(model.gamma, str):
        check_choice("gamma", model.gamma, ("scale", "auto"))
    else:
        check_number("gamma", model.gamma, above=0.0)
    if check_number("degree", model.degree, above=0.0) % 1 != 0:  # the root of what is negative
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


def check_penalties(C: Any, classes: Array) -> Array:
    """C as one number above zero per class."""
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
    """None, a `Membership` or another callable, from what the user gave."""
    if isinstance(membership, str):
        check_choice("membership", membership, tuple(MEMBERSHIPS))
        return MEMBERSHIPS[membership]()
    if isinstance(membership, Membership):
        membership.check()
    elif isinstance(membership, (list, tuple, np.ndarray)) or hasattr(membership, "iloc"):
        raise ValueError(
            f"membership={reprlib.repr(membership)} holds degrees; they belong to "
            "fit(X, y, membership=degrees). The parameter says how to compute them."
        )
    elif isinstance(membership, type) or not (membership is None or callable(membership)):
        raise ValueError(
            f"membership={membership!r} is not allowed; use None, one of "
            f"{', '.join(map(repr, MEMBERSHIPS))}, an instance such as CenterMembership(), or a "
            "callable (X, y, sample_weight) -> degrees."
        )
    return membership


def check_weights(sample_weight: Any, n: int, *, may_vanish: bool = False) -> Array | None:
    """Non-negative weights of shape (n,); all zero only if they `may_vanish` (in a batch)."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    s = _real_array("sample_weight", sample_weight)
    if s.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {s.shape}; give one weight per sample, shape ({n},)."
        )
    if not np.isfinite(s).all() or (s < 0).any():
        bad = s[~np.isfinite(s) | (s < 0)][0]
        raise ValueError(
            f"sample_weight holds {bad}; weights must be finite and negative weights are not "
            "allowed: leave a sample out by the weight 0."
        )
    if not (may_vanish or s.any()):
        raise ValueError("sample_weight is zero for every sample; give some of them weight.")
    return s


def check_degrees(membership: Any, n: int, classes: Array, *, soft: bool = True) -> Array | None:
    """Degrees in [0, 1] of shape (n,), or soft labels of shape (n, K)."""
    if membership is None:
        return None
    order = None if not soft else align_columns(column_names(membership), classes)
    mu = _real_array("membership", membership)
    K = len(classes)
    if mu.shape != (n,) and not (soft and mu.shape == (n, K)):
        table = f", or ({n}, {K}) for soft labels in the order of classes_" if soft else ""
        raise ValueError(f"membership has shape {mu.shape}; degrees need ({n},){table}.")
    if not ((mu >= 0) & (mu <= 1)).all():
        bad = mu[~((mu >= 0) & (mu <= 1))][0]
        remedy = "divide them by their greatest" if bad > 1 else "clip or leave out what is not"
        raise ValueError(f"membership holds {bad}; degrees must lie in [0, 1]: {remedy}.")
    if mu.ndim == 2 and not mu.any(axis=1).all():
        row = int(np.flatnonzero(~mu.any(axis=1))[0])
        raise ValueError(
            f"membership row {row} sums to zero, so the sample belongs to no class; "
            "leave it out, or give it the sample_weight 0 and any degree."
        )
    return mu if order is None or mu.ndim == 1 else mu[:, order]


def column_names(membership: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns of soft labels in a frame; None where they have none."""
    columns = getattr(membership, "columns", None)
    if columns is None:
        return None
    names = tuple(columns)
    return None if names == tuple(range(len(names))) else names


def align_columns(names: tuple[Any, ...] | None, classes: Array) -> Array:
    """Find the column of each class in a frame of soft labels, by name.

    Columns without names are in the order of the classes. Names that are not those of the
    classes get a ValueError.
    """
    if names is None or len(names) == 1:
        return np.arange(len(classes))
    for known in (classes.tolist(), [str(label) for label in classes.tolist()]):
        if len(names) == len(known) and set(names) == set(known):
            return np.array([names.index(label) for label in known])
    raise ValueError(
        f"membership has the columns {', '.join(map(str, names[:10]))}; name them as the classes, "
        f"{', '.join(map(str, classes[:10]))}, or give an array in this order."
    )


def check_moments(moments: ClassMoments, X: Any, names: Any = None) -> None:
    """Refuse moments that are not finite: the pass over the rows was the check of X."""
    if not moments.is_finite:
        refuse_gaps(X, names)
        raise ValueError(
            "X or sample_weight is so large that squares overflow in double precision; "
            "scale the columns of X (e.g. StandardScaler) or divide the weights."
        )


def refuse_gaps(X: Any, names: Any = None) -> None:
    """Raise a ValueError that names the column where X holds NaN or infinity, if it does."""
    if hasattr(X, "indptr"):
        bad = np.flatnonzero(~np.isfinite(X.data))
        if not len(bad):
            return
        column, value = X.indices[bad[0]], X.data[bad[0]]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.sum(X)) or np.isfinite(X).all():  # the sum is quick and mostly does
                return
        row, column = np.argwhere(~np.isfinite(X))[0]
        value = X[row, column]
    name = f"column {int(column)}" if names is None else f"column {str(names[column])!r}"
    found, remedy = "infinity", "replace it"
    if np.isnan(value):
        found, remedy = "NaN", "fill it in (e.g. SimpleImputer)"
    raise ValueError(f"Input X contains {found} in {name}; {remedy} or leave the row out.")


@contextmanager
def explained(X: Any) -> Iterator[None]:
    """Name the column and the remedy where scikit-learn only names the value."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        if "could not convert string to float" in text or "could not convert" in text.lower():
            name = _text_column(X)
            if name is not None:
                raise ValueError(
                    f"{text}: X holds text in {name}; encode it as numbers (OneHotEncoder) or "
                    "leave it out."
                ) from error
        raise


def _text_column(X: Any) -> str | None:
    """Find the first column that does not hold numbers alone."""
    names = getattr(X, "columns", None)
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, j].astype(np.float64)
        except (TypeError, ValueError):
            return f"column {j}" if names is None else f"column {str(names[j])!r}"
    return None


def check_size(moments: ClassMoments) -> None:
    """Columns whose squares vanish have no variance to go by; a ridge makes them harmless."""
    spread = np.sqrt(np.diagonal(moments.covariance, axis1=1, axis2=2))
    size = np.maximum(np.abs(moments.mean), spread).max(axis=0)
    tiny = np.flatnonzero((size > 0) & (size < 1e-145))
    if len(tiny):
        raise ValueError(
            f"alpha=0 and column {tiny[0]} of X is so small that its squares vanish in double "
            "precision; scale the columns of X (e.g. StandardScaler)."
        )


def _real_array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} does not hold numbers; {error}.") from error
