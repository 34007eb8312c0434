"""Drawings for a page, where matplotlib is installed."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from fuzzytwin._utils.document import Block, Figure, Words


class Pictures:
    """Drawings by name; without matplotlib, words that say what they need."""

    def __init__(self) -> None:
        self.drawn: dict[str, bytes] = {}

    def draw(self, name: str, draw: Callable[[Any], object], size: tuple[float, float]) -> None:
        """Keep what a function draws on a matplotlib figure of a size in inches."""
        try:
            from matplotlib.figure import Figure as Canvas
        except ImportError:
            return
        canvas, buffer = Canvas(figsize=size, layout="constrained"), io.BytesIO()
        draw(canvas)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")  # names in other scripts
            canvas.savefig(buffer, format="png", dpi=150)
        self.drawn[name] = buffer.getvalue()

    def figure(self, name: str, alt: str, caption: str) -> list[Block]:
        """Return the figure, or say what it needs."""
        if name in self.drawn:
            return [Figure(name, alt, caption)]
        return [Words("(Pictures need matplotlib.)")]
