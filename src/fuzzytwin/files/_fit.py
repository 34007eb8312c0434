"""Fit models out of core, to files or to an iterable of batches.

The moments of batches add up, so memory holds only a few batches at a time. The planes are those
of one `fit` on all rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from fuzzytwin._params import count_threads
from fuzzytwin._passes import ClassTotals, SumOverChunks, add
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin._utils.workers import map_threads
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._fit import fit_chunks as fit_committee_chunks
from fuzzytwin.committee._preprocessing import keep_preprocessor
from fuzzytwin.files._chunks import Batch, Selection, Source, check_name
from fuzzytwin.files._tables import NumberChunks, TableChunks, open_source
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmarks import is_all, is_count
from fuzzytwin.twin._fit import fixed_landmarks, landmark_map
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._streaming import MomentClassifier
from fuzzytwin.twin._svc import FuzzyTwinSVC


def fit(
    model: Any,
    source: Any,
    *,
    target: str | None = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    membership: str | Sequence[str] | None = None,
    drop: Sequence[str] = (),
    numeric: Sequence[str] = (),
    category: Sequence[str] = (),
    classes: Any = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Sequence[object] = (),
    sheet: str | None = None,
    batch_rows: int | None = None,
    progress: bool = False,
) -> Any:
    """Fit a model to rows that are read batch by batch, with the result of one fit on all rows.

    Parameters
    ----------
    model : FuzzyTwinCommittee, FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC, ProximalSVC \
