"""Measures of predicted labels: against scikit-learn, by hand, by weight and by groups."""

import json

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn import metrics

from fuzzytwin.experiment._metrics import auc_interval, measure, wilson
from fuzzytwin.experiment._words import verdict_text


def some(n=200, k=3, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.array(["a", "b", "c"])[:k]
    y = classes[rng.integers(0, k, n)]
    u = rng.dirichlet(np.ones(k), n) + 0.5 * (y[:, None] == classes)
    return y, classes[u.argmax(axis=1)], u / u.sum(axis=1, keepdims=True), classes


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_scikit_learn(k, weighted):
    y, predicted, u, classes = some(k=k)
    w = np.random.default_rng(1).uniform(0, 3, len(y)) if weighted else None
    found = measure(y, predicted, membership=u, classes=classes, weight=w)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, predicted, sample_weight=w))
    assert found["balanced_accuracy"] == pytest.approx(
        metrics.balanced_accuracy_score(y, predicted, sample_weight=w)
    )
    assert found["confusion"] == metrics.confusion_matrix(y, predicted).tolist()
    for c, entry in enumerate(found["per_class"]):
        own, named = y == entry["class"], predicted == entry["class"]
        for key, (true, said) in {
            "sensitivity": (own, named), "specificity": (~own, ~named), "precision": (named, own),
        }.items():  # fmt: skip
            assert entry[key] == pytest.approx(metrics.recall_score(true, said, sample_weight=w))
        area = metrics.roc_auc_score(own, u[:, c], sample_weight=w)
        assert entry["roc_auc"] == pytest.approx(area)
        precision = metrics.average_precision_score(own, u[:, c], sample_weight=w)
        assert entry["average_precision"] == pytest.approx(precision)
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found, default=str))


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (1, 30), (13, 20), (400, 1000)])
def test_wilson_is_scipys(hits, n):
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_the_interval_of_balanced_accuracy_by_hand():
    y = np.repeat(["a", "b"], [100, 10])
    predicted = y.copy()
    predicted[:20] = "b"  # a: 0.8 of 100
    predicted[100:105] = "a"  # b: 0.5 of 10
    found = measure(y, predicted)
    (a0, a1), (b0, b1) = wilson(0.8, 100), wilson(0.5, 10)
    low = 0.65 - np.hypot(0.8 - a0, 0.5 - b0) / 2
    high = 0.65 + np.hypot(a1 - 0.8, b1 - 0.5) / 2
    assert found["balanced_accuracy"] == pytest.approx(0.65)
    assert found["balanced_accuracy_interval"] == pytest.approx((low, high))


def test_the_interval_of_balanced_accuracy_covers():
    rng = np.random.default_rng(0)
    truth, covered = {0: 0.9, 1: 0.6}, 0
    y = np.repeat([0, 1], [150, 30])
    for _ in range(300):
        hit = rng.random(len(y)) < np.where(y == 0, truth[0], truth[1])
        low, high = measure(y, np.where(hit, y, 1 - y))["balanced_accuracy_interval"]
        covered += low <= 0.75 <= high
    assert 276 <= covered <= 294


def test_equal_weights_change_nothing():
    y, predicted, u, classes = some()
    plain = measure(y, predicted, membership=u, classes=classes)
    heavy = measure(y, predicted, membership=u, classes=classes, weight=np.full(len(y), 7.0))
    for key in ("accuracy_interval", "balanced_accuracy_interval", "roc_auc", "baseline"):
        assert heavy[key] == pytest.approx(plain[key])


def test_repeated_rows_of_a_group_are_no_new_evidence():
    y, predicted, _, _ = some()
    once = measure(y, predicted)
    y5, p5 = np.repeat(y, 5), np.repeat(predicted, 5)
    five = measure(y5, p5, groups=np.repeat(np.arange(len(y)), 5))
    naive = measure(y5, p5)
    for key in ("accuracy_interval", "balanced_accuracy_interval"):
        assert five[key] == pytest.approx(once[key], abs=2e-3)
        assert np.ptp(naive[key]) < 0.6 * np.ptp(once[key])
    perfect = measure(y5, y5, groups=np.repeat(np.arange(len(y)), 5))
    assert perfect["accuracy_interval"] == pytest.approx(wilson(1.0, len(y)))


def test_labels_that_are_never_right_or_never_true():
    found = measure(np.array(["a", "a", "b"]), np.array(["a", "c", "a"]))
    by = {entry["class"]: entry for entry in found["per_class"]}
    assert by["c"]["sensitivity"] is None
    assert by["b"]["sensitivity"] == 0
    assert by["b"]["precision"] is None
    assert found["balanced_accuracy"] == pytest.approx(0.25)
    assert found["roc_auc"] is None


