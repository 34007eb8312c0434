"""Table III: the ten UCI tables, under both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from reproduction.cache import Cell, Records
from reproduction.methods import METHODS, make_methods
from reproduction.preprocessing import uci_preprocessor
from reproduction.protocol import (
    best_point,
    honest_fold,
    load_task,
    optimistic_fold,
    outer_fold,
)
from reproduction.published import TABLE_III
from reproduction.ranks import RankComparison, compare_ranks
from reproduction.scale import Scale


def cells(scale: Scale, methods: Sequence[str] = METHODS) -> Iterator[Cell]:
    """List the cells of this experiment."""
    for table in scale.tables:
        for method in methods:
            for fold in range(scale.folds):
                for seed in range(scale.repeats):
                    yield honest_cell(scale, table, method, seed, fold)
                yield optimistic_cell(scale, table, method, fold)


def honest_cell(scale: Scale, table: str, method: str, seed: int, fold: int) -> Cell:
    """Make the cell of one outer fold, everything tuned inside."""
    return Cell("uci.honest", {
        "table": table, "method": method, "seed": seed, "fold": fold,
        "folds": scale.folds, "inner": scale.inner, "quick": scale.quick,
    })  # fmt: skip


def optimistic_cell(scale: Scale, table: str, method: str, fold: int) -> Cell:
    """Make the cell of one fold, scored at all points of the grid."""
    return Cell("uci.optimistic", {
        "table": table, "method": method, "fold": fold,
        "folds": scale.folds, "quick": scale.quick,
    })  # fmt: skip


def honest(
    table: str, method: str, seed: int, fold: int, folds: int, inner: int, quick: bool
) -> dict[str, Any]:
    """Count the hits of a model that was tuned and fitted without the test rows."""
    X, y = load_task(table)
    train, test = outer_fold(y, folds, seed, fold)
    return honest_fold(
        make_methods(quick)[method], X, y, train, test,
        prepare=uci_preprocessor(table), inner=inner, seed=seed,
    )  # fmt: skip


def optimistic(table: str, method: str, fold: int, folds: int, quick: bool) -> dict[str, Any]:
    """Count the hits of every grid point on the test rows."""
    X, y = load_task(table)
    train, test = outer_fold(y, folds, 0, fold)
    return optimistic_fold(
        make_methods(quick)[method], X, y, train, test, prepare=uci_preprocessor(table)
    )


def records(
    scale: Scale, result: Callable[[Cell], Any], methods: Sequence[str] = METHODS
) -> Records:
    """List mean and standard deviation over folds, in percent, beside the paper's."""
    rows = []
    for table in scale.tables:
        for method in methods:
            done = [
                result(honest_cell(scale, table, method, seed, fold))
                for seed in range(scale.repeats)
                for fold in range(scale.folds)
            ]
            found = [d["hits"] / d["rows"] for d in done]
            lucky = best_point(
                [result(optimistic_cell(scale, table, method, f)) for f in range(scale.folds)]
            )
            paper = TABLE_III[table].get(paper_name(method), (None, None))
            rows.append({
                "table": table, "method": method,
                "honest": 100 * float(np.mean(found)), "honest_std": 100 * float(np.std(found)),
                "optimistic": 100 * float(np.mean(lucky)),
                "optimistic_std": 100 * float(np.std(lucky)),
                "paper": paper[0], "paper_std": paper[1],
            })  # fmt: skip
    return rows


def paper_name(method: str) -> str:
    """Find the column of Table III for a method; the paper's FLST-SVM is M2."""
    return "FLST-SVM" if method == "FLST-M2" else method


def comparison(rows: Records, what: str, methods: Sequence[str]) -> RankComparison:
    """Run Friedman's and Nemenyi's tests on one of the columns of `records`."""
    scores = {method: [row[what] for row in rows if row["method"] == method] for method in methods}
    return compare_ranks(scores)
