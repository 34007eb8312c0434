"""LabelIssueDisplay: the label quality of all rows, class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.text import literal
from fuzzytwin._utils.types import Array
from fuzzytwin.label_issues._find import find_label_issues
from fuzzytwin.label_issues._report import LabelIssueReport, errors_in_words
from fuzzytwin.plot._display import COLORS, ISSUE_COLOR, Display, open_frame, short

MAX_CLASSES = 12
STRIP_HEIGHT = 0.85  # for a label quality of 1, if the strips are 1 apart


class LabelIssueDisplay(Display):
    """Label quality of all rows, class by class, with the label issues marked.

    There is a strip for each class. Its rows are sorted by label quality, which is the height of
    the strip. Label issues are red, and the worst ones are named.

    Use `from_report` or `from_estimator` to make one.

    Parameters
    ----------
    report : LabelIssueReport
        Result of `find_label_issues`.
    n_named : int, default=5
        Number of rows to name.

    Attributes
    ----------
    classes_ : ndarray
        The classes from top to bottom: the 12 largest, if there are more.
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.label_issues import LabelIssueDisplay, find_label_issues
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[:2] = 1 - y[:2]
    >>> LabelIssueDisplay.from_report(find_label_issues(X, y), n_named=2).classes_
    array([0, 1])
    """

    def __init__(self, report: LabelIssueReport, n_named: int = 5) -> None:
        self.report = report
        self.n_named = n_named

    @classmethod
    def from_report(
        cls, report: LabelIssueReport, *, n_named: int = 5, ax: Any = None
    ) -> LabelIssueDisplay:
        """Draw a report.

        Parameters
        ----------
        report : LabelIssueReport
            Result of `find_label_issues`.
        n_named : int, default=5
            Number of rows to name.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        LabelIssueDisplay
        """
        return cls(report, n_named).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_named: int = 5, ax: Any = None, **options: Any
    ) -> LabelIssueDisplay:
        """Find label issues and draw them.

        Parameters
        ----------
        estimator, X, y
            As for `find_label_issues`.
        n_named, ax
            As for `from_report`.
        **options
            Further arguments of `find_label_issues`.

        Returns
        -------
        LabelIssueDisplay
        """
        report = find_label_issues(X, y, estimator=estimator, **options)
        return cls.from_report(report, n_named=n_named, ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.1 + 0.95 * min(len(self.report.classes), MAX_CLASSES)

    def _draw(self, ax: Any) -> None:
        report = self.report
        sizes = np.bincount(report.codes, minlength=len(report.classes))
        shown = np.sort(np.argsort(-sizes, kind="stable")[:MAX_CLASSES])
        self.classes_ = report.classes[shown]
        order = np.argsort(report.label_quality, kind="stable")
        worst = set(order[: self.n_named].tolist())
        tick_labels = []
        for place, k in enumerate(shown.tolist()):
            rows = order[report.codes[order] == k]
            self._draw_strip(ax, rows, worst, -float(place), COLORS[k % len(COLORS)])
            n_issues = f"{int(report.is_label_issue[rows].sum()):,} of {len(rows):,}"
            tick_labels.append(f"{short(report.classes[k], 20)}\n{n_issues} label issues")
        ax.set_yticks(0.5 * STRIP_HEIGHT - np.arange(len(shown)), tick_labels)
        ax.set(xlim=(0, 1), ylim=(0.95 - len(shown), 1.0))
        ax.set_xlabel("share of the rows of a class, lowest label quality first")
        number = "the features do not separate the classes"
        if report.separable:
            number = errors_in_words(report.n_errors, report.n_errors_interval).rstrip(".")
        ax.set_title(f"Label quality: {number[0].lower()}{number[1:]}", fontsize=10)
        open_frame(ax)
        ax.spines["bottom"].set_visible(False)

    def _draw_strip(self, ax: Any, rows: Array, worst: set[int], bottom: float, color: str) -> None:
        """Draw the rows of a class, of which the worst label issues are named."""
        report = self.report
        is_issue = report.is_label_issue[rows]
        x = (np.arange(len(rows)) + 0.5) / len(rows)
        height = bottom + STRIP_HEIGHT * report.label_quality[rows]
        ax.fill_between(x, height, bottom, step="mid", color=color, alpha=0.35, linewidth=0)
        ax.plot(x[is_issue], height[is_issue], ".", color=ISSUE_COLOR, markersize=5, clip_on=False)
        ax.axhline(bottom, color="0.6", linewidth=0.8)
        names = [literal(report.row_names[i]) for i in rows[is_issue].tolist() if i in worst]
        if names:
            text = f"lowest quality: {', '.join(names)}"
            ax.text(0.99, bottom + 0.08, text, color=ISSUE_COLOR, fontsize=8, ha="right")
