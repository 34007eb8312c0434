"""Doubtful labels of a table of text, gaps and categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.doubts import DoubtsReport, find_doubtful
from fuzzytwin.tables.columns import preparation
from fuzzytwin.tables.rows import Rows
from fuzzytwin.tables.training import quiet

SPREADSHEETS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".xlsx")
MOST_FOLDS = 5


@dataclass(frozen=True)
class TableDoubts:
    """A report on the labels of a file, and what it is about.

    Parameters
    ----------
    data, target : str
        The file and its column of labels.
    rows : Rows
        Its labelled rows.
    report : DoubtsReport
        One entry for each of them.
    """

    data: str
    target: str | None
    rows: Rows
    report: DoubtsReport

    @property
    def numbers(self) -> Array:
        """Return the number of each row in the file."""
        return row_numbers(self.data, self.rows)

    def frame(self) -> Any:
        """Return a frame of all rows, the most doubtful first."""
        frame = self.report.to_frame()
        frame.insert(0, "row", self.numbers)
        frame["degree"] = frame["degree"].round(4)
        return frame.iloc[self.report.order].reset_index(drop=True)


def table_doubts(data: str, target: str | None, rows: Rows, model: Any = None) -> TableDoubts:
    """Find doubtful labels among the rows of a file.

    Parameters
    ----------
    data, target, rows
        The file, its column of labels and its labelled rows.
    model : Pipeline, default=None
        A trained model. Its preparation of the columns is used; where rows come in groups, which
        would vouch for each other, so is its classifier, out of folds of whole groups.
    """
    sparse = rows.schema.zero_based is not None
    prepare: Any = MaxAbsScaler() if sparse else preparation(rows.schema.columns)
    options: dict[str, Any] = {}
    with quiet():
        if model is not None and rows.groups is not None:
            folds = min(MOST_FOLDS, len(np.unique(rows.groups)))
            splits = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
            options["estimator"] = Pipeline([("prepare", prepare), ("model", clone(model[-1]))])
            options["cv"] = list(splits.split(rows.X, rows.y, rows.groups))
            X = rows.X
        else:
            X = prepare.fit_transform(rows.X) if model is None else model[:-1].transform(rows.X)
        report = find_doubtful(
            X, rows.y, sample_weight=rows.weight, ids=rows.names, id_name=rows.id or "id", **options
        )
    return TableDoubts(data, target, rows, report)


def row_numbers(data: str, rows: Rows) -> Array:
    """Count rows as a spreadsheet shows them, the header being row 1; or from 1 on."""
    start = 2 if numbered_with_header(data) else 1
    return np.asarray(getattr(rows.X, "index", np.arange(len(rows.y)))) + start


def numbered_with_header(data: str) -> bool:
    """Return whether a file has a header that a spreadsheet shows as row 1."""
    return data.lower().endswith(SPREADSHEETS)
