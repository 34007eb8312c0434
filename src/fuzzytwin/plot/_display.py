"""The base class of all displays, and shared colours, axes and names."""

from __future__ import annotations

from typing import Any, Self

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.text import cut, literal

# The palette of Okabe and Ito, which (nearly) everyone can distinguish.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
ISSUE_COLOR = "#B00020"


class Display:
    """Base class: holds data, and draws them on axes, by default those of a new figure."""

    _layout: str | None = "constrained"

    @property
    def _size(self) -> tuple[float, float]:
        """Return width and height of a new figure, in inches."""
        return 6, 4.5

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure.

        Returns
        -------
        self
        """
        if ax is None:
            plt = import_optional("matplotlib.pyplot", "plot", "a plot")
            _, ax = plt.subplots(figsize=self._size, layout=self._layout)
        self._draw(ax)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError


def open_frame(ax: Any) -> None:
    """Remove the frame except for its bottom, and the ticks at the left."""
    ax.tick_params(axis="y", length=0)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


def short(name: object, width: int) -> str:
    """Truncate a name to a width, and escape it for matplotlib."""
    return literal(cut(name, width))
