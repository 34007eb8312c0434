"""Demsar's critical difference diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import literal


class CriticalDifferenceDisplay:
    """Demsar's diagram: mean ranks on a scale, bars over those that do not differ by Nemenyi.

    Parameters
    ----------
    names : sequence of str
        The classifiers.
    mean_ranks : array-like of shape (C,)
        Their mean ranks.
    critical_difference : float
        Classifiers whose mean ranks are less than this apart are joined by a bar.

    Attributes
    ----------
    cliques : list of tuple of (float, float)
        Lowest and highest mean rank of every bar.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> from fuzzytwin.compare.diagram import CriticalDifferenceDisplay
    >>> display = CriticalDifferenceDisplay(["a", "b", "c"], [1.2, 1.9, 2.9], 1.05)
    >>> display.cliques
    [(1.2, 1.9), (1.9, 2.9)]
    """

    def __init__(
        self,
        names: Sequence[str],
        mean_ranks: Sequence[float] | NDArray[np.float64],
        critical_difference: float,
    ) -> None:
        self.names = names
        self.mean_ranks = mean_ranks
        self.critical_difference = critical_difference
        self.cliques = _cliques(sorted(map(float, mean_ranks)), critical_difference)

    @classmethod
    def from_result(cls, result: Any, ax: Any = None) -> CriticalDifferenceDisplay:
        """Draw the diagram of a `fuzzytwin.compare.ComparisonResult`; `ax` as in :meth:`plot`."""
        return cls(result.names, result.mean_ranks, result.critical_difference).plot(ax)

    def plot(self, ax: Any = None) -> CriticalDifferenceDisplay:
        """Draw on the matplotlib Axes `ax`, where it is small in small letters.

        Without `ax`, on a new figure of fitting size. Returns itself, with `ax_` and `figure_`.
        Without matplotlib: ImportError.
        """
        pyplot = need("matplotlib.pyplot", "plot", "a diagram")
        ranks = [float(r) for r in self.mean_ranks]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        low, high = int(np.floor(min(ranks))), int(np.ceil(max(ranks)))
        if low == high:
            low, high = low - 1, high + 1
        start, end = low, max(high, low + self.critical_difference)  # where the names begin
        overhang = 0.008 * (end - start)  # of the bars
        levels = _levels(self.cliques, 4 * overhang)

        # Heights count rows of writing down from the scale at 0.
        half = (len(ranks) + 1) // 2
        first = 1.2 + 0.5 * max(levels, default=-1)
        top, bottom = -2.9, first + half - 0.3
        own = ax is None
        if own:
            figure, ax = pyplot.subplots(figsize=(6, 0.25 * (bottom - top)))
            figure.subplots_adjust(0.01, 0.02, 0.99, 0.98)
        figure, point = ax.figure, ax.figure.dpi / 72
        size = min(10.0, 0.7 * ax.get_window_extent().height / (bottom - top) / point)
        ax.set_axis_off()
        ax.set_ylim(bottom, top)

        sides: tuple[list[Any], list[Any]] = ([], [])
        for place, i in enumerate(order):
            right = place >= half
            y = first + (len(ranks) - 1 - place if right else place)
            edge = end if right else start
            ax.plot([ranks[i], ranks[i], edge], [0, y, y], color="black", lw=0.8)
            text = ax.annotate(
                f"{literal(self.names[i])} ({ranks[i]:.2f})",
                (edge, y),
                (4 if right else -4, 0),
                textcoords="offset points",
                annotation_clip=False,
                ha="left" if right else "right",
                va="center",
                fontsize=size,
            )
            sides[right].append(text)

        # The names take the width they need; the scale gets the rest, and at least 40 percent.
        wanted = [max(t.get_window_extent().width for t in side) for side in sides]
        if own:
            inches = max(4.0, 0.3 * (high - low)) + sum(wanted) / figure.dpi
            figure.set_size_inches(inches, figure.get_figheight())
        width = ax.get_window_extent().width - 16 * point
        shrink = min(1.0, 0.6 * width / sum(wanted))
        for text in sides[0] + sides[1]:
            text.set_fontsize(size * shrink)
        pixel = (end - start) / (width - shrink * sum(wanted))
        margins = [(shrink * w + 8 * point) * pixel for w in wanted]
        ax.set_xlim(start - margins[0], end + margins[1])

        ax.hlines(0, low, high, "black", lw=1.2)
        ax.vlines(range(low, high + 1), -0.3, 0, "black", lw=1.2)
        for tick in range(low, high + 1, int(np.ceil(1.8 * size * point * pixel))):
            ax.text(tick, -0.8, str(tick), ha="center", va="center", fontsize=size)
        cd = self.critical_difference
        ax.plot([low, low + cd], [-1.6, -1.6], color="black", lw=1.2, marker="|")
        ax.text(low + cd / 2, -2.2, f"CD = {cd:.2f}", ha="center", va="center", fontsize=size)
        for (best, worst), level in zip(self.cliques, levels, strict=True):
            ax.hlines(0.5 * (level + 1), best - overhang, worst + overhang, "black", lw=0.4 * size)
        self.ax_, self.figure_ = ax, figure
        return self


def _cliques(ranks: list[float], cd: float) -> list[tuple[float, float]]:
    """Find the longest runs of sorted mean ranks that span less than the critical difference."""
    runs: list[tuple[float, float]] = []
    reached = -1
    for i, best in enumerate(ranks):
        last = max(j for j in range(i, len(ranks)) if j == i or ranks[j] - best < cd)
        if last > max(i, reached):
            runs.append((best, ranks[last]))
            reached = last
    return runs


def _levels(bars: list[tuple[float, float]], gap: float) -> list[int]:
    """Give every bar the first level on which it keeps clear of those before it."""
    ends: list[float] = []
    levels = []
    for best, worst in bars:
        level = next((k for k, end in enumerate(ends) if end + gap < best), len(ends))
        ends[level : level + 1] = [worst]
        levels.append(level)
    return levels
