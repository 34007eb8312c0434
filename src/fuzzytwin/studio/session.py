"""What the page shows and changes, in plain Python: labels, decisions, doubts and figures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._utils.types import Array
from fuzzytwin.doubts import DoubtsReport, find_doubtful
from fuzzytwin.report.doubts import own_degrees
from fuzzytwin.studio.data import StudioTable
from fuzzytwin.studio.journal import Event, Journal, JournalError
from fuzzytwin.studio.model import LiveModel, evidence, make_model, usual_planes

LEAST = 1e-6  # a degree of exactly 0 would silence the other opinion
ACTIONS = ("keep", "relabel", "degree", "leave out")


class Refused(ValueError):
    """A decision that cannot be carried out; the message is for people."""


@dataclass(frozen=True)
class Decision:
    """What was decided on a row: its label, its degree, and whether it is used."""

    row: int
    action: str
    code: int
    degree: float

    @property
    def used(self) -> bool:
        """Return whether the row is learned from."""
        return self.action != "leave out"


@dataclass(frozen=True)
class Change:
    """One step that can be undone: the decision on a row before and after."""

    row: int
    before: Decision | None
    after: Decision | None


@dataclass(frozen=True)
class Doubts:
    """How well every row fits its label, by planes that never saw it.

    Parameters
    ----------
    memberships : ndarray of shape (n, K)
        Leave-one-out memberships (eq29) of the model as it is now.
    own : ndarray of shape (n,)
        Degree in the row's own label: the lower, the more doubtful.
    suggested : ndarray of shape (n,)
        The class of greatest degree.
    """

    memberships: Array
    own: Array
    suggested: Array


class Session:
    """The state of the studio: one table, its decisions, its model.

    Parameters
    ----------
    table : StudioTable
        The data.
    journal : Journal, default=None
        Where decisions are kept; those that it holds are carried out first.
    planes : {"crisp", "fuzzy"}, default=None
        Of the model; None chooses by the size of the table.
    kernel : str, default="linear"
        Of the model.
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
        self.decisions: dict[int, Decision] = {}
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self.version = 0  # counts changes, so that views know what is stale
        self._live: LiveModel | None = None
        for number, event in enumerate(journal.events if journal else (), start=2):
            self._replay(event, number)
        self.use(planes or usual_planes(len(table.classes), table.X.shape[1]), kernel)

    def use(self, planes: str, kernel: str) -> None:
        """Take another kind of model: "crisp" or "fuzzy" planes, "linear" or "rbf"."""
        table, model = self.table, make_model(planes, kernel)
        K, everyone = len(table.classes), np.ones(len(table), dtype=bool)
        given = LiveModel(model, table.X, table.codes, table.weight, table.degree, everyone, K)
        labels = np.array([self.label(row) for row in range(len(table))])
        self._live = LiveModel(model, table.X, labels, table.weight, self._degrees(), self.used, K)
        self.kind = (planes, kernel)
        self._forget_figures()
        self.given_accuracy = given.accuracy(given.memberships())

    # The rows as they stand now

    def label(self, row: int) -> int:
        """Return the class of a row after the decisions."""
        decision = self.decisions.get(row)
        return int(self.table.codes[row] if decision is None else decision.code)

    def degree(self, row: int) -> float:
        """Return the degree of a row after the decisions."""
        decision = self.decisions.get(row)
        return float(self.table.degree[row] if decision is None else decision.degree)

    @property
    def used(self) -> Array:
        """Return which rows are learned from."""
        used = np.ones(len(self.table), dtype=bool)
        for row, decision in self.decisions.items():
            used[row] = decision.used
        return used

    @property
    def codes(self) -> Array:
        """Return the class of every row after the decisions."""
        return self.live.codes

    def _degrees(self) -> Array:
        degrees = np.array(self.table.degree, dtype=np.float64)
        for row, decision in self.decisions.items():
            degrees[row] = decision.degree
        return degrees

    @property
    def live(self) -> LiveModel:
        """Return the model."""
        assert self._live is not None
        return self._live

    def class_name(self, code: int) -> str:
        """Return a label as text."""
        return str(self.table.classes[code])

    @cached_property
    def keys(self) -> dict[str, int]:
        """Return the keys that stand for classes: digits that are labels themselves, or 1 to 9."""
        names = [str(name) for name in self.table.classes]
        if all(len(name) == 1 and name in "0123456789" for name in names):
            return {name: k for k, name in enumerate(names)}
        return {str(k + 1): k for k in range(min(len(names), 9))}

    # Decisions

    def decide(
        self, row: int, action: str, code: int | None = None, degree: float | None = None
    ) -> None:
        """Decide on a row; the model follows at once, the journal before.

        Parameters
        ----------
        row : int
            The row.
        action : {"keep", "relabel", "degree", "leave out"}
            Keep the given label and degree; take another label; take another degree; learn
            nothing from the row.
        code : int, default=None
            The class to relabel to; by default the one that fits best, or, where that is the
            row's own, the second best.
        degree : float, default=None
            For "degree", from 0 to 1.

        Raises
        ------
        Refused
            Where too few rows of a class would remain, or a value is out of range.
        """
        decision = self._decision(row, action, code, degree)
        self._refuse_loss_of_class(decision)
        change = Change(row, self.decisions.get(row), decision)
        if change.before == decision:
            return
        event = {"action": action, "row": int(self.table.index[row]) + 1}
        if self.table.rows.names is not None:
            event["id"] = self.table.name_of(row)
        event |= {"label": self.class_name(decision.code), "degree": decision.degree}
        self._carry_out(change, event)
        self.done.append(change)
        self.undone.clear()

    def undo(self) -> int | None:
        """Take back the last decision; return its row, or None where there is none."""
        if not self.done:
            return None
        change = self.done[-1]
        self._carry_out(Change(change.row, change.after, change.before), {"action": "undo"})
        self.undone.append(self.done.pop())
        return change.row

    def redo(self) -> int | None:
        """Carry out again what was taken back; return its row, or None where there is none."""
        if not self.undone:
            return None
        change = self.undone[-1]
        self._carry_out(change, {"action": "redo"})
        self.done.append(self.undone.pop())
        return change.row

    def _decision(self, row: int, action: str, code: int | None, degree: float | None) -> Decision:
        if action not in ACTIONS:
            raise Refused(f"action={action!r} is unknown; use one of {', '.join(ACTIONS)}.")
        if not 0 <= row < len(self.table):
            raise Refused(f"row={row!r} is not a row of the table.")
        if action == "keep":
            return Decision(row, action, int(self.table.codes[row]), float(self.table.degree[row]))
        if action == "relabel":
            code = self.alternative(row) if code is None else code
            if not 0 <= code < len(self.table.classes):
                raise Refused(f"code={code!r} is not a class.")
            return Decision(row, action, int(code), float(self.table.degree[row]))
        if action == "leave out":
            return Decision(row, action, self.label(row), self.degree(row))
        if degree is None or not 0 <= degree <= 1:
            raise Refused(f"degree={degree!r} is not allowed; give a number from 0 to 1.")
        return Decision(row, action, self.label(row), float(degree))

    def _refuse_loss_of_class(self, decision: Decision) -> None:
        """Keep at least two rows of each class, and one of a degree above 0, in the model."""
        row, live = decision.row, self.live
        old = int(live.codes[row])
        stays = decision.used and decision.code == old
        if not live.used[row] or (stays and decision.degree > 0):
            return
        rest = live.used & (live.codes == old) & (live.weight > 0)
        rest[row] = False
        if (rest.sum() < 2 and not stays) or not (live.degree[rest] > 0).any():
            raise Refused(
                f"Too few rows of {self.class_name(old)} would remain; the model needs two of "
                "each label."
            )

    def _carry_out(self, change: Change, event: Event) -> None:
        """Change the model, then the journal, then the state."""
        row, after = change.row, change.after
        if after is None:
            state = int(self.table.codes[row]), float(self.table.degree[row]), True
        else:
            state = after.code, after.degree, after.used
        before = self.live.codes[row], self.live.degree[row], self.live.used[row]
        self.live.change(row, *state)
        try:
            if self.journal is not None:
                self.journal.append({**event, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        except OSError:
            self.live.change(row, *before)
            raise
        self._put(row, after)

    def _put(self, row: int, decision: Decision | None) -> None:
        self.decisions.pop(row, None)  # the latest decision is the last
        if decision is not None:
            self.decisions[row] = decision
        self._forget_figures()

    def _forget_figures(self) -> None:
        self.version += 1
        for name in ("doubts", "open_rows", "accuracy"):
            vars(self).pop(name, None)

    def _replay(self, event: Event, number: int) -> None:
        """Carry out an event of the journal, before there is a model."""
        action = event.get("action")
        try:
            if action == "undo":
                change = self.done.pop()
                self._put(change.row, change.before)
                self.undone.append(change)
            elif action == "redo":
                change = self.undone.pop()
                self._put(change.row, change.after)
                self.done.append(change)
            else:
                row = int(np.flatnonzero(self.table.index == event["row"] - 1)[0])
                names = self.table.classes.astype(str)
                code = int(np.flatnonzero(names == event["label"])[0])
                degree = float(event["degree"])
                if action not in ACTIONS or not 0 <= degree <= 1:
                    raise ValueError
                decision = Decision(row, action, code, degree)
                self.done.append(Change(row, self.decisions.get(row), decision))
                self.undone.clear()
                self._put(row, decision)
        except (KeyError, IndexError, TypeError, ValueError):
            path = self.journal.path if self.journal else ""
            raise JournalError(
                f"{path} has an event in line {number} that does not fit the data; repair that "
                "line or move the file away."
            ) from None

    # What the model says

    @cached_property
    def first_look(self) -> DoubtsReport:
        """Return what `find_doubtful` says of the labels as given, by a committee of planes.

        It stays as it is while labels change, so that what it says of the rows that are left
        is not spoilt by the choice of rows that were settled.
        """
        table = self.table
        return find_doubtful(table.X, table.codes, sample_weight=table.rows.weight)

    @property
    def n_wrong_left(self) -> float:
        """Return the expected number of wrong labels among the rows without a decision."""
        return float((1.0 - self.first_look.degrees)[self.open_rows].sum())

    @cached_property
    def doubts(self) -> Doubts:
        """Return how well every row fits its label now.

        Degrees are the geometric mean of two opinions: the first look, and the leave-one-out
        memberships of the model as it is now, compared with what is usual for each class.
        """
        u = self.live.memberships()
        v = own_degrees(u, self.codes) * np.maximum(self.first_look.posterior, LEAST)
        v = np.sqrt(v / v.sum(axis=1, keepdims=True))
        v /= v.sum(axis=1, keepdims=True)
        return Doubts(u, v[np.arange(len(v)), self.codes], v.argmax(axis=1))

    def alternative(self, row: int) -> int:
        """Return the class that fits a row best, other than its own."""
        u = self.doubts.memberships[row].copy()
        u[self.label(row)] = -1.0
        suggested = int(self.doubts.suggested[row])
        return suggested if suggested != self.label(row) else int(u.argmax())

    @cached_property
    def open_rows(self) -> Array:
        """Return the rows without a decision, the most doubtful first."""
        free = np.ones(len(self.table), dtype=bool)
        free[list(self.decisions)] = False
        order = np.argsort(self.doubts.own, kind="stable")
        return order[free[order]]

    @cached_property
    def accuracy(self) -> float:
        """Return the share of used rows whose label the other rows predict (leave-one-out)."""
        return self.live.accuracy(self.doubts.memberships)

    def confusion(self) -> Array:
        """Count used rows by label and by what the other rows predict, of shape (K, K)."""
        K, used = len(self.table.classes), self.live.used
        predicted = self.doubts.memberships.argmax(axis=1)
        out = np.zeros((K, K), dtype=int)
        np.add.at(out, (self.codes[used], predicted[used]), 1)
        return out

    @property
    def n_doubtful(self) -> int:
        """Return how many rows without a decision fit another label better than their own."""
        rows = self.open_rows
        return int((self.doubts.suggested[rows] != self.codes[rows]).sum())

    def counts(self) -> dict[str, int]:
        """Count the decisions by action."""
        found = dict.fromkeys(ACTIONS, 0)
        for decision in self.decisions.values():
            found[decision.action] += 1
        return found

    def evidence(self, row: int, code: int, other: int) -> Array:
        """Compute how much each column of the file speaks for one class rather than another."""
        X, model = self.table.X, self.live.without(row)
        return evidence(model, X[row], X.mean(axis=0), self.table.origins, code, other)

    def nearest(self, row: int, code: int, count: int = 3) -> list[tuple[int, float]]:
        """Find the nearest used rows of a class, with their distances in scaled columns."""
        mine = self.live.used & (self.codes == code)
        mine[row] = False
        rows = np.flatnonzero(mine)
        gap = self.table.X[rows] - self.table.X[row]
        squares = np.einsum("ij,ij->i", gap, gap)
        best = np.argsort(squares, kind="stable")[:count]
        return [(int(rows[i]), float(np.sqrt(squares[i]))) for i in best]

    def usual(self, column: str, code: int) -> str:
        """Describe what is usual in a column for the rows of a class: median or most frequent."""
        mine = self.live.used & (self.codes == code)
        values: Any = self.table.rows.X[column][mine].dropna()
        if not len(values):
            return ""
        kind = next(c.kind for c in self.table.rows.schema.columns if c.name == column)
        if kind == "number":
            return f"{float(values.median()):.4g}"
        most = values.mode().iloc[0]
        if kind == "boolean":
            return str(bool(most))
        return f"{most:g}" if kind == "code" else str(most)
