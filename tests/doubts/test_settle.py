"""Rows that a person has looked at count as known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from fuzzytwin.doubts import find_doubtful
from fuzzytwin.doubts.settle import corrected, corrected_flags, rows_to_ask
from tests.label_errors import hospital


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


def named_by(how, n):
    numbers = np.random.default_rng(3).permutation(n) + 5  # most are also the number of a row
    dates = pd.Timestamp("2026-01-01") + pd.to_timedelta(numbers, unit="h")
    pairs = pd.MultiIndex.from_arrays([numbers // 7, numbers % 7])
    return {
        "ids": {"ids": numbers},
        "index": {"index": pd.Index(numbers)},
        "dates": {"index": pd.DatetimeIndex(dates)},
        "dates as ids": {"ids": dates.to_numpy()},
        "pairs": {"index": pairs},
        "repeated index": {"index": pd.Index(numbers // 2)},
        "nothing": {},
    }[how]


@pytest.mark.parametrize(
    "how", ["ids", "index", "dates", "dates as ids", "pairs", "repeated index", "nothing"]
)
def test_the_rows_to_ask_about_are_those_that_are_settled(how):
    X, labels, truth = border(300)
    names = named_by(how, 300)
    plain = find_doubtful(X, labels)
    report = find_doubtful(pd.DataFrame(X, index=names.get("index")), labels, ids=names.get("ids"))
    rows = plain.to_ask(20)
    asked = report.to_ask(20)
    if how in ("repeated index", "nothing"):
        np.testing.assert_array_equal(asked, rows)
    true_label = dict(zip(report.names.tolist(), truth.tolist(), strict=True))
    settled = report.settle({name: true_label[name] for name in asked.tolist()})
    assert settled.n_wrong == plain.settle({row: truth[row] for row in rows}).n_wrong
    np.testing.assert_array_equal(np.flatnonzero(settled.settled >= 0), np.sort(rows))
    more = settled.to_ask(5)
    assert not set(more.tolist()) & set(asked.tolist())


def test_the_true_labels_of_a_frame_are_found_by_its_index():
    X, labels, truth = border(300)
    index = np.random.default_rng(0).permutation(300)
    X, true_labels = pd.DataFrame(X, index=index), pd.Series(truth, index=index)
    report = find_doubtful(X, labels)
    settled = report.settle({row: true_labels.loc[row] for row in report.to_ask(25)})
    known = settled.settled >= 0
    assert known.sum() == 25
    np.testing.assert_array_equal(settled.settled[known], truth[known])
    with pytest.raises(ValueError, match="'x', which is not in the index of the report"):
        report.settle({"x": 1})


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


@pytest.fixture(scope="module", params=[0, 1])
def visits(request):
    """What is said of the labels of a hospital, and the true ones."""
    X, labels, truth, patients = hospital(request.param)
    return find_doubtful(X, labels, groups=patients), truth


def reviewed(visits, rows):
    report, truth = visits
    return report.settle({int(row): truth[row] for row in rows})


def test_more_reviews_do_not_turn_flags_over(visits):
    report, _ = visits
    rows = np.random.default_rng(1).permutation(report.to_ask(100))
    before = report
    for count in range(5, 101, 5):
        after = reviewed(visits, rows[:count])
        assert not after.doubtful[rows[:count]].any()
        open_ = np.setdiff1d(np.arange(len(report.codes)), rows[:count])
        changed = (after.doubtful != before.doubtful)[open_].sum()
        assert changed < 0.1 * before.doubtful.sum(), count
        before = after
    assert after.doubtful.sum() > 0.5 * report.doubtful.sum()


def test_the_order_of_reviews_does_not_matter(visits):
    report, truth = visits
    rows = report.to_ask(40)
    at_once = reviewed(visits, rows)
    one_by_one = report
    for row in rows[::-1].tolist():
        one_by_one = one_by_one.settle({row: truth[row]})
    np.testing.assert_array_equal(one_by_one.doubtful, at_once.doubtful)
    np.testing.assert_allclose(one_by_one.degrees, at_once.degrees, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [0, 3, 30, 100])
def test_a_wrong_label_that_is_found_takes_no_flag_from_others_of_its_kind(visits, count):
    report, _ = visits
    rows = report.to_ask(count)
    before = reviewed(visits, rows)
    flagged = np.flatnonzero(before.doubtful)
    for row in flagged[:: len(flagged) // 10].tolist():
        other = next(
            label for label in report.classes if label != report.classes[report.codes[row]]
        )
        after = before.settle({row: other})
        kind = (report.codes == report.codes[row]) & (report.degrees <= report.degrees[row])
        kind[row] = False
        assert after.doubtful[kind & before.doubtful].all()


def test_flags_stay_as_they_are_where_nothing_was_looked_at():
    rng = np.random.default_rng(0)
    wrong, codes = rng.random(200) ** 3, rng.integers(0, 3, 200)
    flags = wrong >= np.sort(wrong)[-37]
    none = np.empty(0, dtype=int)
    after = corrected_flags(flags, wrong, codes, 3, none, none.astype(bool))
    np.testing.assert_array_equal(after, flags)


def test_rows_of_equal_doubt_lose_their_flags_one_after_the_other():
    """A least probability would clear them all at once."""
    wrong, codes = np.r_[np.linspace(0.5, 0.9, 100), np.full(900, 0.01)], np.zeros(1000, dtype=int)
    flags = wrong >= 0.5
    counts = [
        corrected_flags(flags, wrong, codes, 1, np.arange(0, 3 * n, 3), np.zeros(n, bool)).sum() + n
        for n in range(1, 30)
    ]
    assert counts[0] > 90
    assert counts[-1] < 70
    assert np.abs(np.diff(counts)).max() <= 6


def test_the_order_of_degrees_is_kept_where_a_model_is_sure():
    wrong = np.array([0.9, 0.96, 0.99, 0.999, 0.5])
    after, *_ = corrected(wrong, np.zeros(5, dtype=int), 1, np.array([4]), np.array([False]))
    assert (np.diff(after[:4]) > 0).all()
