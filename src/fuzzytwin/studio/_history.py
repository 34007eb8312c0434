"""Decisions on labels: made, undone, and found again in the journal of an earlier session."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from fuzzytwin._utils.files import output_mode
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._journal import Event, Journal, JournalError, journal_path
from fuzzytwin.studio._row_keys import RowKeys

# Decisions, and how they are described.
ACTIONS = {
    "keep": "kept",
    "relabel": "relabelled",
    "exclude": "excluded",
}
MAX_NAMED = 5  # decisions that cannot be applied


class RefusedError(ValueError):
    """A decision that cannot be carried out; the message is for people."""


@dataclass(frozen=True)
class Decision:
    """What was decided on a row: its label, and whether it is used."""

    action: str
    code: int

    @property
    def used(self) -> bool:
        """Return whether a model is to be trained on the row."""
        return self.action != "exclude"

    @property
    def words(self) -> str:
        """Describe the decision."""
        return ACTIONS[self.action]


@dataclass(frozen=True)
class Change:
    """A step that can be undone: the decision on a row before and after it."""

    row: int | None  # None: a decision of the journal that cannot be applied
    before: Decision | None
    after: Decision
    number: int  # of the decision in the journal, counted from 1


@dataclass(frozen=True)
class Unapplied:
    """A decision of the journal that cannot be applied to the table as it is now."""

    name: str  # of the row
    reason: str
    row: int | None  # where it is now, if it is there


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels after the decisions; never changed, so that threads may share them."""

    codes: Array
    used: Array
    decisions: dict[int, Decision] = field(default_factory=dict)  # the latest comes last

    @classmethod
    def given(cls, table: StudioTable) -> Labels:
        """Return the labels as they stand in the table."""
        return cls(table.codes, np.ones(len(table), dtype=bool))

    def decided(self, row: int, decision: Decision | None, table: StudioTable) -> Labels:
        """Return the labels after a decision on a row; None takes an earlier one back."""
        decisions = {other: made for other, made in self.decisions.items() if other != row}
        value = Decision("keep", int(table.codes[row]))
        if decision is not None:
            decisions[row] = value = decision
        codes = self.codes.copy()
        codes[row] = value.code
        used = self.used.copy()
        used[row] = value.used
        return Labels(codes, used, decisions)

    def count(self) -> dict[str, int]:
        """Count the decisions by action."""
        made = [decision.action for decision in self.decisions.values()]
        return {action: made.count(action) for action in ACTIONS}


def open_journal(table: StudioTable) -> Journal:
    """Open the journal of a table, beside it."""
    columns = [name for name in table.table.cells.schema.names if name != table.target]
    header = {"data": Path(table.path).name, "target": table.target, "sheet": table.sheet}
    mode = output_mode([table.path])
    return Journal(journal_path(table.path), {**header, "columns": columns}, mode)


