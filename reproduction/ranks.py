"""Compare classifiers over many tables: the Friedman test and the Nemenyi test.

Demsar's procedure [1]_: rank the classifiers on every table, test by the Friedman test whether they
differ at all, then by the Nemenyi test which pairs do. Needs scikit-posthocs.

References
----------
.. [1] J. Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of
   Machine Learning Research 7 (2006) 1-30.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats


def compare_ranks(
    scores: Any, *, higher_is_better: bool = True, alpha: float = 0.05
) -> RankComparison:
    r"""Compare C classifiers by their scores on D tables.

    With :math:`r_{ij}` the rank of classifier j on table i (best is 1, ties share their mean) and
    :math:`R_j` its mean over the tables, the Friedman statistic of the paper and the F statistic of
    Iman and Davenport are

    .. math:: \chi^2 = \frac{12 D}{C (C+1)} \Big[\sum_j R_j^2 - \frac{C (C+1)^2}{4}\Big], \qquad
        F = \frac{(D-1)\, \chi^2_t}{D (C-1) - \chi^2_t},

    with :math:`\chi^2_t` corrected for ties (`scipy.stats.friedmanchisquare`). By Nemenyi, two
    classifiers differ if their mean ranks do by at least

    .. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{C (C+1)}{6 D}},

    with :math:`q_\alpha` from the studentized range, divided by :math:`\sqrt 2`.

    Parameters
    ----------
    scores : data frame or mapping of name to scores
        One row per table, one column per classifier: at least 2 tables and 3 classifiers. Scores
        that agree to 10 digits after the decimal point are ties.
    higher_is_better : bool, default=True
        False for errors, losses and times.
    alpha : float, default=0.05
        Significance level.

    Returns
    -------
    RankComparison

    Examples
    --------
    >>> from reproduction.ranks import compare_ranks
    >>> result = compare_ranks({
    ...     "fuzzy": [0.91, 0.85, 0.78, 0.95, 0.88, 0.81],
    ...     "crisp": [0.89, 0.85, 0.75, 0.93, 0.84, 0.79],
    ...     "linear": [0.80, 0.77, 0.71, 0.94, 0.80, 0.70]})
    >>> result.mean_ranks.round(3)
    array([1.083, 2.083, 2.833])
    >>> for sentence in result.sentences():
    ...     print(sentence)
    Friedman (Iman-Davenport): the classifiers differ significantly.
    Nemenyi: fuzzy ranks significantly above linear.
    Nemenyi: no other pair differs significantly.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman

    frame = pd.DataFrame(scores).astype(float).round(10)
    n_tables, n_classifiers = frame.shape
    ranks = frame.rank(axis=1, ascending=not higher_is_better).to_numpy()
    mean_ranks = ranks.mean(axis=0)
    df = n_classifiers - 1

    # Centred ranks are multiples of a half, so that this sum is exact.
    between = float(((ranks - (n_classifiers + 1) / 2).sum(axis=0) ** 2).sum())
    chi2 = 12 * between / (n_tables * n_classifiers * (n_classifiers + 1))
    chi2_ties = float(stats.friedmanchisquare(*frame.to_numpy().T).statistic)
    with np.errstate(divide="ignore"):
        f = np.divide((n_tables - 1) * chi2_ties, n_tables * df - chi2_ties)

    q = stats.studentized_range.isf(alpha, n_classifiers, np.inf) / np.sqrt(2)
    nemenyi_p = posthoc_nemenyi_friedman(frame.to_numpy())
    nemenyi_p.index = nemenyi_p.columns = frame.columns
    return RankComparison(
        names=tuple(frame.columns),
        n_tables=n_tables,
        alpha=alpha,
        mean_ranks=mean_ranks,
        chi2=chi2,
        chi2_p=float(stats.chi2.sf(chi2, df)),
        chi2_ties=chi2_ties,
        f_p=float(stats.f.sf(f, df, df * (n_tables - 1))),
        critical_difference=float(
            q * np.sqrt(n_classifiers * (n_classifiers + 1) / (6 * n_tables))
        ),
        nemenyi_p=nemenyi_p,
    )


@dataclass(frozen=True, eq=False)
class RankComparison:
    """Result of `compare_ranks`.

    Attributes
    ----------
    names : tuple of str
        The classifiers, C of them, in the order of `mean_ranks`.
    n_tables : int
        The number D of tables.
    alpha : float
        Significance level.
    mean_ranks : ndarray of shape (C,)
        Mean rank of every classifier. The best possible is 1.
    chi2, chi2_p : float
        Friedman statistic by the paper's formula, and its p-value.
    chi2_ties : float
        Friedman statistic, corrected for ties.
    f_p : float
        p-value of Iman and Davenport's F statistic.
    critical_difference : float
        Mean ranks at least this far apart differ significantly (Nemenyi).
    nemenyi_p : data frame of shape (C, C)
        p-value of every pair by the Nemenyi test.
    """

    names: tuple[str, ...]
    n_tables: int
    alpha: float
    mean_ranks: NDArray[np.float64]
    chi2: float
    chi2_p: float
    chi2_ties: float
    f_p: float
    critical_difference: float
    nemenyi_p: Any = field(repr=False)

    def sentences(self) -> list[str]:
        """Describe in words which differences are significant."""
        verb = "differ" if self.f_p <= self.alpha else "do not differ"
        sentences = [f"Friedman (Iman-Davenport): the classifiers {verb} significantly."]
        order = np.argsort(self.mean_ranks, kind="stable")
        for i in order:
            behind = self.mean_ranks[order] - self.mean_ranks[i]
            worse = [self.names[j] for j in order[behind >= self.critical_difference]]
            if worse:
                others = " and all below it" if len(worse) > 1 else ""
                sentences.append(
                    f"Nemenyi: {self.names[i]} ranks significantly above {worse[0]}{others}."
                )
        other = "other " if len(sentences) > 1 else ""
        sentences.append(f"Nemenyi: no {other}pair differs significantly.")
        return sentences

    def plot(self, ax: Any) -> None:
        """Draw the critical difference diagram on a matplotlib Axes.

        Bars join classifiers whose mean ranks do not differ significantly.
        """
        from scikit_posthocs import critical_difference_diagram

        critical_difference_diagram(
            dict(zip(self.names, self.mean_ranks, strict=True)),
            self.nemenyi_p,
            ax=ax,
            alpha=self.alpha,
            elbow_props={"color": "black", "linewidth": 0.8},
            label_fmt_left="{label} ({rank:.2f})  ",
            label_fmt_right="  {label} ({rank:.2f})",
        )
