"""Train on a table that does not fit in memory, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fuzzytwin._utils.types import Array
from fuzzytwin.sources import fit_source
from fuzzytwin.sources.batches import Wanted
from fuzzytwin.sources.formats import known_kind
from fuzzytwin.sources.readers import Source, open_source
from fuzzytwin.sources.schema import Schema
from fuzzytwin.tables import columns as _columns
from fuzzytwin.tables import files
from fuzzytwin.tables.columns import TableError
from fuzzytwin.tables.measures import measure
from fuzzytwin.tables.rows import Rows, as_array, rows_of
from fuzzytwin.tables.settings import Settings
from fuzzytwin.tables.training import (
    FEW_ROWS,
    Step,
    Trained,
    facts_of,
    make_estimator,
    quiet,
)

HELD_OUT = 10  # every so many rows measure the model
MOST_PARTS = 1000  # of a file that is cut into small batches, to read for the sample
SAMPLE_ROWS = 100_000  # to judge columns and to tune by


def train_stream(path: str, settings: Settings, step: Step) -> Trained:
    """Train on a table of any size by `fuzzytwin.sources`.

    Columns are judged, parameters tuned and landmarks taken by the first rows. Every tenth row is
    kept out of a first fit, to measure it; the model itself learns from all.
    """
    _check_settings(path, settings)
    step("looking at the first rows")
    head = files.read_table(path, settings.columns, SAMPLE_ROWS, MOST_PARTS)
    rows = rows_of(head, settings)
    prepare = _columns.preparation(rows.schema.columns)
    # Every tenth row, which measures the model, is not used here either.
    usable = np.flatnonzero(np.asarray(rows.X.index) % HELD_OUT)
    sample = np.random.default_rng(settings.seed).permutation(usable)[:FEW_ROWS]
    prepare.fit(rows.X.iloc[usable])
    best, weight = _choose(settings, rows, prepare, sample, len(head.cells), step)
    notes = [*rows.notes, *_notes(settings, len(rows.y))]
    classes = np.unique(rows.y)

    sources: list[Source] = []  # of the last pass

    def batches(part: int | None) -> Iterator[tuple[Any, ...]]:
        known = [name for name in (settings.target, settings.weight, settings.degree) if name]
        wanted = Wanted(keep=tuple(known), labelled=False, verbatim=True, schema=rows.schema)
        source = open_source(path, wanted, files.BATCH_ROWS)
        sources[:] = [source]
        start = 0
        for batch in source.batches():
            held = np.arange(start, start + len(batch)) % HELD_OUT == 0
            start += len(batch)
            decimal = source.schema.decimal
            labels, used = rows.schema.read_labels(batch.kept.column(settings.target), decimal)
            if part is not None:
                used &= held if part else ~held
            if not used.any():
                continue
            y = _check_labels(labels[used], rows.schema, len(head.cells))
            with quiet():
                X = prepare.transform(batch.X[used])
            w = _columns.numbers(batch.kept, settings.weight, "weights", decimal, used)
            mu = _columns.numbers(batch.kept, settings.degree, "degrees", decimal, used)
            if mu is not None and w is None:
                w = np.ones(len(y))
            yield (X, y, *(value for value in (w, mu) if value is not None))

    def learn(part: int | None) -> Any:
        fitted = fit_source(clone(best), lambda: batches(part), classes=classes)
        if settings.search:
            # The ridge was chosen for as many rows as the sample has; it grows with the rows.
            growth = float(fitted.moments_.own.weight.sum()) / weight
            fitted.set_params(alpha=best.alpha * growth)
            fitted.fit_moments(
                fitted.moments_,
                fitted.classes_,
                landmark_map=getattr(fitted, "landmark_map_", None),
            )
        return fitted

    step("nine rows of ten")
    trial = learn(0)
    step("the tenth rows")
    score = _measured(trial, batches(1), settings.weight is not None)
    step("all rows")
    model = Pipeline([("prepare", prepare), ("model", learn(None))])
    notes += sources[0].tally.notes()
    facts = facts_of(path, settings, rows, model[-1], notes)
    if settings.weight is None:
        counts = [round(float(count)) for count in model[-1].moments_.own.weight]
        facts["rows"] = sum(counts)
        facts["classes"] = dict(zip(map(str, classes), counts, strict=True))
    facts["score"] = {**score, "how": f"{score['rows']:,} rows kept out of the fit"}
    return Trained(model, facts, _sampled(rows, sample))


def _check_settings(path: str, settings: Settings) -> None:
    if known_kind(path) == "libsvm":
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


def _choose(
    settings: Settings, rows: Rows, prepare: Any, sample: Array, head: int, step: Step
) -> tuple[Any, float]:
    """Tune on a sample and take landmarks from it; return the estimator and the sample's weight."""
    given = {
        key: value[sample]
        for key, value in (("sample_weight", rows.weight), ("membership", rows.degrees))
        if value is not None
    }
    weight = float(given["sample_weight"].sum()) if "sample_weight" in given else len(sample)
    folds = min(settings.folds, 5)
    estimator: Any = make_estimator(settings, rows.y, folds, neighbors=False)
    if not settings.search and settings.kernel == "linear":
        return estimator, weight
    step("choosing parameters" if settings.search else "taking landmarks")
    y = rows.y[sample]
    if len(np.unique(y)) < 2:
        raise TableError(
            f"the target {settings.target!r} holds hardly any class but {y[0]} in the first "
            f"{head:,} rows, which --stream uses; {_columns.SORTED}."
        )
    estimator.fit(prepare.transform(rows.X.iloc[sample]), y, **given)
    return _with_landmarks(estimator.best_estimator_ if settings.search else estimator), weight


