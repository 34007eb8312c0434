"""Two studies that the paper should have had.

Noise: a share of the training labels is flipped, or of the training rows made outliers.
Test rows are never touched, and methods are tuned on the noisy training rows, which is all
that users would have. What do memberships gain?

Soft labels: each training label is wrong with a probability that is known for each sample.
Is it worth passing them to fit?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.twin._svc import FuzzyTwinSVC
from reproduction.cache import Cell, Records
from reproduction.methods import Method, Search, make_methods
from reproduction.preprocessing import uci_preprocessor
from reproduction.protocol import honest_fold, load_task, outer_fold, prepared
from reproduction.scale import Scale

KINDS = ("flips", "outliers")
MEMBERSHIPS = ("center", "hyperplane", "neighbor")
STRATEGIES = ("LinearSVC", "LST-SVM", "FLST-M1", "none", *MEMBERSHIPS, "M1+")
AS_WEIGHTS = "degrees as weights"  # of both terms, as sample weights
SOFT_STRATEGIES = ("true labels", "hard", "degrees", AS_WEIGHTS, "soft")
FAR = 5.0  # standard deviations


def cells(scale: Scale) -> Iterator[Cell]:
    """List the cells of both studies."""
    for table in scale.noise_tables:
        for kind, share in levels(scale):
            for strategy in STRATEGIES:
                for fold in range(scale.noise_folds):
                    yield noise_cell(scale, table, kind, share, strategy, fold)
    for table in scale.tables:
        for share in scale.shares:
            yield soft_cell(scale, table, share)


def levels(scale: Scale) -> list[tuple[str, float]]:
    """List kinds and shares of noise; without noise the kind does not matter."""
    return [("none", 0.0)] + [(kind, s) for kind in KINDS for s in scale.shares if s > 0]


def noise_cell(scale: Scale, table: str, kind: str, share: float, strategy: str, fold: int) -> Cell:
    """Make the cell of one outer fold of one table with one kind of noise."""
    return Cell("noise.spoilt", {
        "table": table, "kind": kind, "share": share, "strategy": strategy, "fold": fold,
        "folds": scale.noise_folds, "inner": scale.inner, "quick": scale.quick,
    })  # fmt: skip


def soft_cell(scale: Scale, table: str, share: float) -> Cell:
    """Make the cell of all folds and strategies of one table; they take no time."""
    return Cell("noise.uncertain", {
        "table": table, "share": share, "folds": scale.folds, "repeats": scale.repeats,
    })  # fmt: skip


def strategies(quick: bool) -> dict[str, Method]:
    """List the methods that are compared; from "none" on all have the ridge and both rules."""
    every = make_methods(quick)
    library = every["M1+"]
    assert isinstance(library, Search)
    own = {}
    for name in STRATEGIES[3:-1]:
        options = {**library.options, "memberships": (None if name == "none" else name,)}
        own[name] = Search(options, library.powers, library.defaults)
    # LIBLINEAR: with outliers LIBSVM takes minutes.
    svm = make_methods(quick, large=True)["SVM"]
    plain = {name: every[name] for name in ("LST-SVM", "FLST-M1")}
    return {"LinearSVC": svm, **plain, **own, "M1+": library}


def spoilt(
    table: str,
    kind: str,
    share: float,
    strategy: str,
    fold: int,
    folds: int,
    inner: int,
    quick: bool,
) -> dict[str, Any]:
    """Count hits on clean test rows after training on noisy ones."""
    X, y = load_task(table)
    train, test = outer_fold(y, folds, 0, fold)
    spoil = partial(spoil_rows, kind=kind, share=share, seed=fold)
    return honest_fold(
        strategies(quick)[strategy], X, y, train, test,
        prepare=uci_preprocessor(table), inner=inner, spoil=spoil,
    )  # fmt: skip


def spoil_rows(A: Array, a: Array, kind: str, share: float, seed: int) -> tuple[Array, Array]:
    """Exchange a share of the labels, or move a share of the rows far off, in copies."""
    rng = np.random.default_rng([seed, 7])
    # A greater share contains the smaller ones: levels differ only by their share.
    chosen = rng.permutation(len(a))[: round(share * len(a))]
    A, a = A.copy(), a.copy()
    if kind == "flips":
        a[chosen] = 1 - a[chosen]
    elif kind == "outliers":
        A[chosen] += FAR * rng.standard_normal((len(a), A.shape[1]))[chosen]
    return A, a


def uncertain(table: str, share: float, folds: int, repeats: int) -> dict[str, list[float]]:
    """Measure each strategy for labels whose uncertainty is known, fold by fold.

    Sample i is wrong with probability e_i, uniform between 0 and twice the share.
    """
    X, y = load_task(table)
    scores: dict[str, list[float]] = {strategy: [] for strategy in SOFT_STRATEGIES}
    for seed in range(repeats):
        for fold in range(folds):
            train, test = outer_fold(y, folds, seed, fold)
            A, B = prepared(uci_preprocessor(table), X, train, test)
            rng = np.random.default_rng([seed, fold, 11])
            risk = 2 * share * rng.random(len(train))
            wrong = rng.random(len(train)) < risk
            label = np.where(wrong, 1 - y[train], y[train])
            soft = np.where(label[:, None] == [0, 1], 1 - risk[:, None], risk[:, None])
            for strategy, labels, given in (
                ("true labels", y[train], {}),
                ("hard", label, {}),
                ("degrees", label, {"membership": 1 - risk}),
                (AS_WEIGHTS, label, {"sample_weight": 1 - risk}),
                ("soft", label, {"membership": soft}),
            ):
                model = FuzzyTwinSVC(alpha=10.0).fit(A, labels, **given)
                scores[strategy].append(float(np.mean(model.predict(B) == y[test])))
    return scores


def records(scale: Scale, result: Callable[[Cell], Any]) -> Records:
    """List accuracy in percent for each table, kind and share of noise, and method."""
    rows = []
    for table in scale.noise_tables:
        for kind, share in levels(scale):
            for strategy in STRATEGIES:
                done = [
                    result(noise_cell(scale, table, kind, share, strategy, fold))
                    for fold in range(scale.noise_folds)
                ]
                hits, n = (sum(d[what] for d in done) for what in ("hits", "rows"))
                rows.append({
                    "table": table, "kind": kind, "share": share, "strategy": strategy,
                    "accuracy": 100 * hits / n,
                })  # fmt: skip
    return rows


def soft_records(scale: Scale, result: Callable[[Cell], Any]) -> Records:
    """List accuracy in percent for each table, share of wrong labels and strategy."""
    return [
        {
            "table": table,
            "share": share,
            "strategy": strategy,
            "accuracy": 100 * float(np.mean(scores)),
        }
        for table in scale.tables
        for share in scale.shares
        for strategy, scores in result(soft_cell(scale, table, share)).items()
    ]
