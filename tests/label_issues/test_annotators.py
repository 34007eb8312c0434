"""Votes of several annotators as soft labels."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.label_issues import find_label_issues, soft_labels


def made(n=400, K=3, right=(0.95, 0.8, 0.5, 0.4), gaps=0.2, seed=0):
    """Classes, and the votes of annotators who are right so often; -1 where they did not vote."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    votes = np.empty((n, len(right)), dtype=int)
    for a, share in enumerate(right):
        error = (truth + rng.integers(1, K, n)) % K
        votes[:, a] = np.where(rng.random(n) < share, truth, error)
    votes[rng.random(votes.shape) < gaps] = -1
    return truth, votes


def with_gaps(votes):
    table = votes.astype(float)
    table[votes < 0] = np.nan
    return table[~np.isnan(table).all(axis=1)]


def brute_likelihood(table, priors, theta):
    """L by a loop over rows, classes and annotators."""
    total, probabilities = 0.0, []
    for row in table:
        joint = np.array(priors)
        for k, a in itertools.product(range(len(priors)), range(len(row))):
            if not np.isnan(row[a]):
                joint[k] *= theta[a][k][int(row[a])]
        total += np.log(joint.sum())
        probabilities.append(joint / joint.sum())
    return total, np.array(probabilities)


def test_shares_by_hand():
    votes = [["b", "a", None], ["b", "b", "b"], ["a", np.nan, ""]]
    np.testing.assert_allclose(soft_labels(votes), [[0.5, 0.5], [0, 1], [1, 0]])


@pytest.mark.parametrize("seed", range(3))
def test_dawid_skene_maximises_the_likelihood(seed):
    _, votes = made(n=120, seed=seed)
    table = with_gaps(votes)
    degrees, found = soft_labels(table, "dawid-skene", return_annotators=True)
    likelihood, probabilities = brute_likelihood(table, found.priors, found.confusion)
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-8)
    np.testing.assert_allclose(degrees, probabilities, atol=1e-3)
    rng = np.random.default_rng(seed)
    for _ in range(20):  # no step from there leads up
        priors = found.priors * np.exp(0.05 * rng.normal(size=3))
        theta = found.confusion * np.exp(0.05 * rng.normal(size=found.confusion.shape))
        priors, theta = priors / priors.sum(), theta / theta.sum(axis=2, keepdims=True)
        assert brute_likelihood(table, priors, theta)[0] < likelihood + 1e-6


def test_dawid_skene_knows_whom_to_trust():
    truth, votes = made(n=1000, gaps=0.0)
    degrees, found = soft_labels(votes, "dawid-skene", return_annotators=True)
    np.testing.assert_allclose(found.reliability, (0.95, 0.8, 0.5, 0.4), atol=0.05)
    shares = soft_labels(votes)
    assert (degrees.argmax(axis=1) == truth).mean() > (shares.argmax(axis=1) == truth).mean() + 0.05
    np.testing.assert_allclose(degrees.sum(axis=1), 1)


def test_an_annotator_who_always_lies_still_helps():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    votes = np.stack([truth, truth, 1 - truth], axis=1)
    votes[:30, 0] = 1 - votes[:30, 0]
    degrees, found = soft_labels(votes, "dawid-skene", return_annotators=True)
    assert (degrees.argmax(axis=1) == truth).all()
    assert found.reliability[2] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("method", ["shares", "dawid-skene"])
def test_every_kind_of_gap_and_table(method):
    _, votes = made(n=50)
    votes = votes[(votes >= 0).any(axis=1)]
    expected = soft_labels(with_gaps(votes), method)
    words = np.array(["", "a", "b", "c"])[votes + 1]
    masked = np.ma.array(votes, mask=votes < 0)
    frame = pd.DataFrame(with_gaps(votes), columns=list("wxyz"))
    for table in (
        words,
        np.where(votes < 0, None, words),
        masked,
        frame,
        frame.astype("Int64"),
        pl.from_pandas(frame, nan_to_null=True),
        with_gaps(votes).tolist(),
    ):
        np.testing.assert_allclose(soft_labels(table, method), expected)
    _, found = soft_labels(frame, method, return_annotators=True)
    assert found.names == list("wxyz")
    assert found.classes.tolist() == [0, 1, 2]
    assert found.classes.dtype.kind == "i"


