"""Rows that a person has looked at count as known."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fuzzytwin.doubts import find_doubtful
from fuzzytwin.doubts.settle import corrected, rows_to_ask


def border(n=1500, seed=0):
    """Labels that are wrong near the border, most of them in one class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    truth = (X[:, 0] > 0.7).astype(int)
    share = np.where(truth == 0, 0.45, 0.1) * np.exp(-np.abs(X[:, 0] - 0.7) / 0.8)
    return X, np.where(rng.random(n) < share, 1 - truth, truth), truth


def test_thirty_settled_rows_make_the_number_right():
    X, labels, truth = border()
    wrong = (labels != truth).sum()
    report = find_doubtful(X, labels)
    rows = report.to_ask(30)
    assert len(set(rows.tolist())) == 30
    assert 5 < report.doubtful[rows].sum() < 25  # not the most doubtful rows alone
    after = report.settle({int(row): truth[row] for row in rows})
    low, high = after.n_wrong_interval
    assert low <= wrong <= high
    before = np.diff(report.n_wrong_interval)[0]
    assert high - low < before
    assert abs(after.n_wrong - wrong) < 0.35 * wrong
    np.testing.assert_array_equal(after.suggested[rows], truth[rows])
    np.testing.assert_array_equal(after.degrees[rows], (labels == truth)[rows])
    assert not after.doubtful[rows].any()
    np.testing.assert_allclose(after.posterior.sum(axis=1), 1)
    assert "30 rows were looked at" in after.summary()
    assert report.settled is None
    # Once all rows are settled, the number is known.
    whole = after.settle(truth)
    assert whole.n_wrong == wrong
    assert whole.n_wrong_interval == pytest.approx((wrong, wrong))
    assert not whole.doubtful.any()
    assert whole.to_ask(5).tolist() == []


def test_decisions_add_up_and_are_not_asked_again():
    X, labels, truth = border(400)
    report = find_doubtful(X, labels)
    first = report.to_ask(10)
    once = report.settle({int(row): truth[row] for row in first})
    more = once.to_ask(10)
    assert not np.isin(more, first).any()
    twice = once.settle({int(row): truth[row] for row in more})
    together = report.settle({int(row): truth[row] for row in [*first, *more]})
    np.testing.assert_allclose(twice.degrees, together.degrees)
    given = [truth[i] if i in first else None for i in range(400)]
    np.testing.assert_allclose(report.settle(given).degrees, once.degrees)
    assert report.settle({}) is report


def test_rows_are_named_by_their_ids():
    X, y = load_breast_cancer(return_X_y=True)
    report = find_doubtful(X, y, ids=[f"p{i}" for i in range(len(y))])
    assert report.settle({"p3": 1}).settled[3] == 1
    with pytest.raises(ValueError, match="decisions names 3, which is not an id of the report"):
        report.settle({3: 1})
    with pytest.raises(ValueError, match="gives row 'p3' the label 7; known are"):
        report.settle({"p3": 7})
    with pytest.raises(ValueError, match="decisions has 2 entries for 569 rows"):
        report.settle([0, 1])
    plain = find_doubtful(X, y)
    with pytest.raises(ValueError, match="decisions names 569, which is not a row from 0 to 568"):
        plain.settle({569: 1})


def test_rows_to_ask_are_drawn_from_all_degrees():
    wrong = np.r_[np.full(50, 0.5), np.full(950, 0.01)]
    rows = rows_to_ask(wrong, 40, np.random.default_rng(0))
    assert len(np.unique(rows)) == 40
    assert 10 <= (rows < 50).sum() <= 30  # two are their share of the rows
    assert len(rows_to_ask(np.zeros(5), 5, np.random.default_rng(0))) == 5


def test_what_was_found_corrects_the_others():
    wrong, codes = np.full(100, 0.2), np.zeros(100, dtype=int)
    rows = np.arange(20)
    for found, compare in ((np.ones(20, bool), np.greater), (np.zeros(20, bool), np.less)):
        after, number, (low, high) = corrected(wrong, codes, 2, rows, found)
        assert compare(after[20:], 0.2).all()
        np.testing.assert_array_equal(after[rows], found)
        assert number == pytest.approx(after.sum())
        assert low <= number <= high
