"""DoubtsDisplay; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.text import literal
from fuzzytwin.doubts.find import find_doubtful
from fuzzytwin.doubts.report import DoubtsReport
from fuzzytwin.explain.display import COLORS, DOUBT, Display, open_frame, short

MOST_CLASSES = 12
STRIP = 0.85  # height of a degree of 1; strips are 1 apart


class DoubtsDisplay(Display):
    """Degrees of all rows in their labels, class by class, the doubtful ones marked.

    One strip per class. From left to right its rows, the most doubtful first; the height is the
    degree to which the label is right. Doubtful rows are red, the most doubtful ones are named.

    Use `from_report` or `from_estimator` to make one.

    Parameters
    ----------
    report : DoubtsReport
        What to draw.
    n_named : int, default=5
        How many rows to name.

    Attributes
    ----------
    classes_ : ndarray
        The classes drawn, from top to bottom: of many the 12 largest.
    ax_, figure_
        Where `plot` drew.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.doubts.display import DoubtsDisplay
    >>> from fuzzytwin.doubts.find import find_doubtful
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[:2] = 1 - y[:2]
    >>> DoubtsDisplay.from_report(find_doubtful(X, y), n_named=2).classes_
    array([0, 1])
    """

    def __init__(self, report: DoubtsReport, n_named: int = 5) -> None:
        self.report, self.n_named = report, n_named

    @classmethod
    def from_report(
        cls, report: DoubtsReport, *, n_named: int = 5, ax: Any = None
    ) -> DoubtsDisplay:
        """Draw a report.

        Parameters
        ----------
        report : DoubtsReport
            What `find_doubtful` returned.
        n_named : int, default=5
            How many rows to name.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        DoubtsDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin.doubts.display import DoubtsDisplay
        >>> from fuzzytwin.doubts.find import find_doubtful
        >>> display = DoubtsDisplay.from_report(find_doubtful(*load_iris(return_X_y=True)))
        >>> display.classes_.tolist()
        [0, 1, 2]
        """
        return cls(report, n_named).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_named: int = 5, ax: Any = None, **options: Any
    ) -> DoubtsDisplay:
        """Find doubtful rows and draw them.

        Parameters
        ----------
        estimator, X, y
            As for `find_doubtful`.
        n_named, ax
            As for `from_report`.
        **options
            Further arguments of `find_doubtful`.

        Returns
        -------
        DoubtsDisplay
        """
        return cls.from_report(find_doubtful(X, y, estimator, **options), n_named=n_named, ax=ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 7, 1.1 + 0.95 * min(len(self.report.classes), MOST_CLASSES)

    def _draw(self, ax: Any) -> None:
        report = self.report
        sizes = np.bincount(report.codes, minlength=len(report.classes))
        shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])
        self.classes_ = report.classes[shown]
        numbers = np.arange(len(report.codes))
        names = next(n for n in (report.ids, report.index, numbers) if n is not None)
        named = set(report.order[: self.n_named].tolist())
        ticks = []
        for place, k in enumerate(shown.tolist()):
            rows = report.order[report.codes[report.order] == k]
            flags, bottom, color = report.doubtful[rows], -float(place), COLORS[k % len(COLORS)]
            at = (np.arange(len(rows)) + 0.5) / len(rows)
            height = bottom + STRIP * report.degrees[rows]
            ax.fill_between(at, height, bottom, step="mid", color=color, alpha=0.35, linewidth=0)
            ax.plot(at[flags], height[flags], ".", color=DOUBT, markersize=5, clip_on=False)
            ax.axhline(bottom, color="0.6", linewidth=0.8)
            words = [literal(names[i]) for i in rows[flags] if int(i) in named]
            if words:
                text = f"most doubtful: {', '.join(words)}"
                ax.text(0.99, bottom + 0.08, text, color=DOUBT, fontsize=8, ha="right")
            count = f"{int(flags.sum()):,} of {len(rows):,} doubtful"
            ticks.append(f"{short(report.classes[k], 20)}\n{count}")
        ax.set_yticks(0.5 * STRIP - np.arange(len(shown)), ticks)
        ax.set(xlim=(0, 1), ylim=(0.95 - len(shown), 1.0))
        ax.set_xlabel("share of the rows of a class, the most doubtful first")
        number = "the columns do not tell the classes apart"
        if report.tells:
            low, high = report.n_wrong_interval
            number = f"about {report.n_wrong:,.0f} ({low:,.0f} to {high:,.0f}) "
            number += f"of {len(report.codes):,} are wrong"
        ax.set_title(f"Degree to which labels are right; {number}", fontsize=10)
        open_frame(ax)
        ax.spines["bottom"].set_visible(False)