def test_classes_give_order_and_width():
    degrees = soft_labels([["b", "a"], ["b", "b"]], classes=["b", "a", "c"])
    np.testing.assert_allclose(degrees, [[0.5, 0.5, 0], [1, 0, 0]])


def test_an_annotator_without_votes():
    votes = [[0, 1, None], [1, 1, None], [0, 0, None]]
    degrees, found = soft_labels(votes, "dawid-skene", return_annotators=True)
    assert np.isfinite(degrees).all()
    assert np.isnan(found.reliability[2])


def test_goes_straight_into_fit():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    votes = np.stack([np.where(rng.random(150) < p, rng.permutation(y), y) for p in (0.2, 0.5)], 1)
    degrees, found = soft_labels(votes, "dawid-skene", return_annotators=True)
    labels = found.classes[degrees.argmax(axis=1)]
    model = FuzzyTwinSVC().fit(X, labels, membership=degrees)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize(
    ("votes", "options", "words"),
    [
        ([["a", "b"], [None, ""]], {}, "votes is empty in row 1 \\(1 such rows"),
        ([["a", "a"]], {}, "votes names 1 class\\(es\\); give votes for at least two"),
        (["a", "b"], {}, "votes has shape \\(2,\\); give a column for each annotator"),
        ([["a", 1]], {}, "several kinds \\(int, str\\); use one type"),
        ([["a", "b"]], {"classes": ["a", "c"]}, "votes holds 'b', which is not among classes"),
        ([["a", "b"]], {"classes": ["a", "a"]}, "must be a list of different labels"),
        ([["a", "b"]], {"method": "mean"}, "method='mean' is unknown; use one of 'shares'"),
    ],
)
def test_bad_votes(votes, options, words):
    with pytest.raises(ValueError, match=words):
        soft_labels(votes, **options)


@pytest.mark.parametrize("none", [-1, "", "NA", None, np.nan])
def test_some_votes_are_none(none):
    votes = np.array([[0, 1, none], [1, 1, none], [none, 0, 0], [1, none, 1]], dtype=object)
    shares = soft_labels(votes)
    assert shares.shape == (4, 2)
    np.testing.assert_allclose(shares[1], [0, 1])


@pytest.mark.parametrize("mark", ["", "NA", "n/a", "?", "null", "-1", -1])
def test_what_classes_or_y_names_is_a_label_and_no_mark_of_a_missing_vote(mark):
    votes = np.array([[mark, mark, "b"], [mark, "b", "b"], [None, mark, np.nan]], dtype=object)
    with pytest.raises(ValueError, match=r"votes names 1 class|-1 could be a label"):
        soft_labels(votes)
    shares = soft_labels(votes, classes=np.array([mark, "b"], dtype=object))
    np.testing.assert_allclose(shares[:, 0], [2 / 3, 1 / 3, 1])


def test_labels_of_y_may_be_called_like_missing_votes():
    X, y = make_classification(100, 4, random_state=0)
    votes = np.column_stack([y, 1 - y, y])
    plain = find_label_issues(X, y, votes=votes)
    named = np.array(["NA", "b"], dtype=object)
    report = find_label_issues(X, named[y], votes=named[votes])
    assert report.classes.tolist() == ["NA", "b"]
    np.testing.assert_allclose(report.label_quality, plain.label_quality)


def test_none_in_text_is_a_label():
    words = np.array(["None", "Mild", "Severe"], dtype=object)
    other = np.array(["Nil", "Mild", "Severe"], dtype=object)
    truth, votes = made(right=(0.8, 0.7, 0.7))
    shares = [soft_labels(np.where(votes < 0, None, w[votes]), classes=w) for w in (words, other)]
    np.testing.assert_array_equal(*shares)
    X = np.random.default_rng(0).normal(size=(len(truth), 3)) + np.eye(3)[truth]
    y = words[truth]
    assert find_label_issues(X, votes=words[np.abs(votes)]).classes.tolist() == sorted(words)
    assert find_label_issues(X, y).classes.tolist() == sorted(words)


