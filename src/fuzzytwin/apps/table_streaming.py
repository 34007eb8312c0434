"""Train on tables that do not fit in memory, and judge their labels, a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin._params import count_threads
from fuzzytwin._utils.extras import need
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.apps.measures import measure
from fuzzytwin.apps.study import (
    FEW_ROWS,
    Study,
    facts_of,
    is_calibrated,
    left_out,
    make_estimator,
    notes_on,
    quiet,
)
from fuzzytwin.apps.table_rows import (
    DOUBTS,
    Rows,
    Settings,
    as_array,
    labelled,
    refuse_names,
    rows_of,
    sparse_schema,
)
from fuzzytwin.data import columns as _columns
from fuzzytwin.data import files
from fuzzytwin.data.batches import RowNumbers, Selection
from fuzzytwin.data.cells import pa
from fuzzytwin.data.columns import TableError, notices
from fuzzytwin.data.doubts_source import Judge, SourceDoubts, all_rows, gather, judge_over
from fuzzytwin.data.fit_source import fit_source, total_over
from fuzzytwin.data.preprocessor import fitted_to_schema
from fuzzytwin.data.schema import Schema
from fuzzytwin.data.sources import files_of, open_source, read_head
from fuzzytwin.memberships._registry import BY_CHUNKS, by_chunks, check_membership

HELD_OUT = 10  # one row of this many measures the model
HEAD_ROWS = 100_000  # at most, to judge columns and to tune by
HEAD_BYTES = 1 << 25  # of numbers; of tables of many columns, fewer rows are looked at
FEWEST_HEAD_ROWS = 10_000


def train_stream(study: Study) -> None:
    """Train on a table of any size by `fuzzytwin.sources`; the study then has model and facts.

    Columns are judged by the first rows; so are parameters and landmarks of a search. Every tenth
    row is kept out of a first fit, to measure it; the model itself learns from all. The rows of the
    study are then a sample.
    """
    path, settings, step = study.path, study.settings, study.step
    _check_settings(path, settings)
    step("looking at the first rows")
    head = files.read_table(path, settings.columns, _head_rows(path, settings), settings.sheet)
    rows = rows_of(head, settings)
    # Every tenth row, which measures the model, is not used here either.
    usable = np.flatnonzero(np.asarray(rows.X.index) % HELD_OUT)
    sample = rows.take(np.random.default_rng(settings.seed).permutation(usable)[:FEW_ROWS])
    prepare = fitted_to_schema(rows.schema, rows.X.iloc[usable])
    first = f"{_columns.among(len(head.cells))}; {_columns.SORTED}"
    stream = _Stream([path], replace(settings, id=None), rows.schema, prepare, first)
    estimator = make_estimator(settings, rows.y, min(settings.folds, 5), neighbors=False)
    best, weight = _choose(estimator, stream, sample, step)

    def learn(part: int | None) -> Any:
        fitted = fit_source(clone(best), lambda: stream.batches(part), classes=np.unique(rows.y))
        if settings.model == "search":
            # The ridge was chosen for as many rows as the sample has; it grows with the rows.
            growth = float(fitted.moments_.own.weight.sum()) / weight
            phi = getattr(fitted, "landmark_map_", None)
            fitted.set_params(alpha=best.alpha * growth)
            fitted.fit_moments(fitted.moments_, fitted.classes_, landmark_map=phi)
        return fitted

    step("nine rows of ten")
    trial = learn(0)
    step("the tenth rows")
    score = _measured(trial, stream.batches(1))
    step("all rows")
    study.model = Pipeline([("prepare", prepare), ("model", learn(None))])
    notes = (
        rows.notes
        + left_out(stream.unlabelled)
        + [text.rstrip(".") for text in notices(rows.X, rows.y, rows.schema)]
    )
    tuned = " and parameters chosen" if settings.model == "search" else ""
    notes.append(f"columns judged{tuned} by the first {len(rows.y):,} rows")
    if settings.kernel != "linear":
        notes.append(f"landmarks taken from the first {len(rows.y):,} rows")
    notes += stream.source.odd_cells.notes()
    study.streamed, study.rows = True, sample
    facts = facts_of(path, settings, rows, study.model[-1], notes)
    facts["rows"] = sum(stream.counts.values())
    facts["classes"] = {str(label): stream.counts[label] for label in np.unique(rows.y).tolist()}
    facts["score"] = {**score, "how": f"{score['rows']:,} rows kept out of the fit"}
    study.facts = {**facts, "effects": study.effects}


@dataclass(frozen=True)
class StreamedDoubts:
    """What `doubts_stream` found: about all labels, and of each row, the most doubtful first."""

    found: SourceDoubts
    frame: Any
    schema: Schema
    notes: list[str]


def doubts_stream(
    paths: Sequence[str], settings: Settings, progress: bool = False
) -> StreamedDoubts:
    """Find doubtful labels of tables of any size, as `Study.doubts` does of one in memory.

    Columns are judged by the first rows, and prepared as these are. All rows are read several
    times; what is held of each is its name, its labels and its degree.
    """
    files_read = [path for one in paths for path in files_of(one)]
    sparse = not files.known_format(files_read[0]).named
    stream = _SparseStream(files_read, settings) if sparse else _first_rows(paths, settings)
    opened = open_source(stream.batches, Selection(), None)
    with quiet(), thread_pool(count_threads(None), n_columns=len(stream.schema.columns)):
        total = total_over(opened, None, progress)
        judge = judge_over(total, None, None, lambda: all_rows(total(gather)))
        frame = _judged(judge, stream.rows())
    return StreamedDoubts(judge.found(), frame, stream.schema, stream.all_notes)


def _first_rows(paths: Sequence[str], settings: Settings) -> _Stream:
    """Judge the columns of files by their first rows, and open them to be read as these say."""
    if settings.target is None:
        raise TableError(f"which column of {paths[0]} holds the labels? Name it: --target NAME.")
    head = read_head(
        paths, settings.columns, _head_rows(files_of(paths[0])[0], settings), settings.sheet
    )
    rows = rows_of(head, settings)
    prepare = fitted_to_schema(rows.schema, rows.X)
    notes = notes_on(replace(rows, unlabelled=0), prepare.transform(rows.X))
    first = ""
    if head.more:
        first = f"{_columns.among(len(head.cells))}; {_columns.SORTED}"
        notes.append(f"columns judged by the first {len(rows.y):,} rows")
    return _Stream(paths, replace(settings, id=rows.id), rows.schema, prepare, first, notes)


def _judged(judge: Judge, batches: Iterable[tuple[Rows, Array]]) -> Any:
    """Judge the rows of a stream; return them as `Study.doubts_frame` does."""
    pandas = need("pandas", "cli", "doubts")
    parts, start = [], 0
    for rows, numbers in batches:
        label, degree, suggested, doubtful = judge.columns(rows.X, rows.y, rows.weight, start)
        named = {}
        if rows.names is not None:
            heading = "id" if rows.id in ("row", "label", *DOUBTS) else rows.id
            named[heading] = rows.names
        columns = {"row": numbers, **named, "label": label, "suggested": suggested}
        parts.append(pandas.DataFrame({**columns, "degree": degree, "doubtful": doubtful}))
        start += len(rows.y)
    judge.refuse_others(np.empty(0, dtype=np.intp), start, ended=True)
    frame = pandas.concat(parts, ignore_index=True)
    frame = frame.sort_values("degree", kind="stable", ignore_index=True)
    frame["degree"] = frame["degree"].round(4)
    frame["rank"] = np.arange(1, len(frame) + 1)
    return frame


def _head_rows(path: str, settings: Settings) -> int:
    """Return how many rows to judge columns by: about 32 MiB of numbers."""
    width = len(files.open_table(path, settings.columns, sheet=settings.sheet).schema.names)
    by_bytes = max(HEAD_BYTES // (8 * width), FEWEST_HEAD_ROWS)
    return min(by_bytes, HEAD_ROWS)


class _Stream:
    """The rows of files as numbers, as the first of them say how."""

    def __init__(
        self,
        paths: Sequence[str],
        settings: Settings,
        schema: Schema,
        prepare: Any,
        first: str,
        notes: Sequence[str] = (),
    ) -> None:
        self.settings = replace(settings, groups=None)
        self.schema, self.prepare, self.first, self.notes = schema, prepare, first, list(notes)
        wanted = Selection(keep=tuple(self.settings.columns), labelled=False, as_text=True)
        self.source = open_source(
            list(paths), wanted, None, schema, sheet=settings.sheet, decimal=schema.decimal
        )
        self.counts = Counter[Any]()  # of the labels, after a whole pass
        self.unlabelled = 0  # rows, after a whole pass

    @property
    def all_notes(self) -> list[str]:
        """Return what a reader should know, after a whole pass."""
        odd_cells = self.source.odd_cells.notes()
        return [*left_out(self.unlabelled), *self.notes, *odd_cells]

    def batches(self, part: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Read all rows, or those of a part, as arrays: see `rows`."""
        for rows, _ in self.rows(part):
            yield rows.X, rows.y, rows.weight, rows.degrees

    def rows(self, part: int | None = None) -> Iterator[tuple[Rows, Array]]:
        """Read all rows with their numbers, or those of a part: 1 for every tenth, 0 for others."""
        schema, decimal, start = self.schema, self.source.schema.decimal, 0
        self.counts, self.unlabelled, numbered = Counter[Any](), 0, RowNumbers()
        for batch in self.source.batches():
            place, numbers = batch.place, numbered.of(batch)
            rows = labelled(
                batch.X, batch.kept, schema, decimal, place.source, self.settings, place.number
            )
            self.unlabelled += len(batch) - len(rows.y)
            if part is not None:
                tenth = (np.asarray(rows.X.index) + start) % HELD_OUT == 0
                rows = rows.take(tenth == bool(part))
            start += len(batch)
            if not len(rows.y):
                continue
            strange = set(rows.y.tolist()) - set(schema.labels.values())
            if strange:
                raise TableError(
                    f"the target {schema.target!r} holds the label {min(strange)} further down but "
                    f"not{self.first or ' in the first rows'}."
                )
            numbers = numbers[np.asarray(rows.X.index)]
            y = as_array(rows.y, schema)
            self.counts.update(y.tolist())
            X = self.prepare.transform(rows.X)
            yield replace(rows, X=X, y=y), numbers


