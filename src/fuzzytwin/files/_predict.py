"""Label rows that are read batch by batch, and write them to a file."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.notices import warn_user
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._preprocessing import as_pipeline
from fuzzytwin.files._chunks import Batch, Selection, Source
from fuzzytwin.files._fit import locating
from fuzzytwin.files._tables import is_table, open_source, table_or_items
from fuzzytwin.tables import (
    ParseIssues,
    TableError,
    TablePreprocessor,
    TableReader,
    TableSchema,
    TableWarning,
    describe,
    read_table,
)
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._parse import pa
from fuzzytwin.tables._preprocessor import encode_rows
from fuzzytwin.tables._writer import check_out, text_style, write_tables
from fuzzytwin.twin._prediction import PlaneClassifier, labels_by

# Findings about frames that are reported: cells that training did not have.
NEW_CELLS = ("unknown_category", "new_missing", "absent", "unparsed")


def predict(
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
        that was fitted to a data frame is given data frames, with text and missing values.
    source : path, list of paths, iterable or callable
        As for `fit`; batches may be X only, labels and weights are not used.
    out : path
        A .parquet, .feather, .csv or .tsv file, or a .csv.gz or .tsv.gz file. Text in CSV
        files that a spreadsheet would run as a formula (=..., @..., and +... or -... except for
        numbers) gets an apostrophe before it, which is taken away in reading. They have the
        separator and decimal mark of a source of text.
    features : sequence of str, default=None
        Columns of X; None for the names that the model was fitted with or, if it knows none,
        for all numeric ones.
    keep : str or sequence of str, default=()
        Columns of the source to copy, such as a key: those of text files as text, cell by cell.
        Missing values become empty.
    schema : mapping, default=None
        How to read files: ``fuzzytwin.store.read_metadata(path)["metadata"]["schema"]``. None for
        what `fit` learned, or the `TablePreprocessor` that a pipeline begins with.
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
    >>> from fuzzytwin import files
    >>> X, y = make_ndc(100, 4, random_state=0)
    >>> model = FuzzyTwinSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "labels.csv"
    ...     rows = files.predict(model, [X[:50], X[50:]], out)
    ...     rows, out.read_text().splitlines()[0]
    (100, 'label,membership_-1,membership_1')
    """
    check_out(out, overwrite)
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    known = _schema(model, schema)
    source = table_or_items(source, labelled=False)
    if features is None and known is not None and known.columns and is_table(source):
        reader = read_table(source, sheet=sheet, like=known)
        reader.check_output(out)
        predicted = predict_table(model, reader, known, keep=keep, batch_rows=batch_rows)
        rows = write_tables(
            out, predicted.tables, overwrite, "labelled", reader.n_rows, progress,
            **text_style(reader),
        )  # fmt: skip
        for finding in predicted.issues.findings():
            if reader.paths or finding.code in NEW_CELLS:
                warn_user(f"{describe(finding, full=True)}.", TableWarning)
        return rows
    opened, tables = _label_batches(model, source, features, keep, known, batch_rows, sheet)
    opened.check_output(out)
    opened.warn()
    style = text_style(getattr(opened, "reader", None))
    rows = write_tables(out, tables, overwrite, "labelled", opened.n_rows, progress, **style)
    opened.warn_of_cells()
    return rows


@dataclass(frozen=True, eq=False)
class Predicted:
    """Tables of predictions, which are made as they are read, and cells that were unusual."""

    tables: Iterator[Any]
    issues: ParseIssues


def predict_table(
    model: Any,
    reader: TableReader,
    schema: TableSchema,
    *,
    keep: Sequence[str] = (),
    batch_rows: int | None = None,
    coverage: float | None = None,
    class_conditional: bool = False,
    allow_missing: bool = False,
) -> Predicted:
    """Label the rows of a table that is read as a schema says.

    With `coverage`, the column ``set`` holds prediction sets. With `allow_missing`, columns that
    the table does not have are missing in every row.
    """
    check_is_fitted(model)
    for name in keep:
        if reader.names.count(name) != 1:
            raise TableError(missing_column(name, reader.names, reader.source))
    schema = replace(schema, target=None, weight=None, membership=None, groups=None, id=None)
    issues = ParseIssues(reader.source)
    last = as_pipeline(getattr(model, "best_estimator_", model))
    preprocessor = None
    if isinstance(last, Pipeline) and isinstance(last[0], TablePreprocessor):
        preprocessor = last[0]
        last = last[1:]

    def tables() -> Iterator[Any]:
        n_rows = 0
        for batch in reader.batches(batch_rows, list(dict.fromkeys([*schema.reads, *keep]))):
            rows = schema.decode(
                batch, labelled=False, keep=keep, issues=issues, allow_missing=allow_missing
            )
            X = rows.X if preprocessor is None else encode_rows(preprocessor, rows.X)
            yield prediction_table(last, X, rows.kept, coverage, class_conditional)
            n_rows += len(rows)
        if not n_rows:
            raise ValueError(f"{reader.source} has no rows; give at least one.")
        issues.check()

    return Predicted(tables(), issues)


