"""Label rows that are read batch by batch, and write them to a file."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._utils.files import refuse_existing, replacing
from fuzzytwin._utils.progress import Progress
from fuzzytwin.estimators.nearest_plane import PlaneClassifier
from fuzzytwin.sources.batches import Batch, Wanted
from fuzzytwin.sources.cells import arrow
from fuzzytwin.sources.formats import kind_of
from fuzzytwin.sources.passes import located
from fuzzytwin.sources.readers import Source, open_source
from fuzzytwin.sources.schema import Schema
from fuzzytwin.sources.writers import TableWriter, check_ending


def predict_source(
    model: Any,
    source: Any,
    out: str | os.PathLike[str],
    *,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    batch_rows: int = 65_536,
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Label rows that are read batch by batch, and write labels and memberships to a file.

    The file has the column "label" and, for estimators that give memberships and pipelines that
    end in one, one column "membership_<label>" per class, behind the columns to keep; where these
    have such names, "predicted_label" and so on. Its rows are in the order of the source. It
    appears when it is complete: a run that fails or is killed leaves what was there.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, or a `Pipeline` or search of scikit-learn around one. One
        that was fitted to a data frame is handed data frames, with text and gaps as they are.
    source : path, list of paths, iterable or callable
        As for `fit_source`; batches may be X alone, labels and weights are not looked at.
    out : path
        A .parquet, .feather, .csv or .tsv file, or a .csv.gz or .tsv.gz file. Text in CSV files
        that a spreadsheet would take for a formula, as it begins with =, +, - or @ and is not a
        number, gets an apostrophe before it, which is taken away in reading.
    features : sequence of str, default=None
        Columns of X; None for the names that the model was fitted with or, where it knows none,
        for all numeric ones.
    keep : str or sequence of str, default=()
        Columns of the source to copy, such as a key; missing values become empty.
    schema : mapping, default=None
        How to read files, learned by ``fuzzytwin train`` and kept in the model file:
        ``fuzzytwin.store.about(path)["facts"]["schema"]``. None for what `fit_source` learned.
    batch_rows : int, default=65536
        Most rows to hold at once.
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
    check_ending(out)
    refuse_existing(Path(out), out, overwrite)
    opened, tables = label(
        model, source, features, keep, schema, batch_rows, verbatim=kind_of(out) == "csv"
    )
    if opened.warning is not None:
        warnings.warn(opened.warning, UserWarning, stacklevel=2)
    with (
        replacing(out, overwrite=overwrite) as draft,
        TableWriter(out, draft) as writer,
        Progress("labelled", opened.rows, "rows", wanted=progress) as bar,
    ):
        for table in tables:
            try:
                writer.write(table)
            except arrow().ArrowException as error:
                raise ValueError(f"{out} cannot be written: {error}.") from error
            bar.advance(table.num_rows)
    for note in opened.tally.notes():
        warnings.warn(f"{opened.tally.source}, {note}.", UserWarning, stacklevel=2)
    return bar.done


def label(
    model: Any,
    source: Any,
    features: Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    schema: Schema | Mapping[str, Any] | None = None,
    batch_rows: int = 65_536,
    *,
    verbatim: bool = False,
    coverage: float | None = None,
) -> tuple[Source, Iterator[Any]]:
    """Open a source, and give the tables that `predict_source` writes.

    With `verbatim`, columns to keep are text as the file has it. With `coverage`, the column
    ``set`` holds the labels of `FuzzyTwinSVC.predict_set`, separated by ``|``.
    """
    check_is_fitted(model)
    check_count("batch_rows", batch_rows)
    arrow()
    known = getattr(model, "schema_", None) if schema is None else schema
    how = known if known is None or isinstance(known, Schema) else Schema.from_dict(known)
    if features is None and not (how and how.columns):
        features = getattr(model, "feature_names_in_", None)
    model = getattr(model, "best_estimator_", model)
    own = isinstance(model, PlaneClassifier)
    wanted = Wanted(
        features=check_names(None if features is None else list(features)),
        keep=(keep,) if isinstance(keep, str) else tuple(keep),
        labelled=False,
        frames=hasattr(model, "feature_names_in_") and not own,
        verbatim=verbatim,
        schema=how,
    )
    opened = open_source(source, wanted, batch_rows, model.n_features_in_)
    if own:
        # Columns were chosen by their names; arrays have none.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)
    return opened, _tables(model, opened, wanted, coverage)


def _tables(model: Any, opened: Source, wanted: Wanted, coverage: float | None) -> Iterator[Any]:
    rows = 0
    for batch in opened.batches():
        yield _labelled(model, batch, wanted, coverage)
        rows += len(batch)
    if not rows:
        raise ValueError("the source has no rows; give at least one.")


def _labelled(model: Any, batch: Batch, wanted: Wanted, coverage: float | None) -> Any:
    """Kept columns, labels, sets of labels and memberships of a batch."""
    pa = arrow()
    names = wanted.features
    if names is not None and batch.names is not None and batch.names != names:
        raise ValueError(
            f"{batch.place.source} has the columns {', '.join(batch.names)}; the model wants "
            f"{', '.join(names)}, in this order."
        )
    X = _as_frame(batch.X, names) if wanted.frames else batch.X
    try:
        if hasattr(_last_step(model), "predict_membership"):
            u = model.predict_proba(X)  # memberships, unless they are calibrated
            labels = model.classes_[u.argmax(axis=1)]
        else:
            u = np.empty((len(batch), 0))
            labels = model.predict(X)
        sets = None if coverage is None else _sets(model, X, coverage)
    except ValueError as error:
        raise ValueError(located(batch, error)) from error
    columns: dict[str, Any] = {}
    if batch.kept is not None:
        columns |= {name: batch.kept.column(name) for name in batch.kept.schema.names}
    written = {"label": pa.array(labels.tolist() if labels.dtype.kind == "O" else labels)}
    if sets is not None:
        written["set"] = pa.array(sets)
    for k in range(u.shape[1]):
        written[f"membership_{model.classes_[k]}"] = pa.array(np.ascontiguousarray(u[:, k]))
    if columns.keys() & written.keys():
        written = {f"predicted_{name}": values for name, values in written.items()}
    return pa.table(columns | written)


def _sets(model: Any, X: Any, coverage: float) -> list[str]:
    """Name the labels in the set of each row."""
    if isinstance(model, Pipeline):
        model, X = model[-1], model[:-1].transform(X)
    found = model.predict_set(X, coverage)
    return ["|".join(map(str, model.classes_[row].tolist())) for row in found]


def _last_step(model: Any) -> Any:
    """Return the estimator that predicts in a pipeline or a search."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def _as_frame(X: Any, names: tuple[str, ...] | None) -> Any:
    """Rows with the names that the model knows its columns by; sparse rows have none."""
    if not isinstance(X, np.ndarray) or names is None or X.shape[1] != len(names):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=list(names))


def check_name(parameter: str, value: Any) -> str | None:
    """Refuse what is not the name of a column."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{parameter}={value!r} is not allowed; give the name of a column.")
    return value


def check_names(values: Any) -> tuple[str, ...] | None:
    """Refuse what is not a list of columns."""
    if values is None:
        return None
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"features={values!r} is not allowed; give a list of names of columns.")
    if not len(values) or len(set(values)) < len(values):
        raise ValueError(f"features={values!r} is not allowed; give each column once.")
    return tuple(values)


def check_count(name: str, value: Any) -> None:
    """Refuse what is not a count."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not allowed; give a whole number of at least 1.")
