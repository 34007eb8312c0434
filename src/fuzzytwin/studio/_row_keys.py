"""How a journal finds a row again after its table was sorted, cut, extended or edited.

By its id, if there is a column of ids and the id is that of one row only. Otherwise by a hash of
its cells (all except the label) and, among rows that are equal in these and in the label, by their
order: such rows are interchangeable.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._journal import Event

ROWS_AT_ONCE = 4096  # whose cells are held as Python objects
DIGEST_BYTES = 12


@dataclass(frozen=True)
class RowMatch:
    """The row that an event is about, or why its decision cannot be applied."""

    row: int | None
    problem: str = ""  # "" if the decision can be applied
    changed: bool = False  # whether other cells of the row have changed since


class RowKeys:
    """Names the rows of a table for its journal, and finds them again.

    The hash of a row is that of its cells in `columns`: those that the table had when the journal
    was begun.
    """

    def __init__(self, table: StudioTable, columns: Sequence[str]) -> None:
        self.table = table
        self.columns = list(columns)
        self.lost_columns = [name for name in columns if name not in table.in_file]

    def key(self, row: int) -> Event:
        """Describe a row for the journal."""
        name = self._name(row)
        key: Event = {"row": int(self.table.numbers[row]), "given": self._label(row)}
        if name:
            key |= {"id": name, "id_column": self.table.rows.id}
        if not self.lost_columns:
            key["content"] = self.content(row)
        same_rows = self._same_rows(key)
        if len(same_rows) > 1:
            key["copy"] = same_rows.index(row)
        return key

    def find(self, event: Event) -> RowMatch:
        """Find the row that an event is about."""
        given = str(event["given"])
        rows = self._candidates(event)
        if not rows:
            what = "not among the rows that were read" if self.table.sampled else "gone"
            return RowMatch(None, f"its row is {what}")
        same_rows = [row for row in rows if self._label(row) == given]
        if not same_rows:
            row = rows[0] if len(rows) == 1 else None
            labels = " or ".join(dict.fromkeys(map(self._label, rows)))
            return RowMatch(row, f"its given label was {given}, and is {labels} now")
        copy = int(event.get("copy", 0))
        if not 0 <= copy < len(same_rows) or ("copy" not in event and len(same_rows) > 1):
            return RowMatch(None, f"it matches {len(same_rows)} rows")
        row = same_rows[copy]
        content = event.get("content")
        comparable = content is not None and not self.lost_columns
        return RowMatch(row, changed=comparable and self.content(row) != content)

    def content(self, row: int) -> str:
        """Return the hash of the cells of a row."""
        return self._digests(self.table.index[[row]])[0]

    def _candidates(self, event: Event) -> list[int]:
        """Return the rows that have the id of an event and, of several, its content too."""
        content = event.get("content")
        named = "id" in event and event.get("id_column") == self.table.rows.id
        rows = self._by_name[str(event["id"])] if named else None
        if rows is not None and len(rows) < 2:
            return rows
        if content is None or self.lost_columns:
            return rows or []
        equal = self._by_content[str(content)]
        return equal if rows is None else sorted({*rows} & {*equal})

    def _same_rows(self, key: Event) -> list[int]:
        """Return the rows that have the same id, or else content, and the same label."""
        return [row for row in self._candidates(key) if self._label(row) == key["given"]]

    def _label(self, row: int) -> str:
        return str(self.table.classes[self.table.codes[row]])

    def _name(self, row: int) -> str:
        names = self.table.rows.ids
        return "" if names is None else str(names[row])

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        rows = defaultdict[str, list[int]](list)
        for row in range(len(self.table)):
            rows[self._name(row)].append(row)
        return rows

    @cached_property
    def _by_content(self) -> dict[str, list[int]]:
        rows = defaultdict[str, list[int]](list)
        for row, digest in enumerate(self._digests(self.table.index)):
            rows[digest].append(row)
        return rows

    def _digests(self, places: Any) -> list[str]:
        """Hash the cells of the rows at these places of the file."""
        cells = self.table.table.cells.select(self.columns)
        digests: list[str] = []
        for start in range(0, len(places), ROWS_AT_ONCE):
            part = cells.take(np.asarray(places[start : start + ROWS_AT_ONCE]))
            rows = zip(*(column.to_pylist() for column in part.columns), strict=True)
            digests += [_digest(row) for row in rows]
        return digests


def _digest(cells: Sequence[Any]) -> str:
    text = json.dumps(cells, default=str).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()
