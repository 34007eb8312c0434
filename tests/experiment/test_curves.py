"""Curves of a class, and scores at thresholds."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from fuzzytwin.experiment._curves import class_curves, scores_at


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    return rng.random(2000) < p, p


def test_scores_at_a_threshold_are_those_of_the_confusion_matrix(drawn):
    is_class, p = drawn
    scores = scores_at(0.3, is_class, p, np.ones(len(p)), None)
    (tn, fp), (fn, tp) = confusion_matrix(is_class, p >= 0.3)
    assert scores["sensitivity"] == pytest.approx(tp / (tp + fn))
    assert scores["specificity"] == pytest.approx(tn / (tn + fp))
    assert scores["ppv"] == pytest.approx(tp / (tp + fp))
    assert scores["npv"] == pytest.approx(tn / (tn + fn))
    assert scores["called"] == pytest.approx((tp + fp) / len(p))
    low, high = scores["ppv_interval"]
    assert low < scores["ppv"] < high


def test_calibrated_probabilities_lie_on_the_diagonal(drawn):
    curves = class_curves("yes", *drawn)
    assert len(curves.predicted) == 10
    inside = (curves.interval[:, 0] <= curves.predicted) & (
        curves.predicted <= curves.interval[:, 1]
    )
    assert inside.sum() >= 8  # of ten 95% intervals
    assert curves.prevalence == pytest.approx(drawn[0].mean())


def test_thresholds_keep_the_sensitivity_that_they_are_chosen_for(drawn):
    by_reason = {entry["chosen_for"]: entry for entry in class_curves("yes", *drawn).thresholds}
    for share in ("95%", "90%", "80%"):
        if (entry := by_reason.get(f"sensitivity {share}")) is not None:
            assert entry["sensitivity"] >= float(share.rstrip("%")) / 100
    assert by_reason["default"]["threshold"] == 0.5
    thresholds = [entry["threshold"] for entry in by_reason.values()]
    assert thresholds == sorted(thresholds)
    assert np.diff(thresholds).min() > 0.01


def test_weights_count_and_one_class_has_no_curves(drawn):
    is_class, p = drawn
    twice = class_curves("yes", np.tile(is_class, 2), np.tile(p, 2))
    weighted = class_curves("yes", is_class, p, np.full(len(p), 2.0))
    np.testing.assert_allclose(weighted.observed, twice.observed)
    assert class_curves("yes", np.ones(5, bool), p[:5]) is None
