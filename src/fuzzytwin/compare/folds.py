"""Compare classifiers on one data set: the corrected resampled t-test.

Scores on the folds of one data set are not independent, as their training rows overlap: a plain
t-test finds differences that are none. Nadeau and Bengio widen its variance. Below is what all
comparisons share: tables of scores, the control, p-values of many tests, pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.text import cut_middle

Floats = NDArray[np.float64]


def compare_folds(
    scores: Any,
    test_share: float,
    higher_is_better: bool = True,
    alpha: float = 0.05,
    *,
    names: Sequence[str] | None = None,
    control: str | None = None,
) -> FoldsResult:
    r"""Compare classifiers by their scores on the folds of one data set.

    With :math:`d_1, \dots, d_J` the differences between the scores of two classifiers on J folds,
    :math:`\bar d` and :math:`s^2` their mean and variance, and a share :math:`\rho` of the rows in
    each test fold, Nadeau and Bengio's corrected resampled t-test [1]_ is

    .. math:: t = \frac{\bar d}{\sqrt{\big(\frac1J + \frac{\rho}{1 - \rho}\big)\, s^2}}

    with J - 1 degrees of freedom. The plain t-test lacks the second fraction. Repeat a
    cross-validation with other shuffles for more power; 10 times 10 folds are usual [2]_.

    Parameters
    ----------
    scores : data frame, mapping of name to scores, or array-like of shape (J, C)
        One row per fold, one column per classifier; J >= 2, C >= 2. All classifiers must be scored
        on the same folds.
    test_share : float
        Share of the rows that a fold tests on: 1 / k for k-fold cross-validation.
    higher_is_better : bool, default=True
        False for errors, losses and times.
    alpha : float, default=0.05
        Significance level, between 0 and 1.
    names : sequence of str, optional
        Names of the classifiers, in the order of the columns. Without it the table's own, else
        "classifier 1", "classifier 2", ...
    control : str, optional
        The classifier that all others are compared with. Without it, the one of best mean score.
        Such a choice depends on the scores: to prove that your classifier is better, name it.

    Returns
    -------
    FoldsResult

    Raises
    ------
    ValueError
        If `scores` is not a finite table of at least 2 folds and 2 classifiers, names repeat or do
        not fit, `control` is unknown, or `test_share` or `alpha` is out of range.

    Notes
    -----
    Tests are two-sided. Identical columns get p = 1; differences that are the same on every fold,
    and not 0, get p = 0.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52
       (2003) 239-281.
    .. [2] R. R. Bouckaert and E. Frank, "Evaluating the replicability of significance tests for
       comparing learning algorithms", PAKDD 2004, 3-12.

    Examples
    --------
    >>> from fuzzytwin.compare.folds import compare_folds
    >>> result = compare_folds({  # 2 times 5 folds, such as sklearn's cross_val_score gives
    ...     "fuzzy": [0.93, 0.90, 0.95, 0.91, 0.94, 0.92, 0.93, 0.92, 0.94, 0.91],
    ...     "crisp": [0.92, 0.91, 0.93, 0.91, 0.93, 0.91, 0.94, 0.91, 0.93, 0.90],
    ...     "linear": [0.85, 0.84, 0.88, 0.86, 0.88, 0.83, 0.87, 0.85, 0.89, 0.84],
    ... }, test_share=1 / 5, control="fuzzy")
    >>> print(result)
    3 classifiers on 10 folds of one data set, alpha = 0.05
    <BLANKLINE>
    classifier    mean  difference         95 % interval        p   Holm p
    fuzzy       0.9250     control
    crisp       0.9190     +0.0060    -0.0069 to +0.0189     0.32     0.32
    linear      0.8590     +0.0660    +0.0491 to +0.0829    1e-05    2e-05
    <BLANKLINE>
    Corrected resampled t-test, Holm: fuzzy is significantly better than linear.
    """
    table, labels = read_scores(scores, names, "fold", least=2)
    check_share("test_share", test_share)
    check_share("alpha", alpha)
    means = table.mean(axis=0)
    best = means.argmax() if higher_is_better else means.argmin()
    chosen = place_of_control(control, labels, best)

    # Differences are compared to 12 digits of the largest score: 0.1 + 0.2 is 0.3.
    size = np.abs(table).max() or 1.0
    d = np.round((table[:, [chosen]] - table) / size, 12) * size
    n_folds = len(d)
    difference = d.mean(axis=0)
    error = np.sqrt((1 / n_folds + test_share / (1 - test_share)) * d.var(axis=0, ddof=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, difference / error)
    p = 2 * stats.t.sf(np.abs(t), n_folds - 1)
    half = stats.t.isf(alpha / 2, n_folds - 1) * error
    intervals = np.column_stack([difference - half, difference + half])
    return FoldsResult(
        labels, n_folds, float(test_share), float(alpha), labels[chosen], bool(higher_is_better),
        *frozen(means, difference, intervals, t, p, holm_against(p, chosen)),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FoldsResult:
    """Result of :func:`compare_folds`; ``print`` it for a table and a summary.

    Attributes
    ----------
    names : tuple of str
        The classifiers, C of them, in the order of all arrays below.
    n_folds : int
        The number J of folds.
    test_share : float
        Share of the rows that a fold tests on.
    alpha : float
        Significance level.
    control : str
        The classifier that all others are compared with.
    higher_is_better : bool
        Whether large scores are good.
    means : ndarray of shape (C,)
        Mean score of every classifier.
    differences : ndarray of shape (C,)
        Mean score of the control less that of every classifier.
    intervals : ndarray of shape (C, 2)
        Confidence intervals of the differences, at level 1 - alpha, not corrected for their number.
    t, p, holm_p : ndarray of shape (C,)
        Statistic, p-value and p-value by Holm of every difference; 0, 1 and 1 for the control.

    Examples
    --------
    >>> from fuzzytwin.compare.folds import compare_folds
    >>> scores = [[0.90, 0.85], [0.88, 0.86], [0.92, 0.84], [0.91, 0.87], [0.89, 0.83]]
    >>> result = compare_folds(scores, test_share=0.2, names=["ours", "tree"])
    >>> result.differences.round(3), result.p.round(3)
    (array([0.  , 0.05]), array([1.   , 0.029]))
    """

    names: tuple[str, ...]
    n_folds: int
    test_share: float
    alpha: float
    control: str
    higher_is_better: bool
    means: Floats
    differences: Floats
    intervals: Floats = field(repr=False)
    t: Floats = field(repr=False)
    p: Floats = field(repr=False)
    holm_p: Floats = field(repr=False)

    def to_frame(self) -> Any:
        """Make a pandas data frame with one row per classifier, best first."""
        columns = {
            "mean": self.means, "difference": self.differences, "low": self.intervals[:, 0],
            "high": self.intervals[:, 1], "t": self.t, "p": self.p, "holm_p": self.holm_p,
        }  # fmt: skip
        return frame_of(self.names, columns, self._order())

    def __str__(self) -> str:
        heading, shown = padded(self.names)
        level = f"{100 * (1 - self.alpha):g} % interval"
        lines = [
            f"{len(self.names)} classifiers on {self.n_folds} folds of one data set, "
            f"alpha = {self.alpha:g}",
            "",
            f"{heading}    mean  difference{level:>22}        p   Holm p",
        ]
        for i in self._order():
            low, high = self.intervals[i]
            rest = (
                f"{self.differences[i]:>+12.4f}{f'{low:+.4f} to {high:+.4f}':>22}"
                f"{self.p[i]:>9.2g}{self.holm_p[i]:>9.2g}"
            )
            if self.names[i] == self.control:
                rest = f"{'control':>12}"
            lines.append(f"{shown[i]}{self.means[i]:>8.4f}{rest}")
        return page(lines, self.sentences())

    def sentences(self) -> list[str]:
        """Describe in words which differences are significant."""
        differs = [i for i in self._order() if self.holm_p[i] <= self.alpha]
        above = [i for i in differs if (self.differences[i] > 0) == self.higher_is_better]
        sides = {"better than": above, "worse than": [i for i in differs if i not in above]}
        test = "Corrected resampled t-test, Holm"
        sentences = [
            f"{test}: {self.control} is significantly {side} "
            f"{', '.join(self.names[i] for i in found)}."
            for side, found in sides.items()
            if found
        ]
        return sentences or [f"{test}: {self.control} differs significantly from no other."]

    def _order(self) -> list[int]:
        """List the classifiers from best to worst, those of equal score as they came."""
        key = -self.means if self.higher_is_better else self.means
        return [int(i) for i in np.argsort(key, kind="stable")]


def read_scores(
    scores: Any, names: Sequence[str] | None, unit: str, least: int
) -> tuple[Floats, tuple[str, ...]]:
    """Check a table of scores; also give the names of the classifiers.

    Rows are data sets or folds (`unit`); there must be 2 of them and `least` classifiers.
    """
    columns: Any = None
    values = scores
    if isinstance(scores, Mapping):
        columns, values = list(scores), [list(column) for column in scores.values()]
    elif hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        columns, values = scores.columns, scores.to_numpy()
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"scores must be a full table of numbers, but {error}. Give every classifier a score "
            f"on every {unit}; names of {unit}s belong in the index."
        ) from None
    table = table.T if isinstance(scores, Mapping) else table
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < least:
        two = " Compare two classifiers by scipy.stats.wilcoxon." if least > 2 else ""
        raise ValueError(
            f"scores has shape {table.shape}, but at least 2 {unit}s (rows) and {least} "
            f"classifiers (columns) are needed.{two}"
        )
    if columns is None:
        columns = [f"classifier {j + 1}" for j in range(table.shape[1])]
    labels = tuple(map(str, columns if names is None else names))
    if len(labels) != table.shape[1] or len(set(labels)) < len(labels):
        raise ValueError(
            f"names={list(labels)} must be {table.shape[1]} different names, one per column of "
            "scores; rename or drop columns, or pass names=."
        )
    if not np.isfinite(table).all():
        i, j = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"scores holds {table[i, j]} for {labels[j]!r} on {unit} {i} (counted from 0); "
            f"supply that score, or drop the {unit} or the classifier."
        )
    return table, labels


def check_share(name: str, value: float) -> None:
    """Refuse a level or a share that is not one."""
    if not 0 < value < 1:
        raise ValueError(f"{name}={value!r} must lie between 0 and 1, both excluded; try 0.05.")


def place_of_control(control: str | None, labels: tuple[str, ...], best: Any) -> int:
    """Find the classifier that others are compared with; None: the best."""
    if control is not None and control not in labels:
        raise ValueError(f"control={control!r} is not a classifier; choose from {list(labels)}.")
    return int(best) if control is None else labels.index(control)


def holm_against(p: Floats, control: int) -> Floats:
    """Correct the p-values of all but the control by Holm's step-down procedure; its own is 1."""
    adjusted = np.ones(len(p))
    order = np.argsort(p, kind="stable")
    order = order[order != control]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(p[order] * factors).clip(max=1)
    return adjusted


def frozen(*arrays: Floats) -> tuple[Floats, ...]:
    """Make arrays read-only."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


def frame_of(names: tuple[str, ...], columns: dict[str, Any], order: list[int]) -> Any:
    """Make a pandas data frame with one row per classifier."""
    pandas = need("pandas", None, "to_frame")
    return pandas.DataFrame(columns, index=pandas.Index(names, name="classifier")).iloc[order]


def padded(names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return a heading and the names, shortened, in one width."""
    shown = [cut_middle(name, 32) for name in names]
    width = max(len("classifier"), *map(len, shown))
    return f"{'classifier':<{width}}", [f"{name:<{width}}" for name in shown]


def page(lines: list[str], sentences: list[str]) -> str:
    """Put wrapped sentences under the lines of a table."""
    wrapped = [textwrap.fill(line, 79, subsequent_indent="  ") for line in sentences]
    return "\n".join([*lines, "", *wrapped])
