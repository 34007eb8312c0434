"""Sums over the chunks of Dask collections, and their label issues."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import repeat
from typing import Any
from uuid import uuid4

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.base import optimize
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import DataNode, List, Task, TaskRef

from fuzzytwin._passes import add
from fuzzytwin._rows import validate_chunk
from fuzzytwin._utils.threads import limited_threads
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._preprocessing import fit_preprocessor
from fuzzytwin.label_issues._chunked import (
    ChunkedLabelIssues,
    LeaveOneOutScorer,
    collect_rows,
    fit_scorer,
    join_rows,
)
from fuzzytwin.label_issues._report import COLUMNS, ranks
from fuzzytwin.tables import TablePreprocessor
from fuzzytwin.tables._preprocessor import encode_table
from fuzzytwin.tables._reader import rows_read_whole, sample_rows

# Number of sums that a task adds. A tree of such tasks needs little memory on any worker.
BRANCHES = 16


class Chunks:
    """Rows, labels, weights and degrees in the same chunks.

    `features` are columns of a DataFrame, None for all that are not labels, weights or degrees. A
    `preprocessor` turns them into numbers.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        membership: Any,
        features: Any = None,
        preprocessor: TablePreprocessor | None = None,
    ) -> None:
        self.preprocessor = preprocessor
        arguments = {"y": y, "sample_weight": sample_weight, "membership": membership}
        self.columns: dict[str, Any] = {}  # arguments that are names of columns of X
        self.features: list[Any] | None = None  # of a DataFrame
        self.feature_names: list[str] | None = None
        if isinstance(X, da.Array):
            X = whole_rows(X)
        else:
            self.columns = {
                name: checked_columns(X, name, value)
                for name, value in arguments.items()
                if _is_column_name(value)
            }
            used = {c for v in self.columns.values() for c in (v if isinstance(v, list) else [v])}
            self.features = [name for name in X.columns if name not in used]
            if features is not None:
                self.features = checked_columns(X, "X", list(features))
                X = X[[*self.features, *sorted(used - set(self.features))]]
            if preprocessor is None and all(isinstance(name, str) for name in self.features):
                self.feature_names = self.features
        aligned = [
            None if value is None or name in self.columns else _align_chunks(X, name, value)
            for name, value in arguments.items()
        ]
        self.chunks = list(zip(*_delayed_chunks([X, *aligned]), strict=False))

    def fit_preprocessor(self) -> None:
        """Fit a preprocessor to the first rows of a DataFrame, unless they are numbers only."""
        if self.features is None or not self.chunks:
            return
        parts = []
        n_rows = 0
        for chunk in self.chunks:
            parts.append(chunk[0].compute()[self.features])
            n_rows += len(parts[-1])
            if n_rows > rows_read_whole(len(self.features)):
                break
        first_rows = pd.concat(parts)
        if n_rows > rows_read_whole(len(self.features)):
            first_rows = first_rows.iloc[: sample_rows(len(self.features))]
        self.preprocessor = fit_preprocessor(first_rows)
        if self.preprocessor is not None:
            self.feature_names = None  # the preprocessor has them

    def total(self, function: Any, *shared: Any) -> Any:
        """Sum ``function(*shared, rows)`` over the chunks, by a tree of tasks."""
        if not self.chunks:
            return None
        # The graph is built from tasks: `delayed` would take a millisecond for each chunk.
        name = f"{function.__name__}-{uuid4().hex}"
        # Shared arguments have keys, so that they are sent once to each worker, not with each task.
        common = [TaskRef((name, "shared", i)) for i in range(len(shared))]
        tasks: list[Any] = [
            DataNode(reference.key, value) for reference, value in zip(common, shared, strict=True)
        ]
        run = partial(
            _on_rows, function, self.columns, self.features, self.preprocessor, self.feature_names
        )
        keys: list[Any] = [(name, 0, i) for i in range(len(self.chunks))]
        for key, chunk in zip(keys, self.chunks, strict=True):
            parts = (None if part is None else TaskRef(part.key) for part in chunk)
            tasks.append(Task(key, run, *parts, *common))
        level = 0
        while len(keys) > 1:
            level += 1
            groups = [keys[start : start + BRANCHES] for start in range(0, len(keys), BRANCHES)]
            keys = [(name, level, i) for i in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                tasks.append(Task(key, add, List(*map(TaskRef, group))))
        inputs = [part for chunk in self.chunks for part in chunk if part is not None]
        graph = HighLevelGraph.from_collections(
            name, {task.key: task for task in tasks}, dependencies=inputs
        )
        return Delayed(keys[0], graph, layer=name).compute()


def find_label_issues(
    X: Any, y: Any, *, labels: str = "auto", estimator: Any = None, sample_weight: Any = None
) -> ChunkedLabelIssues:
    """Find label issues in Dask collections, as `fuzzytwin.find_label_issues` does in memory.

    Rows are read once or, if there are more than 200,000, twice for the committee, and again when
    `frame` is computed. The label-noise model is fitted to at most 10,000 of them: see
    `fuzzytwin.files.find_label_issues`.

    Parameters
    ----------
    X : Dask array of shape (n, d) or Dask DataFrame
        Rows, in chunks of any sizes, known or unknown. A DataFrame may have text, dates and missing
        values, which are encoded by a preprocessor that is fitted to the first rows.
    y : Dask array or Series, or str
        Labels. If X is a DataFrame, y may be the name of a column.
    labels : {"auto", "annotated", "observed"}, default="auto"
        How the labels arose: see `fuzzytwin.find_label_issues`.
    estimator : FuzzyTwinCommittee, default=None
        None for that of `fuzzytwin.find_label_issues`.
    sample_weight : Dask array or Series, or str, default=None
        Importance of each row.

    Returns
    -------
    fuzzytwin.files.ChunkedLabelIssues
        `frame` is a Dask DataFrame with the columns of `LabelIssueReport.to_frame` and a partition
        for each chunk. It has the index of a DataFrame X. For an array, the index of each partition
        begins with 0.

    Raises
    ------
    TypeError
        If X is not a Dask array or DataFrame.
    ValueError
        If the chunks of y or `sample_weight` do not match those of X.

    Examples
    --------
    >>> import dask.array as da
    >>> from fuzzytwin.dask import find_label_issues
    >>> from fuzzytwin.datasets import make_ndc
    >>> X, y = make_ndc(300, 4, random_state=0)
    >>> issues = find_label_issues(da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100))
    >>> issues.frame.compute().columns.tolist()
    ['given_label', 'suggested_label', 'label_quality', 'is_label_issue', 'rank']
    """
    if not is_dask(X):
        raise TypeError(
            f"X is of type {type(X).__name__}; give a Dask array or DataFrame, or use "
            "fuzzytwin.find_label_issues for rows in memory."
        )
    chunks = Chunks(X, y, sample_weight, None)
    chunks.fit_preprocessor()
    starts = [0] * len(chunks.chunks)

    def all_rows() -> Any:
        collected = chunks.total(collect_rows)
        starts[:] = [0, *np.cumsum([len(y) for _, y, _ in collected[:-1]]).tolist()]
        return join_rows(collected)

    scorer = fit_scorer(chunks.total, estimator, chunks.feature_names, all_rows, labels)
    run = delayed(partial(_on_chunk, _scored, chunks.columns, chunks.features, chunks.preprocessor))
    common = delayed(scorer)
    parts = [run(*part, common, start) for part, start in zip(chunks.chunks, starts, strict=True)]
    rank = delayed(_ranks)([part["label_quality"] for part in parts])
    ranked = [delayed(_with_rank)(part, rank, i) for i, part in enumerate(parts)]
    dtypes = (scorer.classes.dtype, scorer.classes.dtype, float, bool, np.int64)
    empty = {name: np.empty(0, dtype) for name, dtype in zip(COLUMNS, dtypes, strict=True)}
    meta = pd.DataFrame(empty)
    return scorer.result(dd.from_delayed(ranked, meta=meta, verify_meta=False))


def _scored(scorer: LeaveOneOutScorer, start: int, X: Any, y: Any, s: Any, mu: Any) -> Any:
    """Score the rows of a chunk, which keep their index."""
    return pd.DataFrame(
        scorer.score(validate_chunk(X, y, s), start), index=getattr(X, "index", None)
    )


def _ranks(label_quality: list[Any]) -> list[Array]:
    """Rank the rows of all chunks together."""
    ends = np.cumsum([len(part) for part in label_quality])
    return np.split(ranks(np.concatenate(label_quality)), ends[:-1])


def _with_rank(part: Any, rank: list[Array], i: int) -> Any:
    return part.assign(rank=rank[i])


def _on_rows(
    function: Any,
    columns: Any,
    features: Any,
    preprocessor: Any,
    names: Any,
    x: Any,
    y: Any,
    s: Any,
    mu: Any,
    *shared: Any,
) -> Any:
    """Apply a function to the validated rows of one chunk."""

    def validated(X: Any, y: Any, s: Any, mu: Any) -> Any:
        return function(*shared, validate_chunk(X, y, s, mu, names=names))

    return _on_chunk(validated, columns, features, preprocessor, x, y, s, mu)


def _on_chunk(
    function: Any,
    columns: Any,
    features: Any,
    preprocessor: Any,
    x: Any,
    y: Any,
    s: Any,
    mu: Any,
    *shared: Any,
) -> Any:
    """Apply a function to one chunk of rows, labels, weights and degrees."""
    arguments = {"y": y, "sample_weight": s, "membership": mu}
    for name, column_names in columns.items():
        # Several columns, of soft labels, are in the order of the classes.
        arguments[name] = x[column_names].to_numpy()
    rows = x if features is None else x[features]
    if preprocessor is not None:
        rows = pd.DataFrame(encode_table(preprocessor, rows), index=rows.index)
    with limited_threads():  # Dask has its own threads
        return function(*shared, rows, *arguments.values())


def is_dask(X: Any) -> bool:
    """Return whether rows are a Dask array or DataFrame."""
    return isinstance(X, (da.Array, dd.DataFrame))


def _is_column_name(value: Any) -> bool:
    """Return whether an argument is the name of a column, or a list of names."""
    if isinstance(value, str):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(n, str) for n in value)


