"""Label rows that are read batch by batch, and write them to a file."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.extras import need
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.data.batches import Batch, Selection
from fuzzytwin.data.cells import pa
from fuzzytwin.data.fit_source import locating
from fuzzytwin.data.schema import Schema
from fuzzytwin.data.sources import Source, open_source
from fuzzytwin.data.writers import check_out, write_tables
from fuzzytwin.twin._prediction import PlaneClassifier, labels_by


def predict_source(
    model: Any,
    source: Any,
    out: str | os.PathLike[str],
    *,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    batch_rows: int | None = None,
    sheet: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Label rows that are read batch by batch, and write labels and memberships to a file.

    The file has the column "label" and, for estimators that give memberships and pipelines that
    end in one, one column "membership_<label>" per class ("probability_<label>" of a calibrated
    one and of a committee), behind the columns to keep; where these have such names,
    "predicted_label" and so on. Its rows are in the order of the source. It appears when it is
    complete: a run that fails or is killed leaves what was there.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, or a `Pipeline` or search of scikit-learn around one. One
        that was fitted to a data frame is handed data frames, with text and gaps as they are.
    source : path, list of paths, iterable or callable
        As for `fit_source`; batches may be X alone, labels and weights are not looked at.
    out : path
        A .parquet, .feather, .xlsx, .csv or .tsv file, or a .csv.gz or .tsv.gz file. Text in CSV
        files that a spreadsheet would run as a formula (=..., @..., and +... or -... except for
        numbers) gets an apostrophe before it, which is taken away in reading.
    features : sequence of str, default=None
        Columns of X; None for the names that the model was fitted with or, where it knows none,
        for all numeric ones.
    keep : str or sequence of str, default=()
        Columns of the source to copy, such as a key: those of text files as text, cell by cell.
        Missing values become empty.
    schema : mapping, default=None
        How to read files, as ``fuzzytwin.store.about(path)["facts"]["schema"]`` has it. None for
        what `fit_source` learned, or the `TablePreprocessor` that a pipeline begins with.
    batch_rows : int, default=None
        Most rows to hold at once; None for about 16 MiB of numbers: 65,536 rows of up to 32
        columns, 8,192 of 256.
    sheet : str, default=None
        Sheet of a workbook; None for the first.
    overwrite : bool, default=False
        Whether a file that exists may be replaced.
    progress : bool, default=False
        Report on stderr.

    Returns
    -------
    int
        Number of rows written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin.sources import predict_source
    >>> X, y = make_ndc(100, 4, random_state=0)
    >>> model = FuzzyTwinSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "labels.csv"
    ...     rows = predict_source(model, [X[:50], X[50:]], out)
    ...     rows, out.read_text().splitlines()[0]
    (100, 'label,membership_-1,membership_1')
    """
    check_out(out, overwrite)
    opened, tables = label(model, source, features, keep, schema, batch_rows, sheet=sheet)
    opened.refuse_output(out)
    opened.warn()
    rows = write_tables(out, tables, overwrite, "labelled", opened.rows, progress)
    opened.warn(done=True)
    return rows


def label(
    model: Any, source: Any, features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (), schema: Schema | Mapping[str, Any] | None = None,
    batch_rows: int | None = None, *, coverage: float | None = None,
    class_conditional: bool = False, sheet: str | None = None, allow_missing: bool = False,
) -> tuple[Source, Iterator[Any]]:  # fmt: skip
    """Open a source, and give the tables that `predict_source` writes.

    With `coverage`, the column ``set`` holds the labels of `FuzzyTwinSVC.predict_set`: see `_sets`.
    With `allow_missing`, columns of the schema that are not there count as missing.
    """
    check_is_fitted(model)
    schema = learned_schema(model) if schema is None else schema
    if schema is not None and not isinstance(schema, Schema):
        schema = Schema.from_dict(schema)
    if features is None and not (schema and schema.columns):
        features = getattr(model, "feature_names_in_", None)
    elif features is None and schema is not None and schema.zero_based is None:
        features = [column.name for column in schema.features]
    model = getattr(model, "best_estimator_", model)
    own = isinstance(model, (PlaneClassifier, FuzzyTwinCommittee))
    selection = Selection(
        features=features,
        keep=(keep,) if isinstance(keep, str) else tuple(keep),
        labelled=False,
        as_frame=hasattr(model, "feature_names_in_") and not own,
        allow_missing=allow_missing and schema is not None and bool(schema.columns),
    )
    opened = open_source(source, selection, batch_rows, schema, model.n_features_in_, sheet)
    if own:
        # Columns were chosen by their names; arrays have none.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)

    def tables() -> Iterator[Any]:
        batch = None
        for batch in opened.batches():
            yield _labelled(model, batch, selection, coverage, class_conditional)
        if batch is None:
            raise ValueError("the source has no rows; give at least one.")

    return opened, tables()


def learned_schema(model: Any) -> Mapping[str, Any] | None:
    """Return how a model reads files: as `fit_source` learned it, or the first step."""
    if not hasattr(model, "schema_"):
        model = getattr(model, "best_estimator_", model)
        model = model[0] if isinstance(model, Pipeline) else model
    return getattr(model, "schema_", None)


def _labelled(
    model: Any, batch: Batch, selection: Selection, coverage: float | None, class_conditional: bool
) -> Any:
    """Kept columns, labels, sets of labels and memberships of a batch."""
    names = selection.features
    if names is not None and batch.names is not None and batch.names != names:
        raise ValueError(
            f"{batch.place.source} has the columns {', '.join(batch.names)}; the model wants "
            f"{', '.join(names)}, in this order."
        )
    X, last = batch.X, model
    if selection.as_frame and isinstance(X, np.ndarray) and names and X.shape[1] == len(names):
        X = need("pandas", "cli", "a model of named columns").DataFrame(X, columns=list(names))
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last[-1] if isinstance(last, Pipeline) else last.best_estimator_
    committee = isinstance(last, FuzzyTwinCommittee)
    with locating(batch):
        if hasattr(last, "predict_membership") or committee:
            u = model.predict_proba(X)  # memberships, unless they are calibrated
            labels = labels_by(last, u)
        else:
            u = np.empty((len(batch), 0))
            labels = model.predict(X)
        written = {"label": pa.array(labels.tolist() if labels.dtype.kind == "O" else labels)}
        if coverage is not None:
            written["set"] = pa.array(_sets(model, X, coverage, class_conditional))
    calibrated = committee or getattr(last, "calibration", None) is not None
    value = "probability" if calibrated else "membership"
    for k in range(u.shape[1]):
        written[f"{value}_{model.classes_[k]}"] = pa.array(np.ascontiguousarray(u[:, k]))
    kept = {} if batch.kept is None else {n: batch.kept.column(n) for n in batch.kept.schema.names}
    while kept.keys() & written.keys():
        written = {f"predicted_{name}": values for name, values in written.items()}
    return pa.table(kept | written)


def _sets(model: Any, X: Any, coverage: float, class_conditional: bool) -> list[str]:
    """Name the labels in the set of each row: a|b, or as JSON where a label holds a bar."""
    if isinstance(model, Pipeline):
        model, X = model[-1], model[:-1].transform(X)
    found = model.predict_set(X, coverage, class_conditional=class_conditional)
    words = [list(map(str, model.classes_[row].tolist())) for row in found]
    if any("|" in str(name) for name in model.classes_.tolist()):
        return [json.dumps(row, ensure_ascii=False) for row in words]
    return ["|".join(row) for row in words]