def test_the_verdict_looks_at_every_class():
    y = np.repeat(["no", "yes"], [980, 20])
    predicted = np.repeat(["no", "yes", "no"], [980, 7, 13])
    found = measure(y, predicted)
    assert found["accuracy"] == pytest.approx(0.987)
    assert verdict_text(found) == (
        "It is better than guessing, but the recall of class yes is only 0.35 (0.18 to 0.57)."
    )
    three = np.repeat(["a", "b", "c"], 100)
    predicted = np.repeat(["a", "b", "a"], 100)
    assert verdict_text(measure(three, predicted)) == (
        "It is better than guessing, but never finds class c: its recall is 0.00 (0.00 to 0.04)."
    )
    assert "no better than guessing" in verdict_text(measure(y, np.full(1000, "no")))
    assert "no column reveals the label" in verdict_text(measure(y, y))
    assert "Recall (sensitivity) is lowest for class no: 0.9990 (0.99" in (
        verdict_text(measure(y, np.where(np.arange(1000), y, "yes")))
    )


def test_the_verdict_gives_the_lowest_recall_with_its_interval_and_no_bound():
    y = np.repeat(["no", "yes"], [250, 144])
    predicted = np.repeat(["no", "yes", "no", "yes"], [240, 10, 29, 115])
    found = measure(y, predicted)
    low, high = wilson(115 / 144, 144)
    assert verdict_text(found) == (
        "It is better than guessing. Recall (sensitivity) is lowest for class yes: "
        f"0.80 ({low:.2f} to {high:.2f})."
    )
    assert (round(low, 2), round(high, 2)) == (0.73, 0.86)


def test_small_classes_that_are_not_found_are_named():
    y = np.repeat(["no", "yes"], [980, 20])
    assert measure(y, np.full(1000, "no"))["missed_class"] == "yes"
    assert measure(y, np.full(1000, "yes"))["missed_class"] is None  # "no" is not small
    assert measure(y, y)["missed_class"] is None
    even = np.repeat(["a", "b"], 100)
    assert measure(even, np.full(200, "a"))["missed_class"] is None


def test_few_hits_are_not_better_than_guessing():
    """1 of 51 found with 2 false alarms: guessing does that in one table of seven."""
    y = np.repeat([1, 0], [51, 949])
    predicted = np.zeros(1000, int)
    predicted[[0, 60, 61]] = 1
    found = measure(y, predicted)
    assert found["guessing_p"] == pytest.approx(0.146, abs=0.002)
    assert "no better than guessing" in verdict_text(found)
    predicted[:6] = 1
    assert "better than guessing, but the recall of class 1 is only" in verdict_text(
        measure(y, predicted)
    )


def test_log_loss_goes_by_the_names_of_the_columns():
    y = np.array(["10", "2", "10", "other"])
    P = np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])
    columns = np.array(["2", "10"])  # in the order of numbers, not of texts
    found = measure(y, y, membership=P, classes=columns, probabilities=True)
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.9, 0.6]).mean())
    assert "log_loss" not in measure(y, y, membership=P, classes=columns)


def test_the_interval_of_the_auc_is_delongs():
    rng = np.random.default_rng(0)
    own = rng.random(90) < 0.4
    score = np.round(rng.normal(size=90) + own, 1)  # with ties
    wins = (score[own, None] > score[~own]) + 0.5 * (score[own, None] == score[~own])
    area = wins.mean()
    m, n = wins.shape
    # DeLong et al. (1988), with the variances divided by m and n.
    variance = wins.mean(axis=1).var() / m + wins.mean(axis=0).var() / n
    low, high = auc_interval(own, score, np.ones(90))
    odds = np.log(np.array([low, area, high]) / (1 - np.array([low, area, high])))
    half = 1.959964 * np.sqrt(variance) / (area * (1 - area))
    np.testing.assert_allclose(odds, odds[1] + half * np.array([-1, 0, 1]), rtol=1e-6)


def test_copies_in_one_group_leave_the_interval_of_the_auc_as_it_is():
    rng = np.random.default_rng(1)
    own = rng.random(60) < 0.5
    score = rng.normal(size=60) + own
    w = rng.integers(1, 4, 60)
    rows = np.repeat(np.arange(60), w)
    copies = auc_interval(own[rows], score[rows], np.ones(len(rows)), rows)
    np.testing.assert_allclose(copies, auc_interval(own, score, w), rtol=1e-12)
    ungrouped = auc_interval(own[rows], score[rows], np.ones(len(rows)))
    assert ungrouped[1] - ungrouped[0] < copies[1] - copies[0]
