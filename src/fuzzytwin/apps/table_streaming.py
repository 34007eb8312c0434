"""Train on a table that does not fit in memory, a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.measures import measure
from fuzzytwin.apps.study import FEW_ROWS, Study, facts_of, is_calibrated, make_estimator, quiet
from fuzzytwin.apps.table_rows import Rows, Settings, as_array, rows_of
from fuzzytwin.data import columns as _columns
from fuzzytwin.data import files
from fuzzytwin.data.batches import Selection
from fuzzytwin.data.columns import TableError, notices
from fuzzytwin.data.fit_source import fit_source
from fuzzytwin.data.sources import open_source

HELD_OUT = 10  # every so many rows measure the model
SAMPLE_ROWS = 100_000  # to judge columns and to tune by


def train_stream(study: Study) -> None:
    """Train on a table of any size by `fuzzytwin.sources`; the study then has model and facts.

    Columns are judged by the first rows; so are parameters and landmarks of a search. Every tenth
    row is kept out of a first fit, to measure it; the model itself learns from all. The rows of the
    study are then a sample.
    """
    path, settings, step = study.path, study.settings, study.step
    _check_settings(path, settings)
    step("looking at the first rows")
    head = files.read_table(path, settings.columns, SAMPLE_ROWS, settings.sheet)
    rows = rows_of(head, settings)
    # Every tenth row, which measures the model, is not used here either.
    usable = np.flatnonzero(np.asarray(rows.X.index) % HELD_OUT)
    sample = np.random.default_rng(settings.seed).permutation(usable)[:FEW_ROWS]
    prepare = _columns.preparation(rows.schema.columns).fit(rows.X.iloc[usable])
    stream = _Stream(path, settings, rows, prepare, len(head.cells))
    best, weight = _choose(stream, sample, step)

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
    score = _measured(trial, stream.batches(1), settings.weight is not None)
    step("all rows")
    study.model = Pipeline([("prepare", prepare), ("model", learn(None))])
    odd = (text.rstrip(".") for text in notices(rows.X, rows.y, rows.schema))
    notes = [*rows.notes, *odd, *_notes(settings, len(rows.y)), *stream.odd_cells.notes()]
    kept = None if rows.weight is None else rows.weight[sample]
    study.streamed, study.rows = True, Rows(rows.X.iloc[sample], rows.y[sample], rows.schema, kept)
    facts = facts_of(path, settings, rows, study.model[-1], notes)
    facts["rows"] = sum(stream.counts.values())
    facts["classes"] = {str(label): stream.counts[label] for label in np.unique(rows.y).tolist()}
    facts["score"] = {**score, "how": f"{score['rows']:,} rows kept out of the fit"}
    study.facts = {**facts, "effects": study.effects}


@dataclass
class _Stream:
    """The rows of a file as numbers, as the first of them say how."""

    path: str
    settings: Settings
    rows: Rows
    prepare: Any
    first: int  # how many rows were looked at
    counts: Counter[Any] = field(default_factory=Counter)  # of the labels, after a whole pass
    odd_cells: Any = None

    def batches(self, part: int | None) -> Iterator[tuple[Any, ...]]:
        """Read all rows, or those of a part: 1 for every tenth, 0 for the others."""
        settings, schema = self.settings, self.rows.schema
        known = [name for name in (settings.target, settings.weight, settings.degree) if name]
        wanted = Selection(keep=tuple(known), labelled=False, as_text=True)
        source = open_source(self.path, wanted, files.BATCH_ROWS, schema, sheet=settings.sheet)
        start, counts = 0, Counter[Any]()
        for batch in source.batches():
            held = np.arange(start, start + len(batch)) % HELD_OUT == 0
            start += len(batch)
            decimal = source.schema.decimal
            labels, used = schema.read_labels(batch.kept.column(settings.target), decimal)
            if part is not None:
                used &= held if part else ~held
            if not used.any():
                continue
            y = self._known(labels[used])
            counts.update(y.tolist())
            with quiet():
                X = self.prepare.transform(batch.X[used])
            w = _columns.numbers(batch.kept, settings.weight, "weights", decimal, used)
            mu = _columns.numbers(batch.kept, settings.degree, "degrees", decimal, used)
            if mu is not None and w is None:
                w = np.ones(len(y))
            yield (X, y, *(value for value in (w, mu) if value is not None))
        self.counts, self.odd_cells = counts, source.odd_cells

    def _known(self, labels: Array) -> Array:
        """Give the labels of a batch, each of them among those of the first rows."""
        schema = self.rows.schema
        strange = set(labels.tolist()) - set(schema.labels.values())
        if strange:
            raise TableError(
                f"the target {schema.target!r} holds the label {min(strange)} further down but not "
                f"in the first {self.first:,} rows, which --stream uses; {_columns.SORTED}."
            )
        return as_array(labels, schema)


def _check_settings(path: str, settings: Settings) -> None:
    if files.known_kind(path) == "libsvm":
        raise TableError(
            f"{path}: LIBSVM text is not read in batches here; use fuzzytwin.sources.fit_source."
        )
    if settings.target is None:
        raise TableError(f"which column of {path} is to be predicted? Name it: --target NAME.")
    if str(settings.membership).startswith(("neighbor", "entropy", "intuitionistic")):
        raise TableError(
            f"membership {settings.membership!r} needs all rows in memory at once; use none, "
            "center or hyperplane, or --no-stream."
        )
    if settings.groups is not None:
        raise TableError(
            "--groups needs all rows in memory at once; leave it out, or have the file read "
            "whole: --no-stream."
        )


def _choose(stream: _Stream, sample: Array, step: Any) -> tuple[Any, float]:
    """Tune on a sample and take landmarks from it; return the estimator and the sample's weight."""
    settings, rows = stream.settings, stream.rows
    estimator = make_estimator(settings, rows.y, min(settings.folds, 5), neighbors=False)
    y = rows.y[sample]
    if len(np.unique(y)) < 2:
        raise TableError(
            f"the target {settings.target!r} holds hardly any class but {y[0]} in the first "
            f"{stream.first:,} rows, which --stream uses; {_columns.SORTED}."
        )
    if settings.model == "committee" or (settings.model, settings.kernel) == ("planes", "linear"):
        return estimator, 1.0
    step("choosing parameters" if settings.model == "search" else "taking landmarks")
    given: dict[str, Any] = {"sample_weight": rows.weight, "membership": rows.degrees}
    given = {key: value[sample] for key, value in given.items() if value is not None}
    estimator.fit(stream.prepare.transform(rows.X.iloc[sample]), y, **given)
    fitted = getattr(estimator, "best_estimator_", estimator)
    best, phi = clone(fitted), getattr(fitted, "landmark_map_", None)
    if phi is not None:  # the first batch of sorted rows would not be a fair sample
        best.set_params(n_landmarks=phi.landmarks, gamma=phi.gamma, relevance=None)
    return best, float(given["sample_weight"].sum()) if "sample_weight" in given else len(sample)


def _notes(settings: Settings, rows: int) -> Iterator[str]:
    tuned = " and parameters chosen" if settings.model == "search" else ""
    yield f"columns judged{tuned} by the first {rows:,} rows"
    if settings.kernel != "linear":
        yield f"landmarks taken from the first {rows:,} rows"


def _measured(model: Any, batches: Iterator[tuple[Any, ...]], weighted: bool) -> dict[str, Any]:
    """Measure a model on batches."""
    found = [
        (y, model.predict(X), model.predict_proba(X), more[0] if weighted else np.ones(len(y)))
        for X, y, *more in batches
    ]
    y, predicted, P, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    return measure(
        y, predicted, membership=P, classes=model.classes_, weight=weight,
        probabilities=is_calibrated(model),
    )  # fmt: skip