def _notes(settings: Settings, rows: int) -> Iterator[str]:
    judged = "columns judged and parameters chosen" if settings.search else "columns judged"
    yield f"{judged} by the first {rows:,} rows"
    if settings.kernel != "linear":
        yield f"landmarks taken from the first {rows:,} rows"


def _measured(model: Any, batches: Iterator[tuple[Any, ...]], weighted: bool) -> dict[str, Any]:
    """Measure a model on batches."""
    labels, predicted, memberships, weights = [], [], [], []
    for X, y, *more in batches:
        u = model.predict_proba(X)
        labels.append(y)
        predicted.append(model.classes_[u.argmax(axis=1)])
        memberships.append(u.astype(np.float32))
        weights.append(more[0] if weighted else np.ones(len(y)))
    return measure(
        np.concatenate(labels),
        np.concatenate(predicted),
        membership=np.concatenate(memberships),
        classes=model.classes_,
        weight=np.concatenate(weights),
    )


def _sampled(rows: Rows, sample: Array) -> Rows:
    weight = None if rows.weight is None else rows.weight[sample]
    return Rows(rows.X.iloc[sample], rows.y[sample], rows.schema, weight)


def _with_landmarks(fitted: Any) -> Any:
    """Clone an estimator with the landmarks and the gammas that it found, if it is curved.

    The first batch of a file, where it would take them from, is not a fair sample of sorted rows.
    """
    unfitted = clone(fitted)
    phi = getattr(fitted, "landmark_map_", None)
    if phi is None:
        return unfitted
    return unfitted.set_params(n_landmarks=phi.landmarks, gamma=phi.gamma, relevance=None)


def _check_labels(labels: Array, schema: Schema, first: int) -> Array:
    """Give the labels of a batch, each of them among those of the first rows."""
    known = set(schema.labels.values())
    strange = next((label for label in labels if label not in known), None)
    if strange is not None:
        raise TableError(
            f"the target {schema.target!r} holds the label {strange} further down but not in the "
            f"first {first:,} rows, which --stream uses; {_columns.SORTED}."
        )
    return as_array(labels, schema)
