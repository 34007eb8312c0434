"""The corrected resampled t-test: by hand, against simulation, and what it refuses."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fuzzytwin.compare import compare_folds

TWO = {"a": [0.90, 0.80, 0.85, 0.95, 0.90], "b": [0.85, 0.80, 0.80, 0.85, 0.90]}


def test_by_hand():
    """d = 0.05, 0, 0.05, 0.1, 0: mean 0.04, variance 0.0070 / 4; 1/5 + (1/5)/(4/5) = 0.45."""
    result = compare_folds(TWO, test_share=0.2)
    t = 0.04 / math.sqrt(0.45 * 0.0070 / 4)
    assert result.control == "a"
    assert result.differences == pytest.approx([0, 0.04])
    assert result.t == pytest.approx([0, t])
    p = 2 * stats.t.sf(t, 4)
    assert result.p == pytest.approx([1, p])
    assert result.holm_p == pytest.approx([1, p])
    half = stats.t.ppf(0.975, 4) * 0.04 / t
    assert result.intervals[1] == pytest.approx([0.04 - half, 0.04 + half])


def test_without_the_correction_it_would_be_students():
    d = np.subtract(TWO["a"], TWO["b"])
    tiny = compare_folds(TWO, test_share=1e-12)
    assert tiny.p[1] == pytest.approx(stats.ttest_1samp(d, 0).pvalue)


def test_holm_and_the_order_of_the_table():
    rng = np.random.default_rng(0)
    scores = rng.normal([0.9, 0.8, 0.86, 0.89], 0.02, (20, 4))
    result = compare_folds(pd.DataFrame(scores, columns=list("wxyz")), 0.1, control="w")
    p = result.p[1:]
    order = np.argsort(p)
    holm = np.maximum.accumulate(p[order] * [3, 2, 1]).clip(max=1)
    assert result.holm_p[1:][order] == pytest.approx(holm)
    frame = result.to_frame()
    assert list(frame.index) == ["w", "z", "y", "x"]
    assert frame.loc["x", "holm_p"] == result.holm_p[1]


def test_errors_turn_the_better_side():
    errors = {name: 1 - np.array(values) for name, values in TWO.items()}
    good, bad = compare_folds(TWO, 0.2), compare_folds(errors, 0.2, higher_is_better=False)
    assert good.control == bad.control == "a"
    assert good.p == pytest.approx(bad.p)
    wide = {"a": np.arange(8) / 100, "b": np.arange(8) / 100 + [0.5, 0.51] * 4}
    said = str(compare_folds(wide, 0.2, higher_is_better=False))
    assert "a is significantly better than b." in said
    assert "b is significantly worse than a." in str(
        compare_folds(wide, 0.2, higher_is_better=False, control="b")
    )


def test_equal_and_constantly_different_columns():
    a = np.array([0.1 + 0.2, 0.7, 0.9])
    result = compare_folds({"a": a, "same": [0.3, 0.7, 0.9], "less": a - 0.1}, 0.5, control="a")
    assert list(result.p) == [1, 1, 0]
    assert result.t[2] == np.inf


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
        found += compare_folds(scores, 0.2).p.min() <= 0.05
        d = np.subtract(*np.transpose(scores))
        plain += d.any() and stats.ttest_1samp(d, 0).pvalue <= 0.05
    assert found / rounds <= 0.07
    assert plain > 2 * max(found, 1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"test_share": 0}, "test_share=0 must lie between 0 and 1"),
        ({"test_share": 1}, "test_share=1"),
        ({"alpha": 2}, "alpha=2"),
        ({"control": "z"}, "control='z' is not a classifier"),
        ({"scores": {"a": [1, 2]}}, "at least 2 folds .rows. and 2 classifiers"),
        ({"scores": {"a": [1], "b": [2]}}, "at least 2 folds"),
        ({"scores": {"a": [1, np.nan], "b": [2, 3]}}, "nan for 'a' on fold 1"),
        ({"scores": {"a": [1, 2], "b": [2]}}, "on every fold"),
        ({"names": ["a", "a"]}, "different names"),
    ],
)
def test_what_cannot_be_compared_is_named(change, match):
    with pytest.raises(ValueError, match=match):
        compare_folds(**{"scores": TWO, "test_share": 0.2, **change})


def test_results_cannot_be_changed():
    result = compare_folds(TWO, 0.2)
    with pytest.raises(ValueError, match="read-only"):
        result.p[0] = 0