def test_minus_one_beside_one_other_label_is_asked_about():
    votes = [[1, -1], [-1, -1], [1, 1]]
    with pytest.raises(ValueError, match="-1 could be a label or mean no vote"):
        soft_labels(votes)
    np.testing.assert_allclose(soft_labels(votes, classes=[-1, 1])[1], [1, 0])


def test_annotators_with_one_label_each_are_refused_by_dawid_skene():
    votes = [["a", "b"], ["a", "b"], ["a", None]]
    with pytest.raises(ValueError, match="every annotator in votes uses one label only"):
        soft_labels(votes, "dawid-skene")
    np.testing.assert_allclose(soft_labels(votes)[0], [0.5, 0.5])


def crowd(errors=(0.1, 0.3, 0.45, 0.8), n=300, seed=0):
    """A good, a middling, a lazy and an adversarial annotator, who leave out rows."""
    X, truth = make_classification(n, 6, n_informative=4, class_sep=1.0, random_state=seed)
    rng = np.random.default_rng(seed)
    wrong = rng.random((n, len(errors))) < errors
    votes = np.where(wrong, 1 - truth[:, None], truth[:, None]).astype(object)
    votes[rng.random(votes.shape) < 0.3] = -1
    votes[(votes == -1).all(axis=1), 0] = 0
    return X, truth, votes


def test_votes_and_columns_together():
    X, truth, votes = crowd()
    report = find_label_issues(X, votes=votes)
    skene = soft_labels(votes, "dawid-skene", classes=[0, 1]).argmax(axis=1)
    assert (report.suggested_labels == truth).mean() > (skene == truth).mean()
    assert (report.suggested_labels == truth).mean() > (
        report.classes[report.codes] == truth
    ).mean()
    np.testing.assert_allclose(report.annotators.reliability, [0.9, 0.7, 0.55, 0.2], atol=0.12)
    asked = report.sample_for_review(20)
    assert (report.suggested_labels == truth)[asked].mean() < (
        report.suggested_labels == truth
    ).mean()
    assert "Estimated accuracy of the annotators: 0 9" in report.summary()
    frame = pd.DataFrame(votes, columns=["ann", "bob", "eve", "joe"])
    labels = np.where(truth == 1, "yes", "no")
    words = frame.replace({0: "no", 1: "yes", -1: ""})
    judged = find_label_issues(X, labels, votes=words)  # a label is one more vote
    assert judged.annotators.names == ["ann", "bob", "eve", "joe", "label"]
    assert judged.annotators.reliability[-1] > 0.9
    np.testing.assert_array_equal(judged.classes[judged.codes], labels)


