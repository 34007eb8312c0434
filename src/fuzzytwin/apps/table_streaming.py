"""Train on a table that does not fit in memory, a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin.apps.measures import measure
from fuzzytwin.apps.study import FEW_ROWS, Study, facts_of, is_calibrated, make_estimator
from fuzzytwin.apps.table_rows import Rows, Settings, as_array, labelled, rows_of
from fuzzytwin.data import columns as _columns
from fuzzytwin.data import files
from fuzzytwin.data.batches import Selection
from fuzzytwin.data.columns import TableError, notices
from fuzzytwin.data.fit_source import fit_source
from fuzzytwin.data.preprocessor import fitted_to_schema
from fuzzytwin.data.schema import Schema
from fuzzytwin.data.sources import open_source
from fuzzytwin.fit.chunked import BY_CHUNKS, by_chunks
from fuzzytwin.fit.settings import check_membership

HELD_OUT = 10  # one row of this many measures the model
HEAD_ROWS = 100_000  # to judge columns and to tune by


def train_stream(study: Study) -> None:
    """Train on a table of any size by `fuzzytwin.sources`; the study then has model and facts.

    Columns are judged by the first rows; so are parameters and landmarks of a search. Every tenth
    row is kept out of a first fit, to measure it; the model itself learns from all. The rows of the
    study are then a sample.
    """
    path, settings, step = study.path, study.settings, study.step
    _check_settings(path, settings)
    step("looking at the first rows")
    head = files.read_table(path, settings.columns, HEAD_ROWS, settings.sheet)
    rows = rows_of(head, settings)
    # Every tenth row, which measures the model, is not used here either.
    usable = np.flatnonzero(np.asarray(rows.X.index) % HELD_OUT)
    sample = rows.take(np.random.default_rng(settings.seed).permutation(usable)[:FEW_ROWS])
    prepare = fitted_to_schema(rows.schema, rows.X.iloc[usable])
    first = f"{_columns.among(len(head.cells))}; {_columns.SORTED}"
    stream = _Stream(path, settings, rows.schema, prepare, first)
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
    notes = rows.notes + [text.rstrip(".") for text in notices(rows.X, rows.y, rows.schema)]
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


class _Stream:
    """The rows of a file as numbers, as the first of them say how."""

    def __init__(
        self, path: str, settings: Settings, schema: Schema, prepare: Any, first: str
    ) -> None:
        self.settings = replace(settings, id=None, groups=None)
        self.schema, self.prepare, self.first = schema, prepare, first
        wanted = Selection(keep=tuple(self.settings.columns), labelled=False, as_text=True)
        self.source = open_source(path, wanted, files.BATCH_ROWS, schema, sheet=settings.sheet)
        self.counts = Counter[Any]()  # of the labels, after a whole pass

    def batches(self, part: int | None) -> Iterator[tuple[Any, ...]]:
        """Read all rows, or those of a part: 1 for every tenth, 0 for the others."""
        schema, decimal, start = self.schema, self.source.schema.decimal, 0
        self.counts = Counter[Any]()
        for batch in self.source.batches():
            place = batch.place
            rows = labelled(
                batch.X, batch.kept, schema, decimal, place.source, self.settings, place.number
            )
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
                    f"not{self.first}."
                )
            y = as_array(rows.y, schema)
            self.counts.update(y.tolist())
            yield self.prepare.transform(rows.X), y, rows.weight, rows.degrees


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
