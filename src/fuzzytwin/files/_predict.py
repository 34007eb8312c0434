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
    read_table,
)
from fuzzytwin.tables._columns import missing_column
from fuzzytwin.tables._findings import warn_of
from fuzzytwin.tables._parse import pa
from fuzzytwin.tables._preprocessor import encode_rows
from fuzzytwin.tables._writer import check_out, output_style, write_tables
from fuzzytwin.twin._prediction import PlaneClassifier, class_values, labels_by, last_step

# Findings that are reported for frames: cells that differ from those of training.
NEW_CELLS = ("unknown_category", "new_missing", "absent", "unparsed")


def predict(
    model: Any,
    source: Any,
    out: str | os.PathLike[str],
    *,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    coverage: float | None = None,
    class_conditional: bool = False,
    allow_missing: bool = False,
    schema: Mapping[str, Any] | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Sequence[object] = (),
    sheet: str | None = None,
    batch_rows: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Predict the labels of rows that are read batch by batch, and write them to a file.

    The file has the columns to `keep`, the column "label", and one column per class:
    "probability_<label>" for a committee and for calibrated models, "membership_<label>" for other
    models that predict memberships. If a kept column has one of these names, they become
    "predicted_label" and so on. Rows are in the order of the source. The file appears when it is
    complete, so a run that fails or is killed does not change an existing file.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, or a `Pipeline` or search of scikit-learn around one. A
        model that was fitted to a data frame gets data frames, with text and missing values.
    source : path, list of paths, frame, iterable or callable
        As for `fit`. Batches may be arrays X. Labels and weights are not used.
    out : path
        A .parquet, .feather, .csv or .tsv file, or a .csv.gz or .tsv.gz file. In CSV files, text
        that a spreadsheet would run as a formula (=..., @..., and +... or -... except for numbers)
        gets an apostrophe in front, which `fuzzytwin.files` removes when it reads the file. If the
        source is a text file, CSV files have its separator and decimal mark.
    features : sequence of str, default=None
        Columns of X. None for the names that the model was fitted with or, if it has none, for
        all numeric ones.
    keep : str or sequence of str, default=()
        Columns of the source to copy, such as a key. Cells of text files are copied as text.
        Missing values become empty.
    coverage : float, default=None
        Also write the column "set": the prediction set of each row, such as ``no|yes``, which
        contains the true label with this probability. None for no sets.
    class_conditional : bool, default=False
        Whether the coverage holds for each class instead of on average.
    allow_missing : bool, default=False
        Whether columns that the source lacks are taken as missing in all rows. If not, they are an
        error.
    schema : mapping, default=None
        How to read files: ``fuzzytwin.store.read_metadata(path)["metadata"]["schema"]``. None for
        the schema of `fit`, or of the `TablePreprocessor` that a pipeline begins with.
    sep, decimal, encoding, missing, sheet : default=None
        How files are read: see `fuzzytwin.tables.read_table`. None for the marks of the schema, to
        which `missing` adds.
    batch_rows : int, default=None
        Maximum number of rows of a batch. None for about 16 MiB of numbers: 65,536 rows of up to
        32 columns, 8,192 of 256.
    overwrite : bool, default=False
        Whether to overwrite an existing file.
    progress : bool, default=False
        Whether to show the progress on standard error.

    Returns
    -------
    int
        Number of rows written.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. Nothing is written.
    FileExistsError
        If the file exists and `overwrite` is False.

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
    table_schema = _schema(model, schema)
    if missing and table_schema is not None:
        missing = [*table_schema.missing, *missing]
    reading: dict[str, Any] = {
        "sep": sep, "decimal": decimal, "encoding": encoding, "missing": missing, "sheet": sheet,
    }  # fmt: skip
    source = table_or_items(source, labelled=False)
    by_schema = features is None and is_table(source)
    if by_schema and table_schema is not None and table_schema.columns:
        reader = read_table(source, like=table_schema, **reading)
        reader.check_output(out)
        predicted = predict_table(
            model,
            reader,
            table_schema,
            keep=keep,
            batch_rows=batch_rows,
            coverage=coverage,
            class_conditional=class_conditional,
            allow_missing=allow_missing,
        )
        style = output_style(reader)
        n_written = write_tables(
            out, predicted.tables, overwrite, "labelled", reader.n_rows, progress, **style
        )
        found = predicted.issues.findings()
        warn_of(finding for finding in found if reader.paths or finding.code in NEW_CELLS)
        return n_written
    if allow_missing:
        raise ValueError(
            "allow_missing=True needs a model that was fitted to a table with text or missing "
            "values, which knows what replaces them; add the absent columns."
        )
    sets: dict[str, Any] = {"coverage": coverage, "class_conditional": class_conditional}
    opened, tables = _label_batches(
        model, source, features, keep, table_schema, batch_rows, reading, sets
    )
    opened.check_output(out)
    opened.warn()
    style = output_style(getattr(opened, "reader", None))
    n_written = write_tables(out, tables, overwrite, "labelled", opened.n_rows, progress, **style)
    opened.warn_of_cells()
    return n_written


@dataclass(frozen=True, eq=False)
class Predicted:
    """Tables of predictions, computed when they are iterated over, and unusual cells."""

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
    """Predict the labels of a table that is read by a schema.

    With `coverage`, the column ``set`` holds prediction sets. With `allow_missing`, columns that
    the table lacks are missing in every row.
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
    reading: Mapping[str, Any],
    sets: Mapping[str, Any],
) -> tuple[Source, Iterator[Any]]:
    """Open a source, and return it with the tables that `predict` writes."""
    check_is_fitted(model)
    if features is None:
        features = getattr(model, "feature_names_in_", None)
    model = getattr(model, "best_estimator_", model)
    takes_arrays = isinstance(model, (PlaneClassifier, FuzzyTwinCommittee))
    as_frame = hasattr(model, "feature_names_in_") and not takes_arrays
    selection = Selection(features=features, keep=tuple(keep), labelled=False)
    text_format = None if schema is None else replace(schema, columns=())
    opened = open_source(
        source,
        selection,
        batch_rows=batch_rows,
        reading=reading,
        like=text_format,
        as_frame=as_frame,
    )
    if takes_arrays:
        # The columns are selected by name already, and arrays have no names.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)

    def tables() -> Iterator[Any]:
        batch = None
        for batch in opened.batches():
            X = _named_columns(batch, selection.features, as_frame)
            with locating(batch):
                yield prediction_table(model, X, batch.kept, **sets)
        if batch is None:
            raise ValueError("the source has no rows; give at least one.")

    return opened, tables()


def _named_columns(batch: Batch, names: Sequence[str] | None, as_frame: bool) -> Any:
    """Return the features of a batch, as a frame if the model was fitted to one."""
    if names is not None and batch.names is not None and batch.names != names:
        raise ValueError(
            f"{batch.location.source} has the columns {', '.join(batch.names)}, but the model "
            f"needs {', '.join(names)}; give these columns in this order."
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
    """Return how a model reads files: the schema of `fit`, or of the first step of a pipeline."""
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
    """Return a table of kept columns, labels, prediction sets and memberships or probabilities."""
    model, X = last_step(model, X)
    committee = isinstance(model, FuzzyTwinCommittee)
    if hasattr(model, "predict_membership") or committee:
        u = class_values(model, X)
        labels = labels_by(model, u)
    else:
        u = np.empty((X.shape[0], 0))
        labels = model.predict(X)
    predicted = {"label": pa.array(labels.tolist() if labels.dtype.kind == "O" else labels)}
    if coverage is not None:
        predicted["set"] = pa.array(_sets(model, X, coverage, class_conditional))
    value = "probability" if hasattr(model, "predict_proba") else "membership"
    for k in range(u.shape[1]):
        predicted[f"{value}_{model.classes_[k]}"] = pa.array(np.ascontiguousarray(u[:, k]))
    columns = {} if kept is None else {name: kept.column(name) for name in kept.schema.names}
    while columns.keys() & predicted.keys():
        predicted = {f"predicted_{name}": values for name, values in predicted.items()}
    return pa.table(columns | predicted)


def _sets(model: Any, X: Any, coverage: float, class_conditional: bool) -> list[str]:
    """Write the prediction set of each row as text: a|b, or JSON if a label contains a bar."""
    if not hasattr(model, "conformity_scores_"):
        raise ValueError(
            f"coverage={coverage} needs a model with prediction sets; use FuzzyTwinCommittee, or "
            "FuzzyTwinSVC with calibration='loo'."
        )
    sets = model.predict_set(X, coverage, class_conditional=class_conditional)
    words = [list(map(str, model.classes_[row].tolist())) for row in sets]
    if any("|" in str(name) for name in model.classes_.tolist()):
        return [json.dumps(row, ensure_ascii=False) for row in words]
    return ["|".join(row) for row in words]
