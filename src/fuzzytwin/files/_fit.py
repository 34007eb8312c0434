"""Learn from rows that do not fit in memory: files and any batches.

Moments of batches add up, so a file of any size is a matter of reading it. The planes are those
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
from fuzzytwin.files._chunks import Batch, Selection, Source
from fuzzytwin.files._tables import NumberChunks, TableChunks, open_source
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._landmarks import is_count
from fuzzytwin.twin._fit import fixed_landmarks, landmark_map
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._streaming import MomentClassifier
from fuzzytwin.twin._svc import FuzzyTwinSVC


def fit(
    model: Any,
    source: Any,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    membership: str | Sequence[str] | None = None,
    classes: Any = None,
    batch_rows: int | None = None,
    sheet: str | None = None,
    progress: bool = False,
) -> Any:
    """Fit a model to rows that are read batch by batch, exactly as `fit` on all of them.

    Parameters
    ----------
    model : FuzzyTwinCommittee, FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC, ProximalSVC \
or GEPSVC
        The estimator; its earlier fit is discarded. Memberships None, "center" and
        "hyperplane" are allowed; those that need neighbours are refused. Members of a
        committee that are classifiers need all rows at once: at most 10,000.
    source : path, list of paths, iterable or callable
        - a Parquet (.parquet, .pq), Arrow or Feather (.arrow, .ipc, .feather) or text file (.csv,
          .tsv, .txt, also with .gz), or a workbook (.xlsx);
        - a folder or a glob of such files of one kind, or a list of them;
        - a frame of pandas or polars, an Arrow table or a mapping of columns;
        - an iterable of batches, or a function that returns a new one at each call: Arrow tables
          or record batches, pandas or polars frames, mappings of columns, or tuples of arrays
          as above (X may be sparse).
    target : str, default=None
        Column of the labels; needed if columns have names.
    features : sequence of str, default=None
        Columns to learn from, in this order. None for all others. A committee takes files and
        frames with text, categories and missing values as `FuzzyTwinCommittee.fit` does, by a
        preprocessor that is fitted to the first rows (``preprocessor_``; None for numbers only).
        Other models take the columns of numbers, with a warning that names those left out.
    sample_weight : str, default=None
        Column of weights.
    membership : str or sequence of str, default=None
        Column of degrees; or K columns of soft labels, in the order of the sorted labels.
    classes : array-like of shape (K,), default=None
        All labels. Any other is then an error, and one without rows keeps its place, as in
        `partial_fit`. None takes the labels as they come.
    batch_rows : int, default=None
        Most rows to hold at once; None for about 16 MiB of numbers: 65,536 rows of up to 32
        columns, 8,192 of 256. Two batches are in memory at a time, and two more for each
        thread of the model's `n_jobs`, which sum up batches while another thread reads the next.
    sheet : str, default=None
        Sheet of a workbook; None for the first.
    progress : bool, default=False
        Report on stderr.

    Returns
    -------
    model
        Fitted, as an ordinary estimator but without ``membership_``. ``schema_`` keeps, of files,
        how later ones are to be read.
        `partial_fit`, `merge` and `forget` continue from it if it has them: not with the
        memberships "center" and "hyperplane", whose degrees rest on all rows.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. The model is left as it was.

    Warns
    -----
    UserWarning
        If columns are left out because they are not numeric and `features` does not say so, and
        if cells such as "<0.5" or "1,234" were read as numbers.

    Notes
    -----
    "center" takes three passes over the rows and "hyperplane" two or three (centres or planes;
    the farthest rows; the sums by degrees); with `membership` given or None it is one. A
    committee takes two passes (a first one, for landmarks and bandwidths, and one that sums the
    features of all members), or a single one of at most 10,000 rows. It is that of `fit` on all
    rows, in whatever order they come. Of more than 10,000 rows, other copies of equal ones may be
    sampled.

    With a kernel, landmarks that are not given are taken from the first batch, and so is the
    gamma that "scale" stands for; shuffle rows that are sorted. A source that gives its rows once
    needs both given.

    Text files may have any of the separators , ; tab | and space, a decimal comma, quotes, a BOM,
    UTF-16, and cells in Windows-1252; these are found by their first lines. Cells that are empty
    or a mark such as NA or ? are missing, which is an error in a column that is learned from.

    Steps of a `Pipeline` see no batches. Fit them to some rows first, and give a function that
    yields transformed batches: ``lambda: ((scaler.transform(X), y) for X, y in ...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin import files
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> batches = [(X[i::5], y[i::5]) for i in range(5)]
    >>> model = files.fit(FuzzyTwinSVC(membership="center"), batches)
    >>> np.allclose(model.coef_, FuzzyTwinSVC(membership="center").fit(X, y).coef_, rtol=1e-9)
    True
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
    selection = Selection(target, sample_weight, degrees, features)
    opened = open_source(source, selection, batch_rows=batch_rows, sheet=sheet, mixed=committee)
    opened.warn()
    has_degrees = opened.has_degrees
    if has_degrees and not takes_degrees:
        raise ValueError(f"{type(model).__name__} takes no degrees; leave them out of the source.")
    if not opened.repeatable and (
        committee or (settings.membership is not None and not has_degrees)
    ):
        what, remedy = "FuzzyTwinCommittee", ""
        if not committee:
            what, remedy = f"membership={model.membership!r}", ", or set membership=None"
        raise ValueError(
            f"{what} takes several passes over the rows, but this {type(source).__name__} gives "
            f"them once; give a function that returns a new one{remedy}."
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
                total, has_degrees=has_degrees, names=opened.names, classes=classes, schema=schema,
                phi=phi,
            )  # fmt: skip
    if isinstance(opened, TableChunks):
        keep_preprocessor(model, opened.preprocessor)
    opened.warn_of_cells()
    return model


def _landmarks(settings: FitSettings, opened: Source) -> LandmarkMap | None:
    """Compute the map of given landmarks, or take landmarks and gamma from the first batch."""
    if not settings.uses_kernel:
        return None
    if not opened.repeatable or not (is_count(settings.n_landmarks) or settings.gamma_by_rows):
        return fixed_landmarks(settings)
    for batch in opened.batches():
        with locating(batch):
            return landmark_map(settings, batch.validated())
    raise ValueError("the source is empty: it has no rows; give some of two classes.")


def total_over(source: Source, classes: Array | None, progress: bool) -> SumOverChunks:
    """Sum over the batches of a source. Each call is a pass over them, by threads."""
    rows: list[int] = []  # of each pass

    def total(function: Any, *shared: Any) -> Any:
        def apply(batch: Batch) -> tuple[Batch, Any]:
            with locating(batch):
                return batch, function(*shared, batch.validated())

        name, found = f"pass {len(rows) + 1}", None
        # Batches are worked on by threads, and added in their order. They are closed here, lest the
        # garbage collector do it in the very thread that reads ahead.
        with (
            Progress(name, source.n_rows, "rows", enabled=progress) as bar,
            closing(read_ahead(source)) as batches,
            closing(map_threads(apply, batches)) as done,
        ):
            for batch, part in done:
                if isinstance(part, ClassTotals):
                    _check_labels(batch, found, classes)
                with locating(batch):
                    found = add([found, part])
                bar.advance(len(batch))
        rows.append(bar.done)
        if rows[0] != bar.done:
            raise ValueError(
                f"{name} over the source read {bar.done} rows, the first one {rows[0]}; give a "
                "function that returns the same batches each time."
            )
        if found is None:
            raise ValueError("the source is empty: it has no rows; give some of two classes.")
        return found

    return total


def read_ahead(source: Source) -> Generator[Batch, None, None]:
    """Read the batches; of files, the next one in a thread of its own."""
    if not source.from_files:
        yield from source.batches()
        return
    with closing(source.batches()) as batches, ThreadPoolExecutor(1) as reader:  # type: ignore[type-var]
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _check_labels(batch: Batch, before: Any, classes: Array | None) -> None:
    """Refuse labels of two kinds, and labels that are not among the classes."""
    values = np.asarray(batch.y) if batch.labels is None else batch.labels
    text = values.dtype.kind not in "biuf"
    if before is not None and len(values) and text != (before.labels.dtype.kind not in "biuf"):
        raise ValueError(
            f"{batch.place.rows(len(batch))}: labels such as {values[:1].tolist()[0]!r} are not of "
            f"the kind read before, such as {before.labels[:1].tolist()[0]!r}; write them alike."
        )
    unknown = values[:0] if classes is None else np.setdiff1d(values, classes)
    if classes is not None and len(unknown):
        of_rows = values if batch.labels is None else values[batch.y]
        row = np.flatnonzero(of_rows == unknown[0])[0]
        raise ValueError(
            f"{batch.place.row(row)}: label {unknown[:1].tolist()[0]!r} is not among "
            f"classes={classes.tolist()}; add it there, or leave out such rows."
        )


@contextmanager
def locating(batch: Batch) -> Iterator[None]:
    """Give errors the place of the batch, or of the row that is the cause."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = _bad_row(batch) or f"{batch.place.rows(len(batch))}: {error}"
        raise type(error)(message) from error


def _bad_row(batch: Batch) -> str | None:
    """Name the first row that holds what no fit takes, if there is one."""
    X, place = batch.X, batch.place
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
        if place.bad_cell is not None and batch.names is not None:
            return place.bad_cell(row, batch.names[column])
        name = f"column {column}" if batch.names is None else f"column {batch.names[column]!r}"
        where = f"{place.row(row)}: {name}"
        return f"{where} holds {value}; fill in such values or leave out such rows."
    for name, values, most, remedy in (
        ("weight", batch.weight, np.inf, "weights of at least 0"),
        ("degree", batch.degrees, 1.0, "degrees in [0, 1]"),
    ):
        values = np.asarray(0.0 if values is None else values)
        if values.dtype.kind not in "biuf" or values.shape[:1] != (len(batch),):
            continue
        table = values.reshape(len(batch), -1)
        for cell in np.argwhere(~((table >= 0) & (table <= most) & np.isfinite(table))):
            value = table[tuple(cell)]
            return f"{place.row(cell[0])}: the {name} is {value}; give finite {remedy}."
        empty = np.flatnonzero(~table.any(axis=1))
        if name == "degree" and table.shape[1] > 1 and len(empty):
            return (
                f"{place.row(empty[0])}: the soft labels are all 0, so the row belongs to no "
                "class; leave it out."
            )
    return None