def small_crowd(seed=0, n=120, K=2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[truth]
    wrong = rng.random((n, 4)) < [0.15, 0.2, 0.2, 0.1]
    return X, np.where(wrong, (truth[:, None] + 1) % K, truth[:, None])


def test_votes_on_rows_of_weight_0_count_nowhere():
    X, votes = small_crowd()
    used = np.arange(120) >= 40
    votes[~used] = np.random.default_rng(1).integers(0, 2, (40, 4))
    weighted = find_label_issues(X, votes=votes, sample_weight=used.astype(float))
    absent = find_label_issues(X[used], votes=votes[used])
    np.testing.assert_allclose(weighted.annotators.confusion, absent.annotators.confusion)
    np.testing.assert_allclose(weighted.annotators.reliability, absent.annotators.reliability)
    np.testing.assert_allclose(weighted.annotators.priors, absent.annotators.priors)
    np.testing.assert_allclose(weighted.label_quality[used], absent.label_quality)
    assert weighted.n_errors == pytest.approx((1 - weighted.label_quality).sum())
    votes[0, 0] = 2
    with pytest.raises(ValueError, match="sample_weight is zero for every row with a vote for 2"):
        find_label_issues(X, votes=votes, sample_weight=used.astype(float))


@pytest.mark.parametrize("K", [2, 3])
def test_a_row_of_weight_w_has_the_votes_of_w_copies_in_one_group(K):
    X, votes = small_crowd(n=90, K=K)
    weight = np.random.default_rng(2).integers(1, 4, 90)
    copies = np.repeat(np.arange(90), weight)
    weighted = find_label_issues(X, votes=votes, sample_weight=7.0 * weight)
    repeated = find_label_issues(X[copies], votes=votes[copies], groups=copies)
    np.testing.assert_allclose(weighted.label_quality[copies], repeated.label_quality, atol=1e-9)
    np.testing.assert_allclose(weighted.annotators.confusion, repeated.annotators.confusion)


def test_with_votes_the_most_probable_label_is_suggested():
    """Also below 80%, which labels without votes need: the votes are evidence of their own."""
    truth, votes = made(right=(0.7, 0.6, 0.6))
    voted = (votes >= 0).any(axis=1)
    truth, votes = truth[voted], votes[voted]
    X = np.random.default_rng(0).normal(size=(len(truth), 3)) + 2 * np.eye(3)[truth]
    report = find_label_issues(X, votes=votes)
    best = report.posterior.max(axis=1)
    assert (best < 0.8).any()
    assert (report.suggested_labels == report.classes[report.posterior.argmax(axis=1)]).all()
    given = (report.given_labels == truth).mean()
    assert (report.suggested_labels == truth).mean() > given + 0.05
    assert "a suggestion (the most probable label is not the given one)" in report.summary()


def test_votes_and_bad_input():
    X, _, votes = crowd(n=60)
    with pytest.raises(ValueError, match="y is missing; give the labels, or votes"):
        find_label_issues(X)
    with pytest.raises(ValueError, match="does not take votes"):
        find_label_issues(X, votes=votes, estimator=LogisticRegression())
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        find_label_issues(X[1:], votes=votes)


def test_minus_one_is_a_label_of_votes_where_it_is_one_of_y():
    X, y = make_classification(100, 4, random_state=0)
    votes = np.column_stack([y, y, 1 - y])
    plain = find_label_issues(X, y, votes=votes)
    signed = find_label_issues(X, 2 * y - 1, votes=2 * votes - 1)
    assert signed.classes.tolist() == [-1, 1]
    np.testing.assert_allclose(signed.label_quality, plain.label_quality)
    gaps = np.where(np.arange(300).reshape(100, 3) % 7 == 0, np.nan, 2.0 * votes - 1)
    assert find_label_issues(X, 2 * y - 1, votes=gaps).classes.tolist() == [-1, 1]


def test_labels_beside_votes_must_be_there():
    X, y = make_classification(100, 4, random_state=0)
    votes = np.column_stack([y, 1 - y, y])
    missing = y.astype(object)
    missing[3] = None
    with pytest.raises(ValueError, match="y has no label in row 3"):
        find_label_issues(X, missing, votes=votes)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        find_label_issues(X, y[:50], votes=votes)


def test_masked_votes_beside_labels_are_none():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 2)) + 2 * y[:, None]
    votes = np.ma.masked_equal(np.where(rng.random((40, 3)) < 0.2, 9, y[:, None]), 9)
    assert find_label_issues(X, y, votes=votes).classes.tolist() == [0, 1]


def voted_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    right = X[:, 0] > 0
    votes = np.column_stack([np.where(rng.random(n) < 0.1, ~right, right) for _ in range(3)])
    return X, np.where(votes, "yes", "no").astype(object)


def test_rare_labels_that_meet_on_one_row_are_labels_too():
    X, votes = voted_rows()
    votes[5] = ["maybe", "never", "yes"]
    report = find_label_issues(X, votes=votes)
    assert report.classes.tolist() == ["maybe", "never", "no", "yes"]
    others = np.delete(np.arange(60), 5)
    assert np.isin(report.suggested_labels[others], ["no", "yes"]).all()
    votes[6:8, :2] = ["maybe", "never"]  # and on three rows, each time both
    assert find_label_issues(X, votes=votes).posterior.shape == (60, 4)


def test_more_labels_than_rows_are_refused_by_number():
    votes = [["a", "b", "c"], ["d", "e", "f"], ["a", "e", "c"]]
    with pytest.raises(ValueError, match="votes holds 6 labels for 3 rows; give more rows"):
        find_label_issues(np.eye(3), votes=votes)
