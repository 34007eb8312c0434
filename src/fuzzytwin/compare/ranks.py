"""Compare classifiers over many data sets: Friedman's test and those that follow it.

Demsar's procedure [1]_: rank the classifiers on every data set, test by Friedman's test whether
they differ at all, then by Nemenyi's test which pairs do, or by Wilcoxon's signed-rank test with
Holm's correction which differ from one control. A Bayesian signed-rank test is not offered.

References
----------
.. [1] J. Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of
   Machine Learning Research 7 (2006) 1-30.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from fuzzytwin.compare.folds import (
    Floats,
    check_share,
    frame_of,
    frozen,
    holm_against,
    padded,
    page,
    place_of_control,
    read_scores,
)


def compare_classifiers(
    scores: Any,
    higher_is_better: bool = True,
    alpha: float = 0.05,
    *,
    names: Sequence[str] | None = None,
    control: str | None = None,
    zero_method: str = "wilcox",
) -> ComparisonResult:
    r"""Compare C classifiers by their scores on D data sets.

    With :math:`r_{ij}` the rank of classifier j on data set i (best is 1, ties share their mean),
    :math:`R_j` its mean over the data sets and :math:`\bar r = (C+1)/2`, Friedman's statistic is

    .. math:: \chi^2_F = \frac{12 D}{C (C+1)} \Big[\sum_j R_j^2 - \frac{C (C+1)^2}{4}\Big], \qquad
        \chi^2_t = D (C-1) W, \quad
        W = \frac{D \sum_j (R_j - \bar r)^2}{\sum_{ij} (r_{ij} - \bar r)^2},

    first by the paper's formula, then corrected for ties (``scipy.stats.friedmanchisquare``).
    Iman and Davenport's F builds on the corrected one and is infinite, with p = 0, where all data
    sets agree (W = 1). By Nemenyi, two classifiers differ if their mean ranks do by at least CD,

    .. math:: F = \frac{(D-1)\, \chi^2_t}{D (C-1) - \chi^2_t}, \qquad
        \mathrm{CD} = q_\alpha \sqrt{\frac{C (C+1)}{6 D}},

    with :math:`q_\alpha` from the studentized range at infinite degrees of freedom, divided by
    :math:`\sqrt 2`.

    Parameters
    ----------
    scores : data frame, mapping of name to scores, or array-like of shape (D, C)
        One row per data set, one column per classifier; D >= 2, C >= 3.
    higher_is_better : bool, default=True
        False for errors, losses and times.
    alpha : float, default=0.05
        Significance level, between 0 and 1.
    names : sequence of str, optional
        Names of the classifiers, in the order of the columns. Without it the table's own, else
        "classifier 1", "classifier 2", ...
    control : str, optional
        The classifier that Wilcoxon's tests compare all others with. Without it, the one of best
        mean rank, the first of them if several. Such a choice depends on the scores: to
        prove that your classifier is better, name it.
    zero_method : {"wilcox", "pratt", "zsplit"}, default="wilcox"
        What Wilcoxon's tests do with data sets on which both score the same: leave them out, leave
        them out after ranking, or split their ranks evenly.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    ValueError
        If `scores` is not a finite table of at least 2 data sets and 3 classifiers, names repeat
        or do not fit, `control` is unknown, or `alpha` or `zero_method` is out of range.

    Notes
    -----
    Wilcoxon's tests are two-sided. Up to 13 data sets they are exact, ties or not; above, they
    are ``scipy.stats.wilcoxon`` with ``method="auto"``: exact up to 50 data sets without ties or
    zeros, else by the normal approximation. Identical columns get p = 1.

    Scores and differences are compared to 12 digits of the largest score (on the same data set,
    and of all), so that floating-point noise such as ``0.1 + 0.2 != 0.3`` breaks no ties.

    Examples
    --------
    >>> from fuzzytwin.compare.ranks import compare_classifiers
    >>> result = compare_classifiers({
    ...     "fuzzy": [0.91, 0.85, 0.78, 0.95, 0.88, 0.81],
    ...     "crisp": [0.89, 0.85, 0.75, 0.93, 0.84, 0.79],
    ...     "linear": [0.80, 0.77, 0.71, 0.94, 0.80, 0.70]})
    >>> result.mean_ranks
    array([1.08333333, 2.08333333, 2.83333333])
    >>> print(result)
    3 classifiers on 6 data sets, alpha = 0.05
    Friedman chi-square(2)          9.25  p = 0.0098
      corrected for ties           9.652  p = 0.00802
      Iman-Davenport F(2, 10)      20.56  p = 0.000287
    Nemenyi critical difference    1.353
    <BLANKLINE>
    classifier  mean rank  Nemenyi p  Wilcoxon p    Holm p
    fuzzy           1.083    control
    crisp           2.083      0.193      0.0625    0.0625
    linear          2.833    0.00688      0.0312    0.0625
    <BLANKLINE>
    Friedman (Iman-Davenport): the classifiers differ significantly.
    Nemenyi: fuzzy ranks significantly above linear.
    Nemenyi: no other pair differs significantly.
    Wilcoxon-Holm: fuzzy differs significantly from no other.
    """
    table, labels = read_scores(scores, names, "data set", least=3)
    n_datasets, n_classifiers = table.shape
    check_share("alpha", alpha)
    if zero_method not in ("wilcox", "pratt", "zsplit"):
        raise ValueError(
            f"zero_method={zero_method!r} is unknown; choose 'wilcox', 'pratt' or 'zsplit'."
        )

    size = np.abs(table).max(axis=1, keepdims=True)
    snapped = np.round(table / np.where(size > 0, size, 1), 12)
    ranks = stats.rankdata(-snapped if higher_is_better else snapped, axis=1)
    mean_ranks = ranks.mean(axis=0)

    # Centred ranks are multiples of a half: these sums are exact, and so is W = 1.
    centred = ranks - (n_classifiers + 1) / 2
    between = float((centred.sum(axis=0) ** 2).sum())
    total = n_datasets * float((centred**2).sum())
    w = between / total if total else 0.0
    df = n_classifiers - 1
    chi2 = 12 * between / (n_datasets * n_classifiers * (n_classifiers + 1))
    chi2_ties = n_datasets * df * w
    f = (n_datasets - 1) * w / (1 - w) if w < 1 else np.inf

    unit = np.sqrt(n_classifiers * (n_classifiers + 1) / (6 * n_datasets)) / np.sqrt(2)
    gaps, place = np.unique(abs(mean_ranks[:, None] - mean_ranks), return_inverse=True)
    nemenyi = stats.studentized_range.sf(gaps / unit, n_classifiers, np.inf).clip(0, 1)
    nemenyi = nemenyi[place].reshape(n_classifiers, n_classifiers)
    np.fill_diagonal(nemenyi, 1.0)

    chosen = place_of_control(control, labels, mean_ranks.argmin())
    relative = table / (size.max() or 1)
    wilcoxon = np.array(
        [_wilcoxon_p(np.round(d, 12), zero_method) for d in (relative[:, [chosen]] - relative).T]
    )
    corrected = holm_against(wilcoxon, chosen)
    frozen(mean_ranks, nemenyi, wilcoxon, corrected)

    return ComparisonResult(
        names=labels,
        n_datasets=n_datasets,
        alpha=float(alpha),
        mean_ranks=mean_ranks,
        chi2=chi2,
        chi2_p=float(stats.chi2.sf(chi2, df)),
        chi2_ties=chi2_ties,
        chi2_ties_p=float(stats.chi2.sf(chi2_ties, df)),
        f=float(f),
        f_p=float(stats.f.sf(f, df, df * (n_datasets - 1))),
        critical_difference=float(unit * stats.studentized_range.isf(alpha, n_classifiers, np.inf)),
        nemenyi_p=nemenyi,
        control=labels[chosen],
        wilcoxon_p=wilcoxon,
        holm_p=corrected,
    )


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """Result of :func:`compare_classifiers`; ``print`` it for a table and a summary.

    Attributes
    ----------
    names : tuple of str
        The classifiers, C of them, in the order of all arrays below.
    n_datasets : int
        The number D of data sets.
    alpha : float
        Significance level.
    mean_ranks : ndarray of shape (C,)
        Mean rank of every classifier; the best possible is 1.
    chi2, chi2_p : float
        Friedman's chi-square by the paper's formula, and its p-value.
    chi2_ties, chi2_ties_p : float
        The same, corrected for ties.
    f, f_p : float
        Iman and Davenport's F, from the corrected chi-square, and its p-value.
    critical_difference : float
        Nemenyi's: mean ranks at least this far apart differ significantly.
    nemenyi_p : ndarray of shape (C, C)
        Nemenyi's p-value of every pair; 1 on the diagonal.
    control : str
        The classifier the next two compare with.
    wilcoxon_p, holm_p : ndarray of shape (C,)
        Wilcoxon's p-value against the control, as it is and by Holm; 1 for the control itself.

    Examples
    --------
    >>> from fuzzytwin.compare.ranks import compare_classifiers
    >>> scores = [[0.9, 0.8, 0.7], [0.8, 0.9, 0.6], [0.7, 0.6, 0.5], [0.9, 0.8, 0.8]]
    >>> result = compare_classifiers(scores, names=["ours", "SVC", "tree"])
    >>> result.mean_ranks
    array([1.25 , 1.875, 2.875])
    >>> result.control
    'ours'
    """

    names: tuple[str, ...]
    n_datasets: int
    alpha: float
    mean_ranks: Floats
    chi2: float
    chi2_p: float
    chi2_ties: float
    chi2_ties_p: float
    f: float
    f_p: float
    critical_difference: float
    nemenyi_p: Floats = field(repr=False)
    control: str
    wilcoxon_p: Floats = field(repr=False)
    holm_p: Floats = field(repr=False)

    def to_frame(self) -> Any:
        """Make a pandas data frame with one row per classifier, best first.

        Its columns are ``mean_rank`` and, against the control, ``nemenyi_p``, ``wilcoxon_p`` and
        ``holm_p``. Without pandas: ImportError.
        """
        columns = {
            "mean_rank": self.mean_ranks,
            "nemenyi_p": self.nemenyi_p[self.names.index(self.control)],
            "wilcoxon_p": self.wilcoxon_p,
            "holm_p": self.holm_p,
        }
        return frame_of(self.names, columns, self._order())

    def __str__(self) -> str:
        c, d = len(self.names), self.n_datasets
        heading, shown = padded(self.names)
        against = self.nemenyi_p[self.names.index(self.control)]
        tests = {
            f"Friedman chi-square({c - 1})": (self.chi2, self.chi2_p),
            "  corrected for ties": (self.chi2_ties, self.chi2_ties_p),
            f"  Iman-Davenport F({c - 1}, {(c - 1) * (d - 1)})": (self.f, self.f_p),
        }
        lines = [f"{c} classifiers on {d} data sets, alpha = {self.alpha:g}"]
        lines += [f"{what:<28}{value:>8.4g}  p = {p:.3g}" for what, (value, p) in tests.items()]
        lines += [f"{'Nemenyi critical difference':<28}{self.critical_difference:>8.4g}", ""]
        lines += [f"{heading}  mean rank  Nemenyi p  Wilcoxon p    Holm p"]
        for i in self._order():
            row = f"{shown[i]}{self.mean_ranks[i]:>11.3f}"
            ps = f"{against[i]:>11.3g}{self.wilcoxon_p[i]:>12.3g}{self.holm_p[i]:>10.3g}"
            lines += [row + ("    control" if self.names[i] == self.control else ps)]
        return page(lines, self.sentences())

    def sentences(self) -> list[str]:
        """Describe in words which differences are significant."""
        order, other = self._order(), ""
        verb = "differ" if self.f_p <= self.alpha else "do not differ"
        sentences = [f"Friedman (Iman-Davenport): the classifiers {verb} significantly."]
        for i in order:
            gaps = self.mean_ranks[order] - self.mean_ranks[i]
            behind = int((gaps >= self.critical_difference).sum())
            if behind:  # the last ones of the order
                next_best = self.names[order[-behind]]
                rest = " and all below it" if behind > 1 else ""
                sentences += [
                    f"Nemenyi: {self.names[i]} ranks significantly above {next_best}{rest}."
                ]
                other = "other "
        sentences += [f"Nemenyi: no {other}pair differs significantly."]
        found = [self.names[j] for j in order if self.holm_p[j] <= self.alpha]
        rivals = "every other" if len(found) == len(order) - 1 else ", ".join(found) or "no other"
        return [*sentences, f"Wilcoxon-Holm: {self.control} differs significantly from {rivals}."]

    def _order(self) -> list[int]:
        """List the classifiers from best to worst, those of equal rank as they came."""
        return [int(i) for i in np.argsort(self.mean_ranks, kind="stable")]


def _wilcoxon_p(differences: Floats, zero_method: str) -> float:
    """Compute the two-sided p of the signed-rank test; 1 where nothing differs."""
    if not differences.any():
        return 1.0
    if differences.size > 13:
        with warnings.catch_warnings():  # older scipy warns of small samples with ties
            warnings.simplefilter("ignore", UserWarning)
            return float(stats.wilcoxon(differences, zero_method=zero_method).pvalue)
    # All 2**n sign patterns at once: scipy goes through them one by one, a second per pair.
    d = differences[differences != 0] if zero_method == "wilcox" else differences
    ranks = stats.rankdata(abs(d))[d != 0]
    signs = np.arange(2**ranks.size)[:, None] >> np.arange(ranks.size) & 1
    sums, found = signs @ ranks, ranks[d[d != 0] > 0].sum()
    return min(1.0, 2 * float(min((sums <= found).mean(), (sums >= found).mean())))
