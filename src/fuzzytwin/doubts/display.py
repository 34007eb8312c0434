"""DoubtsDisplay; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.text import literal
from fuzzytwin.doubts.find import find_doubtful
from fuzzytwin.doubts.report import DoubtsReport
from fuzzytwin.plot.colors import COLORS, DOUBT

MOST_CLASSES = 12


@public_in("fuzzytwin.doubts")
class DoubtsDisplay:
    """Degrees of all rows in their labels, class by class, the doubtful ones marked.

    One line per class. From left to right its rows, the most doubtful first; the height is the
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
    axes_ : ndarray of Axes
        One for each class drawn: the 12 largest.
    figure_ : Figure
        Where `plot` drew.
    """

    def __init__(self, report: DoubtsReport, n_named: int = 5) -> None:
        self.report, self.n_named = report, n_named

    @classmethod
    def from_report(cls, report: DoubtsReport, *, n_named: int = 5, figure: Any = None) -> Any:
        """Draw a report.

        Parameters
        ----------
        report : DoubtsReport
            What `find_doubtful` returned.
        n_named : int, default=5
            How many rows to name.
        figure : matplotlib Figure, default=None
            Where to draw; by default a new one.

        Returns
        -------
        DoubtsDisplay

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin.doubts import DoubtsDisplay, find_doubtful
        >>> display = DoubtsDisplay.from_report(find_doubtful(*load_iris(return_X_y=True)))
        >>> len(display.axes_)
        3
        """
        return cls(report, n_named).plot(figure=figure)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_named: int = 5, figure: Any = None, **options: Any
    ) -> Any:
        """Find doubtful rows and draw them.

        Parameters
        ----------
        estimator, X, y
            As for `find_doubtful`.
        n_named, figure
            As for `from_report`.
        **options
            Further arguments of `find_doubtful`.

        Returns
        -------
        DoubtsDisplay
        """
        return cls.from_report(
            find_doubtful(X, y, estimator, **options), n_named=n_named, figure=figure
        )

    def plot(self, figure: Any = None) -> DoubtsDisplay:
        """Draw on `figure`, or on a new one.

        Returns
        -------
        self
        """
        report = self.report
        sizes = np.bincount(report.codes, minlength=len(report.classes))
        shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])
        if figure is None:
            plt = need("matplotlib.pyplot", "plot", "a plot")
            figure = plt.figure(figsize=(7, 0.8 + 1.3 * len(shown)), layout="constrained")
        axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
        named = set(report.order[: self.n_named].tolist())
        for k, ax in zip(shown, axes, strict=True):
            rows = report.order[report.codes[report.order] == k]
            degrees, flags = report.degrees[rows], report.doubtful[rows]
            at = np.arange(1, len(rows) + 1)
            ax.fill_between(at, degrees, color=COLORS[int(k) % len(COLORS)], alpha=0.3, linewidth=0)
            ax.plot(at, degrees, color=COLORS[int(k) % len(COLORS)], linewidth=1.2)
            ax.plot(at[flags], degrees[flags], ".", color=DOUBT, markersize=5)
            words = [literal(self._name(i)) for i in rows[flags] if int(i) in named]
            count = f"{int(flags.sum()):,} of {len(rows):,} doubtful"
            ax.text(
                1.0, 0.08, f"{count}: {', '.join(words)}" if words else count, fontsize=8,
                color=DOUBT if flags.any() else "0.4", ha="right", transform=ax.transAxes,
            )  # fmt: skip
            label = str(report.classes[k])
            short = label if len(label) <= 16 else f"{label[:13]}..."
            ax.set_ylabel(literal(short), rotation=0, ha="right", va="center")
            ax.set(ylim=(0, 1.05), xlim=(0.5, max(len(rows), 2) + 0.5), yticks=(0, 0.5, 1))
            for side in ("right", "top"):
                ax.spines[side].set_visible(False)
        axes[-1].set_xlabel("rows of each class, the most doubtful first")
        low, high = report.n_wrong_interval
        figure.suptitle(
            f"Degree to which labels are right; about {report.n_wrong:,.0f} "
            f"({low:,.0f} to {high:,.0f}) of {len(report.codes):,} are wrong",
            fontsize=10,
        )
        self.axes_, self.figure_ = axes, figure
        return self

    def _name(self, row: int) -> str:
        """Give the name of a row: its id, its index, or its number."""
        for names in (self.report.ids, self.report.index):
            if names is not None:
                return str(names[row])
        return str(row)
