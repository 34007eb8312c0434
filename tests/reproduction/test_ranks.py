"""Ranks over tables: known answers, Demsar's table, ties."""

import numpy as np
import pytest
from scipy import stats

from reproduction.ranks import compare_ranks


def random_scores(n_tables, n_classifiers, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_tables, n_classifiers)) + 0.4 * np.arange(n_classifiers)


# Demsar (2006), Table 5a: q_0.05 and q_0.10 for 2 to 10 classifiers.
@pytest.mark.parametrize(
    ("alpha", "c", "q"),
    [(0.05, 3, 2.343), (0.05, 6, 2.850), (0.05, 10, 3.164), (0.1, 4, 2.291), (0.1, 10, 2.920)],
)
def test_critical_difference_is_demsars(alpha, c, q):
    result = compare_ranks(random_scores(12, c), alpha=alpha)
    assert result.critical_difference == pytest.approx(q * np.sqrt(c * (c + 1) / 72), abs=1e-3)


def test_formulas():
    scores = random_scores(10, 6)
    result = compare_ranks(scores)
    d, c = scores.shape
    chi2 = 12 * d / (c * (c + 1)) * ((result.mean_ranks**2).sum() - c * (c + 1) ** 2 / 4)
    assert result.chi2 == pytest.approx(chi2)
    assert result.chi2_p == pytest.approx(stats.chi2.sf(chi2, c - 1))
    f = (d - 1) * result.chi2_ties / (d * (c - 1) - result.chi2_ties)
    assert result.f_p == pytest.approx(stats.f.sf(f, c - 1, (c - 1) * (d - 1)))
    nemenyi_p = result.nemenyi_p.to_numpy()
    gaps = np.abs(result.mean_ranks[:, None] - result.mean_ranks)
    np.testing.assert_array_equal(nemenyi_p <= 0.05, gaps >= result.critical_difference)


def test_rounding_errors_break_no_ties():
    result = compare_ranks([[0.1 + 0.2, 0.3, 0.1], [0.3, 0.1 + 0.2, 0.1]])
    np.testing.assert_array_equal(result.mean_ranks, [1.5, 1.5, 3])


def test_lower_is_better_is_the_mirror():
    scores = random_scores(9, 4)
    higher = compare_ranks(scores)
    lower = compare_ranks(scores, higher_is_better=False)
    np.testing.assert_allclose(lower.mean_ranks, 5 - higher.mean_ranks)
    assert compare_ranks(-scores, higher_is_better=False).sentences() == higher.sentences()


def test_full_agreement():
    result = compare_ranks(np.tile([3.0, 2.0, 2.5, 1.0], (7, 1)))
    assert result.f_p == 0
    assert result.chi2_ties == pytest.approx(7 * 3)


def test_the_diagram_names_every_classifier():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = figure.subplots()
    names = [f"model {j}" for j in range(5)]
    compare_ranks(dict(zip(names, random_scores(15, 5).T, strict=True))).plot(ax)
    written = " ".join(text.get_text() for text in ax.texts)
    assert all(name in written for name in names)
