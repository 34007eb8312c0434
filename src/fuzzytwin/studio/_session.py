"""What the page shows and changes, in plain Python: labels, decisions, label quality, figures."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.experiment._estimators import likeliest_other
from fuzzytwin.label_issues import LabelIssueReport
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._history import ACTIONS, Decision, History, Labels, RefusedError
from fuzzytwin.studio._journal import Journal
from fuzzytwin.twin._svc import FuzzyTwinSVC

# What a decision changes: computed again when it is next asked for.
FIGURES = ("report", "posterior", "quality", "open_rows", "rows_to_review")
MAX_PAIR_ROWS = 20_000  # that contributions are computed from
PLANE_RIDGE = 10.0


class Session:
    """The state of the studio: one table, its decisions, and the ranking of its rows.

    `find_label_issues` ranks the rows, as for `fuzzytwin label-issues`, from the labels as given.
    Each decision corrects its probabilities at once, without training.
    """

    def __init__(self, table: StudioTable, journal: Journal | None = None) -> None:
        self.table = table
        self.first_report = table.label_issues  # about the labels as given
        self.history = History(table, journal)
        self.class_names = self.history.class_names

    def snapshot(self) -> Session:
        """Return a copy that later decisions do not change, for use in a thread."""
        frozen = copy.copy(self)
        frozen.history = copy.copy(self.history)
        return frozen

    # The rows as they stand now

    @property
    def labels(self) -> Labels:
        """Return the labels after the decisions."""
        return self.history.labels

    @property
    def decisions(self) -> dict[int, Decision]:
        """Return the decision on each reviewed row, the latest last."""
        return self.labels.decisions

    def label(self, row: int) -> int:
        """Return the class of a row after the decisions."""
        return int(self.labels.codes[row])

    @cached_property
    def keys(self) -> dict[str, int]:
        """Return the keys of classes: 1 to 9 or, if all labels are whole numbers, their digits."""
        names = self.class_names
        if all(name.removeprefix("-").isdecimal() for name in names):
            return {name: code for code, name in enumerate(names) if len(name) == 1}
        return {str(code + 1): code for code in range(min(len(names), 9))}

    def find_labels(self, text: str) -> list[int]:
        """Return the classes whose name holds a text; those that begin with it come first."""
        text = text.strip().lower()
        names = [name.lower() for name in self.class_names]
        matches = [code for code, name in enumerate(names) if text in name]
        return sorted(matches, key=lambda code: (names[code] != text, names[code].find(text), code))

    # Decisions

    def decide(self, row: int, action: str, code: int | None = None) -> None:
        """Decide on a row; the decision is on the disk when this returns.

        Actions are "keep" (the given label), "relabel" (by default as the most probable other
        class) and "exclude" (train without the row). `RefusedError` if too few rows of a class
        would remain, or a value is out of range.
        """
        if self.history.decide(row, self._decision(row, action, code)):
            self._forget_figures()

    def undo(self) -> int | None:
        """Take back the last decision; return its row, or None if there is none."""
        row = self.history.undo()
        self._forget_figures()
        return row

    def redo(self) -> int | None:
        """Carry out again what was taken back; return its row, or None if there is none."""
        row = self.history.redo()
        self._forget_figures()
        return row

    def _decision(self, row: int, action: str, code: int | None) -> Decision:
        if action not in ACTIONS:
            raise RefusedError(f"action={action!r} is unknown; use one of {', '.join(ACTIONS)}.")
        if not 0 <= row < len(self.table):
            raise RefusedError(f"row={row!r} is not a row of the table.")
        given = int(self.table.codes[row])
        if action == "keep":
            return Decision(action, given)
        if action == "exclude":
            return Decision(action, self.label(row))
        target = self.alternative(row) if code is None else int(code)
        if not 0 <= target < len(self.class_names):
            raise RefusedError(f"code={code!r} is not a class.")
        return Decision("keep" if target == given else action, target)

    def _forget_figures(self) -> None:
        for name in FIGURES:
            vars(self).pop(name, None)

    # Label quality

    @cached_property
    def report(self) -> LabelIssueReport:
        """Return the report of `find_label_issues`, corrected by the reviews."""
        reviewed: list[Any] = [None] * len(self.table)
        for row, made in self.decisions.items():
            if made.action in ("keep", "relabel"):
                reviewed[row] = self.first_report.classes[made.code]
        return self.first_report.with_reviews(reviewed)

    @property
    def n_errors_left(self) -> float:
        """Return the expected number of label errors among the rows that are not reviewed."""
        return self.report.n_errors - self._errors_in_reviewed

    @property
    def n_errors_left_interval(self) -> tuple[float, float]:
        """Return the 95% interval of that number."""
        low, high = self.report.n_errors_interval
        least, most = self.first_report.n_errors_interval
        if (
            least <= self.report.n_errors <= most
        ):  # a few decisions change little for the other rows
            low = max(low, least)
            high = min(high, most)
        reviewed = self._errors_in_reviewed
        return max(low - reviewed, 0.0), max(high - reviewed, 0.0)

    @property
    def _errors_in_reviewed(self) -> float:
        return float((1.0 - self.report.label_quality)[list(self.decisions)].sum())

    @cached_property
    def posterior(self) -> Array:
        """Return the probability of each label for each row, leave-one-out.

        For a reviewed row, it is that before the review: predicted from the other rows.
        """
        posterior = self.report.posterior.copy()
        reviewed = list(self.decisions)
        posterior[reviewed] = self.first_report.posterior[reviewed]
        return posterior

    @cached_property
    def quality(self) -> Array:
        """Return the label quality: the probability of the label that each row has now."""
        return self.posterior[np.arange(len(self.table)), self.labels.codes]

    def alternative(self, row: int) -> int:
        """Return the most probable class of a row, other than its own."""
        return likeliest_other(self.posterior[row], self.label(row))

    def suggestion(self, row: int) -> int:
        """Return the class that is suggested for a row: its own, unless another is certain."""
        suggested = self.report.suggested_labels[row]
        return int(np.flatnonzero(self.report.classes == suggested)[0])

    @cached_property
    def open_rows(self) -> Array:
        """Return the rows that are not reviewed, the lowest label quality first."""
        is_open = np.ones(len(self.table), dtype=bool)
        is_open[list(self.decisions)] = False
        order = np.argsort(self.quality, kind="stable")
        return order[is_open[order]]

    @cached_property
    def rows_to_review(self) -> Array:
        """Return the label issues that are not reviewed, the lowest label quality first."""
        return self.open_rows[self.report.is_label_issue[self.open_rows]]

    # One row

    def contributions(self, row: int, code: int, other: int) -> Array | None:
        """Compute the contribution of each column towards one class instead of another at a row.

        Linear planes f of the two classes are fitted without the row and its group. The
        contribution of a column is what s = (f_code - f_other) / 2 would lose if the column had its
        mean value. It is None if too few rows of a class remain.
        """
        # s leads from -1/2 at rows of the other class to 1/2 at rows of the class.
        table = self.table
        labels = self.labels
        others = labels.used & np.isin(labels.codes, [code, other])
        others[row] = False
        if table.rows.groups is not None:
            others &= table.rows.groups != table.rows.groups[row]
        rows = np.flatnonzero(others)
        if len(rows) > MAX_PAIR_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, MAX_PAIR_ROWS).astype(int)]
        y = (labels.codes[rows] == other).astype(int)
        try:
            planes = FuzzyTwinSVC(alpha=PLANE_RIDGE).fit(
                table.scaled_X[rows], y, sample_weight=table.weight[rows]
            )
        except ValueError:
            return None
        parts = (planes.coef_[0] - planes.coef_[1]) * (table.scaled_X[row] - table.means) / 2
        return np.bincount(table.origins, parts, minlength=len(table.columns))

    def nearest(self, row: int, codes: list[int], n: int = 3) -> dict[int, list[tuple[int, float]]]:
        """Find the rows of each class that are nearest, with their distances in scaled columns."""
        distances = np.linalg.norm(self.table.scaled_X - self.table.scaled_X[row], axis=1)
        distances[row] = np.inf
        distances[~self.labels.used] = np.inf
        nearest = {}
        for code in codes:
            rows = np.flatnonzero((self.labels.codes == code) & np.isfinite(distances))
            order = rows[np.argsort(distances[rows], kind="stable")[:n]]
            nearest[code] = [(int(other), float(distances[other])) for other in order]
        return nearest

    def typical(self, column: str, code: int) -> str:
        """Describe what is typical of a column in the rows of a class: median or most frequent."""
        return self.table.typical_text(column, self.labels.used & (self.labels.codes == code))
