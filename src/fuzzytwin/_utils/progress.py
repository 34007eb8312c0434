"""A progress bar: one line on standard error."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Self

LOG_SECONDS = 10.0  # between two lines if standard error is not a terminal
BAR_WIDTH = 24  # characters


class Progress:
    """Show the progress of a task on standard error.

    On a terminal one line is redrawn. A log file gets a line every ten seconds and a last one.
    `total` is the number of units of work (None: unknown), and `done` how many were finished
    before. Nothing is shown unless `enabled`. A `transient` line is erased from a terminal at the
    end, and a log file then gets no last line.
    """

    def __init__(
        self,
        task: str,
        total: int | None = None,
        unit: str = "steps",
        *,
        enabled: bool = True,
        done: int = 0,
        transient: bool = False,
    ) -> None:
        self.task = task
        self.total = total
        self.unit = unit
        self.enabled = enabled
        self.transient = transient
        self.done = self.done_before = done
        self.started = self.shown = time.monotonic()
        self.has_begun = False

    def __enter__(self) -> Self:
        self.started = self.shown = time.monotonic()
        if sys.stderr.isatty():
            self._show()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.transient:
            self._show(end="\n")
        elif self.enabled and sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{'':{width}s}\r")
            sys.stderr.flush()

    def advance(self, count: int = 1) -> None:
        """Count units of work that are finished."""
        self.done += count
        terminal = sys.stderr.isatty()
        if time.monotonic() - self.shown > (0.1 if terminal else LOG_SECONDS):
            self._show(end="" if terminal else "\n")

    def begin(self, task: str) -> None:
        """Name the unit that begins. The previous one, if any, is finished."""
        self.done += self.has_begun
        self.task = task
        self.has_begun = True
        if sys.stderr.isatty():
            self._show()
        elif time.monotonic() - self.shown > LOG_SECONDS:
            self._show(end="\n")

    def line(self) -> str:
        """Describe the progress in words."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        new = self.done - self.done_before
        count = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        if self.total is not None and new > 0 and self.done < self.total:
            timing = f"about {_duration(seconds * (self.total - self.done) / new)} left"
        elif self.unit == "rows":
            timing = f"{new / seconds:,.0f} a second"
        else:
            timing = _duration(seconds)
        return f"{self.task}: {count} {self.unit}, {timing}"

    def _show(self, end: str = "") -> None:
        self.shown = time.monotonic()
        if not self.enabled:
            return
        text = self.line()
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            if self.total and len(text) + BAR_WIDTH + 3 <= width:
                n_marks = min(BAR_WIDTH, BAR_WIDTH * self.done // self.total)
                text = f"[{'#' * n_marks:{BAR_WIDTH}s}] {text}"
            text = f"\r{text[:width]:{width}s}"
        sys.stderr.write(text + end)
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    """Format a number of seconds."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