class History:
    """The decisions on one table, in memory and in its journal.

    Decisions that the journal holds are carried out first. Rows may have been added, removed,
    sorted and edited since. `unapplied` are the decisions on rows that are gone or have another
    given label now, and `n_changed` counts the rows whose other cells have changed.
    """

    def __init__(self, table: StudioTable, journal: Journal | None = None) -> None:
        self.table = table
        self.journal = journal
        self.labels = Labels.given(table)
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self.n_made = 0  # decisions ever made, those that were undone included
        self.unapplied: list[Unapplied] = []
        self.n_changed = 0
        if journal is not None:
            self._replay_all(journal)

    @property
    def decisions(self) -> dict[int, Decision]:
        """Return the decision on each reviewed row."""
        return self.labels.decisions

    @cached_property
    def class_names(self) -> list[str]:
        """Return the labels as text."""
        return [str(name) for name in self.table.classes]

    @cached_property
    def row_keys(self) -> RowKeys:
        """Return what names the rows for the journal."""
        names = self.table.table.cells.schema.names
        columns = self.journal.head.get("columns") if self.journal is not None else None
        return RowKeys(self.table, columns or [name for name in names if name != self.table.target])

    def decide(self, row: int, decision: Decision) -> bool:
        """Carry out a decision, on the disk first; return whether it changes anything.

        `RefusedError` if too few rows of a class would remain.
        """
        if self._loses_class(row, decision):
            name = self.class_names[self.labels.codes[row]]
            raise RefusedError(
                f"Too few rows of {name} would remain; the model needs two of each label."
            )
        if self.decisions.get(row) == decision:
            return False
        if self.journal is not None:
            label = self.class_names[decision.code]
            self._write({"action": decision.action, **self.row_keys.key(row), "label": label})
        self._add(row, decision)
        return True

    def undo(self) -> int | None:
        """Take back the last decision; return its row, or None if there is none."""
        return self._repeat("undo", self.done)

    def redo(self) -> int | None:
        """Carry out again what was taken back; return its row, or None if there is none."""
        return self._repeat("redo", self.undone)

    def _repeat(self, action: str, changes: list[Change]) -> int | None:
        if not changes:
            return None
        change = changes[-1]
        self._write({"action": action, "decision": change.number})
        self._move(change, action)
        return change.row

    def _write(self, event: Event) -> None:
        if self.journal is not None:
            self.journal.append({**event, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")})

    def _move(self, change: Change, action: str) -> None:
        """Undo or redo a change, in memory only."""
        if action == "undo":
            self.done.remove(change)
            self.undone.append(change)
            decision = change.before
        else:
            self.undone.remove(change)
            self.done.append(change)
            decision = change.after
        if change.row is not None:
            self.labels = self.labels.decided(change.row, decision, self.table)

    def _add(self, row: int | None, decision: Decision) -> None:
        """Add a new decision, in memory only."""
        self.n_made += 1
        before = None if row is None else self.decisions.get(row)
        self.done.append(Change(row, before, decision, self.n_made))
        self.undone.clear()
        if row is not None:
            self.labels = self.labels.decided(row, decision, self.table)

    def _loses_class(self, row: int, decision: Decision) -> bool:
        """Return whether a class would keep fewer than two rows."""
        labels = self.labels
        code = int(labels.codes[row])
        if not labels.used[row] or (decision.used and decision.code == code):
            return False
        others = labels.used & (labels.codes == code) & (self.table.weight > 0)
        others[row] = False
        return bool(others.sum() < 2)

    # Decisions of earlier sessions

    def _replay_all(self, journal: Journal) -> None:
        """Carry out what the journal holds."""
        self._check_columns(journal)
        problems: dict[int, Unapplied] = {}  # by the number of the decision
        changed = set[int]()
        for line, event in enumerate(journal.events, start=2):
            try:
                self._replay(event, problems, changed)
            except (KeyError, IndexError, TypeError, ValueError):
                raise journal.damaged(line, "has an event that does not fit the data") from None
        standing = [problems[change.number] for change in self.done if change.number in problems]
        latest = {item.name: item for item in standing if item.row not in self.decisions}
        self.unapplied = list(latest.values())
        self.n_changed = len(changed & self.decisions.keys())
        lost = [item for item in standing if item.row is None]
        if lost and len(lost) == len(self.done) and not self.table.sampled:
            raise JournalError(
                f"{journal.path} belongs to other data: none of the rows that it decides on is in "
                f"{self.table.path}; move the journal away."
            )
        self.done = [change for change in self.done if change.row is not None]
        self.undone = [change for change in self.undone if change.row is not None]

    def _check_columns(self, journal: Journal) -> None:
        """Raise an error if rows are identified by a column that the table no longer has."""
        made = [event for event in journal.events if event.get("action") in ACTIONS]
        lost = self.row_keys.lost_columns
        if lost and any(event.get("id_column") != self.table.rows.id for event in made):
            raise JournalError(
                f"{journal.path} identifies rows by their cells, but {self.table.path} has no "
                f"column {lost[0]!r} any more; restore it, or move the journal away."
            )

    def _replay(self, event: Event, problems: dict[int, Unapplied], changed: set[int]) -> None:
        """Carry out an event; note why a decision cannot be applied."""
        action = event["action"]
        if action in ("undo", "redo"):
            changes = self.done if action == "undo" else self.undone
            numbers = [change.number for change in changes]
            self._move(changes[numbers.index(event["decision"])], action)
            return
        label = str(event["label"])
        kept = action != "keep" or label == event["given"]
        if action not in ACTIONS or not kept:
            raise ValueError
        match = self.row_keys.find(event)
        code = self.class_names.index(label) if label in self.class_names else -1
        decision = Decision(action, code)
        reason = match.problem or self._reason_against(match.row, decision, label)
        if reason:
            self._add(None, decision)
            name = str(event.get("id") or f"row {event['row']:,}")
            problems[self.n_made] = Unapplied(name, reason, match.row)
            return
        self._add(match.row, decision)
        if match.changed and match.row is not None:
            changed.add(match.row)

    def _reason_against(self, row: int | None, decision: Decision, label: str) -> str:
        """Describe why a decision of the journal cannot be applied to the table as it is now."""
        if decision.code < 0:
            return f"no row has the label {label} any more"
        if row is not None and self._loses_class(row, decision):
            return f"too few rows of {self.class_names[self.labels.codes[row]]} would remain"
        return ""

    @property
    def journal_notes(self) -> list[str]:
        """Describe what the journal held that is not applied to the table as it is now."""
        notes = [] if self.journal is None else list(self.journal.notes)
        if self.unapplied:
            shown = [f"{item.name} ({item.reason})" for item in self.unapplied[:MAX_NAMED]]
            more = len(self.unapplied) - len(shown)
            ending = f", and {more:,} more" if more else ""
            what = count(len(self.unapplied), "decision")
            notes.append(f"{what} of the journal cannot be applied: {', '.join(shown)}{ending}.")
        if self.n_changed:
            what = count(self.n_changed, "row")
            notes.append(f"Other cells of {what} changed after the decision, which still applies.")
        return notes
