"""The parameters of FuzzyTwinSVC: weights, C by class, soft labels, degrees."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris

import fuzzytwin
from fuzzytwin import FuzzyTwinSVC, MembershipWeighted
from tests.twin.helpers import NAMES, PLANES, WAYS, assert_same_model


@pytest.mark.parametrize("membership", WAYS)
@pytest.mark.parametrize("planes", PLANES)
def test_class_weight_is_a_sample_weight(rows, planes, membership):
    X, y = rows[0][:120], rows[1][:120]  # 50, 50, 20
    s = np.linspace(1, 2, 120)
    model = FuzzyTwinSVC(
        planes=planes, membership=membership, class_weight={0: 1.0, 1: 3.0, 2: 0.5}
    )
    plain = FuzzyTwinSVC(planes=planes, membership=membership)
    # the weights of neighbours count repetitions, which class_weight does not change
    counting = membership in ("neighbor", "entropy", "intuitionistic")
    given = plain.fit(X, y, s).membership_ if counting else None
    factor = np.array([1, 3, 0.5])
    assert_same_model(model.fit(X, y, s), plain.fit(X, y, s * factor[y], membership=given))
    totals = np.bincount(y, s)
    factor = totals.mean() / totals
    balanced = FuzzyTwinSVC(planes=planes, membership=membership, class_weight="balanced").fit(
        X, y, s
    )
    assert_same_model(balanced, plain.fit(X, y, s * factor[y], membership=given))
    assert_allclose(balanced.membership_, plain.membership_)


def test_balanced_counts_as_in_scikit_learn(rows):
    X, y = rows[0][:120], rows[1][:120]
    s = sklearn.utils.compute_sample_weight("balanced", y)
    assert_same_model(FuzzyTwinSVC(class_weight="balanced").fit(X, y), FuzzyTwinSVC().fit(X, y, s))


def test_degrees_of_both_terms_are_sample_weights():
    """The known answer is that of weights s mu in both terms."""
    X, y = load_iris(return_X_y=True)
    mu = np.linspace(0, 1, 150)
    s = np.linspace(1, 2, 150)
    found = FuzzyTwinSVC().fit(X, y, sample_weight=mu * s)
    known = [[0.056582, 0.209379, -0.230847, -0.187072], [-0.056582, -0.209379, 0.230847, 0.187072]]
    assert_allclose(found.coef_[:2], known, atol=1e-6)
    given = MembershipWeighted(estimator=FuzzyTwinSVC(), membership="center")
    assert_same_model(given.fit(X, y, s, membership=mu).estimator_, found)


def test_membership_weighs_the_slack_alone(rows):
    """Plane k of degrees mu is plane k of weights 1 on its own class, mu on its rivals."""
    X, y = rows
    mu = np.linspace(0.2, 1, 150)
    model = FuzzyTwinSVC(planes="fuzzy", alpha=10.0).fit(X, y, membership=mu)
    for k in range(3):
        weighted = clone(model).fit(X, y, sample_weight=np.where(y == k, 1, mu))
        own = model.plane_classes_[:, 0] == k
        for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
            assert_allclose(
                getattr(model, name)[own], getattr(weighted, name)[own], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize("C", [[0.1, 1, 20], (0.1, 1, 20), np.array([0.1, 1, 20])])
def test_C_per_class_moves_its_own_plane(rows, planes, C):
    X, y = rows
    model = FuzzyTwinSVC(planes=planes, C=C, alpha=10.0).fit(X, y)
    for k in range(3):
        single = clone(model).set_params(C=float(C[k])).fit(X, y)
        # C is a weight of the rivals.
        weighted = clone(model).set_params(C=1.0).fit(X, y, np.where(y == k, 1.0, C[k]))
        own = model.plane_classes_[:, 0] == k
        for other in (single, weighted):
            assert_allclose(model.coef_[own], other.coef_[own], rtol=1e-9)
            assert_allclose(model.intercept_[own], other.intercept_[own], rtol=1e-9)


@pytest.mark.parametrize("planes", PLANES)
def test_one_hot_soft_labels_are_labels(rows, planes):
    X, y = rows
    s = np.linspace(1, 2, 150)
    soft = FuzzyTwinSVC(planes=planes, membership="center").fit(X, y, s, membership=np.eye(3)[y])
    assert_same_model(soft, FuzzyTwinSVC(planes=planes).fit(X, y, s))
    assert soft.membership_.shape == (150, 3)


@pytest.mark.parametrize("planes", PLANES)
def test_soft_labels_are_repeated_rows_with_weights(rows, planes):
    X, y = rows
    s = np.linspace(1, 2, 150)
    table = np.random.default_rng(0).uniform(size=(150, 3)) * [1, 0.5, 1]
    table[:20, 1] = 0
    soft = FuzzyTwinSVC(planes=planes).fit(X, y, s, membership=table)
    hard = FuzzyTwinSVC(planes=planes).fit(
        np.tile(X, (3, 1)), np.repeat([0, 1, 2], 150), (s[:, None] * table).T.ravel()
    )
    assert_same_model(soft, hard)


def test_soft_labels_replace_the_labels(rows):
    """y then only names the columns."""
    X, y = rows
    table = np.random.default_rng(0).uniform(size=(150, 3))
    assert_same_model(
        FuzzyTwinSVC().fit(X, y, membership=table), FuzzyTwinSVC().fit(X, y[::-1], membership=table)
    )


@pytest.mark.parametrize("membership", WAYS)
def test_given_degrees_override_the_parameter(rows, membership):
    X, y = rows
    mu = np.linspace(0, 1, 150)
    model = FuzzyTwinSVC(membership=membership).fit(X, y, membership=mu)
    assert_same_model(model, FuzzyTwinSVC().fit(X, y, membership=mu))
    assert_array_equal(model.membership_, mu)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_its_class_and_its_degrees(rows, name):
    X, y = rows
    way = getattr(fuzzytwin, f"{name.capitalize()}Membership")()
    named = FuzzyTwinSVC(membership=name).fit(X, y)
    assert_array_equal(named.coef_, FuzzyTwinSVC(membership=way).fit(X, y).coef_)
    assert_allclose(named.membership_, way(X, y))
    assert_same_model(named, FuzzyTwinSVC().fit(X, y, membership=way(X, y)))


def test_callable_gets_rows_labels_and_weights(pair):
    X, y = pair
    labels = np.where(y, "b", "a")
    seen = []

    def way(*given):
        seen.extend(given)
        return np.full(100, 0.5)

    FuzzyTwinSVC(membership=way, class_weight={"a": 1.0, "b": 2.0}).fit(X, labels, np.full(100, 3))
    assert_array_equal(seen[0], X)
    assert_array_equal(seen[1], labels)
    assert_array_equal(seen[2], np.full(100, 3.0))  # without class_weight


def test_refitting_forgets(rows, pair):
    """Fitted again on other data, a model is as new."""
    model = FuzzyTwinSVC(planes="fuzzy").fit(*rows).set_params(planes="crisp").fit(*pair)
    new = FuzzyTwinSVC().fit(*pair)
    assert vars(model).keys() == vars(new).keys()
    assert_array_equal(model.coef_, new.coef_)
