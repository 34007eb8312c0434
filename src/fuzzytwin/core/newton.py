"""Newton's method with step halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array

MAX_STEPS = 100
MIN_GAIN = 1e-14  # iterations stop when the predicted decrease is at most this


def minimise(
    objective: Callable[[Array], tuple[float, Any]],
    derivatives: Callable[[Array, Any], tuple[Array, Array]],
    z: Array,
    project: Callable[[Array], Array] = np.asarray,
) -> Array:
    """Minimise a function by Newton's method, with steps halved until it decreases.

    Parameters
    ----------
    objective : callable
        ``objective(z)`` returns the value and a state that the derivatives need.
    derivatives : callable
        ``derivatives(z, state)`` returns the Newton step and the gradient.
    z : ndarray
        The start. If the function is not convex, the minimum depends on it.
    project : callable, default=np.asarray
        Projects points onto the feasible set.

    Returns
    -------
    ndarray
        The minimum.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.newton import minimise
    >>> c = np.array([3.0, 1.0])
    >>> def objective(z):  # exp(z) - c z
    ...     return float((np.exp(z) - c * z).sum()), np.exp(z)
    >>> z = minimise(objective, lambda z, e: ((c - e) / e, e - c), np.zeros(2))
    >>> np.exp(z).round(9)
    array([3., 1.])
    """
    value, state = objective(z)
    for _ in range(MAX_STEPS):
        step, gradient = derivatives(z, state)
        if -float((gradient * step).sum()) <= MIN_GAIN:
            return project(z + step)  # converges quadratically: the last step is the most accurate
        size = 1.0
        while True:
            trial = project(z + size * step)
            new_value, new_state = objective(trial)
            if new_value <= value + 1e-4 * float((gradient * (trial - z)).sum()) or size < 1e-10:
                break
            size /= 2
        if new_value >= value:
            break
        z = trial
        value = new_value
        state = new_state
    return z
