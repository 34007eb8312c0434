"""Doubtful labels of rows that do not fit in memory: three passes over them.

A look at all rows, the sums of a committee's members, then the degree of each row by planes that
never saw it. The model of wrong labels is fitted to the rows that the look has sampled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from fuzzytwin._params import count_threads
from fuzzytwin._passes import Total, checked
from fuzzytwin._utils.threads import thread_pool
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._first_pass import FirstPassStats, WeightedRows, blocks, run_first_pass
from fuzzytwin.data.batches import Batch, RowNumbers, Selection, check_name
from fuzzytwin.data.cells import pa
from fuzzytwin.data.files import format_of
from fuzzytwin.data.fit_source import read_ahead, total_over
from fuzzytwin.data.sources import open_source
from fuzzytwin.data.writers import check_out, write_tables
from fuzzytwin.doubts.find import default_committee, find_doubtful
from fuzzytwin.doubts.report import DoubtsReport

WRITTEN = ("id", "label", "degree", "suggested", "doubtful")


@dataclass(frozen=True, eq=False)
class SourceDoubts:
    """What `doubts_source` and `find_doubtful` of the engines found out about all labels.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    n_rows : int
        Number of rows.
    n_sampled : int
        Number of rows that the model of wrong labels was fitted to.
    n_wrong : float
        Expected number of wrong labels among all rows.
    n_wrong_interval : tuple of float
        Its 95 % interval.
    noise_matrix : ndarray of shape (K, K)
        Share of the rows of each class (row) that has each label (column).
    n_doubtful : int or None
        Number of flagged rows; None where rows are judged later (Dask, Spark).
    estimator : FuzzyTwinCommittee
        The committee that judged the rows; fitted where they are more than 10,000.
    frame : Dask or Spark DataFrame, default=None
        Of the engines: label, degree, suggested and doubtful of each row, computed when asked for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin.sources import doubts_source
    >>> X, y = make_ndc(300, 4, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = doubts_source([(X[:200], y[:200]), (X[200:], y[200:])], Path(folder) / "d.csv")
    >>> found.n_rows, found.n_sampled
    (300, 300)
    """

    classes: Array
    n_rows: int
    n_sampled: int
    n_wrong: float
    n_wrong_interval: tuple[float, float]
    noise_matrix: Array
    n_doubtful: int | None
    estimator: Any
    frame: Any = None

    def summary(self) -> str:
        """Describe what was found in two lines."""
        flagged = "" if self.n_doubtful is None else f"{self.n_doubtful:,} of "
        low, high = self.n_wrong_interval
        wrong = "how many are wrong is not known"
        if np.isfinite(self.n_wrong):
            wrong = f"about {self.n_wrong:,.0f} ({low:,.0f} to {high:,.0f}) are probably wrong"
        return (
            f"{flagged}{self.n_rows:,} labels{' are doubtful' if flagged else ''}; {wrong}.\n"
            f"The model of wrong labels was fitted to {self.n_sampled:,} rows."
        )


def doubts_source(
    source: Any,
    out: str | os.PathLike[str],
    *,
    target: str | None = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    estimator: FuzzyTwinCommittee | None = None,
    batch_rows: int | None = None,
    sheet: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> SourceDoubts:
    """Find doubtful labels among rows that are read batch by batch, and write what was found.

    The file has the columns "id", "label", "degree" (to which the label is right), "suggested" (the
    most probable label, everything considered) and "doubtful", in the order of the rows. It appears
    when it is complete.

    Parameters
    ----------
    source : path, list of paths, iterable or callable
        As for `fit_source`: Parquet, Arrow and CSV files, folders of them, batches. Rows are read
        three times, or twice if they are at most 10,000.
    out : path
        A .parquet, .feather, .xlsx, .csv or .tsv file, or a .csv.gz or .tsv.gz file.
    target : str, default=None
        Column of the labels; needed where columns have names.
    id : str, default=None
        Column of names of the rows, not learned from; None numbers them as messages do: from 2
        where a spreadsheet shows the header as row 1, else from 1.
    features : sequence of str, default=None
        Columns to learn from; None for all others that are numeric.
    sample_weight : str, default=None
        Column of weights; rows of weight 0 are judged too.
    estimator : FuzzyTwinCommittee, default=None
        None for that of `fuzzytwin.doubts.find_doubtful`.
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
    SourceDoubts
        With `n_wrong`, its interval, `noise_matrix`, `n_sampled` and `summary()`.

    Notes
    -----
    Of more than 10,000 rows, the model of wrong labels and the degree from which a row is flagged
    come from a sample of that many. It is drawn by the content of rows, so that neither their order
    nor how they are cut into batches matters. Every row is judged by planes that never saw it, in
    closed form, whether it is in the sample or not: degrees are those of `find_doubtful`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin.sources import doubts_source
    >>> X, y = make_ndc(300, 4, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "doubts.csv"
    ...     found = doubts_source([(X[:200], y[:200]), (X[200:], y[200:])], out)
    ...     out.read_text().splitlines()[0]
    'id,label,degree,suggested,doubtful'
    """
    check_out(out, overwrite)
    committee = check_committee(estimator)
    check_name("id", id)
    keep = () if id is None else (id,)
    as_text = not format_of(out).typed
    selection = Selection(target, sample_weight, None, features, keep, as_text=as_text)
    opened = open_source(source, selection, batch_rows, sheet=sheet)
    opened.refuse_output(out)
    opened.warn()
    if opened.has_degrees:
        raise ValueError("degrees are what is found; leave them out of the source.")
    if not opened.repeatable:
        raise ValueError(
            f"the rows are read several times, but this {type(source).__name__} gives them once; "
            "give a function that returns a new one."
        )
    with thread_pool(count_threads(committee.n_jobs), n_columns=len(opened.names or ())):
        total = total_over(opened, None, progress)
        judge = judge_over(total, estimator, opened.names, lambda: all_rows(total(gather)))
        with closing(read_ahead(opened)) as batches:
            tables = _tables(judge, batches)
            write_tables(out, tables, overwrite, "degrees", opened.rows, progress)
    opened.warn(done=True)
    return judge.found()


def check_committee(estimator: Any) -> FuzzyTwinCommittee:
    """Return an unfitted committee; refuse other estimators, which need all rows at once."""
    if estimator is None:
        return default_committee(0)
    if not isinstance(estimator, FuzzyTwinCommittee):
        raise ValueError(
            f"estimator={estimator!r} needs all rows at once; give a FuzzyTwinCommittee, or use "
            "fuzzytwin.doubts.find_doubtful on rows in memory."
        )
    plain = FuzzyTwinCommittee(**estimator.get_params(deep=False))  # also that of an engine
    committee: FuzzyTwinCommittee = clone(plain).set_params(noise="auto")
    return committee


class Judge:
    """Gives the probability of each true class of rows, by planes that never saw them.

    It counts what it is asked about; `found` then tells. Before that, and of a copy that judges
    elsewhere, the sample speaks for all rows.
    """

    def __init__(self, look: FirstPassStats, committee: FuzzyTwinCommittee, judged: Any) -> None:
        """Take what was `judged`: a report on all rows, or what was learned from a sample."""
        self.committee = committee
        self.n_rows, self.n_sampled = look.count, len(look.rows)
        self.n_judged, self.n_doubtful, self.least = 0, 0, np.inf
        self.report: Any = judged if isinstance(judged, DoubtsReport) else None
        if self.report is not None:
            self.classes: Array = self.report.classes
            self.sampled = _counts(self.report.posterior, self.report.codes)
        else:
            self.classes, self.noise = committee.classes_, judged.noise
            codes = judged.rows.codes
            J = self.noise.posterior(judged.F, codes)
            self.least = self.noise.least_wrong(judged.F, codes)
            self.sampled = _counts(J, codes) * (look.count / len(J))
            self.width = max(len(self.classes) * len(judged.found), committee.landmarks_.shape[0])
            # Sampled rows need not travel.
            self.learned = replace(judged, F=judged.F[:0], rows=judged.rows.take(slice(0)))
        self.counts = np.zeros_like(self.sampled)

    def columns(self, X: Any, y: Any, s: Any, start: int = 0) -> list[Array]:
        """Return label, degree, suggested label and flag of rows, from row `start` on."""
        J, codes = self(X, y, s, start)
        degree = J[np.arange(len(codes)), codes]
        flags = 1 - degree >= self.least
        if self.report is not None:
            flags = self.report.doubtful[start : start + len(J)]
        self.n_doubtful += int(flags.sum())
        return [self.classes[codes], degree, self.classes[J.argmax(axis=1)], flags]

    def __call__(self, X: Any, y: Any, s: Any, start: int = 0) -> tuple[Array, Array]:
        """Return probabilities (n, K) and codes of rows, from row `start` on."""
        X, y, s, _ = checked(X, y, s, None)
        s = np.ones(len(y)) if s is None else s
        codes = np.searchsorted(self.classes, y.values)[y.codes].astype(np.intp)
        if self.report is not None:
            self.refuse_others(codes, start)
            J = self.report.posterior[start : start + len(y)]
        else:
            J = np.empty((len(y), len(self.classes)))
            for i in blocks(len(y), max(X.shape[1], self.width)):
                F = self.learned.values(WeightedRows(X[i], codes[i], s[i]))
                J[i] = self.noise.posterior(F, codes[i])
        self.counts += _counts(J, codes)
        self.n_judged += len(y)
        return J, codes

    def refuse_others(self, codes: Array, start: int, *, ended: bool = False) -> None:
        """Refuse rows, from row `start` on, that are not those of the report."""
        if self.report is None:
            return
        known = self.report.codes[start : None if ended else start + len(codes)]
        if not np.array_equal(codes, known):
            raise ValueError(
                "the rows of the last pass are not those of the passes before; give a function "
                "that returns the same batches each time, or wait until files are written."
            )

    def found(self, frame: Any = None) -> SourceDoubts:
        """Report on all rows: those that were judged or, before that, those of the sample."""
        counts = self.counts if self.n_judged else self.sampled
        total = counts.sum(axis=1, keepdims=True)
        matrix = np.divide(counts, total, out=np.eye(len(counts)), where=total > 0)
        n = int(self.n_judged or self.n_rows)
        wrong = float(counts.sum() - np.trace(counts))
        if self.report is not None:
            wrong, interval = self.report.n_wrong, self.report.n_wrong_interval
        else:
            low, high = (end * n / self.n_sampled for end in self.noise.interval)
            interval = min(low, wrong), max(high, wrong)
            wrong = wrong if self.noise.tells else np.nan
        return SourceDoubts(
            self.classes, n, self.n_sampled, wrong, interval, matrix,
            self.n_doubtful if self.n_judged else None, self.committee, frame,
        )  # fmt: skip


def judge_over(total: Total, estimator: Any, names: Any, all_rows: Any) -> Judge:
    """Fit committee and model of wrong labels to chunks; ``all_rows()`` reads few rows whole."""
    committee = check_committee(estimator)
    look, summed = run_first_pass(total, names=names)
    if len(look.dropped):
        raise ValueError(
            f"sample_weight is zero for every row of class {look.dropped.tolist()[0]!r}; give some "
            "of them weight, or leave these rows out."
        )
    if estimator is None:
        committee = default_committee(0, n_classes=len(look.labels))
    if not look.sampled:
        X, y, s = all_rows()
        return Judge(look, committee, find_doubtful(X, y, estimator and committee, s))
    learned = committee.fit_chunks(total, names=names, look=(look, summed))
    return Judge(look, committee, learned)


def _counts(J: Array, codes: Array) -> Array:
    """Add up probabilities (K, K): true class by label."""
    K = J.shape[1]
    return np.stack([np.bincount(codes, J[:, j], minlength=K) for j in range(K)])


def gather(X: Any, y: Any, s: Any, mu: Any) -> list[Any]:
    """Hand on the rows of a chunk, for `all_rows`."""
    X, y, s, _ = checked(X, y, s, None)
    return [(X, y.values[y.codes], np.ones(len(y)) if s is None else s)]


def all_rows(gathered: list[Any]) -> tuple[Any, ...]:
    """Put rows, labels and weights together that `gather` handed on."""
    X, y, s = zip(*(part for part in gathered if len(part[1])), strict=True)
    join = sparse.vstack if sparse.issparse(X[0]) else np.concatenate
    return join(X), np.concatenate(y), np.concatenate(s)


def _tables(judge: Judge, batches: Iterable[Batch]) -> Iterator[Any]:
    """Judge batches; make the tables that are written."""
    start, numbered = 0, RowNumbers()
    for batch in batches:
        values = judge.columns(batch.X, batch.y, batch.weight, start)
        columns = [pa.array(v.tolist() if v.dtype.kind == "O" else v) for v in values]
        numbers = numbered.of(batch)
        names = pa.array(numbers) if batch.kept is None else batch.kept.column(0)
        yield pa.table(dict(zip(WRITTEN, [names, *columns], strict=True)))
        start += len(batch)
    judge.refuse_others(np.empty(0, dtype=np.intp), start, ended=True)
