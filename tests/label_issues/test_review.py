"""Reviewed rows are taken as known, and correct what is said about the others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from fuzzytwin.label_issues import find_label_issues
from fuzzytwin.label_issues._review import (
    ErrorModel,
    Reviews,
    correct_flags,
    correct_probabilities,
    draw_for_review,
)
from tests.label_errors import hospital


def border(n=1500, seed=0):
    """Labels that are wrong near the border, most of them in one class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    truth = (X[:, 0] > 0.7).astype(int)
    share = np.where(truth == 0, 0.45, 0.1) * np.exp(-np.abs(X[:, 0] - 0.7) / 0.8)
    return X, np.where(rng.random(n) < share, 1 - truth, truth), truth


def two_normal_classes(seed):
    """Classes that overlap, without label errors."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 500)
    return np.column_stack([rng.normal(size=500) + 2 * y, rng.normal(size=500)]), y


def test_thirty_reviews_make_the_number_right():
    X, labels, truth = border()
    wrong = (labels != truth).sum()
    report = find_label_issues(X, labels)
    rows = report.sample_for_review(30)
    assert len(set(rows.tolist())) == 30
    assert 5 < report.is_label_issue[rows].sum() < 25  # not only the worst rows
    after = report.with_reviews({int(row): truth[row] for row in rows})
    low, high = after.n_errors_interval
    assert low <= wrong <= high
    before = np.diff(report.n_errors_interval)[0]
    assert high - low < before
    assert abs(after.n_errors - wrong) < 0.35 * wrong
    np.testing.assert_array_equal(after.suggested_labels[rows], truth[rows])
    np.testing.assert_array_equal(after.label_quality[rows], (labels == truth)[rows])
    assert not after.is_label_issue[rows].any()
    np.testing.assert_allclose(after.posterior.sum(axis=1), 1)
    assert "30 rows have been reviewed." in after.summary()
    assert report.reviewed is None
    # Once all rows are reviewed_report, the number is known.
    whole = after.with_reviews(truth)
    assert whole.n_errors == wrong
    assert whole.n_errors_interval == pytest.approx((wrong, wrong))
    assert not whole.is_label_issue.any()
    assert whole.sample_for_review(5).tolist() == []


def test_reviews_add_up_and_their_rows_are_not_drawn_again():
    X, labels, truth = border(400)
    report = find_label_issues(X, labels)
    first = report.sample_for_review(10)
    once = report.with_reviews({int(row): truth[row] for row in first})
    more = once.sample_for_review(10)
    assert not np.isin(more, first).any()
    twice = once.with_reviews({int(row): truth[row] for row in more})
    together = report.with_reviews({int(row): truth[row] for row in [*first, *more]})
    np.testing.assert_allclose(twice.label_quality, together.label_quality)
    given = [truth[i] if i in first else None for i in range(400)]
    np.testing.assert_allclose(report.with_reviews(given).label_quality, once.label_quality)
    assert report.with_reviews({}) is report


def test_rows_are_named_by_the_index():
    X, y = load_breast_cancer(return_X_y=True)
    report = find_label_issues(pd.DataFrame(X, index=[f"p{i}" for i in range(len(y))]), y)
    assert report.with_reviews({"p3": 1}).reviewed[3] == 1
    with pytest.raises(ValueError, match="reviews names 3, which is not in the index of X"):
        report.with_reviews({3: 1})
    with pytest.raises(ValueError, match="gives row 'p3' the label 7; valid labels are"):
        report.with_reviews({"p3": 7})
    with pytest.raises(ValueError, match="reviews has 2 entries for 569 rows"):
        report.with_reviews([0, 1])
    plain = find_label_issues(X, y)
    with pytest.raises(ValueError, match="reviews names 569, which is not a row from 0 to 568"):
        plain.with_reviews({569: 1})


def named_by(how, n):
    numbers = np.random.default_rng(3).permutation(n) + 5  # most are also the number of a row
    dates = pd.Timestamp("2026-01-01") + pd.to_timedelta(numbers, unit="h")
    pairs = pd.MultiIndex.from_arrays([numbers // 7, numbers % 7])
    return {
        "index": pd.Index(numbers),
        "dates": pd.DatetimeIndex(dates),
        "pairs": pairs,
        "repeated index": pd.Index(numbers // 2),
        "nothing": None,
    }[how]


@pytest.mark.parametrize("how", ["index", "dates", "pairs", "repeated index", "nothing"])
def test_rows_drawn_for_review_are_those_that_are_reviewed(how):
    X, labels, truth = border(300)
    plain = find_label_issues(X, labels)
    report = find_label_issues(pd.DataFrame(X, index=named_by(how, 300)), labels)
    rows = plain.sample_for_review(20)
    asked = report.sample_for_review(20)
    if how in ("repeated index", "nothing"):
        np.testing.assert_array_equal(asked, rows)
    true_label = dict(zip(report.row_names.tolist(), truth.tolist(), strict=True))
    reviewed_report = report.with_reviews({name: true_label[name] for name in asked.tolist()})
    assert (
        reviewed_report.n_errors == plain.with_reviews({row: truth[row] for row in rows}).n_errors
    )
    np.testing.assert_array_equal(np.flatnonzero(reviewed_report.reviewed >= 0), np.sort(rows))
    more = reviewed_report.sample_for_review(5)
    assert not set(more.tolist()) & set(asked.tolist())


@pytest.mark.parametrize("how", ["index", "dates", "pairs", "repeated index", "nothing"])
def test_ranked_rows_are_called_as_in_reviews(how):
    X, labels, truth = border(300)
    plain = find_label_issues(X, labels)
    report = find_label_issues(pd.DataFrame(X, index=named_by(how, 300)), labels)
    worst = plain.ranked_rows[:30]
    names = report.ranked_rows[:30].tolist()
    reviewed = report.with_reviews(dict(zip(names, truth[worst].tolist(), strict=True)))
    np.testing.assert_array_equal(np.flatnonzero(reviewed.reviewed >= 0), np.sort(worst))
    assert set(report.sample_for_review(9).tolist()) <= set(report.ranked_rows.tolist())
    if how == "index":
        by_rank = report.to_frame().sort_values("rank", kind="stable").index
        assert by_rank.tolist() == report.ranked_rows.tolist()


def test_the_true_labels_of_a_frame_are_found_by_its_index():
    X, labels, truth = border(300)
    index = np.random.default_rng(0).permutation(300)
    X, true_labels = pd.DataFrame(X, index=index), pd.Series(truth, index=index)
    report = find_label_issues(X, labels)
    reviewed_report = report.with_reviews(
        {row: true_labels.loc[row] for row in report.sample_for_review(25)}
    )
    known = reviewed_report.reviewed >= 0
    assert known.sum() == 25
    np.testing.assert_array_equal(reviewed_report.reviewed[known], truth[known])
    series = true_labels.loc[report.sample_for_review(25)]
    np.testing.assert_array_equal(report.with_reviews(series).reviewed, reviewed_report.reviewed)
    with pytest.raises(ValueError, match="'x', which is not in the index of X"):
        report.with_reviews({"x": 1})


def test_rows_for_review_are_drawn_from_all_probabilities():
    wrong = np.r_[np.full(50, 0.5), np.full(950, 0.01)]
    rows = draw_for_review(wrong, 40, np.random.default_rng(0))
    assert len(np.unique(rows)) == 40
    assert 10 <= (rows < 50).sum() <= 30  # two are their share of the rows
    assert len(draw_for_review(np.zeros(5), 5, np.random.default_rng(0))) == 5


def test_what_was_found_corrects_the_others():
    wrong, codes = np.full(100, 0.2), np.zeros(100, dtype=int)
    rows = np.arange(20)
    for found, compare in ((np.ones(20, bool), np.greater), (np.zeros(20, bool), np.less)):
        model, reviews = ErrorModel(wrong, wrong), Reviews(codes, 2, rows, found)
        after, (low, high), _ = correct_probabilities(model, reviews)
        assert compare(after[20:], 0.2).all()
        np.testing.assert_array_equal(after[rows], found)
        assert low <= after.sum() <= high


@pytest.mark.parametrize("seed", range(3))
def test_reviews_of_clean_overlap_end_at_nothing_is_wrong(seed):
    X, y = two_normal_classes(seed)
    issues = find_label_issues(X, y)
    beyond = issues.ranked_rows[:40:4]  # rows beyond the boundary, all of them correct
    ten = issues.with_reviews({int(row): y[row] for row in beyond})
    assert ten.n_errors < 0.01 * len(y)
    assert ten.n_errors_interval[0] == 0
    assert not ten.is_label_issue.any()
    assert "Hardly any label is wrong" in ten.summary()
    thirty = issues.with_reviews({int(row): y[row] for row in issues.sample_for_review(30)})
    assert thirty.n_errors < 0.01 * len(y)


def test_an_error_beyond_the_boundary_decides_against_overlap():
    X, labels, truth = border()
    issues = find_label_issues(X, labels)
    wrong = issues.ranked_rows[labels[issues.ranked_rows] != truth[issues.ranked_rows]][:5]
    after = issues.with_reviews({int(row): truth[row] for row in wrong})
    assert after.p_no_errors < 1e-3
    assert after.n_errors > issues.n_errors


def test_more_confirming_reviews_of_clean_overlap_are_more_evidence():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=500)
    X = rng.normal(size=(500, 2)) + 2 * labels[:, None] * np.array([1.0, 0.0])
    issues = find_label_issues(X, labels)
    order = rng.permutation(500)
    v = [
        issues.with_reviews({int(row): labels[row] for row in order[:n]}).p_no_errors
        for n in (30, 100, 300, 500)
    ]
    assert v == sorted(v)
    assert v[-1] > 0.9


@pytest.fixture(scope="module", params=[0, 1])
def visits(request):
    """What is said of the labels of a hospital, and the true ones."""
    X, labels, truth, patients = hospital(request.param)
    return find_label_issues(X, labels, groups=patients), truth


def reviewed(visits, rows):
    report, truth = visits
    return report.with_reviews({int(row): truth[row] for row in rows})


def test_no_single_review_that_confirms_a_label_turns_flags_over(visits):
    report, truth = visits
    rows = np.random.default_rng(1).permutation(report.sample_for_review(60))
    before = report
    for count in range(1, 61):
        after = reviewed(visits, rows[:count])
        assert not after.is_label_issue[rows[:count]].any()
        open_ = np.setdiff1d(np.arange(len(report.codes)), rows[:count])
        changed = (after.is_label_issue != before.is_label_issue)[open_].sum()
        confirmed = report.given_labels[rows[count - 1]] == truth[rows[count - 1]]
        assert changed < (0.5 if confirmed else 1.0) * report.is_label_issue.sum(), count
        before = after


def test_the_order_of_reviews_does_not_matter(visits):
    report, truth = visits
    rows = report.sample_for_review(40)
    at_once = reviewed(visits, rows)
    one_by_one = report
    for row in rows[::-1].tolist():
        one_by_one = one_by_one.with_reviews({row: truth[row]})
    np.testing.assert_array_equal(one_by_one.is_label_issue, at_once.is_label_issue)
    np.testing.assert_allclose(one_by_one.label_quality, at_once.label_quality, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [0, 3, 30, 100])
def test_a_wrong_label_that_is_found_takes_no_flag_from_others_of_its_kind(visits, count):
    report, _ = visits
    rows = report.sample_for_review(count)
    before = reviewed(visits, rows)
    flagged = np.flatnonzero(before.is_label_issue)
    for row in flagged[:: len(flagged) // 10 or 1].tolist():
        other = next(
            label for label in report.classes if label != report.classes[report.codes[row]]
        )
        after = before.with_reviews({row: other})
        kind = (report.codes == report.codes[row]) & (
            report.label_quality <= report.label_quality[row]
        )
        kind[row] = False
        assert after.is_label_issue[kind & before.is_label_issue].all()


def test_flags_do_not_change_without_reviews():
    rng = np.random.default_rng(0)
    wrong, codes = rng.random(200) ** 3, rng.integers(0, 3, 200)
    flags = wrong >= np.sort(wrong)[-37]
    none = np.empty(0, dtype=int)
    reviews = Reviews(codes, 3, none, none.astype(bool))
    after = correct_flags(flags, ErrorModel(wrong, wrong), reviews)
    np.testing.assert_array_equal(after, flags)


def test_rows_of_equal_probability_lose_their_flags_one_after_the_other():
    """A least probability would clear them all at once."""
    wrong, codes = np.r_[np.linspace(0.5, 0.9, 100), np.full(900, 0.01)], np.zeros(1000, dtype=int)
    flags = wrong >= 0.5
    counts = []
    for n in range(1, 30):
        reviews = Reviews(codes, 1, np.arange(0, 3 * n, 3), np.zeros(n, bool))
        counts.append(correct_flags(flags, ErrorModel(wrong, wrong), reviews).sum() + n)
    assert counts[0] > 90
    assert counts[-1] < 70
    assert np.abs(np.diff(counts)).max() <= 6


def test_the_order_of_probabilities_is_kept_at_both_ends():
    wrong = np.array([0.9, 0.96, 0.99, 0.999, 0.5])
    for is_error in (False, True):
        reviews = Reviews(np.zeros(5, dtype=int), 1, np.array([4]), np.array([is_error]))
        after, _, _ = correct_probabilities(ErrorModel(wrong, wrong), reviews)
        assert (np.diff(after[:4]) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_reviews_that_confirm_labels_never_raise_the_number_of_errors(seed):
    X, y = two_normal_classes(seed)
    issues = find_label_issues(X, y)
    beyond = issues.ranked_rows[:20].tolist()
    numbers = [issues.with_reviews({row: y[row] for row in beyond[:n]}).n_errors for n in range(21)]
    assert numbers[0] == issues.n_errors
    assert numbers == sorted(numbers, reverse=True)


def test_one_review_that_confirms_a_label_does_not_raise_the_number_of_errors():
    for X, labels in (border(400)[:2], two_normal_classes(0)):
        issues = find_label_issues(X, labels)
        for row in range(0, len(labels), 10):
            assert issues.with_reviews({row: labels[row]}).n_errors <= issues.n_errors


def test_one_more_review_that_confirms_a_label_changes_the_number_little(visits):
    report, truth = visits
    rows = report.sample_for_review(40)
    correct = rows[report.given_labels[rows] == truth[rows]]
    before = reviewed(visits, np.setdiff1d(rows, correct[:8])).n_errors
    for row in correct[:8].tolist():
        kept = np.setdiff1d(rows, np.setdiff1d(correct[:8], [row]))
        assert 0.6 * before < reviewed(visits, kept).n_errors < 1.1 * before


def test_random_errors_among_outcomes_are_counted():
    """On average: thirty reviews find few of fifty errors, sometimes none."""
    counts, covered = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 4))
        truth = (rng.random(1000) < 1 / (1 + np.exp(3 - 3 * X[:, 0]))).astype(int)
        labels = truth.copy()
        wrong = rng.choice(1000, 50, replace=False)
        labels[wrong] = 1 - truth[wrong]
        issues = find_label_issues(X, labels)
        for draw in range(3):
            rows = issues.sample_for_review(30, random_state=draw)
            after = issues.with_reviews({int(row): truth[row] for row in rows})
            low, high = after.n_errors_interval
            counts.append(after.n_errors)
            covered.append(low <= 50 <= high)
    assert abs(np.mean(counts) - 50) < 15
    assert np.mean(covered) > 0.85


@pytest.mark.parametrize("seed", [1, 2])
def test_reviews_that_confirm_label_issues_raise_neither_their_number_nor_the_interval(seed):
    """All reviewed rows are far beyond the boundary, so they say little about the others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 4))
    y = (X[:, 0] + 0.7 * rng.logistic(size=1000) > 0).astype(int)
    report = find_label_issues(X, y, labels="annotated")
    confirmed = report.ranked_rows[:20].tolist()
    after = report.with_reviews({row: y[row] for row in confirmed})
    assert after.is_label_issue.sum() <= report.is_label_issue.sum()
    assert after.n_errors_interval[1] <= report.n_errors_interval[1]


def test_one_review_that_finds_an_expected_error_among_votes_changes_the_number_little():
    X, truth = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    votes = np.where(rng.random((len(truth), 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    report = find_label_issues(X, votes=votes)
    wrong = np.flatnonzero(report.given_labels != truth)
    worst = min(wrong.tolist(), key=lambda row: report.label_quality[row])
    after = report.with_reviews({worst: truth[worst]})
    assert abs(after.n_errors - report.n_errors) < 0.15 * report.n_errors + 1


def test_the_interval_contains_the_number_to_the_last_digit(visits):
    rows = visits[0].sample_for_review(40)
    for n in range(1, 41):
        after = reviewed(visits, rows[:n])
        low, high = after.n_errors_interval
        assert low <= after.n_errors <= high


def test_a_series_of_reviews_with_a_repeated_name_is_refused():
    X, labels, truth = border(200)
    table = pd.DataFrame(X, index=[*range(100), *range(100)])
    report = find_label_issues(table, labels)
    with pytest.raises(ValueError, match="several entries named 0; give an array"):
        report.with_reviews(pd.Series(truth, index=table.index))
    assert report.with_reviews(truth).n_errors == (labels != truth).sum()
