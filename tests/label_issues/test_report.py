"""The promised names of find_label_issues and its report, on arrays and data frames as they are."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression

from fuzzytwin import FuzzyTwinCommittee, TablePreprocessor, find_label_issues
from tests.label_errors import hospital

COLUMNS = ["given_label", "suggested_label", "label_quality", "is_label_issue", "rank"]


def patients(n=400, seed=0):
    """Visits with text, categories, dates and missing values; a tenth of the labels is wrong."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.5
    frame = pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 9, n) + 15 * sick),
        "ward": rng.choice(["north", "south", None], n),
        "pain": np.where(rng.random(n) < 0.9, np.where(sick, "strong", "weak"), "none"),
        "grade": pd.Categorical(rng.choice(["i", "ii", "iii"], n)),
        "admitted": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        "smokes": rng.random(n) < 0.3 + 0.3 * sick,
    })  # fmt: skip
    wrong = rng.random(n) < 0.1
    frame["disease"] = np.where(sick ^ wrong, "yes", "no")
    frame.index = [f"visit {i}" for i in range(n)]
    return frame, wrong


def test_the_signature_is_as_promised():
    parameters = inspect.signature(find_label_issues).parameters
    names = ["X", "y", "labels", "estimator", "sample_weight", "groups", "votes"]
    assert list(parameters) == names
    assert all(parameters[name].kind == inspect.Parameter.KEYWORD_ONLY for name in names[2:])


def test_the_report_is_as_promised():
    X, y = load_iris(return_X_y=True)
    y[::10] = (y[::10] + 1) % 3
    issues = find_label_issues(X, y)
    assert issues.label_quality.shape == issues.suggested_labels.shape == (150,)
    assert issues.is_label_issue.dtype == bool
    assert issues.noise_matrix.shape == (3, 3)
    low, high = issues.n_errors_interval
    assert low <= issues.n_errors <= high
    assert issues.n_errors_if_accepted < issues.n_errors
    frame = issues.to_frame()
    assert list(frame.columns) == COLUMNS
    assert frame.index.tolist() == list(range(150))
    np.testing.assert_array_equal(frame["given_label"], y)
    np.testing.assert_array_equal(frame["suggested_label"], issues.suggested_labels)
    np.testing.assert_array_equal(frame["label_quality"], issues.label_quality)
    np.testing.assert_array_equal(frame["is_label_issue"], issues.is_label_issue)
    np.testing.assert_array_equal(frame.index[np.argsort(frame["rank"])], issues.ranked_rows)


def test_a_frame_with_text_categories_dates_and_missing_values():
    frame, wrong = patients()
    X, y = frame.drop(columns="disease"), frame["disease"]
    issues = find_label_issues(frame, "disease")
    assert issues.to_frame().index.tolist() == frame.index.tolist()
    same = find_label_issues(X, y)
    np.testing.assert_array_equal(same.label_quality, issues.label_quality)
    numbers = find_label_issues(TablePreprocessor(scale=False).fit_transform(X), y)
    np.testing.assert_array_equal(numbers.label_quality, issues.label_quality)
    is_wrong = pd.Series(wrong, index=frame.index)
    assert is_wrong.loc[issues.ranked_rows[:20]].mean() > 0.8
    assert set(issues.sample_for_review(10)) <= set(frame.index)
    reviewed = issues.with_reviews({"visit 3": "yes"})
    assert reviewed.suggested_labels[3] == "yes"
    committee = FuzzyTwinCommittee(members=["linear"])
    assert find_label_issues(frame, "disease", estimator=committee).separable


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_polars_and_arrow(convert):
    frame, _ = patients(120)
    frame = frame.reset_index(drop=True)
    frame["grade"] = frame["grade"].astype(str)
    expected = find_label_issues(frame, "disease")
    issues = find_label_issues(convert(frame), "disease")
    np.testing.assert_allclose(issues.label_quality, expected.label_quality, atol=1e-6)


def test_numbers_with_missing_values():
    X, y = load_breast_cancer(return_X_y=True)
    wrong = np.random.default_rng(0).random(len(y)) < 0.1
    labels = np.where(wrong, 1 - y, y)
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    issues = find_label_issues(X, labels)
    assert wrong[issues.ranked_rows[:40]].mean() > 0.8
    frame = find_label_issues(pd.DataFrame(X), labels)
    np.testing.assert_allclose(frame.label_quality, issues.label_quality)


def test_numbers_without_missing_values_are_taken_as_they_are():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["size"] = np.arange(150) % 3
    plain = find_label_issues(X.to_numpy(), y)
    for frame in (X, X.astype({"size": "Int64"}), pl.from_pandas(X)):
        np.testing.assert_allclose(find_label_issues(frame, y).label_quality, plain.label_quality)