or GEPSVC
        The estimator. Its earlier fit is discarded. The memberships None, "center" and
        "hyperplane" are supported. Those that search for neighbours are an error, as they need all
        rows at once.
    source : path, list of paths, frame, iterable or callable
        - a Parquet (.parquet, .pq), Arrow or Feather (.arrow, .ipc, .feather) or text file (.csv,
          .tsv, .txt, also with .gz), or a workbook (.xlsx);
        - a folder or a glob of such files of one format, or a list of them;
        - a frame of pandas or polars, an Arrow table or a mapping of columns;
        - an iterable of batches, or a function that returns a new one at each call. Batches are
          Arrow tables or record batches, pandas or polars frames, mappings of columns, or tuples
          of arrays: (X, y), (X, y, weight) or (X, y, weight, degrees). X may be sparse.
    target : str, default=None
        Column of the labels. Required unless batches are tuples of arrays.
    id : str, default=None
        Column with the names of the rows, which is not a feature.
    features : sequence of str, default=None
        Columns to train on, in this order. None for all others. A committee takes files and
        frames with text, categories and missing values as `FuzzyTwinCommittee.fit` does, by a
        preprocessor that is fitted to the first rows (``preprocessor_``, None if all features are
        numbers). Other models take the columns of numbers, and warn about all others.
    sample_weight : str, default=None
        Column of weights.
    membership : str or sequence of str, default=None
        Column of degrees, or K columns of soft labels in the order of the sorted labels.
    drop, numeric, category : sequence of str, default=()
        Columns to leave out, to take as numbers, and to take as categories, whatever they look
        like. Only a committee takes categories and, as days, dates.
    classes : array-like of shape (K,), default=None
        All labels, as in `partial_fit`: any other label is an error, and a class may have no rows.
        None for the labels that occur.
    sep, decimal, encoding, missing, sheet : default=None
        How files are read: see `fuzzytwin.tables.read_table`. Later files are read alike.
    batch_rows : int, default=None
        Maximum number of rows of a batch. None for about 16 MiB of numbers: 65,536 rows of up to
        32 columns, 8,192 of 256. Two batches are in memory at a time, and two more for each
        thread of the model's `n_jobs`, which sum up batches while another thread reads the next.
    progress : bool, default=False
        Whether to show the progress on standard error.

    Returns
    -------
    model
        The fitted model, as after `fit` but without ``membership_``. If the source is files,
        ``schema_`` stores how later files are to be read. Models that have `partial_fit`, `merge`
        and `forget` can continue from it, unless the membership is "center" or "hyperplane", whose
        degrees depend on all rows.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. The model is not changed.
    TypeError
        For a model or a source that is not supported.

    Warns
    -----
    UserWarning
        If columns that are not numeric are not used and `features` is None, and if cells such as
        "<0.5" or "1,234" are read as numbers.

    Notes
    -----
    A committee takes two passes over the rows: one for landmarks and bandwidths, and one that sums
    the features of all members. With at most 200,000 rows (16.8 million numbers, or 10,000 sparse
    rows) it takes a single pass. The order of the rows does not matter. With more than 10,000 rows,
    the sample may hold other copies of duplicates than that of `fit`.

    Other models take one pass without a membership or with the degrees of a column. "center" takes
    three and "hyperplane" two or three passes: centres or planes, the farthest rows, and the sums.

    With a kernel, landmarks and the gamma of "scale" come from the first batch, so sorted rows
    should be shuffled. If the source can be read only once, both must be set.

    Text files may have any of the separators , ; tab | and space, a decimal comma, quotes, a BOM,
    UTF-16, and cells in Windows-1252. These are inferred from the first lines. Empty cells, and
    markers such as NA or ?, are missing values, which only a committee takes as features.

    Pipelines are not supported. Fit the transformers to some rows first, and give a function that
    yields transformed batches: ``lambda: ((scaler.transform(X), y) for X, y in ...)``.

    Examples
    --------
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin import files
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> batches = [(X[i::5], y[i::5]) for i in range(5)]
    >>> model = files.fit(FuzzyTwinSVC(membership="center"), batches)
    >>> model.coef_[0].round(4).tolist()
    [-0.152, -0.0322, 0.139, -0.37]
    >>> FuzzyTwinSVC(membership="center").fit(X, y).coef_[0].round(4).tolist()
    [-0.152, -0.0322, 0.139, -0.37]
    """
    if isinstance(model, Pipeline):
        raise TypeError(
            "Pipelines are not supported; fit the transformers to some rows first, and give a "
            "function that yields transformed batches: "
            "fit(pipeline[-1], lambda: ((scaler.transform(X), y) for X, y in ...))."
        )
    committee = isinstance(model, FuzzyTwinCommittee)
    if not committee and not isinstance(model, MomentClassifier):
        raise TypeError(
            f"{type(model).__name__} does not support out-of-core fitting; use "
            "FuzzyTwinCommittee, FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC, ProximalSVC "
            "or GEPSVC."
        )
    if not committee:
        settings = FitSettings.of(model)
        if isinstance(settings.C, Real):
            settings.penalties(np.arange(2))
    takes_degrees = isinstance(model, (FuzzyTwinCommittee, FuzzyTwinSVC))
    if membership is not None and not takes_degrees:
        raise ValueError(
            f"membership={membership!r} is for FuzzyTwinSVC; {type(model).__name__} takes only "
            "weights: give sample_weight."
        )
    if classes is not None:
        classes = np.unique(classes)
        if len(classes) < 2:
            raise ValueError(f"classes={classes!r} has one class only; give at least two labels.")
    degrees = membership if isinstance(membership, (str, type(None))) else tuple(membership)
    check_name("id", id)
    selection = Selection(
        target,
        sample_weight,
        degrees,
        features,
        drop=drop if id is None else (*drop, id),
        numeric=numeric,
        category=category,
    )
    opened = open_source(
        source,
        selection,
        batch_rows=batch_rows,
        reading={
            "sep": sep, "decimal": decimal, "encoding": encoding, "missing": missing,
            "sheet": sheet,
        },
        mixed=committee,
    )  # fmt: skip
    opened.warn()
    has_degrees = opened.has_degrees
    if has_degrees and not takes_degrees:
        raise ValueError(f"{type(model).__name__} takes no degrees; leave them out of the source.")
    if not opened.repeatable and (
        committee or (settings.membership is not None and not has_degrees)
    ):
        cause = "FuzzyTwinCommittee"
        remedy = ""
        if not committee:
            cause = f"membership={model.membership!r}"
            remedy = ", or set membership=None"
        raise ValueError(
            f"{cause} takes several passes over the rows, but this {type(source).__name__} can be "
            f"read only once; give a function that returns a new one{remedy}."
        )
    schema = None
    if isinstance(opened, NumberChunks) and opened.from_files:
        schema = replace(opened.schema, columns=()).to_dict()
    with thread_pool(count_threads(model.n_jobs), n_columns=len(opened.names or ())):
        total = total_over(opened, classes, progress)
        phi = None if committee else _landmarks(settings, opened)
        if committee:
            fit_committee_chunks(model, total, names=opened.names, classes=classes, schema=schema)
        else:
            model._fit_chunks(  # noqa: SLF001
                total,
                has_degrees=has_degrees,
                names=opened.names,
                classes=classes,
                schema=schema,
                phi=phi,
            )
    if isinstance(opened, TableChunks):
        keep_preprocessor(model, opened.preprocessor)
    opened.warn_of_cells()
    return model


def _landmarks(settings: FitSettings, opened: Source) -> LandmarkMap | None:
    """Compute the map of fixed landmarks, or sample landmarks and gamma from the first batch."""
    if not settings.uses_kernel:
        return None
    by_rows = is_count(settings.n_landmarks) or settings.gamma_by_rows
    if not opened.repeatable or is_all(settings.n_landmarks) or not by_rows:
        return fixed_landmarks(settings)
    for batch in opened.batches():
        with locating(batch):
            return landmark_map(settings, batch.validated())
    raise ValueError("the source has no rows; give rows of at least two classes.")


def total_over(source: Source, classes: Array | None, progress: bool) -> SumOverChunks:
    """Return the function that sums over the batches of a source, a pass at each call."""
    n_rows: list[int] = []  # of each pass

    def total(function: Any, *shared: Any) -> Any:
        def apply(batch: Batch) -> tuple[Batch, Any]:
            with locating(batch):
                return batch, function(*shared, batch.validated())

        name = f"pass {len(n_rows) + 1}"
        sums = None
        # Threads process the batches, whose results are added in their order. Generators are closed
        # here: the garbage collector might close them in the thread that reads ahead.
        with (
            Progress(name, source.n_rows, "rows", enabled=progress) as bar,
            closing(read_ahead(source)) as batches,
            closing(map_threads(apply, batches)) as results,
        ):
            for batch, result in results:
                if isinstance(result, ClassTotals):
                    _check_labels(batch, sums, classes)
                with locating(batch):
                    sums = add([sums, result])
                bar.advance(len(batch))
        n_rows.append(bar.done)
        if n_rows[0] != bar.done:
            raise ValueError(
                f"{name} over the source read {bar.done} rows, but pass 1 read {n_rows[0]}; give a "
                "function that returns the same batches each time."
            )
        if sums is None:
            raise ValueError("the source has no rows; give rows of at least two classes.")
        return sums

    return total


def read_ahead(source: Source) -> Generator[Batch, None, None]:
    """Read the batches. If they come from files, another thread reads the next one."""
    if not source.from_files:
        yield from source.batches()
        return
    with closing(source.batches()) as batches, ThreadPoolExecutor(1) as reader:  # type: ignore[type-var]
        pending = reader.submit(next, batches, None)
        while (batch := pending.result()) is not None:
            pending = reader.submit(next, batches, None)
            yield batch


def _check_labels(batch: Batch, earlier: ClassTotals | None, classes: Array | None) -> None:
    """Raise a ValueError for text among numbers, and for labels that are not in `classes`."""
    values = np.asarray(batch.y) if batch.labels is None else batch.labels
    if earlier is not None and len(values) and _is_text(values) != _is_text(earlier.labels):
        raise ValueError(
            f"{batch.location.rows(len(batch))}: labels such as {values[:1].tolist()[0]!r} differ "
            f"in type from earlier ones, such as {earlier.labels[:1].tolist()[0]!r}; use one type."
        )
    if classes is None:
        return
    unknown = np.setdiff1d(values, classes)
    if len(unknown):
        labels = values if batch.labels is None else values[batch.y]
        row = np.flatnonzero(labels == unknown[0])[0]
        raise ValueError(
            f"{batch.location.row(row)}: label {unknown[:1].tolist()[0]!r} is not among "
            f"classes={classes.tolist()}; add it there, or leave out such rows."
        )


def _is_text(labels: Array) -> bool:
    return labels.dtype.kind not in "biuf"


@contextmanager
def locating(batch: Batch) -> Iterator[None]:
    """Add the source and the row, or the rows of the batch, to errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = _bad_row(batch) or f"{batch.location.rows(len(batch))}: {error}"
        raise type(error)(message) from error


