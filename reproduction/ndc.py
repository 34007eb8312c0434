"""Tables V and VI: normally distributed clusters, 1,000 to 1,000,000 rows, and how long it takes.

The paper sets every penalty to 1 here; that is the column "fixed", whose fits are timed, one
at a time and on one thread. The honest column tunes on training rows (the first 10,000 where
there are more) and fits on all of them; the optimistic one takes the point of the grid that
does best on the test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import clone

from fuzzytwin._utils.types import Array
from fuzzytwin.datasets import make_ndc
from reproduction.cache import Cell, Records
from reproduction.methods import PAPER_METHODS, make_methods, quiet
from reproduction.published import TABLE_V, TABLE_VI
from reproduction.scale import Scale
from reproduction.toy import PROTOCOLS, at_one
from reproduction.uci import paper_name

MOST_TUNED = 10_000  # training rows to tune on
SPREAD = 0.5


def cells(scale: Scale) -> Iterator[Cell]:
    """List the cells of this experiment, the largest data first."""
    for size in reversed(scale.sizes):
        for protocol in PROTOCOLS:
            for draw in range(draws(scale, size)):
                for method in PAPER_METHODS:
                    yield cell(scale, size, protocol, method, draw)


def draws(scale: Scale, size: str) -> int:
    """Choose how often data of a size are drawn: the fewer test rows, the more often."""
    return 1 if size == "1m" else scale.ndc_draws


def cell(scale: Scale, size: str, protocol: str, method: str, draw: int) -> Cell:
    """Make the cell of one data set, method and protocol; the million rows are held once."""
    return Cell("ndc.run", {
        "protocol": protocol, "size": size, "method": method, "draw": draw,
        "inner": scale.inner, "quick": scale.quick,
    }, alone=protocol == "fixed" or size == "1m")  # fmt: skip


@lru_cache(maxsize=1)
def draw_rows(size: str, draw: int) -> tuple[Array, Array, Array, Array]:
    """Draw training rows and labels 0 / 1, and test rows and labels."""
    train, test = TABLE_V[size]
    X, y = make_ndc(train + test, spread=SPREAD, random_state=draw)
    y = (y == 1).astype(int)
    return X[:train], y[:train], X[train:], y[train:]


def run(
    protocol: str, size: str, method: str, draw: int, inner: int, quick: bool
) -> dict[str, Any]:
    """Count the hits on the test rows; with fixed parameters also time the fit."""
    A, a, B, b = draw_rows(size, draw)
    tuned = make_methods(quick, large=True)[method]
    if protocol == "optimistic":
        return {"hits": int(tuned.hits(A, a, B, b).max()), "rows": len(b)}
    with quiet():
        if protocol == "honest":
            model, chosen = tuned.tune(A[:MOST_TUNED], a[:MOST_TUNED], inner, draw)
            if len(A) > MOST_TUNED:
                model = clone(model).fit(A, a)
            return {
                "hits": int((model.predict(B) == b).sum()), "rows": len(b), "chosen": chosen
            }  # fmt: skip
        seconds = []
        for _ in range(1 if size == "1m" else 3):
            model = at_one(method, large=True)
            start = time.process_time()  # one thread: other work does not count
            model.fit(A, a)
            seconds.append(time.process_time() - start)
    return {
        "hits": int((model.predict(B) == b).sum()), "rows": len(b), "seconds": min(seconds)
    }  # fmt: skip


def records(scale: Scale, result: Callable[[Cell], Any]) -> Records:
    """List accuracy in percent under each protocol, and seconds, for each size and method."""
    rows = []
    for size in scale.sizes:
        for method in PAPER_METHODS:
            row: dict[str, Any] = {"size": size, "method": method}
            for protocol in PROTOCOLS:
                done = [
                    result(cell(scale, size, protocol, method, draw))
                    for draw in range(draws(scale, size))
                ]
                found = [d["hits"] / d["rows"] for d in done]
                row[protocol] = 100 * float(np.mean(found))
                row[f"{protocol}_std"] = 100 * float(np.std(found))
                if protocol == "fixed":
                    row["seconds"] = float(np.mean([d["seconds"] for d in done]))
            row["paper"] = TABLE_VI[size].get(paper_name(method))
            rows.append(row)
    return rows
