"""The committee that is trained on the reviewed labels, in a thread of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.experiment._effects import fold_effects, mean_effects
from fuzzytwin.experiment._estimators import quiet, splitter
from fuzzytwin.experiment._experiment import MAX_EFFECTS
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._history import Labels
from fuzzytwin.tables._preprocessor import encode_rows
from fuzzytwin.twin._svc import FuzzyTwinSVC

if TYPE_CHECKING:
    from fuzzytwin.studio._session import Session

MAX_PAIR_ROWS = 20_000  # that contributions are computed from
PLANE_RIDGE = 10.0
CHECK_SECONDS = 0.3
PAUSE_SECONDS = 2.0  # after a decision, before the committee is trained again


def pipeline_of(table: StudioTable, committee: FuzzyTwinCommittee) -> Pipeline:
    """Return the pipeline from the columns of the table to labels."""
    return Pipeline([("prepare", table.prepare), ("model", committee)])


def _training_rows(
    table: StudioTable, labels: Labels
) -> tuple[Array, Array, Array, Array, Array | None]:
    used = labels.used
    groups = None if table.rows.groups is None else table.rows.groups[used]
    y = table.classes[labels.codes[used]]
    return table.X[used], y, table.weight[used], labels.degree[used], groups


@dataclass(frozen=True, eq=False)
class Model:
    """A committee, the labels that it was trained on, and its leave-one-out probabilities."""

    committee: FuzzyTwinCommittee
    labels: Labels
    probabilities: Array  # (rows that are used, K)
    effects: list[dict[str, Any]]  # of the columns on each class, at held-out rows

    @classmethod
    def fit(cls, table: StudioTable, labels: Labels) -> Model:
        """Train a committee and measure it."""
        rows = _training_rows(table, labels)
        with quiet():
            committee = FuzzyTwinCommittee().fit(*rows)
            probabilities = committee.loo_proba(*rows)
            effects = _effects(table, labels)
        return cls(committee, labels, probabilities, effects)

    @property
    def confusion(self) -> Array:
        """Count rows by label and by leave-one-out prediction, of shape (K, K)."""
        codes = self.labels.codes[self.labels.used]
        classes = np.arange(self.probabilities.shape[1])
        predicted = self.probabilities.argmax(axis=1)
        return np.asarray(confusion_matrix(codes, predicted, labels=classes))

    @property
    def accuracy(self) -> float:
        """Return the share of rows whose label is predicted, leave-one-out."""
        counts = self.confusion
        return float(np.trace(counts) / counts.sum())


def _effects(table: StudioTable, labels: Labels) -> list[dict[str, Any]]:
    """Compute the effects of columns on each class: on half of the rows, by the other half."""
    y = table.classes[labels.codes]
    rows = replace(table.rows, y=y, weight=table.weight, degrees=labels.degree)
    rows = rows.take(np.flatnonzero(labels.used))
    halves = []
    for train, test in splitter(table.settings, 2).split(rows.X, rows.y, rows.groups):
        half = rows.take(train)
        if len(np.unique(half.y)) < 2:  # all groups of the other class are in the other half
            continue
        X = encode_rows(table.prepare, half.X)
        committee = FuzzyTwinCommittee().fit(X, half.y, **half.fit_params)
        halves.append(fold_effects(table.prepare, committee, rows.take(test), 2))
    return mean_effects(halves, MAX_EFFECTS)


def contributions(
    table: StudioTable, labels: Labels, row: int, code: int, other: int
) -> Array | None:
    """Compute the contribution of each column towards one class instead of another at a row.

    Linear planes f of the two classes are fitted without the row and its group. Half of their
    difference, s = (f_code - f_other) / 2, leads from -1/2 at rows of the other class to 1/2 at
    rows of the class. The contribution of a column is what s would lose if the column had its mean
    value; those of all columns add up. It is None if too few rows of a class remain.
    """
    others = labels.used & np.isin(labels.codes, [code, other])
    others[row] = False
    if table.rows.groups is not None:
        others &= table.rows.groups != table.rows.groups[row]
    rows = np.flatnonzero(others)
    if len(rows) > MAX_PAIR_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MAX_PAIR_ROWS).astype(int)]
    y = (labels.codes[rows] == other).astype(int)
    try:
        planes = FuzzyTwinSVC(alpha=PLANE_RIDGE).fit(
            table.X[rows], y, sample_weight=table.weight[rows], membership=labels.degree[rows]
        )
    except ValueError:
        return None
    parts = (planes.coef_[0] - planes.coef_[1]) * (table.X[row] - table.means) / 2
    return np.bincount(table.origins, parts, minlength=len(table.columns))


class Trainer:
    """Trains the committee again, in a thread, two seconds after the last decision.

    Decisions never wait for it. Between two trainings it rests as long as the last one took, so
    that a large table does not keep a processor busy all the time.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Trainer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        session = self.session
        latest = session.labels
        earliest = 0.0  # time of the next training; the first model is needed at once
        while not self._stop.wait(CHECK_SECONDS):
            now = time.monotonic()
            if session.labels is not latest:
                latest = session.labels
                earliest = max(earliest, now + PAUSE_SECONDS)
            if session.model_is_current or now < earliest:
                continue
            session.update_model()
            end = time.monotonic()
            earliest = 2 * end - now
