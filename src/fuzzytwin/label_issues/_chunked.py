"""Label issues of rows that are not in memory at once, in three passes over chunks.

The first pass samples rows, the second sums the features of the committee, and the third scores
each row by its leave-one-out predictions. The label-noise model is fitted to the sampled rows. Rows
that are few enough to be sampled as a whole are handed to `find_label_issues` instead. Files, Dask
and Spark supply the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from fuzzytwin._passes import SumOverChunks
from fuzzytwin._rows import Rows
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.committee._first_pass import FirstPassStats, blocks, run_first_pass
from fuzzytwin.committee._fit import CommitteeFit, fit_chunks
from fuzzytwin.label_issues._find import (
    check_labels_option,
    default_committee,
    find_label_issues,
)
from fuzzytwin.label_issues._report import COLUMNS, LabelIssueReport, errors_in_words

SCORED = COLUMNS[:4]  # columns that need no other rows


@dataclass(frozen=True, eq=False)
class ChunkedLabelIssues:
    """Label issues of files, or of Dask and Spark collections.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    n_rows : int
        Number of rows.
    n_sampled : int
        Number of rows that the label-noise model was fitted to.
    n_errors : float
        Expected number of label errors in all rows. NaN if it is unknown.
    n_errors_interval : tuple of float
        Its 95% confidence interval.
    noise_matrix : ndarray of shape (K, K)
        Share of the rows of each true class (row) that have each label (column).
    n_label_issues : int or None
        Number of label issues. None if rows are scored later (Dask, Spark).
    estimator : FuzzyTwinCommittee
        The committee that scores the rows. It is fitted if there are more than 10,000 rows.
    frame : Dask or Spark DataFrame, default=None
        With the engines: the columns of `LabelIssueReport.to_frame`, computed when asked for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fuzzytwin.datasets import make_ndc
    >>> from fuzzytwin import files
    >>> X, y = make_ndc(300, 4, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chunks = [(X[:200], y[:200]), (X[200:], y[200:])]
    ...     issues = files.find_label_issues(chunks, Path(folder) / "issues.csv")
    >>> issues.n_rows, issues.n_sampled
    (300, 300)
    """

    classes: Array
    n_rows: int
    n_sampled: int
    n_errors: float
    n_errors_interval: tuple[float, float]
    noise_matrix: Array
    n_label_issues: int | None
    estimator: Any
    frame: Any = None

    def summary(self) -> str:
        """Describe the result in two lines.

        Returns
        -------
        str
        """
        rows = count(self.n_rows, "row")
        headline = f"{rows}."
        if self.n_label_issues is not None:
            headline = f"{count(self.n_label_issues, 'label issue')} in {rows}."
        errors = errors_in_words(self.n_errors, self.n_errors_interval)
        return (
            f"{headline} {errors}\n"
            f"The label-noise model was fitted to {count(self.n_sampled, 'row')}."
        )


def fit_scorer(
    total: SumOverChunks,
    estimator: Any,
    names: Any,
    collect: Callable[[], Sequence[Any]],
    labels: str = "auto",
) -> LeaveOneOutScorer:
    """Fit a committee and its label-noise model to chunks.

    ``collect()`` returns X, y and weights of all rows, if they are few.
    """
    check_labels_option(labels)
    committee = check_committee(estimator)
    stats, sum_features = run_first_pass(total, names=names)
    if len(stats.dropped):
        raise ValueError(
            f"sample_weight is zero for every row of class {stats.dropped.tolist()[0]!r}; give "
            "some of them weight, or leave these rows out."
        )
    if estimator is None:
        committee = default_committee(len(stats.labels)).set_params(noise="auto")
    if not stats.sampled:
        X, y, weight = collect()
        report = find_label_issues(
            X,
            y,
            labels=labels,
            estimator=None if estimator is None else committee,
            sample_weight=weight,
        )
        return LeaveOneOutScorer(stats, committee, report)
    fit = fit_chunks(committee, total, names=names, first_pass=(stats, sum_features))
    assert fit.noise is not None
    fit = replace(fit, noise=fit.noise.assuming(labels))
    return LeaveOneOutScorer(stats, committee, fit)


def check_committee(estimator: Any) -> FuzzyTwinCommittee:
    """Return an unfitted committee; raise for other estimators, which need all rows at once."""
    if estimator is None:
        return default_committee().set_params(noise="auto")
    if not isinstance(estimator, FuzzyTwinCommittee):
        raise ValueError(
            f"estimator={estimator!r} needs all rows at once; give a FuzzyTwinCommittee, or use "
            "fuzzytwin.find_label_issues for rows in memory."
        )
    plain = FuzzyTwinCommittee(**estimator.get_params(deep=False))  # also for those of engines
    committee: FuzzyTwinCommittee = clone(plain).set_params(noise="auto")
    return committee


def collect_rows(rows: Rows) -> list[Any]:
    """Return features, labels and weights of a chunk, as a pass over few rows."""
    return [(rows.X, rows.labels, rows.weights)]


def join_rows(collected: list[Any]) -> tuple[Any, ...]:
    """Concatenate rows, labels and weights of `collect_rows`."""
    X, y, s = zip(*(part for part in collected if len(part[1])), strict=True)
    concatenate = sparse.vstack if sparse.issparse(X[0]) else np.concatenate
    return concatenate(X), np.concatenate(y), np.concatenate(s)


class LeaveOneOutScorer:
    """Score the labels of chunks by leave-one-out predictions, and count label errors.

    Parameters
    ----------
    stats : FirstPassStats
        Result of the first pass.
    committee : FuzzyTwinCommittee
        The committee.
    fitted : LabelIssueReport or CommitteeFit
        The report on all rows, if they are few, or the fit to chunks.
    """

    def __init__(self, stats: FirstPassStats, committee: FuzzyTwinCommittee, fitted: Any) -> None:
        self.committee = committee
        self.n_rows = stats.count
        self.n_sampled = len(stats.sample)
        self.n_scored = 0
        self.n_label_issues = 0
        self.report: LabelIssueReport | None = None
        if isinstance(fitted, LabelIssueReport):
            self.report = fitted
            self.classes: Array = fitted.classes
            self.sample_counts = _count_classes(fitted.posterior, fitted.codes)
        else:
            self._take_sample(fitted)
        self.counts = np.zeros_like(self.sample_counts)  # (K, K), of rows scored so far

    def _take_sample(self, fit: CommitteeFit) -> None:
        """Keep the label-noise model, which was fitted to a sample, without the sample itself."""
        assert fit.noise is not None
        posterior = fit.noise.posterior(fit.loo_values, fit.codes)
        self.classes = self.committee.classes_
        self.noise = fit.noise
        self.thresholds = self.noise.flag_thresholds(fit.loo_values, fit.codes)
        self.sample_counts = _count_classes(posterior, fit.codes) * (self.n_rows / len(fit.codes))
        n_values = len(self.classes) * len(fit.members)
        self.width = max(n_values, self.committee.landmarks_.shape[0])
        self.fit = fit.without_rows()

    def score(self, rows: Rows, start: int = 0) -> dict[str, Array]:
        """Return the columns `SCORED` of a chunk that begins with row `start`."""
        rows = rows.with_classes(self.classes)
        codes = rows.codes.astype(np.intp)
        if self.report is not None:
            self.check_same_rows(codes, start)
            part = slice(start, start + len(codes))
            posterior = self.report.posterior[part]
            is_issue = self.report.is_label_issue[part]
            suggested = self.report.suggested_labels[part]
            quality = self.report.label_quality[part]
        else:
            posterior, suggested_codes = self._posterior(rows, codes)
            quality = posterior[np.arange(len(codes)), codes]
            is_issue = 1 - quality >= self.thresholds[codes]
            suggested = self._labels[suggested_codes]
        self.counts += _count_classes(posterior, codes)
        self.n_scored += len(codes)
        self.n_label_issues += int(is_issue.sum())
        values = (self._labels[codes], suggested, quality, is_issue)
        return dict(zip(SCORED, values, strict=True))

    @property
    def _labels(self) -> Array:
        """Return the classes; text as objects, so that cells share them instead of copying."""
        return self.classes.astype(object) if self.classes.dtype.kind == "U" else self.classes

    def _posterior(self, rows: Rows, codes: Array) -> tuple[Array, Array]:
        """Return the posterior of a chunk, and the suggested class of each row."""
        posterior = np.empty((len(codes), len(self.classes)))
        suggested = np.empty_like(codes)
        for block in blocks(len(codes), max(rows.X.shape[1], self.width)):
            values = self.fit.loo_values_of(rows.take(block))
            posterior[block] = self.noise.posterior(values, codes[block])
            suggested[block] = self.noise.suggest(values, codes[block])
        return posterior, suggested

    def check_same_rows(self, codes: Array, start: int, *, ended: bool = False) -> None:
        """Raise a ValueError if the rows from `start` on are not those of the report."""
        if self.report is None:
            return
        expected = self.report.codes[start : None if ended else start + len(codes)]
        if not np.array_equal(codes, expected):
            raise ValueError(
                "the data changed between passes; give a function that returns the same batches "
                "each time, or wait until files are written."
            )

    def check_end(self, n_rows: int) -> None:
        """Raise a ValueError if there were fewer rows than in the passes before."""
        self.check_same_rows(np.empty(0, dtype=np.intp), n_rows, ended=True)

    def result(self, frame: Any = None) -> ChunkedLabelIssues:
        """Return the result for the rows scored so far or, if there are none, of the sample."""
        counts = self.counts if self.n_scored else self.sample_counts
        total = counts.sum(axis=1, keepdims=True)
        n_rows = self.n_scored or self.n_rows
        if self.report is not None:
            n_errors, interval = self.report.n_errors, self.report.n_errors_interval
        else:
            n_errors = float(counts.sum() - np.trace(counts))
            scale = n_rows / self.n_sampled
            low, high = (end * scale for end in self.noise.n_errors_interval)
            interval = min(low, n_errors), max(high, n_errors)
            n_errors = n_errors if self.noise.has_signal else np.nan
        return ChunkedLabelIssues(
            self.classes,
            int(n_rows),
            self.n_sampled,
            n_errors,
            interval,
            np.divide(counts, total, out=np.eye(len(counts)), where=total > 0),
            self.n_label_issues if self.n_scored else None,
            self.committee,
            frame,
        )


def _count_classes(posterior: Array, codes: Array) -> Array:
    """Return expected counts (K, K) of rows by true class and label."""
    K = posterior.shape[1]
    return np.stack([np.bincount(codes, posterior[:, j], minlength=K) for j in range(K)])
