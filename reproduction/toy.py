"""Table I and Figure 4: two crossing lines of points, with degrees that come with the data.

The paper's 121 points were drawn by hand and are not published. These are similar: several draws
of `make_xor`, with the crossing off the middle, and in the middle. There both classes have the same
mean, and a least-squares twin SVM cannot separate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

from fuzzytwin._utils.types import Array
from fuzzytwin.classics import GEPSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
from fuzzytwin.datasets import make_xor
from fuzzytwin.twin._svc import FuzzyTwinSVC
from reproduction.cache import Cell, Records
from reproduction.methods import PAPER_METHODS, make_methods, quiet
from reproduction.protocol import best_point, honest_fold, optimistic_fold
from reproduction.scale import Scale

NOISE = 0.15
CROSSINGS = (0.3, 0.5)
PROTOCOLS = ("fixed", "honest", "optimistic")


def cells(scale: Scale) -> Iterator[Cell]:
    """List the cells of this experiment."""
    for crossing in CROSSINGS:
        for protocol in PROTOCOLS:
            for method in PAPER_METHODS:
                for draw in range(scale.toy_draws):
                    yield cell(scale, crossing, protocol, method, draw)


def cell(scale: Scale, crossing: float, protocol: str, method: str, draw: int) -> Cell:
    """Make the cell of one draw, method and protocol."""
    return Cell("toy.run", {
        "protocol": protocol, "method": method, "crossing": crossing, "draw": draw,
        "folds": scale.folds, "inner": scale.inner, "quick": scale.quick,
    })  # fmt: skip


def draw_points(crossing: float, draw: int) -> tuple[Array, Array, Array]:
    """Draw points, labels 0 / 1 and degrees."""
    X, y, degrees = make_xor(noise=NOISE, crossing=crossing, random_state=draw)
    return X, (y == 1).astype(int), degrees


def run(
    protocol: str, method: str, crossing: float, draw: int, folds: int, inner: int, quick: bool
) -> dict[str, Any]:
    """Measure the accuracy on each fold."""
    X, y, degrees = draw_points(crossing, draw)
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=draw).split(X, y))
    tuned = make_methods(quick)[method]
    scores = []
    if protocol == "optimistic":
        done = [optimistic_fold(tuned, X, y, *split, degrees=degrees) for split in splits]
        return {"scores": best_point(done)}
    for train, test in splits:
        if protocol == "honest":
            found = honest_fold(tuned, X, y, train, test, inner=inner, seed=draw, degrees=degrees)
            scores.append(found["hits"] / found["rows"])
        else:
            given = {"membership": degrees[train]} if method.startswith("FLST") else {}
            with quiet():
                model = at_one(method).fit(X[train], y[train], **given)
            scores.append(float(np.mean(model.predict(X[test]) == y[test])))
    return {"scores": scores}


def at_one(method: str, large: bool = False) -> Any:
    """Make the classifier with every penalty at 1, which the paper uses here and for NDC."""
    return {
        "SVM": LinearSVC(random_state=0) if large else SVC(kernel="linear"),
        "LST-SVM": LeastSquaresTwinSVC(),
        "T-SVM": TwinSVC(tol=1e-4),
        "P-SVM": ProximalSVC(),
        "GEP-SVM": GEPSVC(alpha=1e-3),
        "FLST-M1": FuzzyTwinSVC(alpha=0.0, membership="center"),
        "FLST-M2": FuzzyTwinSVC(planes="fuzzy", alpha=0.0, membership="center"),
    }[method]


def records(scale: Scale, result: Callable[[Cell], Any]) -> Records:
    """List mean and deviation over draws, for each crossing, method and protocol, in percent."""
    from reproduction.published import TABLE_I

    rows = []
    for crossing in CROSSINGS:
        for method in PAPER_METHODS:
            row: dict[str, Any] = {"crossing": crossing, "method": method}
            for protocol in PROTOCOLS:
                means = [
                    np.mean(result(cell(scale, crossing, protocol, method, draw))["scores"])
                    for draw in range(scale.toy_draws)
                ]
                row[protocol] = 100 * float(np.mean(means))
                row[f"{protocol}_std"] = 100 * float(np.std(means))
            row["paper"] = TABLE_I.get("FLST-SVM" if method == "FLST-M2" else method)
            rows.append(row)
    return rows
