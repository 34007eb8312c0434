"""Items of an iterable or a function, the first of which can be looked at before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

_END = object()


class Items:
    """Items of an iterable, or of a function that returns a new one at each call.

    What was looked at is kept, and the next pass goes on from it, so that looking costs no pass.
    """

    def __init__(self, source: Any) -> None:
        if not callable(source) and not isinstance(source, Iterable):
            raise TypeError(
                f"source is of type {type(source).__name__}; give a file, a folder, a glob, a list "
                "of files, a frame, an iterable of batches, or a function that returns one."
            )
        self.source = source
        self.used: list[Any] = []
        self.ahead: list[Any] = []
        self.begun: Iterator[Any] | None = self._open()
        self.repeatable = callable(source) or self.begun is not source

    @property
    def first(self) -> Any:
        """Return the first item, None if there is none."""
        return next(self.look(), None)

    def look(self) -> Iterator[Any]:
        """Look at the items, from the first on."""
        if self.begun is None:
            self.begun = self._open()
        place = 0
        while True:
            if place == len(self.ahead):
                item = next(self.begun, _END)
                if item is _END:
                    return
                self.ahead.append(item)
            yield self.ahead[place]
            place += 1

    def read(self) -> Iterator[Any]:
        """Read all items."""
        items = chain(self.ahead, self._open() if self.begun is None else self.begun)
        self.ahead = []
        self.begun = None
        return items

    def _open(self) -> Iterator[Any]:
        items = iter(self.source() if callable(self.source) else self.source)
        if any(items is before for before in self.used):
            raise ValueError(
                "the function gave the same iterator twice, which is used up; give a function that "
                "returns a new one each time it is called."
            )
        self.used.append(items)
        return items