def _label_batches(
    model: Any,
    source: Any,
    features: Sequence[str] | None,
    keep: Sequence[str],
    schema: TableSchema | None,
    batch_rows: int | None,
    sheet: str | None,
) -> tuple[Source, Iterator[Any]]:
    """Open a source, and give the tables that `predict` writes."""
    check_is_fitted(model)
    if features is None:
        features = getattr(model, "feature_names_in_", None)
    model = getattr(model, "best_estimator_", model)
    own = isinstance(model, (PlaneClassifier, FuzzyTwinCommittee))
    as_frame = hasattr(model, "feature_names_in_") and not own
    selection = Selection(features=features, keep=tuple(keep), labelled=False)
    marks = None if schema is None else replace(schema, columns=())
    opened = open_source(
        source, selection, batch_rows=batch_rows, sheet=sheet, like=marks, as_frame=as_frame
    )
    if own:
        # Columns were chosen by their names; arrays have none.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)

    def tables() -> Iterator[Any]:
        batch = None
        for batch in opened.batches():
            X = _named_columns(batch, selection.features, as_frame)
            with locating(batch):
                yield prediction_table(model, X, batch.kept)
        if batch is None:
            raise ValueError("the source has no rows; give at least one.")

    return opened, tables()


def _named_columns(batch: Batch, names: Sequence[str] | None, as_frame: bool) -> Any:
    """Return the features of a batch, as a frame if the model was fitted to one."""
    if names is not None and batch.names is not None and batch.names != names:
        raise ValueError(
            f"{batch.place.source} has the columns {', '.join(batch.names)}; the model needs "
            f"{', '.join(names)}, in this order."
        )
    X = batch.X
    if as_frame and isinstance(X, np.ndarray) and names and X.shape[1] == len(names):
        pandas = import_optional("pandas", "cli", "a model of named columns")
        X = pandas.DataFrame(X, columns=list(names))
    return X


def _schema(model: Any, schema: TableSchema | Mapping[str, Any] | None) -> TableSchema | None:
    schema = learned_schema(model) if schema is None else schema
    if schema is None or isinstance(schema, TableSchema):
        return schema
    return TableSchema.from_dict(schema)


def learned_schema(model: Any) -> Mapping[str, Any] | None:
    """Return how a model reads files: as `fit` learned it, or the first step."""
    if not hasattr(model, "schema_"):
        model = as_pipeline(getattr(model, "best_estimator_", model))
        model = model[0] if isinstance(model, Pipeline) else model
    return getattr(model, "schema_", None)


def prediction_table(
    model: Any,
    X: Any,
    kept: Any = None,
    coverage: float | None = None,
    class_conditional: bool = False,
) -> Any:
    """Make a table of kept columns, labels, prediction sets and memberships or probabilities."""
    last = model
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last[-1] if isinstance(last, Pipeline) else last.best_estimator_
    committee = isinstance(last, FuzzyTwinCommittee)
    if hasattr(last, "predict_membership") or committee:
        u = model.predict_proba(X)  # memberships, unless they are calibrated
        labels = labels_by(last, u)
    else:
        u = np.empty((X.shape[0], 0))
        labels = model.predict(X)
    written = {"label": pa.array(labels.tolist() if labels.dtype.kind == "O" else labels)}
    if coverage is not None:
        written["set"] = pa.array(_sets(model, X, coverage, class_conditional))
    calibrated = committee or getattr(last, "calibration", None) is not None
    value = "probability" if calibrated else "membership"
    for k in range(u.shape[1]):
        written[f"{value}_{model.classes_[k]}"] = pa.array(np.ascontiguousarray(u[:, k]))
    columns = {} if kept is None else {name: kept.column(name) for name in kept.schema.names}
    while columns.keys() & written.keys():
        written = {f"predicted_{name}": values for name, values in written.items()}
    return pa.table(columns | written)


def _sets(model: Any, X: Any, coverage: float, class_conditional: bool) -> list[str]:
    """Name the labels in the set of each row: a|b, or as JSON if a label holds a bar."""
    if isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model) > 1 else X
        model = model[-1]
    sets = model.predict_set(X, coverage, class_conditional=class_conditional)
    words = [list(map(str, model.classes_[row].tolist())) for row in sets]
    if any("|" in str(name) for name in model.classes_.tolist()):
        return [json.dumps(row, ensure_ascii=False) for row in words]
    return ["|".join(row) for row in words]
