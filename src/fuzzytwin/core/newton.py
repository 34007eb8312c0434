"""Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array

MOST_STEPS = 100
LEAST_GAIN = 1e-14  # what a step must promise to be followed by another


def minimise(
    objective: Callable[[Array], tuple[float, Any]],
    derivatives: Callable[[Array, Any], tuple[Array, Array]],
    z: Array,
    keep: Callable[[Array], Array] = np.asarray,
) -> Array:
    """Minimise a function from z on, by Newton's method with steps that are halved.

    ``objective(z)`` returns the value and whatever of it the derivatives need; ``derivatives``
    turns z and that into a step downhill and the gradient; ``keep`` moves points to where they are
    allowed. Of a function that is not convex, the minimum found depends on z.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.core.newton import minimise
    >>> c = np.array([3.0, 1.0])
    >>> def objective(z):  # exp(z) - c z
    ...     return float((np.exp(z) - c * z).sum()), np.exp(z)
    >>> found = minimise(objective, lambda z, e: ((c - e) / e, e - c), np.zeros(2))
    >>> np.exp(found).round(9)
    array([3., 1.])
    """
    value, state = objective(z)
    for _ in range(MOST_STEPS):
        step, gradient = derivatives(z, state)
        if -float((gradient * step).sum()) <= LEAST_GAIN:
            return keep(z + step)  # squares what error is left
        size = 1.0
        while True:
            trial = keep(z + size * step)
            after, state_after = objective(trial)
            if after <= value + 1e-4 * float((gradient * (trial - z)).sum()) or size < 1e-10:
                break
            size /= 2
        if after >= value:
            break
        z, value, state = trial, after, state_after
    return z
