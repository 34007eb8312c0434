"""An experiment on one table: rows, model, held-out predictions, label issues and effects.

`fuzzytwin train`, `fuzzytwin label-issues`, the report pages and the studio show its parts. Each is
computed when it is first needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import cohen_kappa_score
from sklearn.pipeline import Pipeline

from fuzzytwin import files
from fuzzytwin._duplicates import count_duplicates
from fuzzytwin._params import count_threads
from fuzzytwin._rows import validate_chunk
from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.text import count
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.experiment._curves import Curves, class_curves
from fuzzytwin.experiment._effects import fold_effects, mean_effects
from fuzzytwin.experiment._estimators import (
    check_streamable,
    make_estimator,
    quiet,
    rarest_class,
    splitter,
    training_metadata,
)
from fuzzytwin.experiment._metrics import measure
from fuzzytwin.experiment._rows import (
    REVIEWED_LABEL,
    Rows,
    Settings,
    id_column,
    id_heading,
    open_table,
    rows_of,
)
from fuzzytwin.experiment._words import notes
from fuzzytwin.explain._names import readable_names
from fuzzytwin.files._fit import total_over
from fuzzytwin.files._tables import TableChunks
from fuzzytwin.label_issues import LabelIssueReport, find_label_issues
from fuzzytwin.label_issues._annotators import majority
from fuzzytwin.label_issues._chunked import (
    ChunkedLabelIssues,
    collect_rows,
    fit_scorer,
    join_rows,
)
from fuzzytwin.label_issues._find import default_committee
from fuzzytwin.label_issues._report import ranks
from fuzzytwin.tables import (
    Finding,
    TableBatch,
    TableError,
    TablePreprocessor,
    TableReader,
)
from fuzzytwin.tables._checks import check_table
from fuzzytwin.tables._columns import label_key
from fuzzytwin.tables._infer import spell
from fuzzytwin.tables._parse import pa
from fuzzytwin.tables._preprocessor import encode_rows, fitted_to_schema

MAX_CURVES = 5  # the largest classes, if there are more than two
MAX_EFFECTS = 50  # columns of each class whose effects are kept
MAJORITY = "majority of the votes"
OUTCOMES_HINT = (
    "If the labels are outcomes, such as death or churn, use fuzzytwin label-issues --labels "
    "observed: overlap of classes is then no error."
)
MIN_KAPPA = 0.4  # Cohen's kappa with the labels, from which a column may hold votes


class Experiment:
    """A table and what is learned from it; each part is computed when it is first needed.

    Parameters
    ----------
    path : str or list of str
        The table.
    settings : Settings
        Options, as on the command line.
    step : callable, default=None
        Called with the name of each step, for a progress bar.
    verbose : bool, default=False
        Whether to show the progress of the search for label issues.
    stream : bool, default=None
        Whether to read the rows in chunks. None for tables of more than 256 MiB of numbers. `rows`
        are then only the first ones, from which columns are inferred and scores computed. The model
        is fitted to all rows, and all labels are checked. The result is the same for tables of at
        most 256 MiB.
    """

    def __init__(
        self,
        path: str | Sequence[str],
        settings: Settings,
        step: Callable[[str], object] = lambda name: None,
        verbose: bool = False,
        *,
        stream: bool | None = None,
    ) -> None:
        self.paths = [path] if isinstance(path, str) else list(path)
        self.path = self.paths[0]
        self.settings = settings
        self.step = step
        self.verbose = verbose
        self._stream = stream

    # The rows

    @cached_property
    def reader(self) -> TableReader:
        """Return the open table."""
        return open_table(self.paths, self.settings)

    @cached_property
    def stream(self) -> bool:
        """Return whether the rows are read in chunks. Raise an error for settings that need all."""
        stream = not self.table.complete if self._stream is None else self._stream
        if stream:
            check_streamable(self.settings)
        return stream

    @cached_property
    def table(self) -> TableBatch:
        """Return the cells as they are in the file; of a stream, those of the first rows."""
        return self._read_table()

    def _read_table(self) -> TableBatch:
        return self.reader.read() if self._stream is False else self.reader.sample()

    @cached_property
    def rows(self) -> Rows:
        """Return the rows that have a label, as numbers, categories and missing values."""
        self.step("reading")
        settings = self.settings
        table = self.table
        if settings.target is None and not settings.votes:
            raise TableError(f"missing --target: name the column of {self.path} with the labels.")
        if settings.votes:
            table, settings = self._labelled_by_votes()
        return rows_of(table, settings, self.reader.separator)

    @cached_property
    def chunks(self) -> TableChunks:
        """Return all rows of a stream, in chunks."""
        schema = replace(self.rows.schema, groups=None, id=self.rows.id)
        return TableChunks(self.reader, schema, self.prepare)

    @cached_property
    def _vote_columns(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns of --votes as text, and the labels of these and the target by key."""
        patterns = self.settings.votes
        columns = self.table.cells.schema.names
        names = [name for name in columns if any(fnmatchcase(name, p) for p in patterns)]
        if len(names) < 2:
            listed = ", ".join(columns[:10])
            raise TableError(
                f"--votes {' '.join(patterns)} matches {count(len(names), 'column')} of "
                f"{self.path}, but needs at least two. The columns are {listed}."
            )
        votes = {name: self.table.text(name) for name in names}
        target = [name for name in columns if name == self.settings.target]
        texts = [*votes.values(), *(self.table.text(name) for name in target)]
        chunks = [chunk for column in texts for chunk in column.chunks]
        labels, _ = spell(pa.chunked_array(chunks, pa.string()), self.table.decimal)
        return votes, labels

    def _label(self, cell: object) -> Any:
        """Return a label in its most frequent spelling; None for an empty cell."""
        if cell is None:
            return None
        return self._vote_columns[1][label_key(str(cell), self.table.decimal)]

    @cached_property
    def votes(self) -> Any:
        """Return the labels of each annotator, with None if there is no vote."""
        cells = {name: column.to_pylist() for name, column in self._vote_columns[0].items()}
        votes = {name: list(map(self._label, column)) for name, column in cells.items()}
        return import_optional("pandas", "cli", "votes").DataFrame(votes, dtype=object)

    def votes_of_rows(self) -> Any:
        """Return the votes on the rows that have a label."""
        return self.votes.iloc[np.asarray(self.rows.X.index)].reset_index(drop=True)

    def _labelled_by_votes(self) -> tuple[TableBatch, Settings]:
        """Return table and settings without votes; without a target, most votes are the label."""
        settings = self.settings
        votes = self.votes
        table = self.table
        if settings.target is None:
            texts = [None if label is None else str(label) for label in majority(votes)]
            labels = pa.array(texts, pa.string())
            cells = table.cells.append_column(MAJORITY, labels)
            table = replace(table, cells=cells, _parsed={})
            settings = replace(settings, target=MAJORITY)
        drop = dict.fromkeys([*settings.drop, *votes.columns])
        return table, replace(settings, drop=list(drop))

    @cached_property
    def findings(self) -> list[Finding]:
        """Return the findings about the rows."""
        rows = self.rows
        n_unlabelled = rows.n_unlabelled
        issues = []
        if self.stream:
            if not self.chunks.counts:
                deque(self.chunks.decoded(), maxlen=0)
            n_unlabelled = self.chunks.n_unlabelled
            noted = {(finding.column, finding.code) for finding in rows.schema.findings}
            issues = [
                finding
                for finding in self.chunks.issues.findings()
                if (finding.column, finding.code) not in noted
            ]
        findings = list(rows.findings)
        if n_unlabelled:
            findings.append(Finding("unlabelled", values={"rows": n_unlabelled}))
        findings += check_table(rows.X, rows.y, rows.schema, grouped=rows.groups is not None)
        findings += duplicates(self.X) if rows.groups is None else []
        findings += self._annotator_columns()
        if self.stream and not self.table.complete:
            findings.append(Finding("sampled", values={"rows": len(self.table)}))
        return [*findings, *issues]

    @property
    def notes(self) -> list[str]:
        """Describe the findings, a sentence each."""
        return notes(self.findings)

    def _annotator_columns(self) -> list[Finding]:
        """Find columns that seem to hold the labels of annotators, if there are two or more.

        These contain only labels of the target, and agree with it better than by chance.
        """
        rows = self.rows
        labels_by_key = rows.schema.labels
        y = rows.y.astype(str)
        names = []
        for column in rows.schema.features:
            values = rows.X[column.name].dropna()
            if column.distinct > len(labels_by_key) or not len(values):
                continue
            distinct = values.unique()
            keys = [label_key(str(value), self.table.decimal) for value in distinct]
            if len(keys) < 2 or any(key not in labels_by_key for key in keys):
                continue
            texts = (str(labels_by_key[key]) for key in keys)
            labels = dict(zip(distinct, texts, strict=True))
            y_present = y[rows.X[column.name].notna().to_numpy()]
            if cohen_kappa_score(values.map(labels).astype(str), y_present) >= MIN_KAPPA:
                names.append(column.name)
        if len(names) < 2:
            return []
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        return [Finding("annotator_columns", values={"names": shown})]

    @property
    def numbers(self) -> Array:
        """Return the number of each row in the file, as `numbering` explains it."""
        return np.asarray(self.table.row_numbers(np.asarray(self.rows.X.index)))

    @property
    def classes(self) -> Array:
        """Return the labels, sorted."""
        return np.unique(self.rows.y)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Return the kind of each column."""
        return {column.name: column.kind for column in self.rows.schema.columns}

    def typical(self, column: str, rows: Array) -> Any:
        """Return the median of numbers, or the most frequent value; None without values."""
        values = self.rows.X[column][rows].dropna()
        if not len(values):
            return None
        return float(values.median()) if self.kinds[column] == "number" else values.mode().iloc[0]

    # The model

    @cached_property
    def prepare(self) -> TablePreprocessor:
        """Return the preprocessor, fitted to the rows."""
        return fitted_to_schema(self.rows.schema, self.rows.X, scale=False)

    @cached_property
    def X(self) -> Any:
        """Return the rows as numbers, which the committee scales."""
        return encode_rows(self.prepare, self.rows.X)

    @cached_property
    def scaled_X(self) -> Any:
        """Return the rows as scaled numbers, for distances."""
        return encode_rows(fitted_to_schema(self.rows.schema, self.rows.X, scale=True), self.rows.X)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the columns of `X`: "age", "town = Rome"."""
        return readable_names(self.prepare)

    @cached_property
    def model(self) -> Pipeline:
        """Return the pipeline from the columns of the table to labels, fitted to all rows."""
        committee = clone(self._plan[0])
        self.step("all rows")
        with quiet():
            if self.stream:
                files.fit(committee, self.chunks.arrays, classes=self.classes)
            else:
                committee.fit(self.X, self.rows.y, **self.rows.fit_params)
        return Pipeline([("prepare", self.prepare), ("model", committee)])

    @cached_property
    def _plan(self) -> tuple[FuzzyTwinCommittee, int]:
        """Return the committee to fit, and the number of folds to measure it by."""
        rows = self.rows
        settings = self.settings
        rarest, smallest, unit = rarest_class(rows, settings)
        folds = min(settings.folds, smallest)
        if folds < 2:
            raise TableError(
                f"class {rarest!r} occurs in {smallest} of the {unit}; cross-validation needs at "
                "least 2. Add rows, or omit --groups."
            )
        return make_estimator(settings, rows.y), folds

    def _training_findings(self) -> list[Finding]:
        """Return the findings about the training."""
        settings = self.settings
        findings = []
        if settings.target is not None and settings.target.rstrip("_") == REVIEWED_LABEL:
            findings.append(Finding("reviewed_target", settings.target))
        folds = self._plan[1]
        if folds < settings.folds:
            units = "rows" if self.rows.groups is None else "groups"
            findings.append(Finding("fewer_folds", values={"folds": folds, "units": units}))
        return findings

    @property
    def cv_predictions(self) -> tuple[Array, Array]:
        """Return held-out probabilities (n, K) and labels of the rows, by cross-validation."""
        P, labels, _ = self._cross_validation
        return P, labels

    @cached_property
    def _cross_validation(self) -> tuple[Array, Array, list[dict[str, Any]]]:
        """Return held-out probabilities (n, K), labels and effects of columns.

        Everything, including the encoding of the columns, is learned again in each fold.
        """
        rows, classes = self.rows, self.classes
        estimator, folds = self._plan
        P = np.zeros((len(rows.y), len(classes)))
        labels = rows.y.copy()
        effects = []
        splits = splitter(self.settings, folds).split(rows.X, rows.y, rows.groups)
        for number, (train, test) in enumerate(splits, start=1):
            self.step(f"fold {number} of {folds}")
            training = rows.take(train)
            with quiet():
                prepare = fitted_to_schema(rows.schema, training.X, scale=False)
                fitted = clone(estimator)
                fitted.fit(encode_rows(prepare, training.X), training.y, **training.fit_params)
                held_out = rows.take(test)
                X = encode_rows(prepare, held_out.X)
                P[np.ix_(test, np.searchsorted(classes, fitted.classes_))] = fitted.predict_proba(X)
                labels[test] = fitted.predict(X)
                effects.append(fold_effects(prepare, fitted, held_out, folds))
        return P, labels, mean_effects(effects, MAX_EFFECTS)

    @cached_property
    def score(self) -> dict[str, Any]:
        """Measure the held-out predictions."""
        rows = self.rows
        P, predicted = self.cv_predictions
        score = measure(
            rows.y, predicted, membership=P, classes=self.classes, weight=rows.weight,
            groups=rows.groups, probabilities=True,
        )  # fmt: skip
        on = "" if self.table.complete else f" on the first {len(self.table):,} rows"
        return {**score, "how": f"{self._plan[1]}-fold cross-validation{on}"}

    @cached_property
    def curves(self) -> list[Curves]:
        """Return curves of held-out probabilities: of the rarer class of two, or of the largest."""
        rows = self.rows
        P, _ = self.cv_predictions
        sizes = np.array([np.sum(rows.y == label) for label in self.classes])
        shown = [int(sizes.argmin())] if len(sizes) == 2 else np.argsort(-sizes)[:MAX_CURVES]
        computed = [
            class_curves(self.classes[k], rows.y == self.classes[k], P[:, k], rows.weight,
                         rows.groups)
            for k in shown
        ]  # fmt: skip
        return [curves for curves in computed if curves is not None]

    # Effects, label issues and metadata

    @property
    def effects(self) -> list[dict[str, Any]]:
        """Return the effects of the columns on each class, at held-out rows."""
        return self._cross_validation[2]

    @cached_property
    def label_issues(self) -> LabelIssueReport:
        """Find label issues of rows in memory by leave-one-out predictions."""
        rows = self.rows
        self.step("leave-one-out predictions")
        y = rows.y if self.settings.target or not self.settings.votes else None
        votes = None
        if self.settings.votes:
            votes = self.votes_of_rows()
            y = None if y is None else np.array(list(map(self._label, y.tolist())))
        with quiet():
            return find_label_issues(
                self.X,
                y,
                labels=self.settings.labels,
                estimator=default_committee(len(self.classes), verbose=self.verbose),
                sample_weight=rows.weight,
                groups=rows.groups,
                votes=votes,
            )

    @cached_property
    def _scored_chunks(self) -> tuple[Any, Any]:
        """Find label issues of a stream: the report or summary, and a frame of all rows."""
        pandas = import_optional("pandas", "cli", "label issues")
        with quiet(), thread_pool(count_threads(None), n_columns=self.X.shape[1]):
            total = total_over(self.chunks, None, self.verbose)
            scorer = fit_scorer(
                total,
                None,
                None,
                lambda: join_rows(total(collect_rows)),
                self.settings.labels,
            )
            frames = []
            start = 0
            for rows, X, numbers in self.chunks.decoded():
                scored = scorer.score(validate_chunk(X, rows.y, rows.weight), start)
                ids = {} if rows.ids is None else {id_heading(self.rows.id): rows.ids}
                frames.append(pandas.DataFrame({"row": numbers, **ids, **scored}))
                start += len(rows)
            scorer.check_end(start)
        frame = pandas.concat(frames, ignore_index=True)
        frame["rank"] = ranks(frame["label_quality"].to_numpy())
        return scorer.report or scorer.result(), frame

    @property
    def label_issues_summary(self) -> LabelIssueReport | ChunkedLabelIssues:
        """Return the report on all rows or, for many rows of a stream, the counts only."""
        return self._scored_chunks[0] if self.stream else self.label_issues

    @property
    def acceptance_text(self) -> str:
        """Describe what accepting all suggestions would do; "" if that is unknown."""
        report = self.label_issues_summary
        if not isinstance(report, LabelIssueReport) or not report.separable:
            return ""
        hint = OUTCOMES_HINT if report.question and self._may_be_outcomes else ""
        return " ".join(filter(None, (report.warning_text, hint, report.acceptance_text)))

    @property
    def _may_be_outcomes(self) -> bool:
        return self.settings.labels == "auto" and not self.settings.votes

    def label_issues_frame(self) -> Any:
        """Return a frame of all rows, lowest label quality first."""
        if self.stream:
            frame = self._scored_chunks[1]
        else:
            frame = self.label_issues.to_frame()
            for name, values in id_column(self.rows).items():
                frame.insert(0, name, values)
            frame.insert(0, "row", self.numbers)
        frame = frame.sort_values("rank", kind="stable", ignore_index=True)
        return frame

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Collect the metadata of a model file, ready for JSON."""
        model = self.model
        described = notes([*self.findings, *self._training_findings()])
        metadata = training_metadata(self.path, self.settings, self.rows, model[-1], described)
        if self.stream:
            counts = self.chunks.counts
            metadata["rows"] = sum(counts.values())
            metadata["classes"] = {str(label): counts[label] for label in self.classes.tolist()}
        thresholds = None
        if len(self.curves) == 1:
            thresholds = {"class": str(self.curves[0].label), "scores": self.curves[0].thresholds}
        return {
            **metadata, "score": self.score, "thresholds": thresholds, "effects": self.effects,
        }  # fmt: skip


def duplicates(X: Any) -> list[Finding]:
    """Return a finding if many rows equal another one."""
    equal = count_duplicates(X)
    return [Finding("duplicates", values={"rows": equal})] if equal else []
