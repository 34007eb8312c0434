"""The picture of a row whose columns are the pixels of a square."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzzytwin.studio._data import StudioTable
from fuzzytwin.tables._parse import numbers

BY_PLACE = re.compile(r"(.*?)(\d+)[_x,.](\d+)")  # pixel_3_5
IN_ORDER = re.compile(r"((?:pixel|pix|px|image|img)[^\d]*)(\d+)", re.IGNORECASE)  # pixel35
SMALLEST = 4  # pixels of a side


def pixel_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that are the pixels of a square, row by row; none if there are none.

    They are called by the place of the pixel (pixel_0_0, pixel_0_1, ...), or numbered as pixels
    (pixel0, pixel1, ...). Numbered columns of another name may be anything, such as an embedding.

    Examples
    --------
    >>> from fuzzytwin.studio._picture import pixel_columns
    >>> len(pixel_columns([f"pixel_{i}_{j}" for i in range(8) for j in range(8)]))
    64
    >>> pixel_columns([f"e{i}" for i in range(256)])
    []
    """
    for pattern in (BY_PLACE, IN_ORDER):
        places: dict[str, dict[tuple[int, ...], str]] = defaultdict(dict)
        for name in names:
            if match := pattern.fullmatch(name):
                prefix, *place = match.groups()
                places[prefix][tuple(map(int, place))] = name
        for columns in places.values():
            side = math.isqrt(len(columns))
            if side >= SMALLEST and _is_square(sorted(columns), side):
                return [columns[place] for place in sorted(columns)]
    return []


def _is_square(places: list[tuple[int, ...]], side: int) -> bool:
    """Return whether sorted places are all those of a square, counted from 0 or 1."""
    first = places[0][0]
    if first not in (0, 1):
        return False
    every = range(first, first + side)
    if len(places[0]) == 2:
        return places == [(i, j) for i in every for j in every]
    return places == [(i,) for i in range(first, first + side * side)]


class Pictures:
    """Pictures of the rows of a table; `columns` are the pixels, none if there are none."""

    def __init__(self, table: StudioTable) -> None:
        self.columns = pixel_columns(table.table.cells.schema.names)
        if not self.columns:
            return
        cells = table.table.cells
        values = [numbers(cells.column(name), table.table.decimal).values for name in self.columns]
        self.side = math.isqrt(len(self.columns))
        self.pixels = np.column_stack(values)[table.index].astype(np.float32)
        self.low = float(np.nanmin(self.pixels))
        self.high = float(np.nanmax(self.pixels))

    def of(self, row: int) -> Any:
        """Return the picture of a row."""
        from PIL import Image

        span = (self.high - self.low) or 1.0
        shades = np.nan_to_num((self.pixels[row] - self.low) / span) * 255
        return Image.fromarray(shades.astype(np.uint8).reshape(self.side, self.side))
