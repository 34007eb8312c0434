"""One table under study: its rows, model, left-out probabilities, doubts and effects.

`fuzzytwin train`, `fuzzytwin doubts`, the report pages and the studio show what is here. Each part
is computed when it is first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.measures import measure
from fuzzytwin.apps.table_rows import Rows, Settings, read_libsvm, rows_of
from fuzzytwin.apps.training import (
    count_folds,
    facts_of,
    fit_rows,
    is_calibrated,
    make_estimator,
    new_preparation,
    quiet,
    splitter,
    take,
)
from fuzzytwin.data.cells import pa, text
from fuzzytwin.data.columns import TableError, notices
from fuzzytwin.data.files import Table, first_row, known_kind, read_table, table_mark
from fuzzytwin.doubts import DoubtsReport, find_doubtful
from fuzzytwin.explain import explain
from fuzzytwin.explain.effects import readable_names
from fuzzytwin.fit.repeats import count_repeats
from fuzzytwin.search.estimator import FuzzyTwinSVCCV

FEW_ROWS = 20_000  # memberships that look for neighbours are tried up to here
MOST_EFFECTS = 50  # columns of each class whose effects are kept
MAJORITY = "majority of the votes"
DOUBTS = ("suggested", "doubtful", "rank")  # columns that `fuzzytwin doubts` writes

Step = Callable[[str], object]


class Study:
    """A table and what is learned from it, each part when it is first asked for.

    Parameters
    ----------
    data : path, DataFrame or Table
        The table.
    settings : Settings, default=None
        What to learn; by default `options`, which are its fields: ``Study(frame, target="y")``.
    step : callable, default=None
        Called with what begins, for a progress bar.
    verbose : int, default=0
        1: finding doubts shows a progress bar of its own.

    Attributes
    ----------
    table, rows
        The cells as they stand, and the rows that have a label.
    model : Pipeline
        From the columns of the table to labels, fitted to all rows.
    left_out : ndarray of shape (n, K)
        Probabilities (of planes that are not calibrated: memberships) of each row by a model that
        never saw it: all that is learned, the encoding of the columns included, is learned again
        in each fold. `predicted` are the labels, `score` what `measure` says of them.
    doubts : DoubtsReport
        Which labels are doubtful.
    effects : list of dict
        What drives the prediction: see `fuzzytwin.explain.explain`.
    facts : dict
        What a model file tells about the model.
    """

    def __init__(
        self,
        data: Any,
        settings: Settings | None = None,
        step: Step | None = None,
        verbose: int = 0,
        **options: Any,
    ) -> None:
        self.verbose = verbose
        self.settings = Settings(**options) if settings is None else settings
        self.step: Step = step or (lambda what: None)
        self.given, self.streamed = data, False
        self.from_file = isinstance(data, (str, os.PathLike))
        self.path = os.fspath(data) if self.from_file else getattr(data, "path", "table")

    # The rows

    @cached_property
    def table(self) -> Table:
        """Return the cells as they stand in the file."""
        if isinstance(self.given, Table):
            return self.given
        if not self.from_file:
            cells = pa.Table.from_pandas(self.given, preserve_index=False)
            return Table(self.path, cells, table_mark(cells), ",")
        return read_table(self.path, self.settings.columns, sheet=self.settings.sheet)

    @cached_property
    def rows(self) -> Rows:
        """Return the rows that have a label, as numbers, categories and gaps."""
        self.step("reading")
        if self.from_file and known_kind(self.path) == "libsvm":
            return read_libsvm(self.path, self.settings)
        if self.settings.target is None and not self.settings.votes:
            raise TableError(
                f"which column of {self.path} is to be predicted? Name it: --target NAME."
            )
        settings, table = self.settings, self.table
        if settings.votes:
            table, settings = self._labelled_by_votes()
        written = {f"{name}{end}" for name in DOUBTS for end in ("", "_")} - set(settings.columns)
        if len(written & set(names := self.table.cells.schema.names)) >= len(DOUBTS):
            # A table of `fuzzytwin doubts`: what it says of the labels is not learned from.
            drop = [*settings.drop, *(name for name in names if name in written)]
            settings = replace(settings, drop=list(dict.fromkeys(drop)))
        return rows_of(table, settings)

    @cached_property
    def votes(self) -> Any:
        """Return the label that each annotator gave each row of the file; None where there is none.

        Annotators are the columns that match one of the patterns of the settings.
        """
        asked, table = self.settings.votes, self.table.cells
        names = [n for n in table.schema.names if any(fnmatchcase(n, pattern) for pattern in asked)]
        if len(names) < 2:
            known = ", ".join(table.schema.names[:10])
            raise TableError(
                f"--votes {' '.join(asked)} names {count(len(names), 'column')} of {self.path}; "
                f"two annotators are needed. Its columns are {known}."
            )
        frame = table.select(names).to_pandas()
        for name in names:
            frame[name] = text(table.column(name)).to_pylist()
        return frame.replace({"-1": None, "-1.0": None})

    def _labelled_by_votes(self) -> tuple[Table, Settings]:
        """Return the table without its votes, with the majority's label where no target is named.

        Rows without a vote have no label.
        """
        settings, votes, table = self.settings, self.votes, self.table
        drop = dict.fromkeys([*settings.drop, *votes.columns])
        if settings.target is None:
            majority = votes.mode(axis=1)[0].astype(object)
            labels = pa.array(majority.where(majority.notna(), None), pa.string())
            cells = table.cells.append_column(MAJORITY, labels)
            table = replace(table, cells=cells)
            settings = replace(settings, target=MAJORITY)
        return table, replace(settings, drop=list(drop))

    @cached_property
    def notes(self) -> list[str]:
        """Return what a reader should know about the rows, a sentence each."""
        rows, notes = self.rows, list(self.rows.notes)
        notes += (text.rstrip(".") for text in notices(rows.X, rows.y, rows.schema))
        equal, near = (0, 0) if rows.groups is not None else count_repeats(self.X)
        if equal or near:
            alike = f"{equal:,} rows equal" if equal else f"{near:,} rows nearly equal"
            notes.append(
                f"about {alike} another one: if they belong together (visits of a patient, copies "
                "of a record), name the column that says so by --groups; scores, sets and doubts "
                "are too sure otherwise"
            )
        return notes

    @property
    def numbers(self) -> Array:
        """Return the number of each row in the file, as `numbering` explains it."""
        index = getattr(self.rows.X, "index", np.arange(len(self.rows.y)))
        return np.asarray(index) + first_row(self.path)

    @property
    def classes(self) -> Array:
        """Return the labels, sorted."""
        return np.unique(self.rows.y)

    # What is learned

    @cached_property
    def prepare(self) -> Any:
        """Return what makes numbers of the columns, fitted to all rows."""
        with quiet():
            return new_preparation(self.rows).fit(self.rows.X)

    @cached_property
    def X(self) -> Any:
        """Return the rows as numbers."""
        with quiet():
            return self.prepare.transform(self.rows.X)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the columns of `X`: "age", "town = Rom"."""
        return readable_names(Pipeline([("prepare", self.prepare), ("last", "passthrough")]))

    @cached_property
    def fitted(self) -> Pipeline:
        """Return the pipeline as it was fitted, with the search where there is one."""
        pipeline, _ = self._plan
        self.step("all rows")
        return fit_rows(clone(pipeline), self.rows, np.arange(len(self.rows.y)))

    @cached_property
    def model(self) -> Pipeline:
        """Return the pipeline from the columns of the table to labels."""
        last = self.fitted[-1]
        return Pipeline(
            [("prepare", self.fitted[0]), ("model", getattr(last, "best_estimator_", last))]
        )

    @property
    def calibrated(self) -> bool:
        """Return whether the model gives probabilities, not memberships."""
        return is_calibrated(self.model[-1])

    @property
    def search(self) -> FuzzyTwinSVCCV | None:
        """Return the search, if the model was tuned."""
        last = self.fitted[-1]
        return last if isinstance(last, FuzzyTwinSVCCV) else None

    @cached_property
    def _plan(self) -> tuple[Pipeline, int]:
        """Return the pipeline to fit, and the number of folds to measure it by."""
        rows, settings = self.rows, self.settings
        folds, inner = count_folds(rows, settings)
        near = len(rows.y) <= FEW_ROWS
        estimator = make_estimator(settings, rows.y, inner, neighbors=near)
        if folds < settings.folds:
            what = "rows" if rows.groups is None else "groups"
            self.notes.append(f"{folds} folds, as the smallest class has {folds} {what}")
        if settings.model == "search" and settings.membership is None and not near:
            self.notes.append(f"neighbor memberships not tried beyond {FEW_ROWS:,} rows")
        return Pipeline([("prepare", new_preparation(rows)), ("model", estimator)]), folds

    @cached_property
    def _folds(self) -> tuple[Array, Array]:
        """Return probabilities and labels of each row by a model that never saw it."""
        rows, classes = self.rows, self.classes
        pipeline, folds = self._plan
        P, labels = np.zeros((len(rows.y), len(classes))), rows.y.copy()
        splits = splitter(self.settings, folds).split(rows.X, rows.y, rows.groups)
        for number, (train, test) in enumerate(splits, start=1):
            self.step(f"fold {number} of {folds}")
            fitted = fit_rows(clone(pipeline), rows, train)
            with quiet():
                X = fitted[0].transform(take(rows.X, test))
                columns = np.searchsorted(classes, fitted.classes_)
                P[np.ix_(test, columns)] = fitted[-1].predict_proba(X)
                labels[test] = fitted[-1].predict(X)
        return P, labels

    @property
    def left_out(self) -> Array:
        """Return the probabilities of each row by a model that never saw it."""
        return self._folds[0]

    @property
    def predicted(self) -> Array:
        """Return the label of each row by a model that never saw it."""
        return self._folds[1]

    @cached_property
    def score(self) -> dict[str, Any]:
        """Measure the model by what its folds say of the rows that were left out."""
        rows = self.rows
        score = measure(
            rows.y, self.predicted, membership=self.left_out, classes=self.classes,
            weight=rows.weight, groups=rows.groups, probabilities=self.calibrated,
        )  # fmt: skip
        return {**score, "how": f"{self._plan[1]}-fold cross-validation"}

    # What is told about it

    @cached_property
    def effects(self) -> list[dict[str, Any]]:
        """Explain the model by its rows."""
        rows = self.rows
        return explain(self.model, rows.X, rows.y, rows.weight, MOST_EFFECTS)

    @cached_property
    def doubts(self) -> DoubtsReport:
        """Find the doubtful labels: every row is judged by planes that never saw it."""
        rows = self.rows
        self.step("judging every row by the others")
        y: Any = rows.y
        votes = None
        if self.settings.votes:
            votes = self.votes.iloc[np.asarray(rows.X.index)].reset_index(drop=True)
            y = None if self.settings.target is None else y
        with quiet():
            return find_doubtful(
                self.X, y, sample_weight=rows.weight, groups=rows.groups, votes=votes,
                ids=rows.names, id_name=rows.id or "id", verbose=self.verbose,
            )  # fmt: skip

    def rival_of(self, row: int) -> int:
        """Return the likeliest class of a row other than that of its label."""
        others = self.doubts.posterior[row].copy()
        others[self.doubts.codes[row]] = -1.0
        return int(others.argmax())

    @property
    def suggestions_in_words(self) -> str:
        """Say what taking the suggestions would do; "" where no number is claimed."""
        found = self.doubts
        if not found.tells:
            return ""
        changed = int((found.suggested != found.classes[found.codes]).sum())
        return (
            f"About {found.n_wrong:,.0f} labels are wrong now; about {found.n_wrong_after:,.0f} "
            f"would be after taking the {count(changed, 'suggestion')} of another label unseen."
        )

    def doubts_frame(self) -> Any:
        """Return the doubts as a frame of all rows, the most doubtful first."""
        frame = self.doubts.to_frame()
        frame.insert(0, "row", self.numbers)
        frame["degree"] = frame["degree"].round(4)
        return frame.iloc[self.doubts.order].reset_index(drop=True)

    def doubts_table(self, keep_all: bool) -> tuple[Any, str]:
        """Return the doubts, beside all columns of the table or not, and the column of degrees."""
        frame = self.doubts_frame()
        if not keep_all:
            return pa.Table.from_pandas(frame, preserve_index=False), "degree"
        table = self.table.cells.take(np.asarray(self.rows.X.index)[self.doubts.order])
        names = {name: name for name in ("suggested", "degree", "doubtful", "rank")}
        while set(names.values()) & set(table.schema.names):
            names = {name: f"{given}_" for name, given in names.items()}
        for name, given in names.items():
            table = table.append_column(given, pa.array(frame[name]))
        return table, names["degree"]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Collect what a model file tells about its training, ready for JSON."""
        score = self.score
        facts = facts_of(self.path, self.settings, self.rows, self.model[-1], self.notes)
        return {**facts, "score": score, "effects": self.effects}