class _SparseStream:
    """The rows of LIBSVM text, scaled as `Study.prepare` does."""

    def __init__(self, paths: Sequence[str], settings: Settings) -> None:
        refuse_names(paths[0], settings)
        self.source = open_source(list(paths), Selection(as_text=True), None)
        self.scaler, words = MaxAbsScaler(), []
        for batch in self.source.batches():
            self.scaler.partial_fit(batch.X)
            words.append(batch.y)
        self.schema = sparse_schema(self.source, pa.array(np.concatenate(words)))
        self.all_notes: list[str] = []

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Read all rows as matrices and labels."""
        for rows, _ in self.rows():
            yield rows.X, rows.y

    def rows(self) -> Iterator[tuple[Rows, Array]]:
        """Read all rows with their numbers."""
        numbered = RowNumbers()
        for batch in self.source.batches():
            labels, _ = self.schema.read_labels(pa.array(batch.y))
            y = as_array(labels, self.schema)
            yield Rows(self.scaler.transform(batch.X), y, self.schema), numbered.of(batch)


def _check_settings(path: str, settings: Settings) -> None:
    if not files.known_format(path).named:
        raise TableError(
            f"{path}: LIBSVM text is not read in batches here; use fuzzytwin.sources.fit_source."
        )
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    named = settings.membership not in (None, "none")
    if named and not by_chunks(check_membership(settings.membership)):
        raise TableError(
            f"membership {settings.membership!r} needs all rows in memory at once; use none, "
            f"{' or '.join(BY_CHUNKS)}, or --no-stream."
        )
    if settings.groups is not None:
        raise TableError(
            "--groups needs all rows in memory at once; leave it out, or have the file read "
            "whole: --no-stream."
        )


def _choose(estimator: Any, stream: _Stream, sample: Rows, step: Any) -> tuple[Any, float]:
    """Tune on a sample and take landmarks from it; return the estimator and the sample's weight."""
    settings, y = stream.settings, sample.y
    if len(np.unique(y)) < 2:
        raise TableError(
            f"the target {settings.target!r} holds hardly any class but {y[0]}{stream.first}."
        )
    if settings.model == "committee" or (settings.model, settings.kernel) == ("planes", "linear"):
        return estimator, 1.0
    step("choosing parameters" if settings.model == "search" else "taking landmarks")
    estimator.fit(stream.prepare.transform(sample.X), y, **sample.fit_params)
    fitted = getattr(estimator, "best_estimator_", estimator)
    best, phi = clone(fitted), getattr(fitted, "landmark_map_", None)
    if phi is not None:  # the first batch of sorted rows would not be a fair sample
        best.set_params(n_landmarks=phi.landmarks, gamma=phi.gamma, relevance=None)
    return best, float(len(y) if sample.weight is None else sample.weight.sum())


def _measured(model: Any, batches: Iterator[tuple[Any, ...]]) -> dict[str, Any]:
    """Measure a model on batches."""
    found = [(y, model.predict(X), model.predict_proba(X), w) for X, y, w, _ in batches]
    labels, predicted, P, weight = zip(*found, strict=True)
    return measure(
        np.concatenate(labels), np.concatenate(predicted), membership=np.concatenate(P),
        classes=model.classes_, weight=None if weight[0] is None else np.concatenate(weight),
        probabilities=is_calibrated(model),
    )  # fmt: skip
