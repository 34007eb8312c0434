"""Votes of several annotators as soft labels."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.doubts import soft_labels


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
        ([["a", "b"], [None, ""]], {}, "votes has none in row 1 \\(1 such rows"),
        ([["a", "a"]], {}, "votes names 1 class\\(es\\); give votes for at least two"),
        (["a", "b"], {}, "votes has shape \\(2,\\); give one row per sample"),
        ([["a", 1]], {}, "several kinds \\(int, str\\); write all alike"),
        ([["a", "b"]], {"classes": ["a", "c"]}, "votes holds 'b', which is not among classes"),
        ([["a", "b"]], {"classes": ["a", "a"]}, "must be a list of different labels"),
        ([["a", "b"]], {"method": "mean"}, "method='mean' is unknown; use one of 'shares'"),
    ],
)
def test_bad_votes(votes, options, words):
    with pytest.raises(ValueError, match=words):
        soft_labels(votes, **options)
