"""What the page shows and changes, in plain Python: labels, decisions, doubts and figures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.studio.data import StudioTable
from fuzzytwin.apps.studio.journal import Event, Journal, JournalError, journal_path
from fuzzytwin.apps.studio.model import LiveModel, make_model
from fuzzytwin.apps.studio.row_keys import FoundRow, RowKeys
from fuzzytwin.apps.study import likeliest_other
from fuzzytwin.core.distances import labels_of
from fuzzytwin.doubts import DoubtsReport

# What can be decided, and how it is told.
WORDS = {"keep": "kept", "relabel": "relabelled", "degree": "degree set", "leave out": "left out"}
# Fuzzy planes by default where their bands can be told apart and their widths solved quickly.
FEW_CLASSES, FEW_COLUMNS = 2, 200
MOST_NAMED = 5  # decisions that cannot be applied
# What a decision changes: computed again when it is next asked for.
FIGURES = ("report", "posterior", "own", "memberships", "open_rows", "doubtful_rows", "accuracy")


class Refused(ValueError):
    """A decision that cannot be carried out; the message is for people."""


@dataclass(frozen=True)
class Decision:
    """What was decided on a row: its label, its degree, and whether it is used."""

    action: str
    code: int
    degree: float

    @property
    def used(self) -> bool:
        """Return whether the row is learned from."""
        return self.action != "leave out"

    @property
    def words(self) -> str:
        """Say what was decided."""
        return f"degree {self.degree:.2f}" if self.action == "degree" else WORDS[self.action]


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


def open_journal(table: StudioTable) -> Journal:
    """Open the journal of a table, beside it."""
    columns = [name for name in table.table.cells.schema.names if name != table.target]
    about = {"data": Path(table.path).name, "target": table.target, "sheet": table.sheet}
    return Journal(journal_path(table.path), {**about, "columns": columns})


class Session:
    """The state of the studio: one table, its decisions, its model.

    Two models share the work. `find_doubtful` ranks the rows, as for `fuzzytwin doubts`; rows that
    were decided on are known to it. Planes that learn and forget single rows exactly follow every
    decision at once: they draw the map, give the accuracy, and say what speaks for a label.
    Decisions that the journal holds are carried out first. Rows may have been added, removed,
    sorted and edited since. `unapplied` are the decisions on rows that are gone or have another
    given label now, and `n_changed` counts the rows whose other cells have changed. `planes` are
    "crisp" or "fuzzy"; None chooses by the size of the table.
    """

    def __init__(
        self,
        table: StudioTable,
        journal: Journal | None = None,
        *,
        planes: str | None = None,
        kernel: str = "linear",
    ) -> None:
        self.table, self.journal = table, journal
        self.class_names = [str(name) for name in table.classes]
        self.first_look = table.doubts  # what `find_doubtful` says of the labels as given
        self.decisions: dict[int, Decision] = {}
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self.version = 0  # counts changes, so that views know what is stale
        self.n_made = 0  # decisions ever made, those that were undone included
        self.unapplied: list[Unapplied] = []
        self.n_changed = 0
        self.row_keys: RowKeys | None = None
        if journal is not None:
            self._replay_all(journal)
        few = len(self.class_names) <= FEW_CLASSES and table.X.shape[1] <= FEW_COLUMNS
        self.use(planes or ("fuzzy" if few else "crisp"), kernel)

    def use(self, planes: str, kernel: str) -> None:
        """Take another kind of model: "crisp" or "fuzzy" planes, "linear" or "rbf"."""
        table, model = self.table, make_model(planes, kernel)
        everyone = np.ones(len(table), bool)
        self.live = LiveModel(model, table.X, table.codes, table.weight, table.degree, everyone)
        self._forget_figures()
        self.given_accuracy, self.kind = self.accuracy, (planes, kernel)
        if self.decisions:
            codes, degree, used = self._decided()
            self.live = LiveModel(model, table.X, codes, table.weight, degree, used)
            self._forget_figures()

    # The rows as they stand now

    @property
    def codes(self) -> Array:
        """Return the class of every row after the decisions."""
        return self.live.codes

    def label(self, row: int) -> int:
        """Return the class of a row after the decisions."""
        return int(self.live.codes[row])

    def degree(self, row: int) -> float:
        """Return the degree of a row after the decisions."""
        return float(self.live.degree[row])

    @cached_property
    def keys(self) -> dict[str, int]:
        """Return what stands for classes: whole numbers that are labels themselves, or 1, 2, ...

        Those of one digit are keys; others are for buttons alone.
        """
        whole = all(name.removeprefix("-").isdecimal() for name in self.class_names)
        return {name if whole else str(k + 1): k for k, name in enumerate(self.class_names)}

    # Decisions

    def decide(
        self, row: int, action: str, code: int | None = None, degree: float | None = None
    ) -> None:
        """Decide on a row; the model follows at once, the journal before.

        Actions are to "keep" the given label and degree; to "relabel", by default to the class
        that fits best of all others; to set a "degree"; and to "leave out", to learn nothing from
        the row. `Refused` where too few rows of a class would remain, or a value is out of range.
        """
        decision = self._decision(row, action, code, degree)
        self._refuse_loss_of_class(row, decision)
        if self.decisions.get(row) == decision:
            return
        key = {} if self.row_keys is None else self.row_keys.key(row)
        made = {"label": self.class_names[decision.code], "degree": decision.degree}
        self._carry_out(row, decision, {"action": decision.action, **key, **made})
        self._put_new(row, decision)

    def undo(self) -> int | None:
        """Take back the last decision; return its row, or None where there is none."""
        return self._repeat("undo")

    def redo(self) -> int | None:
        """Carry out again what was taken back; return its row, or None where there is none."""
        return self._repeat("redo")

    def _repeat(self, action: str) -> int | None:
        """Take back the last change, or carry it out again."""
        changes = self.done if action == "undo" else self.undone
        if not changes:
            return None
        change = changes[-1]
        row, decision = change.row, change.before if action == "undo" else change.after
        assert row is not None  # of changes that can be undone
        self._carry_out(row, decision, {"action": action, "decision": change.number})
        self._move(change, action)
        return row

    def _move(self, change: Change, action: str) -> None:
        """Undo or redo a change, in the state alone."""
        origin, other = self.done, self.undone
        if action == "redo":
            origin, other = other, origin
        origin.remove(change)
        other.append(change)
        if change.row is not None:
            self._put(change.row, change.before if action == "undo" else change.after)

    def _decision(self, row: int, action: str, code: int | None, degree: float | None) -> Decision:
        if action not in WORDS:
            raise Refused(f"action={action!r} is unknown; use one of {', '.join(WORDS)}.")
        if not 0 <= row < len(self.table):
            raise Refused(f"row={row!r} is not a row of the table.")
        if action in ("keep", "relabel"):
            to = int(self.table.codes[row])
            if action == "relabel":
                to = self.alternative(row) if code is None else int(code)
            if not 0 <= to < len(self.class_names):
                raise Refused(f"code={code!r} is not a class.")
            action = "keep" if to == int(self.table.codes[row]) else action
            return Decision(action, to, float(self.table.degree[row]))
        if action == "leave out":
            degree = self.degree(row)
        if degree is None or not 0 <= degree <= 1:
            raise Refused(f"degree={degree!r} is not allowed; give a number from 0 to 1.")
        return Decision(action, self.label(row), float(degree))

    def _refuse_loss_of_class(self, row: int, decision: Decision) -> None:
        """Keep at least two rows of each class, and one of a degree above 0, in the model."""
        live, old = self.live, self.label(row)
        stays = decision.used and decision.code == old
        if not live.used[row] or (stays and decision.degree > 0):
            return
        rest = live.used & (live.codes == old) & (live.weight > 0)
        rest[row] = False
        if (rest.sum() < 2 and not stays) or not (live.degree[rest] > 0).any():
            raise Refused(
                f"Too few rows of {self.class_names[old]} would remain; the model needs two of "
                "each label."
            )

    def _carry_out(self, row: int, after: Decision | None, event: Event) -> None:
        """Change the model, then the journal; the state comes last."""
        live, table = self.live, self.table
        before = live.codes[row], live.degree[row], live.used[row]
        now = after or Decision("keep", int(table.codes[row]), float(table.degree[row]))
        live.change(row, now.code, now.degree, now.used)
        try:
            if self.journal is not None:
                self.journal.append({**event, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        except OSError:
            live.change(row, *before)
            raise

    def _put_new(self, row: int | None, decision: Decision) -> None:
        self.n_made += 1
        before = None if row is None else self.decisions.get(row)
        self.done.append(Change(row, before, decision, self.n_made))
        self.undone.clear()
        if row is not None:
            self._put(row, decision)

    def _put(self, row: int, decision: Decision | None) -> None:
        self.decisions.pop(row, None)  # the latest decision is the last
        if decision is not None:
            self.decisions[row] = decision
        self._forget_figures()

    def _forget_figures(self) -> None:
        self.version += 1
        for name in FIGURES:
            vars(self).pop(name, None)

    # Decisions of earlier sessions

    def _replay_all(self, journal: Journal) -> None:
        """Carry out what the journal holds, before there is a model."""
        head, every = journal.head, self.table.table.cells.schema.names
        columns = head.get("columns") or [name for name in every if name != self.table.target]
        self.row_keys = RowKeys(self.table, columns)
        self._check_rows_are_known(journal)
        problems: dict[int, Unapplied] = {}  # by the number of the decision
        changed = set[int]()
        for line, event in enumerate(journal.events, start=2):
            try:
                self._replay(event, head, problems, changed)
            except (KeyError, IndexError, TypeError, ValueError):
                raise journal.damaged(line, "has an event that does not fit the data") from None
        standing = [problems[one.number] for one in self.done if one.number in problems]
        latest = {one.name: one for one in standing if one.row not in self.decisions}
        self.unapplied = list(latest.values())
        self.n_changed = len(changed & self.decisions.keys())
        lost = [one for one in standing if one.row is None]
        if lost and len(lost) == len(self.done) and not self.table.sampled:
            raise JournalError(
                f"{journal.path} belongs to other data: none of the rows that it decides on is in "
                f"{self.table.path}; move the journal away."
            )
        self.done = [change for change in self.done if change.row is not None]
        self.undone = [change for change in self.undone if change.row is not None]
        self._hold_back()

    def _check_rows_are_known(self, journal: Journal) -> None:
        """Refuse a journal by which rows of a table that has changed cannot be known again."""
        made = [event for event in journal.events if event.get("action") in WORDS]
        old = any("given" not in event for event in made)
        if old and journal.head.get("fingerprint") != self.table.fingerprint:
            raise JournalError(
                f"{journal.path} belongs to other data: it is of an older version, which knows "
                f"rows by their numbers alone, and {self.table.path} has changed since; restore "
                "the data, or move the journal away."
            )
        lost = self.row_keys.lost_columns if self.row_keys else []
        if lost and any(event.get("id_column") != self.table.rows.id for event in made):
            raise JournalError(
                f"{journal.path} knows rows by their cells, but {self.table.path} has no column "
                f"{lost[0]!r} any more; restore it, or move the journal away."
            )

    def _replay(
        self, event: Event, head: Event, problems: dict[int, Unapplied], changed: set[int]
    ) -> None:
        """Carry out an event; note what stands against it."""
        action = event["action"]
        if action in ("undo", "redo"):
            changes = self.done if action == "undo" else self.undone
            number = event.get("decision", changes[-1].number if changes else 0)
            numbers = [change.number for change in changes]
            self._move(changes[numbers.index(number)], action)
            return
        label, degree = str(event["label"]), float(event["degree"])
        kept = action != "keep" or label == event.get("given", label)
        if action not in WORDS or not 0 <= degree <= 1 or not kept:
            raise ValueError
        found = self._find(event, head)
        reason = found.problem
        if label not in self.class_names:
            reason = reason or f"no row has the label {label} any more"
        row = None if reason else found.row
        code = self.class_names.index(label) if row is not None else -1
        if row is not None and action in ("keep", "relabel"):
            degree = float(self.table.degree[row])
        self._put_new(row, Decision(action, code, degree))
        if reason:
            name = str(event.get("id") or f"row {event['row']:,}")
            problems[self.n_made] = Unapplied(name, reason, found.row)
        elif found.changed and row is not None:
            changed.add(row)

    def _find(self, event: Event, head: Event) -> FoundRow:
        """Find the row of an event; of version 1, by its number in the same file."""
        if "given" in event and self.row_keys is not None:
            return self.row_keys.find(event)
        # Rows have one number everywhere; older journals do not count empty rows, or begin at 1.
        shown = self.table.index + int(head.get("first_row", 1))
        numbers = self.table.numbers if head.get("counts_empty_rows") else shown
        if str(event["label"]) not in self.class_names:
            raise ValueError
        return FoundRow(int(np.flatnonzero(numbers == event["row"])[0]))

    def _hold_back(self) -> None:
        """Hold back decisions after which too few rows of a class would remain, the latest first.

        None would have been made on the table as it was then.
        """
        table = self.table
        while (lost := self._lost_class()) is not None:
            leaving = [
                row for row, made in self.decisions.items()
                if table.codes[row] == lost
                and (made.code != lost or not made.used or made.degree == 0)
            ]  # fmt: skip
            if not leaving:
                return
            self.decisions.pop(leaving[-1])
            reason = f"too few rows of {self.class_names[lost]} would remain"
            self.unapplied.append(Unapplied(table.name_of(leaving[-1]), reason, leaving[-1]))

    def _lost_class(self) -> int | None:
        """Return a class of which the decisions leave too little to learn from."""
        codes, degree, used = self._decided()
        used &= self.table.weight > 0
        for code in range(len(self.class_names)):
            own = used & (codes == code)
            if own.sum() < 2 or not (degree[own] > 0).any():
                return code
        return None

    def _decided(self) -> tuple[Array, Array, Array]:
        """Return classes and degrees of all rows after the decisions, and which rows are used."""
        table = self.table
        codes, degree, used = table.codes.copy(), table.degree.copy(), np.ones(len(table), bool)
        for row, made in self.decisions.items():
            codes[row], degree[row], used[row] = made.code, made.degree, made.used
        return codes, degree, used

    @property
    def journal_notes(self) -> list[str]:
        """Say in sentences what of the journal does not fit the table as it is now."""
        notes = []
        if self.unapplied:
            shown = [f"{one.name} ({one.reason})" for one in self.unapplied[:MOST_NAMED]]
            more = len(self.unapplied) - len(shown)
            rest = f", and {more:,} more" if more else ""
            what = count(len(self.unapplied), "decision")
            notes.append(f"Of the journal, {what} cannot be applied: {', '.join(shown)}{rest}.")
        if self.n_changed:
            what = count(self.n_changed, "row")
            notes.append(f"Other cells of {what} changed after the decision, which is kept.")
        return notes

    # What the models say

    @cached_property
    def report(self) -> DoubtsReport:
        """Return what `find_doubtful` says now that the labels decided on are known."""
        known: list[Any] = [None] * len(self.table)
        for row, made in self.decisions.items():
            if made.action in ("keep", "relabel"):
                known[row] = self.first_look.classes[made.code]
        return self.first_look.settle(known)

    @property
    def n_wrong_left(self) -> float:
        """Return the expected number of wrong labels among the rows without a decision."""
        return self.report.n_wrong - self._wrong_settled

    @property
    def wrong_left_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of that number."""
        low, high = self.report.n_wrong_interval
        least, most = self.first_look.n_wrong_interval
        if least <= self.report.n_wrong <= most:  # a few decisions alone say little about the rest
            low, high = max(low, least), min(high, most)
        return max(low - self._wrong_settled, 0.0), max(high - self._wrong_settled, 0.0)

    @property
    def _wrong_settled(self) -> float:
        return float((1.0 - self.report.degrees)[list(self.decisions)].sum())

    @cached_property
    def posterior(self) -> Array:
        """Return how probable each label is for each row, by models that never saw the row."""
        posterior = self.report.posterior.copy()
        settled = list(self.decisions)  # what the other rows say is still of interest there
        posterior[settled] = self.first_look.posterior[settled]
        return posterior

    @cached_property
    def own(self) -> Array:
        """Return how probable the label is that each row has now."""
        return self.posterior[np.arange(len(self.codes)), self.codes]

    @cached_property
    def memberships(self) -> Array:
        """Return the memberships of each row by the planes as they are now, without the row."""
        return self.live.memberships(self.table.rows.groups)

    def alternative(self, row: int) -> int:
        """Return the class that fits a row best, other than its own."""
        return likeliest_other(self.posterior[row], self.label(row))

    @cached_property
    def open_rows(self) -> Array:
        """Return the rows without a decision, the most doubtful first."""
        free = np.ones(len(self.table), dtype=bool)
        free[list(self.decisions)] = False
        order = np.argsort(self.own, kind="stable")
        return order[free[order]]

    @cached_property
    def doubtful_rows(self) -> Array:
        """Return the rows without a decision that fit another label better, by doubt."""
        rows = self.open_rows
        return rows[self.posterior[rows].argmax(axis=1) != self.codes[rows]]

    @cached_property
    def accuracy(self) -> float:
        """Return the share of used rows whose label the other rows predict (leave-one-out)."""
        counts = self.confusion()
        return float(np.trace(counts) / counts.sum())

    def confusion(self) -> Array:
        """Count used rows by label and by what the other rows predict, of shape (K, K)."""
        used, every = self.live.used, np.arange(len(self.class_names))
        found = labels_of(self.memberships)
        return np.asarray(confusion_matrix(self.codes[used], found[used], labels=every))

    def counts(self) -> dict[str, int]:
        """Count the decisions by action."""
        made = [decision.action for decision in self.decisions.values()]
        return {action: made.count(action) for action in WORDS}

    def evidence(self, row: int, code: int, other: int) -> Array:
        """Compute how much each column of the file speaks for one class rather than another."""
        return self.live.evidence(row, self.table.origins, code, other)

    def nearest(self, row: int, code: int, count: int = 3) -> list[tuple[int, float]]:
        """Find the nearest used rows of a class, with their distances in scaled columns."""
        mine = self.live.used & (self.codes == code)
        mine[row] = False
        rows = np.flatnonzero(mine)
        gaps = np.linalg.norm(self.table.X[rows] - self.table.X[row], axis=1)
        return [(int(rows[i]), float(gaps[i])) for i in np.argsort(gaps, kind="stable")[:count]]

    def usual(self, column: str, code: int) -> str:
        """Describe what is usual in a column for the rows of a class: median or most frequent."""
        return self.table.usual(column, self.live.used & (self.codes == code))
