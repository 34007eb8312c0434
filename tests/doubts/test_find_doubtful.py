"""find_doubtful on tables with known wrong labels."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.doubts import DoubtsDisplay, DoubtsReport, find_doubtful


def flipped(y, share=0.15, seed=0):
    rng = np.random.default_rng(seed)
    classes, codes = np.unique(y, return_inverse=True)
    wrong = rng.random(len(y)) < share
    codes = np.where(wrong, codes + rng.integers(1, len(classes), len(y)), codes) % len(classes)
    return classes[codes], wrong


def quality(report, wrong):
    return roc_auc_score(wrong, -report.degrees), (report.doubtful == wrong).mean()


@pytest.fixture
def pyplot():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


CANCER = load_breast_cancer(return_X_y=True)


def check_report(report, y):
    n, K = len(y), len(np.unique(y))
    assert isinstance(report, DoubtsReport)
    assert report.degrees.shape == report.suggested.shape == report.order.shape == (n,)
    assert report.doubtful.dtype == bool
    assert ((report.degrees >= 0) & (report.degrees <= 1)).all()
    assert (np.diff(report.degrees[report.order]) >= 0).all()
    np.testing.assert_array_equal(report.suggested == y, ~report.doubtful)
    np.testing.assert_allclose(report.noise_matrix.sum(axis=1), 1)
    assert report.noise_matrix.shape == (K, K)
    low, high = report.n_wrong_interval
    assert 0 <= low <= report.n_wrong <= high <= n
    assert report.n_wrong == pytest.approx((1 - report.degrees).sum())


@pytest.mark.parametrize("names", [None, ["malignant", "benign"]])
def test_two_classes(names):
    X, y = CANCER
    labels, wrong = flipped(y if names is None else np.array(names)[y])
    report = find_doubtful(X, labels)
    check_report(report, labels)
    auc, right = quality(report, wrong)
    assert auc > 0.97
    assert right > 0.95
    low, high = report.n_wrong_interval
    assert low < wrong.sum() < high
    truth = y if names is None else np.array(names)[y]
    assert (report.suggested == truth).mean() > 0.95


@pytest.mark.parametrize("labels", ["numbers", "strings"])
def test_five_classes(labels):
    X, y = load_digits(n_class=5, return_X_y=True)
    given, wrong = flipped(y if labels == "numbers" else np.array(list("vwxyz"))[y], 0.25)
    report = find_doubtful(X, given)
    check_report(report, given)
    auc, right = quality(report, wrong)
    assert auc > 0.98
    assert right > 0.97
    truth = y if labels == "numbers" else np.array(list("vwxyz"))[y]
    assert (report.suggested == truth).mean() > 0.97


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_is_not_doubtful_as_such(seed):
    """One row in fifty, overlapping with the others."""
    rng = np.random.default_rng(seed)
    y = (np.arange(2000) % 50 == 0).astype(int)
    X = rng.normal(size=(2000, 4)) + 1.5 * y[:, None]
    report = find_doubtful(X, y)
    assert report.doubtful[y == 1].mean() < 0.25
    assert report.doubtful.mean() < 0.01
    assert y[report.order[:20]].mean() < 0.7
    assert np.median(report.degrees[y == 1]) > 0.9
    labels = y.copy()
    wrong = np.isin(np.arange(2000), rng.choice(np.flatnonzero(y == 0), 20, replace=False))
    labels[wrong] = 1  # a third of those called rare
    report = find_doubtful(X, labels)
    assert report.doubtful[wrong].mean() > 0.6
    assert report.doubtful[y == 1].mean() < 0.35


def test_clean_tables_are_hardly_flagged():
    for load in (load_iris, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        report = find_doubtful(X, y)
        assert report.doubtful.mean() < 0.03
        assert report.n_wrong_interval[0] < 0.01 * len(y)
    apart = make_blobs(200, centers=[[0, 0], [20, 20]], random_state=0)
    assert not find_doubtful(*apart).doubtful.any()


@pytest.mark.parametrize("K", [2, 3])
def test_features_that_tell_nothing_doubt_little(K):
    """Planes fit chance a little; what F1 alone would flag is every second row or more."""
    rng = np.random.default_rng(0)
    report = find_doubtful(rng.normal(size=(400, 5)), rng.integers(0, K, 400))
    assert report.doubtful.mean() < 0.12
    assert report.n_wrong_interval[0] == 0


def test_degrees_go_straight_into_fit():
    X, y = CANCER
    labels, _ = flipped(y, 0.3)
    report = find_doubtful(X, labels)
    Z = StandardScaler().fit_transform(X)
    plain = FuzzyTwinSVC(membership_scope="both").fit(Z, labels).score(Z, y)
    clean = FuzzyTwinSVC(membership_scope="both").fit(Z, labels, membership=report.degrees)
    assert clean.score(Z, y) > plain
    again = report.estimator.fit(X, labels, fuzzytwinsvc__membership=report.degrees)
    assert again.score(X, y) > 0.9


def test_frames_keep_index_and_ids():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.index = y.index = [f"row {i}" for i in range(150)]
    X["flower"] = [f"f{i}" for i in range(150)]
    report = find_doubtful(X, y, ids="flower")
    frame = report.to_frame()
    assert list(frame.index) == list(X.index)
    assert list(frame.columns) == ["flower", "label", "suggested", "degree", "doubtful", "rank"]
    assert list(frame["flower"]) == list(X["flower"])
    assert frame["rank"].to_numpy()[report.order[0]] == 1
    plain = find_doubtful(X.drop(columns="flower").to_numpy(), y.to_numpy())
    np.testing.assert_allclose(report.degrees, plain.degrees)
    assert "id" not in plain.to_frame()
    named = find_doubtful(X.drop(columns="flower"), y, ids=X["flower"])
    assert list(named.to_frame()["id"]) == list(X["flower"])


def test_polars_and_sparse():
    X, y = load_iris(return_X_y=True, as_frame=True)
    report = find_doubtful(
        pl.from_pandas(X).with_columns(name=pl.Series(range(150))), y, ids="name"
    )
    np.testing.assert_allclose(report.degrees, find_doubtful(X, y).degrees)
    check_report(find_doubtful(sparse.csr_matrix(X), y), y)


def test_weights():
    X, y = CANCER
    labels, wrong = flipped(y)
    s = np.ones(len(y))
    np.testing.assert_allclose(
        find_doubtful(X, labels, sample_weight=s).degrees, find_doubtful(X, labels).degrees
    )
    # Rows of weight zero are judged by the others, and teach nothing.
    s[wrong] = 0
    report = find_doubtful(X, labels, sample_weight=s)
    assert roc_auc_score(wrong, -report.degrees) > 0.97
    again = find_doubtful(X, np.where(s > 0, labels, 1 - labels), sample_weight=s)
    np.testing.assert_allclose(again.degrees[s > 0], report.degrees[s > 0], atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        FuzzyTwinSVC(alpha=1.0),
    ],
    ids=["folds", "leave-one-out"],
)
def test_other_estimators(estimator):
    X, y = CANCER
    X = StandardScaler().fit_transform(X)
    labels, wrong = flipped(y)
    s = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    report = find_doubtful(X, labels, estimator, s)
    check_report(report, labels)
    assert quality(report, wrong)[0] > 0.93
    assert type(estimator).__name__ in report.setting
    assert type(report.estimator) is type(estimator)
    assert not hasattr(estimator, "classes_")


def test_other_estimators_may_take_text():
    rng = np.random.default_rng(0)
    town = rng.choice(["Rom", "Bonn"], 200)
    labels, wrong = flipped((town == "Rom").astype(int))
    model = make_pipeline(OneHotEncoder(), LogisticRegression())
    report = find_doubtful(pd.DataFrame({"town": town}), labels, model, cv=3)
    np.testing.assert_array_equal(report.doubtful, wrong)
    assert report.setting == "Pipeline out of 3 folds"


def test_same_call_same_answer_and_words():
    X, y = CANCER
    labels, _ = flipped(y)
    report, again = find_doubtful(X, labels), find_doubtful(X, labels)
    np.testing.assert_array_equal(report.degrees, again.degrees)
    assert "2 classes" in repr(report)
    assert "leave-one-out planes on scaled columns" in report.summary()
    assert "probably wrong" in report.summary()


def test_display(pyplot):
    X, y = load_iris(return_X_y=True)
    labels, _ = flipped(y)
    display = DoubtsDisplay.from_estimator(None, X, labels, ids=[f"$x{i}" for i in range(150)])
    assert display.classes_.tolist() == [0, 1, 2]
    assert f"about {display.report.n_wrong:,.0f} " in display.ax_.get_title()
    worst = display.report.order[0]
    words = "".join(text.get_text() for text in display.ax_.texts)
    assert rf"\$x{worst}" in words
    dots = sum(len(line.get_xdata()) for line in display.ax_.lines if line.get_marker() == ".")
    assert dots == display.report.doubtful.sum()
    display.figure_.canvas.draw()
    _, ax = pyplot.subplots()
    assert DoubtsDisplay.from_report(display.report, n_named=0, ax=ax).ax_ is ax
    assert not ax.texts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0] * 20}, "y has one class only \\(0\\); give labels"),
        ({"y": [None] + [0, 1] * 9 + [1]}, "y has no label in row 0; leave out"),
        (
            {"y": pd.Series(["a", "b"] * 9 + ["a", pd.NA], dtype="string").iloc[[19, *range(19)]]},
            "y has no label in row 0",
        ),
        ({"X": np.full((20, 2), np.nan)}, "NaN in column 0; fill it in"),
        ({"X": pd.DataFrame({"a": ["x"] * 20})}, "column 'a'; encode it as numbers"),
        ({"sample_weight": [-1] * 20}, "sample_weight holds -1"),
        ({"sample_weight": [0, 1] * 10}, "zero for every row of class 0; give"),
        ({"ids": "name"}, "ids='name' is not a column of X; X has no names"),
        ({"ids": ["a"]}, "ids has 1 names for 20 rows; give one for each row"),
        ({"estimator": LinearSVC()}, "is not a classifier with predict_proba; give one"),
        ({"estimator": LogisticRegression}, "is not a classifier with predict_proba; give one"),
        ({"estimator": LogisticRegression(), "cv": 1}, "cv=1; folds need two"),
        (
            {"estimator": LogisticRegression(), "y": [0] * 19 + [1]},
            "class 1 has 1 row\\(s\\) and cv=5; folds need two",
        ),
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
    ],
)
def test_bad_input(change, words):
    given = {"X": np.random.default_rng(0).normal(size=(20, 2)), "y": [0, 1] * 10, **change}
    with pytest.raises(ValueError, match=words):
        find_doubtful(**given)
