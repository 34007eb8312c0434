"""Members: their parameters, and classifiers as members."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinCommittee
from tests.committee.helpers import table


def test_classifiers_are_members_out_of_bag_or_out_of_folds():
    X, y = table(120, 4, 3)
    forest = RandomForestClassifier(30, oob_score=True, random_state=0)
    members = ["linear", forest, LogisticRegression()]
    model = FuzzyTwinCommittee(members=members, random_state=0).fit(X, np.array(list("abc"))[y])
    assert [m.kernel for m in model.members_] == [
        "linear", "RandomForestClassifier", "LogisticRegression"
    ]  # fmt: skip
    assert set(model.predict(X)) <= set("abc")
    grouped = clone(model).fit(X, y, groups=np.repeat(np.arange(40), 3))
    assert np.isfinite(grouped.loo_log_loss_)
    P = grouped.loo_proba(X, y, groups=np.repeat(np.arange(40), 3))
    assert -np.log(P[np.arange(120), y]).mean() == pytest.approx(grouped.loo_log_loss_, abs=1e-9)


def test_auto_is_one_of_several_members(capsys):
    X, y = table()
    model = FuzzyTwinCommittee(members=["auto", GaussianNB()], verbose=1).fit(X, y)
    assert len(model.members_) == 7
    assert "7 of 7 members" in capsys.readouterr().err
    np.testing.assert_array_equal(
        FuzzyTwinCommittee(members="planes").fit(X, y).predict_proba(X),
        FuzzyTwinCommittee().fit(X, y).predict_proba(X),
    )


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([None], r"members\[0\]=None is not allowed"),
        ([("rbf", 3)], r"members\[0\]=\('rbf', 3\) is not allowed"),
        (("rbf", {"gamma": 1}), r"members\[1\]={'gamma': 1} is not allowed"),
        ([("poly", {"degree": "x"})], r"members\[0\] degree='x' is not allowed"),
        ([("poly", {"degree": 2.5})], r"members\[0\] degree=2.5 is not allowed"),
        ([("poly", {"coef0": "x"})], r"members\[0\] coef0='x' is not allowed"),
    ],
)
def test_what_cannot_be_a_member_is_refused_by_its_place(members, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(members=members).fit(*table())


def test_weights_reach_a_classifier_behind_a_pipeline():
    X, y = load_iris(return_X_y=True)
    s = np.where(np.arange(150) % 3, 1, 3)
    member = make_pipeline(make_pipeline(StandardScaler(), LogisticRegression()))
    weighed = FuzzyTwinCommittee(members=[member]).fit(X, y, s).members_[0].classifier
    # Weights are in units of the mean weight of a row.
    weight = {"pipeline__logisticregression__sample_weight": s * (s.sum() / (s**2).sum())}
    repeated = clone(member).fit(X, y, **weight)
    assert np.abs(weighed.predict_proba(X) - repeated.predict_proba(X)).max() < 1e-6
    assert np.abs(weighed.predict_proba(X) - clone(member).fit(X, y).predict_proba(X)).max() > 0.02
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_"):
        FuzzyTwinCommittee(members=["linear", KNeighborsClassifier()]).fit(X, y, s)


def test_a_class_that_no_classifier_learns_is_named():
    X, y = load_iris(return_X_y=True)
    soft = np.where(y[:, None] == 2, [0.0, 0.6, 0.4], np.eye(3)[y])
    with pytest.raises(ValueError, match=r"GaussianNB is a .* column 2 is not the largest"):
        FuzzyTwinCommittee(members=["linear", GaussianNB()]).fit(X, y, membership=soft)


def test_metadata_routing_changes_no_member():
    X, y = table()
    members = [make_pipeline(StandardScaler(), LogisticRegression())]
    expected = FuzzyTwinCommittee(members=members).fit(X, y, np.arange(1.0, 61.0)).predict_proba(X)
    with config_context(enable_metadata_routing=True):
        found = FuzzyTwinCommittee(members=members).fit(X, y, np.arange(1.0, 61.0)).predict_proba(X)
    np.testing.assert_array_equal(found, expected)
