"""The hinge-loss problem inside `TwinSVC`, given to LIBLINEAR."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_blocks


def whitened_rows(
    X: Array, chosen: Array, origin: Array, offset: Array, T: Array, constant: float
) -> Array:
    """Chosen rows as ``[(x - origin - offset) T, constant]``, and a row of zeros behind them."""
    d = X.shape[1]
    rows = np.full((int(chosen.sum()) + 1, d + 1), constant)
    done = 0
    for here, block in row_blocks(X):
        part = block[chosen[here]]
        part -= origin
        part -= offset
        rows[done : done + len(part), :d] = part @ T
        done += len(part)
    rows[done] = 0.0
    return rows


def minimise_hinge(
    rows: Array, price: Array, tol: float, max_iter: int, random: Any
) -> tuple[Array, int]:
    """Minimise 1/2 |u|^2 + sum price max(0, 1 + r.u) over the rows r but the last, a zero.

    Also the number of passes. Where prices are high, what is left of the slack costs more
    than |u|^2 does, so the length of u is found exactly.
    """
    labels = np.zeros(len(rows), dtype=np.int8)
    labels[-1] = 1
    solver = LinearSVC(
        loss="hinge", dual=True, fit_intercept=False, tol=tol, max_iter=max_iter,
        random_state=random,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller gives its own
        solver.fit(rows, labels, np.append(price, price.max()))
    u = solver.coef_[0]
    return _best_length(rows[:-1] @ u, price, u @ u) * u, int(solver.n_iter_)


def _best_length(f: Array, price: Array, square: float) -> float:
    """Minimise t^2/2 square + sum price max(0, 1 + t f) over t >= 0.

    Half the slope of it is known between any two of the points t = -1/f where a term ends.
    """
    if square == 0:
        return 1.0
    ending = f < 0
    ends = -1 / f[ending]
    order = np.argsort(ends, kind="stable")
    pull = -(price * f)
    # behind[j]: pull of the terms that have not ended before the j-th end
    behind = np.append(np.cumsum(pull[ending][order][::-1])[::-1], 0.0) + pull[~ending].sum()
    best = behind / square
    upto = np.append(ends[order], np.inf)
    j = int(np.argmax(best <= upto))
    return float(max(best[j], upto[j - 1] if j else 0.0))
