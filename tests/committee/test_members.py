"""Members: their parameters."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from fuzzytwin import FuzzyTwinCommittee
from tests.committee.helpers import table


def test_planes_are_the_default_members_without_trees(capsys):
    X, y = table()
    planes = FuzzyTwinCommittee(members="planes", verbose=1).fit(X, y).members_
    assert "5 of 5 members" in capsys.readouterr().err
    assert [member.kernel for member in planes] == ["linear", "rbf", "rbf", "rbf", "laplacian"]
    *members, boosting, forest = FuzzyTwinCommittee().fit(X, y).members_
    assert [boosting.trees.kind, forest.trees.kind] == ["boosted trees", "forest"]
    for one, other in zip(planes, members, strict=True):
        np.testing.assert_array_equal(one.coef, other.coef)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([None], r"members\[0\]=None is not allowed"),
        ([("rbf", 3)], r"members\[0\]=\('rbf', 3\) is not allowed"),
        (("rbf", {"gamma": 1}), r"members\[1\]={'gamma': 1} is not allowed"),
        (["rbf", GaussianNB()], r"members\[1\]=.*StackingClassifier"),
        (["auto"], r"members\[0\]='auto' is unknown"),
        ([("poly", {"degree": "x"})], r"members\[0\] degree='x' is not allowed"),
        ([("poly", {"degree": 2.5})], r"members\[0\] degree=2.5 is not allowed"),
        ([("poly", {"coef0": "x"})], r"members\[0\] coef0='x' is not allowed"),
    ],
)
def test_what_cannot_be_a_member_is_refused_by_its_place(members, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(members=members).fit(*table())