def checked_columns(X: Any, parameter: str, names: Any) -> Any:
    """Return the names of columns. Raise a ValueError if X lacks one."""
    for name in names if isinstance(names, list) else [names]:
        if name not in X.columns:
            table_names = ", ".join(map(str, X.columns))
            raise ValueError(
                f"{parameter}: X has no column {name!r}; its columns are {table_names}."
            )
    return names


def whole_rows(X: Any) -> Any:
    """Return a two-dimensional array whose chunks hold complete rows."""
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimensions; give rows and columns (X.reshape(-1, 1) for one column)."
        )
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _align_chunks(X: Any, name: str, value: Any) -> Any:
    """Return a collection with one row for each row of X, in the same chunks."""
    is_frame = isinstance(X, dd.DataFrame)
    is_array = isinstance(value, da.Array)
    if isinstance(value, (dd.DataFrame, dd.Series)):
        divisions_known = is_frame and X.known_divisions and value.known_divisions
        if divisions_known and X.divisions != value.divisions:
            raise ValueError(
                f"{name} has different divisions than X; use "
                f"{name}.repartition(divisions=X.divisions), or put it into X and give the name of "
                "the column."
            )
    elif not is_array:
        if is_frame:
            raise TypeError(
                f"{name} is of type {type(value).__name__}, but X is a Dask DataFrame; give a Dask "
                "Series, or the name of a column of X."
            )
        value = np.asarray(value)
        if value.ndim == 0:
            raise ValueError(f"{name}={value.item()!r} is one value; give one per row of X.")
        if np.isnan(X.shape[0]):
            raise ValueError(
                f"{name} is in memory, but the chunk sizes of X are unknown; call "
                "X.compute_chunk_sizes() first, or give a Dask array."
            )
        _check_rows(X.shape[0], name, len(value))
        return da.from_array(value, chunks=(X.chunks[0], *((k,) for k in value.shape[1:])))
    elif value.ndim == 2:
        value = whole_rows(value)
    if is_array and not (is_frame or np.isnan(X.shape[0]) or np.isnan(value.shape[0])):
        _check_rows(X.shape[0], name, value.shape[0])
        return value.rechunk({0: X.chunks[0]})
    if value.npartitions != X.npartitions:
        raise ValueError(
            f"{name} has {value.npartitions} chunks and X has {X.npartitions}; give both the same "
            "chunks (rechunk or repartition)."
        )
    return value


def _check_rows(n_rows: int, name: str, n_values: int) -> None:
    """Raise a ValueError if an argument does not have one value for each row of X."""
    if n_values != n_rows:
        raise ValueError(f"{name} has {n_values} rows and X has {n_rows}; give one per row of X.")


def _delayed_chunks(collections: list[Any]) -> Iterator[Any]:
    """Yield the chunks of each collection, and an endless series of None for None."""
    # Arrays are optimized together, so that what they share is computed once.
    optimized = iter(optimize(*(part for part in collections if isinstance(part, da.Array))))
    for part in collections:
        if isinstance(part, da.Array):
            yield np.ravel(next(optimized).to_delayed(optimize_graph=False))
        else:
            yield repeat(None) if part is None else part.to_delayed()
