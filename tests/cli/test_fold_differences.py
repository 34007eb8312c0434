"""The corrected resampled t-test: by hand, and against simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fuzzytwin.cli._fold_differences import conclusions, fold_differences

TWO = {"a": [0.90, 0.80, 0.85, 0.95, 0.90], "b": [0.85, 0.80, 0.80, 0.85, 0.90]}


def test_by_hand():
    """d = 0.05, 0, 0.05, 0.1, 0: mean 0.04, variance 0.0070 / 4; 1/5 + (1/5)/(4/5) = 0.45."""
    found = fold_differences(TWO, "a", test_share=0.2)
    t = 0.04 / math.sqrt(0.45 * 0.0070 / 4)
    p = 2 * stats.t.sf(t, 4)
    assert list(found) == ["a", "b"]
    assert (found["a"].difference, found["a"].p, found["a"].holm_p) == (0, 1, 1)
    assert found["b"].mean == pytest.approx(0.84)
    assert found["b"].difference == pytest.approx(0.04)
    assert found["b"].p == pytest.approx(p)
    assert found["b"].holm_p == pytest.approx(p)
    half_width = stats.t.ppf(0.975, 4) * 0.04 / t
    assert found["b"].interval == pytest.approx((0.04 - half_width, 0.04 + half_width))


def test_without_the_correction_it_would_be_students():
    d = np.subtract(TWO["a"], TWO["b"])
    found = fold_differences(TWO, "a", test_share=1e-12)
    assert found["b"].p == pytest.approx(stats.ttest_1samp(d, 0).pvalue)


def test_holm_and_the_order():
    rng = np.random.default_rng(0)
    scores = rng.normal([0.9, 0.8, 0.86, 0.89], 0.02, (20, 4))
    found = fold_differences(dict(zip("wxyz", scores.T, strict=True)), "w", 0.1)
    assert list(found) == ["w", "z", "y", "x"]
    p = np.array([found[name].p for name in "xyz"])
    order = np.argsort(p)
    holm = np.maximum.accumulate(p[order] * [3, 2, 1]).clip(max=1)
    assert [found["xyz"[i]].holm_p for i in order] == pytest.approx(list(holm))


def test_conclusions_name_both_sides():
    folds = np.arange(8) / 100
    scores = {"a": folds + 0.5, "b": folds + [0.0, 0.01] * 4, "c": folds + [1.0, 1.01] * 4}
    said = conclusions(fold_differences(scores, "a", 0.2), "a")
    assert said == [
        "Corrected resampled t-test, Holm: a is significantly better than b.",
        "Corrected resampled t-test, Holm: a is significantly worse than c.",
    ]
    said = conclusions(fold_differences(TWO, "a", 0.2), "a")
    assert said == [
        "Corrected resampled t-test, Holm: a does not differ significantly from the others."
    ]


def test_equal_and_constantly_different_scores():
    a = np.array([0.1 + 0.2, 0.7, 0.9])
    found = fold_differences({"a": a, "same": [0.3, 0.7, 0.9], "less": a - 0.1}, "a", 0.5)
    assert (found["a"].p, found["same"].p, found["less"].p) == (1, 1, 0)


def test_it_keeps_its_level_where_the_plain_test_does_not():
    """Two classifiers that are equally good, by construction, on 10 x 5 folds of one sample."""
    rng = np.random.default_rng(0)
    n, found, plain, rounds = 100, 0, 0, 300
    for _ in range(rounds):
        x = rng.normal(size=(n, 2))  # each classifier predicts the sign of the mean of its column
        order = np.concatenate([rng.permutation(n).reshape(5, -1) for _ in range(10)])
        test = x[order]
        learned = (x.sum(axis=0) - test.sum(axis=1)) / (0.8 * n)
        scores = (test > learned[:, None]).mean(axis=1)
        differences = fold_differences(dict(zip("ab", scores.T, strict=True)), "a", 0.2)
        found += differences["b"].p <= 0.05
        d = np.subtract(*np.transpose(scores))
        plain += d.any() and stats.ttest_1samp(d, 0).pvalue <= 0.05
    assert found / rounds <= 0.07
    assert plain > 2 * max(found, 1)
