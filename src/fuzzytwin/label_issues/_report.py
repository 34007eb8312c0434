"""LabelIssueReport: the result of `find_label_issues`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._params import is_whole, not_allowed
from fuzzytwin._rows import is_missing
from fuzzytwin._utils.extras import import_optional
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._noise import (
    MIN_SUGGESTED,
    TAIL_95,
    estimate_noise_matrix,
    suggest,
)
from fuzzytwin.label_issues._annotators import Annotators
from fuzzytwin.label_issues._review import (
    ErrorModel,
    Reviews,
    correct_flags,
    correct_probabilities,
    draw_for_review,
)
from fuzzytwin.tables._columns import Column

COLUMNS = ("given_label", "suggested_label", "label_quality", "is_label_issue", "rank")
MIN_ISSUES_TO_WARN = 5  # of one label
MAX_LISTED = 12  # classes or annotators in `summary`
MAX_CLEAN_SHARE = 0.01  # of label errors, if reviews found that nothing is wrong
QUESTION = (
    "Whether rows beyond the boundary of their class are errors depends on how the labels arose, "
    "which the data do not show. If labels are outcomes, no label may be wrong. If people assigned "
    "them, many may be. Say which with labels='observed' or labels='annotated', or review about 30 "
    "rows (sample_for_review)."
)
NOTHING_WRONG = (
    "Hardly any label is wrong: reviews confirmed the labels of rows beyond the boundary."
)
NOT_SEPARABLE = "The features do not separate the classes, so label errors cannot be detected."
FEW_ROWS = 20  # with fewer, a report does not claim that the features do not separate the classes
TOO_FEW_ROWS = "These are too few rows to separate the classes, so label errors cannot be detected."


@dataclass(frozen=True, eq=False, repr=False)
class LabelIssueReport:
    """Label issues of a table, as found by `find_label_issues`.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    codes : ndarray of shape (n,)
        Given label of each row, as an index of `classes`.
    posterior : ndarray of shape (n, K)
        Probability of each true class, given the features and the label of the row.
    is_label_issue : ndarray of bool of shape (n,)
        Rows to review: those that maximise the expected F1 score.
    n_errors_interval : tuple of float
        95% confidence interval of the number of label errors.
    estimator : classifier
        The classifier that was used, unfitted.
    method : str
        Description of the classifier.
    index : array-like of shape (n,), default=None
        Index of the data frame.
    separable : bool, default=True
        Whether the features separate the classes at all. If not, there are no label issues, and
        the number of label errors is unknown.
    reviewed : ndarray of int of shape (n,), default=None
        True class of rows that were reviewed, -1 for all others. See `with_reviews`.
    before_review : LabelIssueReport, default=None
        The report without any reviews.
    annotators : Annotators, default=None
        With votes: the accuracy of each annotator.
    suggested : ndarray of shape (n,), default=None
        Suggested label of each row, as an index of `classes`. None: the most probable one, if its
        probability is at least 0.8.
    p_no_errors : float, default=0.0
        Probability that the classes overlap and no label is wrong.
    posterior_if_errors : ndarray of shape (n, K), default=None
        The posterior on condition that some labels are wrong. None: `posterior`.
    error_model : ErrorModel, default=None
        Probabilities of label errors if label noise is random and if it is at the boundary, to be
        corrected by reviews. None: those of `posterior_if_errors`, whatever the noise is.
    labels : {"auto", "annotated", "observed"}, default="annotated"
        How the labels arose.
    unused_columns : tuple, default=()
        Columns of X that are no features, such as dates and IDs.

    Attributes
    ----------
    label_quality : ndarray of shape (n,)
        Probability that the given label is correct. To train despite label errors, use
        ``FuzzyTwinCommittee(noise="auto")`` rather than these probabilities as weights, which make
        a committee worse.
    suggested_labels : ndarray of shape (n,)
        Suggested label of each row: the given one, unless another one has a probability of at least
        0.8. With ``labels="auto"`` it has to be so whether labels are annotations or outcomes. With
        votes of annotators: the most probable label.
        Label issues without another suggestion should be reviewed, and not changed blindly.
    other_labels : ndarray of shape (n,)
        Most probable label of each row other than the given one, to be shown in a review.
    given_labels : ndarray of shape (n,)
        Label of each row, as it was given.
    ranked_rows : ndarray of shape (n,)
        Names of the rows, as in `row_names`, those of lowest label quality first. So `X.loc` takes
        them if X is a data frame of pandas, and an array X is indexed by them.
    n_errors : float
        Expected number of label errors, the sum of ``1 - label_quality``. NaN if it is unknown.
    n_errors_if_accepted : float
        Expected number of label errors if all suggestions are accepted.
    noise_matrix : ndarray of shape (K, K)
        Share of the rows of each true class (row) that have each label (column). Rows sum to 1.
    row_names : ndarray of shape (n,)
        Names of the rows in `ranked_rows`, `sample_for_review` and `with_reviews`: entries of the
        index if they are unique, otherwise (and without an index) row numbers from 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fuzzytwin import find_label_issues
    >>> X, y = load_iris(return_X_y=True)
    >>> y[:2] = 1  # setosa called versicolor
    >>> issues = find_label_issues(X, y, labels="annotated")
    >>> issues.ranked_rows[:3]
    array([ 0,  1, 83])
    >>> issues.to_frame().sort_values("rank").head(2).round(2)
       given_label  suggested_label  label_quality  is_label_issue  rank
    0            1                0           0.09            True     1
    1            1                0           0.12            True     2
    """

    classes: Array
    codes: Array
    posterior: Array
    is_label_issue: Array
    n_errors_interval: tuple[float, float]
    estimator: Any
    method: str
    index: Any = None
    separable: bool = True
    reviewed: Array | None = None
    before_review: LabelIssueReport | None = None
    annotators: Annotators | None = None
    suggested: Array | None = None
    p_no_errors: float = 0.0
    posterior_if_errors: Array | None = None
    error_model: ErrorModel | None = None
    labels: str = "annotated"
    unused_columns: tuple[Column, ...] = ()

    @cached_property
    def label_quality(self) -> Array:
        """Return the probability that each label is correct."""
        own: Array = self.posterior[np.arange(len(self.codes)), self.codes]
        return np.clip(own, 0.0, 1.0)

    @cached_property
    def given_labels(self) -> Array:
        """Return the label of each row, as it was given."""
        return np.asarray(self.classes[self.codes])

    @cached_property
    def suggested_labels(self) -> Array:
        """Return the suggested label of each row, which is the given one for most rows."""
        return np.asarray(self.classes[self._suggested_codes])

    @cached_property
    def _suggested_codes(self) -> Array:
        if self.suggested is not None:
            return self.suggested
        if self.annotators is not None:  # votes are evidence enough for the most probable class
            return suggest(self.posterior, self.codes, least=0.0)
        return suggest(self.posterior, self.codes)

    @cached_property
    def other_labels(self) -> Array:
        """Return the most probable label of each row other than the given one."""
        others = self.posterior.copy()
        others[np.arange(len(self.codes)), self.codes] = -1.0
        return np.asarray(self.classes[others.argmax(axis=1)])

    @cached_property
    def ranked_rows(self) -> Array:
        """Return the names of the rows, those of lowest label quality first."""
        return np.asarray(self.row_names[np.argsort(self.label_quality, kind="stable")])

    @property
    def n_errors(self) -> float:
        """Return the expected number of label errors."""
        return float((1.0 - self.label_quality).sum()) if self.separable else float("nan")

    @property
    def n_errors_if_accepted(self) -> float:
        """Return the expected number of label errors if all suggestions are accepted."""
        if not self.separable:
            return float("nan")
        rows = np.arange(len(self.codes))
        return float((1.0 - np.clip(self.posterior[rows, self._suggested_codes], 0.0, 1.0)).sum())

    @cached_property
    def noise_matrix(self) -> Array:
        """Return the share of each true class (row) that has each label (column)."""
        return estimate_noise_matrix(self.posterior, self.codes)

    @cached_property
    def row_names(self) -> Array:
        """Return the names of the rows, by which reports and reviews refer to them."""
        if self.index is not None:
            names = _as_array(self.index)
            if len(set(names.tolist())) == len(names):
                return names
        return np.arange(len(self.codes))

    def to_frame(self) -> Any:
        """Return a pandas data frame with a line for each row, in the given order.

        Returns
        -------
        DataFrame
            With the index of X and the columns "given_label", "suggested_label", "label_quality",
            "is_label_issue" and "rank" (1 for the lowest label quality).
        """
        pandas = import_optional("pandas", None, "to_frame")
        values = (
            self.given_labels,
            self.suggested_labels,
            self.label_quality,
            self.is_label_issue,
            ranks(self.label_quality),
        )
        return pandas.DataFrame(dict(zip(COLUMNS, values, strict=True)), index=self.index)

    def sample_for_review(self, n: int = 30, random_state: int = 0) -> Array:
        """Draw rows for a person to review, so that `with_reviews` learns most from them.

        Half of the rows are drawn in proportion to the uncertainty of their labels, and half from
        all rows: the label issues alone would not show how many errors the other rows hide. With
        votes, the rows whose class is most uncertain are returned: another vote helps most there.

        Parameters
        ----------
        n : int, default=30
            Number of rows, or all that are not yet reviewed if these are fewer.
        random_state : int, default=0
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
            Names of rows, as in `ranked_rows`, those of lowest label quality first. Rows that were
            reviewed are not among them.
        """
        if not (is_whole(n) and n >= 0):
            raise not_allowed("n", n, "give a whole number of at least 0")
        rows = np.arange(len(self.codes))
        if self.reviewed is not None:
            rows = np.flatnonzero(self.reviewed < 0)
        if self.annotators is not None:
            drawn = np.argsort(self.posterior[rows].max(axis=1), kind="stable")[:n]
        else:
            p_error = 1 - np.clip(self.if_errors[rows, self.codes[rows]], 0.0, 1.0)
            rng = np.random.default_rng(random_state)
            drawn = draw_for_review(p_error, min(n, len(rows)), rng)
        return np.asarray(self.row_names[rows[drawn]])

    def with_reviews(self, reviews: Any) -> LabelIssueReport:
        """Return a new report that takes the labels of reviewed rows as known.

        The probabilities of label errors in all other rows are corrected by what the reviews found
        (see `fuzzytwin.label_issues._review`). This changes the label quality, the number of errors
        and its interval and, more slowly, the label issues. The order of reviews does not matter.
        Review the rows of `sample_for_review`. Reviews of only the worst rows count too, but show
        little about the others.

        Parameters
        ----------
        reviews : mapping, Series or array-like of shape (n,)
            True labels of reviewed rows, also of those whose given label is correct: a mapping or a
            Series from names of rows (`row_names`) to labels, or an array of one label per row,
            with None or NaN for other rows. They are added to those of earlier calls.

        Returns
        -------
        LabelIssueReport
            A new report. This one does not change.

        Raises
        ------
        ValueError
            For rows or labels that the report does not have.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fuzzytwin import find_label_issues
        >>> X, truth = load_breast_cancer(return_X_y=True)
        >>> flipped = np.random.default_rng(0).choice(len(truth), 60, replace=False)
        >>> y = truth.copy()
        >>> y[flipped] = 1 - y[flipped]
        >>> issues = find_label_issues(X, y)
        >>> rows = issues.sample_for_review(30)
        >>> issues = issues.with_reviews({row: truth[row] for row in rows})  # a person's answers
        >>> low, high = issues.n_errors_interval
        >>> f"about {issues.n_errors:.0f} errors, {low:.0f} to {high:.0f}"
        'about 54 errors, 38 to 78'
        """
        first = self if self.before_review is None else self.before_review
        reviewed = np.full(len(self.codes), -1) if self.reviewed is None else self.reviewed.copy()
        for row, label in self._read_reviews(reviews):
            reviewed[row] = label
        rows = np.flatnonzero(reviewed >= 0)
        if not len(rows):
            return self
        n_classes = len(self.classes)
        every = np.arange(len(self.codes))
        posterior = first.if_errors
        model = first.error_model
        if model is None:
            p_error = 1 - np.clip(posterior[every, self.codes], 0.0, 1.0)
            # Votes determine the probabilities as well as labels determine random noise.
            model = ErrorModel(p_error, p_error, p_random=1.0, p_no_errors=first.p_no_errors)
        is_error = reviewed[rows] != self.codes[rows]
        evidence = Reviews(self.codes, n_classes, rows, is_error)
        p_error, (low, high), p_no_errors = correct_probabilities(model, evidence)
        posterior = posterior + np.finfo(float).tiny
        posterior[every, self.codes] = 0.0
        posterior *= (p_error / posterior.sum(axis=1))[:, None]
        posterior[every, self.codes] = 1 - p_error
        posterior[rows] = np.eye(n_classes)[reviewed[rows]]
        n_errors = float((1.0 - np.clip(posterior[every, self.codes], 0.0, 1.0)).sum())
        if not is_error.any():  # reviews that confirm labels raise nothing
            high = min(high, first.n_errors_interval[1])
        return replace(
            first,
            posterior=posterior,
            is_label_issue=correct_flags(first.is_label_issue, model, evidence),
            n_errors_interval=(min(low, n_errors), max(high, n_errors)),
            separable=True,
            reviewed=reviewed,
            before_review=first,
            suggested=None,
            p_no_errors=p_no_errors,
            posterior_if_errors=None,
            error_model=None,
        )

    @property
    def if_errors(self) -> Array:
        """Return the posterior on condition that some labels are wrong."""
        return self.posterior if self.posterior_if_errors is None else self.posterior_if_errors

    def _read_reviews(self, reviews: Any) -> list[tuple[int, int]]:
        """Return row numbers and true classes."""
        n = len(self.codes)
        names = self.row_names.tolist()
        if hasattr(reviews, "iloc"):  # a pandas Series
            if not reviews.index.is_unique:
                name = reviews.index[reviews.index.duplicated()].tolist()[0]
                raise ValueError(
                    f"reviews has several entries named {name!r}; give an array with a label (or "
                    "None) for each row, or {row number: true label}."
                )
            reviews = dict(reviews.items())
        if not isinstance(reviews, Mapping):
            if len(reviews) != n:
                raise ValueError(
                    f"reviews has {len(reviews)} entries for {n} rows; give one for each row, or "
                    "{row: true label}."
                )
            reviews = dict(enumerate(reviews))
            names = list(range(n))
        row_numbers = {name: row for row, name in enumerate(names)}
        classes = {label: k for k, label in enumerate(self.classes.tolist())}
        expected = f"a row from 0 to {n - 1}" if names == list(range(n)) else "in the index of X"
        row_labels = []
        for name, label in reviews.items():
            if is_missing(label):
                continue
            if name not in row_numbers:
                raise ValueError(f"reviews names {name!r}, which is not {expected}.")
            if label not in classes:
                raise ValueError(
                    f"reviews gives row {name!r} the label {label!r}; valid labels are "
                    f"{list(classes)!r}."
                )
            row_labels.append((row_numbers[name], classes[label]))
        return row_labels

    # In words

    def summary(self) -> str:
        """Describe the report in a few lines.

        Returns
        -------
        str
        """
        lines = [self.headline(), *self._class_lines()]
        if self.separable:
            lines += filter(None, (self.question, self.warning_text, self.acceptance_text))
        if self.annotators is not None:
            pairs = zip(self.annotators.names, self.annotators.reliability.tolist(), strict=True)
            listed = ", ".join(f"{name} {share:.0%}" for name, share in list(pairs)[:MAX_LISTED])
            lines.append(f"Estimated accuracy of the annotators: {listed}.")
        if self.unused_columns:
            listed = ", ".join(f"{c.name} ({c.kind})" for c in self.unused_columns[:MAX_LISTED])
            more = ", ..." if len(self.unused_columns) > MAX_LISTED else ""
            lines.append(f"Columns that are not used as features: {listed}{more}.")
        return "\n".join([*lines, f"Method: {self.method}."])

    def headline(self) -> str:
        """Return the number of label issues, and the estimated number of label errors."""
        rows = count(len(self.codes), "row")
        if not self.separable:
            reason = NOT_SEPARABLE if len(self.codes) >= FEW_ROWS else TOO_FEW_ROWS
            return f"No label issues are reported for {rows}. {reason}"
        n_issues = int(self.is_label_issue.sum())
        reviewed = ""
        if self.reviewed is not None:
            n_reviewed = int((self.reviewed >= 0).sum())
            have = "has" if n_reviewed == 1 else "have"
            reviewed = f" {count(n_reviewed, 'row')} {have} been reviewed."
        none = "No label issues" if self.reviewed is None else "No label issues left"
        issues = count(n_issues, "label issue") if n_issues else none
        errors = errors_in_words(self.n_errors, self.n_errors_interval)
        return f"{issues} in {rows}. {errors}{reviewed}"

    @property
    def question(self) -> str:
        """Return the question that only a person can answer, or what reviews answered, or ""."""
        if self.reviewed is None:
            is_open = self.labels == "auto" and self.p_no_errors > TAIL_95
            return QUESTION if is_open and self.is_label_issue.any() else ""
        is_clean = self.n_errors <= MAX_CLEAN_SHARE * len(self.codes)
        return NOTHING_WRONG if is_clean and self.p_no_errors > 0.5 else ""

    @property
    def warning_text(self) -> str:
        """Return a warning that names the labels whose rows are mostly label issues, or ""."""
        sizes = np.bincount(self.codes, minlength=len(self.classes))
        issues = np.bincount(self.codes[self.is_label_issue], minlength=len(self.classes))
        mostly = np.flatnonzero((issues > sizes / 2) & (issues >= MIN_ISSUES_TO_WARN))
        if not len(mostly):
            return ""
        listed = ", ".join(f"{self.classes[k]} ({issues[k]:,} of {sizes[k]:,})" for k in mostly)
        return (
            f"Most rows with the label {listed} are label issues. Either this label is often "
            "wrong, or the features hardly separate its class from the others. Review a sample of "
            "these rows before you accept suggestions."
        )

    @property
    def acceptance_text(self) -> str:
        """Return what accepting all suggestions would do; "" if there is a `warning_text`."""
        is_open = self._suggested_codes != self.codes
        if self.reviewed is not None:
            is_open &= self.reviewed < 0
        n_suggestions = int(is_open.sum())
        if not n_suggestions:
            if not self.is_label_issue.any():
                return ""
            return (
                "No other label is certain enough to be suggested. Label issues are worth a look."
            )
        if self.warning_text and self.reviewed is None:
            return ""
        having = self._suggestions_in_words(is_open)
        accepting = f"Accepting {'all of them' if n_suggestions > 1 else 'it'} unreviewed"
        left = _rounded(self.n_errors_if_accepted)
        now = _rounded(self.n_errors)
        if left == now:
            return f"{having} {accepting} would hardly change the number of errors."
        return f"{having} {accepting} would leave about {left} errors instead of {now}."

    @property
    def _suggested_if(self) -> str:
        """Describe which labels are suggested."""
        if self.annotators is not None:
            return "the most probable label is not the given one"
        return f"another label with at least {MIN_SUGGESTED:.0%}"

    def _suggestions_in_words(self, is_open: Array) -> str:
        """Return a sentence about the number of open suggestions."""
        n_suggestions = int(is_open.sum())
        kind = "row"
        n_rows = len(is_open)
        if self.is_label_issue[is_open].all():
            kind = "label issue"
            n_rows = int(self.is_label_issue.sum())
        have = "have" if n_suggestions > 1 else "has"
        counted = f"{n_suggestions:,} of {count(n_rows, kind)} {have} a suggestion"
        return f"{counted} ({self._suggested_if})."

    def _class_lines(self) -> list[str]:
        lines = []
        for k, label in enumerate(self.classes[:MAX_LISTED].tolist()):
            rows = self.codes == k
            parts = [
                count(int(rows.sum()), "row"),
                count(int(self.is_label_issue[rows].sum()), "label issue"),
            ]
            if self.separable:
                n_errors = float((1 - self.label_quality[rows]).sum())
                number = _rounded(n_errors)
                parts.append(f"about {number} error" if number == "1" else f"about {number} errors")
            lines.append(f"  {label}: {', '.join(parts)}")
        if len(self.classes) > MAX_LISTED:
            lines.append(f"  ... and {len(self.classes) - MAX_LISTED} more classes")
        return lines

    def __repr__(self) -> str:
        return f"<LabelIssueReport: {self.headline()}>"


def ranks(label_quality: Array) -> Array:
    """Return the rank of each row: 1 for the lowest label quality, ties in the order of rows."""
    rank = np.empty(len(label_quality), dtype=np.int64)
    rank[np.argsort(label_quality, kind="stable")] = np.arange(1, len(label_quality) + 1)
    return rank


def errors_in_words(n_errors: float, interval: tuple[float, float]) -> str:
    """Return a sentence about the number of label errors: the interval first if it begins at 0."""
    if not np.isfinite(n_errors):
        return "The number of label errors could not be estimated."
    low, high = interval
    number = _rounded(n_errors)
    if high < 0.5:
        return "No label seems to be wrong."
    if low < 0.5:
        return f"0 to {high:,.0f} labels may be wrong (95% interval, estimate {number})."
    labels = "label is" if number == "1" else "labels are"
    return f"About {number} {labels} wrong (95% interval {low:,.0f} to {high:,.0f})."


def _rounded(number: float) -> str:
    """Return an expected number: one decimal if it is small, none otherwise."""
    text = f"{number:,.1f}" if number < 9.95 else f"{number:,.0f}"
    return text.removesuffix(".0")


def _as_array(names: Any) -> Array:
    """Return names in an array whose elements are equal to those of the caller."""
    values = np.asarray(names)
    if values.dtype.kind in "biufUS":
        return values
    objects = np.empty(len(names), dtype=object)
    for row, name in enumerate(names):
        objects[row] = name
    return objects