def test_a_column_that_does_not_exist_gets_the_nearest_names():
    frame, _ = patients(20)
    with pytest.raises(ValueError, match=r"y='diseases': .*did you mean 'disease'\?"):
        find_label_issues(frame, "diseases")
    with pytest.raises(ValueError, match="columns of X have no names; give the labels themselves"):
        find_label_issues(np.zeros((4, 2)), "disease")


def overlapping(n=1000, seed=0):
    """Two classes that overlap, without label errors."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) + 0.7 * y[:, None], y


def test_overlap_is_no_error_of_observed_labels():
    X, y = overlapping()
    annotated = find_label_issues(X, y, labels="annotated")
    observed = find_label_issues(X, y, labels="observed")
    assert annotated.n_errors > 50
    assert observed.n_errors < 0.4 * annotated.n_errors
    assert observed.is_label_issue.sum() < 0.4 * annotated.is_label_issue.sum()
    low, high = observed.n_errors_interval
    assert 0 <= low <= observed.n_errors <= high < annotated.n_errors_interval[1]


@pytest.mark.parametrize("seed", range(5))
def test_labels_drawn_from_their_probabilities_may_all_be_correct(seed):
    """Two normal classes, two deviations apart: 54 of 500 were called wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 500)
    X = np.column_stack([rng.normal(size=500) + 2 * y, rng.normal(size=500)])
    auto = find_label_issues(X, y)
    annotated = find_label_issues(X, y, labels="annotated")
    assert auto.n_errors_interval[0] == 0
    assert auto.n_errors <= 0.5 * annotated.n_errors
    assert auto.n_errors_interval[1] == pytest.approx(annotated.n_errors_interval[1])
    assert (auto.suggested_labels == y).all()
    assert "Say which with labels='observed' or labels='annotated'" in auto.summary()
    assert "worth a look" in auto.summary()
    assert "Say which" not in annotated.summary()


def test_a_rare_outcome_is_not_called_wrong_as_a_whole():
    """254 of 304 were flagged, and accepting all would have made 294 errors of 126."""
    X, labels, truth, patients = hospital(0)
    issues = find_label_issues(X, labels, groups=patients)
    assert issues.is_label_issue[labels == "yes"].mean() <= 0.5
    assert (issues.suggested_labels != truth).sum() <= (labels != truth).sum()
    low, high = issues.n_errors_interval
    assert low == 0 <= (labels != truth).sum() <= high


@pytest.mark.parametrize("labels", ["auto", "annotated", "observed"])
def test_weights_names_and_order_change_no_flag(labels):
    rng = np.random.default_rng(0)
    X, y = overlapping(300)
    issues = find_label_issues(X, y, labels=labels)
    for weight in (2.0, 2.5):
        weighted = find_label_issues(X, y, labels=labels, sample_weight=np.full(300, weight))
        np.testing.assert_array_equal(weighted.is_label_issue, issues.is_label_issue)
    order = rng.permutation(300)
    names = np.array(["z", "a"])
    other = find_label_issues(X[order], names[y[order]], labels=labels)
    np.testing.assert_array_equal(other.is_label_issue, issues.is_label_issue[order])
    np.testing.assert_array_equal(other.suggested_labels, names[issues.suggested_labels[order]])


def test_random_errors_of_observed_labels_are_found():
    X, y = load_breast_cancer(return_X_y=True)
    wrong = np.random.default_rng(0).random(len(y)) < 0.1
    labels = np.where(wrong, 1 - y, y)
    Z = X / X.std(axis=0)
    for estimator in (None, LogisticRegression(max_iter=5000)):
        observed = find_label_issues(Z, labels, labels="observed", estimator=estimator)
        assert wrong[observed.ranked_rows[:40]].mean() > 0.8
        low, high = observed.n_errors_interval
        assert low <= wrong.sum() <= high


def test_observed_labels_have_no_votes():
    X, y = overlapping(40)
    with pytest.raises(ValueError, match="labels='observed' cannot be combined with votes"):
        find_label_issues(X, y, labels="observed", votes=np.column_stack([y, y]))


def test_observed_labels_without_signal():
    rng = np.random.default_rng(0)
    issues = find_label_issues(rng.normal(size=(500, 5)), np.arange(500) % 2, labels="observed")
    assert not issues.is_label_issue.any()
    assert np.isnan(issues.n_errors)
    assert issues.n_errors_interval == (0, 500)


def test_numbers_in_words_are_rounded():
    X, y = load_iris(return_X_y=True)
    lines = find_label_issues(X, y).summary().splitlines()
    errors = "0 to 7 labels may be wrong (95% interval, estimate 0.5)."
    assert lines[0] == f"2 label issues in 150 rows. {errors}"
    assert lines[1] == "  0: 50 rows, 0 label issues, about 0 errors"
