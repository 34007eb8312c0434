"""Doubtful rows are chosen fairly among large and small classes."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import scale

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.report.doubts import own_degrees


def rare(seed=0, n=1000, share=0.04):
    """Two overlapping classes, one of them rare."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 4)) + 1.3 * y[:, None], y


@pytest.mark.parametrize("seed", range(3))
def test_issue2_21_the_rare_class_is_not_doubted_as_a_whole(seed):
    X, y = rare(seed)
    u = cross_val_predict(FuzzyTwinSVC(), X, y, cv=5, method="predict_proba")
    plain = np.argsort(u[np.arange(len(y)), y])[:10]
    assert y[plain].all()  # what the page showed before
    degrees = own_degrees(u, y)
    own = degrees[np.arange(len(y)), y]
    assert 0 < y[np.argsort(own)[:10]].sum() <= 6
    assert np.median(own[y == 1]) > 0.5  # most of the rare class fit their label


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_flipped_labels_come_first(share):
    X, y = rare(1, share=share)
    X += 1.5 * y[:, None]
    wrong = np.random.default_rng(2).permutation(len(y))[:40]
    given = y.copy()
    given[wrong] = 1 - given[wrong]
    u = cross_val_predict(FuzzyTwinSVC(), scale(X), given, cv=5, method="predict_proba")
    own = own_degrees(u, given)[np.arange(len(given)), given]
    assert np.isin(np.argsort(own)[:40], wrong).mean() > 0.6


def test_degrees_by_hand():
    u = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    v = own_degrees(u, np.array([0, 0, 1]))
    raw = u / [0.8, 0.4]
    np.testing.assert_allclose(v, raw / raw.sum(axis=1, keepdims=True))


def test_classes_without_rows_and_without_membership():
    u = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    v = own_degrees(u, np.array([0, 1]))
    assert np.isfinite(v).all()
    np.testing.assert_allclose(v.sum(axis=1), 1)