def _bad_row(batch: Batch) -> str | None:
    """Return the message about the first row that no fit takes, None if there is none."""
    return _bad_feature(batch) or _bad_weight(batch)


def _bad_feature(batch: Batch) -> str | None:
    """Return the message about the first cell of X that is not finite."""
    X = batch.X
    location = batch.location
    bad_cells: list[Any] = []
    if hasattr(X, "columns"):  # a frame, in which the model may allow missing values
        return None
    if sparse.issparse(X):
        X = sparse.coo_array(sparse.csr_array(X))
        bad = ~np.isfinite(X.data)
        bad_cells = list(zip(X.row[bad], X.col[bad], X.data[bad], strict=True))
    elif X.dtype.kind == "f":
        bad_cells = [(*cell, X[tuple(cell)]) for cell in np.argwhere(~np.isfinite(X))[:1]]
    for row, column, value in bad_cells:
        if location.bad_cell is not None and batch.names is not None:
            return location.bad_cell(row, batch.names[column])
        name = column if batch.names is None else repr(batch.names[column])
        return (
            f"{location.row(row)}: column {name} holds {value}; fill in such values or leave out "
            "such rows."
        )
    return None


def _bad_weight(batch: Batch) -> str | None:
    """Return the message about the first weight, degree or soft label that is not allowed."""
    location = batch.location
    for name, values, limit, remedy in (
        ("weight", batch.weight, np.inf, "weights of at least 0"),
        ("degree", batch.degrees, 1.0, "degrees in [0, 1]"),
    ):
        values = np.asarray(0.0 if values is None else values)
        if values.dtype.kind not in "biuf" or values.shape[:1] != (len(batch),):
            continue
        table = values.reshape(len(batch), -1)
        for cell in np.argwhere(~((table >= 0) & (table <= limit) & np.isfinite(table))):
            value = table[tuple(cell)]
            return f"{location.row(cell[0])}: the {name} is {value}; give finite {remedy}."
        empty = np.flatnonzero(~table.any(axis=1))
        if name == "degree" and table.shape[1] > 1 and len(empty):
            return (
                f"{location.row(empty[0])}: the soft labels are all 0, so the row belongs to no "
                "class; leave it out."
            )
    return None
