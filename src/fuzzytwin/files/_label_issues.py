"""Find label issues out of core, in three passes over files or batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from fuzzytwin._params import count_threads
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.files._chunks import Batch, Selection, check_name
from fuzzytwin.files._fit import read_ahead, total_over
from fuzzytwin.files._tables import open_source
from fuzzytwin.label_issues._chunked import (
    ChunkedLabelIssues,
    LeaveOneOutScorer,
    check_committee,
    collect_rows,
    fit_scorer,
    join_rows,
)
from fuzzytwin.label_issues._report import ranks
from fuzzytwin.tables._parse import pa
from fuzzytwin.tables._writer import check_out, output_style, write_tables


def find_label_issues(
    source: Any,
    out: str | os.PathLike[str],
    *,
    target: str | None = None,
    id: str | None = None,
    labels: str = "auto",
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    estimator: FuzzyTwinCommittee | None = None,
    batch_rows: int | None = None,
    sheet: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> ChunkedLabelIssues:
    """Find label issues in rows that are read batch by batch, and write them to a file.

    The file has the columns "id", "given_label", "suggested_label", "label_quality",
    "is_label_issue" and "rank" of `LabelIssueReport.to_frame`, in the order of the rows. It appears
    when it is complete. These columns are held in memory, but no other column is.

    Parameters
    ----------
    source : path, list of paths, frame, iterable or callable
        As for `fit`: Parquet, Arrow and CSV files, folders of them, frames, or batches. Rows are
        read three times, or twice if there are at most 200,000 (or 16.8 million numbers).
    out : path
        A .parquet, .feather, .csv or .tsv file, or a .csv.gz or .tsv.gz file. If the source is a
        text file, CSV files have its separator and decimal mark.
    target : str, default=None
        Column of the labels. Required unless batches are tuples of arrays.
    id : str, default=None
        Column with the names of the rows, which is not a feature. None for row numbers as in
        messages: from 2 if a spreadsheet shows the header as row 1, otherwise from 1.
    labels : {"auto", "annotated", "observed"}, default="auto"
        How the labels arose: see `fuzzytwin.find_label_issues`.
    features : sequence of str, default=None
        Columns to train on, None for all others.
    sample_weight : str, default=None
        Column of weights. Rows of weight 0 are scored too.
    estimator : FuzzyTwinCommittee, default=None
        None for that of `fuzzytwin.find_label_issues`.
    batch_rows : int, default=None
        Maximum number of rows of a batch. None for about 16 MiB of numbers: 65,536 rows of up to
        32 columns, 8,192 of 256.
    sheet : str, default=None
        Sheet of a workbook, None for the first.
    overwrite : bool, default=False
        Whether to overwrite an existing file.
    progress : bool, default=False
        Whether to show the progress on standard error.

    Returns
    -------
    ChunkedLabelIssues
        The estimated number of label errors `n_errors`, its interval, `noise_matrix`, `n_sampled`
        and `summary()`.

    Raises
    ------
    ValueError
        For bad data, with the file, the row and the remedy. Nothing is written.
    FileExistsError
        If the file exists and `overwrite` is False.

    Notes
    -----
    With more than 10,000 rows, the label-noise model and the threshold of label issues come from a
    sample of that many. It is drawn by the content of rows, so neither their order nor the batches
    matter. Each row is scored by its leave-one-out predictions in closed form, whether it is in the
    sample or not. Its label quality is that of `fuzzytwin.find_label_issues`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin import files
    >>> X, y = make_ndc(300, 4, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "issues.csv"
    ...     issues = files.find_label_issues([(X[:200], y[:200]), (X[200:], y[200:])], out)
    ...     out.read_text().splitlines()[0]
    'id,given_label,suggested_label,label_quality,is_label_issue,rank'
    """
    check_out(out, overwrite)
    committee = check_committee(estimator)
    check_name("id", id)
    keep = () if id is None else (id,)
    selection = Selection(target, sample_weight, None, features, keep)
    reading = {"sheet": sheet}
    opened = open_source(source, selection, batch_rows=batch_rows, reading=reading, mixed=True)
    opened.check_output(out)
    opened.warn()
    if opened.has_degrees:
        raise ValueError("membership degrees are not used here; leave them out of the source.")
    if not opened.repeatable:
        raise ValueError(
            f"the rows are read several times, but this {type(source).__name__} can be read only "
            "once; give a function that returns a new one."
        )
    with thread_pool(count_threads(committee.n_jobs), n_columns=len(opened.names or ())):
        total = total_over(opened, None, progress)
        scorer = fit_scorer(
            total, estimator, opened.names, lambda: join_rows(total(collect_rows)), labels
        )
        with closing(read_ahead(opened)) as batches:
            scored = _scored(scorer, batches)
    style = output_style(getattr(opened, "reader", None))
    write_tables(out, [scored], overwrite, "label issues", opened.n_rows, progress, **style)
    opened.warn_of_cells()
    return scorer.result()


def _scored(scorer: LeaveOneOutScorer, batches: Iterable[Batch]) -> Any:
    """Score batches of rows, and return the table to write."""
    start = 0
    tables = []
    for batch in batches:
        ids = pa.array(batch.numbers) if batch.kept is None else batch.kept.column(0)
        values = scorer.score(batch.validated(), start)
        columns = {name: pa.array(_as_objects(value)) for name, value in values.items()}
        tables.append(pa.table({"id": ids, **columns}))
        start += len(batch)
    scorer.check_end(start)
    table = pa.concat_tables(tables)
    rank = ranks(table.column("label_quality").to_numpy())
    return table.append_column("rank", pa.array(rank))


def _as_objects(values: Array) -> Any:
    return values.tolist() if values.dtype.kind == "O" else values
